"""`sentences-256`: sentences of the passages, as means of the vectors of their tokens.

The vectors of tokens are those of WordLlama, a static model: no text is around a token. So half a
million rows take a minute, once the packages are read. The package `wordllama` holds the weights
and the tokenizer, and its code is not run.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from pagehop_lab.data.real import passages
from pagehop_lab.data.real.files import Column, Content
from pagehop_lab.data.real.model import Float32, weights
from pagehop_lab.data.real.texts import Texts, columns, sources

SENTENCE_ROWS = 500_000
PACKAGE = "wordllama"

_FEWEST_WORDS, _MOST_WORDS = 6, 60
# Abbreviations end no sentence where a small letter follows, and "e.g. A" is rare.
_BETWEEN = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_AT_ONCE = 10_000


class StaticModel(Protocol):
    """The interface that the set needs; tests have their own model."""

    name: str

    def means(self, texts: Sequence[str]) -> Float32:
        """The mean vector of each text's tokens, shape [texts, dim]."""


class WordLlama:
    """The 256-dimensional vectors of WordLlama 0.4."""

    name = "wordllama-l2-supercat-256"

    def __init__(self) -> None:
        import tokenizers

        folder = _folder()
        self._tokenizer = tokenizers.Tokenizer.from_file(
            str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
        )
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._table = weights(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]

    def means(self, texts: Sequence[str]) -> Float32:
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return np.stack([self._table[one.ids].mean(axis=0) for one in found])


def _folder() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"the Python package {PACKAGE} is missing: ./dev data installs it")
    return Path(found.origin).parent


def sentences_near_sentences(texts: Texts, rows: int, model: StaticModel | None = None) -> Content:
    """Sentences of passages, at unit length; queries are sentences of the query passages.

    A sentence is there once, whatever its case and punctuation, and no query is a row.
    """
    seen: set[str] = set()
    asked = [sentence for _, sentence in _sentences(texts.queries, seen)]
    of_rows = texts.rows
    every = list(_sentences(of_rows, seen))
    texts.check(rows, len(every), "sentences")
    every = every[:rows]
    static = model or WordLlama()
    chosen = np.random.default_rng(texts.seed).permutation(len(asked))[: texts.shards.size]
    queries = _unit(static.means([asked[at] for at in chosen]))
    of = np.array([passage for passage, _ in every])
    about = columns([of_rows[passage] for passage in of])
    about["length"] = Column(np.array([len(sentence.split()) for _, sentence in every], dtype=np.int16))
    about["passage"] = Column(of.astype(np.int32))
    starts = range(0, len(every), _AT_ONCE)
    blocks = (_unit(static.means([line for _, line in every[start : start + _AT_ONCE]])) for start in starts)
    return Content(rows, blocks, queries, ("l2",), sources(texts) | {"model": static.name}, about)


def _sentences(some: Sequence[passages.Passage], seen: set[str]) -> Iterator[tuple[int, str]]:
    """The number of a passage and a sentence of it, for all sentences that were not seen before."""
    for number, passage in enumerate(some):
        for sentence in _BETWEEN.split(passage.text):
            if not _FEWEST_WORDS <= len(sentence.split()) <= _MOST_WORDS:
                continue
            if (same := passages.same(sentence)) not in seen:
                seen.add(same)
                yield number, sentence


def _unit(vectors: Float32) -> Float32:
    found: Float32 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found
