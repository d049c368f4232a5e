"""The sets of texts: `texts-384`, `texts-384-ood`, `tokens-384` and `lsa-DIM`.

All of them come from the same passages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagehop_lab.data.errors import DataError
from pagehop_lab.data.real import embedding, lsa, passages
from pagehop_lab.data.real.embedding import Job, Shards
from pagehop_lab.data.real.files import Column, Content
from pagehop_lab.data.real.model import MiniLM, Model
from pagehop_lab.data.real.passages import Passage, Passages
from pagehop_lab.data.real.prose import RULES
from pagehop_lab.data.real.sources import PROSE, Say

TEXT_ROWS = 150_000
TOKEN_ROWS = 1_000_000
SHARDS_WITH_TOKENS = 6
"""Shards whose token vectors every pass keeps: enough for a million rows.

The first has the queries.
"""


@dataclass(frozen=True)
class Texts:
    """The passages, the vectors that were computed so far, and the means to compute more."""

    found: Passages
    shards: Shards
    seed: int
    say: Say
    new_model: Callable[[], Model] | None = None

    @property
    def rows(self) -> Sequence[Passage]:
        """All passages that are not queries."""
        return self.found.all[self.shards.size :]

    @property
    def queries(self) -> Sequence[Passage]:
        """The passages that are not rows."""
        return self.found.all[: self.shards.size]

    def compute(self, first: int, last: int, *, with_tokens: bool) -> None:
        """Computes the vectors of shards from `first` to before `last`, if missing.

        With `with_tokens` those of every token, too.
        """
        kept = self.shards.count if with_tokens else SHARDS_WITH_TOKENS
        jobs = [self.shards.job(shard, keeps_tokens=shard < kept) for shard in range(first, last)]
        embedding.compute(jobs, self.say, self.new_model)

    def check(self, rows: int, most: int, what: str) -> None:
        """Refuses a set of more rows than there are."""
        if not 0 < rows <= most:
            raise DataError(f"a set of {rows:,} rows cannot be made: there are {most:,} {what}")


def read(data: Path, seed: int, say: Say) -> Texts:
    """The passages of all documentation packages.

    Intermediate files are kept in folders of `data`.
    """
    found = passages.collect(data / "prose", PROSE, seed, say)
    every = [passage.text for passage in found.all]
    folder = data / "embeddings" / f"{MiniLM.name}-{passages.checksum(every)}"
    return Texts(found, Shards(folder, every), seed, say)


def passages_near_passages(texts: Texts, rows: int) -> Content:
    """`texts-384`: passages; queries are other passages."""
    blocks = _vectors(texts, rows)
    return Content(rows, blocks, texts.shards.vectors(0), ("l2",), sources(texts), columns(texts.rows[:rows]))


def passages_near_titles(texts: Texts, rows: int) -> Content:
    """`texts-384-ood`: the same passages; queries are titles: words without a sentence."""
    blocks = _vectors(texts, rows)
    titles = texts.found.titles[: texts.shards.size]
    job = Job(texts.shards.folder, f"titles-{passages.checksum(titles)}", titles, keeps_tokens=False)
    embedding.compute([job], texts.say, texts.new_model)
    queries = np.load(job.folder / f"{job.name}.npy")
    return Content(rows, blocks, queries, ("l2",), sources(texts), columns(texts.rows[:rows]))


def tokens_near_tokens(texts: Texts, rows: int) -> Content:
    """`tokens-384`: the model's output for every token of the first passages, at unit length.

    A query is one token of a query passage, chosen at random.
    """
    shards, random = texts.shards, np.random.default_rng(texts.seed)
    texts.compute(0, min(SHARDS_WITH_TOKENS, shards.count), with_tokens=True)
    ends = np.cumsum(shards.token_counts(0))
    picked = ends - 1 - random.integers(0, shards.token_counts(0))
    queries = np.asarray(shards.tokens(0)[picked])
    last, each = 1, np.empty(0, dtype=np.int64)
    while each.sum() < rows:
        if last == shards.count:
            texts.check(rows, int(each.sum()), "tokens")
        until = min(last + (os.cpu_count() or 1), shards.count)
        texts.compute(last, until, with_tokens=True)
        each = np.concatenate([each, *(shards.token_counts(shard) for shard in range(last, until))])
        last = until
    passage = np.repeat(np.arange(len(each)), each)[:rows]
    position = (np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each))[:rows]
    of_passages = columns(texts.rows[: len(each)])
    about = {name: Column(column.values[passage], column.names) for name, column in of_passages.items()}
    about["passage"] = Column(passage.astype(np.int32))
    about["position"] = Column(position.astype(np.int16))
    about["token"] = Column(np.concatenate([shards.token_ids(shard) for shard in range(1, last)])[:rows])
    blocks = (shards.tokens(shard) for shard in range(1, last))
    return Content(rows, blocks, queries, ("l2",), sources(texts), about)


def topics(texts: Texts, rows: int, dim: int) -> Content:
    """`lsa-DIM`: latent semantic analysis of the passages.

    Lengths vary, so the metric is the inner product.
    """
    texts.check(rows, len(texts.rows), "passages")
    texts.say(f"latent semantic analysis of {rows:,} passages")
    found = lsa.analyze([p.text for p in texts.rows[:rows]], [p.text for p in texts.queries], dim, texts.seed)
    about = {"packages": texts.found.versions, "rules": RULES, "seed": texts.seed, "words": found.words}
    return Content(rows, [found.rows], found.queries, ("ip", "l2"), about, columns(texts.rows[:rows]))


def _vectors(texts: Texts, rows: int) -> Iterator[np.ndarray]:
    texts.check(rows, len(texts.rows), "passages")
    last = 1 + -(-rows // texts.shards.size)
    # Shard 0 has the queries. It is computed with the others, so that no core is idle.
    texts.compute(0, last, with_tokens=False)
    return (texts.shards.vectors(shard) for shard in range(1, last))


def sources(texts: Texts) -> dict[str, object]:
    """The origin of a set of vectors of the passages, for its about.json."""
    made_of = {"packages": texts.found.versions, "texts": passages.checksum(texts.shards.texts), "rules": RULES}
    return made_of | {"seed": texts.seed, "model": MiniLM.name}


def columns(rows: Sequence[Passage]) -> dict[str, Column]:
    """The columns by which passages can be filtered."""
    return {
        "package": _named([passage.package for passage in rows], np.uint8),
        "section": _named([passage.title for passage in rows], np.int32),
        "length": Column(np.array([len(passage.text.split()) for passage in rows], dtype=np.int16)),
        "date": Column(np.array([passage.day for passage in rows], dtype=np.int32)),
    }


def _named(values: list[str], kind: type[np.integer]) -> Column:
    names, numbers = np.unique(np.array(values), return_inverse=True)
    return Column(numbers.astype(kind), [str(name) for name in names])
