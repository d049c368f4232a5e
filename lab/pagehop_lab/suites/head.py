"""The first and the last lines of a run's page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagehop_lab.analysis.coverage import Coverage
from pagehop_lab.analysis.turns import APART
from pagehop_lab.analysis.verdicts import OTHERS, THROTTLED
from pagehop_lab.suites.latest import COMPILERS, LAB
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.server_results import AnyServers
from pagehop_lab.suites.table import Section

_CHANGED = " The + is for changes on top of the commit: no commit has them, so none can repeat this run."


@dataclass(frozen=True)
class Head:
    """The first and the last lines of a page."""

    name: str
    subject: str
    """What is compared."""
    lead: str
    state: tuple[str, ...]
    """Counts of measurements, and of missing or invalid ones."""
    is_sound: bool
    """Whether all figures are valid."""
    about: tuple[str, ...]
    """How it was measured."""


# Notes that are counted, by their first words.
_COUNTED = {
    OTHERS: "while other work took a part of the machine",
    THROTTLED: "while heat slowed the processor",
    LAB: "by another commit of the lab than the rest",
    APART: "at another time than most of their group",
    COMPILERS: "after the compilers of the machine had changed",
}


def head_of(results: Results, how: str, sections: Sequence[Section]) -> Head:
    """The head of a run of engines, which says how its suite measures, and what ratios say."""
    machine = results.machine
    repeats, rebuilds = results.load["repeats"], results.load["rebuilds"]
    lead = (
        f"{on_machine(machine)} k = {results.k}; {counted(repeats, 'repeat')} of {counted(rebuilds, 'build')}; suite "
        f"{results.suite}, seed {results.seed}."
    )
    wrong = sum(not point.valid for point in results.points)
    load = ", ".join(f"{name} = {value}" for name, value in results.load.items())
    ratios = Ratios.of(sections)
    state = state_of(results.coverage, wrong, [point.noted for point in results.points], results.again, ratios)
    is_sound = results.sound and not ratios.mostly_uncertain
    about = (how, f"Load: {load}.", results.made_by)
    return Head(results.name, "engines at equal recall", lead, state, is_sound, about)


def counted(number: int, what: str) -> str:
    """`1 repeat`, `2 repeats`."""
    return f"{number} {what}" + ("s" if number > 1 else "")


def on_machine(machine: Mapping[str, Any]) -> str:
    """The machine, in one sentence."""
    memory = f"{machine['memory_gib']:.0f} GiB"
    # Older folders have fewer facts.
    virtual = {None: "", "none": "", "yes": "virtual"}.get(machine.get("virtualization"))
    more = [
        f"virtual ({machine['virtualization']})" if virtual is None else virtual,
        f"governor {machine['governor']}" if machine.get("governor") else "",
        machine.get("file_system") or "",
        machine.get("disk") or "",
    ]
    told = ", ".join(filter(None, [f"Linux {machine['kernel']}", *more]))
    return f"{machine['cpu']}, {machine['cores']} cores, {memory}, {told}."


def made_by(commits: Iterable[str | None]) -> str:
    """The commits of the lab that measured a run, in words. Empty if they are not known."""
    known = sorted({commit for commit in commits if commit})
    told = f"Measured by the lab at {', '.join(known)}." if known else ""
    return told + (_CHANGED if any(commit.endswith("+") for commit in known) else "")


@dataclass(frozen=True)
class Ratios:
    """Number and certainty of the ratios in a run's tables."""

    count: int
    uncertain: int
    """Ratios with a `?`, whose repeats disagree by more than they differ from 1."""
    once: int
    """Ratios of one repeat, whose spread is not known."""

    @staticmethod
    def of(sections: Iterable[Section]) -> Ratios:
        """The ratios of all tables."""
        said = [
            cell.said for section in sections for table in section.tables for row in table.rows for cell in row
            if cell.said
        ]  # fmt: skip
        return Ratios(len(said), said.count("inconclusive"), said.count("one repeat"))

    @property
    def mostly_uncertain(self) -> bool:
        """Whether most ratios are uncertain, so that the page may not be green."""
        return 2 * (self.uncertain + self.once) > self.count


def state_of(
    found: Coverage, wrong: int, notes: Sequence[Sequence[str]], again: int, ratios: Ratios
) -> tuple[str, ...]:
    """How much of a plan was measured, and how much of that is invalid, disturbed or repeated.

    `notes` has the notes of each measurement. The text says that all points are valid only if all
    ratios are conclusive, too.
    """
    parts = [f"{found.present_count:,} of {found.configured_count:,} points were measured"]
    if found.failed:
        parts.append(f"{len(found.failed):,} failed")
    if found.missing:
        parts.append(f"{len(found.missing):,} are missing")
    if wrong:
        parts.append(f"{wrong:,} are invalid")
    if ratios.uncertain:
        parts.append(f"{ratios.uncertain:,} of {ratios.count:,} ratios are inconclusive (?)")
    if ratios.once:
        parts.append(f"{ratios.once:,} of {ratios.count:,} ratios are of one repeat")
    if found.present_count and not (wrong or ratios.uncertain or ratios.once):
        parts.append("all of them valid")
    for begins, words in _COUNTED.items():
        if count := sum(any(note.startswith(begins) for note in noted) for noted in notes):
            parts.append(f"{count:,} {words}")
    if again:
        parts.append(f"{again:,} more than once, of which the last attempt with a figure counts")
    return tuple(parts)


def head_of_servers(results: AnyServers, how: str, sections: Sequence[Section]) -> Head:
    """The head of a run of servers, which says how its suite measures, and what ratios say."""
    load = results.load
    sessions = load.get("sessions")
    clients = counted(load["clients"], "client") if sessions is None else f"{' and '.join(map(str, sessions))} clients"
    lead = f"{on_machine(results.machine)} {load['rows']:,} rows, {clients}, {counted(load['repeats'], 'repeat')}; "
    lead += f"suite {results.suite}, seed {results.seed}; compared with {results.base}."
    wrong = sum(not one.valid for one in results.measured)
    told = ", ".join(f"{name} = {value}" for name, value in load.items())
    ratios = Ratios.of(sections)
    state = state_of(results.coverage, wrong, [one.noted for one in results.measured], results.again, ratios)
    is_sound = results.sound and not ratios.mostly_uncertain
    return Head(results.name, "servers", lead, state, is_sound, (how, f"Load: {told}.", results.made_by))
