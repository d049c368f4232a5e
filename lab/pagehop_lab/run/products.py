"""The servers that a plan may name, and what asks them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from labservers import postgres, sysbench
from labservers.configuration import Configuration
from labservers.tree import Tree
from pagehop_lab.measure import oltp
from pagehop_lab.run.servers import Instance, Product


class Postgres:
    """PostgreSQL by major version."""

    def version(self, name: str) -> str:
        return postgres.install(name).version

    def settings(self, name: str, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(postgres.PRODUCT, self.version(name))

    def new(self, name: str, configuration: Configuration) -> Instance:
        return postgres.Instance(postgres.install(name), self.settings(name, configuration))


PRODUCTS: dict[str, Product] = {"postgres": Postgres()}


class Sysbench:
    """Debian's sysbench with our script."""

    @cached_property
    def _tree(self) -> Tree:
        return sysbench.install()

    def load(self, instance: Instance, rows: int, seed: int, timeout_s: float) -> float:
        return oltp.load(self._tree, instance, rows, seed, timeout_s)

    def measure(self, instance: Instance, ask: oltp.Ask) -> dict[str, Any]:
        return oltp.measure(self._tree, instance, ask)
