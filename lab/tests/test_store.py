"""The folder of a run: files are not overwritten, half-written or confused with others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagehop_lab.store import RunFolder, StoreError, cell, checksum
from runs import MACHINE

IDENTITY: dict[str, Any] = {"engine": "a", "version": "1", "search": {"ef": 10}}


def test_a_record_is_found_by_its_identity(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        made = folder.add("points", "a b/c", IDENTITY, {"qps": 5.0}, arrays={"ids": np.arange(3)})
        assert made.file == f"points/a-b-c.{checksum(IDENTITY)}.json"
        assert folder.get("points", IDENTITY) == made
        assert folder.get("points", {**IDENTITY, "version": "2"}) is None
        assert folder.get("builds", IDENTITY) is None
    read = RunFolder(tmp_path)
    assert read.get("points", IDENTITY) == made
    assert read.plan == "plan"
    assert cell(IDENTITY) == cell({**IDENTITY, "version": "2"}) != cell({**IDENTITY, "engine": "b"})


def test_an_attempt_never_replaces_another(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        folder.add("points", "a", IDENTITY, failed="it died")
        folder.add("points", "a", IDENTITY, {"qps": 1.0})
        folder.add("points", "a", IDENTITY, {"qps": 2.0})
    assert len(list(tmp_path.glob("points/*.json"))) == 3
    latest = RunFolder(tmp_path).get("points", IDENTITY)
    assert latest is not None
    assert (latest.attempt, latest.raw, latest.failed) == (3, {"qps": 2.0}, None)


def test_reports_take_the_latest_measured_attempt(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        folder.add("points", "a", IDENTITY, {"qps": 1.0})
        folder.add("points", "a", IDENTITY, {"qps": 2.0})
        folder.add("points", "a", IDENTITY, failed="it hung")
        folder.add("points", "b", {"engine": "b"}, failed="it died")
    read = RunFolder(tmp_path)
    latest = read.get("points", IDENTITY)
    assert latest is not None
    assert (latest.attempt, latest.failed) == (3, "it hung"), "the latest decides what is left"
    known, other = sorted(read.known("points"), key=lambda record: record.file)
    assert (known.attempt, known.raw, known.failed, known.failed_later) == (2, {"qps": 2.0}, None, "it hung")
    assert (other.attempt, other.failed, other.failed_later) == (1, "it died", None)
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        folder.add("points", "a", IDENTITY, {"qps": 4.0})
        (again,) = [record for record in folder.known("points") if record.identity == IDENTITY]
    assert (again.attempt, again.raw, again.failed_later) == (4, {"qps": 4.0}, None)


def test_a_damaged_file_is_told_and_kept(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        made = folder.add("points", "a", IDENTITY, {"qps": 1.0})
    path = tmp_path / made.file
    path.write_text(path.read_text()[:50])
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        assert folder.damaged == [made.file]
        assert folder.get("points", IDENTITY) is None
        again = folder.add("points", "a", IDENTITY, {"qps": 2.0})
        assert again.file != made.file
    assert len(path.read_text()) == 50


@pytest.mark.parametrize("version", [3, 0, "2", None])
def test_a_record_of_another_form_counts_as_damaged(tmp_path: Path, version: Any) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        made = folder.add("points", "a", IDENTITY, {"qps": 1.0})
    path = tmp_path / made.file
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version}))
    folder = RunFolder(tmp_path)
    assert folder.damaged == [made.file]
    assert folder.get("points", IDENTITY) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"cpu": ', "Expecting value"), ("[]", "it has no cpu and no cores"), ('{"cpu": "a"}', "no cores and no kind")],
)
def test_a_damaged_description_of_the_machine_is_said(tmp_path: Path, text: str, said: str) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE):
        pass
    (tmp_path / "machine.json").write_text(text)
    with pytest.raises(StoreError, match=rf"cannot read .*machine.json: .*{said}"):
        _ = RunFolder(tmp_path).machine
    with pytest.raises(StoreError, match="cannot read"), RunFolder.writing(tmp_path, "plan", MACHINE):
        pass


def test_a_plan_that_is_no_text_is_said(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE):
        pass
    (tmp_path / "plan-001.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match=r"cannot read .*plan-001\.toml"):
        _ = RunFolder(tmp_path).plan


def test_another_machine_needs_another_folder(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE):
        pass
    with (
        pytest.raises(StoreError, match="cpu was a test and is another"),
        RunFolder.writing(tmp_path, "plan", MACHINE | {"cpu": "another"}),
    ):
        pass


def test_a_full_disk_leaves_what_was_there_and_no_half_file(tmp_path: Path) -> None:
    """The kernel refuses to write beyond 20,000 bytes, like on a full disk."""
    program = (
        "import resource, sys, pathlib\n"
        "from pagehop_lab.store import RunFolder, StoreError\n"
        f"with RunFolder.writing(pathlib.Path(sys.argv[1]), 'plan', {MACHINE!r}) as folder:\n"
        "    folder.add('points', 'small', {'number': 1}, {'qps': 1.0})\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "    try:\n"
        "        folder.add('points', 'large', {'number': 2}, {'text': 'x' * 50000})\n"
        "    except StoreError as error:\n"
        "        print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    paths = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=paths)
    assert done.stdout.startswith(f"cannot write to {tmp_path}: File too large; what was measured before is kept")
    assert [path.name.partition(".")[0] for path in tmp_path.glob("points/*")] == ["small"]
    assert not list(tmp_path.rglob(".unfinished-*"))


def test_what_a_killed_run_left_unfinished_is_removed(tmp_path: Path) -> None:
    (tmp_path / "points").mkdir()
    (tmp_path / "points/.unfinished-a.json").write_text('{"version"')
    assert not RunFolder(tmp_path).damaged, "the file may belong to a run that is in progress"
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        assert not folder.all("points")
    assert not list(tmp_path.rglob(".unfinished-*"))


def test_raw_files_are_json_that_says_everything(tmp_path: Path) -> None:
    with RunFolder.writing(tmp_path, "plan", MACHINE) as folder:
        made = folder.add("points", "a", IDENTITY, {"qps": 1.0})
        with pytest.raises(ValueError, match="not JSON compliant"):
            folder.add("points", "b", {"number": 2}, {"qps": float("nan")})
    content = json.loads((tmp_path / made.file).read_text())
    assert content == {"version": 2, "attempt": 1, "identity": IDENTITY, "failed": None, "raw": {"qps": 1.0}}
