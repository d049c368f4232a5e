"""The folders of servers and other fetched files. An unfinished folder is made again.

Each PostgreSQL server for tests has a folder in `.postgres`. When everything else is in it, a stamp
with the recipe is written. A folder without the stamp of the wanted recipe is emptied and made
again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = "PAGEHOP_CACHE"
"""The environment variable for the folder of fetched files, for a lab without a checkout."""

_CHECKOUT = Path(__file__).resolve().parents[2]
IN_CHECKOUT = (_CHECKOUT / "lab" / "locks").is_dir()
REPOSITORY = _CHECKOUT if IN_CHECKOUT else Path(os.environ.get(CACHE) or Path.home() / ".cache" / "pagehop")
"""The checkout that contains this file; if the package is installed, the cache of this user."""
LOCKS = REPOSITORY / "lab" / "locks" if IN_CHECKOUT else Path(__file__).resolve().parents[1] / "pagehop_lab" / "locks"
"""The lock files of engines and servers, with checksums."""
SERVERS = REPOSITORY / ".postgres"

_STAMP = ".complete"


def made_once(folder: Path, recipe: str, make: Callable[[Path], None]) -> Path:
    """`folder`, filled by `make`, or by an earlier process if that finished and had the same
    recipe.

    One process at a time makes a folder; the others wait for it.
    """
    with _locked(folder):
        stamp = folder / _STAMP
        if not stamp.is_file() or stamp.read_text() != recipe:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            stamp.write_text(recipe)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
