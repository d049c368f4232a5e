"""Rules for Python sources: imports point one way, and functions and files are short.

`crates/pagehop-engine/tests/house` has the same rules for Rust, and `lab/tests/test_rooms.py` those
of the lab's rooms.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks import REPOSITORY

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

ROOTS = {
    "python": ["pagehop"],
    "postgres": [],
    "servers": ["devserver"],
    "lab": ["pagehop_lab"],
    "release": ["pagehop_release"],
    "adapters/documents": ["pagehop_documents"],
    "adapters/langchain": ["langchain_pagehop"],
    "adapters/llama-index": ["llama_index"],
    "adapters/sqlalchemy": ["sqlalchemy_pagehop"],
    "adapters/django": ["django_pagehop"],
    "examples/debian-search": ["debian_search"],
}
"""Folders of packages, and the packages in each."""

ABOVE = ["lab", "servers", "adapters", "examples"]
"""Folders that use the Python package by its public names only."""


def modules() -> dict[str, Path]:
    """The source of every module, by the name of its import."""
    found = {}
    for folder, packages in ROOTS.items():
        root = REPOSITORY / folder
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, source: str, known: dict[str, Path], *, is_package: bool = False) -> set[str]:
    """The modules of `known` that `source`, the source of module `name`, imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = name.split(".") if is_package else name.split(".")[:-1]
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            whole = {alias.name: f"{base}.{alias.name}" for alias in node.names}
            # An imported name is a module, or defined in `base`. The compiled module has no source.
            found |= {path if path in known else base for name, path in whole.items() if name != "_pagehop"}
    return {module for module in found if module in known and module != name}


def circles(imports: dict[str, set[str]]) -> set[str]:
    """The modules that import themselves through other modules."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        coming = list(imports[start])
        while coming:
            module = coming.pop()
            if module not in found:
                found.add(module)
                coming += imports[module]
        return found

    return {module for module in imports if module in reached(module)}


def tracked() -> Iterator[Path]:
    """Every Python source of the repository."""
    for folder in sorted({folder.split("/")[0] for folder in ROOTS} | {"docs"}):
        yield from sorted(path for path in (REPOSITORY / folder).rglob("*.py") if "node_modules" not in path.parts)


def test_no_module_imports_itself_over_others() -> None:
    known = modules()
    imports = {
        name: imported(name, path.read_text(), known, is_package=path.name == "__init__.py")
        for name, path in known.items()
    }
    assert sum(map(len, imports.values())) > len(known)
    assert circles(imports) == set()


def test_circles_are_found() -> None:
    known = {name: Path(name) for name in ["a", "a.b", "a.c", "d"]}
    assert imported("a.b", "from a import c, e\nimport d, os", known) == {"a", "a.c", "d"}
    assert imported("a", "from .b import x", known, is_package=True) == {"a.b"}
    assert imported("a.b", "def f():\n    from . import c", known) == {"a.c"}
    assert circles({"a": {"a.b"}, "a.b": {"a.c"}, "a.c": {"a.b"}, "d": set()}) == {"a.b", "a.c"}


def test_functions_and_files_stay_short() -> None:
    long = []
    for path in tracked():
        source = path.read_text()
        if source.count("\n") > FILE_LINES_MAX:
            long.append(f"{path}: {source.count(chr(10))} lines")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path}: {node.name} has {lines} lines")
    assert long == []


@pytest.mark.parametrize("folder", ABOVE)
def test_what_is_above_the_package_uses_only_the_package(folder: str) -> None:
    inside = re.compile(r"^\s*(?:from pagehop(?:\._pagehop)? import _|from pagehop\._|import pagehop\._)", re.MULTILINE)
    found = [path for path in (REPOSITORY / folder).rglob("*.py") if inside.search(path.read_text())]
    assert found == []


def test_architecture_has_a_line_for_every_room() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text()
    table = text[text.index("## The rooms") : text.index("## Rules of absence")]
    rooms = [path.parent for path in REPOSITORY.glob("crates/*/Cargo.toml")]
    rooms += [REPOSITORY / folder.split("/")[0] for folder in ROOTS]
    names = {str(room.relative_to(REPOSITORY)) for room in rooms if room.exists()}
    assert len(names) > 10
    assert [name for name in sorted(names) if f"| `{name}/" not in table] == []
