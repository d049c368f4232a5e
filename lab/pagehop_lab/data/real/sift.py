"""`sift-128`: SIFT descriptors of drawings and photographs in Debian packages.

Components are numbers from 0 to 255, and descriptors are kept as bytes for each package. Drawings
repeat themselves, so equal descriptors are taken once. Queries come from images that no row comes
from.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.data.errors import DataError
from pagehop_lab.data.real import sources
from pagehop_lab.data.real.files import Column, Content
from pagehop_lab.data.real.sources import IMAGES, Say

ROWS = 1_000_000
QUERIES = 5000
DIM = 128

_PICTURES = (".png", ".jpg", ".jpeg")
_LONGEST_SIDE = 1024
"""Larger images are made smaller, pixels."""
_MOST_OF_AN_IMAGE = 2000
"""Descriptors of an image, the most pronounced first."""
_SHARE_FOR_QUERIES = 0.05
"""Share of the images that queries are taken from."""
_AT_ONCE = 65536

Bytes = npt.NDArray[np.uint8]


def descriptors(data: Path, seed: int, rows: int, say: Say, packages: Sequence[str] = IMAGES) -> Content:
    """The set. Descriptors that were read from the packages are kept in a folder of `data`."""
    files = [sources.read_once(package, data / "images", ".npz", _read_package, say) for package in packages]
    parts = [np.load(file) for file in files]
    vectors = np.concatenate([part["descriptors"] for part in parts])
    package = np.repeat(np.arange(len(parts)), [len(part["image"]) for part in parts]).astype(np.uint8)
    firsts = np.cumsum([0, *(int(part["images"]) for part in parts)])
    image = np.concatenate([part["image"] + first for part, first in zip(parts, firsts, strict=False)]).astype(np.int32)
    size = np.concatenate([part["size"] for part in parts])
    kept = _distinct(vectors)
    chosen, queries = _split(image[kept], np.random.default_rng(seed))
    chosen, queries = kept[chosen], kept[queries]
    if not 0 < rows <= len(chosen):
        raise DataError(f"a set of {rows:,} rows cannot be made: there are {len(chosen):,} descriptors")
    chosen = chosen[:rows]
    columns = {
        "package": Column(package[chosen], list(packages)),
        "image": Column(image[chosen]),
        "size": Column(size[chosen]),
    }
    versions = {name: file.stem.partition("_")[2] for name, file in zip(packages, files, strict=True)}
    blocks = _as_floats(vectors, chosen)
    return Content(
        rows, blocks, vectors[queries].astype(np.float32), ("l2",), {"packages": versions, "seed": seed}, columns
    )


def _distinct(vectors: Bytes) -> npt.NDArray[np.int64]:
    """The position at which each nonzero descriptor occurs first, in order."""
    whole = np.ascontiguousarray(vectors).view(np.dtype((np.void, DIM))).ravel()
    first = np.unique(whole, return_index=True)[1]
    found: npt.NDArray[np.int64] = np.sort(first[vectors[first].any(axis=1)])
    return found


def _split(image: npt.NDArray[np.int32], random: np.random.Generator) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Rows and queries, in a seeded order; no image has both."""
    images = np.unique(image)
    asked = random.permutation(images)[: max(1, round(_SHARE_FOR_QUERIES * len(images)))]
    is_query = np.isin(image, asked)
    return random.permutation(np.flatnonzero(~is_query)), random.permutation(np.flatnonzero(is_query))[:QUERIES]


def _as_floats(vectors: Bytes, chosen: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.float32]]:
    for start in range(0, len(chosen), _AT_ONCE):
        yield vectors[chosen[start : start + _AT_ONCE]].astype(np.float32)


def _read_package(folder: Path, written: Path) -> None:
    """Writes the descriptors of all images of an unpacked package, image after image."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _PICTURES and not path.is_symlink())
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("spawn").Pool(cores, _one_thread) as pool:
        found = pool.map(_read_image, paths, chunksize=16)
    image = np.repeat(np.arange(len(found)), [len(size) for _, size in found])
    with written.open("wb") as file:
        np.savez(
            file,
            descriptors=np.concatenate([vectors for vectors, _ in found]),
            size=np.concatenate([size for _, size in found]),
            image=image.astype(np.int32),
            images=len(paths),
        )


def _one_thread() -> None:
    import cv2

    cv2.setNumThreads(1)


def _read_image(path: Path) -> tuple[Bytes, npt.NDArray[np.float32]]:
    """Descriptors of an image, and the diameter of what each describes, pixels."""
    import cv2

    nothing = np.empty((0, DIM), np.uint8), np.empty(0, np.float32)
    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        return nothing
    points, vectors = cv2.SIFT_create(nfeatures=_MOST_OF_AN_IMAGE).detectAndCompute(_gray(pixels), None)
    if vectors is None:
        return nothing
    return vectors.astype(np.uint8), np.array([point.size for point in points], dtype=np.float32)


def _gray(pixels: Any) -> Bytes:
    """The image in gray, on white where it is transparent, and no larger than the longest side."""
    import cv2

    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        opaque = pixels[:, :, 3:].astype(np.float32) / 255
        pixels = (pixels[:, :, :3] * opaque + 255 * (1 - opaque)).astype(np.uint8)
    if pixels.ndim == 3:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
    shrunk = _LONGEST_SIDE / max(pixels.shape)
    if shrunk < 1:
        pixels = cv2.resize(pixels, None, fx=shrunk, fy=shrunk, interpolation=cv2.INTER_AREA)
    found: Bytes = pixels
    return found
