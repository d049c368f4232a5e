"""Errors in place of a signal that would end Python: for an interrupted installation, and for a
NumPy that the CPU cannot run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pagehop
from pagehop.installed import MODULES, check_numpy


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, which tests may damage."""
    installed = Path(pagehop.__file__).parent
    return Path(shutil.copytree(installed, tmp_path / "site/pagehop", ignore=shutil.ignore_patterns("__pycache__")))


def imported(package: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import pagehop; print(pagehop.__file__)"]
    environment = os.environ | {"PYTHONPATH": str(package.parent)}
    return subprocess.run(command, env=environment, cwd=package.parent, capture_output=True, text=True, check=False)


def test_a_whole_package_is_imported(package: Path) -> None:
    assert imported(package).stdout.strip() == str(package / "__init__.py")


@pytest.mark.parametrize("share", [0, 1e-5, 0.1, 0.5, 0.99])
def test_a_library_that_is_cut_short_is_named(package: Path, share: float) -> None:
    [library] = package.glob("_pagehop*.so")
    os.truncate(library, int(library.stat().st_size * share))
    done = imported(package)
    assert done.returncode == 1
    assert f"ImportError: {library} is cut short at " in done.stderr
    assert "pip install --force-reinstall pagehop" in done.stderr


def test_a_library_that_is_missing_is_named(package: Path) -> None:
    [library] = package.glob("_pagehop*.so")
    library.unlink()
    done = imported(package)
    assert done.returncode == 1
    assert f"ImportError: {package} has no library _pagehop; " in done.stderr


def test_every_module_is_looked_for(package: Path) -> None:
    assert sorted(path.name for path in package.glob("*.py")) == sorted(MODULES)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("name", ["installed.py", "errors.py", "sources.py"])
def test_a_module_that_is_missing_or_empty_is_named(package: Path, name: str, empty: bool) -> None:
    (package / name).unlink()
    if empty:
        (package / name).touch()
    said = imported(package).stderr.splitlines()[-1]
    assert said.startswith("ImportError: ")
    assert name.removesuffix(".py") in said
    assert said.endswith("the installation is incomplete: pip install --force-reinstall pagehop")


def test_a_numpy_that_an_old_cpu_cannot_run_is_refused() -> None:
    for version in ["1.26.4", "2.3.5"]:
        check_numpy(version)
    for version in ["2.4.0", "2.10.1rc1", "3.0.0.dev0"]:
        with pytest.raises(ImportError, match=r"older than x86-64-v2, and NumPy .* pip install 'numpy<2\.4'"):
            check_numpy(version)
