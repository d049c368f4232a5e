"""Hundreds of random predicates on columns of most kinds, compared with NumPy: searches reach the
requested recall, no answer is short, and no row is wrong.

PAGEHOP_PREDICATES=10000 sets the number of predicates.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pagehop

ROWS, DIM = 6000, 24
PREDICATES = int(os.environ.get("PAGEHOP_PREDICATES", "400"))
ASKED = 0.98
TAGS = [f"tag {number}" for number in range(60)]

Bools = npt.NDArray[np.bool_]
Truth = tuple[Bools, Bools]
"""For each row, whether a condition is true, and whether it is neither true nor false."""


class Table:
    """Rows, and random conditions on their columns as text, each with its truth for every row."""

    def __init__(self, seed: int) -> None:
        random = self.random = np.random.default_rng(seed)
        self.centers = random.standard_normal((30, DIM))
        cluster = random.integers(0, 30, ROWS)
        self.vectors = self.near(cluster)
        # The columns are independent of the vectors, except for `place`, whose values are those of
        # clusters, and `side`, a component of the vectors.
        self.topic = (random.uniform(size=ROWS) ** 2 * 40).astype(np.int64)
        self.place = cluster
        self.side = self.vectors[:, 0].astype(np.float64)
        self.price = random.uniform(0, 100, ROWS).round(1)
        self.price[random.uniform(size=ROWS) < 0.1] = np.nan
        self.name = np.array([f"name {number}" for number in random.integers(0, 300, ROWS)])
        self.tags: list[list[str] | None] = [
            None if random.uniform() < 0.05 else self.some_tags(int(random.integers(0, 5))) for _ in range(ROWS)
        ]

    def near(self, cluster: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        noise = 0.6 * self.random.standard_normal((len(cluster), DIM))
        return (self.centers[cluster] + noise).astype(np.float32)

    def some_tags(self, count: int) -> list[str]:
        return [TAGS[int(self.random.uniform() ** 3 * len(TAGS))] for _ in range(count)]

    def columns(self) -> dict[str, Any]:
        names = ("topic", "place", "side", "price", "name", "tags")
        return {name: getattr(self, name) for name in names}

    def condition(self, depth: int) -> tuple[str, Truth]:
        """A condition of at most `depth` levels below its first."""
        kinds: list[Callable[[], tuple[str, Truth]]] = [self.number, self.number, self.text, self.tag, self.missing]
        if depth and self.random.uniform() < 0.6:
            return self.joined(depth)
        return kinds[int(self.random.integers(len(kinds)))]()

    def joined(self, depth: int) -> tuple[str, Truth]:
        word = str(self.random.choice(["and", "or", "not"]))
        text, (true, null) = self.condition(depth - 1)
        if word == "not":
            return f"not ({text})", (~true & ~null, null)
        false = ~true & ~null
        for _ in range(int(self.random.integers(1, 3))):
            more, (other, unknown) = self.condition(depth - 1)
            text = f"{text} {word} ({more})" if text.startswith("(") else f"({text}) {word} ({more})"
            untrue = ~other & ~unknown
            true, false = (true & other, false | untrue) if word == "and" else (true | other, false & untrue)
        return f"({text})", (true, ~true & ~false)

    def number(self) -> tuple[str, Truth]:
        name = str(self.random.choice(["topic", "place", "side", "price"]))
        values = getattr(self, name)
        null = np.isnan(values.astype(np.float64))
        low, high = sorted(values[self.random.choice(np.flatnonzero(~null), 2)].tolist())
        signs = {"<": np.less, "<=": np.less_equal, "=": np.equal, "<>": np.not_equal, ">=": np.greater_equal}
        match int(self.random.integers(4)):
            case 0:
                return f"{name} between {low!r} and {high!r}", ((values >= low) & (values <= high) & ~null, null)
            case 1:
                return f"{name} in ({low!r}, {high!r})", (np.isin(values, [low, high]), null)
            case _:
                sign = str(self.random.choice(list(signs)))
                return f"{name} {sign} {low!r}", (signs[sign](values, low) & ~null, null)

    def text(self) -> tuple[str, Truth]:
        names = [f"name {number}" for number in self.random.integers(0, 310, int(self.random.integers(1, 40)))]
        quoted = ", ".join(f"'{name}'" for name in names)
        return f"name in ({quoted})", (np.isin(self.name, names), np.zeros(ROWS, bool))

    def tag(self) -> tuple[str, Truth]:
        asked = self.some_tags(int(self.random.integers(1, 4)))
        word, holds = ("any", any) if self.random.uniform() < 0.6 else ("all", all)
        true = np.array([tags is not None and holds(tag in tags for tag in asked) for tags in self.tags])
        quoted = ", ".join(f"'{tag}'" for tag in asked)
        return f"tags contains {word} ({quoted})", (true, np.array([tags is None for tags in self.tags]))

    def missing(self) -> tuple[str, Truth]:
        name = str(self.random.choice(["price", "tags"]))
        null = np.isnan(self.price) if name == "price" else np.array([tags is None for tags in self.tags])
        return f"{name} is null", (null, np.zeros(ROWS, bool))


@pytest.mark.parametrize("seed", [1])
def test_mixed_predicates_find_the_recall_that_is_asked_for(tmp_path: Path, seed: int) -> None:
    table = Table(seed)
    index = pagehop.build(tmp_path / "x.pagehop", table.vectors, columns=table.columns(), write=True)
    recalls, short = [], 0
    shares: list[float] = []
    for _ in range(PREDICATES):
        where, (true, _) = table.condition(depth=3)
        k = int(table.random.choice([1, 10, 10, 30]))
        query = table.near(table.random.integers(0, 30, 1))[0]
        found = index.search(query, k=k, where=where, recall=ASKED).ids
        assert len(set(found.tolist())) == len(found), where
        assert true[found].all(), where
        passing = np.flatnonzero(true)
        short += len(found) < min(k, len(passing))
        shares.append(len(passing) / ROWS)
        if len(passing):
            far = np.linalg.norm(table.vectors[passing].astype(np.float64) - query, axis=1)
            truth = passing[np.argsort(far, kind="stable")[:k]]
            recalls.append(len(np.intersect1d(found, truth)) / len(truth))
    assert short == 0
    assert np.mean(recalls) >= ASKED - 0.01, np.mean(recalls)
    # The predicates cover all shares of rows: none, few, some, half, nearly all.
    counts, _ = np.histogram(shares, [0, 1e-9, 0.01, 0.1, 0.5, 0.9, 1.1])
    assert counts.min() >= PREDICATES // 50, counts
