"""The record of a measurement that a report shows, if a folder has several.

Records may differ in version or in statements, or be attempts that failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pagehop_lab.store import Record, RunFolder

LAB = "lab:"
"""Beginning of a note on another commit of the lab."""
COMPILERS = "compilers:"
"""Beginning of a note on other compilers."""


def current(folder: RunFolder, subject: str) -> dict[str, str]:
    """The version that each engine or server (`subject`) had when the folder was last run."""
    return {
        record.identity[subject]: str(record.raw["version"])
        for record in folder.known("engines")
        if record.failed is None and "version" in record.raw
    }


def latest(records: Sequence[Record], versions: Mapping[str, str], subject: str) -> dict[str, Record]:
    """The record of each cell.

    A measurement wins over a failure, then newer statements over older ones, then the current
    version over others.
    """

    def rank(record: Record) -> tuple[bool, int, bool, str]:
        statements = record.identity.get("statements", 0)
        return (record.failed is None, statements, _is_current(record, versions, subject), record.file)

    return {record.cell: record for record in sorted(records, key=rank)}


def notes(record: Record, versions: Mapping[str, str], subject: str, usual: str | None) -> tuple[str, ...]:
    """Differences between a record and the rest of its folder: version, commit of the lab,
    compilers; and the failure of a later attempt.

    `usual` is the commit of most records.
    """
    return (
        *_of_another_version(record, versions, subject),
        *_of_another_lab(record, usual),
        *_by_other_compilers(record),
        *((f"later: another attempt failed: {record.failed_later}",) if record.failed_later else ()),
    )


def _of_another_version(record: Record, versions: Mapping[str, str], subject: str) -> tuple[str, ...]:
    """A note on a record of another version. It stays until the same command measures it again."""
    if _is_current(record, versions, subject):
        return ()
    name = record.identity[subject]
    return (f"version: this is {record.identity.get('version')}, and {name} is {versions[name]} in this folder now",)


def usual_commit(records: Iterable[Record]) -> str | None:
    """The commit of the lab that made most of the records, if any is known."""
    known = Counter(record.commit for record in records if record.commit)
    return known.most_common(1)[0][0] if known else None


def _of_another_lab(record: Record, usual: str | None) -> tuple[str, ...]:
    """A note on a record that another commit of the lab made than most records of its folder."""
    if record.commit is None or record.commit == usual:
        return ()
    return (f"{LAB} this was measured at {record.commit}, and most of this folder at {usual}",)


def _by_other_compilers(record: Record) -> tuple[str, ...]:
    """A note on a record that was made after the machine's compilers had changed."""
    return (f"{COMPILERS} this machine had {record.compilers} by then",) if record.compilers else ()


def _is_current(record: Record, versions: Mapping[str, str], subject: str) -> bool:
    now = versions.get(record.identity.get(subject, ""))
    return now is None or record.identity.get("version") == now
