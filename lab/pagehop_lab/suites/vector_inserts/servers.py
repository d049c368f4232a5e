"""Servers with a table of vectors and an index over it, for the vector Insert Benchmark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devserver import DevServerError, innodb, install, install_extension, mariadb, postgres, running
from devserver.configuration import Configuration
from devserver.releases import ServerMissingError
from devserver.servers import Server
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import OptionValue
from pagehop_lab.engines.history import EXTENSION, at_commit
from pagehop_lab.engines.postgres_server import PostgresServer
from pagehop_lab.measure.wires import Where
from pagehop_lab.plan.servers import ServerSpec
from pagehop_lab.run.servers import Wrapped
from pagehop_lab.suites.inserts import CLEANING
from pagehop_lab.suites.vector_inserts.measure import INDEX, TABLE, K
from pagehop_lab.suites.vector_inserts.vector_rows import Float32, VectorRows

_POSTGRES = "18"
_MARIADB = "11.8"
_MARIADB_FROM = (11, 7)
_BUILDING = {"maintenance_work_mem": "512MB"}


class PostgresVectorProduct:
    """An access method of one of the lab's engines, in a private server or a running one."""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def version(self, server: ServerSpec) -> str:
        extension = self.method().extension
        if server.url is not None:
            given = _by_url(server.url, running.Postgres)
            found = given.execute(f"SELECT default_version FROM pg_available_extensions WHERE name = '{extension}'")
            if not found:
                raise DevServerError(f"{given.shown} has no extension {extension}")
            return f"{extension} {found[0][0]} in PostgreSQL {given.version()}"
        program = self.program(server)
        control = (program.extension_folder / f"{extension}.control").read_text()
        named = re.search(r"default_version\s*=\s*'([^']+)'", control)
        version = named[1] if named else "?"
        if extension == "pagehop":
            version = at_commit(version, *EXTENSION)
        return f"{extension} {version} in PostgreSQL {program.version}"

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        if server.url is not None:
            return {"settings": "its own"}
        return configuration.settings(postgres.PRODUCT, self.program(server).version) | CLEANING | _BUILDING

    def new(self, server: ServerSpec, configuration: Configuration) -> PostgresVectors:
        method = self.method()
        options = self.options(server)
        if server.url is not None:
            return PostgresVectors(_by_url(server.url, running.Postgres), options, method)
        ours = postgres.Instance(self.program(server), self.settings(server, configuration))
        return PostgresVectors(ours, options, method)

    def options(self, server: ServerSpec) -> dict[str, OptionValue]:
        """The plan's options, with the engine's defaults for the rest."""
        about = self.method().description
        usual: dict[str, OptionValue] = {**about.build, **{name: values[0] for name, values in about.search.items()}}
        return _checked(about.name, dict(server.options), usual)

    def method(self) -> PostgresServer:
        """The lab's engine."""
        kind = CATALOG[self._engine]
        assert issubclass(kind, PostgresServer)
        return kind(Path())

    def program(self, server: ServerSpec) -> Server:
        """The server with the extension installed."""
        if server.version != _POSTGRES:
            raise ServerMissingError(
                f"{self._engine} is measured in PostgreSQL {_POSTGRES}, not {server.version}; any other by its url"
            )
        found = install(_POSTGRES)
        if self.method().extension == "pagehop":
            install_extension(found)
        return found


@dataclass(frozen=True)
class VectorServer(Wrapped):
    """A server; `options` are those of the index and its searches."""

    options: Mapping[str, OptionValue]

    def window(self) -> tuple[int, int]:
        """The first id and the one after the last."""
        low, high = self.ours.execute(f"SELECT coalesce(min(id), 0), coalesce(max(id) + 1, 0) FROM {TABLE}")[0]
        return int(low), int(high)


@dataclass(frozen=True)
class PostgresVectors(VectorServer):
    """PostgreSQL with an access method of one of the lab's engines."""

    method: PostgresServer

    def create(self, dim: int) -> None:
        self.ours.execute(
            f"CREATE EXTENSION IF NOT EXISTS {self.method.extension} CASCADE",
            f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, embedding vector({dim}) STORAGE PLAIN NOT NULL)",
        )

    def index(self) -> None:
        self.ours.execute(f"CREATE INDEX {INDEX} ON {TABLE} USING {self.method.using('vector_l2_ops', self.options)}")

    def index_bytes(self) -> int:
        return int(self.ours.execute(f"SELECT pg_relation_size('{INDEX}')")[0][0])

    def plan(self, query: Float32) -> tuple[str, bool]:
        vector = "[" + ",".join(f"{value:.6g}" for value in query) + "]"
        asked = f"EXPLAIN SELECT id FROM {TABLE} ORDER BY embedding <-> '{vector}' LIMIT {K}"
        settings = [f"SET {name} = '{value}'" for name, value in self._settings().items()]
        said = "\n".join(row[0] for row in self.ours.execute(*settings, asked))
        return said, INDEX in said

    def rows(self, base: Path, queries: Path) -> VectorRows:
        return VectorRows(Where.of(self.ours), TABLE, base, queries, self._settings(), K)

    def _settings(self) -> dict[str, str]:
        """Settings of a session that searches."""
        return dict(self.method.settings(self.options, K))


