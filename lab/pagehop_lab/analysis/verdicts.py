"""Whether a figure is valid: one verdict for each reason why it may not be.

A raw measurement has counters beside its figures. Verdicts come from the counters. If a counter is
not certain, the result is a note and not a verdict: a figure is shown as invalid only for a reason
that can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.records import PointRecord

Raw = PointRecord

# A client that is busy for a larger share of the time measures itself.
CLIENT_SHARE_MAX = 0.5
# An offered rate is sustained if this share of it was answered.
RATE_SHARE_MIN = 0.95
# Storage reads for each query that a hot cache may have.
HOT_READS_MAX = 0.01
# Ratio of wall time to CPU time of one thread above which other work delayed it.
WAITED_MAX = 1.1
# Cores that other processes may keep busy.
OTHERS_MAX = 0.1
OTHERS = "others were running:"
"""Beginning of a note on other work."""
WAITED = f"{OTHERS} the clock went"
"""The first words of a note when other work delayed the measured thread.

Other work that only ran beside it has another note.
"""
THROTTLED = "throttled:"
"""How a note on heat begins."""
# Exact answers that take this share of a plain scan's time look like a scan.
SCAN_SHARE = 0.5
# Settings of a scan take the same time, up to noise.
SCAN_SPREAD = 1.5


@dataclass(frozen=True)
class Verdicts:
    """The reasons why a figure is invalid, and notes on a valid one; both empty if all is well."""

    wrong: tuple[str, ...]
    noted: tuple[str, ...]


def judge(raw: Raw) -> Verdicts:
    """The verdicts on a raw measurement."""
    wrong = [said for said in (check(raw) for check in _WRONG) if said]
    noted = [said for said in (check(raw) for check in _NOTED) if said]
    return Verdicts(tuple(wrong), tuple(noted))


def _errors(raw: Raw) -> str | None:
    if not raw["errors"]:
        return None
    first = raw.get("first_error")
    return f"errors: {raw['errors']} of {raw['count']} requests failed" + (f", first with {first}" if first else "")


def _rows(raw: Raw) -> str | None:
    short = raw["rows_short_count"]
    return f"rows: {short} of {raw['count']} answers had fewer than {raw['k']} rows" if short else None


def _unknown_rows(raw: Raw) -> str | None:
    for count, told in [
        (raw.get("rows_unknown_count"), "are not in the data"),
        (raw.get("rows_left_out_count"), "the filter leaves out"),
    ]:
        if count:
            return f"rows: {count} rows were given that {told}"
    return None


def _plan(raw: Raw) -> str | None:
    if raw["exact_by_design"]:
        return None
    return "plan: the index was not used, every row was compared" if raw["index_used"] is False else None


def _client(raw: Raw) -> str | None:
    share = raw["client_share"]
    if share is None or share <= CLIENT_SHARE_MAX:
        return None
    return f"client: saturated, {share:.0%} of the time was its own"


def _rate(raw: Raw) -> str | None:
    rate = raw.get("rate")
    if rate is None:
        return None
    share = raw["qps"] / rate
    if share >= RATE_SHARE_MIN and not raw.get("unsent_count"):
        return None
    return f"rate: {rate:g} requests a second were offered, {share:.0%} of them answered in time"


def _cache(raw: Raw) -> str | None:
    reads, state = raw.get("storage_reads_per_query"), raw["cache"]
    if reads is None:
        return None
    if state == "hot" and reads > HOT_READS_MAX:
        return f"cache: declared hot, but {reads:.3g} reads a query came from storage"
    if state in ("cold", "limited") and reads <= HOT_READS_MAX:
        return f"cache: declared {state}, but nothing came from storage"
    return None


def _inserts(raw: Raw) -> str | None:
    """Whether rows were inserted during the measurement as fast as the plan asks."""
    wanted = raw.get("insert_rate")
    if not wanted or raw["inserted_per_s"] >= RATE_SHARE_MIN * wanted:
        return None
    return f"inserts: {wanted:g} rows a second were to go in, {raw['inserted_per_s']:.0f} did"


def _repeated(raw: Raw) -> str | None:
    return "interrupted: the measurement was cut short" if raw.get("interrupted") else None


def looks_like_scans(raws: Sequence[Raw]) -> str | None:
    """The sign of a full scan, for an engine that cannot say whether it used its index.

    `raws` are all searches of one index. A scan finds everything, takes as long as a scan, and no
    setting changes either. One setting alone proves nothing: any index with enough effort finds
    everything.
    """
    known = [raw for raw in raws if raw["recall"] and raw["sessions"] == 1 and not raw["rate"]]
    if any(raw["exact_by_design"] or raw["index_used"] is not None for raw in known):
        return None
    if len({repr(sorted(raw["search"].items())) for raw in known}) < 2:
        return None
    scan_us, times_us = known[0]["scan_us_per_query"], [1e6 / raw["qps"] for raw in known]
    if min((raw["recall"] or {})["with_ties"] for raw in known) < 1 or scan_us is None:
        return None
    if min(times_us) < SCAN_SHARE * scan_us or max(times_us) > SCAN_SPREAD * min(times_us):
        return None
    told = f"{min(times_us):.0f} to {max(times_us):.0f} us"
    return f"plan: every setting finds everything in {told}, a scan of all rows takes {scan_us:.0f}: no index is used"


def _waited(raw: Raw) -> str | None:
    waited = raw.get("waited")
    if waited is None or waited <= WAITED_MAX:
        return None
    return f"{WAITED} {waited:.2f} times as far as the CPU"


def _others(raw: Raw) -> str | None:
    busy = without_stolen(raw.get("other_busy_cores"), raw.get("stolen_cores"))
    if busy is None or busy <= OTHERS_MAX:
        return None
    return f"{OTHERS} {busy:.2f} cores were busy with something else"


def without_stolen(busy: float | None, stolen_cores: float | None) -> float | None:
    """Cores that other work kept busy, without those that the host took.

    The kernel's busy time includes these, and they have a note of their own.
    """
    return None if busy is None else max(busy - (stolen_cores or 0.0), 0.0)


def stolen(cores: float | None) -> str | None:
    """A note on cores that the host of a virtual machine gave to others."""
    if cores is None or cores <= OTHERS_MAX:
        return None
    return f"{OTHERS} the host gave {cores:.2f} cores of this machine to others"


def throttled(count: int | None) -> str | None:
    """A note on heat that slowed the processor."""
    return f"{THROTTLED} heat slowed the processor {count} times" if count else None


def _stolen(raw: Raw) -> str | None:
    return stolen(raw.get("stolen_cores"))


def _throttled(raw: Raw) -> str | None:
    return throttled(raw.get("throttled_count"))


def _changing(raw: Raw) -> str | None:
    changed = raw.get("answers_changed_count")
    return f"{changed} queries were answered differently when asked again" if changed else None


def _exact(raw: Raw) -> str | None:
    return "compares every row by design" if raw["exact_by_design"] else None


_WRONG: tuple[Callable[[Raw], str | None], ...] = (
    _errors, _rows, _unknown_rows, _plan, _client, _rate, _inserts, _cache, _repeated,
)  # fmt: skip
_NOTED: tuple[Callable[[Raw], str | None], ...] = (
    _waited, _others, _stolen, _throttled, _changing, _exact,
)  # fmt: skip
