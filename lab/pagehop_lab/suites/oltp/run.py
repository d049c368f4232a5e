"""The microbenchmarks, asked by Debian's sysbench with our script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from devserver import sysbench
from devserver.tree import Tree
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import LoadedRecord, OltpRecord
from pagehop_lab.measure import oltp
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.plan.servers import ServerSpec, ServersPlan
from pagehop_lab.suites.oltp import turns as oltp_turns
from pagehop_lab.suites.oltp.cases import READS_ROWS


@dataclass
class Sysbench:
    """Debian's sysbench with our script."""

    plan: ServersPlan

    @cached_property
    def _tree(self) -> Tree:
        return sysbench.install()

    def load(self, instance: Any) -> LoadedRecord:
        load = self.plan.load
        load_s = oltp.load(self._tree, instance, load.rows, self.plan.seed, load.load_timeout_s)
        instance.settle()
        return {"load_s": load_s, "ceiling": oltp.measure(self._tree, instance, self._ask("ceiling", 1, 0.0))}

    def measure(self, instance: Any, case: Case, slowed: float) -> OltpRecord:
        return oltp.measure(self._tree, instance, self._ask(case.script, case.range, slowed)) | self._expected(case)

    def in_turns(self, asked: Mapping[ServerSpec, Any], case: Case) -> dict[ServerSpec, OltpRecord | MeasureError]:
        """All servers in rounds of short turns."""
        told = [
            (instance, replace(self._ask(case.script, case.range, server.slowed), doubled=server.doubled))
            for server, instance in asked.items()
        ]
        found = oltp_turns.in_turns(self._tree, told, self.plan.load.rounds)
        expected = self._expected(case)
        return {
            server: one if isinstance(one, MeasureError) else one | expected
            for server, one in zip(asked, found, strict=True)
        }

    def _expected(self, case: Case) -> OltpRecord:
        """Whether a test of data larger than memory has to read from storage."""
        return {"expects_reads": case.script in READS_ROWS} if self.plan.load.memory_mib else {}

    def _ask(self, script: str, length: int, slowed: float) -> oltp.Ask:
        load = self.plan.load
        return oltp.Ask(script, length, load.rows, load.clients, load.warmup_s, load.seconds, self.plan.seed, slowed)
