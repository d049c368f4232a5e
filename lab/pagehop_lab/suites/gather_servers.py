"""Reads the raw files of a run of servers for its suite, and computes verdicts again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagehop_lab.analysis.coverage import Cell, coverage
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.analysis.server_records import LoadedRecord, ServerRecord
from pagehop_lab.analysis.turns import APART, apart
from pagehop_lab.plan.servers import CaseSpec, ServersPlan, everything, told
from pagehop_lab.store import Record, RunFolder, cell
from pagehop_lab.suites.head import made_by
from pagehop_lab.suites.latest import current, latest, notes, usual_commit
from pagehop_lab.suites.server_results import Measured, Published, R, ServerFacts, ServerResults


def gather_servers(folder: RunFolder, plan: ServersPlan, machine: str) -> ServerResults[R]:
    """The results of a plan of a suite with records R; other ones in the folder are ignored."""
    specs = list(everything(plan))
    versions = current(folder, "server")
    records = latest(folder.known("points"), versions, "server")
    found = {spec.name: records[key] for spec in specs if (key := cell(spec.identity(plan, machine, None))) in records}
    usual = usual_commit(found.values())
    there = [spec for spec in specs if _is_there(found.get(spec.name))]
    strays = apart({spec.name: ((spec.case.name, spec.repeat), found[spec.name].raw) for spec in there})
    measured: list[Measured[R]] = [
        _measured(
            spec, found[spec.name], plan.statements,
            (*notes(found[spec.name], versions, "server", usual), *((APART,) if spec.name in strays else ())),
        )
        for spec in there
    ]  # fmt: skip
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
        made_by(record.commit for record in found.values()), sum(record.is_again for record in found.values()),
        plan.aims, plan.once, [_published(record) for record in folder.known("foreign")],
    )  # fmt: skip


def _is_there(record: Record | None) -> bool:
    return record is not None and record.failed is None


def _options(spec: CaseSpec) -> tuple[tuple[str, str | int], ...]:
    """The options that identify a missing measurement."""
    return (("test", spec.case.name), ("repeat", spec.repeat + 1))


def _measured(spec: CaseSpec, record: Record, statements: int | None, more: Sequence[str]) -> Measured[R]:
    raw: R = record.raw
    judged = judge_load(raw)
    noted = (*judged.noted, *more)
    if statements is not None and record.identity.get("statements") != statements:
        noted = (*noted, "statements: older ones, which are not the published ones in all tests")
    return Measured(
        spec.server.name,
        spec.case.name,
        spec.repeat,
        raw["qps"],
        judged.wrong,
        noted,
        record.file,
        raw,
    )


def _published(record: Record) -> Published:
    of = record.identity
    return Published(of["product"], of["version"], of["source"], record.raw["qps"], record.file)


def _facts(folder: RunFolder, plan: ServersPlan) -> list[ServerFacts]:
    engines: Mapping[str, Record] = {record.identity["server"]: record for record in folder.known("engines")}
    found = []
    for server in plan.servers:
        record = engines.get(server.name)
        builds = [one for one in folder.known("builds") if one.identity["server"] == server.name]
        failed = record.failure if record is not None else None
        loads: list[LoadedRecord] = [one.raw for one in builds if one.failed is None]
        if not loads:
            failed = failed or next((one.failed for one in builds if one.failed), None)
        raw: ServerRecord = record.raw if record is not None else {}
        found.append(ServerFacts(server.name, raw.get("version"), raw.get("settings", {}), failed, loads))
    return found
