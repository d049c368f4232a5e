"""The cheapest clients of servers in Python: statements are prepared once, and answers are not
decoded.

Libraries for these protocols take as long to decode an answer as some servers take to give it. So a
library only connects, and statements whose parameters are whole numbers bypass it.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Of libpq's results: an empty statement, one without rows, one with rows, and three of COPY.
_GOOD_MAX = 4
# The end of PostgreSQL's answer outside a transaction, and room for the message before it, which
# has the number of rows.
_READY = b"Z\0\0\0\x05I"
_TAG_BYTES = 32
_READ_BYTES = 1 << 16
_EXECUTE_AND_SYNC = b"E\0\0\0\x09\0\0\0\0\0" + b"S\0\0\0\x04"
# MySQL's protocol: commands that prepare and execute, flags for one execution, first bytes of
# packets.
_PREPARE, _EXECUTE, _ONCE = b"\x16", b"\x17", b"\0\1\0\0\0"
_DONE, _END, _ERROR = 0x00, 0xFE, 0xFF
_END_BYTES_MAX = 8
_DEADLOCK = 1213
WHOLE, BYTES = 8, 0xFC
"""Kinds of parameters: an integer of eight bytes, and a string: its length, then its bytes."""


class DeadlockError(RuntimeError):
    """The server rolled a transaction back in favor of another, and it must be repeated."""


class Numbers(Protocol):
    """A SELECT with whole numbers as parameters."""

    def ask(self, numbers: tuple[int, ...]) -> int:
        """Rows of the answer.

        Each number has at most ten digits. RuntimeError with the server's message.
        """


class Wire(Protocol):
    """A connection; each statement is a transaction."""

    def execute(self, statement: bytes) -> None:
        """A statement whose result is ignored. RuntimeError or the library's error if it fails."""

    def numbers(self, statement: str) -> Numbers:
        """A SELECT that is repeated with whole numbers, $1, $2 and so on.

        In MySQL's protocol a number that stands in two places is two numbers.
        """


@dataclass(frozen=True)
class Where:
    """A server, in a form that can be sent to a process."""

    dsn: str = ""
    """What libpq connects by."""
    mysql: tuple[tuple[str, Any], ...] = ()
    """The options of PyMySQL, if the server speaks MySQL's protocol."""

    @staticmethod
    def of(server: Any) -> Where:
        """Where a server of the lab is."""
        return Where(server.dsn()) if hasattr(server, "dsn") else Where(mysql=tuple(server.client_options().items()))

    @property
    def is_mysql(self) -> bool:
        return bool(self.mysql)

    def open(self) -> Wire:
        """A connection."""
        return MysqlWire(dict(self.mysql)) if self.is_mysql else PostgresWire(self.dsn)


class PostgresWire:
    """A connection to PostgreSQL."""

    def __init__(self, dsn: str) -> None:
        import psycopg

        self.connection = psycopg.connect(dsn, autocommit=True)
        self._wire = self.connection.pgconn
        self._prepared = 0

    def set(self, settings: Mapping[str, str]) -> None:
        """Settings of the session."""
        for name, value in settings.items():
            self.execute(f"SET {name} = '{value}'".encode())

    def prepare(self, name: bytes, statement: str) -> None:
        """A statement with parameters $1, $2 and so on."""
        _checked(self._wire.prepare(name, statement.encode()))

    def execute_prepared(self, name: bytes, parameters: Sequence[bytes]) -> Any:
        """What libpq returns for a prepared statement.

        Parameters and result have the server's binary format.
        """
        return _checked(self._wire.exec_prepared(name, parameters, [1] * len(parameters), 1))

    def numbers(self, statement: str) -> PostgresNumbers:
        if self._wire.ssl_in_use:
            raise RuntimeError("the connection is encrypted, which is not spoken here: add sslmode=disable to the URL")
        places = [int(place) for place in re.findall(r"\$(\d+)", statement)]
        name = b"n%d" % self._prepared
        self._prepared += 1
        self.prepare(name, statement)
        # libpq waits by itself. Reads without it must block in the kernel.
        os.set_blocking(self._wire.socket, True)
        return PostgresNumbers(self._wire.socket, _bind_form(name, max(places)))

    def binary(self, statement: str) -> PostgresBinary:
        """A statement that is executed many times, with values in the server's binary format."""
        if self._wire.ssl_in_use:
            raise RuntimeError("the connection is encrypted, which is not spoken here: add sslmode=disable to the URL")
        name = b"n%d" % self._prepared
        self._prepared += 1
        self.prepare(name, statement)
        os.set_blocking(self._wire.socket, True)
        return PostgresBinary(self._wire.socket, name, len(set(re.findall(r"\$(\d+)", statement))))

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


