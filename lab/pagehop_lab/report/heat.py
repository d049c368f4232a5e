"""Shades of a table of ratios: the further a figure is from 1, the stronger its cell is colored.

Both sides have the same steps: 0.5 is as far from 1 as 2 is. Only a ratio whose interval leaves out
1 has a color, so noise and single repeats have none.
"""

from __future__ import annotations

import math

from pagehop_lab.suites.table import Table

# A figure that is at least this many times 1, or 1 over it, has the shade of that number.
STEPS = (1.02, 1.05, 1.1, 1.25, 1.5)
# So that a ratio that was rounded to two decimals is not below its own step.
_SAME = 1e-9


def shade(ratio: float) -> str:
    """The class of a cell: `up1` to `up5`, `down1` to `down5`; empty near 1."""
    if ratio <= 0:
        return f"down{len(STEPS)}"
    far = abs(math.log(ratio))
    step = sum(far >= math.log(one) - _SAME for one in STEPS)
    return f"{'up' if ratio > 1 else 'down'}{step}" if step else ""


def key(table: Table) -> str:
    """What the shades mean; empty for a table without them."""
    if not table.is_heat:
        return ""
    below = [(f"down{step}", f"≤ {1 / limit:.2f}") for step, limit in enumerate(STEPS, start=1)]
    above = [(f"up{step}", f"≥ {limit:.2f}") for step, limit in enumerate(STEPS, start=1)]
    cells = "".join(f"<span class={name}>{text}</span>" for name, text in [*below[::-1], ("", "1"), *above])
    return f"<p class=shades>{cells}</p>"
