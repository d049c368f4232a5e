"""The version of the project: one number in all manifests, a changelog section and a tag."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from devserver.errors import DevServerError
from devserver.processes import run

_UNRELEASED = "## Unreleased"
_VERSION = re.compile(r"\d+\.\d+\.\d+")

# Files, with the pattern of the text before the version.
_PLACES = {
    "Cargo.toml": r'(?:version = |pagehop-\w+ = \{ version = )"',
    "postgres/Cargo.toml": r'version = "',
    "Cargo.lock": r'name = "pagehop[\w-]*"\nversion = "',
    "postgres/Cargo.lock": r'name = "pagehop[\w-]*"\nversion = "',
    "postgres/pagehop.control": r"default_version = '",
    "postgres/META.json": r' +"(?:version": "|file": "postgres/sql/pagehop--)',
    "lab/pyproject.toml": r'version = "',
    "adapters/*/pyproject.toml": r'version = "',
}


def current(repository: Path) -> str:
    """The version in the extension's control file."""
    control = repository / "postgres/pagehop.control"
    found = re.search(r"^default_version = '(.+)'$", control.read_text(), re.MULTILINE)
    if not found:
        raise DevServerError(f"{control} names no default_version")
    return found[1]


def begin(repository: Path, new: str) -> list[Path]:
    """Begins work on version `new`, once the current one is tagged. Returns the changed files.

    The SQL script of a released version does not change. The new version gets a copy of it, and an
    empty update script, to which every later difference must be added.
    """
    old = current(repository)
    if not _VERSION.fullmatch(new) or _numbers(new) <= _numbers(old):
        raise DevServerError(f"'{new}' is not a version after {old}, such as {_next(old)}")
    if not run(["git", "tag", "--list", f"v{old}"], cwd=repository).strip():
        raise DevServerError(f"{old} is not released, so its number stays: `./dev release tag` releases it")
    texts = {
        path: _replaced(path, before, old, new)
        for pattern, before in _PLACES.items()
        for path in sorted(repository.glob(pattern))
    }
    scripts = repository / "postgres/sql"
    texts[scripts / f"pagehop--{new}.sql"] = (scripts / f"pagehop--{old}.sql").read_text()
    texts[scripts / f"pagehop--{old}--{new}.sql"] = (
        f"-- What ALTER EXTENSION pagehop UPDATE changes from {old} to {new}.\n\n"
        '\\echo Use "ALTER EXTENSION pagehop UPDATE" to load this file. \\quit\n'
    )
    changelog = repository / "CHANGELOG.md"
    texts[changelog] = changelog.read_text().replace("\n## ", f"\n{_UNRELEASED}\n\n## ", 1)
    for path, text in texts.items():
        path.write_text(text)
    return sorted(texts)


def tag(repository: Path) -> str:
    """Dates this version in the changelog, commits that and tags the commit. Returns the tag's
    name.

    The tag's message is the version's section of the changelog. Nothing is pushed.
    """
    if run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=repository).strip():
        raise DevServerError("there are changes that are not committed: commit them, then tag")
    version = current(repository)
    name = f"v{version}"
    if run(["git", "tag", "--list", name], cwd=repository).strip():
        raise DevServerError(f"{name} is tagged already: `./dev release version {_next(version)}` begins the next one")
    changelog = repository / "CHANGELOG.md"
    before, heading, after = changelog.read_text().partition(f"{_UNRELEASED}\n")
    changes = after.split("\n## ", 1)[0].strip()
    if not heading or not changes:
        raise DevServerError(f"{changelog} has no changes under '{_UNRELEASED}'")
    dated = f"## {version}, {datetime.datetime.now(datetime.UTC).date()}\n"
    changelog.write_text(f"{before}{dated}{after}")
    run(["git", "commit", "--quiet", "--message", f"Release {version}", "CHANGELOG.md"], cwd=repository)
    # Headings of the changelog begin with `#`, which git would remove as a comment.
    message = f"Pagehop {version}\n\n{changes}\n"
    run(["git", "tag", "--annotate", "--cleanup=verbatim", "--message", message, name], cwd=repository)
    return name


def _replaced(path: Path, before: str, old: str, new: str) -> str:
    place = re.compile(rf"^({before}){re.escape(old)}(?=[\"'.])", re.MULTILINE)
    text, count = place.subn(rf"\g<1>{new}", path.read_text())
    if not count:
        raise DevServerError(f"{path} does not have the version {old}")
    return text


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _next(version: str) -> str:
    major, minor, _ = _numbers(version)
    return f"{major}.{minor + 1}.0"
