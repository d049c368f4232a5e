"""The process that holds one engine: `python -m pagehop_lab.run.worker MODULE:CLASS`.

JSON lines in, JSON lines out. If the engine crashes this process, the run continues. What the
engine prints goes to the log.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from pagehop_lab import data
from pagehop_lab.analysis.records import BuildRecord, CeilingRecord, EngineRecord, PointRecord
from pagehop_lab.engines.engine import (
    FILTER_PARTS,
    Engine,
    EngineError,
    Float32,
    Library,
    NotInstalled,
    Options,
    Served,
    left_by,
)
from pagehop_lab.machine import counters
from pagehop_lab.machine.place import drop_page_cache
from pagehop_lab.measure import storage
from pagehop_lab.measure.load import Ask
from pagehop_lab.measure.processes import end_with_parent

_GRACE_S = 0.3


class Worker:
    """An engine, and the requests that it handles."""

    def __init__(self, kind: type[Engine]) -> None:
        self._kind = kind
        self._engine: Engine | None = None
        self._dataset: data.Dataset | None = None
        self._scan_us = 0.0
        self._traced = False

    def ready(self) -> dict[str, str]:
        """Does nothing: the process runs, and its modules are loaded."""
        return {}

    def hello(self, url: str | None) -> EngineRecord:
        """The engine's version, if it is here."""
        version = self._kind.version(url) if issubclass(self._kind, Served) else self._kind.version()
        return {"version": version, "python": sys.version.split()[0], "numpy": np.__version__}

    def build(
        self,
        folder: str,
        dataset: str,
        name: str,
        options: Options,
        threads: int,
        seed: int,
        url: str | None,
        traced: bool,
        memory_mib: int,
    ) -> BuildRecord:
        """Builds the index, and returns its cost.

        With `traced` all requests to the disk are recorded. `memory_mib` is the memory that this
        process is limited to; 0 is no limit.
        """
        self._traced = traced
        self._dataset = data.load(Path(dataset), name)
        metric = self._dataset.facts.metric
        if metric not in self._kind.description.metrics:
            raise EngineError(f"it does not know the metric {metric}")
        base = self._dataset.base
        if base.dtype != np.float32 and not self._kind.description.halves:
            base = base.astype(np.float32)
        own = Path(folder) / "index"
        own.mkdir()
        own.chmod(0o711)
        if issubclass(self._kind, Served):
            return self._build_served(self._kind(own, url), base, options, threads, seed)
        library = self._kind(own)
        library.samples, library.build_memory_mib = self._dataset.samples, memory_mib
        self._engine = library
        if memory_mib:
            # Rows that others have read would not count as this process's memory.
            drop_page_cache(self._dataset.folder / "base.npy")
        else:
            # Rows come from storage before the clock starts.
            np.asarray(base).sum(dtype=np.float32)
        return self._build_library(library, base, options, threads, seed)

    def _build_served(self, served: Served, base: Float32, options: Options, threads: int, seed: int) -> BuildRecord:
        assert self._dataset is not None
        self._engine = served
        phases = self._watch("start")
        built = served.build(base, self._dataset.facts.metric, options, threads, seed)
        phases.begin(None)
        return {
            "load_s": built.load_s, "build_s": built.build_s, "index_bytes": built.index_bytes,
            "table_bytes": built.table_bytes, "about": built.about, "memory_peak_bytes": None, "phases": phases.told,
        }  # fmt: skip

    def _build_library(self, library: Library, base: Float32, options: Options, threads: int, seed: int) -> BuildRecord:
        assert self._dataset is not None
        read, written = _disk_bytes()
        before, wall, cpu = counters.memory("RssAnon"), time.perf_counter(), counters.cpu_seconds()
        phases = self._watch("start")
        library.build(base, self._dataset.facts.metric, options, threads, seed)
        phases.begin(None)
        if len(phases.told) == 1:
            # The engine reports no phases: rows and index are one.
            phases.told[0]["phase"] = "index"
        took: BuildRecord = {
            "build_s": time.perf_counter() - wall - (library.load_s or 0),
            "build_cpu_s": counters.cpu_seconds() - cpu if not library.processes() else None,
            "load_s": library.load_s,
        }
        read_now, written_now = _disk_bytes()
        took |= {
            "bytes_read": read_now - read,
            "bytes_written": written_now - written,
            "memory_bytes": counters.memory("RssAnon") - before,
            "index_bytes": library.index_bytes(),
            "table_bytes": None,
            "cache_bytes": library.cache_bytes(),
            "memory_peak_bytes": counters.memory("VmHWM"),
            "about": {},
            "phases": phases.told,
        }
        return took

    def _watch(self, first: str) -> storage.Phases:
        """Watches the engine phase by phase; the engine reports the beginning of each."""
        engine = self._engine
        assert engine is not None

        def processes() -> list[int]:
            if isinstance(engine, Library):
                return engine.processes()
            pid = engine.pid()
            return [] if pid is None else [pid]

        phases = storage.Phases(engine.folder, processes, self._traced)
        engine.on_phase = phases.begin
        phases.begin(first)
        return phases

    def ceiling(self, options: Options, ask: Ask) -> CeilingRecord:
        """The rate of the client if the engine does almost nothing."""
        if isinstance(self._engine, Served):
            from pagehop_lab.measure import served

            return served.ceiling(self._engine, options, ask)
        from pagehop_lab.measure import in_process

        assert self._dataset is not None
        assert self._engine is not None, "a build comes first"
        # After the build, whose memory may be watched: this takes a part of the rows.
        self._scan_us = self._scan_us or in_process.scan_us(self._dataset, self._engine.build_memory_mib)
        return {"sessions": ask.sessions, "statement": None, "qps": in_process.ceiling(ask)}

    def look(self, options: Options, k: int) -> dict[str, float]:
        """The recalls of a setting, not timed."""
        assert self._dataset is not None
        assert isinstance(self._engine, Library), "settings of servers are not picked"
        from pagehop_lab.measure import in_process

        return in_process.look(self._engine, self._dataset, options, k)

    def measure(self, folder: str, options: Options, ask: Ask) -> PointRecord:
        """Measures one point; its answers are in `folder` afterwards."""
        assert self._engine is not None, "a build comes first"
        assert self._dataset is not None
        dataset = self._dataset
        if ask.matching < 1:
            kept = left_by(ask.matching, len(dataset.base))
            dataset = data.filtered(dataset, kept, f"{round(FILTER_PARTS * ask.matching)}-of-{FILTER_PARTS}")
        phases = self._watch("search" if ask.cold_queries is None else "cool")
        if isinstance(self._engine, Library):
            from pagehop_lab.measure import in_process

            raw, answers = in_process.measure(self._engine, dataset, options, ask, self._scan_us)
        else:
            from pagehop_lab.measure import served

            raw, answers = served.measure(self._engine, dataset, options, ask, Path(folder))
        phases.begin(None)
        raw["phases"] = phases.told
        np.savez(Path(folder) / "answers.npz", **answers.as_arrays())  # type: ignore[arg-type]
        return raw

    def has_died(self) -> bool:
        """Whether the engine's server has ended, so that nothing more can be measured."""
        if self._engine is None:
            return False
        # The caller noticed the end a moment earlier.
        time.sleep(_GRACE_S)
        return self._engine.has_died()

    def close(self) -> dict[str, str]:
        """Lets the engine go."""
        if self._engine is not None:
            self._engine.close()
            shutil.rmtree(self._engine.folder, ignore_errors=True)
            self._engine = None
        return {}


