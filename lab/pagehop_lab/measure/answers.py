"""Every request of a measurement with its answer, and their recall, latency and missing rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.analysis.recalls import Recalls, recalls
from pagehop_lab.analysis.records import PointRecord
from pagehop_lab.analysis.uncertainty import bootstrap_mean
from pagehop_lab.data import Dataset

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """Requests that were answered."""

    query: Int64
    """Number of the query of each request, shape [requests]."""
    latency_ns: Int64
    """The same shape."""
    ids: Int64
    """Shape [requests, k], -1 if nothing was returned."""

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For the raw file, as narrow as they are."""
        return {
            "query": self.query.astype(np.int32),
            "latency_ns": self.latency_ns,
            "ids": self.ids.astype(np.int32),
        }


def summary(answers: Answers, dataset: Dataset, k: int) -> PointRecord:
    """The raw figures of some answers; recall is None if there are no answers."""
    count = len(answers.query)
    told: PointRecord = {
        "rows_short_count": _short(answers.ids),
        "rows_unknown_count": int((answers.ids >= dataset.facts.rows).sum()),
        "rows_left_out_count": _left_out(answers.ids, dataset),
        "latency_us": _latency(answers.latency_ns),
        "queries_asked": len(np.unique(answers.query)),
        "answers_changed_count": 0,
        "recall": None,
        "recall_interval": None,
    }
    if not count:
        return told
    first, position = np.unique(answers.query, return_index=True)
    at = np.searchsorted(first, answers.query)
    differs = (answers.ids != answers.ids[position[at]]).any(axis=1)
    told["answers_changed_count"] = len(np.unique(answers.query[differs]))
    # Most engines answer a query the same each time: one pass is then enough.
    kept = np.arange(count) if differs.any() else position
    found = _recalls(answers, kept, dataset, k)
    told["recall"] = found.means()
    told["recall_interval"] = {
        name: [interval.low, interval.high]
        for name, samples in [
            ("by_id", found.by_id), ("by_threshold", found.by_threshold), ("with_ties", found.with_ties)
        ]
        for interval in [bootstrap_mean(_by_query(answers.query[kept], samples))]
    }  # fmt: skip
    return told


def _left_out(ids: Int64, dataset: Dataset) -> int:
    """Number of returned rows that do not meet the filter."""
    if dataset.kept is None:
        return 0
    known = ids[(ids >= 0) & (ids < len(dataset.kept))]
    return int((~dataset.kept[known]).sum())


def _recalls(answers: Answers, kept: Int64, dataset: Dataset, k: int) -> Recalls:
    query = answers.query[kept]
    return recalls(
        answers.ids[kept], dataset.truth_ids[query], dataset.truth_distances[query], dataset.base,
        dataset.queries[query], dataset.facts.metric, min(k, dataset.truth_ids.shape[1]),
    )  # fmt: skip


def _by_query(query: Int64, samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """One figure for each query: answers to the same query are not independent."""
    return np.asarray(np.bincount(query, samples)[np.unique(query)] / np.bincount(query)[np.unique(query)])


def _short(ids: Int64) -> int:
    """Number of answers with fewer different rows than requested."""
    ordered = np.sort(ids, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) if ids.shape[1] > 1 else np.zeros(len(ids), dtype=bool)
    return int(((ids < 0).any(axis=1) | twice).sum())


def _latency(latency_ns: Int64) -> dict[str, float] | None:
    if not len(latency_ns):
        return None
    p50, p95, p99 = np.percentile(latency_ns, [50, 95, 99]) / 1e3
    return {
        "mean": float(latency_ns.mean() / 1e3), "p50": float(p50), "p95": float(p95), "p99": float(p99),
        "max": float(latency_ns.max() / 1e3), "stdev": float(latency_ns.std() / 1e3),
    }  # fmt: skip
