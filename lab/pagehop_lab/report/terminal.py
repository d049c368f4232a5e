"""Tables as lines of a terminal."""

from __future__ import annotations

from pagehop_lab.suites.table import Section, Table

# Long tables are for files and the page.
_ROWS_MAX = 60


def lines(section: Section) -> str:
    """A section with its tables; the longest are left to the files."""
    parts = [f"=== {section.title}"]
    parts += [text(table) for table in section.tables if table.rows and not table.name.startswith("points-")]
    return "\n\n".join(parts)


def text(table: Table) -> str:
    """One table; its first column to the left, all others as their cells are."""
    rows = [list(table.columns), *([cell.text for cell in row] for row in table.rows[:_ROWS_MAX])]
    widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(len(table.columns))]
    said = [table.title]
    for row in rows:
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, table.numeric, strict=False)
        ]
        said.append(("  " + "  ".join(cells)).rstrip())
    if len(table.rows) > _ROWS_MAX:
        said.append(f"  ... and {len(table.rows) - _ROWS_MAX} more, in {table.name}.csv")
    return "\n".join(said)
