"""From the raw files of a run of servers to what its suites see. Verdicts are given here anew."""

from __future__ import annotations

from collections.abc import Mapping

from pagehop_lab.analysis.coverage import Cell, coverage
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.analysis.oltp import STATEMENTS
from pagehop_lab.plan.servers import CaseSpec, ServersPlan, everything, told
from pagehop_lab.report.latest import current, latest, of_another_version
from pagehop_lab.report.page import Head, counted, made_by, on_machine, state_of
from pagehop_lab.store import Record, RunFolder, cell
from pagehop_lab.suites.server_results import Measured, ServerFacts, ServerResults


def gather_servers(folder: RunFolder, plan: ServersPlan, machine: str) -> ServerResults:
    """What was measured of a plan; other records in the folder are left alone."""
    specs = list(everything(plan))
    versions = current(folder, "server")
    records = latest(folder.all("points"), versions, "server")
    found = {spec.name: records[key] for spec in specs if (key := cell(spec.identity(plan, machine, None))) in records}
    measured = [
        _measured(spec, found[spec.name], plan.suite, versions) for spec in specs if _is_there(found.get(spec.name))
    ]
    servers = _facts(folder, plan)
    failed = {name: record.failed for name, record in found.items() if record.failed is not None}
    reasons = {facts.name: facts.failed for facts in servers if facts.failed is not None}
    unknown = [spec for spec in specs if spec.name not in found]
    failed |= {spec.name: reasons[spec.server.name] for spec in unknown if spec.server.name in reasons}
    grid = [Cell(spec.name, spec.server.name, _options(spec)) for spec in specs]
    covered = coverage(grid, [name for name, record in found.items() if record.failed is None], failed)
    return ServerResults(
        plan.name, plan.suite, plan.seed, plan.base, folder.machine, told(plan),
        {case.name: case.group for case in plan.cases}, servers, measured, covered, folder.damaged,
        made_by(record.commit for record in found.values()), sum(record.attempt > 1 for record in found.values()),
    )  # fmt: skip


def servers_head(results: ServerResults) -> Head:
    """The head of the page."""
    load = results.load
    sessions = load.get("sessions")
    clients = counted(load["clients"], "client") if sessions is None else f"{' and '.join(map(str, sessions))} clients"
    lead = f"{on_machine(results.machine)} {load['rows']:,} rows, {clients}, {counted(load['repeats'], 'repeat')}; "
    lead += f"suite {results.suite}, seed {results.seed}; compared with {results.base}."
    about = _HOW[results.suite]
    wrong = sum(not one.valid for one in results.measured)
    told = ", ".join(f"{name} = {value}" for name, value in load.items())
    state = state_of(results.coverage, wrong, [one.noted for one in results.measured], results.again)
    return Head(results.name, "servers", lead, state, results.sound, (about, f"Load: {told}.", results.made_by))


_HOW = {
    "oltp": (
        "Every repeat has new servers with new data; all servers are held at once, and each test is asked of one after "
        "the other, every other time the other way round. Rates are between the first and the last time that a client "
        "said how far it was, so that no query is cut. CPU is by the clocks of the processes themselves. A figure is "
        "invalid, and compared with nothing, if a query failed, a client was busy for more than half of a core's "
        "time, or storage was read."
    ),
    "attributes": (
        "For each number of attributes and each layout a table is made, filled, settled, asked by one client at full "
        "speed on one core with its connection, and dropped; every other time the servers go the other way round. A "
        "figure is invalid, and compared with nothing, if anything failed, the client was busy for more than half "
        "of a core's time, storage was read, the key's index was not used, or an answer had not one row."
    ),
    "log-writes": (
        "Clients insert one row in each commit, by sysbench. Each log is on a file system of its own, a file that is a "
        "disk, so its disk is given nothing else. Bytes are counted from before the clients connect until after they "
        "are gone, by the server, by the kernel for the server's processes, and by the log's disk; the kernel's trace "
        "of requests tells the log's files from what the file system writes for them."
    ),
    "point-reads": (
        "Rows are read by their keys, uniformly at random, by sysbench from servers and by a program of ours from "
        "stores. Each measurement begins with a server that was just started, within a limit of memory that the "
        "kernel's cache of its files is part of, and with nothing in any cache; it is asked until its rates have "
        "settled, and then measured. Data are on a file system of their own, so the disk's counters are nobody "
        "else's. A figure is invalid if it did not settle, hardly anything came from storage, or a client was busy "
        "for more than half of a core's time."
    ),
    "inserts": (
        "Every server has new data, three secondary indexes, and clients in processes of their own: one inserts, one "
        "deletes as much, one asks. A figure is invalid, and compared with nothing, if anything failed, a client was "
        "busy for more than half of a core's time, less than 95% of the rows were written, an index was not used, or "
        "an answer was empty."
    ),
    "vector-inserts": (
        "Every server has new data, its index, and clients in processes of their own: one inserts, one deletes as "
        "much, one asks. Recall and time are those of the same requests. A figure is invalid, and compared with "
        "nothing, if anything failed, a client was busy for more than half of a core's time, less than 95% of the rows "
        "were written, the index was not used, or rows were missing or given that were not there."
    ),
}


def _is_there(record: Record | None) -> bool:
    return record is not None and record.failed is None


def _options(spec: CaseSpec) -> tuple[tuple[str, str | int], ...]:
    """By what a reader would miss a measurement."""
    return (("test", spec.case.name), ("repeat", spec.repeat + 1))


def _measured(spec: CaseSpec, record: Record, suite: str, versions: Mapping[str, str]) -> Measured:
    judged = judge_load(record.raw)
    noted = (*judged.noted, *of_another_version(record, versions, "server"))
    if suite == "oltp" and record.identity.get("statements") != STATEMENTS:
        noted = (*noted, "statements: older ones, which are not the published ones in all tests")
    return Measured(
        spec.server.name,
        spec.case.name,
        spec.repeat,
        record.raw["qps"],
        judged.wrong,
        noted,
        record.file,
        record.raw,
    )


def _facts(folder: RunFolder, plan: ServersPlan) -> list[ServerFacts]:
    engines: Mapping[str, Record] = {record.identity["server"]: record for record in folder.all("engines")}
    found = []
    for server in plan.servers:
        record = engines.get(server.name)
        builds = [one for one in folder.all("builds") if one.identity["server"] == server.name]
        failed = record.failed if record is not None else None
        loads = [one.raw for one in builds if one.failed is None]
        if not loads:
            failed = failed or next((one.failed for one in builds if one.failed), None)
        raw = record.raw if record is not None else {}
        found.append(ServerFacts(server.name, raw.get("version"), raw.get("settings", {}), failed, loads))
    return found
