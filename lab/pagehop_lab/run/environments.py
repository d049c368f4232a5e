"""Python environments of engines: made when an engine is first wanted, each from a lock file of its own.

Libraries contradict each other's requirements, and nobody should have to install all of them for one. `main` is the
environment that the lab itself runs in: Pagehop, and what talks to servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pagehop_lab.run.child import EngineFailed

_REPOSITORY = Path(__file__).resolve().parents[3]
_LOCKS = _REPOSITORY / "lab" / "locks"
_ENVIRONMENTS = _REPOSITORY / ".venv" / "lab"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """Lock files that are installed one after the other, and more options for pip."""

    locks: tuple[tuple[Path, tuple[str, ...]], ...]
    advice: str = ""


def _one(name: str) -> Recipe:
    return Recipe(((_LOCKS / f"{name}.lock", ()),))


_BENCH = _REPOSITORY / "bench"
_RECIPES = {
    "faiss": _one("faiss"),
    # It comes as source only, and is compiled with what the first file brings.
    "hnswlib": Recipe(
        ((_LOCKS / "hnswlib-build.lock", ()), (_BENCH / "hnswlib.lock", ("--no-build-isolation", "--no-deps"))),
        "compiling it needs a C++ compiler and Python's headers (Debian: g++ python3-dev)",
    ),
    "usearch": _one("usearch"),
    "svs": _one("svs"),
    "rabitq": _one("rabitq"),
    "diskann": Recipe(((_BENCH / "diskann.lock", ()),), "its wheels are for Python 3.9 to 3.11"),
    "scann": _one("scann"),
    "lancedb": _one("lancedb"),
    "milvus": _one("milvus"),
    "sqlite_vec": _one("sqlite_vec"),
    "stores": _one("stores"),
}

NAMES = ("main", *_RECIPES)


def place(name: str) -> Path:
    """Where an environment is, or would be."""
    return _ENVIRONMENTS / name


def python(name: str, say: Say) -> list[str]:
    """The interpreter of an environment, made if need be. EngineFailed if it cannot be made."""
    if name == "main":
        return [sys.executable]
    recipe = _RECIPES[name]
    folder = place(name)
    _ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (_ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make(name, recipe, folder, say)
    return [str(folder / "bin/python")]


def _make(name: str, recipe: Recipe, folder: Path, say: Say) -> None:
    interpreter = folder / "bin/python"
    wanted = hashlib.sha256(b"".join(lock.read_bytes() for lock, _ in recipe.locks)).hexdigest()
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text() == wanted and interpreter.exists():
        return
    say(f"installing {name} (once)")
    _run([sys.executable, "-m", "venv", "--clear", str(folder)], name, "")
    for lock, options in recipe.locks:
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--require-hashes", *options, "-r", str(lock)]
        _run(pip, name, recipe.advice)
    stamp.write_text(wanted)


def _run(command: list[str], name: str, advice: str) -> None:
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | quiet)
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        said = " | ".join(lines[-4:])
        raise EngineFailed(f"not installed: {name} could not be installed: {said}" + (f"; {advice}" if advice else ""))
