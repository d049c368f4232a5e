"""What operations report."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt


class Measured(NamedTuple):
    """The last calibration of an index, and the changes since."""

    rows: int
    """Rows of the index at that time."""
    samples: int
    """Queries that were compared with exact answers."""
    by_queries: bool
    """Whether a user gave the queries; otherwise they were vectors of the index."""
    changes: int
    """Rows added and deleted since; a replaced row counts as both."""
    longer_rows: bool
    """Under "ip": whether rows were added since that are a twentieth longer than all before."""
    outdated: bool
    """Whether to calibrate again: a fifth of the rows changed, or longer rows came."""


class Audit(NamedTuple):
    """The last result of `Index.recall` on an index that was open for writing."""

    k: int
    """Rows searched for."""
    recall: float
    """Mean share of the `k` nearest rows that searches found."""
    half_interval: float
    """Half the width of the 95% confidence interval of `recall`."""
    target: float | None
    """The recall that the searches were given; None if they were given settings."""
    samples: int
    """Queries that were compared with exact answers."""
    rows: int
    """Rows of the index at that time."""
    changes: int
    """Rows added and deleted since; a replaced row counts as both."""


class Setting(NamedTuple):
    """Settings that reach a recall.

    `search_list`, `slack` and `half_interval` are None if no settings reached it.
    """

    k: int
    """Rows searched for."""
    recall: float
    search_list: int | None
    slack: float | None
    half_interval: float | None
    """Half the width of the 95% confidence interval of the recall."""
    best: float
    """The highest recall that was measured for `k`."""


class Calibration(NamedTuple):
    """Which settings reach which recall. `Index.search` interpolates between them."""

    rows: int
    """Rows of the index at that time."""
    samples: int
    """Queries that were compared with exact answers."""
    by_queries: bool
    """Whether a user gave the queries; otherwise they were vectors of the index."""
    settings: tuple[Setting, ...]
    """In order of `k` and `recall`."""


class RecallReport(NamedTuple):
    """The result of `Index.recall`."""

    k: int
    """Rows searched for."""
    recall: float
    """Mean share of the `k` nearest rows that searches found."""
    half_interval: float
    """Half the width of the 95% confidence interval of `recall`."""
    target: float | None
    """The recall that the searches were given; None if they were given settings."""
    samples: int
    """Queries that were compared with exact answers."""
    hops: float
    """Mean number of nodes that a search expanded."""
    far: float | None
    """The share of queries that are farther from their tenth nearest row than 99 of 100 calibration
    queries were. Much more than 0.01 means that they come from another distribution. None without a
    calibration and for `ip`.
    """


class Info(NamedTuple):
    """The description of an index as of its newest commit, and counters since it was opened.

    Numbers of bytes and commits count what this object did.
    """

    format_version: int
    metric: str
    dim: int
    vectors: str
    """What is kept of vectors: "codes", "float16" or "float32"."""
    id_kind: str
    """The kind of row ids: "int" or "text"."""
    payload: bool
    """Whether rows may have payloads."""
    columns: dict[str, str]
    """Names and kinds of the columns whose values searches can filter by."""
    rows: int
    pages: int
    max_degree: int
    nodes_per_page: int
    edge_bits: int
    edge_dims: int
    own_bits: int
    seed: int
    commit: int
    """Number of the newest commit; 0 after a build. Numbers increase, but not by 1."""
    dead_rows: int
    """Deleted and replaced rows that `vacuum` has not removed yet."""
    free_slots: int
    """Slots that the next rows added will take."""
    trained_rows: int
    """Rows that the model was trained on."""
    added_rows: int
    """Rows added since then; a replaced row counts here and in `deleted_rows`."""
    deleted_rows: int
    """Rows deleted since then."""
    mark: tuple[int, int]
    """Set by imports of the `pagehop` command, so that they can be resumed; (0, 0) if not set."""
    default_recall: float | None
    """Recall of searches for 10 rows without a recall or settings; None if it is not known."""
    calibrated: Measured | None
    """The last calibration; None if there was none."""
    audit: Audit | None
    """The last audit that was stored; None if there was none."""
    log_bytes: int
    """Bytes of commits for the next checkpoint to write; 0 if not open for writing."""
    log_bytes_written: int
    """Bytes that commits wrote to the log."""
    page_bytes_written: int
    """Bytes of pages that checkpoints wrote into the index; each changed page once."""
    commits: int
    """Number of commits."""
    checkpoints: int
    """Number of checkpoints."""


class CheckReport(NamedTuple):
    """What `check` found in a sound index."""

    pages: int
    nodes: int
    """Live nodes, one for each row."""
    dead_nodes: int
    """Nodes of deleted and replaced rows."""
    free_slots: int
    """Free slots, which the next rows will take."""
    edges: int
    stale_edges: int
    """Edges whose target is gone. They slow searches down a little."""
    reachable: int
    """Live nodes that a walk from the entry points reaches."""
    anchored: int
    """Live nodes that such a walk reaches along anchors alone: all of them."""


class AddReport(NamedTuple):
    """What `add` did."""

    added: int
    """Rows with new ids."""
    replaced: int
    """Rows that replaced a row with the same id."""
    unchanged: int
    """Rows that were in the index already with the same vector, values and payload."""


class DeleteReport(NamedTuple):
    """What `delete` did."""

    deleted: int
    """Rows deleted."""
    unknown: npt.NDArray[Any]
    """Ids that are not in the index: int64, or str objects."""


class VacuumReport(NamedTuple):
    """What `vacuum` did."""

    freed: int
    """Dead rows removed; their slots are free."""
    waiting: int
    """Dead rows that stay because a running search, here or in another process, may see them."""
    repaired: int
    """Nodes whose edges were chosen again."""


class CompactReport(NamedTuple):
    """What `compact` wrote."""

    rows: int
    pages: int
    """Pages of the new file, of 8 KiB each."""
    pages_before: int


class BackupReport(NamedTuple):
    """What `backup` wrote."""

    pages: int
    bytes: int


def calibration_of(words: dict[str, Any]) -> Calibration:
    """A calibration as the engine describes it."""
    settings = tuple(Setting(*setting) for setting in words["settings"])
    return Calibration(words["rows"], words["samples"], words["by_queries"], settings)


def info_of(words: dict[str, Any]) -> Info:
    """An index as the engine describes it."""
    calibrated, audit = words["calibrated"], words["audit"]
    words["calibrated"] = None if calibrated is None else Measured(**calibrated)
    words["audit"] = None if audit is None else Audit(**audit)
    return Info(**words)
