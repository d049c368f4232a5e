"""`log-writes`: write amplification of logs, by formulas and by a ledger of all writers."""

from __future__ import annotations

from pagehop_lab.suites import of_servers
from pagehop_lab.suites.log_writes.cases import Account, account, expected, least, per_sync, write_back
from pagehop_lab.suites.log_writes.records import CommitsRecord, LogDevice, LogRecord
from pagehop_lab.suites.server_results import Measured, ServerResults
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table


def sections(results: ServerResults[CommitsRecord]) -> list[Section]:
    """Amplification first, the ledger after it."""
    waited = [pages(results)] if any("pages" in one.raw for one in results.measured) else []
    found = [amplification(results), ledger(results), *waited, kernel(results)]
    tables = [*found, of_servers.invalid(results), points(results)]
    return [Section("Logs of commits, each with its own disk", [chart(results)], tables)]


def chart(results: ServerResults[CommitsRecord]) -> Chart:
    """Bytes at the disk for each byte of a row, by the size of commits."""
    series = []
    for server in results.names:
        theirs = [one for one in results.measured if one.server == server]
        for clients in sorted({one.raw["clients"] for one in theirs}):
            marks = [
                Mark(one.raw["commit_bytes"], times, f"{one.case}: {times:.2f}", one.file, not one.valid)
                for one in theirs
                if one.raw["clients"] == clients and (times := _of_payload(one)) is not None
            ]
            line = sorted((mark.x, mark.y) for mark in marks if not mark.invalid)
            series.append(Series(f"{server}, {clients} clients", marks, line))
    note = "All logs together, with what the file systems wrote for them."
    return Chart(
        "amplification", "Bytes at the disk for each byte of a row", "bytes of a commit", "times", series, False, note
    )


def _of_payload(one: Measured[CommitsRecord]) -> float | None:
    devices = _devices(one)
    return float(sum(device["bytes"] for device in devices)) / float(one.raw["payload_bytes"]) if devices else None


def _devices(one: Measured[CommitsRecord]) -> list[LogDevice] | None:
    """What the disk of each log was given; None if a log has no disk of its own."""
    devices = [log["device"] for log in one.raw["logs"]]
    known = [device for device in devices if device is not None]
    return known if len(known) == len(devices) else None


def amplification(results: ServerResults[CommitsRecord]) -> Table:
    """Each log by the formulas and as measured."""
    rows = []
    for one in results.measured:
        for log in one.raw["logs"]:
            found, page = per_sync(log), log["page_bytes"]
            device = log["device"]["bytes"] if log["device"] else None
            rows.append([
                Cell(one.server), Cell(one.case), Cell(log["name"]),
                Cell.of(one.qps, ",.0f", file=one.file, invalid=not one.valid),
                Cell.of(log["logical_bytes"] / one.raw["count"], ",.0f"),
                Cell.of(found, ",.0f"),
                Cell.of(page, "d"),
                Cell.of(None if found is None else least(found, page), ".2f"),
                Cell.of(None if found is None else expected(found, page), ".2f"),
                Cell.of(None if device is None else _in_files(log, device) / log["logical_bytes"], ".2f"),
                Cell.of(None if device is None else device / log["logical_bytes"], ".2f"),
            ])  # fmt: skip
    columns = (
        "server", "test", "log", "commits/s", "log bytes/commit", "bytes/sync", "page", "least", "expected", "measured",
        "with file system",
    )  # fmt: skip
    note = (
        "Of b bytes of log for each sync (for each write, where the server does not count syncs) and pages of P bytes, "
        "least is P * ceil(b / P) / b, and expected (P + b - 1) / b. Measured are the bytes of the log's files that "
        "its disk was given, for each byte of log; in the last column with what the file system wrote for them. P is "
        "what the server writes in (PostgreSQL: 8,192), or the kernel (4,096), or a sector where the log is written "
        "past the kernel's cache."
    )
    return Table("amplification", "Write amplification", columns, rows, note)


def _in_files(log: LogRecord, device: int) -> int:
    return int(device - (log["requests"]["file_system_bytes"] if log["requests"] else 0))


def ledger(results: ServerResults[CommitsRecord]) -> Table:
    """Bytes of a commit by counter, and whether they add up."""
    rows = []
    for one in results.measured:
        count = one.raw["count"]
        for log in one.raw["logs"]:
            found = account(log)
            traced = log["requests"]
            rows.append([
                Cell(one.server), Cell(one.case), Cell(log["name"]),
                Cell.of(one.raw["commit_bytes"], ",d"),
                Cell.of(log["logical_bytes"] / count, ",.0f"),
                Cell.of(None if found is None or found.log is None else found.log / count, ",.0f"),
                Cell(_who_says(found)),
                Cell.of(None if found is None else found.device / count, ",.0f"),
                Cell.of(traced["log_bytes"] / count if traced else None, ",.0f"),
                Cell.of(traced["file_system_bytes"] / count if traced else None, ",.0f"),
                _verdict(found),
            ])  # fmt: skip
    columns = (
        "server", "test", "log", "row", "log bytes", "written", "who says", "disk", "in files", "file system",
        "unexplained",
    )  # fmt: skip
    note = (
        "Bytes for each commit. Log bytes: the growth of the log. Written: the bytes that the server counts as written "
        "to it (PostgreSQL 18), or else the formula, from its count of writes. Disk: the bytes that the log's disk "
        "received; in files and file system: the part within and outside of the log's files, by the trace of "
        "requests. Unexplained is the share of the disk's bytes that neither the server nor the file system wrote: "
        "the account is complete within 2%. If it is negative, some bytes were written again before they reached the "
        "disk."
    )
    return Table("ledger", "Who wrote how much", columns, rows, note)


