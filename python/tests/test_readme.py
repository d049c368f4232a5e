"""What the README tells a newcomer to run, run as it stands there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
START = (REPOSITORY / "README.md").read_text().split("## Start")[1].split("\n## ")[0]
# Done by the test's own set-up.
INSTALLS = ("pip install", "cargo install")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", START, re.DOTALL)


def test_the_python_start_runs(tmp_path: Path) -> None:
    (program,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "hops=" in done.stdout
    assert (tmp_path / "items.pagehop").exists()


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_the_command_line_start_runs(tmp_path: Path) -> None:
    subprocess.run(["cargo", "build", "--quiet", "--locked", "-p", "pagehop-cli"], cwd=REPOSITORY, check=True)
    metadata = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"]
    target = json.loads(subprocess.run(metadata, cwd=REPOSITORY, capture_output=True, check=True).stdout)
    path = os.pathsep.join(
        [f"{target['target_directory']}/debug", str(Path(sys.executable).parent), os.environ["PATH"]]
    )

    commands = [line for line in "".join(blocks("sh")).splitlines() if not line.startswith(INSTALLS)]
    script = "set -e -o pipefail\n" + "\n".join(commands)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 10
