"""Servers that keep documents, and the clients that query one attribute of one document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devserver import ferretdb, releases
from devserver.configuration import Configuration
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.plan.servers import ServerSpec, ServersPlan
from pagehop_lab.run.servers import Instance, Product, Wrapped
from pagehop_lab.suites.attributes import measure as attributes
from pagehop_lab.suites.attributes.records import DocumentRecord


@dataclass(frozen=True)
class DocumentServer(Wrapped):
    """A server, and the form in which it keeps documents."""

    model: str


@dataclass(frozen=True)
class WithModel:
    """Servers that keep documents."""

    ours: Product

    def version(self, server: ServerSpec) -> str:
        return self.ours.version(server)

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return self.ours.settings(server, configuration)

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return DocumentServer(self.ours.new(server, configuration), str(dict(server.options)["model"]))


class FerretDb:
    """FerretDB by version, over SQLite."""

    def version(self, server: ServerSpec) -> str:
        return ferretdb.install(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(ferretdb.PRODUCT, self.version(server))

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return ferretdb.Instance(ferretdb.install(server.version), self.settings(server, configuration))


class NoRelease:
    """A product that no registry has."""

    def version(self, server: ServerSpec) -> str:
        return releases.release(server.product, server.version).name

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        raise NotImplementedError("there is no version of it")

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        raise NotImplementedError("there is no version of it")


@dataclass
class Attributes:
    """One attribute of one document; the server knows how it keeps documents."""

    plan: ServersPlan

    def load(self, instance: Any) -> LoadedRecord:
        assert isinstance(instance, DocumentServer)
        return {"load_s": 0.0}

    def measure(self, instance: Any, case: Case, slowed: float) -> DocumentRecord:
        assert not slowed
        load, seed = self.plan.load, self.plan.seed
        return attributes.measure(instance.ours, instance.model, case.range, case.script, load.rows, load.seconds, seed)
