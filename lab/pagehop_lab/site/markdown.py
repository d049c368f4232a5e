"""The Markdown that our documents need: headings, paragraphs, nested lists, bold and code."""

from __future__ import annotations

import re
from html import escape


def html(text: str) -> str:
    """A document as HTML."""
    parts: list[str] = []
    depth = 0
    for block in _blocks(text):
        indent, kind, words = block
        wanted = indent // 2 + 1 if kind == "-" else indent // 2
        while depth > wanted:
            parts.append("</ul>")
            depth -= 1
        while depth < wanted:
            parts.append("<ul>")
            depth += 1
        if kind.startswith("#"):
            parts.append(f"<h{len(kind)}>{_inline(words)}</h{len(kind)}>")
        else:
            parts.append(f"<li>{_inline(words)}</li>" if kind == "-" else f"<p>{_inline(words)}</p>")
    return "\n".join([*parts, *["</ul>"] * depth])


def _blocks(text: str) -> list[tuple[int, str, str]]:
    """Indent, kind (`-`, `#`, `##` or nothing) and words of each block, over all of its lines."""
    found: list[tuple[int, str, str]] = []
    begins = True
    for line in text.splitlines():
        match = re.match(r"( *)(-|#+)? ?(.*)", line)
        assert match is not None
        if not line.strip():
            begins = True
        elif match[2] or begins:
            found.append((len(match[1]), match[2] or "", match[3]))
            begins = bool(match[2]) and match[2] != "-"
        else:
            indent, kind, words = found[-1]
            found[-1] = (indent, kind, f"{words} {line.strip()}")
    return found


def _inline(words: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
