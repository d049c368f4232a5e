"""The embedding pass: passages go through the model in shards, and finished shards are kept.

One process on one core computes a shard from its texts alone. So an interrupted pass continues with
the next shard, the vectors do not depend on the number of cores, and a larger set uses the shards
that exist. Texts of a shard go through the model in batches of equal length, shortest first:
nothing is padded.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagehop_lab.data.real.model import MiniLM, Model
from pagehop_lab.data.real.sources import Say

Float16 = npt.NDArray[np.float16]
Float32 = npt.NDArray[np.float32]

SHARD = 5000
"""Texts of a shard."""
_BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Job:
    """A shard to be computed."""

    folder: Path
    name: str
    texts: Sequence[str]
    keeps_tokens: bool


@dataclass(frozen=True)
class Shards:
    """The folder of a pass, and the texts in their order."""

    folder: Path
    texts: Sequence[str]
    size: int = SHARD

    @property
    def count(self) -> int:
        """All shards, those that are not computed included."""
        return -(-len(self.texts) // self.size)

    def job(self, shard: int, *, keeps_tokens: bool) -> Job:
        """The job that computes shard number `shard`."""
        texts = self.texts[shard * self.size : (shard + 1) * self.size]
        return Job(self.folder, f"{shard:05}", texts, keeps_tokens)

    def vectors(self, shard: int) -> Float32:
        """One vector of unit length for each text of a shard."""
        found: Float32 = np.load(self.folder / f"{shard:05}.npy")
        return found

    def tokens(self, shard: int) -> Float16:
        """One vector of unit length for each token of each text, without [CLS] and [SEP]."""
        found: Float16 = np.load(self.folder / f"{shard:05}-tokens.npy", mmap_mode="r")
        return found

    def token_ids(self, shard: int) -> npt.NDArray[np.uint16]:
        """The ids of those tokens."""
        found: npt.NDArray[np.uint16] = np.load(self.folder / f"{shard:05}-ids.npy")
        return found

    def token_counts(self, shard: int) -> npt.NDArray[np.int64]:
        """The number of these tokens of each text."""
        found: npt.NDArray[np.int64] = np.load(self.folder / f"{shard:05}-counts.npy")
        return found


def is_done(job: Job) -> bool:
    """Whether the files of a shard exist."""
    parts = ["", "-tokens"] if job.keeps_tokens else [""]
    return all((job.folder / f"{job.name}{part}.npy").exists() for part in parts)


def compute(jobs: Sequence[Job], say: Say, new_model: Callable[[], Model] | None = None) -> None:
    """Computes the shards that are not there, one process for each core.

    `new_model` makes another model, which then runs in this process.
    """
    missing = [job for job in jobs if not is_done(job)]
    if not missing:
        return
    missing[0].folder.mkdir(parents=True, exist_ok=True)
    began, texts, tokens = time.monotonic(), 0, 0
    every = sum(len(job.texts) for job in missing)
    for job, found in _done(missing, new_model):
        texts, tokens = texts + len(job.texts), tokens + found
        seconds = time.monotonic() - began
        left = seconds / texts * (every - texts) / 60
        rate = f"{tokens / seconds:,.0f} tokens a second"
        say(f"embedding: {texts:,} of {every:,} texts, {rate}, {left:.0f} minutes left")


def _done(jobs: Sequence[Job], new_model: Callable[[], Model] | None) -> Iterator[tuple[Job, int]]:
    """Yields each shard, with its token count, once its files exist."""
    if new_model is not None:
        model = new_model()
        for job in jobs:
            yield job, run(job, model)
        return
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("spawn").Pool(min(cores, len(jobs)), _start) as pool:
        yield from zip(jobs, pool.imap(_run_here, jobs), strict=True)


_model: Model


def _start() -> None:
    """Loads the model in a process of the pool."""
    global _model
    _model = MiniLM(threads=1)


def _run_here(job: Job) -> int:
    return run(job, _model)


def run(job: Job, model: Model) -> int:
    """Computes a shard and writes its files.

    The file that marks it done comes last. Returns the token count.
    """
    tokens = model.tokens(job.texts)
    lengths = np.array([len(ids) for ids in tokens])
    starts = np.concatenate([[0], np.cumsum(lengths - 2)])
    vectors = np.empty((len(tokens), model.dim), dtype=np.float32)
    kept = np.empty((starts[-1] if job.keeps_tokens else 0, model.dim), dtype=np.float16)
    for batch in _batches(lengths):
        outputs = model.outputs(np.stack([tokens[at] for at in batch]))
        vectors[batch] = unit(outputs.mean(axis=1, dtype=np.float32))
        if job.keeps_tokens:
            inner = unit(outputs[:, 1:-1])
            kept[(starts[batch, None] + np.arange(inner.shape[1])).ravel()] = inner.reshape(-1, model.dim)
    if job.keeps_tokens:
        _write(job, "-counts", lengths - 2)
        _write(job, "-ids", np.concatenate([ids[1:-1] for ids in tokens]))
        _write(job, "-tokens", kept)
    _write(job, "", vectors)
    return int(lengths.sum())


def _batches(lengths: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Positions of texts with the same number of tokens, up to the size of a batch."""
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        size = max(1, _BATCH_TOKENS // int(length))
        for start in range(0, len(same), size):
            yield same[start : start + size]


def unit(vectors: Float32) -> Float32:
    """The vectors at unit length."""
    found: Float32 = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found


def _write(job: Job, part: str, values: npt.NDArray[np.generic]) -> None:
    unfinished = job.folder / f".{job.name}{part}-{os.getpid()}.npy"
    np.save(unfinished, values)
    unfinished.replace(job.folder / f"{job.name}{part}.npy")
