"""Rules for Python sources: imports point one way, and functions and files are short.

`crates/pagehop-engine/tests/house` has the same rules for Rust, and `lab/tests/test_rooms.py` those
of the lab's rooms.
"""

from __future__ import annotations

import ast
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

DOCUMENTS = "documents"
"""Stands for the modules in `docs/`, which are not a package."""

MAY_IMPORT = {
    "python/pagehop": set(),
    "python/tests": {DOCUMENTS},
    "servers": set(),
    "postgres/tests": {"devserver", DOCUMENTS},
    "lab/pagehop_lab": {"pagehop", "devserver"},
    "lab/tests": {"devserver", DOCUMENTS},
    "lab/ann-benchmarks": {"pagehop"},
    "release": {"devserver"},
    "release/tries": {"pagehop"},
    "docs": {DOCUMENTS, "pagehop_lab"},
    "adapters": {"devserver", "private_server"},
    "adapters/documents": {"pagehop"},
    "adapters/langchain": {"pagehop", "pagehop_documents"},
    "adapters/llama-index": {"pagehop", "pagehop_documents"},
    "adapters/sqlalchemy": set(),
    "adapters/sqlalchemy/tests": {"devserver"},
    "adapters/django": set(),
    "adapters/django/tests": {"devserver"},
    "examples": {"private_server"},
    "examples/debian-search": {"pagehop", "pagehop_documents"},
    "examples/debian-search/tests": {"devserver"},
    "examples/migrate": {"pagehop", "pagehop_documents"},
    "examples/migrate/tests": {"pagehop", "pagehop_documents", "devserver"},
}
"""The packages of this repository that the sources in a folder may import, besides the one that the
project in this folder makes. A source has the line of the innermost folder. The table says what the
picture in ARCHITECTURE shows.
"""


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
        paths = (REPOSITORY / folder).rglob("*.py")
        yield from sorted(path for path in paths if not {"build", "node_modules"} & set(path.parts))


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


def test_every_source_says_what_it_is() -> None:
    sources = {path: path.read_text() for path in tracked()}
    # Several packages have an empty `__init__.py`.
    assert [path for path, source in sources.items() if source and not ast.get_docstring(ast.parse(source))] == []


def our_packages() -> dict[str, str]:
    """Our packages, and our modules that are in none, by what they are imported as."""
    names = {package: package for packages in ROOTS.values() for package in packages}
    # The libraries have packages of other people, too.
    names["llama_index.vector_stores.pagehop"] = names.pop("llama_index")
    names |= {path.stem: DOCUMENTS for path in (REPOSITORY / "docs").glob("*.py")}
    return names | {"private_server": "private_server"}


def all_imported(source: str) -> set[str]:
    """The full names of modules that `source` imports, and of what it imports from them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "importorskip", "__import__"):
                found.add(str(node.args[0].value))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pagehop":
            found.add(f"pagehop.{node.attr}")
    return found


def breaches(path: str, source: str, ours: dict[str, str], public: set[str]) -> list[str]:
    """What `source` may not import, from other packages of this repository."""
    folders = [folder for folder in MAY_IMPORT if path.startswith(f"{folder}/")]
    if not folders:
        return ["no line says what it may import"]
    folder = max(folders, key=len)
    found = []
    for name in sorted(all_imported(source)):
        package = next((ours[one] for one in ours if name == one or name.startswith(f"{one}.")), None)
        own = [root for root, packages in ROOTS.items() if package in packages]
        if package is None or any(path.startswith(f"{root}/") for root in own):
            continue
        parts = name.split(".")[1:]
        if package not in MAY_IMPORT[folder]:
            found.append(f"{folder} may not import {name}")
        elif package == "pagehop" and path.startswith("python/"):
            continue
        elif any(part.startswith("_") for part in parts) or (package == "pagehop" and not set(parts) <= public):
            found.append(f"{name} is not public")
    return found


def public_names() -> set[str]:
    """The names that the Python package shows to users."""
    tree = ast.parse((REPOSITORY / "python/pagehop/__init__.py").read_text())
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return set(ast.literal_eval(lists[0]))


def test_packages_import_each_other_as_the_picture_shows() -> None:
    ours, public = our_packages(), public_names()
    found = {}
    for path in tracked():
        name = path.relative_to(REPOSITORY).as_posix()
        if wrong := breaches(name, path.read_text(), ours, public):
            found[name] = wrong
    assert found == {}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("lab/pagehop_lab/engines/a.py", "def f():\n    from pagehop.conditions import as_filter"),
        ("lab/pagehop_lab/engines/a.py", "import pagehop\npagehop.conditions.as_filter(1)"),
        ("adapters/documents/pagehop_documents/a.py", "import pagehop_lab"),
        ("adapters/sqlalchemy/sqlalchemy_pagehop/a.py", "import pagehop"),
        ("python/pagehop/a.py", "import devserver.cluster"),
        ("release/pagehop_release/a.py", "from pagehop_lab.analysis import intervals"),
        ("docs/a.py", "from devserver import Cluster"),
        ("examples/migrate/a.py", "importlib.import_module('pagehop._pagehop')"),
        ("servers/devserver/a.py", "from pagehop import Index"),
        ("lab/tests/a.py", "from devserver import _private"),
        ("lab/tests/a.py", "from llama_index.vector_stores.pagehop import PagehopVectorStore"),
        ("elsewhere/a.py", ""),
    ],
)
def test_an_import_against_the_picture_is_found(path: str, source: str) -> None:
    assert len(breaches(path, source, our_packages(), public_names())) == 1


def test_architecture_has_a_line_for_every_room() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text()
    table = text[text.index("## The rooms") : text.index("## What a crate must not know")]
    rooms = [path.parent for path in REPOSITORY.glob("crates/*/Cargo.toml")]
    rooms += [REPOSITORY / folder.split("/")[0] for folder in ROOTS]
    names = {str(room.relative_to(REPOSITORY)) for room in rooms if room.exists()}
    assert len(names) > 10
    assert [name for name in sorted(names) if f"| `{name}/" not in table] == []
