"""The rooms of the lab point one way, and everything in them is at home there."""

from __future__ import annotations

import re
from pathlib import Path

from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.plan.model import SUITES
from pagehop_lab.plan.servers import SUITES as SERVER_SUITES
from pagehop_lab.report.write import SERVER_SUITES as SERVERS_REPORTED
from pagehop_lab.report.write import SUITES as REPORTED
from pagehop_lab.run import environments

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
    "suites": {"analysis"},
    "report": {"analysis", "engines", "plan", "store", "suites"},
}  # fmt: skip
# Libraries are loaded by the process that holds an engine, when it is wanted, and by nothing else.
_LIBRARIES = re.compile(
    r"^(?:import|from) (?:faiss|hnswlib|usearch|svs|diskannpy|scann|lancedb|sqlite_vec|psycopg|pagehop)\b"
)


def test_rooms_point_one_way() -> None:
    assert {path.name for path in LAB.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(MAY_IMPORT)
    for room, allowed in MAY_IMPORT.items():
        for path in sorted((LAB / room).glob("*.py")):
            imported = set(re.findall(r"^\s*from pagehop_lab\.(\w+)", path.read_text(), re.MULTILINE))
            imported |= set(re.findall(r"^\s*from pagehop_lab import (\w+)", path.read_text(), re.MULTILINE))
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


def test_every_suite_of_a_plan_has_a_report() -> None:
    assert set(SUITES) == set(REPORTED)
    assert set(SERVER_SUITES) == set(SERVERS_REPORTED)
    assert not set(SUITES) & set(SERVER_SUITES)
