"""Ingestion: reads new and changed files of a folder, and removes deleted ones from the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from debian_search.model import Embedder
from debian_search.passages import Passage, files, modified, passages
from debian_search.store import Store

PASSAGES_AT_ONCE = 256


@dataclass(frozen=True)
class Ingested:
    """The result of an ingestion: files read, passages added, files removed."""

    files: int
    passages: int
    removed: int


def ingest(folder: Path, store: Store, embed: Embedder, say: Callable[[str], None]) -> Ingested:
    """Updates `store` to the files of `folder`. After an interruption, the next call continues."""
    known = store.known()
    there = list(files(folder))
    gone = sorted(set(known) - set(there))
    changed = [path for path in there if known.get(path) != modified(folder, path)]
    if gone:
        store.replace(gone, [], embed([]))
    done, found = 0, 0
    paths: list[str] = []
    batch: list[Passage] = []
    for path in changed:
        paths.append(path)
        batch += passages(folder, path)
        if len(batch) >= PASSAGES_AT_ONCE or path == changed[-1]:
            store.replace(paths, batch, embed([f"{passage.title}\n{passage.text}" for passage in batch]))
            done, found = done + len(paths), found + len(batch)
            say(f"{done} of {len(changed)} files, {found} passages")
            paths, batch = [], []
    # Also if nothing has changed: the previous ingestion may have been interrupted before this
    # call.
    if there or gone:
        store.finish()
    return Ingested(len(changed), found, len(gone))
