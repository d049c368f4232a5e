"""Builds and searches an index as the README shows, and compares with an exact search."""

import numpy as np

import pagehop

rows = np.random.default_rng(7).normal(size=(1_500, 48)).astype(np.float32)
with pagehop.build("rows.pagehop", rows, overwrite=True) as index:
    ids, distances = index.search(rows[:20], k=5, recall=0.99)

exact = ((rows[:20, None] - rows[None]) ** 2).sum(axis=2)
nearest = np.argsort(exact, axis=1, kind="stable")[:, :5]
found = np.mean([len(set(ours) & set(true)) / 5 for ours, true in zip(ids, nearest, strict=True)])
assert found >= 0.95, f"recall {found}"
error = np.abs(distances - np.take_along_axis(exact, ids.astype(np.int64), axis=1)).max()
assert error < 0.05 * exact.mean(), f"distances are wrong by {error}"
print(f"recall {found:.2f}")
