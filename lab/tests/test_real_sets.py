"""Real sets: every array is compared with a slow computation, by a small random model."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagehop_lab.data import DataError, command
from pagehop_lab.data.real import NAMES, embedding, files, sentences, sift, sources, texts
from pagehop_lab.data.real.embedding import Shards, unit
from pagehop_lab.data.real.files import Column, Content
from pagehop_lab.data.real.model import PACKAGE, MiniLM, Tokens
from pagehop_lab.data.real.passages import Passage, Passages
from pagehop_lab.data.real.texts import Texts
from pagehop_lab.data.truth import product

WORDS = [f"{first}{last}" for first in ["ba", "ke", "li", "mo", "ru", "ta"] for last in ["nar", "sel", "tin", "dor"]]


class Stub:
    """A model of 6 components: a vector for each word, and a small part for its position in the
    text.
    """

    name, dim = "stub", 6

    def __init__(self) -> None:
        self.batches: list[tuple[int, ...]] = []
        self.table = np.random.default_rng(5).standard_normal((len(WORDS) + 2, self.dim)).astype(np.float32)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        return [np.array([0, *(WORDS.index(word) + 2 for word in text.split()), 1], dtype=np.uint16) for text in texts]

    def outputs(self, batch: Tokens) -> Any:
        self.batches.append(batch.shape)
        return self.table[batch] + np.arange(batch.shape[1], dtype=np.float32)[:, None] / 50

    def tokens_of(self, text: str) -> Any:
        """Every token of one text, computed without other texts."""
        return self.outputs(self.tokens([text])[0][None])[0]


def some_passages(count: int, seed: int = 2) -> list[Passage]:
    random = np.random.default_rng(seed)
    lines = [" ".join(random.choice(WORDS, random.integers(3, 12))) for _ in range(count)]
    return [Passage(line, f"Title {at % 7}", 19000 + at % 5, f"package-{at % 3}") for at, line in enumerate(lines)]


def made(folder: Path, count: int = 60, size: int = 10, model: Stub | None = None) -> Texts:
    found = Passages(some_passages(count), [" ".join(WORDS[at : at + 3]) for at in range(20)], {"package": "1.0"})
    stub = model or Stub()
    shards = Shards(folder, [passage.text for passage in found.all], size)
    return Texts(found, shards, seed=3, say=lambda _: None, new_model=lambda: stub)


def rows_of(content: Content) -> Any:
    return np.concatenate(list(content.blocks))[: content.count]


def test_a_text_s_vector_is_the_mean_of_its_tokens_at_length_one(tmp_path: Path) -> None:
    content = texts.passages_near_passages(made(tmp_path), 35)
    expected = [unit(Stub().tokens_of(passage.text).mean(axis=0)) for passage in some_passages(60)]
    np.testing.assert_allclose(content.queries, expected[:10], atol=1e-6)
    np.testing.assert_allclose(rows_of(content), expected[10:45], atol=1e-6)


def test_texts_of_a_batch_have_the_same_length_and_nothing_is_computed_twice(tmp_path: Path) -> None:
    model = Stub()
    texts.passages_near_passages(made(tmp_path, model=model), 35)
    lengths = Counter(len(passage.text.split()) + 2 for passage in some_passages(60)[:50])
    assert sum(count for count, _ in model.batches) == 50
    assert {length for _, length in model.batches} == set(lengths)
    (tmp_path / "00002.npy").unlink()
    model.batches.clear()
    texts.passages_near_passages(made(tmp_path, model=model), 35)
    assert sum(count for count, _ in model.batches) == 10, "only the missing shard is made"


def test_a_pass_that_was_interrupted_keeps_its_shards(tmp_path: Path) -> None:
    model = Stub()
    whole = model.outputs

    def failing(batch: Tokens) -> Any:
        if len(model.batches) > 12:
            raise KeyboardInterrupt
        return whole(batch)

    model.outputs = failing  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        texts.passages_near_passages(made(tmp_path, model=model), 50)
    kept = {path.name for path in tmp_path.glob("0*.npy")}
    assert "00000.npy" in kept
    assert "00005.npy" not in kept
    again = rows_of(texts.passages_near_passages(made(tmp_path), 50))
    assert np.array_equal(again, rows_of(texts.passages_near_passages(made(tmp_path / "other"), 50)))


def test_titles_ask_for_the_same_passages(tmp_path: Path) -> None:
    content = texts.passages_near_titles(made(tmp_path), 50)
    titles = made(tmp_path).found.titles[:10]
    np.testing.assert_allclose(
        content.queries, [unit(Stub().tokens_of(title).mean(axis=0)) for title in titles], atol=1e-6
    )
    assert np.array_equal(rows_of(content), rows_of(texts.passages_near_passages(made(tmp_path), 50)))


def test_tokens_are_those_of_the_texts_without_the_model_s_own(tmp_path: Path) -> None:
    content = texts.tokens_near_tokens(made(tmp_path), 200)
    passages = some_passages(60)
    each = [unit(Stub().tokens_of(passage.text)[1:-1]) for passage in passages]
    rows = rows_of(content)
    assert rows.dtype == content.queries.dtype == np.float16
    np.testing.assert_allclose(rows.astype(np.float32), np.concatenate(each[10:])[:200], atol=1e-3)
    for query, of in zip(content.queries.astype(np.float32), each[:10], strict=True):
        assert np.abs(of - query).max(axis=1).min() < 1e-3, "a query is a token of a query passage"
    columns = {name: column.values for name, column in content.columns.items()}
    for row in (0, 50, 199):
        passage = passages[10 + columns["passage"][row]]
        assert passage.text.split()[columns["position"][row]] == WORDS[columns["token"][row] - 2]
        assert columns["length"][row] == len(passage.text.split())
        assert (content.columns["package"].names or [])[columns["package"][row]] == passage.package


def test_rows_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are 50 passages"):
        texts.passages_near_passages(made(tmp_path), 51)
    with pytest.raises(DataError, match=r"there are \d+ tokens"):
        texts.tokens_near_tokens(made(tmp_path), 5000)
    with pytest.raises(DataError, match="not one of texts-384"):
        command.make("texts-385", tmp_path, None, 1, lambda _: None)


def test_columns_say_where_a_row_is_from(tmp_path: Path) -> None:
    columns = texts.passages_near_passages(made(tmp_path), 50).columns
    for row, passage in enumerate(some_passages(60)[10:]):
        assert (columns["package"].names or [])[columns["package"].values[row]] == passage.package
        assert (columns["section"].names or [])[columns["section"].values[row]] == passage.title
        assert columns["length"].values[row] == len(passage.text.split())
        assert columns["date"].values[row] == passage.day


def test_topics_are_the_leading_singular_vectors(tmp_path: Path) -> None:
    content = texts.topics(made(tmp_path), 50, dim=5)
    lines = [passage.text for passage in some_passages(60)]
    counted = [Counter(line.split()) for line in lines]
    frequencies = {word: sum(word in counts for counts in counted[10:]) for word in sorted(WORDS)}
    words = [word for word in sorted(WORDS) if 3 <= frequencies[word] <= 0.25 * 50]
    assert 5 < len(words) < len(WORDS)
    matrix = np.array([
        [(1 + np.log(counts[word])) * np.log(50 / frequencies[word]) if word in counts else 0 for word in words]
        for counts in counted
    ])  # fmt: skip
    directions = np.linalg.svd(matrix[10:])[2][:5]
    np.testing.assert_allclose(np.abs(rows_of(content)), np.abs(matrix[10:] @ directions.T), atol=1e-4)
    np.testing.assert_allclose(np.abs(content.queries), np.abs(matrix[:10] @ directions.T), atol=1e-4)
    assert np.array_equal(rows_of(content), rows_of(texts.topics(made(tmp_path), 50, dim=5)))
    with pytest.raises(DataError, match="too few"):
        texts.topics(made(tmp_path), 50, dim=25)


@pytest.mark.parametrize("levels", [3, 1_000_000])
def test_the_inner_product_s_truth_is_exact_and_ties_are_in_order(levels: int) -> None:
    random = np.random.default_rng(7)
    rows: Any = random.integers(-levels, levels + 1, (20_000, 4)).astype(np.float32)
    queries: Any = random.integers(-levels, levels + 1, (30, 4)).astype(np.float32)
    ids, distances = product.nearest(rows, queries, 100)
    every = -(queries.astype(np.float64) @ rows.astype(np.float64).T)
    expected = np.argsort(every, axis=1, kind="stable")[:, :100]
    assert np.array_equal(ids, expected)
    assert np.array_equal(distances, np.take_along_axis(every, expected, axis=1))


def content(kind: type = np.float32) -> Content:
    random = np.random.default_rng(8)
    rows: Any = random.standard_normal((500, 7)).astype(kind)
    sizes = Column(np.arange(500, dtype=np.int16))
    queries: Any = random.standard_normal((20, 7)).astype(kind)
    return Content(500, [rows[:300], rows[300:], rows], queries, ("ip", "l2"), {"seed": 1}, {"size": sizes})


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_set_s_files_are_what_they_say(tmp_path: Path, kind: type) -> None:
    folder, given = tmp_path / "data" / "some-7", content(kind)
    about = files.make(folder, "some-7", lambda: given, lambda _: None)
    rows, queries = np.load(folder / "rows.npy", mmap_mode="r"), np.load(folder / "queries.npy")
    assert rows.dtype == queries.dtype == kind
    assert np.array_equal(rows, rows_of(given))
    wide, asked = rows.astype(np.float64), queries.astype(np.float64)
    distances = {"ip": -(asked @ wide.T), "l2": ((asked[:, None] - wide[None]) ** 2).sum(axis=2)}
    for metric, every in distances.items():
        ids = np.argsort(every, axis=1, kind="stable")[:, :100]
        assert np.array_equal(np.load(folder / f"truth-{metric}-ids.npy"), ids)
        found = np.load(folder / f"truth-{metric}-distances.npy")
        np.testing.assert_allclose(found, np.take_along_axis(every, ids, axis=1), atol=1e-12)
    assert np.array_equal(np.load(folder / "columns" / "size.npy"), np.arange(500))
    assert about["metrics"] == ["ip", "l2"]
    assert about["checksum"] == files.checksum(rows, queries) != files.checksum(queries, rows)
    again = files.make(folder, "some-7", lambda: pytest.fail("the set exists"), lambda _: None)
    assert again == json.loads((folder / "about.json").read_text()) == about
    files.write_fbin(folder)
    read = np.fromfile(folder / "train.fbin", dtype=np.float32)
    assert read[:2].view(np.uint32).tolist() == [500, 7]
    assert np.array_equal(read[2:].reshape(500, 7), rows.astype(np.float32))
    ids = np.fromfile(folder / "truth.ibin", dtype=np.int32)
    assert ids[:2].tolist() == [20, 100]
    assert np.array_equal(ids[2:].reshape(20, 100), np.load(folder / "truth-ip-ids.npy"))


def test_a_set_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    def fail() -> Content:
        raise DataError("no images")

    with pytest.raises(DataError):
        files.make(tmp_path / "some", "some", fail, lambda _: None)
    assert not list(tmp_path.iterdir())


def test_descriptors_are_distinct_and_queries_are_of_other_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cv2

    folder, random = tmp_path / "pictures", np.random.default_rng(9)
    folder.mkdir()
    for name in range(8):
        noise = cv2.resize(random.integers(0, 256, (12, 16, 4), dtype=np.uint8), (240, 180))
        cv2.imwrite(str(folder / f"{name}.png"), noise)
    (folder / "8.png").write_bytes((folder / "7.png").read_bytes())
    (folder / "9.png").write_bytes(b"no image")

    def read(package: str, kept: Path, suffix: str, write: Any, say: Any) -> Path:
        del say
        kept.mkdir(parents=True, exist_ok=True)
        written = kept / f"{package}_1.0{suffix}"
        write(folder, written)
        return written

    monkeypatch.setattr(sources, "read_once", read)
    monkeypatch.setattr(sift, "_SHARE_FOR_QUERIES", 0.2)
    found = sift.descriptors(tmp_path / "data", 1, 100, lambda _: None, packages=["one", "two"])
    rows, asked = rows_of(found), found.queries
    assert rows.shape == (100, 128)
    assert len(np.unique(np.concatenate([rows, asked]), axis=0)) == len(rows) + len(asked), "equal packages"
    assert set(np.unique(found.columns["package"].values)) == {0}
    assert rows.max() > 50
    one = cv2.SIFT_create(nfeatures=2000)
    image = int(found.columns["image"].values[0])
    every = one.detectAndCompute(sift._gray(cv2.imread(str(folder / f"{image}.png"), cv2.IMREAD_UNCHANGED)), None)[1]
    assert (every == rows[0]).all(axis=1).any()
    assert (found.columns["size"].values > 0).all()


class StaticStub:
    """A static model: the vector of a word does not depend on the others."""

    name = "static-stub"

    def means(self, texts: Sequence[str]) -> Any:
        table = Stub().table
        words = [[WORDS.index(word.casefold().strip(".?")) for word in text.split()] for text in texts]
        return np.stack([table[numbers].mean(axis=0) for numbers in words])


def passages_of_sentences(count: int) -> list[Passage]:
    random = np.random.default_rng(4)

    def sentence() -> str:
        words = " ".join(random.choice(WORDS, random.integers(4, 12)))
        return f"{words.capitalize()}{random.choice(['.', '?'])}"

    return [Passage(" ".join(sentence() for _ in range(3)), "Title", 19000, f"package-{at % 3}") for at in range(count)]


def test_sentences_are_rows_once_and_never_queries(tmp_path: Path) -> None:
    every = passages_of_sentences(60)
    # The same sentence in another case, of a row and of a query.
    every[30] = Passage(every[20].text.upper().replace("?", "."), "Again", 19000, "package-0")
    every[31] = Passage(every[2].text, "Query", 19000, "package-0")
    shards = Shards(tmp_path, [passage.text for passage in every], 10)
    some = Texts(Passages(every, [], {"package": "1.0"}), shards, seed=3, say=lambda _: None)
    expected = [
        (number, sentence.strip())
        for number, passage in enumerate(every[10:])
        for sentence in passage.text.replace("?", "?|").replace(".", ".|").split("|")
        if len(sentence.split()) >= 6 and number not in (20, 21)
    ]
    content = sentences.sentences_near_sentences(some, 70, StaticStub())
    vectors = [unit(StaticStub().means([sentence])[0]) for _, sentence in expected[:70]]
    np.testing.assert_allclose(rows_of(content), vectors, atol=1e-6)
    columns = {name: column.values for name, column in content.columns.items()}
    assert columns["passage"].tolist() == [number for number, _ in expected[:70]]
    assert columns["length"].tolist() == [len(sentence.split()) for _, sentence in expected[:70]]
    assert len(content.queries) == 10
    asked = [s for passage in every[:10] for s in sentences._BETWEEN.split(passage.text) if len(s.split()) >= 6]
    possible = unit(StaticStub().means(asked))
    assert all(np.abs(possible - query).max(axis=1).min() < 1e-6 for query in content.queries)
    with pytest.raises(DataError, match=f"there are {len(expected)} sentences"):
        sentences.sentences_near_sentences(some, len(expected) + 1, StaticStub())


def test_static_vectors_are_means_of_the_vectors_of_tokens() -> None:
    # The package cannot be imported: its requirements are not installed, and not needed.
    if importlib.util.find_spec(sentences.PACKAGE) is None:
        pytest.skip("wordllama is not installed")
    model = sentences.WordLlama()
    word, other, both = model.means(["house", "water", "house water"])
    assert both.shape == (256,)
    np.testing.assert_allclose(both, (word + other) / 2, atol=1e-6)
    near, same, far = unit(model.means(["How to cook rice", "Cooking rice", "The kernel's scheduler is preemptive"]))
    assert near @ same > 0.5 > 0.3 > near @ far


def test_the_model_s_graph_computes_what_its_paper_says() -> None:
    pytest.importorskip(PACKAGE)
    from pagehop_lab.data.real import model

    minilm = MiniLM(threads=1)
    long = minilm.tokens(["word " * 400])[0]
    assert (len(long), long[0], long[-1]) == (256, 101, 102)
    batch = np.stack(minilm.tokens(["A queue of requests.", "A list of numbers."]))
    weights = {
        name: values.astype(np.float64) for name, values in model.weights(model._folder() / "model.safetensors").items()
    }
    for ids, found in zip(batch, minilm.outputs(batch), strict=True):
        np.testing.assert_allclose(found, plain_bert(weights, ids), atol=1e-5)
    near, same, far = (
        unit(minilm.outputs(minilm.tokens([text])[0][None]).mean(axis=1))[0]
        for text in ["How to cook rice", "Instructions for boiling rice", "The kernel's scheduler is preemptive"]
    )
    assert near @ same > 0.6 > 0.3 > near @ far


def plain_bert(weights: dict[str, Any], ids: Tokens) -> Any:
    """BERT's encoder for one text, in float64, with a line for each formula."""
    from scipy.special import erf

    def dense(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        centered = x - x.mean(axis=-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]

    table = "embeddings.{}_embeddings.weight"
    x = weights[table.format("word")][ids] + weights[table.format("position")][: len(ids)]
    x = norm(x + weights[table.format("token_type")][0], "embeddings")
    for layer in range(6):
        at = f"encoder.layer.{layer}"
        q, k, v = (dense(x, f"{at}.attention.self.{name}").reshape(-1, 12, 32) for name in ("query", "key", "value"))
        scores = np.exp(np.einsum("ihd,jhd->hij", q, k) / np.sqrt(32))
        seen = np.einsum("hij,jhd->ihd", scores / scores.sum(axis=2, keepdims=True), v).reshape(len(ids), -1)
        x = norm(dense(seen, f"{at}.attention.output.dense") + x, f"{at}.attention.output")
        wide = dense(x, f"{at}.intermediate.dense")
        x = norm(dense(wide * (1 + erf(wide / np.sqrt(2))) / 2, f"{at}.output.dense") + x, f"{at}.output")
    return x


def test_every_set_has_a_maker_and_five_thousand_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_by: list[tuple[str, dict[str, Any]]] = []

    def recording(maker: str) -> Any:
        def record(*_: Any, **more: Any) -> Content:
            made_by.append((maker, more))
            return content()

        return record

    for module, maker in [
        (texts, "passages_near_passages"), (texts, "passages_near_titles"), (texts, "tokens_near_tokens"),
        (texts, "topics"), (sentences, "sentences_near_sentences"), (sift, "descriptors"),
    ]:  # fmt: skip
        monkeypatch.setattr(module, maker, recording(maker))
    monkeypatch.setattr(texts, "read", lambda *_: None)
    for name in NAMES:
        assert command.make(name, tmp_path, 500, 1, lambda _: None) == tmp_path / f"{name}-500"
    assert made_by == [
        ("passages_near_passages", {}), ("passages_near_titles", {}), ("tokens_near_tokens", {}),
        ("topics", {"dim": 1024}), ("topics", {"dim": 1536}), ("sentences_near_sentences", {}), ("descriptors", {}),
    ]  # fmt: skip
    assert embedding.SHARD == sift.QUERIES == 5000
