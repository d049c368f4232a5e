"""The passages of all documentation packages: identical text once, in a seeded order.

The first passages of that order are the queries and all others may be rows. So a set of more rows
begins with the rows of a smaller one, and no query is ever a row.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagehop_lab.data.real import sources
from pagehop_lab.data.real.prose import RULES, is_title, paragraphs

_PAGES = (".html", ".htm", ".xhtml")
# Listings of source files and of class members, which documentation generators write as pages.
_NOT_PAGES = re.compile(r"(?:_source|-members)\.x?html?$|/src/")
_SECONDS_OF_A_DAY = 86400


@dataclass(frozen=True)
class Passage:
    """A paragraph and its origin."""

    text: str
    title: str
    """The heading above it; empty if there is none."""
    day: int
    """The date of the page, in days since 1970-01-01."""
    package: str


@dataclass(frozen=True)
class Passages:
    """All passages, in the order of the set, and the titles that can be queries."""

    all: list[Passage]
    titles: list[str]
    versions: dict[str, str]
    """Packages, with the version that was read."""


def checksum(texts: Iterable[str]) -> str:
    """A checksum of texts in their order; vectors of other texts are not reused."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def collect(folder: Path, packages: Sequence[str], seed: int, say: sources.Say) -> Passages:
    """The passages of the packages.

    They are read into `folder`, unless the same rules did so before.
    """
    suffix = f".rules-{RULES}.jsonl"
    files = [sources.read_once(package, folder, suffix, _read_package, say) for package in packages]
    for package, file in zip(packages, files, strict=True):
        for older in set(folder.glob(f"{package}_*.jsonl")) - set(folder.glob(f"*{suffix}")):
            say(f"{package}: {older.name} is of other rules than {file.name}, and is removed")
            older.unlink()
    found: dict[str, Passage] = {}
    for package, file in zip(packages, files, strict=True):
        for passage in _kept(package, file):
            found.setdefault(same(passage.text), passage)
    passages, titles = list(found.values()), sorted({p.title for p in found.values() if is_title(p.title)})
    streams = np.random.default_rng(seed).spawn(2)
    order, titles_order = streams[0].permutation(len(passages)), streams[1].permutation(len(titles))
    versions = {
        package: file.name.removesuffix(suffix).partition("_")[2] for package, file in zip(packages, files, strict=True)
    }
    return Passages([passages[at] for at in order], [titles[at] for at in titles_order], versions)


def same(text: str) -> str:
    """The common form of passages that differ only in case and punctuation."""
    return "".join(character for character in text.casefold() if character.isalnum())


def _kept(package: str, file: Path) -> Iterator[Passage]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            text, title, day = json.loads(line)
            yield Passage(text, title, day, package)


def _read_package(folder: Path, written: Path) -> None:
    """Writes the paragraphs of all pages of an unpacked package, one JSON list a line."""
    pages = sorted(path for path in folder.rglob("*") if _is_page(path, folder))
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool, written.open("w", encoding="utf-8") as out:
        for found in pool.imap(_read_page, pages, chunksize=16):
            out.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in found)


def _is_page(path: Path, folder: Path) -> bool:
    place = "/" + path.relative_to(folder).as_posix()
    return path.suffix in _PAGES and not _NOT_PAGES.search(place) and path.is_file() and not path.is_symlink()


def _read_page(path: Path) -> list[tuple[str, str, int]]:
    day = int(path.stat().st_mtime) // _SECONDS_OF_A_DAY
    return [(found.text, found.title, day) for found in paragraphs(path.read_bytes())]
