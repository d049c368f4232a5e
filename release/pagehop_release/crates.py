"""Crates for crates.io: packed as for publishing, and compiled from the packed files."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

from devserver.errors import DevServerError
from devserver.folder import REPOSITORY
from devserver.processes import run

_FILES = ("Cargo.toml", "LICENSE", "README.md", "src")


def names() -> list[str]:
    """The crates of the workspace that may be published, in ascending order."""
    said = run(["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"], cwd=REPOSITORY)
    return sorted(package["name"] for package in json.loads(said)["packages"] if package["publish"] != [])


def build(dist: Path) -> list[Path]:
    """Packs the crates into `dist`. Cargo compiles each from its packed file, with the packed files
    of the crates that it depends on.
    """
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target") / "package"
    shutil.rmtree(target, ignore_errors=True)
    chosen = [word for name in names() for word in ("--package", name)]
    run(["cargo", "package", "--quiet", "--locked", *chosen], cwd=REPOSITORY, advice="every change has to be committed")
    dist.mkdir(exist_ok=True)
    made = [Path(shutil.copy(crate, dist)) for crate in sorted(target.glob("*.crate"))]
    if len(made) != len(names()):
        raise DevServerError(f"cargo package has packed {len(made)} crates of {len(names())} into {target}")
    for crate in made:
        check(crate)
    return made


def check(crate: Path) -> None:
    """DevServerError if a packed crate lacks one of the files that each must have."""
    with tarfile.open(crate) as opened:
        there = {Path(name).parts[1] for name in opened.getnames()}
    missing = [name for name in _FILES if name not in there]
    if missing:
        raise DevServerError(f"{crate} has no {', '.join(missing)}")