class PostgresBinary:
    """A prepared statement whose parameters are bytes."""

    def __init__(self, socket: int, name: bytes, count: int) -> None:
        self._socket = socket
        # An unnamed portal; one format, binary, for all parameters.
        self._head = b"\0" + name + b"\0\0\1\0\1" + count.to_bytes(2, "big")

    def ask(self, parameters: Sequence[bytes]) -> bytes:
        """The whole answer of the server; RuntimeError if it refuses."""
        told = b"".join(len(one).to_bytes(4, "big") + one for one in parameters)
        length = 4 + len(self._head) + len(told) + 4
        bind = b"B" + length.to_bytes(4, "big") + self._head + told + b"\0\1\0\1"
        _send_all(self._socket, bind + _EXECUTE_AND_SYNC)
        # A row may contain these bytes at the end of a part of the answer, so messages are parsed.
        said, at = b"", 0
        while True:
            while len(said) < at + 5 or len(said) < (after := at + 1 + int.from_bytes(said[at + 1 : at + 5], "big")):
                more = os.read(self._socket, _READ_BYTES)
                if not more:
                    raise RuntimeError("the server closed the connection")
                said += more
            kind = said[at : at + 1]
            if kind == b"E":
                raise RuntimeError(said[at + 5 : after].replace(b"\0", b" ").decode(errors="replace").strip())
            if kind == b"Z":
                return said
            at = after


def int32s(said: bytes) -> list[int]:
    """The first column of each row of an answer, integers of four bytes."""
    found, at = [], 0
    while at < len(said):
        if said[at : at + 1] == b"D":
            found.append(int.from_bytes(said[at + 11 : at + 15], "big", signed=True))
        at += 1 + int.from_bytes(said[at + 1 : at + 5], "big")
    return found


def _send_all(socket: int, message: bytes) -> None:
    sent = os.write(socket, message)
    while sent < len(message):
        sent += os.write(socket, message[sent:])


def _bind_form(name: bytes, count: int) -> bytes:
    """Bind the unnamed portal to texts, execute it, synchronize: `PostgreSQL: Message Formats`."""
    # A parameter is ten digits.
    place = (10).to_bytes(4, "big") + b"%010d"
    head = b"\0" + name + b"\0" + bytes(2) + count.to_bytes(2, "big")
    length = 4 + len(head) + 14 * count + 2
    return b"B" + length.to_bytes(4, "big") + head + place * count + bytes(2) + _EXECUTE_AND_SYNC


def _checked(result: Any) -> Any:
    if result.status > _GOOD_MAX:
        raise RuntimeError(result.error_message.decode(errors="replace").strip())
    return result


