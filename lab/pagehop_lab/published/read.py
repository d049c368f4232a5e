"""Any file of results of another benchmark, by its ending."""

from __future__ import annotations

import re
from pathlib import Path

from pagehop_lab.published import annbench, annresults, vectordbbench, vibe
from pagehop_lab.published.foreign import Foreign, FormatError

_PLOT_K = 10


def read(path: Path, truth: Path | None = None) -> list[Foreign]:
    """The points of a file. Raises FormatError if it is of no known kind.

    `truth` is the set's file. Only files with answers need it.
    """
    if not path.is_file():
        raise FormatError(f"{path} is not a file")
    if path.suffix in (".hdf5", ".h5"):
        return annresults.read(path, truth)
    if path.suffix == ".json":
        return vectordbbench.read(path)
    if path.suffix == ".parquet":
        return vibe.read(path)
    if path.suffix == ".plot":
        # Their names have the number of sessions, if it is not one.
        sessions = re.search(r"\.sessions(\d+)\.", path.name)
        return [
            Foreign(
                annresults.NAME, path.name, one.dataset, one.engine, one.build, one.search, _PLOT_K, one.recall,
                annresults.RECALL_OF, one.qps, one.sessions,
            )
            for one in annbench.read_plot(path, int(sessions[1]) if sessions else 1)
        ]  # fmt: skip
    raise FormatError(
        f"{path.name}: known are results of ann-benchmarks (.hdf5), what it plots (.plot), of VectorDBBench (.json), "
        "and the summary of VIBE (.parquet)"
    )
