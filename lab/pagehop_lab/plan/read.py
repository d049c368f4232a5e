"""Reads a plan from its file.

An error names the place of the key and the name that was probably meant.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

from pagehop_lab import data
from pagehop_lab.analysis import curve
from pagehop_lab.data import files
from pagehop_lab.engines.catalog import CATALOG, NAMES
from pagehop_lab.engines.engine import Served
from pagehop_lab.plan.aims import read_aims
from pagehop_lab.plan.model import (
    CACHES,
    SUITES,
    TARGETS,
    DatasetSpec,
    EngineSpec,
    Load,
    Options,
    OptionValue,
    Plan,
    RecallBy,
    without_passwords,
)  # fmt: skip
from pagehop_lab.plan.tables import PlanError, Table, choose, listed

__all__ = ["PlanError", "read_text"]

_DEFAULTS = Load()
# Sets of a plan that `--set` has replaced by others.
_LEFT_OUT = "sets_left_out"


def on_sets(text: str, sets: Sequence[str]) -> str:
    """The text of a plan on other sets, `NAME` or `NAME=ROWS`.

    Each gets the options of the first set. The text names the plan's own sets, since aims may be
    about these alone.
    """
    parts = re.split(r"^(?=\s*\[)", text, flags=re.MULTILINE)
    own = [part for part in parts if part.lstrip().startswith("[[dataset]]")]
    if not own:
        return _on_set_of_load(text, sets)
    # Only a set of a file has the last two, and a set that is known by its name is none.
    replaced = re.compile(r"\s*(name|path|rows|metric|queries_path|column)\s*=")
    kept = [line for line in own[0].splitlines()[1:] if not replaced.match(line)]
    named = []
    for given in sets:
        name, rows = _asked_set(given)
        # Of a generated set, rows are an option; of others, a part of the name.
        is_made = rows and name.startswith(("generated-", "uniform-"))
        called = (
            [f'name = "{name}"', f"rows = {rows}"] if is_made else [f'name = "{"-".join(filter(None, (name, rows)))}"']
        )
        lines = ["[[dataset]]", *called, *kept]
        named.append("\n".join(lines).rstrip() + "\n\n")
    at = parts.index(own[0])
    others = [part for part in parts[at:] if part not in own]
    listed_ = ", ".join(f'"{name}"' for name in _names(text))
    return "".join([f"{_LEFT_OUT} = [{listed_}]   # --set replaces them\n", *parts[:at], *named, *others])


def _asked_set(given: str) -> tuple[str, str]:
    """The name and the rows that `--set` has; its rows are empty if it has none."""
    name, equals, rows = given.partition("=")
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or (equals and not re.fullmatch("[0-9]+", rows)):
        raise PlanError(f"--set {given}: NAME, or NAME=ROWS for the first rows of a set; {', '.join(data.NAMED)}")
    return name, rows


def _names(text: str) -> list[str]:
    """The names of the sets of a plan."""
    try:
        found = tomllib.loads(text)["dataset"]
        return [str(one.get("name") or Path(one["path"]).stem) for one in found]
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"this is not TOML: {error}") from None
    except (KeyError, AttributeError, TypeError):
        # The plan is wrong, and its reader says what.
        return []


def _on_set_of_load(text: str, sets: Sequence[str]) -> str:
    """The same for a plan of servers, whose load has one set."""
    if not re.search(r"^dataset\s*=", text, re.MULTILINE):
        raise PlanError("there is no [[dataset]]")
    if len(sets) > 1:
        raise PlanError(f"--set {sets[1]}: a plan of servers has one set")
    name, rows = _asked_set(sets[0])
    kept = "".join(line for line in text.splitlines(keepends=True) if not re.match(r"dataset_rows\s*=", line))
    said = f'dataset = "{name}"' + (f"\ndataset_rows = {rows}" if rows else "")
    return re.sub(r"^dataset\s*=[^\n]*", said, kept, count=1, flags=re.MULTILINE)


def read_text(text: str, name: str) -> Plan:
    """The plan of a text; `name` is its name if the text has none."""
    try:
        table = Table("", tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"this is not TOML: {error}") from None
    name = table.take("name", str, name)
    suite = choose("suite", table.take("suite", str, SUITES[0]), SUITES)
    seed = table.take("seed", int, 1, least=0)
    recall = cast(RecallBy, choose("recall", table.take("recall", str, "threshold"), get_args(RecallBy)))
    targets = table.take_list("targets", float, TARGETS, least=0)
    base = table.take_some("base", str)
    load = _load(table.take_table("load"), suite)
    datasets = [_dataset(one) for one in table.take_tables("dataset")]
    engines = [_engine(one) for one in table.take_tables("engine")]
    left_out = table.take_list(_LEFT_OUT, str, ())
    names = [one.name for one in engines], [one.name for one in datasets]
    aims = [one for each in table.take_tables("aim") for one in read_aims(each, load, *names, left_out)]
    table.refuse_unknown()
    _say_missing(datasets, engines)
    _say_impossible(suite, load, engines)
    if max(targets) > 1:
        raise PlanError(f"targets: {max(targets):g} is not a recall, the most is 1")
    if base is not None:
        choose("base", base, [engine.name for engine in engines])
    return Plan(
        name, suite, tuple(datasets), tuple(engines), load, seed, recall, targets, base, tuple(aims),
        without_passwords(text),
    )  # fmt: skip


def _say_missing(datasets: Sequence[DatasetSpec], engines: Sequence[EngineSpec]) -> None:
    if not datasets:
        raise PlanError("there is no [[dataset]]")
    if not engines:
        raise PlanError("there is no [[engine]]")
    for what, names in [("dataset", [one.name for one in datasets]), ("engine", [one.name for one in engines])]:
        for number, name in enumerate(names):
            if name in names[:number]:
                raise PlanError(f"{what}[{number + 1}].name: {name} is there twice; give lists of options instead")


def _say_impossible(suite: str, load: Load, engines: Sequence[EngineSpec]) -> None:
    """Refuses loads that are not possible."""
    served = [engine.name for engine in engines if engine.served]
    if 1 not in load.batch and served:
        raise PlanError(f"load.batch: {served[0]} is a server, which takes one query at a time; add 1")
    if load.build_memory_mib and served:
        raise PlanError(f"load.build_memory_mib: {served[0]} is a server, and only processes of libraries are limited")
    if "warm" in load.caches and served:
        raise PlanError(f"load.caches: {served[0]} is a server, and only libraries have warm caches; write limited")
    if load.fio_s and served:
        raise PlanError(f"load.fio_s: {served[0]} is a server, and fio reads the files of libraries only")
    if load.fio_s and suite != "cold":
        raise PlanError(f"load.fio_s: the suite {suite} has none, cold has")
    if load.build_memory_mib and "limited" in load.caches:
        raise PlanError('load.build_memory_mib: searches have the same limit; leave "limited" out of load.caches')
    if max(load.batch) > 1 and load.rate is not None:
        raise PlanError("load.batch: a rate is of single queries; remove one of the two")
    if max(load.matching) > 1:
        raise PlanError(f"load.matching: {max(load.matching):g} is not a share of the rows, the most is 1")
    if load.call_threads != (1,):
        unable = [one.name for one in engines if not CATALOG[one.kind].description.call_threads]
        if unable:
            raise PlanError(f"load.call_threads: {unable[0]} answers a call by one thread; remove one of the two")
    if load.profile_sessions and suite != "concurrency":
        raise PlanError(f"load.profile_sessions: the suite {suite} has none, concurrency has")
    if suite == "cold":
        for name in ("matching", "insert_rate"):
            if getattr(load, name) != getattr(_DEFAULTS, name):
                raise PlanError(f"load.{name}: the suite cold has none")
    elif load.caches != _DEFAULTS.caches:
        raise PlanError(f"load.caches: the suite {suite} has none, cold has")


def _one_core(table: Table, sessions: Sequence[int]) -> bool:
    """Several numbers of sessions are compared, so all of them have the same cores."""
    wanted = table.take("one_core", bool, sessions == (1,))
    if wanted and sessions != (1,):
        raise PlanError(f"{table.at('one_core')} = true: only one session alone has a core with its engine")
    return wanted


def _load(table: Table, suite: str) -> Load:
    caches = table.take_list("caches", str, _DEFAULTS.caches)
    cold_queries = table.take_some("cold_queries", int, least=1)
    memory_mib = table.take_some("memory_mib", int, least=16)
    sessions = table.take_list("sessions", int, _DEFAULTS.sessions, least=1)
    load = Load(
        ks=table.take_list("k", int, _DEFAULTS.ks, least=1),
        sessions=sessions,
        batch=table.take_list("batch", int, _DEFAULTS.batch, least=1),
        call_threads=table.take_list("call_threads", int, _DEFAULTS.call_threads, least=1),
        matching=table.take_list("matching", float, _DEFAULTS.matching, least=1e-3),
        insert_rate=table.take_list("insert_rate", float, _DEFAULTS.insert_rate, least=0),
        rate=table.take_some("rate", float, least=1e-3),
        seconds=table.take("seconds", float, _DEFAULTS.seconds, least=0),
        seconds_max=table.take("seconds_max", float, _DEFAULTS.seconds_max, least=0.1),
        warmup_s=table.take("warmup_s", float, _DEFAULTS.warmup_s, least=0),
        repeats=table.take("repeats", int, _DEFAULTS.repeats, least=1),
        rebuilds=table.take("rebuilds", int, _DEFAULTS.rebuilds, least=1),
        in_turns=table.take("in_turns", int, _DEFAULTS.in_turns, least=1),
        cold_queries=_DEFAULTS.cold_queries if cold_queries is None else cold_queries,
        caches=caches,
        memory_mib=_DEFAULTS.memory_mib if memory_mib is None else memory_mib,
        fio_s=table.take("fio_s", float, _DEFAULTS.fio_s, least=0),
        build_threads=table.take("build_threads", int, _DEFAULTS.build_threads, least=1),
        build_memory_mib=table.take("build_memory_mib", int, _DEFAULTS.build_memory_mib, least=0),
        around_targets=table.take("around_targets", bool, _DEFAULTS.around_targets),
        undisturbed=table.take("undisturbed", bool, _DEFAULTS.undisturbed),
        profile_sessions=table.take_list("profile_sessions", int, _DEFAULTS.profile_sessions, least=1),
        one_core=_one_core(table, sessions),
        build_timeout_s=table.take("build_timeout_s", float, _DEFAULTS.build_timeout_s, least=1),
        search_timeout_s=table.take("search_timeout_s", float, _DEFAULTS.search_timeout_s, least=1),
    )
    table.refuse_unknown()
    for count in load.profile_sessions:
        choose(table.at("profile_sessions"), str(count), [str(one) for one in load.sessions])
    for state in load.caches:
        choose(table.at("caches"), state, CACHES)
    if cold_queries is not None and suite != "cold":
        raise PlanError(f"{table.at('cold_queries')} = {cold_queries}: the suite {suite} has none, cold has")
    if memory_mib is not None and (suite != "cold" or "limited" not in caches):
        raise PlanError(
            f'{table.at("memory_mib")} = {memory_mib}: only the suite cold has it, with "limited" among its caches'
        )
    return load


def _dataset(table: Table) -> DatasetSpec:
    path = table.take_some("path", str)
    name = table.take("name", str, Path(path).stem) if path else table.need("name", str)
    if path is None and not data.known(name):
        dim = re.search(r"\d+$", name)
        choose(table.at("name"), name, [one.replace("DIM", dim[0]) if dim else one for one in data.NAMED])
    metric = table.take_some("metric", str)
    if metric is not None:
        choose(table.at("metric"), metric, ("euclidean", "angular", "ip"))
    more = {key: table.take_some(key, str) for key in ("queries_path", "column")}
    for key, value in more.items():
        if value is not None and (path is None or Path(path).suffix not in files.ENDINGS):
            raise PlanError(f"{table.at(key)}: only a path to {' or '.join(files.ENDINGS)} has it")
    spec = DatasetSpec(
        name, path, more["queries_path"], more["column"], table.take_some("rows", int, 1),
        table.take_some("queries", int, 1), table.take_some("samples", int, 1), cast(Any, metric),
    )  # fmt: skip
    if spec.samples is not None and spec.queries is None:
        raise PlanError(f"{table.at('samples')}: samples are drawn after the queries; say queries, too")
    table.refuse_unknown()
    return spec


def _engine(table: Table) -> EngineSpec:
    name = table.need("name", str)
    kind = choose(table.at("name"), name.partition(":")[0], NAMES)
    description = CATALOG[kind].description
    url = table.take_some("url", str)
    commit = table.take_some("commit", str)
    if commit is not None and not description.takes_commit:
        raise PlanError(f"{table.at('commit')}: {kind} is not compiled from this repository")
    if url is not None and not description.takes_url:
        raise PlanError(f"{table.at('url')}: {kind} is not a server that is reached by a URL")
    build_given, search_given = table.take_any("build"), table.take_any("search")
    table.refuse_unknown()
    defaults: dict[str, Sequence[OptionValue]] = {option: [value] for option, value in description.build.items()}
    build = [
        options for ladder in _ladders(table.at("build"), build_given, defaults, description.more_build)
        for options in ladder
    ]  # fmt: skip
    ladders = _ladders(table.at("search"), search_given, description.search, description.more_search)
    search = [options for ladder in ladders for options in ladder]
    served = issubclass(CATALOG[kind], Served)
    return EngineSpec(name, _once(build), _once(search), url, commit, served, tuple(ladders))


def _ladders(
    place: str, given: Any, defaults: Mapping[str, Sequence[OptionValue]], more: Mapping[str, OptionValue]
) -> list[tuple[Options, ...]]:
    """Every combination of a table of lists; of several tables, one after the other.

    `"10..400"` is a list in steps of about an eighth. A ladder has the combinations that differ
    only in the option with the longest list.
    """
    tables = given if isinstance(given, list) else [given if given is not None else {}]
    found: list[tuple[Options, ...]] = []
    for number, one in enumerate(tables, start=1):
        table = Table(f"{place}[{number}]" if len(tables) > 1 else place, one)
        values: dict[str, Sequence[OptionValue]] = {}
        for option, usual in [*defaults.items(), *((name, None) for name in more)]:
            value = table.take_any(option)
            if isinstance(value, str) and (ends := re.fullmatch(r"(\d+)\.\.(\d+)", value)):
                value = [step for step in curve.ladder(int(ends[1])) if step <= int(ends[2])]
            if value is not None:
                values[option] = listed(table.at(option), value, type(usual[0] if usual else more[option]))
            elif usual is not None:
                values[option] = usual
        table.refuse_unknown()
        longest = max(values, key=lambda option: len(values[option]), default=None)
        fixed = [[(name, value) for value in listed_] for name, listed_ in values.items() if name != longest]
        for chosen in product(*fixed):
            steps = [dict(chosen) | ({longest: value} if longest else {}) for value in values.get(longest or "", [0])]
            found.append(tuple({name: step[name] for name in values} for step in steps))
    return found


def _once(options: Sequence[Options]) -> tuple[Options, ...]:
    kept: list[Options] = []
    for one in options:
        if one not in kept:
            kept.append(one)
    return tuple(kept)
