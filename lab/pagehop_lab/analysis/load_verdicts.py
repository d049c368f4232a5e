"""Verdicts on raw measurements of OLTP tests: whether the figure of a server is valid."""

from __future__ import annotations

from pagehop_lab.analysis.server_records import CaseRecord
from pagehop_lab.analysis.verdicts import OTHERS, OTHERS_MAX, Verdicts, stolen, throttled, without_stolen

# A client that is busy for a larger share of a core measures itself.
CLIENT_SHARE_MAX = 0.5
# The same limit for older measurements, as a share of the CPU of the whole machine.
_CLIENT_SHARE_OF_MACHINE_MAX = 0.2
# Reads that take a tenth of a millisecond each, in this number, take 1% of the time.
HOT_READS_PER_S_MAX = 100
# A step that writes less than this share of its rate has failed, and its queries are invalid.
WRITE_SHARE_MIN = 0.95
CLOCK_JUMP_MAX_S = 0.1
# With fewer reads per query, the data were in memory.
COLD_READS_MIN = 0.2
TIMES_MIN = 8.0
"""Least ratio of the data to the memory that may hold them, if data must be larger than memory."""
FEW = 10


def judge_load(raw: CaseRecord) -> Verdicts:
    """The reason why a figure is invalid, and notes on a valid figure."""
    wrong, noted = [], []
    if raw["errors"]:
        wrong.append(f"errors: {raw['errors']} queries failed")
    wrong += _of_the_client(raw)
    reads_per_s = (raw["storage_reads_per_query"] or 0.0) * raw["qps"]
    if reads_per_s > HOT_READS_PER_S_MAX and raw.get("memory") is None:
        wrong.append(f"cache: declared hot, but {reads_per_s:,.0f} reads a second came from storage")
    if raw.get("write_target") and raw["rows_per_s"] < WRITE_SHARE_MIN * raw["write_target"]:
        share = raw["rows_per_s"] / raw["write_target"]
        wrong.append(f"rate: {share:.0%} of {raw['write_target']:g} rows a second were written")
    wrong += _of_storage(raw)
    if raw.get("index_used") is False:
        wrong.append("plan: the index was not used")
    if raw.get("rows_short_count"):
        wrong.append(f"rows: {raw['rows_short_count']} answers had fewer rows than wanted")
    if raw.get("rows_again_count"):
        wrong.append(f"rows: the vectors of {raw['rows_again_count']:,} had been there before, which costs less")
    if raw.get("rows_gone_count"):
        wrong.append(f"rows: {raw['rows_gone_count']} rows were given that were not there")
    if raw.get("times_memory") is not None and raw["times_memory"] < TIMES_MIN:
        noted.append(f"size: compressed, the data are {raw['times_memory']:.1f} times the memory")
    by_the_machine = stolen(raw.get("stolen_cores")), throttled(raw.get("throttled_count"))
    noted += [said for said in (_others(raw), *by_the_machine) if said]
    if abs(raw["clock_jump_s"]) > CLOCK_JUMP_MAX_S:
        noted.append(
            f"the clock was set by {raw['clock_jump_s']:+.1f} s during the measurement; another one was measured by"
        )
    if raw["count"] < FEW:
        noted.append(f"few: {raw['count']} queries were asked")
    if raw["slowed"]:
        noted.append(f"slowed on purpose by {raw['slowed']:.0%}")
    if raw.get("doubled"):
        noted.append(f"{raw['doubled']:.0%} of the events were executed twice on purpose")
    return Verdicts(tuple(wrong), tuple(noted))


def _others(raw: CaseRecord) -> str | None:
    """A note on other work on the machine; an upper bound if the kernel's work for the disk is not
    known.
    """
    others, most = raw["other_busy_cores"], ""
    busy, server_us = raw.get("busy_cores"), raw.get("server_cpu_us_per_query")
    if others is None and busy is not None and server_us is not None:
        own_us = server_us + raw["client_cpu_us_per_query"]
        others, most = busy - own_us * raw["count"] / 1e6 / raw["elapsed_s"], "at most "
    others = without_stolen(others, raw.get("stolen_cores"))
    if others is None or others <= OTHERS_MAX:
        return None
    disk = ", or with the disk for the kernel" if most else ""
    return f"{OTHERS} {most}{others:.2f} cores were busy with something else{disk}"


def _of_the_client(raw: CaseRecord) -> list[str]:
    share = raw.get("client_share_of_core")
    if share is None:
        of_machine = raw["client_share_of_machine"]
        is_much = of_machine > _CLIENT_SHARE_OF_MACHINE_MAX
        return [f"client: it took {of_machine:.0%} of the machine's CPU"] if is_much else []
    return [f"client: saturated, {share:.0%} of a core's time was its own"] if share > CLIENT_SHARE_MAX else []


def _of_storage(raw: CaseRecord) -> list[str]:
    """The reasons why a figure of reads from storage, or of writes to it, is invalid."""
    wrong = []
    if raw.get("settled") is False:
        why = raw.get("unsettled") or f"rates still went one way after {raw['settle_s']:.0f} s"
        wrong.append(f"settling: {why}")
    disk = raw.get("disk")
    if disk is not None and disk["reads_per_query"] < COLD_READS_MIN:
        wrong.append(f"cache: declared larger than memory, but only {disk['reads_per_query']:.3f} reads a query")
    reads = raw["storage_reads_per_query"]
    if raw.get("expects_reads") and reads is not None and reads < COLD_READS_MIN:
        wrong.append(f"cache: declared larger than memory, but only {reads:.3f} reads of 4 KiB a query")
    return wrong
