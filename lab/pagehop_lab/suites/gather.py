"""Reads the raw files of a run for its suite, and computes verdicts again from the raw counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pagehop_lab.analysis.coverage import Cell, coverage
from pagehop_lab.analysis.points import Point, options_of
from pagehop_lab.analysis.recalls import RECALL_NAMES
from pagehop_lab.analysis.records import BuildRecord, CeilingRecord, PointRecord
from pagehop_lab.analysis.turns import APART, apart
from pagehop_lab.analysis.verdicts import judge, looks_like_scans
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import Description
from pagehop_lab.plan import Plan
from pagehop_lab.plan.grid import IndexSpec, Picked, PointSpec, everything, groups, indexes
from pagehop_lab.store import COMPLETE, Record, RunFolder, cell
from pagehop_lab.suites.head import made_by
from pagehop_lab.suites.latest import current, latest, notes, usual_commit
from pagehop_lab.suites.results import Build, EngineFacts, Results, Unbuilt


def gather(folder: RunFolder, plan: Plan, machine: str) -> Results:
    """The results of a plan; other records in the folder are ignored."""
    known = {name: engine.description for name, engine in CATALOG.items()}
    sets = {record.identity["name"]: record for record in folder.known("datasets")}
    facts = {spec.name: dict(sets[spec.name].raw) for spec in plan.datasets if _is_there(sets.get(spec.name))}
    specs = list(everything(plan, _picked(folder, plan, facts, machine)))
    versions = current(folder, "engine")
    records = latest(folder.known("points"), versions, "engine")
    builds = latest(folder.known("builds"), versions, "engine")
    found = {
        spec.name: record for spec in specs if (record := _record(records, spec, plan, facts, machine)) is not None
    }
    measured = [spec for spec in specs if spec.name in found and not found[spec.name].failed]
    betrayed = _scans(measured, found)
    usual = usual_commit(found.values())
    engines = _engines(folder, plan, known)
    group_by = group_of(plan, engines)
    strays = apart({spec.name: (_turns(spec, group_by), found[spec.name].raw) for spec in measured})
    points = [
        _point(
            spec, found[spec.name], plan, group_by, betrayed.get(_key(spec.index)),
            (*notes(found[spec.name], versions, "engine", usual), *((APART,) if spec.name in strays else ())),
        )
        for spec in measured
    ]  # fmt: skip
    wanted = list(dict.fromkeys(_key(spec.index) for spec in specs))
    planned = {_key(spec.index): spec.index for spec in specs}
    built = {key: builds.get(_cell(planned[key], plan, facts, machine) or "") for key in wanted}
    failed = {name: record.failed for name, record in found.items() if record.failed is not None}
    failed |= _failed_elsewhere(specs, found, built, engines, sets)
    grid = [Cell(spec.name, spec.index.engine.name, _options(spec)) for spec in specs]
    covered = coverage(grid, [name for name, record in found.items() if record.failed is None], failed)
    missing = {
        spec.name: (sets[spec.name].failed or "") if spec.name in sets else "the run did not reach it"
        for spec in plan.datasets
        if spec.name not in facts
    }
    return Results(
        name=plan.name, suite=plan.suite, k=plan.load.k, seed=plan.seed, recall_by=plan.recall, targets=plan.targets,
        base=plan.base or plan.engines[0].name, machine=folder.machine, load=asdict(plan.load), datasets=facts,
        missing_datasets=missing, engines=engines, points=points,
        foreign=[_foreign(record) for record in folder.known("foreign")],
        builds=[
            _build(planned[key], one, group_by) for key, one in built.items() if one is not None and one.failed is None
        ],
        ceilings=[_ceiling(one) for one in folder.known("ceilings") if not one.failed],
        coverage=covered, aims=plan.aims, damaged=folder.damaged,
        made_by=made_by(record.commit for record in found.values()),
        again=sum(record.is_again for record in found.values()),
        unbuilt=[
            Unbuilt(
                planned[key].dataset.name, planned[key].engine.name, options_of(planned[key].build), one.failed,
                one.file,
            )
            for key, one in built.items() if one is not None and one.failed is not None
        ],
    )  # fmt: skip


def _picked(
    folder: RunFolder, plan: Plan, facts: Mapping[str, Any], machine: str
) -> Callable[[IndexSpec], Picked | None]:
    """The settings of an index that were picked to be measured; None if all are."""
    records = latest(folder.known("picked"), current(folder, "engine"), "engine")

    def picked(index: IndexSpec) -> Picked | None:
        if not plan.load.around_targets or index.engine.served:
            return None
        known = facts.get(index.dataset.name)
        record = records.get(cell(index.looked_at(plan, known, machine, None))) if known is not None else None
        if record is None or record.failed is not None:
            return index.unpicked(plan.load)
        return {int(k): chosen for k, chosen in record.raw["by_k"].items()}

    return picked


def _is_there(record: Record | None) -> bool:
    return record is not None and record.failed is None


def _record(
    records: Mapping[str, Record], spec: PointSpec, plan: Plan, facts: Mapping[str, Any], machine: str
) -> Record | None:
    """The record of a measurement.

    Raw files of older labs do not say all of their load, so the plan of their folder does.
    """
    known = facts.get(spec.index.dataset.name)
    if known is None:
        return None
    record = records.get(cell(spec.identity(plan, known, machine, None)))
    if record is None:
        before = records.get(cell(spec.identity(plan, known, machine, None, as_before=True)))
        record = before if before is not None and before.version < COMPLETE else None
    return record


def _cell(index: IndexSpec, plan: Plan, facts: Mapping[str, Any], machine: str) -> str | None:
    dataset = index.dataset.name
    return cell(index.identity(plan, facts[dataset], machine, None)) if dataset in facts else None


def _key(index: IndexSpec) -> str:
    return index.name


def group_of(plan: Plan, engines: Sequence[EngineFacts]) -> dict[str, int]:
    """The group of each index, from 1 on, by the plan and the engines that ever ran here.

    A run that was stopped and continued may have had other groups.
    """
    absent = {facts.name for facts in engines if facts.failed is not None and facts.version is None}
    found: dict[str, int] = {}
    for dataset in plan.datasets:
        for rebuild in range(plan.load.rebuilds):
            there = [index for index in indexes(plan, dataset, rebuild) if index.engine.name not in absent]
            for number, group in enumerate(groups(there, plan.load), start=1):
                found |= {_key(index): number for index in group}
    return found


def _turns(spec: PointSpec, group_by: Mapping[str, int]) -> tuple[str, int, int, int]:
    """What is measured in turns, by the plan."""
    return (spec.index.dataset.name, group_by.get(_key(spec.index), 0), spec.index.rebuild, spec.repeat)


def _options(spec: PointSpec) -> tuple[tuple[str, Any], ...]:
    """Options that identify a missing point. Those of a build are apart from those of a search."""
    build = tuple((f"build {name}", value) for name, value in spec.index.build.items())
    search = tuple(spec.search.items())
    load = (("sessions", spec.sessions), *spec.asked.items())
    return (*build, *search, *load, ("repeat", spec.repeat + 1))


def _scans(specs: Sequence[PointSpec], found: Mapping[str, Record]) -> dict[str, str | None]:
    """Indexes that are not used, as all of their searches together show."""
    grouped: dict[str, list[PointRecord]] = {}
    for spec in specs:
        raw: PointRecord = found[spec.name].raw
        grouped.setdefault(_key(spec.index), []).append(raw | {"search": spec.search})
    return {name: looks_like_scans(raws) for name, raws in grouped.items()}


def _point(
    spec: PointSpec,
    record: Record,
    plan: Plan,
    group_by: Mapping[str, int],
    betrayed: str | None,
    noted: Sequence[str],
) -> Point:
    raw: PointRecord = record.raw
    judged = judge(raw)
    wrong = (*judged.wrong, betrayed) if betrayed else judged.wrong
    recall = raw["recall"][RECALL_NAMES[plan.recall]] if raw["recall"] else 0.0
    return Point(
        spec.index.dataset.name, spec.index.engine.name, options_of(spec.index.build), options_of(spec.search),
        recall, raw["qps"], spec.sessions, spec.index.rebuild, spec.repeat, wrong, (*judged.noted, *noted),
        record.file, options_of(spec.asked), raw, group_by.get(_key(spec.index), 0),
    )  # fmt: skip


def _foreign(record: Record) -> Point:
    """A point that was measured elsewhere."""
    said, raw = record.identity, record.raw
    told: PointRecord = raw
    build, search = (tuple((name, value) for name, value in said[which]) for which in ("build", "search"))
    return Point(
        said["set"], said["engine"], build, search, raw["recall"], raw["qps"], said["sessions"], file=record.file,
        asked=tuple((name, value) for name, value in said["asked"]),
        raw={**told, "benchmark": said["benchmark"]},
    )  # fmt: skip


def _build(index: IndexSpec, record: Record, group_by: Mapping[str, int]) -> Build:
    options, group = options_of(index.build), group_by.get(_key(index), 0)
    raw: BuildRecord = record.raw
    return Build(index.dataset.name, index.engine.name, options, index.rebuild, record.file, raw, group)


def _ceiling(record: Record) -> CeilingRecord:
    raw: CeilingRecord = record.raw
    return {**raw, "engine": record.identity["engine"]}


def _engines(folder: RunFolder, plan: Plan, known: Mapping[str, Description]) -> list[EngineFacts]:
    records = {record.identity["engine"]: record for record in folder.known("engines")}
    found = []
    for engine in plan.engines:
        about, record = known[engine.kind], records.get(engine.name)
        version = record.raw.get("version") if record is not None else None
        failed = record.failure if record is not None else None
        found.append(EngineFacts(engine.name, engine.title(about.title), version, about.source, failed))
    return found


def _failed_elsewhere(
    specs: Sequence[PointSpec],
    found: Mapping[str, Record],
    built: Mapping[str, Record | None],
    engines: Sequence[EngineFacts],
    sets: Mapping[str, Record],
) -> dict[str, str]:
    """Points that were never reached, because an earlier part of the run failed.

    That is their set, their engine, their index or a point before.
    """
    reasons = {facts.name: facts.failed for facts in engines if facts.failed is not None}
    ended = {
        _key(spec.index): record.failure
        for spec in specs
        if (record := found.get(spec.name)) is not None and record.failure is not None
    }
    failed: dict[str, str] = {}
    for spec in specs:
        dataset, build = spec.index.dataset.name, built[_key(spec.index)]
        if spec.name in found:
            continue
        if dataset in sets and sets[dataset].failure is not None:
            failed[spec.name] = f"no set: {sets[dataset].failure}"
        elif spec.index.engine.name in reasons:
            failed[spec.name] = reasons[spec.index.engine.name]
        elif build is not None and build.failure is not None:
            failed[spec.name] = f"no index: {build.failure}"
        elif ended.get(_key(spec.index)):
            why = ended[_key(spec.index)]
            failed[spec.name] = f"not reached, run the same command to measure it; before it, {why}"
    return failed