class MysqlWire:
    """A connection to MariaDB or MySQL. PyMySQL prepares no statements; they go past it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        import pymysql

        self._connection = pymysql.connect(**options, autocommit=True)

    def execute(self, statement: bytes) -> None:
        import pymysql

        try:
            self._connection.query(statement)
        except pymysql.OperationalError as error:
            raise DeadlockError(str(error)) if error.args[0] == _DEADLOCK else error from None

    def prepared(self, statement: str, kinds: Sequence[int]) -> MysqlPrepared:
        """A statement with parameters ?, each of one of the kinds above."""
        socket = self._connection._sock
        _send(socket, _PREPARE + statement.encode())
        packets = _packets(socket)
        said = _checked_packet(next(packets))
        columns, parameters = (int.from_bytes(said[at : at + 2], "little") for at in (5, 7))
        # Columns and parameters are described, and each description has an end.
        for _ in range(sum(count + 1 for count in (columns, parameters) if count)):
            next(packets)
        no_nulls = bytes((len(kinds) + 7) // 8)
        types = b"".join(kind.to_bytes(2, "little") for kind in kinds)
        return MysqlPrepared(socket, _EXECUTE + said[1:5] + _ONCE + no_nulls + b"\1" + types)

    def numbers(self, statement: str) -> MysqlNumbers:
        text, places = re.subn(r"\$\d+", "?", statement)
        return MysqlNumbers(self.prepared(text, [WHOLE] * places), places)


@dataclass(frozen=True)
class MysqlPrepared:
    socket: Any
    head: bytes
    """The message that executes it, without the values."""

    def rows(self, values: bytes) -> list[bytes]:
        """The rows of the answer in MySQL's format.

        A row is a zero, a bit for each null column, and the columns.
        """
        _send(self.socket, self.head + values)
        packets = _packets(self.socket)
        # What is done; or how many columns, the columns, an end, the rows, an end.
        first = _checked_packet(next(packets))
        if first[0] == _DONE:
            return []
        for _ in range(first[0] + 1):
            next(packets)
        found = []
        while not _ends(packet := next(packets)):
            found.append(packet)
        _checked_packet(packet)
        return found


class MysqlNumbers:
    """A prepared statement whose parameters are whole numbers.

    Rows of answers are counted, not decoded.
    """

    def __init__(self, prepared: MysqlPrepared, places: int) -> None:
        self._socket = prepared.socket
        length = (len(prepared.head) + 8 * places).to_bytes(3, "little")
        self._head = length + b"\0" + prepared.head
        self._form = struct.Struct(f"<{places}q")
        # The first packets of an answer with rows: the number of columns and their names. Always
        # the same.
        self._columns: bytes | None = None

    def ask(self, numbers: tuple[int, ...]) -> int:
        self._socket.sendall(self._head + self._form.pack(*numbers))
        said = self._more(b"")
        columns = self._columns
        if columns is None or not said.startswith(columns):
            said, columns = self._learned(said)
        rows, at = 0, len(columns)
        while True:
            while len(said) < at + 5 or len(said) < (after := at + 4 + int.from_bytes(said[at : at + 3], "little")):
                said = self._more(said)
            first = said[at + 4]
            if first == _ERROR or (first == _END and after - at <= 4 + _END_BYTES_MAX):
                _checked_packet(said[at + 4 : after])
                return rows
            rows, at = rows + 1, after

    def _more(self, said: bytes) -> bytes:
        more = self._socket.recv(_READ_BYTES)
        if not more:
            raise RuntimeError("the server closed the connection")
        return said + bytes(more)

    def _learned(self, said: bytes) -> tuple[bytes, bytes]:
        """Stores how an answer begins; returns the answer, as far as it was read, and that
        beginning.
        """
        at, left = 0, 1
        while left:
            while len(said) < at + 5 or len(said) < at + 4 + int.from_bytes(said[at : at + 3], "little"):
                said = self._more(said)
            after = at + 4 + int.from_bytes(said[at : at + 3], "little")
            packet = _checked_packet(said[at + 4 : after])
            # After the count the columns and an end.
            left = packet[0] + 1 if at == 0 else left - 1
            at = after
        self._columns = said[:at]
        return said, self._columns


def _send(socket: Any, message: bytes) -> None:
    socket.sendall(len(message).to_bytes(3, "little") + b"\0" + message)


def _packets(socket: Any) -> Iterator[bytes]:
    """The packets of the server, without end."""
    said, at = b"", 0
    while True:
        length = int.from_bytes(said[at : at + 3], "little")
        if len(said) < at + 4 or len(said) < at + 4 + length:
            more = socket.recv(_READ_BYTES)
            if not more:
                raise RuntimeError("the server closed the connection")
            said = said[at:] + more
            at = 0
            continue
        yield said[at + 4 : at + 4 + length]
        at += 4 + length


def _ends(packet: bytes) -> bool:
    return packet[0] == _ERROR or (packet[0] == _END and len(packet) <= _END_BYTES_MAX)


def _checked_packet(packet: bytes) -> bytes:
    if packet[0] == _ERROR:
        kind = DeadlockError if int.from_bytes(packet[1:3], "little") == _DEADLOCK else RuntimeError
        raise kind(packet[3:].decode(errors="replace"))
    return packet
