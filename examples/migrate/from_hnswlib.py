"""Copies an index of hnswlib to a Pagehop index: the labels become ids, vectors and metric stay.

    python from_hnswlib.py old.bin new.pagehop --space cosine

hnswlib's file does not record its space, so `--space` gives it. hnswlib loads the old index into
memory; its vectors are then read in chunks.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hnswlib
import numpy as np

import pagehop

SPACES = ("l2", "ip", "cosine")
"""Pagehop's metrics have the same names."""
_ROWS_AT_ONCE = 10_000
_DIM_MAX = 4096


def dimensions(path: Path) -> int:
    """The dimensions of the vectors in a file of hnswlib, which does not itself check the given
    number.

    The file begins with numbers of 8 bytes. The fourth is the size of an element. The fifth is the
    offset of its label, the last field of an element. The sixth is the offset of its vector, which
    ends where the label begins.
    """
    with path.open("rb") as file:
        head = file.read(48)
    if len(head) == 48:
        _, _, _, size, label, vector = struct.unpack("<6Q", head)
        dim, rest = divmod(label - vector, 4)
        if rest == 0 and 1 <= dim <= _DIM_MAX and size == label + 8:
            return int(dim)
    raise ValueError(f"{path} is not a file of hnswlib with vectors of at most {_DIM_MAX} dimensions")


class HnswlibSource:
    """The vectors of an index of hnswlib, in ascending order of labels, without deleted ones."""

    def __init__(self, index: Any) -> None:
        self.dim: int = index.dim
        self._index = index
        self._labels = np.sort(np.array(index.get_ids_list(), np.uint64))
        self.deleted = 0

    def chunks(self) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        self.deleted = 0
        for start in range(0, len(self._labels), _ROWS_AT_ONCE):
            labels = self._labels[start : start + _ROWS_AT_ONCE]
            try:
                yield labels, np.asarray(self._index.get_items(labels), np.float32)
            except RuntimeError:
                # hnswlib lists the labels of deleted elements, but does not return their vectors.
                found = [(label, vector) for label in labels if (vector := self._vector(label)) is not None]
                self.deleted += len(labels) - len(found)
                if found:
                    yield np.array([label for label, _ in found]), np.array([vector for _, vector in found])

    def _vector(self, label: np.uint64) -> np.ndarray[Any, Any] | None:
        try:
            found: np.ndarray[Any, Any] = np.asarray(self._index.get_items([label]), np.float32)[0]
        except RuntimeError:
            return None
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a file that hnswlib's save_index has written")
    parser.add_argument("new", type=Path, help="the index to build")
    parser.add_argument("--space", choices=SPACES, required=True, help="the space that the index was made with")
    parser.add_argument("--overwrite", action="store_true", help="replace the file NEW")
    asked = parser.parse_args(arguments)
    try:
        old = hnswlib.Index(space=asked.space, dim=dimensions(asked.old))
        old.load_index(str(asked.old))
        source = HnswlibSource(old)
        with pagehop.build(asked.new, source, metric=asked.space, overwrite=asked.overwrite) as new:
            print(f"{len(new)} rows in {asked.new}; {source.deleted} deleted elements left out")
    except (OSError, ValueError, RuntimeError, pagehop.Error) as error:
        print(f"from_hnswlib: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
