"""Documents as BSON, in a server that speaks MongoDB's protocol.

pymongo connects, logs in and loads documents. Repeated queries bypass it on the same connection, as
a message that is encoded once and lacks only the key. Keys are ObjectIds, and so is y. A query has
two conditions, which mongod evaluates together. FerretDB pushes a single condition on an ObjectId
or a text key down to its backend, and otherwise reads every document whole.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from devserver import mongo
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.suites.attributes.cases import names, wanted_name
from pagehop_lab.suites.attributes.records import OutOfLine
from pagehop_lab.suites.attributes.sql_documents import POOL_RANDOM, TABLE, VALUES

_BATCH_BYTES = 1 << 20
_ATTRIBUTE_BYTES = 12
# Of the protocol: the head of a message, its one kind, no flags, and that one document comes.
_HEAD = struct.Struct("<iiii")
_MESSAGE, _ONE_DOCUMENT = 2013, bytes(5)
_READ_BYTES = 1 << 16
_KEY_BYTES = 12
# Placeholder for the key in a message.
_PLACE = bytes(range(0xF0, 0xF0 + _KEY_BYTES))
# The words by which mongod reports the use of an index, in three ways, and the SQLite below
# FerretDB.
_BY_KEY = ('"IXSCAN"', '"IDHACK"', '"EXPRESS', " USING INDEX ")


def of(server: Any, _model: str, count: int, layout: str, rows: int, seed: int) -> BsonDocuments:
    """Documents of a server that speaks MongoDB's protocol."""
    return BsonDocuments(server, Collection(server.url(), count, layout, rows, seed))


@dataclass(frozen=True)
class BsonDocuments:
    """A collection of documents in a server."""

    server: Any
    rows: Collection

    def create(self) -> None:
        """A server creates the collection with its first document."""

    def fill(self) -> None:
        import pymongo.errors

        try:
            with mongo.connected(self.rows.url) as client:
                for batch in self.rows.batches():
                    client.get_default_database()[TABLE].insert_many(batch)
        except pymongo.errors.PyMongoError as error:
            raise MeasureError(f"the documents could not be loaded: {error}") from None

    def plan(self) -> tuple[str, bool]:
        said = json.dumps(self.server.command("explain", self.rows.question(), verbosity="queryPlanner"), default=str)
        return said, by_key(said)

    def out_of_line(self) -> OutOfLine:
        return {}

    def drop(self) -> None:
        self.server.command("drop", TABLE)


@dataclass(frozen=True)
class Collection:
    """The collection, for clients."""

    url: str
    count: int
    layout: str
    rows: int
    seed: int

    @property
    def kept(self) -> int:
        """Documents of an answer."""
        return 1

    def open(self) -> CollectionConnection:
        return CollectionConnection(self)

    def question(self, key: bytes = _PLACE) -> dict[str, Any]:
        """The message of a query for the document with this key and this y."""
        from bson import ObjectId

        name, wanted = wanted_name(self.layout), ObjectId(key)
        stages = [{"$match": {"_id": wanted}}, {"$match": {name: wanted}}, {"$project": {"_id": 1, name: 1}}]
        return {"aggregate": TABLE, "pipeline": stages, "cursor": {}}

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """All documents, about a megabyte at once."""
        from bson import ObjectId

        random = np.random.default_rng(self.seed)
        listed, wanted = names(self.count, self.layout), wanted_name(self.layout)
        at_once = max(_BATCH_BYTES // (_ATTRIBUTE_BYTES * len(listed)), 1)
        for first in range(0, self.rows, at_once):
            batch = []
            for key in range(first, min(first + at_once, self.rows)):
                values = random.integers(VALUES, size=len(listed)).tolist()
                oid = ObjectId(_key(key))
                batch.append({"_id": oid, **dict(zip(listed, values, strict=True)), wanted: oid})
            yield batch


class CollectionConnection:
    """A client's connection: it only asks."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._client = mongo.connected(collection.url)
        self._connection = mongo.lent(self._client)

    def insert(self, first: int, count: int) -> None:
        raise NotImplementedError("documents are there before they are asked for")

    def delete(self, first: int, count: int) -> None:
        raise NotImplementedError("documents stay while they are asked for")

    def ask(self, number: int, _low: int, _high: int) -> list[int]:
        from bson import decode

        parts, keys = self._asking
        socket = self._connection.conn.get_conn
        socket.sendall(keys[number % POOL_RANDOM].join(parts))
        said = socket.recv(_READ_BYTES)
        while len(said) < _HEAD.size or len(said) < _HEAD.unpack_from(said)[0]:
            more = socket.recv(_READ_BYTES)
            if not more:
                raise RuntimeError("the server closed the connection")
            said += more
        answer = decode(said[_HEAD.size + len(_ONE_DOCUMENT) :])
        if not answer.get("ok"):
            raise RuntimeError(str(answer.get("errmsg", answer)))
        return [len(answer["cursor"]["firstBatch"])]

    @cached_property
    def _asking(self) -> tuple[list[bytes], list[bytes]]:
        """The message between its keys, and the keys."""
        from bson import encode

        asked = encode({**self._collection.question(), "$db": self._client.get_default_database().name})
        whole = _HEAD.pack(_HEAD.size + len(_ONE_DOCUMENT) + len(asked), 1, 0, _MESSAGE) + _ONE_DOCUMENT + asked
        drawn = np.random.default_rng(self._collection.seed + 1).integers(self._collection.rows, size=POOL_RANDOM)
        return whole.split(_PLACE), [_key(key) for key in drawn.tolist()]


def by_key(plan: str) -> bool:
    """Whether a server reports that it uses the index of its keys."""
    return any(one in plan for one in _BY_KEY)


def _key(key: int) -> bytes:
    return key.to_bytes(_KEY_BYTES, "big")