class MariaDbVectorProduct:
    """MariaDB's own index over vectors."""

    def version(self, server: ServerSpec) -> str:
        if server.url is None:
            return mariadb.of_version(self._named(server)).version
        given = _by_url(server.url, running.Mysql)
        version = str(given.version())
        if tuple(int(part) for part in version.split(".")[:2]) < _MARIADB_FROM:
            raise DevServerError(f"{given.shown} is {version}: MariaDB has vectors from 11.7 on, MySQL has no index")
        return version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        if server.url is not None:
            return {"settings": "its own"}
        # The index has a cache of its own beside that of pages.
        more = {"mhnsw_max_cache_size": f"{configuration.cache_mib}M"}
        return configuration.settings(mariadb.PRODUCT, self.version(server)) | more

    def new(self, server: ServerSpec, configuration: Configuration) -> MariaDbVectors:
        about = CATALOG["mariadb"].description
        usual: dict[str, OptionValue] = {**about.build, **{name: values[0] for name, values in about.search.items()}}
        options = _checked("mariadb", dict(server.options), usual)
        if server.url is not None:
            return MariaDbVectors(_by_url(server.url, running.Mysql), options)
        program = mariadb.of_version(self._named(server))
        return MariaDbVectors(innodb.Instance(program, self.settings(server, configuration)), options)

    def _named(self, server: ServerSpec) -> str:
        if server.version != _MARIADB:
            raise ServerMissingError(f"of the versions here MariaDB {_MARIADB} has vectors, not {server.version}")
        return server.version


@dataclass(frozen=True)
class MariaDbVectors(VectorServer):
    """MariaDB with a table of vectors."""

    def create(self, dim: int) -> None:
        self.ours.execute(f"CREATE TABLE {TABLE} (id integer NOT NULL PRIMARY KEY, embedding vector({dim}) NOT NULL)")

    def index(self) -> None:
        of = f"M={self.options['m']} DISTANCE=euclidean"
        self.ours.execute(f"ALTER TABLE {TABLE} ADD VECTOR INDEX {INDEX} (embedding) {of}")

    def index_bytes(self) -> int:
        found = self.ours.execute(
            "SELECT file_size FROM information_schema.innodb_sys_tablespaces "
            f"WHERE name LIKE CONCAT(DATABASE(), '/{TABLE}#i#%')"
        )
        if len(found) != 1:
            raise DevServerError(f"the server says of {len(found)} files that they are the index of {TABLE}")
        return int(found[0][0])

    def plan(self, query: Float32) -> tuple[str, bool]:
        near = f"VEC_DISTANCE_EUCLIDEAN(embedding, x'{query.astype('<f4').tobytes().hex()}')"
        asked = f"EXPLAIN FORMAT=JSON SELECT id FROM {TABLE} ORDER BY {near} LIMIT {K}"
        said = str(self.ours.execute(*self._set(), asked)[0][0])
        (table,) = json.loads(said)["query_block"]["nested_loop"]
        return said, table.get("table", {}).get("key") == INDEX

    def rows(self, base: Path, queries: Path) -> VectorRows:
        return VectorRows(Where.of(self.ours), TABLE, base, queries, self._settings(), K)

    def _settings(self) -> dict[str, str]:
        return {"mhnsw_ef_search": str(self.options["ef_search"])}

    def _set(self) -> list[str]:
        return [f"SET SESSION {name} = {value}" for name, value in self._settings().items()]


def _by_url(url: str, kind: type[running.Running]) -> Any:
    """A server that runs already; DevServerError if it is of another kind."""
    given = running.of_url(url, TABLE)
    if not isinstance(given, kind):
        raise DevServerError(f"{given.shown}: this is not a URL of the product that the plan names")
    return given


def _checked(name: str, options: Mapping[str, OptionValue], usual: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """The options with an engine's own defaults for the rest."""
    for option in options:
        if option not in usual:
            raise DevServerError(f"{name} has no option {option}: there are {', '.join(usual)}")
    return {**usual, **options}
