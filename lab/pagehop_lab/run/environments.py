"""Python environments of engines: made at first use, each from a lock file of its own.

The requirements of libraries contradict each other, and a user of one engine should not have to
install all of them. `main` is the environment of the lab itself: Pagehop, and the clients of
servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devserver.folder import LOCKS, REPOSITORY
from pagehop_lab.run.child import EngineFailed

_ENVIRONMENTS = REPOSITORY / ".venv" / "lab"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """Lock files that are installed one after the other, and more options for pip."""

    locks: tuple[tuple[Path, tuple[str, ...]], ...]
    advice: str = ""


def _one(name: str) -> Recipe:
    return Recipe(((LOCKS / f"{name}.lock", ()),))


_RECIPES = {
    "faiss": _one("faiss"),
    # The package is source only, and is compiled with the contents of the first file.
    "hnswlib": Recipe(
        ((LOCKS / "hnswlib-build.lock", ()), (LOCKS / "hnswlib.lock", ("--no-build-isolation", "--no-deps"))),
        "compiling it needs a C++ compiler and Python's headers (Debian: g++ python3-dev)",
    ),
    "usearch": _one("usearch"),
    "svs": _one("svs"),
    "rabitq": _one("rabitq"),
    "diskann": Recipe(((LOCKS / "diskann.lock", ()),), "its wheels are for Python 3.9 to 3.11"),
    "scann": _one("scann"),
    "lancedb": _one("lancedb"),
    "milvus": _one("milvus"),
    "sqlite_vec": _one("sqlite_vec"),
    "stores": _one("stores"),
}

NAMES = ("main", *_RECIPES)


def place(name: str) -> Path:
    """The path of an environment, which may not exist."""
    return _ENVIRONMENTS / name


def python(name: str, say: Say, commit: str | None = None) -> list[str]:
    """The interpreter of an environment, which is made if it is missing.

    EngineFailed if that fails. `name` may be the path of an interpreter instead. With `commit` the
    environment has the package `pagehop` of that commit, and nothing else.
    """
    if commit is not None:
        return [str(_compiled(commit, say))]
    if name == "main":
        return [sys.executable]
    if name not in _RECIPES:
        if not Path(name).is_file():
            raise EngineFailed(
                f"not installed: there is no environment {name}, and no Python interpreter at that place"
            )
        return [name]
    recipe = _RECIPES[name]
    folder = place(name)
    _ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (_ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make(name, recipe, folder, say)
    return [str(folder / "bin/python")]


def _compiled(commit: str, say: Say) -> Path:
    """The interpreter of an environment with Pagehop of a commit, which is compiled once."""
    whole = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()[:12]
    folder = _ENVIRONMENTS / f"pagehop-{whole}"
    _ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (_ENVIRONMENTS / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "commit").exists():
            say(f"compiling Pagehop of commit {whole} (once)")
            with tempfile.TemporaryDirectory() as scratch:
                _compile(whole, Path(scratch), folder)
            (folder / "commit").write_text(whole[:7])
    return folder / "bin/python"


def _compile(commit: str, source: Path, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as files:
        files.extractall(source, filter="data")
    _run([sys.executable, "-m", "venv", "--clear", str(folder)], folder.name, "")
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
    _run([*pip, "--require-hashes", "-r", str(source / "python/build.lock")], folder.name, "")
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    more = {"PATH": path, "CARGO_TARGET_DIR": str(source / "target")}
    _run([*pip, "--no-deps", "--no-build-isolation", str(source)], folder.name, "compiling it needs Rust", more)


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", b"").decode(errors="replace").strip() or error
        raise EngineFailed(f"there is no such commit here: {told}") from None


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


def _run(command: list[str], name: str, advice: str, more: Mapping[str, str] | None = None) -> None:
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | quiet | dict(more or {})
    )
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        said = " | ".join(lines[-4:])
        raise EngineFailed(f"not installed: {name} could not be installed: {said}" + (f"; {advice}" if advice else ""))
