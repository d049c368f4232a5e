"""VectorDBBench's result files: `result_DATE_LABEL_DB.json`, with a list of cases.

A case has one recall, of the queries that one client asked one after the other, and throughput by
the number of concurrent clients, of other requests. The best throughput counts, as in that
benchmark, with its number of clients. Cases that failed, and cases that measure capacity, have
neither recall nor throughput.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pagehop_lab.analysis.points import Options
from pagehop_lab.published.foreign import Foreign, FormatError, number, share

NAME = "VectorDBBench"
RECALL_OF = "one client, other requests than those of QPS"
_DONE = ":)"
# Sets by the number of the case, and the share of the rows that its filter leaves.
_CASES: Mapping[int, tuple[str, float]] = {
    3: ("laion-768-100m", 1.0), 4: ("cohere-768-10m", 1.0), 5: ("cohere-768-1m", 1.0),
    6: ("cohere-768-10m", 0.99), 7: ("cohere-768-1m", 0.99), 8: ("cohere-768-10m", 0.01), 9: ("cohere-768-1m", 0.01),
    10: ("openai-1536-500k", 1.0), 11: ("openai-1536-5m", 1.0), 12: ("openai-1536-500k", 0.99),
    13: ("openai-1536-5m", 0.99), 14: ("openai-1536-500k", 0.01), 15: ("openai-1536-5m", 0.01),
    50: ("openai-1536-50k", 1.0),
}  # fmt: skip
# The same sets as newer cases name them.
_NAMES = {"Medium Cohere (768dim, 1M)": "cohere-768-1m", "Large Cohere (768dim, 10M)": "cohere-768-10m"}
_K = 100
# Options of a search; all others that it names are those of the index.
_SEARCH = (
    "ef", "ef_search", "efSearch", "hnsw_ef_search", "num_candidates", "nprobe", "probes", "search_list",
    "query_search_list_size", "reranking_k", "oversample_ratio", "exploration_factor",
)  # fmt: skip


def read(path: Path) -> list[Foreign]:
    """The points of a file, in its order. FormatError if it is none of these."""
    try:
        content = json.loads(path.read_text())
        results = content["results"]
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{path.name}: no result file of {NAME}, which is JSON with a list of results") from None
    if not isinstance(results, list):
        raise FormatError(f"{path.name}: results must be a list")
    return [point for result in results for point in _points(path, result)]


def _points(path: Path, result: Any) -> Iterator[Foreign]:
    metrics, task = _table(path, result, "metrics"), _table(path, result, "task_config")
    case, options = _table(path, task, "case_config"), task.get("db_case_config") or {}
    engine, label = str(task.get("db")), str((task.get("db_config") or {}).get("db_label") or "")
    if result.get("label") != _DONE or not metrics.get("qps") or not metrics.get("recall"):
        return
    dataset, matching = _set_of(path, case)
    qps, recall = (number(metrics[name], name, path) for name in ("qps", "recall"))
    share(recall, path)
    build, search = _split(options)
    yield Foreign(
        NAME, path.name, dataset, " ".join(filter(None, [engine, label])), build, search,
        int(number(case.get("k") or _K, "k", path, 1)), recall, RECALL_OF, qps, _clients(path, metrics, qps), matching,
        {"load_s": metrics.get("load_duration"), "p99_ms_of_one_client": _ms(metrics.get("serial_latency_p99"))},
    )  # fmt: skip


def _set_of(path: Path, case: Mapping[str, Any]) -> tuple[str, float]:
    """The set of a case, and the share of the rows that its filter leaves."""
    number_of, more = case.get("case_id"), case.get("custom_case") or {}
    if isinstance(number_of, int) and number_of in _CASES:
        return _CASES[number_of]
    named = str(more.get("dataset_with_size_type") or f"case-{number_of}")
    matching = number(more.get("label_percentage", 1.0), "label_percentage", path)
    if "filter_rate" in more:
        matching = 1 - number(more["filter_rate"], "filter_rate", path)
    return _NAMES.get(named, named), round(matching, 6)


def _table(path: Path, of: Any, name: str) -> Mapping[str, Any]:
    found = of.get(name) if isinstance(of, dict) else None
    if not isinstance(found, dict):
        raise FormatError(f"{path.name}: a result has no {name}, which is a table")
    return found


def _clients(path: Path, metrics: Mapping[str, Any], qps: float) -> int:
    """The fewest clients that had the throughput; 1 where the file does not say."""
    counts, rates = metrics.get("conc_num_list") or [], metrics.get("conc_qps_list") or []
    if len(counts) != len(rates):
        raise FormatError(f"{path.name}: {len(counts)} numbers of clients have {len(rates)} rates")
    return next((int(count) for count, rate in zip(counts, rates, strict=True) if rate >= qps), 1)


def _split(options: Mapping[str, Any]) -> tuple[Options, Options]:
    """Options of the index and of the search; lists and what is not set are left out."""
    kept = [(name, value) for name, value in options.items() if isinstance(value, str | int | float) and value != ""]
    build = tuple(option for option in kept if option[0] not in _SEARCH)
    return build, tuple(option for option in kept if option[0] in _SEARCH)


def _ms(seconds: Any) -> float | None:
    return 1e3 * seconds if isinstance(seconds, int | float) else None