def _disk_bytes() -> tuple[int, int]:
    """Bytes that this process has read from storage, and those that it has written to it.

    Parts of a file that went before the kernel wrote them are not written.
    """
    written = counters.io_counter("write_bytes") - counters.io_counter("cancelled_write_bytes")
    return counters.io_counter("read_bytes"), written


def main(name: str) -> None:
    """Answers requests until there are no more."""
    # If the run is killed, its engines end, too. The run handles Ctrl-C.
    run = os.getppid()
    end_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module, _, kind = name.partition(":")
    worker: Worker | None = None
    try:
        for line in sys.stdin:
            request = json.loads(line)
            command = request.pop("command")
            try:
                if "ask" in request:
                    request["ask"] = Ask(**request["ask"])
                worker = worker or Worker(getattr(importlib.import_module(module), kind))
                answer = {"ok": getattr(worker, command)(**request)}
            except (NotInstalled, ImportError) as error:
                answer = {"failed": f"not installed: {error}"}
            except Exception as error:
                if worker is not None and worker.has_died():
                    sys.exit(f"the server died: {error}")
                if isinstance(error, EngineError):
                    answer = {"failed": str(error)}
                else:
                    traceback.print_exc()
                    answer = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers)
    finally:
        if worker is not None:
            worker.close()
        if os.getppid() != run:
            # No other process is left to remove the folder.
            shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
