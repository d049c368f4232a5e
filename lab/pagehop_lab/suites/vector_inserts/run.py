"""The Insert Benchmark on a table of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pagehop_lab import data
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.measure.steps import State
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.suites.inserts.run import looked_at_again
from pagehop_lab.suites.vector_inserts import measure as vector_inserts
from pagehop_lab.suites.vector_inserts.plan import VectorLoad
from pagehop_lab.suites.vector_inserts.records import VectorStepRecord


@dataclass
class VectorInserts:
    """The same on a table of vectors; inserted rows follow the existing ones."""

    plan: ServersPlan
    _states: dict[int, State] = field(default_factory=dict)

    @cached_property
    def _dataset(self) -> data.Dataset:
        load = self.plan.load
        assert isinstance(load, VectorLoad)
        rows = vector_inserts.VECTORS_PER_ROW * load.rows
        return data.prepare(load.dataset, None, rows, load.queries, None, self.plan.seed, lambda _: None)

    def load(self, instance: Any) -> LoadedRecord:
        load = self.plan.load
        said = vector_inserts.load(instance, self._dataset, load.rows, load.load_timeout_s)
        self._states[id(instance)] = State(0, said["rows"])
        return said

    def measure(self, instance: Any, case: Case, slowed: float) -> VectorStepRecord:
        assert not slowed
        load = self.plan.load
        assert isinstance(load, VectorLoad)
        state, seconds = self._states[id(instance)], load.seconds
        with looked_at_again(state, instance.window):
            if case.script == "write":
                return vector_inserts.write(instance, self._dataset, state, case.range, seconds)
            return vector_inserts.query(instance, self._dataset, state, case.range, seconds, load.commit_rows)
