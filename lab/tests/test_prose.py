"""Passages: which parts of a page are prose, and in which order the passages of packages come."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pagehop_lab.data import DataError
from pagehop_lab.data.real import passages, prose, sources

FIRST = (
    "The scheduler takes the next request from the queue and gives it to the device that has been idle for the longest "
    "time, unless the request is for another one."
)
SECOND = (
    "A request that could not be answered is put at the end of the queue, and it is taken again when all of the others "
    "have been answered or refused."
)
THIRD = (
    "If there is no device that could take the request, then the driver waits until one of them is ready, and it does "
    "not try to find another way."
)
GERMAN = (
    "Der Treiber nimmt die nächste Anfrage aus der Warteschlange und gibt sie an das Gerät weiter, das am längsten "
    "nichts zu tun hatte, es sei denn, die Anfrage gilt einem anderen."
)
PAGE = f"""<html><head><title>{SECOND}</title></head><body>
<nav><p>{SECOND}</p></nav>
<h2>3.1. Queues of a device<a class="headerlink">¶</a></h2>
<div class="block">{FIRST}<br>It is <code>O(1)</code>.<pre>{SECOND}</pre></div>
<table><tr><td>{SECOND}</td></tr></table>
<dl><dt>{SECOND}</dt><dd>{THIRD.replace("driver", "<b>driver</b>")}</dd></dl>
<!-- {SECOND} --><p>{GERMAN}</p><p>Too short to be a passage.</p></body></html>"""


def test_prose_is_found_with_its_heading_and_nothing_else_is() -> None:
    found = list(prose.paragraphs(PAGE.encode()))
    assert [one.text for one in found] == [f"{FIRST} It is O(1).", THIRD]
    assert {one.title for one in found} == {"Queues of a device"}


@pytest.mark.parametrize(
    "text",
    [
        " ".join(FIRST.split()[:19]) + ".",
        " ".join([FIRST] * 5),
        FIRST.rstrip("."),
        FIRST[0].lower() + FIRST[1:],
        "The values " + ", ".join(f"queue_depth_{number}" for number in range(30)) + " are known.",
        "See " + ", ".join(["Anderson", "Brown", "Clark", "Davis", "Evans", "Fisher", "Green"] * 4) + ".",
        "",
    ],
)
def test_what_is_no_paragraph_of_sentences_is_refused(text: str) -> None:
    assert not prose.is_prose(text)
    assert prose.is_prose(FIRST)


@pytest.mark.parametrize("page", [b"", b"<", b"\xff\xfe", b"<p>" * 3000 + FIRST.encode()])
def test_broken_pages_give_no_error(page: bytes) -> None:
    assert len(list(prose.paragraphs(page))) <= 1


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("4.12.3 Queues", "Queues"), ("Chapter 7. Queues", "Queues"), ("Appendix B: Queues", "Queues"),
        ("A.1 Queues", "Queues"), ("IV. Queues", "Queues"), ("A queue", "A queue"), ("3D queues", "3D queues"),
    ],
)  # fmt: skip
def test_the_number_of_a_section_is_no_part_of_its_title(heading: str, title: str) -> None:
    page = f"<h3>{heading}</h3><p>{FIRST}"
    assert [one.title for one in prose.paragraphs(page.encode())] == [title]


def test_titles_are_some_plain_words() -> None:
    assert [prose.is_title(title) for title in ["Queues of a device", "queue_depth()", "Queues", ""]] == [
        True, False, False, False,
    ]  # fmt: skip


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """The packages that the fake apt knows, each with its pages by name."""
    known: dict[str, dict[str, str]] = {
        "one-doc": {"b.html": f"<h1>Of one</h1><p>{FIRST}", "a.html": f"<p>{SECOND}", "a_source.html": f"<p>{THIRD}"},
        "two-doc": {"c.html": f"<p>{SECOND.upper()[0]}{SECOND[1:].replace(',', '')}<p>{THIRD}"},
    }

    def run(command: list[str], folder: Path, package: str) -> None:
        if command[0] == "apt-get":
            (folder / f"{package}.deb").touch()
            return
        for name, page in known[package].items():
            path = Path(command[-1]) / "usr/share/doc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page)
            os.utime(path, (86400 * 19000, 86400 * 19000))

    def version(package: str) -> str:
        if package not in known:
            raise DataError(f"apt does not know {package}")
        return "1:2.0"

    monkeypatch.setattr(sources, "_run", run)
    monkeypatch.setattr(sources, "version", version)
    return known


def collect(folder: Path, seed: int = 1) -> passages.Passages:
    return passages.collect(folder, ["one-doc", "two-doc"], seed, lambda _: None)


def test_the_same_text_is_taken_once_with_what_is_known_of_it(tmp_path: Path, packages: Any) -> None:
    del packages
    found = collect(tmp_path)
    assert {p.text: (p.title, p.day, p.package) for p in found.all} == {
        FIRST: ("Of one", 19000, "one-doc"), SECOND: ("", 19000, "one-doc"), THIRD: ("", 19000, "two-doc"),
    }  # fmt: skip
    assert found.titles == ["Of one"]
    assert found.versions == {"one-doc": "1%3a2.0", "two-doc": "1%3a2.0"}


def test_a_package_is_read_once_and_a_newer_version_changes_nothing(
    tmp_path: Path, packages: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = collect(tmp_path)
    packages.clear()
    monkeypatch.setattr(sources, "version", lambda _: "3.0")
    assert collect(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}-doc_1%3a2.0.rules-{prose.RULES}.jsonl" for name in ("one", "two")
    }  # fmt: skip


def test_pages_are_read_again_by_other_rules(
    tmp_path: Path, packages: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(tmp_path)
    (tmp_path / "one-doc_1%3a2.0.jsonl").write_text("of a time before rules had a version\n")
    packages["one-doc"] = {"a.html": f"<h1>Another title</h1><p>{SECOND}"}
    monkeypatch.setattr(passages, "RULES", prose.RULES + 1)
    assert collect(tmp_path).titles == ["Another title"]
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {f"{name}-doc_1%3a2.0.rules-{prose.RULES + 1}.jsonl" for name in ("one", "two")}


def test_a_package_that_apt_does_not_know_is_named(tmp_path: Path, packages: dict[str, dict[str, str]]) -> None:
    del packages["two-doc"]
    with pytest.raises(DataError, match="two-doc"):
        collect(tmp_path)


def test_the_seed_decides_the_order_and_the_texts_the_checksum(tmp_path: Path, packages: Any) -> None:
    del packages
    orders = {tuple(p.text for p in collect(tmp_path, seed).all) for seed in range(1, 50)}
    assert len(orders) == 6
    assert collect(tmp_path, 3) == collect(tmp_path, 3)
    assert len({passages.checksum(order) for order in orders}) == 6
