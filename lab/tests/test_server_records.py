"""The records of servers have every field of the kept raw files, with the types that these have."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pagehop_lab.analysis.server_records import (
    UNKNOWN,
    Costs,
    LoadedRecord,
    ServerRecord,
    number,
    number_if_any,
)
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.catalog import OF_SERVERS, suite_of

RESULTS = Path(__file__).parents[1] / "results"
SUITES = {
    path.parent.name: suite_of(path.read_text()).name for path in sorted(RESULTS.glob("*/plan-*.toml"))
}  # fmt: skip
RUNS = [run for run, suite in SUITES.items() if suite in OF_SERVERS]


def record_of(suite: str) -> Any:
    """The record of a suite's tests."""
    (base,) = vars(type(OF_SERVERS[suite]))["__orig_bases__"]
    (found,) = typing.get_args(base)
    return found


def mistakes(value: Any, kind: Any, place: str) -> list[str]:
    """Where a value of a raw file is not what a record says."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        of_each = [mistakes(value, one, place) for one in args]
        return [] if not all(of_each) else max(of_each, key=len)
    if typing.is_typeddict(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        found = [f"{place}.{name} is missing" for name in kind.__required_keys__ if name not in value]
        found += [f"{place}.{name} is not in {kind.__name__}" for name in value if name not in hints]
        # A raw file has the name of the arrays' file instead of the arrays.
        of = {name: str if name == "arrays" else hint for name, hint in hints.items()}
        return found + [one for name in value if name in of for one in mistakes(value[name], of[name], f".{name}")]
    if origin is Mapping and isinstance(value, dict):
        return [one for name, inner in value.items() for one in mistakes(inner, args[1], f"{place}.{name}")]
    if origin in (Sequence, tuple) and isinstance(value, list):
        kinds = args if origin is tuple else args * len(value)
        return [one for inner, of in zip(value, kinds, strict=True) for one in mistakes(inner, of, f"{place}[]")]
    plain = (int, float) if kind is float else kind
    is_plain = isinstance(plain, type | tuple) and isinstance(value, plain)
    fits = is_plain and (kind is bool or not isinstance(value, bool))
    return [] if fits else [f"{place} = {value!r} is not {kind}"]


def test_a_value_that_a_record_does_not_say_is_found() -> None:
    whole = {"load_s": 1, "ceiling": {"qps": 1.5, "lines": {"0": [[0.5, 1, 2]]}}, "client_us": None}
    assert mistakes(whole, LoadedRecord, "") == []
    assert mistakes(whole | {"load": 1.0}, LoadedRecord, "") == [".load is not in LoadedRecord"]
    (wrong,) = mistakes({"ceiling": {"qps": "much"}}, LoadedRecord, "")
    assert wrong.startswith(".qps = 'much' is not")
    assert mistakes({"rows": True}, LoadedRecord, "")
    assert mistakes({"rows": 1.5}, LoadedRecord, "")
    assert mistakes({"disk": {"reads": 1}}, record_of("point-reads"), "")


@pytest.mark.parametrize("run", RUNS)
def test_kept_raw_files_are_as_the_records_say(run: str) -> None:
    folder = RunFolder(RESULTS / run)
    kinds = {"points": record_of(SUITES[run]), "builds": LoadedRecord, "engines": ServerRecord}
    for name, kind in kinds.items():
        records = [record for record in folder.all(name) if record.failed is None]
        assert records or name == "engines", name
        for record in records:
            assert mistakes(record.raw, kind, "") == [], record.file


def test_kept_runs_are_of_every_suite_of_servers() -> None:
    assert {SUITES[run] for run in RUNS} == set(OF_SERVERS)


def test_what_is_not_known_of_a_server_has_every_cost() -> None:
    assert set(UNKNOWN) == set(Costs.__annotations__)
    assert set(UNKNOWN.values()) == {None}


def test_a_figure_that_a_plan_names_is_a_number() -> None:
    assert number({"rows": 3}, "rows") == 3
    assert number_if_any({"rows": None}, "rows") is number_if_any({}, "rows") is None
    assert number_if_any({"rows": 2.5}, "rows") == 2.5
    with pytest.raises(KeyError):
        number({}, "rows")
    with pytest.raises(AssertionError, match="plan is not a number"):
        number({"plan": "words"}, "plan")
