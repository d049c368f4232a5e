"""The facts about the machine, and the commit at which something was measured."""

from __future__ import annotations

import io
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fake_servers import CASES, HONEST, FakeBench, FakeProduct, plan_of, run
from pagehop_lab.analysis import verdicts
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.engines import history
from pagehop_lab.machine.about import surroundings
from pagehop_lab.measure.disturbance import Disturbance
from pagehop_lab.run.progress import Progress
from pagehop_lab.run.servers import ServersRunner
from pagehop_lab.store import RunFolder, StoreError
from pagehop_lab.suites.catalog import OF_SERVERS
from runs import MACHINE, read_servers, server_results


def disk(sys: Path, folder: Path, **files: str) -> None:
    """Writes a fake /sys in which the disk of a folder has these files."""
    device = folder.stat().st_dev
    place = sys / f"dev/block/{os.major(device)}:{os.minor(device)}"
    for name, text in files.items():
        path = place / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_disk_clock_and_limits_are_read_from_the_kernel(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    disk(sys, tmp_path, device__model="FAST 9000", size=str(2**21), queue__rotational="0")
    governor = sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"
    governor.parent.mkdir(parents=True)
    governor.write_text("powersave\n")
    (sys / "fs/cgroup").mkdir(parents=True)
    (sys / "fs/cgroup/cpu.max").write_text("150000 100000\n")
    found = surroundings(tmp_path, sys)
    assert found["disk"] == "FAST 9000, 1 GiB, not rotational"
    assert (found["governor"], found["cpu_quota"]) == ("powersave", 1.5)


def test_what_the_kernel_does_not_say_is_none(tmp_path: Path) -> None:
    found = surroundings(tmp_path, tmp_path / "sys")
    assert (found["disk"], found["governor"], found["cpu_quota"]) == (None, None, None)
    assert found["virtualization"] in ("none", "yes", None)


def test_this_machine_is_described_and_not_named() -> None:
    found = surroundings(Path("/"))
    assert set(found) == {"disk", "file_system", "governor", "virtualization", "cpu_quota", "compilers"}
    assert found["file_system"]
    assert os.uname().nodename not in str(found).split()


def test_a_commit_has_a_plus_where_something_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        options = ["-c", "user.name=x", "-c", "user.email=x", "-C", str(tmp_path)]
        return subprocess.run(["git", *options, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "crates").mkdir()
    (tmp_path / "crates/a").write_text("1")
    git("add", "-A")
    git("commit", "-qm", "first")
    monkeypatch.setattr(history, "__file__", str(tmp_path / "history.py"))
    known = git("rev-parse", "--short=7", "HEAD")
    (tmp_path / "elsewhere").write_text("2")
    assert history.commit("crates") == known
    (tmp_path / "crates/a").write_text("2")
    assert history.commit("crates") == f"{known}+"
    assert history.at_commit("0.1", "crates") == f"0.1 at {known}+"
    monkeypatch.setattr(history, "__file__", "/history.py")
    assert history.at_commit("0.1", "crates") == "0.1"


def test_every_record_says_which_commit_of_the_lab_wrote_it(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE, "abc1234") as folder:
        assert folder.add("points", "a", {"number": 1}, {"qps": 1.0}).commit == "abc1234"
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        assert folder.add("points", "b", {"number": 2}, {"qps": 1.0}).commit is None


def test_a_folder_that_says_less_of_its_machine_goes_on_and_another_disk_does_not(tmp_path: Path) -> None:
    for machine in (MACHINE, MACHINE | {"disk": "a"}):
        with RunFolder.writing(tmp_path / "old", "plan", machine):
            pass
    with RunFolder.writing(tmp_path / "new", "plan", MACHINE | {"disk": "a"}):
        pass
    with (
        pytest.raises(StoreError, match="disk was a and is b"),
        RunFolder.writing(tmp_path / "new", "plan", MACHINE | {"disk": "b"}),
    ):
        pass


def test_what_is_not_known_is_no_other_machine(tmp_path: Path) -> None:
    for governor in ("powersave", None, "powersave"):
        with RunFolder.writing(tmp_path / "run", "plan", MACHINE | {"governor": governor}):
            pass
    with (
        pytest.raises(StoreError, match="governor was powersave and is performance"),
        RunFolder.writing(tmp_path / "run", "plan", MACHINE | {"governor": "performance"}),
    ):
        pass


def test_a_run_goes_on_after_its_compilers_were_upgraded_and_says_so(tmp_path: Path) -> None:
    text = plan_of("old", "new")
    for compilers, cases in (("cc 1", CASES[:1]), ("cc 2", CASES)):
        plan = read_servers(text, "test")
        chosen = replace(plan, cases=tuple(case for case in plan.cases if case.name in cases))
        with RunFolder.writing(tmp_path / "run", plan.text, MACHINE | {"compilers": compilers}) as into:
            products = dict.fromkeys(OF_SERVERS["oltp"].products, FakeProduct())
            ServersRunner(chosen, into, Progress(io.StringIO()), "test", products, FakeBench()).run()
    assert RunFolder(tmp_path / "run").machine["compilers"] == "cc 1"
    results = server_results(tmp_path / "run")
    noted = {one.case: one.noted for one in results.measured}
    assert noted[CASES[0]] == ()
    assert {noted[case] for case in CASES[1:]} == {("compilers: this machine had cc 2 by then",)}
    page = (tmp_path / "run/report/index.html").read_text()
    assert "6 after the compilers of the machine had changed" in page


def kernel(place: Path, stolen: int, *throttled: int) -> tuple[Path, Path]:
    """A fake /proc and /sys of a machine from which some ticks were stolen."""
    proc, sys = place / "proc", place / "sys"
    proc.mkdir(parents=True, exist_ok=True)
    (proc / "stat").write_text(f"cpu  1 2 3 4 5 6 7 {stolen} 0 0\ncpu0 1 2 3 4 5 6 7 {stolen} 0 0\n")
    for number, count in enumerate(throttled):
        path = sys / f"devices/system/cpu/cpu{number}/thermal_throttle/core_throttle_count"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{count}\n")
    return proc, sys


def test_what_the_host_and_heat_took_is_counted_between_two_looks(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    before = Disturbance.so_far(*kernel(tmp_path, 5 * ticks, 3, 0))
    after = replace(Disturbance.so_far(*kernel(tmp_path, 8 * ticks, 4, 1)), at_s=before.at_s + 2)
    assert after.since(before) == {"stolen_cores": 1.5, "throttled_count": 2}
    nothing = Disturbance.so_far(*kernel(tmp_path / "virtual", 0))
    assert after.since(nothing)["throttled_count"] is nothing.throttled_count is None


def test_a_package_that_is_throttled_counts_once_and_not_for_each_cpu(tmp_path: Path) -> None:
    # Two packages of two cores. The last two CPUs share a core. A CPU that was added late missed an
    # event.
    cpus = [(0, 0, 3, 7), (0, 1, 0, 7), (1, 0, 0, 2), (1, 1, 4, 1), (1, 1, 4, 2)]
    proc, sys = kernel(tmp_path, 0, *(core for _, _, core, _ in cpus))
    for number, (package, core, _, throttled) in enumerate(cpus):
        place = sys / f"devices/system/cpu/cpu{number}"
        (place / "topology").mkdir()
        (place / "topology/physical_package_id").write_text(f"{package}\n")
        (place / "topology/core_id").write_text(f"{core}\n")
        (place / "thermal_throttle/package_throttle_count").write_text(f"{throttled}\n")
    assert Disturbance.so_far(proc, sys).throttled_count == (3 + 0 + 0 + 4) + (7 + 2)


def test_heat_and_a_host_that_takes_cores_are_noted_and_counted_on_the_page(tmp_path: Path) -> None:
    taken = {"stolen_cores": 0.4, "throttled_count": 3}
    with patch.object(Disturbance, "since", lambda *_: taken):
        results, _ = run(plan_of("old"), tmp_path / "run", FakeBench(), FakeProduct())
    assert results.sound, "a note does not make a point invalid"
    for one in results.measured:
        assert one.noted == (
            "others were running: the host gave 0.40 cores of this machine to others",
            "throttled: heat slowed the processor 3 times",
        )
    page = (tmp_path / "run/report/index.html").read_text()
    assert f"{len(results.measured)} while heat slowed the processor" in page
    assert verdicts.stolen(None) is verdicts.throttled(0) is None


def test_cores_that_the_host_took_are_noted_once() -> None:
    server: Any = {**HONEST, "other_busy_cores": 0.45, "stolen_cores": 0.4}
    library: Any = {
        **server, "rows_short_count": 0, "k": 10, "exact_by_design": False, "index_used": True, "client_share": 0.1,
        "cache": "hot",
    }  # fmt: skip
    took = "others were running: the host gave 0.40 cores of this machine to others"
    told = "others were running: 0.60 cores were busy with something else"
    unseen = {"other_busy_cores": None, "busy_cores": 0.46}
    for judged, raw in ((verdicts.judge, library), (judge_load, server), (judge_load, server | unseen)):
        assert judged(raw).noted == (took,), raw
    for judged, raw in ((verdicts.judge, library), (judge_load, server)):
        assert judged(raw | {"other_busy_cores": 1.0}).noted == (told, took)


def test_measurements_of_another_commit_of_the_lab_are_noted(tmp_path: Path) -> None:
    text = plan_of("old", "new")
    for commit, cases in (("aaaaaaa", CASES[:1]), ("bbbbbbb", CASES)):
        plan = read_servers(text, "test")
        chosen = replace(plan, cases=tuple(case for case in plan.cases if case.name in cases))
        with RunFolder.writing(tmp_path / "run", plan.text, MACHINE, commit) as into:
            products = dict.fromkeys(OF_SERVERS["oltp"].products, FakeProduct())
            ServersRunner(chosen, into, Progress(io.StringIO()), "test", products, FakeBench()).run()
    results = server_results(tmp_path / "run")
    noted = {one.case: one.noted for one in results.measured}
    assert noted[CASES[0]] == ("lab: this was measured at aaaaaaa, and most of this folder at bbbbbbb",)
    assert {noted[case] for case in CASES[1:]} == {()}
    assert "2 by another commit of the lab than the rest" in (tmp_path / "run/report/index.html").read_text()


class Updated(FakeProduct):
    """The same servers, one minor version later."""

    def version(self, server: object) -> str:
        return super().version(server) + ".1"  # type: ignore[arg-type]


def test_builds_are_not_mixed_silently(tmp_path: Path) -> None:
    run(plan_of("old", "new"), tmp_path / "run", FakeBench(), FakeProduct())
    bench = FakeBench()
    # The second version is interrupted after its first test.
    bench._on = lambda _, case: (_ for _ in ()).throw(KeyboardInterrupt) if case.name == CASES[1] else None
    with pytest.raises(KeyboardInterrupt):
        run(plan_of("old", "new"), tmp_path / "run", bench, Updated())

    results = server_results(tmp_path / "run")
    for one in results.measured:
        noted = [note for note in one.noted if note.startswith("version: this is")]
        assert bool(noted) == (one.case != CASES[0]), one.case
    results, _ = run(plan_of("old", "new"), tmp_path / "run", FakeBench(), Updated())
    assert not any(note.startswith("version") for one in results.measured for note in one.noted)
    assert len(results.measured) == 2 * len(CASES)
