"""Servers of SQL by version, or by the URL of one that runs already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devserver import innodb, mariadb, mysql, postgres, running
from devserver.configuration import Configuration
from pagehop_lab.plan.servers import ServerSpec
from pagehop_lab.run.servers import Instance, Product


class Postgres:
    """PostgreSQL by major version, with settings beside those of the configuration."""

    def __init__(self, **more: str) -> None:
        self._more = more

    def version(self, server: ServerSpec) -> str:
        return postgres.install(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(postgres.PRODUCT, self.version(server)) | self._more

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return postgres.Instance(postgres.install(server.version), self.settings(server, configuration))


@dataclass(frozen=True)
class InnoDb:
    """MariaDB or MySQL by version."""

    product: str
    install: Callable[[str], innodb.Program]

    def version(self, server: ServerSpec) -> str:
        return self.install(server.version).version

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return configuration.settings(self.product, self.version(server))

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        return innodb.Instance(self.install(server.version), self.settings(server, configuration))


@dataclass(frozen=True)
class OrRunning:
    """A product of which a running server may be given."""

    ours: Product
    table: str
    """Name of the table that is created in its database, and dropped."""
    of_url: Callable[[str, str], Any] = running.of_url

    def version(self, server: ServerSpec) -> str:
        if server.url is None:
            return self.ours.version(server)
        return str(self.of_url(server.url, self.table).version())

    def settings(self, server: ServerSpec, configuration: Configuration) -> dict[str, str]:
        return self.ours.settings(server, configuration) if server.url is None else {"settings": "its own"}

    def new(self, server: ServerSpec, configuration: Configuration) -> Instance:
        if server.url is None:
            return self.ours.new(server, configuration)
        given: Instance = self.of_url(server.url, self.table)
        return given


def sql(table: str, **more: str) -> dict[str, Product]:
    """Servers of SQL, with settings of PostgreSQL beside those of the configuration."""
    return {
        "postgres": OrRunning(Postgres(**more), table),
        "mariadb": OrRunning(InnoDb(mariadb.PRODUCT, mariadb.of_version), table),
        "mysql": OrRunning(InnoDb(mysql.PRODUCT, mysql.install), table),
    }
