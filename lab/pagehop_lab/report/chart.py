"""Charts as SVG, written by hand: no script, no font, no library.

QPS is on a logarithmic axis. The axis of recall is the miss (1 - recall), also logarithmic: from
0.99 to 0.999 is as far as from 0.9 to 0.99, because it costs as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from pagehop_lab.suites.table import Chart, Mark, Series

WIDTH, HEIGHT = 880, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 16, 52
_RECALL_TICKS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 1.0)
# With a smaller miss, a recall is drawn as 1.
_MISSING_MIN = 1e-4
# Labels of an axis that has one for each value.
_VALUES_MAX = 14
# Units of the drawing that a character of a label takes, and the least space between two labels.
_CHARACTER, _SPACE = 7.0, 6.0
_SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True)
class _Axes:
    x: Callable[[float], float]
    y: Callable[[float], float]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]


def svg(chart: Chart) -> str:
    """The chart; empty if it has no points."""
    marks = [mark for series in chart.series for mark in series.marks if mark.y > 0]
    if not marks:
        return ""
    axes = _axes(chart, marks)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">',
        *_grid(chart, axes),
        *(part for number, series in enumerate(chart.series) for part in _series(series, number, axes)),
        "</svg>",
    ]
    return "\n".join(parts)


def legend(chart: Chart) -> str:
    """The names of the series, with their marks."""
    items = []
    for number, series in enumerate(chart.series):
        key = f'<svg class="key {_class(number)}" viewBox="0 0 14 14">{_shape(7, 7, number, False)}</svg>'
        items.append(f"<li>{key}{escape(series.name)}</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def _axes(chart: Chart, marks: Sequence[Mark]) -> _Axes:
    low = min(mark.low or mark.y for mark in marks)
    high = max(mark.high or mark.y for mark in marks)
    y_ticks = _log_ticks(low, high)
    bottom, top = (math.log10(one) for one in (min(low, y_ticks[0]) * 0.95, max(high, y_ticks[-1]) * 1.05))

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (math.log10(max(value, 1e-9)) - bottom) / (top - bottom) * (HEIGHT - _BOTTOM - _TOP)

    shown = [(tick, f"{tick:,.0f}" if tick >= 1 else f"{tick:g}") for tick in y_ticks]
    xs = [mark.x for mark in marks]
    if chart.x_nears_one:
        ticks = _recall_ticks(min(xs), max(xs))
        first, last = _missing(min(*xs, ticks[0])), _missing(max(*xs, ticks[-1]))
        named = [(tick, f"{tick:g}") for tick in ticks]
        return _Axes(_scale(_missing, first, last), y, named, shown)
    x = _scale(float, 0, max(xs) * 1.04)
    return _Axes(x, y, _that_fit(x, _steps(xs)), shown)


def _steps(xs: Sequence[float]) -> list[tuple[float, str]]:
    """The values themselves, or round ones if they are measured figures, which all differ."""
    found = sorted(set(xs))
    if len(found) > _VALUES_MAX:
        wide = max(found) / (_VALUES_MAX / 2)
        power = 10 ** math.floor(math.log10(wide))
        step = power * next(digit for digit in (1, 2, 5, 10) if digit * power >= wide)
        found = [step * number for number in range(int(max(found) / step) + 1)]
    return [(one, f"{one:,.10g}") for one in found]


def _that_fit(x: Callable[[float], float], ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The labels that have room beside each other; if two overlap, the greater one stays."""
    kept: list[tuple[float, str]] = []
    for value, name in reversed(ticks):
        if not kept or x(kept[-1][0]) - x(value) >= (len(kept[-1][1]) + len(name)) / 2 * _CHARACTER + _SPACE:
            kept.append((value, name))
    return kept[::-1]


def _scale(of: Callable[[float], float], first: float, last: float) -> Callable[[float], float]:
    span = (last - first) or 1.0
    return lambda value: _LEFT + 8 + (of(value) - first) / span * (WIDTH - _LEFT - _RIGHT - 16)


def _missing(recall: float) -> float:
    return -math.log10(max(1 - recall, _MISSING_MIN))


def _recall_ticks(low: float, high: float) -> list[float]:
    """Round recalls around the measured ones, not too near each other."""
    below = [tick for tick in _RECALL_TICKS if tick <= low]
    first = below[-1] if below else 0.0
    if first == 1.0:
        first = below[-2]
    above = [tick for tick in _RECALL_TICKS if tick >= high]
    wanted = [first, *(tick for tick in _RECALL_TICKS if first < tick <= (above[0] if above else 1.0))]
    span = _missing(wanted[-1]) - _missing(first) or 1.0
    kept = [wanted[-1]]
    for tick in wanted[-2::-1]:
        if _missing(kept[-1]) - _missing(tick) >= span / 14:
            kept.append(tick)
    return kept[::-1]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten around the figures; fewer if that is many."""
    few = high / low > 1000
    digits = (1,) if few else (1, 2, 5)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    below = [tick for tick in ticks if tick <= low]
    above = [tick for tick in ticks if tick >= high]
    first, last = (below[-1] if below else ticks[0]), (above[0] if above else ticks[-1])
    if first == last:
        first, last = ticks[ticks.index(first) - 1], ticks[ticks.index(last) + 1]
    return [tick for tick in ticks if first <= tick <= last]


def _grid(chart: Chart, axes: _Axes) -> list[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for value, name in axes.y_ticks:
        y = axes.y(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
    for value, name in axes.x_ticks:
        x = axes.x(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{name}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
    x_title, y_title = escape(chart.x_title), escape(chart.y_title)
    parts.append(f'<text class="title" x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{x_title}</text>')
    turned = f'transform="translate(16 {(bottom + _TOP) / 2}) rotate(-90)"'
    parts.append(f'<text class="title" {turned} text-anchor="middle">{y_title}</text>')
    return parts


def _series(series: Series, number: int, axes: _Axes) -> list[str]:
    parts = [f'<g class="{_class(number)}">']
    line = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in series.line if y > 0)
    if line:
        parts.append(f'<polyline class="line" points="{line}"/>')
    for mark in series.marks:
        if mark.y <= 0:
            continue
        x, y = axes.x(mark.x), axes.y(mark.y)
        inside = f"<title>{escape(series.name)} {escape(mark.title)}</title>{_shape(x, y, number, mark.invalid)}"
        if mark.low is not None and mark.high is not None and mark.high > mark.low:
            top, bottom = axes.y(mark.high), axes.y(mark.low)
            inside = f'<line class="range" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>' + inside
        parts.append(f'<a href="../{escape(mark.file)}">{inside}</a>' if mark.file else f"<g>{inside}</g>")
    return [*parts, "</g>"]


def _class(number: int) -> str:
    """The color; from the eleventh series on lines are dashed."""
    return f"c{number % 10}" + (" again" if number >= 10 else "")


def _shape(x: float, y: float, number: int, hollow: bool) -> str:
    """A mark. Its shape changes when the colors repeat, so twenty series can be distinguished."""
    kind = 'class="mark hollow"' if hollow else 'class="mark"'
    shape = _SHAPES[(number // 10 + number) % len(_SHAPES)]
    if shape == "circle":
        return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    known: dict[str, list[tuple[float, float]]] = {
        "square": [(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)],
        "diamond": [(0, -5), (5, 0), (0, 5), (-5, 0)],
        "triangle": [(0, -4.8), (4.6, 3.6), (-4.6, 3.6)],
    }
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in known[shape])
    return f'<polygon {kind} points="{points}"/>'
