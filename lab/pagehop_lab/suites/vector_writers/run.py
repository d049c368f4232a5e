"""Writers of a table of vectors, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pagehop_lab import data
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.suites.vector_writers import beside, measure
from pagehop_lab.suites.vector_writers.measure import Asked
from pagehop_lab.suites.vector_writers.plan import WritersLoad, fixed_rows
from pagehop_lab.suites.vector_writers.records import WritersRecord
from pagehop_lab.suites.vector_writers.servers import WriterServer
from pagehop_lab.suites.vector_writers.vectors import Supply

# Share of the full rate of a small table that certainly remains as the table grows.
_OF_FULL_RATE = 0.5


@dataclass
class VectorWriters:
    """Each step begins with a copy of the loaded table."""

    plan: ServersPlan
    _rates: dict[int, float] = field(default_factory=dict)
    """Rows a second of the last step at full speed."""

    @property
    def _load(self) -> WritersLoad:
        assert isinstance(self.plan.load, WritersLoad)
        return self.plan.load

    @cached_property
    def _supply(self) -> Supply:
        load = self._load
        rows, queries = load.dataset_rows or None, load.queries
        dataset = data.prepare(load.dataset, None, rows, queries, "euclidean", self.plan.seed, lambda _: None)
        return Supply(dataset, self.plan.seed)

    def load(self, instance: WriterServer) -> LoadedRecord:
        """Loads the table with which steps begin."""
        try:
            self._supply.need(self._load.rows, "loading")
            rows = self._supply.vectors.open().rows(0, self._load.rows)
            return instance.load(self._supply.dataset, rows) | {"rows_different": self._supply.count}
        except (EngineError, data.DataError) as error:
            raise MeasureError(str(error)) from None

    def measure(self, instance: WriterServer, case: Case, slowed: float) -> WritersRecord:
        """One step, on a table of its own."""
        assert not slowed
        load = self._load
        rate = self._rates.get(id(instance), 0.0) if case.script == "log_interval" else 0.0
        self._supply.need(fixed_rows(load, case) + int(_OF_FULL_RATE * rate * load.log_seconds), case.name)
        asked = Asked(instance, self._supply, load)
        instance.begin_step()
        try:
            found = _step(asked, case)
        except EngineError as error:
            raise MeasureError(str(error)) from None
        finally:
            if instance.running:
                instance.end_step()
        if case.script == "write":
            self._rates[id(instance)] = found["rows_per_s"]
        return found


def _step(asked: Asked, case: Case) -> WritersRecord:
    count, load = case.range, asked.load
    match case.script:
        case "write":
            found = measure.write(asked, count, load.seconds)
        case "copy":
            found = measure.copy(asked)
        case "log_rows":
            found = measure.write_rows(asked, count, load.log_rows)
        case "log_interval":
            found = measure.write(asked, count, load.log_seconds, is_split=True)
        case "vacuum":
            found = beside.vacuum(asked, count)
        case "search":
            found = beside.search(asked, count)
        case _:
            found = measure.recall(asked, count)
    return found | {"writers": count, "cpu_us": found["server_cpu_us_per_query"]}
