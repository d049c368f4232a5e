"""Recall while rows come and go, compared with a slow and obvious count; verdicts on writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fake_servers import HONEST
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.plan import PlanError
from pagehop_lab.suites.inserts.cases import VECTOR_STEPS, Moves, recall_while_moving
from runs import read_servers

K = 3
PLAN = 'suite = "vector-inserts"\n[[server]]\nproduct = "pgvector"\n'


def moves(first: int, begun: list[float], lasting: float = 0.5) -> Moves:
    return Moves(first, np.array(begun), np.array(begun) + lasting)


def test_a_row_is_sure_after_its_commit_and_may_be_seen_from_its_begin() -> None:
    came = moves(10, [1.0, 2.0])
    assert [came.surely(at) for at in (1.4, 1.5, 2.6)] == [10, 11, 12]
    assert [came.maybe(at) for at in (0.9, 1.0, 2.0)] == [10, 11, 12]


def test_recall_counts_what_was_there_all_the_time() -> None:
    # Row `id` has the position `id` on a line, and the query is at 10. Rows 8 to 12 exist. During
    # the query, 7 is deleted and 13 is inserted.
    base = np.arange(40, dtype=np.float32)[:, None]
    came = moves(8, [0.0, 0.0, 0.0, 0.0, 0.0, 5.0])
    went = moves(7, [5.0])
    asked = np.array([[10.0]], dtype=np.float32)

    def recall(found: list[int], start: float = 5.1, end: float = 5.2) -> tuple[Any, int, int]:
        result = recall_while_moving(np.array([found]), np.array([start]), np.array([end]), asked, base, came, went)
        return float(result.recall[0]), result.gone_count, result.short_count

    assert recall([10, 9, 11]) == (1.0, 0, 0)
    assert recall([10, 9, 12]) == (pytest.approx(2 / 3), 0, 0)
    # Another row at the third distance also counts. A row that is returned twice counts once.
    assert recall([10, 10, 11])[0] == pytest.approx(2 / 3)
    assert recall([10, 9, -1]) == (pytest.approx(2 / 3), 0, 1)
    # 7 may be found until its deletion has ended, and 13 since its insertion began.
    assert recall([10, 9, 7])[1] == 0
    assert recall([10, 9, 7], 6.0, 6.1)[1] == 1
    assert recall([10, 9, 13])[1] == 0
    assert recall([10, 9, 13], 1.0, 1.1)[1] == 1


def test_recall_agrees_with_a_slow_count_of_a_window_that_wraps() -> None:
    random = np.random.default_rng(3)
    base = random.standard_normal((60, 4)).astype(np.float32)
    queries = random.standard_normal((150, 4)).astype(np.float32)
    # At first there are 40 rows. One comes and one goes in each second.
    came = moves(40, list(np.arange(0.0, 50.0)), 0.3)
    went = moves(0, list(np.arange(0.0, 50.0)), 0.3)
    starts = random.uniform(1, 45, 150)
    ends = starts + 0.01
    found = np.empty((150, K), dtype=np.int64)
    expected = np.empty(150)
    for row in range(150):
        low, high = went.maybe(ends[row]), came.surely(starts[row])
        ids = np.arange(low, high)
        distances = ((base[ids % 60] - queries[row]) ** 2).sum(axis=1)
        nearest = ids[np.argsort(distances)]
        found[row] = [*nearest[: K - 1], nearest[20]]
        expected[row] = (K - 1) / K
    result = recall_while_moving(found, starts, ends, queries, base, came, went)
    np.testing.assert_allclose(result.recall, expected)
    assert result.gone_count == result.short_count == 0


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"write_target": 1000, "rows_per_s": 940.0}, "rate"),
        ({"index_used": False}, "plan"),
        ({"rows_short_count": 1}, "rows"),
        ({"rows_again_count": 1}, "rows"),
        ({"rows_gone_count": 1}, "rows"),
    ],
)
def test_a_step_that_falls_behind_or_answers_wrongly_is_invalid(told: dict[str, float], kind: str) -> None:
    assert [reason.partition(":")[0] for reason in judge_load(HONEST | told).wrong] == [kind]
    assert not judge_load(HONEST | {"write_target": 1000, "rows_per_s": 951.0, "index_used": True}).wrong


def test_a_plan_of_vectors_has_its_steps_and_options() -> None:
    plan = read_servers(PLAN + "options = { ef_search = 40 }", "test")
    assert plan.cases == VECTOR_STEPS
    assert [server.name for server in plan.servers] == ["pgvector 18 ef_search=40"]
    with pytest.raises(PlanError, match="'fashion-mnist': it should be generated-DIM"):
        read_servers(PLAN.replace("[[", '[load]\ndataset = "fashion-mnist"\n[[', 1), "test")
    with pytest.raises(PlanError, match=r"slowed: there is no such key"):
        read_servers(PLAN + "slowed = 0.05", "test")
