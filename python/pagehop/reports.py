"""What operations say of what they found and did."""

from __future__ import annotations

from typing import NamedTuple

from pagehop.arrays import Int64


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
