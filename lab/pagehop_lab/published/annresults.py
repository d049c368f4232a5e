"""ann-benchmarks' result files: one HDF5 file for each configuration, with every answer.

Recall is counted as that benchmark counts it: answers no farther than the k-th true neighbor plus
0.001. That takes the set's own file, or the count that its plotting script left in the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.published.foreign import Foreign, FormatError, number, share

NAME = "ann-benchmarks"
RECALL_OF = "the same requests, by distance threshold"
_BEYOND = 1e-3


def read(path: Path, truth: Path | None = None) -> list[Foreign]:
    """The one point of a file; `truth` is the set's file.

    FormatError for other files or without a recall.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            said = {name: _plain(value) for name, value in file.attrs.items()}
            found = np.asarray(file["distances"])
            count = int(number(said.get("count"), "count", path, 1))
            search_s = number(said.get("best_search_time"), "best_search_time", path)
            recall = share(_recall(path, file, str(said.get("dataset") or "unknown"), found, count, truth), path)
    except (OSError, KeyError) as error:
        raise FormatError(f"{path.name}: no result file of {NAME}: {error}") from None
    if search_s == 0:
        raise FormatError(f"{path.name}: best_search_time is 0")
    batch = (("batch", len(found)),) if said.get("batch_mode") else ()
    name = str(said.get("name") or path.stem)
    return [
        Foreign(
            NAME, path.name, str(said.get("dataset") or "unknown"), str(said.get("algo") or name.partition("(")[0]),
            (), (("setting", name), *batch), count, recall, RECALL_OF, 1 / search_s,
            more={"build_s": said.get("build_time"), "index_kb": said.get("index_size")},
        )
    ]  # fmt: skip


def _recall(path: Path, file: Any, dataset: str, found: npt.NDArray[Any], count: int, truth: Path | None) -> float:
    if truth is None:
        try:
            return number(_plain(file["metrics"]["knn"].attrs["mean"]), "metrics/knn/mean", path)
        except KeyError:
            raise FormatError(
                f"{path.name}: it has no recall, only answers: name the set's file with --truth, or run its plot.py"
            ) from None
    import h5py

    # Sets of one shape have distances that fit, and would give a recall without a meaning.
    if truth.stem != dataset:
        raise FormatError(
            f"{path.name}: its answers are of the set {dataset}, and --truth is {truth.name}: "
            f"name {dataset}.hdf5, or import results of one set at a time"
        )
    with h5py.File(truth, "r") as known:
        true = np.asarray(known["distances"])
    if true.shape[0] != found.shape[0] or true.shape[1] < count:
        raise FormatError(f"{truth.name}: {true.shape} true distances do not fit {found.shape} answers of {path.name}")
    within = found[:, :count] <= true[:, count - 1 : count] + _BEYOND
    return float(within.sum() / (len(found) * count))


def _plain(value: Any) -> Any:
    """The value of an attribute as a Python object."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.item() if isinstance(value, np.generic) else value
