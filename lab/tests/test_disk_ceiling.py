"""What the disk gives to fio, beside the searches that read from it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

import pytest

import runs
from devserver import fio
from pagehop_lab.analysis.aims import FIGURES
from pagehop_lab.analysis.points import Point
from pagehop_lab.analysis.records import Disk, DiskCeiling, Phase, PointRecord
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure import disk_ceiling
from pagehop_lab.plan import PlanError, read_text

PLAN = """
suite = "cold"
[load]
cold_queries = 200
repeats = 1
caches = ["fresh", "cold"]
fio_s = 0.2
[[dataset]]
name = "generated-16"
rows = 2000
queries = 200
[[engine]]
name = "cold"
search = { ef = [50] }
"""


CEILING: DiskCeiling = {"request_bytes": 8192, "depth": 1, "reads_per_s": 400.0}


def phase(**disk: float | None) -> Phase:
    return {"phase": "search", "seconds": 1.0, "cpu_s": 1.0, "disk": cast(Disk, disk)}


def test_fio_gets_whole_blocks_and_at_least_one_request_at_once() -> None:
    before = phase(bytes_per_read=65536, queue_depth_busy=9)
    assert disk_ceiling.asked([before, phase(bytes_per_read=8100.0, queue_depth_busy=0.3)]) == (8192, 1)
    assert disk_ceiling.asked([phase(bytes_per_read=512.0, queue_depth_busy=15.6)]) == (4096, 16)
    assert disk_ceiling.asked([]) is None
    assert disk_ceiling.asked([{**phase(), "disk": None}]) is None, "the folder is not on a disk"
    assert disk_ceiling.asked([phase(bytes_per_read=None, queue_depth_busy=None)]) is None, "nothing was read"


def test_the_share_is_of_the_requests_during_the_queries_alone() -> None:
    # The phase takes longer than the queries: the client's ceiling is measured in it, too.
    raw: PointRecord = {"phases": [phase(reads=600, reads_per_s=100)], "elapsed_s": 2.0, "disk_ceiling": CEILING}
    share = FIGURES["fio_share"].of_point
    assert share is not None
    assert share(Point("set", "a", (), (), 1, 1, raw=raw)) == pytest.approx(0.75)
    assert share(Point("set", "a", (), (), 1, 1, raw={**raw, "disk_ceiling": None})) is None


def test_fio_reads_a_file_without_changing_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    content = os.urandom(1 << 20)
    file.write_bytes(content)
    command = fio.command(fio.install())
    try:
        found = disk_ceiling.measure(command, file, 8192, 4, 0.2)
    except EngineError as error:
        if "direct" in str(error).lower():
            pytest.skip("this file system has no direct I/O")
        raise
    assert found["reads_per_s"] > 10
    assert (found["request_bytes"], found["depth"]) == (8192, 4)
    assert file.read_bytes() == content
    with pytest.raises(EngineError, match=r"fio: .*ceiling"):
        disk_ceiling.measure(command, tmp_path / "absent", 8192, 4, 0.2)
    with pytest.raises(EngineError, match="fio: "):
        disk_ceiling.measure(["/bin/echo"], file, 8192, 4, 0.2)


def test_searches_that_read_are_compared_with_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So few reads are shorter than the kernel's unit for the time of a disk.
    monkeypatch.setattr(disk_ceiling, "asked", lambda phases: (4096, 2) if phases[-1]["disk"] else None)
    with runs.fake_engines(tmp_path / "data"):
        results, said = runs.run(PLAN, tmp_path / "run")
    assert results.is_whole, said
    by_cache = {dict(point.asked).get("cache", "cold"): point for point in results.points}
    assert "disk_ceiling" not in by_cache["fresh"].raw, "its queries have pauses in between"
    cold = runs.raw(by_cache["cold"])
    if cold["phases"][-1]["disk"] is None:
        pytest.skip("the engine's folder is not on a disk")
    assert cold["disk_ceiling"]["reads_per_s"] > 10
    assert (cold["disk_ceiling"]["request_bytes"], cold["disk_ceiling"]["depth"]) == (4096, 2)
    raw = json.loads((tmp_path / "run" / by_cache["cold"].file).read_text())
    assert raw["raw"]["disk_ceiling"] == cold["disk_ceiling"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAN.replace('suite = "cold"', "").replace("cold_queries = 200", "").replace("caches", "#"),
         "load.fio_s: the suite equal-recall has none, cold has"),
        (PLAN.replace('"cold"\nsearch = { ef = [50] }', '"pgvector"'), "load.fio_s: pgvector is a server"),
        (PLAN.replace("fio_s = 0.2", "fio_s = -1"), "load.fio_s"),
    ],
)  # fmt: skip
def test_plans_that_fio_cannot_serve_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with runs.fake_engines(tmp_path), pytest.raises(PlanError, match=said):
        read_text(text, "test")
