"""What operations say of what they found and did."""

from __future__ import annotations

from typing import NamedTuple

from pagehop.arrays import Int64


class Measured(NamedTuple):
    """An index when it was calibrated, and what has become of it."""

    rows: int
    """Rows that it had then."""
    samples: int
    """Queries that were answered exactly then."""
    by_queries: bool
    """Whether they were a user's, and not vectors of the index."""
    changes: int
    """Rows added and deleted since; a replaced row counts as both."""
    outdated: bool
    """Whether these are a fifth of the rows or more, so that it is to be calibrated again."""


class Audit(NamedTuple):
    """What `Index.recall` found last on an index that was open for writing."""

    k: int
    recall: float
    """Mean share of the `k` nearest that searches found."""
    interval: float
    """Half the width of the interval in which the recall lies with 95% probability."""
    target: float | None
    """The recall that was asked for; None if settings were given instead."""
    samples: int
    """Queries that were answered exactly."""
    rows: int
    """Rows that the index had."""
    changes: int
    """Rows added and deleted since; a replaced row counts as both."""


class Setting(NamedTuple):
    """What reaches a recall. `slack`, `search_list` and `interval` are None if nothing did."""

    k: int
    """Rows that are searched for."""
    recall: float
    slack: float | None
    search_list: int | None
    interval: float | None
    """Half the width of the interval in which the recall lies with 95% probability."""
    best: float
    """The highest recall that was measured for `k`."""


class Calibration(NamedTuple):
    """Which settings reach which recall. In between, `Index.search` takes settings in between."""

    rows: int
    """Rows that the index had."""
    samples: int
    """Queries that were answered exactly."""
    by_queries: bool
    """Whether they were a user's, and not vectors of the index."""
    settings: tuple[Setting, ...]
    """In order of `k` and `recall`."""


class RecallReport(NamedTuple):
    """What `Index.recall` found."""

    k: int
    recall: float
    """Mean share of the `k` nearest that searches found."""
    interval: float
    """Half the width of the interval in which the recall lies with 95% probability."""
    target: float | None
    """The recall that was asked for; None if settings were given instead."""
    samples: int
    """Queries that were answered exactly."""
    hops: float
    """Nodes that a search expanded, on average."""
    far: float | None
    """Share of the queries that are farther from their nearest rows than 99 of 100 of those the index was calibrated
    by: if it is much more than a hundredth, they come from elsewhere. None without a calibration and under `ip`."""


class Info(NamedTuple):
    """What an index says of itself as of its newest commit, and what was written since it was opened."""

    format_version: int
    metric: str
    dim: int
    rows: int
    pages: int
    max_degree: int
    nodes_per_page: int
    edge_bits: int
    edge_dims: int
    own_bits: int
    seed: int
    commit: int
    """Number of the newest commit; 0 after a build. Later ones are higher, not one higher."""
    dead_rows: int
    """Deleted and replaced rows that `vacuum` has not taken away yet."""
    free_slots: int
    """Places that the next rows added will take."""
    trained_rows: int
    """Rows that the model was trained on."""
    added_rows: int
    """Rows added since then; a replaced row counts here and among the deleted."""
    deleted_rows: int
    """Rows deleted since then."""
    mark: tuple[int, int]
    """Set by imports of the `pagehop` command, which can be resumed; (0, 0) if none was."""
    calibration: Measured | None
    """The index when it was calibrated, and since; None if it never was."""
    audit: Audit | None
    """What was found when recall was measured last; None if that was never stored."""
    log_bytes: int
    """Bytes of commits that the next checkpoint brings into the index; 0 unless it is open for writing."""
    log_bytes_written: int
    """Bytes that commits wrote to the log since it was opened."""
    page_bytes_written: int
    """Bytes of pages that checkpoints wrote since it was opened, each page once to make it safe and once in place."""
    commits: int
    """Commits since it was opened."""
    checkpoints: int
    """Checkpoints since it was opened."""


class CheckReport(NamedTuple):
    """What `check` found in an index without contradictions."""

    pages: int
    nodes: int
    """Living nodes, one for each row."""
    dead_nodes: int
    """Nodes of deleted and replaced rows."""
    free_slots: int
    """Places without a node."""
    edges: int
    stale_edges: int
    """Those of `edges` whose target is gone; they cost a search little."""
    reachable: int
    """Living nodes that a walk from the entry points reaches."""


class AddReport(NamedTuple):
    """What `add` did."""

    added: int
    """Rows with ids that the index did not have."""
    replaced: int
    """Rows that replaced one of the same id."""
    unchanged: int
    """Rows that the index had with the same vector."""


class DeleteReport(NamedTuple):
    """What `delete` did."""

    deleted: int
    """Rows deleted."""
    unknown: Int64
    """Ids that the index did not have."""


class VacuumReport(NamedTuple):
    """What `vacuum` did."""

    freed: int
    """Dead rows taken out; their places are free."""
    waiting: int
    """Dead rows left because a search under way, here or in another process, may still see them."""
    repaired: int
    """Nodes that chose their neighbors anew."""
