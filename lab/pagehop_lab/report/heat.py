"""Shades of a table of ratios: the further a figure is from 1, the stronger its cell is colored.

Both sides have the same steps, to two decimals: 0.5 is as far from 1 as 2 is. Only a ratio whose
interval leaves out 1 has a color, so noise and single repeats have none.
"""

from __future__ import annotations

from pagehop_lab.suites.table import Table

# A figure that is at least this many times 1 has the shade of that number.
STEPS = (1.02, 1.05, 1.1, 1.25, 1.5)
# So has one that is at most 1 over it, to two decimals: ratios in tables are rounded so, too.
_BELOW = tuple(round(1 / limit, 2) for limit in STEPS)


def shade(ratio: float) -> str:
    """The class of a cell: `up1` to `up5`, `down1` to `down5`; empty near 1."""
    is_above = ratio > 1
    step = sum(ratio >= limit for limit in STEPS) if is_above else sum(ratio <= limit for limit in _BELOW)
    return f"{'up' if is_above else 'down'}{step}" if step else ""


def key(table: Table) -> str:
    """The meaning of the shades; empty for a table without them."""
    if not table.is_heat:
        return ""
    below = [(f"down{step}", f"≤ {limit:.2f}") for step, limit in enumerate(_BELOW, start=1)]
    above = [(f"up{step}", f"≥ {limit:.2f}") for step, limit in enumerate(STEPS, start=1)]
    cells = "".join(f"<span class={name}>{text}</span>" for name, text in [*below[::-1], ("", "1"), *above])
    return f"<p class=shades>{cells}</p>"
