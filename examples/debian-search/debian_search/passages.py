"""Passages of a folder: the paragraphs of its .txt, .md and .html files, with their attributes for
filters.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

KINDS = {".txt": "txt", ".md": "md", ".html": "html", ".htm": "html"}
CHARACTERS_MIN = 40
"""A shorter paragraph is joined to the next one under the same heading."""
CHARACTERS_MAX = 1000
"""A longer paragraph is cut at a space: the model reads a few hundred words at most."""

_BLOCKS = {"p", "li", "dd", "dt", "td", "pre", "blockquote", "div", "section", "tr", "br", "ul", "ol", "table"}
_HEADINGS = {"title", "h1", "h2", "h3", "h4"}
_UNSEEN = {"script", "style", "nav", "footer"}


@dataclass(frozen=True)
class Passage:
    """A paragraph and its origin."""

    path: str
    """Path of its file, relative to the folder."""
    place: int
    """Number within its file, from 0 on."""
    title: str
    """The heading above it; the name of the file if there is none."""
    text: str
    package: str
    """The first folder of the path; empty for a file of the folder itself."""
    kind: str
    """txt, md or html."""
    modified: datetime.datetime


def files(folder: Path) -> Iterator[str]:
    """Paths of the files with passages, relative to `folder`, in ascending order, without links."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in KINDS and path.is_file() and not path.is_symlink():
            yield path.relative_to(folder).as_posix()


def modified(folder: Path, path: str) -> datetime.datetime:
    """The time of a file's last change, in whole seconds, UTC."""
    return datetime.datetime.fromtimestamp(int((folder / path).stat().st_mtime), datetime.UTC)


def passages(folder: Path, path: str) -> list[Passage]:
    content = (folder / path).read_bytes().decode("utf-8", "replace").replace("\0", " ")
    kind = KINDS[Path(path).suffix]
    found = _of_page(content) if kind == "html" else _of_text(content)
    at, package = modified(folder, path), path.partition("/")[0] if "/" in path else ""
    return [
        Passage(path, place, title or Path(path).name, text, package, kind, at)
        for place, (title, text) in enumerate(_sized(found))
    ]


def _of_text(content: str) -> Iterator[tuple[str, str]]:
    """Pairs of heading and paragraph of Markdown, or of plain text, which has no headings."""
    title = ""
    for block in re.split(r"\n\s*\n", content):
        heading = re.match(r"#{1,6}\s+(.+)", block)
        if heading:
            title = heading[1].strip(" #")
            block = block[heading.end() :]
        yield title, block


def _of_page(content: str) -> list[tuple[str, str]]:
    page = _Page()
    page.feed(content)
    page.close()
    page.end_block()
    return page.found


class _Page(HTMLParser):
    """Collects pairs of heading and paragraph of an HTML page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._title = ""
        self._text: list[str] = []
        self._in_heading = False
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag in _HEADINGS | _BLOCKS:
            self.end_block()
            self._in_heading = tag in _HEADINGS
        self._unseen += tag in _UNSEEN

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS | _BLOCKS:
            self.end_block()
        if tag in _UNSEEN and self._unseen:
            self._unseen -= 1

    def handle_data(self, data: str) -> None:
        if not self._unseen or self._in_heading:
            self._text.append(data)

    def end_block(self) -> None:
        """Ends a heading or a paragraph."""
        text = " ".join("".join(self._text).split())
        self._text = []
        if self._in_heading:
            self._title = text or self._title
        elif text:
            self.found.append((self._title, text))
        self._in_heading = False


def _sized(found: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Paragraphs of a useful length: short ones are joined under one heading, long ones are cut,
    and those with few letters are left out.
    """
    held_title, held = "", ""
    for title, block in found:
        text = " ".join(block.split())
        if held and title != held_title:
            yield from _cut(held_title, held)
            held = ""
        held_title, held = title, f"{held} {text}".strip()
        if len(held) >= CHARACTERS_MIN:
            yield from _cut(held_title, held)
            held = ""
    yield from _cut(held_title, held)


def _cut(title: str, text: str) -> Iterator[tuple[str, str]]:
    while len(text) > CHARACTERS_MAX:
        end = text.rfind(" ", CHARACTERS_MAX // 2, CHARACTERS_MAX)
        end = CHARACTERS_MAX if end < 0 else end
        yield title, text[:end]
        text = text[end:].strip()
    # Lines of dashes, page numbers and similar paragraphs have few letters.
    if sum(character.isalpha() for character in text) >= CHARACTERS_MIN // 2:
        yield title, text
