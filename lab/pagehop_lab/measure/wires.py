"""What asks a server as cheaply as Python can: statements made once, answers left as they came.

Libraries for these protocols take as long to keep an answer as some servers to give it: they connect, and then
statements whose parameters are whole numbers go past them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Of libpq's results: an empty statement, one without rows, one with rows, and three of COPY.
_GOOD_MAX = 4
# What ends an answer of PostgreSQL outside of a transaction, and room for it with the number of rows before it.
_READY = b"Z\0\0\0\x05I"
_TAG_BYTES = 32
_READ_BYTES = 1 << 16
# Of MySQL's protocol: the command of a statement in words, and the first bytes of two kinds of packets.
_QUERY, _END, _ERROR = b"\x03", 0xFE, 0xFF
_END_BYTES_MAX = 8


class Numbers(Protocol):
    """A SELECT with whole numbers as parameters."""

    def ask(self, numbers: tuple[int, ...]) -> int:
        """Rows of the answer; each number has at most ten digits. RuntimeError with what the server says."""


class Wire(Protocol):
    """A connection; each statement is a transaction."""

    def execute(self, statement: bytes) -> None:
        """A statement whose result is not wanted. RuntimeError or the library's error if it fails."""

    def numbers(self, name: str, statement: str, count: int) -> Numbers:
        """A SELECT that is asked with so many whole numbers, $1, $2 and so on in this order, again and again."""


@dataclass(frozen=True)
class Where:
    """A server, as a process is told of it."""

    address: str
    """What libpq connects by, or the socket of a server that speaks MySQL's protocol."""
    is_mysql: bool = False

    @staticmethod
    def of(server: Any) -> Where:
        """Where a server of the lab is."""
        return Where(server.dsn()) if hasattr(server, "dsn") else Where(str(server.socket), is_mysql=True)

    def open(self) -> Wire:
        """A connection."""
        return MysqlWire(self.address) if self.is_mysql else PostgresWire(self.address)


class PostgresWire:
    """A connection to PostgreSQL."""

    def __init__(self, dsn: str) -> None:
        import psycopg

        self.connection = psycopg.connect(dsn, autocommit=True)
        self._wire = self.connection.pgconn

    def set(self, settings: Mapping[str, str]) -> None:
        """Settings of the session."""
        for name, value in settings.items():
            self.execute(f"SET {name} = '{value}'".encode())

    def prepare(self, name: bytes, statement: str) -> None:
        """A statement with parameters $1, $2 and so on."""
        _checked(self._wire.prepare(name, statement.encode()))

    def execute_prepared(self, name: bytes, parameters: Sequence[bytes]) -> Any:
        """What libpq gives for a prepared statement; parameters and result are as the server holds them."""
        return _checked(self._wire.exec_prepared(name, parameters, [1] * len(parameters), 1))

    def numbers(self, name: str, statement: str, count: int) -> PostgresNumbers:
        self.prepare(name.encode(), statement)
        # libpq waits by itself; who reads without it waits in the kernel.
        os.set_blocking(self._wire.socket, True)
        return PostgresNumbers(self._wire.socket, _bind_form(name.encode(), count))

    def execute(self, statement: bytes) -> None:
        _checked(self._wire.exec_(statement))


@dataclass(frozen=True)
class PostgresNumbers:
    """A prepared statement."""

    socket: int
    form: bytes
    """The messages that bind, execute and synchronize, with a place for each number."""

    def ask(self, numbers: tuple[int, ...]) -> int:
        os.write(self.socket, self.form % numbers)
        said = os.read(self.socket, _READ_BYTES)
        while not said.endswith(_READY):
            more = os.read(self.socket, _READ_BYTES)
            if not more:
                raise RuntimeError("the server closed the connection")
            said += more
        told = said.rfind(b"SELECT ", -_TAG_BYTES)
        if told < 0:
            raise RuntimeError(said.decode(errors="replace"))
        return int(said[told + 7 : -len(_READY) - 1])


def _bind_form(name: bytes, count: int) -> bytes:
    """Bind the unnamed portal to texts, execute it, synchronize: `PostgreSQL: Message Formats`."""
    # A parameter is ten digits.
    place = (10).to_bytes(4, "big") + b"%010d"
    head = b"\0" + name + b"\0" + bytes(2) + count.to_bytes(2, "big")
    length = 4 + len(head) + 14 * count + 2
    execute, synchronize = b"E\0\0\0\x09\0\0\0\0\0", b"S\0\0\0\x04"
    return b"B" + length.to_bytes(4, "big") + head + place * count + bytes(2) + execute + synchronize


def _checked(result: Any) -> Any:
    if result.status > _GOOD_MAX:
        raise RuntimeError(result.error_message.decode(errors="replace").strip())
    return result


class MysqlWire:
    """A connection to MariaDB or MySQL, with statements in words: PyMySQL prepares none."""

    def __init__(self, socket: str) -> None:
        import pymysql

        self._connection = pymysql.connect(unix_socket=socket, user="root", database="lab", autocommit=True)

    def execute(self, statement: bytes) -> None:
        self._connection.query(statement)

    def numbers(self, name: str, statement: str, count: int) -> MysqlNumbers:
        form = re.sub(r"\$\d+", "%d", statement.replace("%", "%%"))
        return MysqlNumbers(self._connection._sock, _QUERY + f"/* {name} {count} */ {form}".encode())


@dataclass(frozen=True)
class MysqlNumbers:
    """A statement in words."""

    socket: Any
    form: bytes

    def ask(self, numbers: tuple[int, ...]) -> int:
        said = self.form % numbers
        self.socket.sendall(len(said).to_bytes(3, "little") + b"\0" + said)
        # Packets: how many columns, the columns, an end, the rows, an end.
        answer, at, ends, rows = b"", 0, 0, 0
        while True:
            length = int.from_bytes(answer[at : at + 3], "little")
            if len(answer) < at + 4 or len(answer) < at + 4 + length:
                more = self.socket.recv(_READ_BYTES)
                if not more:
                    raise RuntimeError("the server closed the connection")
                answer += more
                continue
            kind = answer[at + 4]
            if kind == _ERROR:
                raise RuntimeError(answer[at + 7 : at + 4 + length].decode(errors="replace"))
            if kind == _END and length <= _END_BYTES_MAX:
                ends += 1
                if ends == 2:
                    return rows
            elif ends == 1:
                rows += 1
            at += 4 + length
