"""Servers with MySQL's protocol, by product and version."""

from __future__ import annotations

from devserver import innodb, mariadb, mysql

_INSTALL = {mariadb.PRODUCT: mariadb.of_version, mysql.PRODUCT: mysql.install}


def install(product: str, version: str) -> innodb.Program:
    """The server, downloaded if it is missing. DevServerError if it is not available."""
    return _INSTALL[product](version)
