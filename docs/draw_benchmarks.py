"""Draws docs/benchmarks.svg: bars of the engines at one recall, from kept results."""

from __future__ import annotations

from kept_reports import engines
from kept_results import ENGINES, TEXTS, TEXTS_POSTGRES, about, number


def chart() -> str:
    """An SVG chart: a bar for each engine's queries per second at recall@10 of 0.99."""
    groups = [("Libraries, 150,000 embeddings of real text", [one for one in engines(run=TEXTS) if 0.99 in one.qps])]
    groups.append(("PostgreSQL, the same embeddings", engines(run=TEXTS_POSTGRES)))
    groups.append(("Database servers, 60,000 images", [one for one in engines() if not one.library]))
    left, width, step = 186, 440, 26
    drawn, top = [], 54
    for title, members in groups:
        drawn.append(f'<text class="group" x="{left}" y="{top}">{title}</text>')
        top += 10
        scale = width / max(one.qps[0.99] for one in members)
        for one in members:
            kind = "ours" if one.name.startswith("Pagehop") else "other"
            length = one.qps[0.99] * scale
            drawn += [
                f'<text class="name {kind}" x="{left - 10}" y="{top + 15}">{one.name}</text>',
                f'<rect class="{kind}" x="{left}" y="{top + 2}" width="{length:.1f}" height="18" rx="2"/>',
                f'<text class="value" x="{left + length + 8:.1f}" y="{top + 15}">{number(one.qps[0.99])}</text>',
            ]
            top += step
        top += 26
    [texts, in_postgres, images] = [about(run)[0].strip("*") for run in (TEXTS, TEXTS_POSTGRES, ENGINES)]
    words = [
        "texts-384, 150,000 x 384, k = 10, one core, 1,000 queries a call.",
        texts,
        "In PostgreSQL: the same set, one connection, one query a statement.",
        in_postgres,
        "Fashion-MNIST, 60,000 x 784, k = 10, one core, one query a call.",
        images,
    ]
    height = top + 16 * len(words) - 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" height="{height}">',
            "<title>Queries a second at recall@10 of 0.99</title>",
            f"<desc>{' '.join(words)}</desc>",
            STYLE,
            '<text class="title" x="4" y="22">Queries a second at recall@10 of 0.99</text>',
            *drawn,
            *(f'<text class="small" x="4" y="{top + 16 * at}">{part}</text>' for at, part in enumerate(words)),
            "</svg>\n",
        ]
    )


STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #6e7781 }
.title { font-size: 16px; font-weight: 600 }
.group, .name.ours { font-weight: 600 }
.name { text-anchor: end }
.small { font-size: 11px }
rect.ours { fill: #d9480f }
rect.other { fill: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #adbac7 } rect.ours { fill: #f76707 } rect.other { fill: #636e7b } }
</style>"""
