"""Plain English outside of Rust: comments wrap, and words that CONTRIBUTING bans do not occur.

This covers Python, shell, SQL, Lua, TOML, requirements and documents. Rust has the same rules in
`crates/pagehop-engine/tests/language.rs`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blocks import REPOSITORY

COLUMNS_MAX = 100
LIST_OF_WORDS = re.compile(r"- Words that we do not use: ([^.]*)\.")

MARKS = {
    "#": ["dev", "run", "Makefile", "Dockerfile", "*.sh", "*.toml", "*.in", "*.control"],
    "--": ["*.sql", "*.lua"],
    "//": ["*.js"],
}
"""The beginning of a comment, with the files that use it."""

MADE = ["target", "postgres/target", "dist", "data", "lab-runs", "lab/build", "lab/results"]
"""Folders of generated files, and of results, which must not change after the measurement."""
MADE_ANYWHERE = re.compile(r"__pycache__|node_modules|.*\.egg-info")
OURS = [".cargo", ".ci"]
"""Hidden folders with files that are written by hand."""

NAMES = {
    "servers/devserver/processes.py": {"nobody"},  # a user of the operating system
    "lab/pagehop_lab/data/real/sources.py": {"mate"},  # a part of a package's name
}
"""Banned words that are parts of names, by file."""


def files() -> Iterator[Path]:
    """Every file that is written by hand, folder by folder."""
    yield REPOSITORY / "lab/results/README.md"
    folders = [REPOSITORY]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if not path.is_dir():
                yield path
            elif not path.is_symlink() and not is_left_out(path):
                folders.append(path)


def is_left_out(folder: Path) -> bool:
    name = str(folder.relative_to(REPOSITORY))
    is_hidden = folder.name.startswith(".") and name not in OURS
    return is_hidden or name in MADE or MADE_ANYWHERE.fullmatch(folder.name) is not None


def comment_lines(path: Path, source: str) -> list[int]:
    """Numbers, from 1 on, of the lines of `source` that have a comment or documentation."""
    if path.suffix in (".py", ".pyi"):
        return sorted({*python_comments(source), *python_documentation(source)})
    marks = tuple(mark for mark, patterns in MARKS.items() if any(path.match(pattern) for pattern in patterns))
    lines = enumerate(source.splitlines(), start=1)
    return [number for number, line in lines if marks and line.lstrip().startswith(marks)]


def python_comments(source: str) -> Iterator[int]:
    """Numbers of lines with a comment that is prose, not an instruction to a tool."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|type:|fmt:)", token.string):
            yield token.start[0]


def python_documentation(source: str) -> Iterator[int]:
    """Numbers of lines of strings that are statements: of modules, classes, functions, constants,
    fields.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def wide(path: Path, source: str) -> list[int]:
    """Numbers of lines that have a comment and are too long, except for lines with a link."""
    lines = source.splitlines()
    return [
        number
        for number in comment_lines(path, source)
        if len(lines[number - 1]) > COLUMNS_MAX and "://" not in lines[number - 1]
    ]


def banned() -> set[str]:
    """The words that CONTRIBUTING bans."""
    found = LIST_OF_WORDS.search((REPOSITORY / "CONTRIBUTING.md").read_text())
    assert found
    return {word.strip() for word in found.group(1).split(",")}


def banned_words(text: str, words: set[str]) -> list[str]:
    """The banned words in `text`, in order, also with an `s` at the end. Parts of a name are words,
    too.
    """
    found, before = [], ""
    for word in re.findall("[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()):
        if word in words or word.removesuffix("s") in words or (before, word) == ("so", "many"):
            found.append(word)
        before = word
    return found


def prose(text: str) -> str:
    """The text of a document without code, tables and the list of banned words."""
    text = re.sub(r"^```.*?^```|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return LIST_OF_WORDS.sub("", re.sub("`[^`]*`", "", text))


def read(chosen: Callable[[Path], bool]) -> dict[str, str]:
    """The texts of the chosen files, by their paths in the repository."""
    return {str(path.relative_to(REPOSITORY)): path.read_text() for path in files() if chosen(path)}


def has_comments(path: Path) -> bool:
    patterns = [pattern for patterns in MARKS.values() for pattern in patterns]
    return path.suffix in (".py", ".pyi") or any(path.match(pattern) for pattern in patterns)


def test_comments_and_documentation_wrap() -> None:
    sources = read(has_comments)
    for sure in ["dev", ".ci/run", ".cargo/config.toml", "postgres/sql/pagehop--0.1.0.sql", "lab/plans/bench.toml"]:
        assert comment_lines(Path(sure), sources[sure]), sure
    found = [f"{name}:{line}" for name, source in sources.items() for line in wide(Path(name), source)]
    assert found == []


def test_words_that_we_do_not_use_are_not_used() -> None:
    words = banned()
    assert len(words) > 8
    sources = read(lambda path: has_comments(path) or path.suffix == ".md")
    del sources[str(Path(__file__).relative_to(REPOSITORY))]
    found = []
    for name, source in sources.items():
        text = prose(source) if name.endswith(".md") else source
        found += [f"{name}: {word}" for word in banned_words(text, words - NAMES.get(name, set()))]
    assert found == []


@pytest.mark.parametrize("folder", ["adapters", "docs", "examples", "lab", "postgres", "python", "release", "servers"])
def test_no_folder_is_left_out(folder: str) -> None:
    read_here = [name for name in read(has_comments) if name.startswith(f"{folder}/")]
    assert len(read_here) > 1
    assert not any("/results/" in name or "/target/" in name for name in read_here)


def test_the_rules_find_what_they_ban() -> None:
    x = "x" * COLUMNS_MAX
    python = f'# {x}\ny = """\n# {x}\n"""\n"""Text\n {x}\n"""\ny = 1  # {x}\ny = "{x}"  # noqa: A001\n# https://{x}'
    assert wide(Path("a.py"), python) == [1, 6, 8]
    assert wide(Path("a.toml"), f"# {x}\nkey = '{x}'") == wide(Path("dev"), f"  ## {x}\n{x}") == [1]
    assert wide(Path("a.sql"), f"SELECT '{x}';\n-- {x}") == [2]
    assert wide(Path("a.rs"), f"// {x}") == []
    words = {"heir", "ward", "mate"}
    assert banned_words("let heirs = 1; # Not so\n# many. Estimates, forward, class WardOf", words) == [
        "heirs", "many", "ward",
    ]  # fmt: skip
    assert banned_words(prose("a `ward`\n| mate |\n```\nheir\n```\n- Words that we do not use: heir."), words) == []
    assert banned_words(prose("```\nx\n```\na ward"), words) == ["ward"]
