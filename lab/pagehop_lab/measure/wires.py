"""What asks a server as cheaply as Python can: statements prepared once, answers left as they came."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Of libpq's results: an empty statement, one without rows, one with rows, and three of COPY.
_GOOD_MAX = 4
# What ends an answer outside of a transaction, and room for it with the number of rows before it.
_READY = b"Z\0\0\0\x05I"
_TAG_BYTES = 32
_READ_BYTES = 1 << 16


class PostgresWire:
    """A connection to PostgreSQL; each statement is a transaction."""

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

    def numbers(self, name: bytes, statement: str, count: int) -> PostgresNumbers:
        """A SELECT that is prepared and asked with so many whole numbers, again and again."""
        self.prepare(name, statement)
        # libpq waits by itself; who reads without it waits in the kernel.
        os.set_blocking(self._wire.socket, True)
        return PostgresNumbers(self._wire.socket, _bind_form(name, count))

    def execute(self, statement: bytes) -> None:
        """A statement whose result is not wanted."""
        _checked(self._wire.exec_(statement))


@dataclass(frozen=True)
class PostgresNumbers:
    """A prepared statement, asked past libpq, which takes as long to keep an answer as some servers to give it."""

    socket: int
    form: bytes
    """The messages that bind, execute and synchronize, with a place for each number."""

    def ask(self, numbers: tuple[int, ...]) -> int:
        """Rows of the answer; each number has at most ten digits."""
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
