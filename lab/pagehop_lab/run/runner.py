"""Runs a plan: sets first, then indexes in turns.

Points that the folder has are not measured again. Several indexes are open at once. Within a repeat
each is measured in turn, and every other repeat goes in reverse order, so that changes over time
affect all alike. A failure is kept with its reason, and the run continues.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from devserver import DevServerError, fio
from pagehop_lab import data
from pagehop_lab.analysis.recalls import RECALL_NAMES
from pagehop_lab.analysis.records import BuildRecord, EngineRecord, PointRecord
from pagehop_lab.analysis.turns import MEASURED_WITH, token
from pagehop_lab.analysis.verdicts import WAITED, Verdicts, judge
from pagehop_lab.engines import outside
from pagehop_lab.engines.engine import Description, EngineError, Library, Served
from pagehop_lab.measure import disk_ceiling
from pagehop_lab.measure.disturbance import Disturbance
from pagehop_lab.measure.watch import Watch
from pagehop_lab.plan import DatasetSpec, EngineSpec, Plan
from pagehop_lab.plan.grid import IndexSpec, Picked, PointSpec, everything, groups, indexes, points
from pagehop_lab.plan.model import Options, OptionValue
from pagehop_lab.run import environments
from pagehop_lab.run.child import Child, EngineFailed
from pagehop_lab.run.pick import pick
from pagehop_lab.run.progress import Progress
from pagehop_lab.run.workplace import workplace
from pagehop_lab.store import RunFolder

_HELLO_TIMEOUT_S = 1800.0
_CLOSE_TIMEOUT_S = 120.0
# A cold page is cached after the first try, and other work may have ended: these failures get more
# tries. Every attempt is kept, and the last one with a figure counts.
_PASSING = ("cache:", "client:")
_ATTEMPTS = 3
_PROFILE_S = 2.0


@dataclass
class Runner:
    """A run in a folder.

    `catalog` has the engines by name, `paths` more folders with their modules.
    """

    plan: Plan
    folder: RunFolder
    progress: Progress
    machine: str
    catalog: Mapping[str, type[Library | Served]]
    paths: Sequence[Path] = ()
    retry: bool = False
    """Whether failed measurements are repeated."""
    _versions: dict[str, str | None] = field(default_factory=dict)
    _token: str = ""
    """That of the indexes that are open now."""
    _fio: Sequence[str] = ()
    """The beginning of fio's command line; empty without fio."""

    def run(self) -> None:
        """Measures everything that is not in the folder yet."""
        with workplace(self.progress.say):
            self._run()

    def _run(self) -> None:
        self._fio = self._find_fio()
        sets = {spec.name: self._prepare(spec) for spec in self.plan.datasets}
        for engine in self.plan.engines:
            self._versions[engine.name] = self._probe(engine)
        known = [spec for spec in self._everything(sets) if sets[spec.index.dataset.name] is not None]
        present = sum(self._is_done(spec, sets) for spec in known)
        self.progress.begin(len(known), present)
        for rebuild in range(self.plan.load.rebuilds):
            for spec in self.plan.datasets:
                dataset = sets[spec.name]
                if dataset is None:
                    continue
                whole = indexes(self.plan, spec, rebuild)
                for index in whole:
                    if self._versions[index.engine.name] is None:
                        self.progress.skip(len(self._all_points(index, dataset)))
                left = [index for index in whole if self._left(index, dataset)]
                for group in groups(left, self.plan.load):
                    self._measure_together(group, dataset)

    # ---- before ----

    def _find_fio(self) -> Sequence[str]:
        """fio, if the plan wants it. Without it all else is measured."""
        if not self.plan.load.fio_s:
            return ()
        try:
            return fio.command(fio.install())
        except DevServerError as error:
            self.progress.say(f"fio: {error}")
            return ()

    def _prepare(self, spec: DatasetSpec) -> data.Dataset | None:
        """The set, or None and a record of why it is not available."""
        plan, said = self.plan, self.progress.say
        try:
            dataset = data.prepare(
                spec.name, spec.path, spec.rows, spec.queries, spec.metric, plan.seed, said, spec.samples,
                spec.queries_path, spec.column,
            )  # fmt: skip
            depth, most = dataset.truth_ids.shape[1], max(plan.load.ks)
            if most > depth:
                raise data.DataError(f"{spec.name}: its truth has {depth} neighbors of each query, k = {most}")
        except data.DataError as error:
            self.progress.say(str(error))
            self.folder.add("datasets", spec.name, {"name": spec.name}, failed=str(error))
            return None
        identity = {"name": spec.name}
        before = self.folder.get("datasets", identity)
        if before is None or before.raw != dataset.facts.as_json():
            self.folder.add("datasets", spec.name, identity, dataset.facts.as_json())
        facts = dataset.facts
        self.progress.say(f"{spec.name}: {facts.rows:,} x {facts.dim}, {facts.queries:,} queries, {facts.metric}")
        return dataset

    def _probe(self, engine: EngineSpec) -> str | None:
        """The engine's version, or None and a record of why it does not start."""
        identity = {"engine": engine.name}
        try:
            with self._start(engine) as child:
                said: EngineRecord = child.ask("hello", _HELLO_TIMEOUT_S, url=engine.url)
        except EngineFailed as error:
            self.progress.say(f"{engine.name}: {error}")
            self.folder.add("engines", engine.name, identity, failed=str(error))
            return None
        said["version"] = outside.version(engine.kind, str(said["version"]))
        before = self.folder.get("engines", identity)
        if before is None or before.raw != said:
            self.folder.add("engines", engine.name, identity, said)
        self.progress.say(f"{engine.name}: {said['version']}")
        return str(said["version"])

    def _start(self, engine: EngineSpec) -> Child:
        kind = self.catalog[engine.kind]
        python = environments.python(kind.description.environment, self.progress.say, engine.commit)
        return Child(python, f"{kind.__module__}:{kind.__qualname__}", self.paths)

    # ---- what is left ----

    def _identity(self, spec: PointSpec | IndexSpec, facts: data.Facts) -> dict[str, Any]:
        engine = spec.engine if isinstance(spec, IndexSpec) else spec.index.engine
        return spec.identity(self.plan, facts.as_json(), self.machine, self._versions[engine.name])

    def _is_done(self, spec: PointSpec, sets: Mapping[str, data.Dataset | None]) -> bool:
        dataset = sets[spec.index.dataset.name]
        return dataset is not None and not self._wanted(spec, dataset)

    def _wanted(self, spec: PointSpec, dataset: data.Dataset) -> bool:
        """Whether to measure a point: it is missing, or it failed and is to be repeated."""
        record = self.folder.get("points", self._identity(spec, dataset.facts))
        return record is None or (self.retry and record.failed is not None)

    def _left(self, index: IndexSpec, dataset: data.Dataset) -> bool:
        """Whether to build an index: a point of it is missing, and its build did not fail."""
        if self._versions[index.engine.name] is None:
            return False
        wanted = sum(self._wanted(spec, dataset) for spec in self._all_points(index, dataset))
        build = self.folder.get("builds", self._identity(index, dataset.facts))
        if build is not None and build.failed is not None and not self.retry:
            self.progress.skip(wanted)
            return False
        return wanted > 0 or (self._is_picked_from(index) and self._looked(index, dataset) is None)

    def _version(self, index: IndexSpec) -> str | None:
        return self._versions[index.engine.name]

    def _is_picked_from(self, index: IndexSpec) -> bool:
        return self.plan.load.around_targets and not index.engine.served

    def _looked(self, index: IndexSpec, dataset: data.Dataset) -> Picked | None:
        """The settings that were picked, in this run or before."""
        identity = index.looked_at(self.plan, dataset.facts.as_json(), self.machine, self._version(index))
        record = self.folder.get("picked", identity)
        if record is None or record.failed is not None:
            return None
        return {int(k): chosen for k, chosen in record.raw["by_k"].items()}

    def _picked(self, index: IndexSpec, dataset: data.Dataset) -> Picked | None:
        """The settings to measure; None for all."""
        if not self._is_picked_from(index):
            return None
        return self._looked(index, dataset) or index.unpicked(self.plan.load)

    def _everything(self, sets: Mapping[str, data.Dataset | None]) -> list[PointSpec]:
        def picked(index: IndexSpec) -> Picked | None:
            dataset = sets[index.dataset.name]
            return None if dataset is None else self._picked(index, dataset)

        return list(everything(self.plan, picked))

    def _all_points(self, index: IndexSpec, dataset: data.Dataset) -> list[PointSpec]:
        chosen = self._picked(index, dataset)
        repeats = range(self.plan.load.repeats)
        return [spec for repeat in repeats for spec in points(index, self.plan.load, repeat, chosen)]

    # ---- measuring ----

    def _measure_together(self, batch: Sequence[IndexSpec], dataset: data.Dataset) -> None:
        """Builds some indexes, holds them all, and measures them in turns."""
        self._token = token()
        with ExitStack() as stack:
            held = [(index, child) for index in batch if (child := self._built(index, dataset, stack)) is not None]
            for repeat in range(self.plan.load.repeats):
                for index, child in held if repeat % 2 == 0 else held[::-1]:
                    self._measure_all(index, child, dataset, repeat)
            for child in [child for _, child in held if not child.ended]:
                try:
                    child.ask("close", _CLOSE_TIMEOUT_S)
                except EngineFailed:
                    # Everything was measured; the process still ends what is left of the engine.
                    continue

    def _built(self, index: IndexSpec, dataset: data.Dataset, stack: ExitStack) -> Child | None:
        """A process with the index, or None and a record of why there is none."""
        plan, identity = self.plan, self._identity(index, dataset.facts)
        try:
            child = stack.enter_context(self._start(index.engine))
            watch = child.within(plan.load.build_memory_mib) if plan.load.build_memory_mib else None
            child.ask("ready", _HELLO_TIMEOUT_S)
            said = self._build(index, child, dataset, watch)
            self.folder.add("builds", index.name, identity, said | {MEASURED_WITH: self._token})
            self.progress.say(f"{index.name}: built in {said['build_s']:.1f} s, {_megabytes(said['index_bytes'])}")
            for sessions in plan.load.sessions:
                ask = self._ask(sessions, {})
                ceiling = child.ask("ceiling", plan.load.search_timeout_s, options=index.engine.search[0], ask=ask)
                self.folder.add("ceilings", f"{index.name}.s{sessions}", {**identity, "sessions": sessions}, ceiling)
                self.progress.say(
                    f"{index.name}: the client's own ceiling is {ceiling['qps']:,.0f} QPS"
                    + (f" by {sessions} sessions" if sessions > 1 else "")
                )
        except EngineFailed as error:
            self.progress.say(f"{index.name}: {error}")
            self.folder.add("builds", index.name, identity, failed=str(error))
            self.progress.skip(sum(self._wanted(spec, dataset) for spec in self._all_points(index, dataset)))
            return None
        return child if self._look(index, child, dataset) else None

    def _build(self, index: IndexSpec, child: Child, dataset: data.Dataset, watch: Watch | None) -> BuildRecord:
        """Builds an index. Says of a build within a limit of memory how far it came if it fails."""
        plan, begun = self.plan, time.monotonic()
        try:
            with nullcontext() if watch is None else watch:
                said: BuildRecord = child.ask(
                    "build", plan.load.build_timeout_s, folder=str(child.folder), dataset=str(dataset.folder),
                    name=dataset.facts.name, options=index.build, threads=plan.load.build_threads, seed=plan.seed,
                    url=index.engine.url, traced=plan.suite in ("cold", "phases"),
                    memory_mib=plan.load.build_memory_mib,
                )  # fmt: skip
        except EngineFailed as error:
            if watch is None:
                raise
            seconds, size = time.monotonic() - begun, _megabytes(watch.disk_bytes)
            raise EngineFailed(f"{error}; after {seconds:,.0f} s, with {size} on disk at most") from None
        return said if watch is None else said | watch.told()

    def _look(self, index: IndexSpec, child: Child, dataset: data.Dataset) -> bool:
        """Picks the settings around each target, if the plan does so. Returns whether it could."""
        if not self._is_picked_from(index) or self._looked(index, dataset) is not None:
            return True
        plan, facts = self.plan, dataset.facts.as_json()
        identity = index.looked_at(plan, facts, self.machine, self._version(index))
        before = len(self._all_points(index, dataset))

        def picked(k: int) -> list[Options]:
            def recall_of(options: Options) -> float:
                found = child.ask("look", plan.load.search_timeout_s, options=options, k=k)
                return float(found[RECALL_NAMES[plan.recall]])

            return pick(index.engine.ladders, plan.targets, recall_of)

        try:
            by_k = {str(k): picked(k) for k in plan.load.ks}
        except EngineFailed as error:
            self.folder.add("picked", index.name, identity, failed=str(error))
            self.progress.say(f"{index.name}: {error}")
            return False
        self.folder.add("picked", index.name, identity, {"by_k": by_k})
        self.progress.more(len(self._all_points(index, dataset)) - before)
        return True

    def _measure_all(self, index: IndexSpec, child: Child, dataset: data.Dataset, repeat: int) -> None:
        """The rest of a repeat. Every other repeat goes in reverse order."""
        specs = points(index, self.plan.load, repeat, self._picked(index, dataset))
        for spec in specs if repeat % 2 == 0 else specs[::-1]:
            if not self._wanted(spec, dataset):
                continue
            if child.ended:
                # This point was neither measured nor failed: the same command measures it with
                # another process.
                self.progress.skip(1)
                continue
            try:
                for _ in range(_ATTEMPTS):
                    before = Disturbance.so_far()
                    raw: PointRecord = child.ask(
                        "measure", self.plan.load.search_timeout_s, folder=str(child.folder), options=spec.search,
                        ask=self._ask(spec.sessions, spec.asked),
                    )  # fmt: skip
                    raw = {**raw, **Disturbance.so_far().since(before), **self._disk_ceiling(spec, child, raw)}
                    judged = self._keep(spec, dataset, child, raw)
                    if not self._is_passing(judged):
                        break
            except EngineFailed as error:
                self.folder.add("points", spec.name, self._identity(spec, dataset.facts), failed=str(error))
                self.progress.point(spec.name, f"failed: {error}")
                continue
            recall = raw["recall"]["by_threshold"] if raw["recall"] else float("nan")
            told = f"recall {recall:.4f}  {raw['qps']:,.0f} QPS" + "".join(f"  INVALID {one}" for one in judged.wrong)
            self.progress.point(spec.name, told)

    def _disk_ceiling(self, spec: PointSpec, child: Child, raw: PointRecord) -> PointRecord:
        """What the disk gives to fio just after searches that read from it, if the plan has fio.

        Fresh queries have pauses in between, so nothing is compared with them.
        """
        wanted = disk_ceiling.asked(raw["phases"]) if self._fio else None
        if wanted is None or spec.asked.get("cache") == "fresh":
            return {}
        files = [path for path in (child.folder / "index").rglob("*") if path.is_file()]
        file = max(files, key=lambda path: path.stat().st_size)
        try:
            found = disk_ceiling.measure(self._fio, file, *wanted, self.plan.load.fio_s)
        except EngineError as error:
            self.progress.say(f"{spec.name}: {error}")
            return {}
        return {"disk_ceiling": found}

    def _is_passing(self, judged: Verdicts) -> bool:
        """Whether another attempt may be better."""
        disturbed = self.plan.load.undisturbed and any(note.startswith(WAITED) for note in judged.noted)
        return disturbed or any(reason.startswith(_PASSING) for reason in judged.wrong)

    def _ask(self, sessions: int, asked: Options) -> dict[str, OptionValue | None]:
        """The fields of `Ask`, as they are sent to the process of the engine."""
        load = self.plan.load
        return {
            "k": load.k, "sessions": sessions, "rate": load.rate, "seconds": load.seconds,
            "seconds_max": load.seconds_max, "warmup_s": load.warmup_s, "one_core": load.one_core,
            "cold_queries": self.plan.cold_queries,
            "profile_s": _PROFILE_S if sessions in load.profile_sessions else 0.0, **asked,
        }  # fmt: skip

    def _keep(self, spec: PointSpec, dataset: data.Dataset, child: Child, raw: PointRecord) -> Verdicts:
        """Stores a measurement, and reports why it is invalid, if it is."""
        description = self.catalog[spec.index.engine.kind].description
        raw |= {
            "k": int(spec.asked.get("k", self.plan.load.k)),
            "sessions": spec.sessions,
            "rate": self.plan.load.rate,
            "exact_by_design": description.exact,
            "cache": self._cache(spec, description),
            MEASURED_WITH: self._token,
        }
        with np.load(child.folder / "answers.npz") as file:
            arrays = {name: file[name] for name in file.files}
        self.folder.add("points", spec.name, self._identity(spec, dataset.facts), raw, arrays=arrays)
        return judge(raw)

    def _cache(self, spec: PointSpec, description: Description) -> str:
        """Where a search was to find its data. The kernel has what few shared buffers miss."""
        cache = str(spec.asked.get("cache", "cold")) if self.plan.cold_queries else "hot"
        if cache == "hot" and description.reads_storage:
            return "storage"
        if cache == "hot" and "shared_buffers_mib" in spec.index.build:
            return "kernel"
        return "cold" if cache == "fresh" else cache


def _megabytes(size: int | None) -> str:
    return f"{size / 1e6:,.1f} MB" if size is not None else "of unknown size"
