"""Fashion-MNIST: 60,000 + 10,000 pictures of 28 x 28 pixels, as vectors of 784.

The four files come from `PAGEHOP_FASHION_MNIST`, or from Debian's package dataset-fashion-mnist:
installed, else unpacked into the data folder, which needs no rights.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

PACKAGE = "dataset-fashion-mnist"
VARIABLE = "PAGEHOP_FASHION_MNIST"
_INSTALLED = Path("/usr/share/datasets/fashion-mnist")
# Checksums of the unpacked contents: packed files may differ.
_CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
}


class NoData(Exception):  # noqa: N818
    """The pictures are not here and cannot be fetched."""


def load(data: Path) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Base rows and queries; pixel values from 0 to 255."""
    folder = _folder(data)
    base, queries = (_read(folder / name, checksum) for name, checksum in _CHECKSUMS.items())
    return base, queries


def _folder(data: Path) -> Path:
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    unpacked = data / PACKAGE
    for folder in [_INSTALLED, unpacked]:
        if all((folder / name).exists() for name in _CHECKSUMS):
            return folder
    _unpack(unpacked)
    return unpacked


def _unpack(target: Path) -> None:
    """Downloads the Debian package and takes its files, without installing it."""
    way_out = f"install Debian's package {PACKAGE}, or set {VARIABLE} to a folder with {', '.join(_CHECKSUMS)}"
    for tool in ["apt-get", "dpkg-deb"]:
        if shutil.which(tool) is None:
            raise NoData(f"Fashion-MNIST is not here and there is no {tool}: {way_out}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        try:
            subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=scratch, check=True, capture_output=True)
            archive = next(Path(scratch).glob("*.deb"))
            subprocess.run(["dpkg-deb", "-x", archive, f"{scratch}/x"], check=True, capture_output=True)
        except (subprocess.CalledProcessError, StopIteration) as error:
            said = getattr(error, "stderr", b"").decode(errors="replace").strip()
            raise NoData(f"Debian's package {PACKAGE} could not be downloaded ({said}): {way_out}") from error
        shutil.move(f"{scratch}/x{_INSTALLED}", target)


def _read(path: Path, checksum: str) -> npt.NDArray[np.float32]:
    try:
        with gzip.open(path) as file:
            content = file.read()
    except OSError as error:
        raise NoData(f"cannot read {path}: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise NoData(f"{path} is not the file of Fashion-MNIST: its checksum differs")
    pixels = np.frombuffer(content, dtype=np.uint8, offset=16)
    return pixels.reshape(-1, 784).astype(np.float32)
