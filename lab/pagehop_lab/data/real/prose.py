"""Paragraphs of English prose in an HTML page, each with the heading above it.

One idea: a page is cut at the start and end of every block element, and each piece of text between
two cuts is judged alone. So it does not matter whether a generator writes `<p>`,
`<div class="block">` or bare text. Code, tables, menus and signatures are never entered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree, html

RULES = 1
"""Version of the rules in this file.

Raise it when they find other passages: pages are then read again.
"""

FEWEST_WORDS, MOST_WORDS = 20, 120
TITLE_FEWEST_WORDS, TITLE_MOST_WORDS = 2, 16


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_INLINE = _words(
    """
    a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q s samp small span strike
    strong sub sup time tt u var wbr
    """
)
_NOT_PROSE = _words(
    """
    address button dt figure footer form head header iframe listing math nav noscript object pre script select style
    svg table textarea xmp
    """
)
_HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_NOT_PROSE_CLASS = re.compile(
    r"\b(?:sphinxsidebar|related|toc|toctree-wrapper|navheader|navfooter|breadcrumbs|highlight|sig|docutils field-list|"
    r"code-header|rightside|indextable|memproto|memname|fragment|navpath|navtab|tabs|sidebar|line-numbers|index-entry)\b"
)
# "3.1.", "Chapter 4:", "A.2", "IV."
_NUMBER_OF_A_TITLE = re.compile(
    r"^(?:(?:Chapter|Appendix|Part|Section)\s+(?:[0-9]+|[A-Z]|[IVX]+)|[0-9]+(?:\.[0-9]+)*|[A-Z](?:\.[0-9]+)+|[A-Z]\.|[IVX]+\.)"
    r"[.:)]?\s+"
)
_MARKS_OF_LINKS = re.compile(r"[¶§¤\u200b\uf0c1]|\[src\]|\[edit\]|\[\d+\]")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_SENTENCE_END = re.compile(r"[.!?:][\"'\u201d\u2019)\]]*$")
# The most frequent function words of English. They are a third of prose, but few in other languages
# and in lists of names.
_FUNCTION_WORDS = _words(
    """
    a about after all also an and any are as at be been before being but by can could do does each for from had has
    have how if in into is it its may might more most must no not of on one only or other our should since so some
    such than that the their them then there these they this those through to under until up use used using was we
    were what when where whether which while who will with within without would you your
    """
)
_LEAST_FUNCTION_WORDS = 0.28
_LEAST_LETTERS = 0.74
_LEAST_PLAIN_WORDS = 0.75


@dataclass(frozen=True)
class Paragraph:
    """A piece of prose, and the heading that it stands under (empty where there is none)."""

    text: str
    title: str


def paragraphs(page: bytes) -> Iterator[Paragraph]:
    """The prose of a page, in its order."""
    try:
        root = html.document_fromstring(page, parser=html.HTMLParser(encoding=_encoding(page)))
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return
    body = root.find("body")
    title = ""
    for text, is_heading in _blocks(root if body is None else body):
        if is_heading:
            title = _plain_title(text)
        elif is_prose(text):
            yield Paragraph(text, title)


def _encoding(page: bytes) -> str | None:
    """UTF-8 if the bytes are valid UTF-8, otherwise what the page declares."""
    try:
        page.decode()
    except UnicodeDecodeError:
        return None
    return "utf-8"


def is_prose(text: str) -> bool:
    """Whether a text is a paragraph of English sentences, and neither a list of names nor code."""
    words = text.split()
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS or not _SENTENCE_END.search(text):
        return False
    if not (text[0].isupper() or text[0] in "\"'\u201c\u2018("):
        return False
    found = [word.lower() for word in _WORD.findall(text)]
    frequent = sum(word in _FUNCTION_WORDS for word in found)
    letters = sum(character.isalpha() for character in text)
    plain = sum(bool(_WORD.fullmatch(word.strip(".,;:!?()\"'\u201c\u201d\u2018\u2019[]"))) for word in words)
    return (
        frequent >= _LEAST_FUNCTION_WORDS * len(words)
        and letters >= _LEAST_LETTERS * len(text)
        and plain >= _LEAST_PLAIN_WORDS * len(words)
    )


def is_title(title: str) -> bool:
    """Whether a heading can be a query: some plain words."""
    words = title.split()
    return TITLE_FEWEST_WORDS <= len(words) <= TITLE_MOST_WORDS and all(
        _WORD.fullmatch(word.strip(",.:;!?()'\"")) for word in words
    )


def _plain_title(text: str) -> str:
    return _NUMBER_OF_A_TITLE.sub("", text).strip()


def _blocks(body: Any) -> Iterator[tuple[str, bool]]:
    """Text between two cuts, in order, and whether it is a heading."""
    pieces: list[str] = []

    def cut() -> str:
        text = " ".join(_MARKS_OF_LINKS.sub(" ", "".join(pieces)).split())
        pieces.clear()
        return text

    for step, element in _walk(body):
        tag = element.tag
        if step == "text":
            pieces.append(element.text or "")
        elif step == "tail":
            pieces.append(element.tail or "")
        elif tag == "br":
            pieces.append(" ")
        elif tag not in _INLINE:
            text = cut()
            if text:
                yield text, step == "end" and tag in _HEADINGS
    text = cut()
    if text:
        yield text, False


def _walk(body: Any) -> Iterator[tuple[str, Any]]:
    """Starts, texts, ends and tails of elements that may hold prose.

    It is not recursive, because pages nest deeply.
    """
    yield "text", body
    stack = [iter(body)]
    owners = [body]
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
            owner = owners.pop()
            if stack:
                yield "end", owner
                yield "tail", owner
        elif not isinstance(element.tag, str):
            yield "tail", element
        elif element.tag in _NOT_PROSE or _NOT_PROSE_CLASS.search(element.get("class") or ""):
            yield "start" if element.tag not in _INLINE else "skip", element
            yield "tail", element
        else:
            yield "start", element
            yield "text", element
            stack.append(iter(element))
            owners.append(element)
