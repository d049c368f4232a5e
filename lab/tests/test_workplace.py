"""A run removes the files and processes that a killed run left, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from devserver import DevServerError
from devserver.volume import Volume
from pagehop_lab.run.workplace import workplace

KILLED = """
import os, signal, subprocess, tempfile
from pathlib import Path
from pagehop_lab.run.workplace import workplace

with workplace(print) as folder:
    Path(tempfile.mkdtemp(), "rows").write_bytes(bytes(1000))
    left = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
    print(left.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def outer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(outer: Path, script: str = KILLED) -> int:
    """Runs a program that is killed. Returns the process that it left."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": paths, "TMPDIR": str(outer)},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == -9
    return int(done.stdout)


def test_a_run_has_a_folder_of_its_own_for_a_while(outer: Path) -> None:
    given = os.environ.get("TMPDIR")
    with workplace(print) as folder:
        assert folder.parent == outer
        assert Path(tempfile.mkdtemp()).parent == folder
        assert subprocess.run(["sh", "-c", "echo $TMPDIR"], capture_output=True, text=True, check=True).stdout == (
            f"{folder}\n"
        )
    assert list(outer.iterdir()) == []
    assert tempfile.gettempdir() == str(outer)
    assert os.environ.get("TMPDIR") == given


def test_the_next_run_ends_and_removes_what_a_killed_one_left(outer: Path) -> None:
    left = killed(outer)
    (dead,) = outer.iterdir()
    assert Path(f"/proc/{left}").exists()
    said: list[str] = []
    with workplace(said.append) as folder:
        assert list(outer.iterdir()) == [folder]
    assert said == [f"removed {dead}, which a killed run left behind"]
    late = time.monotonic() + 60
    while Path(f"/proc/{left}").exists() and "Z" not in Path(f"/proc/{left}/stat").read_text():
        assert time.monotonic() < late, "the process still runs"
        time.sleep(0.02)


def test_a_file_system_that_a_killed_run_left_goes_with_its_disk(outer: Path) -> None:
    try:
        Volume(64 << 20).remove()
    except DevServerError as error:
        pytest.skip(str(error))
    makes = KILLED.replace("    left =", "    from devserver.volume import Volume\n    Volume(64 << 20)\n    left =")
    killed(outer, makes)
    (dead,) = outer.iterdir()
    assert str(dead) in Path("/proc/mounts").read_text()
    assert any(str(dead) in line for line in disks())
    with workplace(lambda _: None) as folder:
        assert list(outer.iterdir()) == [folder]
    assert str(dead) not in Path("/proc/mounts").read_text()
    late = time.monotonic() + 60
    while any(str(dead) in line for line in disks()):
        assert time.monotonic() < late, "the disk's file still uses space"
        time.sleep(0.02)


def disks() -> list[str]:
    return subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout.splitlines()


def test_what_a_living_run_has_is_left_alone(outer: Path) -> None:
    stranger = outer / "pagehop-lab-stranger"
    stranger.mkdir()
    said: list[str] = []
    with workplace(said.append) as first:
        file = first / "rows"
        file.write_bytes(b"rows")
        with workplace(said.append) as second:
            assert second.parent == first
        # Another process, whose work is not within the first one's.
        subprocess.run(
            [sys.executable, "-c", KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "left.kill()")],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(outer)},
            stdout=subprocess.PIPE,
            check=True,
        )
        assert file.read_bytes() == b"rows"
    assert said == []
    assert stranger.is_dir(), "a folder without a lock has no known owner, so it stays"
