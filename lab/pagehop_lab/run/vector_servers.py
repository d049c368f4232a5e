"""PostgreSQL with a table of vectors and an index over it: what the vector Insert Benchmark writes to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devserver import DevServerError, install, install_extension
from devserver.servers import Server
from labservers import postgres
from labservers.configuration import Configuration
from labservers.releases import ServerMissingError
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import OptionValue
from pagehop_lab.engines.postgres_server import PostgresServer
from pagehop_lab.plan.servers import ServerSpec

_VERSION = "18"
# Rows go as fast as they come, and what is left of them is to be cleaned up meanwhile, as in real life.
CLEANING = {"autovacuum": "on", "autovacuum_naptime": "5s"}


class VectorProduct:
    """An access method of one of the lab's engines, in the server that has pgvector."""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def version(self, server: ServerSpec) -> str:
        found = self._server(server)
        method = self._method()
        control = (found.extension_folder / f"{method.extension}.control").read_text()
        named = re.search(r"default_version\s*=\s*'([^']+)'", control)
        return f"{method.extension} {named[1] if named else '?'} in PostgreSQL {found.version}"

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        settings = configuration.settings(postgres.PRODUCT, self._server(server).version)
        return settings | CLEANING | {"maintenance_work_mem": "512MB"}

    def new(self, server: ServerSpec, configuration: Configuration) -> VectorInstance:
        options = dict(server.options)
        return VectorInstance(self._server(server), self.settings(server, configuration), self._method(), options)

    def _method(self) -> PostgresServer:
        kind = CATALOG[self._engine]
        assert issubclass(kind, PostgresServer)
        return kind(Path())

    def _server(self, server: ServerSpec) -> Server:
        if server.version != _VERSION:
            raise ServerMissingError(f"{self._engine} is measured in PostgreSQL {_VERSION}, not {server.version}")
        found = install(_VERSION)
        if self._method().extension == "pagehop":
            install_extension(found)
        return found


class VectorInstance(postgres.Instance):
    """A server; `options` are those of the engine's index and searches, with its own defaults for the rest."""

    def __init__(
        self, server: Server, settings: Mapping[str, str], method: PostgresServer, options: Mapping[str, OptionValue]
    ) -> None:
        super().__init__(server, settings)
        self._method = method
        about = method.description
        defaults: dict[str, Any] = {**about.build, **{name: values[0] for name, values in about.search.items()}}
        for name in options:
            if name not in defaults:
                raise DevServerError(f"{about.name} has no option {name}: there are {', '.join(defaults)}")
        self._options = {**defaults, **options}

    def start(self) -> None:
        super().start()
        extension = self._method.extension
        self.execute(f"CREATE EXTENSION IF NOT EXISTS {extension} CASCADE")

    def index_statement(self, table: str, index: str) -> str:
        """What creates the index."""
        return f"CREATE INDEX {index} ON {table} USING {self._method.using('vector_l2_ops', self._options)}"

    def search_settings(self, k: int) -> Mapping[str, str]:
        """What a session sets before it searches."""
        return self._method.settings(self._options, k)