def pages(results: ServerResults[CommitsRecord]) -> Table:
    """Pages that were written to their files after the commits, beside the logs."""
    rows = []
    for one in results.measured:
        found, count = write_back(one.raw), one.raw["count"]
        if found is None:
            continue
        told = one.raw["pages"]
        rows.append([
            Cell(one.server), Cell(one.case),
            *(Cell.of(part / count, ",.0f") for part in (found.logs, found.pages, found.doubled)),
            *(Cell.of(part / found.total if found.total else None, ".0%") for part in (found.pages, found.doubled)),
            Cell.of(found.total / one.raw["payload_bytes"], ",.2f", file=one.file),
            Cell.of(told["bytes_per_write"] / 1024 if told["bytes_per_write"] else None, ",.1f"),
            Cell.of(told["images"], ",d"),
            Cell(", ".join(f"{who} {number:,}" for who, number in told["by"].items()) or "-"),
            Cell.of(found.written / count, ",.0f"), Cell.of(found.unexplained, "+.1%"),
        ])  # fmt: skip
    columns = (
        "server", "test", "logs", "pages", "doublewrite", "pages of all", "doublewrite of all", "times the row",
        "KiB/write", "page images", "who wrote pages", "dirtied", "unexplained",
    )  # fmt: skip
    note = (
        "Bytes for each commit, counted until every changed page was in its file. Logs: as the server counts them, or "
        "by the formula. Pages: of tables and indexes; doublewrite: InnoDB's copies of them, written before. "
        "KiB/write: all bytes that InnoDB wrote to data files, over its writes. Page images: whole pages in "
        "PostgreSQL's log, which protect it from torn pages. Dirtied: the bytes that the server's processes marked to "
        "be written, by /proc, io_uring included. Unexplained is the share of these that is in no other column, such "
        "as files of statistics and pages of the kernel that were changed in part."
    )
    return Table("pages", "Pages and their copies, beside the logs", columns, rows, note)


def kernel(results: ServerResults[CommitsRecord]) -> Table:
    """The kernel's counts for the server's processes, for all logs and everything else."""
    rows = []
    for one in results.measured:
        count, told = one.raw["count"], one.raw["kernel"]
        devices = _devices(one)
        rows.append([
            Cell(one.server), Cell(one.case),
            Cell.of(told["write_syscall_bytes"] / count, ",.0f"),
            Cell.of(told["write_bytes"] / count, ",.0f"),
            Cell.of(None if told["data_bytes"] is None else told["data_bytes"] / count, ",.0f"),
            Cell.of(None if devices is None else sum(device["bytes"] for device in devices) / count, ",.0f"),
        ])  # fmt: skip
    columns = ("server", "test", "write()", "dirtied", "data", "disks of logs")
    note = (
        "Bytes for each commit of all files together. write(): the bytes that the server's processes wrote, by /proc. "
        "Dirtied: the bytes that they marked to be written, by /proc: whole pages of the kernel's cache, and all "
        "pages of a large folio, though only its changed blocks are written. Data: tables, by the server's count."
    )
    return Table("kernel", "What the kernel counts", columns, rows, note)


def _who_says(found: Account | None) -> str:
    if found is None or found.log is None:
        return "-"
    return "formula" if found.by_formula else "server"


def _verdict(found: Account | None) -> Cell:
    if found is None:
        return Cell("no disk of its own")
    return Cell.of(found.unexplained, "+.1%", invalid=not found.adds_up)


def points(results: ServerResults[CommitsRecord]) -> Table:
    """Every measurement."""
    more = {
        "commits": of_servers.raw("count", ",d"),
        "CPU us": of_servers.raw("server_cpu_us_per_query", ",.1f"),
        "clients' share": of_servers.raw("client_share_of_machine", ".1%"),
        "writes/commit": lambda one: Cell.of(_requests(one), ",.2f"),
    }
    note = "Writes are requests at the logs' disks."
    return of_servers.points(results, "points-logs", more, note, ("test", "commits/s"))


def _requests(one: Measured[CommitsRecord]) -> float | None:
    devices = _devices(one)
    return None if devices is None else sum(device["writes"] for device in devices) / one.raw["count"]
