"""Builds and searches within a limit of memory: what they took, what did not fit, and growth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagehop_lab.data import sets
from pagehop_lab.data.real import files
from pagehop_lab.data.real.files import Content
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure import limit
from pagehop_lab.measure.limit import MemoryLimit
from pagehop_lab.plan import PlanError, read_text
from pagehop_lab.plan.grid import everything
from pagehop_lab.run import child, workplace
from runs import QUICK, fake_engines, raw, run

LOAD = f"""
suite = "cold"
[load]
{QUICK}repeats = 1
cold_queries = 20
build_memory_mib = 160
"""
SET = '[[dataset]]\nname = "generated-16"\nrows = {}\nqueries = 60\n'


@pytest.fixture(autouse=True)
def engines(tmp_path: Path) -> Iterator[None]:
    """The fake engines. Every test leaves no control group of this process."""
    with fake_engines(tmp_path / "data"):
        yield
    assert os.getpid() not in limit.processes()


@pytest.fixture
def can_limit() -> None:
    """Skips a test where memory cannot be limited."""
    try:
        MemoryLimit(64, name="tried").close()
    except EngineError as error:
        pytest.skip(str(error))


def tables(folder: Path) -> dict[str, Any]:
    told = json.loads((folder / "report/tables.json").read_text())
    return {table["name"]: table for section in told["sections"] for table in section["tables"]}


def columns(table: Any, *names: str) -> list[list[str]]:
    """The texts of some columns, line by line."""
    at = [table["columns"].index(name) for name in names]
    return [[row[one]["text"] if one < len(row) else "" for one in at] for row in table["rows"]]


@pytest.mark.usefixtures("can_limit")
def test_a_build_within_a_limit_tells_what_it_took(tmp_path: Path) -> None:
    engine = '[[engine]]\nname = "hoarding"\nbuild = { m = 16 }\n'
    results, _ = run(LOAD + SET.format(2000) + engine, tmp_path / "run")
    assert results.is_whole
    (build,) = results.builds
    memory = raw(build)["memory_limit"]
    assert memory["mib"] == 160
    assert 16 << 20 < memory["anonymous_peak_bytes"] < memory["peak_bytes"] <= 160 << 20
    assert 12 << 20 <= build.raw["disk_peak_bytes"] < 16 << 20, "a file without a name is on the disk, too"
    assert 12 << 20 <= build.raw["bytes_written"] < 16 << 20
    assert build.raw["bytes_read"] >= 2000 * 16 * 4, "the source was dropped from the kernel's cache"
    shown = columns(tables(tmp_path / "run")["growth-builds"], "set", "rows", "peak MiB", "GB on disk")
    assert shown == [["generated-16", "2,000", f"{memory['peak_bytes'] / 2**20:,.0f}", "0.01"]]


@pytest.mark.usefixtures("can_limit")
def test_an_engine_that_is_killed_for_its_memory_is_told_and_the_base_must_fit(tmp_path: Path) -> None:
    greedy = '[[engine]]\nname = "hoarding"\nbuild = { m = [16, 400] }\n'
    results, said = run(LOAD + SET.format(2000) + '[[engine]]\nname = "cold"\n' + greedy, tmp_path / "beside")
    assert results.is_whole, results.coverage.failed
    (unbuilt,) = results.unbuilt
    assert dict(unbuilt.options) == {"m": 400}
    begins = "160 MiB of memory did not suffice: the kernel killed 1 of its processes (it died during build, by signal"
    assert unbuilt.reason.startswith(begins)
    assert " on disk at most" in unbuilt.reason
    assert unbuilt.reason in said
    shown = columns(tables(tmp_path / "beside")["growth-builds"], "engine", "index", "seconds")
    assert [row[:2] for row in shown] == [["the cold one", "m=8"], ["the hoarding one", "m=16"],
                                          ["the hoarding one", "m=400"]]  # fmt: skip
    assert shown[2][2].startswith("160 MiB of memory did not")
    alone, _ = run(LOAD + SET.format(2000) + greedy, tmp_path / "alone")
    assert not alone.is_whole, "what the run is about did not fit"


@pytest.mark.usefixtures("can_limit")
def test_an_index_that_nearly_fills_its_limit_is_measured(tmp_path: Path) -> None:
    """The lab compares a query with rows, too, and takes little of the limit for that."""
    dataset = SET.format(20_000).replace("-16", "-384").replace("60", "20")
    engine = '[[engine]]\nname = "honest"\nsearch = { ef = 10 }\n'
    load = f"[load]\n{QUICK}repeats = 1\nbuild_memory_mib = 64\n"
    results, said = run(load + dataset + engine, tmp_path / "run")
    assert results.is_whole, said
    (build,) = results.builds
    assert build.raw["memory_limit"]["anonymous_peak_bytes"] > 20_000 * 384 * 4


def test_where_memory_cannot_be_limited_no_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(mib: int, name: str) -> None:
        raise EngineError(f"memory cannot be limited here (no {mib}, {name}): be root")

    monkeypatch.setattr(child, "MemoryLimit", refused)
    results, _ = run(LOAD + SET.format(2000) + '[[engine]]\nname = "cold"\n', tmp_path / "run")
    assert (results.builds, results.points) == ([], [])
    assert "memory cannot be limited here" in results.unbuilt[0].reason
    assert not results.is_whole


@pytest.mark.usefixtures("can_limit")
def test_a_build_of_pagehop_with_too_little_memory_says_the_least_that_will_do(tmp_path: Path) -> None:
    text = LOAD.replace("160", "64") + SET.replace("60", "2").format(150_000) + '[[engine]]\nname = "pagehop"\n'
    results, _ = run(text.replace("cold_queries = 20", "cold_queries = 1"), tmp_path / "run")
    (unbuilt,) = results.unbuilt
    assert "a build of 150000 rows needs 57 MiB of memory, memory is 48 MiB" in unbuilt.reason
    assert not results.is_whole


AIMS = """
[[aim]]
what = "CPU of a build for a row, over that of fewer rows"
figure = "build_cpu_us"
set = "generated-16"
over_set = "uniform-16"

