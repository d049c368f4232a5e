r"""Copies a collection of Chroma to a Pagehop index with the documents beside it.

    python from_chroma.py chroma_folder my_collection new.pagehop \
        --column year:int --column topic:text

The new index has the ids, vectors, documents and metadata of the collection, and its metric.
`--column` names metadata to filter by. `pagehop_documents.Documents` and the vector stores of
LangChain and LlamaIndex open the result.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import chromadb
from chromadb.errors import NotFoundError

import pagehop
from pagehop_documents import Documents

_ROWS_AT_ONCE = 5_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of Chroma's PersistentClient")
    parser.add_argument("collection")
    parser.add_argument("new", type=Path, help="the index to make")
    parser.add_argument(
        "--column", metavar="NAME:KIND", type=_column, action="append", default=[], help="metadata to filter by"
    )
    asked = parser.parse_args(arguments)
    try:
        done = migrate(asked.folder, asked.collection, asked.new, dict(asked.column))
    except (OSError, ValueError, NotFoundError, pagehop.Error) as error:
        print(f"from_chroma: {error}", file=sys.stderr)
        return 1
    print(f"{done} documents in {asked.new}")
    return 0


def _column(given: str) -> tuple[str, str]:
    name, colon, kind = given.rpartition(":")
    if not name or not colon or not kind:
        raise argparse.ArgumentTypeError(f"{given!r} is not a column with its kind, such as year:int")
    return name, kind


def migrate(folder: Path, collection: str, new: Path, columns: dict[str, str]) -> int:
    """Copies a collection to a new index, and returns its number of documents."""
    if not (folder / "chroma.sqlite3").exists():
        raise FileNotFoundError(f"{folder} is not a folder of Chroma: it has no chroma.sqlite3")
    if new.exists():
        raise FileExistsError(f"{new} is there already")
    client = chromadb.PersistentClient(folder, settings=chromadb.Settings(anonymized_telemetry=False))
    old = client.get_collection(collection)
    metric = (old.configuration.get("hnsw") or {}).get("space", "l2")
    with Documents(new, metric=metric, columns=columns) as documents:
        include = ["embeddings", "documents", "metadatas"]
        done = 0
        while (found := old.get(limit=_ROWS_AT_ONCE, offset=done, include=include))["ids"]:
            texts = [text or "" for text in found["documents"]]
            documents.add(found["ids"], found["embeddings"], texts, found["metadatas"])
            done += len(found["ids"])
        if documents.index is not None:
            documents.index.calibrate()
        return len(documents)


if __name__ == "__main__":
    sys.exit(main())
