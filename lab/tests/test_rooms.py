"""The rooms of the lab import each other in one direction, and each file is in its room."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.run import environments
from pagehop_lab.suites import catalog

LAB = Path(__file__).parents[1] / "pagehop_lab"

MAY_IMPORT = {
    "analysis": set(),
    "machine": set(),
    "published": {"analysis"},
    "store": set(),
    "engines": {"machine", "analysis"},
    "data": {"analysis"},
    "plan": {"analysis", "data", "engines"},
    "measure": {"machine", "analysis", "data", "engines"},
    "run": {"machine", "analysis", "data", "engines", "measure", "plan", "store"},
    "suites": {"analysis", "machine", "data", "engines", "measure", "plan", "run", "store"},
    "report": {"store", "suites"},
    "site": {"analysis", "engines", "plan", "published", "report", "store", "suites"},
}  # fmt: skip
# Only the process of an engine imports these libraries, and only when it needs them.
_LIBRARIES = re.compile(
    r"^(?:import|from) (?:faiss|hnswlib|usearch|svs|diskannpy|scann|lancedb|sqlite_vec|psycopg|pagehop)\b"
)


def rooms_imported(source: str) -> set[str]:
    """The rooms and files of the lab that `source` imports."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("pagehop_lab.")}


def test_rooms_that_are_imported_are_found() -> None:
    source = (
        "import pagehop_lab.run.worker\ndef f():\n    from pagehop_lab import (\n        plan,\n        site,\n    )"
    )
    assert rooms_imported(source + "\nfrom pagehop_lab.data.real import sets") == {"run", "plan", "site", "data"}


def test_rooms_point_one_way() -> None:
    assert {path.name for path in LAB.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(MAY_IMPORT)
    for room, allowed in MAY_IMPORT.items():
        for path in sorted((LAB / room).rglob("*.py")):
            imported = rooms_imported(path.read_text())
            assert imported <= allowed | {room}, f"{path.name}: {room} may not import {imported - allowed - {room}}"


def test_no_library_of_an_engine_is_loaded_before_it_is_wanted() -> None:
    for path in LAB.rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not _LIBRARIES.match(line), f"{path.name}: {line}"


def test_files_and_names_are_as_the_house_wants_them() -> None:
    for path in LAB.rglob("*.py"):
        assert path.stem not in {"utils", "helpers", "misc"}
        assert len(path.read_text().splitlines()) <= 500, path.name


def test_every_engine_has_an_environment_and_says_where_its_settings_come_from() -> None:
    for name, engine in CATALOG.items():
        about = engine.description
        assert about.environment in environments.NAMES, name
        assert about.source
        assert all(values for values in about.search.values()), name
        assert len(list((LAB / "engines").glob("*.py"))) > len(CATALOG)


def test_every_suite_is_a_folder_with_its_tables_and_its_name() -> None:
    folders = {path.name.replace("_", "-") for path in (LAB / "suites").iterdir() if (path / "tables.py").exists()}
    assert folders == set(catalog.SUITES)
    assert all(name == suite.name for name, suite in catalog.SUITES.items())


def test_the_package_that_pip_installs_has_every_folder() -> None:
    listed = tomllib.loads((LAB.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in LAB.rglob("*.py")} - {LAB / "__pycache__"}
    names = {".".join(folder.relative_to(LAB.parent).parts) for folder in folders}
    assert set(listed) == names | {"devserver", "pagehop_lab.locks"}