[[aim]]
what = "opening and the first answer"
figure = "first_ms"
cache = "fresh"
recall = 0.5
set = "generated-16"
aim = 100_000
"""


@pytest.mark.usefixtures("can_limit")
def test_growth_has_a_line_for_each_number_of_rows(tmp_path: Path) -> None:
    load = LOAD + 'caches = ["cold", "warm", "fresh"]\nsessions = [1, 2]\ncall_threads = [1, 2]\nbatch = [20, 1]\n'
    load = load.replace('"cold"\n[load]', '"cold"\ntargets = [0.5]\n[load]').replace("160", "256")
    sets = SET.format(6000) + SET.format(3000).replace("generated", "uniform")
    engine = '[[engine]]\nname = "pagehop"\nbuild = { cache_share = 0.05 }\nsearch = { slack = 0.2 }\n'
    results, said = run(load + sets + engine + AIMS, tmp_path / "run")
    assert results.is_whole, said
    shown = tables(tmp_path / "run")
    assert columns(shown["growth-builds"], "rows") == [["3,000"], ["6,000"]]
    lines = columns(shown["growth-searches"], "caches", "queries a call", "threads", "rows")
    states = [[state, batch, threads] for state in ("cold", "warm") for batch in ("1", "20") for threads in "12"]
    assert [line[:3] for line in lines[::2]] == [*states, ["fresh", "1", "1"]]
    assert [line[3] for line in lines] == ["3,000", "6,000"] * 9
    pages = columns(shown["growth-searches"], "caches", "pages", "first ms", "reads")
    assert all((state == "fresh") == (found != "-" and first != "-") for state, found, first, _ in pages)
    assert all(float(reads) > 0 for state, _, _, reads in pages if state != "warm")
    cpu, first = columns(shown["aims"], "figure", "verdict", "from")
    assert cpu[1] == "no limit"
    assert cpu[2].count("CPU us a row") == 2
    assert first[1] == "aim inconclusive", "one repeat"


def test_engines_get_rows_of_float16_only_where_they_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    rows, queries = (random.standard_normal((count, 8)).astype(np.float16) for count in (2000, 60))
    content = Content(2000, [rows], queries, ("l2",), {})
    files.make(tmp_path / "tokens-384", "tokens-384", lambda: content, lambda _: None)
    monkeypatch.setattr(sets, "_LARGE_ROWS", 2000)
    engine = '[[engine]]\nname = "pagehop"\nsearch = { slack = 0.2 }\n[[engine]]\nname = "honest"\n'
    results, said = run(f'[load]\n{QUICK}repeats = 1\n[[dataset]]\nname = "tokens-384"\n{engine}', tmp_path / "run")
    assert results.is_whole, said
    recalls = {(point.engine, dict(point.search).get("ef")): point.recall for point in results.points}
    assert recalls["honest", 100] == 1
    assert recalls["pagehop", None] > 0.9


def test_warm_caches_take_queries_that_are_not_measured(tmp_path: Path) -> None:
    text = LOAD.replace("build_memory_mib = 160", 'caches = "warm"').replace("= 20", "= 60")
    results, _ = run(text + SET.format(2000) + '[[engine]]\nname = "cold"\n', tmp_path / "run")
    assert set(results.coverage.failed.values()) == {
        "caches are warmed by queries that are not measured: cold_queries is all that there are"
    }


@pytest.mark.parametrize(
    ("more", "engine", "said"),
    [
        ("build_memory_mib = 160", "pgvector", "load.build_memory_mib: pgvector is a server"),
        ('build_memory_mib = 160\ncaches = "limited"', "pagehop", "searches have the same limit; leave .limited. out"),
        ('caches = "warm"', "pgvector", "load.caches: pgvector is a server, and only libraries have warm caches"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(more: str, engine: str, said: str) -> None:
    text = LOAD.replace("build_memory_mib = 160", more)
    with pytest.raises(PlanError, match=said):
        read_text(text + SET.format(10) + f'[[engine]]\nname = "{engine}"\n', "x")


def test_threads_of_a_call_and_of_sessions_are_not_multiplied() -> None:
    load = LOAD + 'caches = ["cold", "fresh"]\nsessions = [1, 4]\ncall_threads = [1, 2]\nbatch = [100, 1]\n'
    plan = read_text(load + SET.format(10) + '[[engine]]\nname = "pagehop"\nsearch = { slack = 0.2 }\n', "x")
    assert [(spec.sessions, dict(spec.asked)) for spec in everything(plan)] == [
        (1, {"batch": 100}), (1, {"cache": "fresh"}), (1, {"batch": 100, "threads": 2}), (1, {}), (4, {}),
    ]  # fmt: skip
    assert "memory_mib" in next(everything(plan)).index.identity(plan, {}, "here", "1")


@pytest.mark.usefixtures("can_limit")
def test_ctrl_c_in_a_build_leaves_no_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, seen = child.Child.ask, list[list[int]]()

    def interrupted(self: child.Child, command: str, timeout_s: float, **request: Any) -> Any:
        if command == "build":
            seen.append(limit.processes())
            raise KeyboardInterrupt
        return ask(self, command, timeout_s, **request)

    monkeypatch.setattr(child.Child, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(LOAD + SET.format(2000) + '[[engine]]\nname = "cold"\n', tmp_path / "run")
    assert os.getpid() in seen[0]
    assert os.getpid() not in limit.processes()


@pytest.mark.usefixtures("can_limit")
def test_the_next_run_removes_the_control_group_of_a_killed_one(tmp_path: Path) -> None:
    script = "import os, pagehop_lab.measure.limit as limit; limit.MemoryLimit(64, name='1'); os.kill(os.getpid(), 9)"
    paths = os.pathsep.join(path for path in sys.path if path)
    killed = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": paths})
    assert killed.wait() == -signal.SIGKILL
    assert killed.pid in limit.processes()
    workplace.clear(tmp_path, print)
    assert killed.pid not in limit.processes()
