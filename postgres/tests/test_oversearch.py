"""Recall of scans for a requested recall, and their hops compared with the least that this recall
needs, with and without a condition on a column outside of the index.
"""

from __future__ import annotations

import itertools

import psycopg
import pytest

from tests.items import Connect, by_scan, fill, ids, number, only_by_index, run, vectors

# A calibration for k = 1,000 needs this number of rows. A scan for ten rows visits about 1,000 if 1
# of 100 rows meets its condition.
ROWS = 10_000
QUERIES = vectors(150, seed=77)
# The settings to compare with. The cheapest one that reaches a recall gives the needed hops.
SLACKS = [0.0, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3]
LISTS = [10, 14, 20, 40]
# Most hops of a scan, divided by those of the cheapest setting that reaches the requested recall.
RATIO_MAX = 1.15
# Most by which the recall may be below the requested one.
MISSED_MAX = 0.01


def measured(connection: psycopg.Connection, where: str, truth: list[set[int]]) -> tuple[float, float]:
    """Recall and mean hops of all queries."""
    found = hops = 0
    for query, nearest in zip(QUERIES, truth, strict=True):
        rows = ids(connection, f"SELECT id FROM items WHERE {where} ORDER BY embedding <-> '{query}' LIMIT 10")
        found += len(nearest & set(rows))
        hops += number(connection, "SELECT hops FROM pagehop_last_scan()")
    return found / (10 * len(QUERIES)), hops / len(QUERIES)


@pytest.mark.parametrize("share", [1.0, *(pytest.param(share, marks=pytest.mark.long) for share in (0.5, 0.1)), 0.01])
def test_a_recall_is_found_in_few_hops_more_than_it_needs(connect: Connect, share: float) -> None:
    connection = connect()
    run(connection, "CREATE TABLE items (id int PRIMARY KEY, embedding vector(24), note text)")
    fill(connection, vectors(ROWS, seed=1))
    run(connection, "CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops)")
    run(connection, "VACUUM ANALYZE items")
    where = f"id % 1000 < {int(1000 * share)}" if share < 1 else "true"
    truth = [set(by_scan(connection, query, where=where)) for query in QUERIES]
    with only_by_index(connection):
        asked = {}
        for recall in (0.95, 0.98):
            run(connection, f"SET LOCAL pagehop.recall = {recall}")
            asked[recall] = measured(connection, where, truth)
        settings = []
        # If a search visits dozens of rows or more, only the slack matters, and one list is enough.
        for slack, candidates in itertools.product(SLACKS, LISTS if share > 0.1 else LISTS[-1:]):
            run(connection, f"SET LOCAL pagehop.slack = {slack}; SET LOCAL pagehop.search_list = {candidates}")
            settings.append(measured(connection, where, truth))
    for recall, (found, hops) in asked.items():
        needed = min(other for reached, other in settings if reached >= recall)
        said = f"{recall} asked, {found:.4f} found in {hops:.1f} hops, {needed:.1f} needed"
        print(said)
        assert found >= recall - MISSED_MAX, said
        assert hops <= RATIO_MAX * needed, said
