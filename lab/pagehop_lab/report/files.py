"""Tables as CSV or Parquet, one file each, and all of them as one JSON file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pagehop_lab.suites.table import Cell, Section, Table


def as_csv(table: Table) -> str:
    """Plain values, not formatted ones; each figure has its raw file beside it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    with_files = [any(row[at].file for row in table.rows if at < len(row)) for at in range(len(table.columns))]
    writer.writerow([
        name
        for column, has_files in zip(table.columns, with_files, strict=True)
        for name in ([column, f"{column} file"] if has_files else [column])
    ])  # fmt: skip
    for row in table.rows:
        cells: list[Any] = []
        for cell, has_files in zip(row, with_files, strict=True):
            cells.append(cell.text if cell.value is None else cell.value)
            cells += [cell.file] if has_files else []
        writer.writerow(cells)
    return out.getvalue()


def write_parquet(table: Table, path: Path) -> None:
    """The same in typed columns. In a column of figures, any other value is null. Needs pyarrow."""
    import pyarrow
    from pyarrow import parquet

    names, columns = [], []
    for at, (name, is_number) in enumerate(zip(table.columns, table.numeric, strict=True)):
        cells = [row[at] if at < len(row) else Cell("") for row in table.rows]
        names.append(name)
        columns.append(pyarrow.array([_figure(cell) if is_number else str(cell.value or cell.text) for cell in cells]))
        if any(cell.file for cell in cells):
            names.append(f"{name} file")
            columns.append(pyarrow.array([cell.file or None for cell in cells]))
    parquet.write_table(pyarrow.table(columns, names=names), path)


def _figure(cell: Cell) -> int | float | None:
    return cell.value if isinstance(cell.value, int | float) else None


def as_json(about: Mapping[str, Any], sections: Sequence[Section], more: Sequence[Table]) -> str:
    """Every table of a report, after a description of the run."""
    told = {
        **about,
        "sections": [
            {"title": section.title, "tables": [_table(table) for table in section.tables]} for section in sections
        ],
        "tables": [_table(table) for table in more],
    }
    return json.dumps(told, indent=1) + "\n"


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "note": table.note,
        "columns": table.columns,
        "rows": [
            [
                {"text": cell.text, "value": cell.value}
                | ({"file": cell.file} if cell.file else {})
                | ({"invalid": True} if cell.invalid else {})
                for cell in row
            ]
            for row in table.rows
        ],
    }
