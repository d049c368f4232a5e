"""The version of a repository: its places, its release, and the beginning of the next one."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from devserver.errors import DevServerError
from devserver.folder import REPOSITORY
from pagehop_release import pgxn, versions

CHANGES = "# Changelog\n\n## Unreleased\n\n### Added\n\n- Something.\n\n## 0.0.9, 2026-01-01\n\n### Fixed\n\n- Other.\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A new repository with copies of all files that contain the version."""
    for pattern in [*versions._PLACES, "postgres/sql/*.sql"]:
        for path in REPOSITORY.glob(pattern):
            copy = tmp_path / path.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    git(tmp_path, "init", "--quiet")
    for name, said in {"user.name": "Test", "user.email": "test@localhost", "commit.gpgsign": "false"}.items():
        git(tmp_path, "config", name, said)
    commit(tmp_path)
    return tmp_path


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout


def commit(repository: Path) -> None:
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "All")


def of_cargo(manifest: Path) -> str:
    content = tomllib.loads(manifest.read_text())
    found = content.get("workspace", {}).get("package", content.get("package"))
    return str(found["version"])


def test_everything_has_one_version() -> None:
    version = versions.current(REPOSITORY)
    for path in [REPOSITORY / "Cargo.toml", *REPOSITORY.glob("*/Cargo.toml")]:
        if "version.workspace" not in path.read_text():
            assert of_cargo(path) == version, path
    for path in [*REPOSITORY.glob("adapters/*/pyproject.toml"), REPOSITORY / "lab/pyproject.toml"]:
        assert tomllib.loads(path.read_text())["project"]["version"] == version, path
    described = json.loads((REPOSITORY / "postgres/META.json").read_text())
    [provided] = described["provides"].values()
    assert described["version"] == provided["version"] == version
    assert all((REPOSITORY / provided[name]).exists() for name in ["file", "docfile"])


def test_a_release_is_a_dated_changelog_and_a_tag(repository: Path) -> None:
    version = versions.current(repository)
    assert versions.tag(repository) == f"v{version}"
    dated = git(repository, "log", "-1", "--format=%cs").strip()
    said = (repository / "CHANGELOG.md").read_text()
    assert said == CHANGES.replace("## Unreleased", f"## {version}, {dated}")
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "rev-list", "-1", f"v{version}") == git(repository, "rev-parse", "HEAD")
    message = git(repository, "tag", "--list", "--format=%(contents)", f"v{version}")
    assert message.strip() == f"Pagehop {version}\n\n### Added\n\n- Something."


def test_a_release_is_made_once_and_of_all_that_changed(repository: Path) -> None:
    (repository / "Cargo.toml").write_text("")
    with pytest.raises(DevServerError, match="not committed"):
        versions.tag(repository)
    git(repository, "checkout", "--quiet", ".")
    versions.tag(repository)
    with pytest.raises(DevServerError, match=r"v0\.\d+\.0 is tagged already: `./dev release version"):
        versions.tag(repository)
    git(repository, "tag", "--delete", f"v{versions.current(repository)}")
    with pytest.raises(DevServerError, match="has no changes under '## Unreleased'"):
        versions.tag(repository)


def test_the_next_version_is_written_everywhere(repository: Path) -> None:
    old = versions.current(repository)
    with pytest.raises(DevServerError, match=f"{old} is not released, so its number stays"):
        versions.begin(repository, "9.8.7")
    versions.tag(repository)
    script = (repository / f"postgres/sql/pagehop--{old}.sql").read_text()
    changed = versions.begin(repository, "9.8.7")
    assert repository / "Cargo.lock" in changed
    assert versions.current(repository) == "9.8.7"
    for path in changed:
        if path.suffix in {".lock", ".toml", ".control", ".json"}:
            assert old not in "".join(line for line in path.read_text().splitlines() if "pagehop" in line), path
    assert of_cargo(repository / "Cargo.toml") == of_cargo(repository / "postgres/Cargo.toml") == "9.8.7"
    locked = tomllib.loads((repository / "Cargo.lock").read_text())["package"]
    assert {one["version"] for one in locked if one["name"].startswith("pagehop")} == {"9.8.7"}
    assert (repository / "postgres/sql/pagehop--9.8.7.sql").read_text() == script
    assert (repository / f"postgres/sql/pagehop--{old}.sql").read_text() == script
    assert "ALTER EXTENSION pagehop UPDATE" in (repository / f"postgres/sql/pagehop--{old}--9.8.7.sql").read_text()
    assert (repository / "CHANGELOG.md").read_text().startswith(f"# Changelog\n\n## Unreleased\n\n## {old}, ")


@pytest.mark.parametrize("new", ["0.0.1", "1", "1.0.0-rc1", "v1.0.0", ""])
def test_a_version_that_is_none_is_refused(repository: Path, new: str) -> None:
    with pytest.raises(DevServerError, match=f"'{new}' is not a version after"):
        versions.begin(repository, new)


def test_sources_for_pgxn_are_the_same_each_time(tmp_path: Path) -> None:
    first, second = (pgxn.build(tmp_path / name).read_bytes() for name in ["a", "b"])
    assert first == second
    name = f"pagehop-{versions.current(REPOSITORY)}"
    with zipfile.ZipFile(tmp_path / f"a/{name}.zip") as opened:
        there = set(opened.namelist())
        described = json.loads(opened.read(f"{name}/META.json"))
        assert b"$(MAKE) -C postgres" in opened.read(f"{name}/Makefile")
    [provided] = described["provides"].values()
    wanted = {provided["file"], provided["docfile"], "LICENSE", "Cargo.toml", "crates/pagehop-engine/src/lib.rs"}
    assert {f"{name}/{file}" for file in wanted} <= there
    assert not any(path.startswith(f"{name}/lab/pagehop_lab") for path in there)
