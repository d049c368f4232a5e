"""Debian packages of the PostgreSQL extension, for each major version and architecture."""

from __future__ import annotations

import difflib
import gzip
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from devserver.errors import DevServerError
from devserver.extension import CRATE
from devserver.folder import REPOSITORY
from devserver.processes import environment, run
from pagehop_release import extension, roots, versions
from pagehop_release.extension import Major
from pagehop_release.roots import Root
from pagehop_release.targets import X86_64, Target

PGVECTOR_MIN = "0.7"
"""The first version with halfvec."""

SMOKE = CRATE / "regress/sql/smoke.sql"
SMOKE_EXPECTED = CRATE / "regress/expected/smoke.out"
DOCKERFILE = REPOSITORY / "release/Dockerfile"


def version() -> str:
    return versions.current(REPOSITORY)


def name(major: Major) -> str:
    return f"postgresql-{major.number}-pagehop"


def build(major: Major, target: Target, dist: Path) -> Path:
    """Compiles the extension and packs it into `dist`. hadolint checks the Dockerfile first."""
    run(["hadolint", DOCKERFILE])
    _say(f"compiling the extension for PostgreSQL {major.number} on {target.name}")
    library = extension.compiled(major, target)
    dist.mkdir(exist_ok=True)
    deb = dist / f"{name(major)}_{version()}-1_{target.debian}.deb"
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        _put(library, tree / major.library_folder / "pagehop.so")
        for file in [CRATE / "pagehop.control", *sorted((CRATE / "sql").glob("pagehop--*.sql"))]:
            _put(file, tree / major.extension_folder / file.name)
        documents = tree / "usr/share/doc" / name(major)
        _put(REPOSITORY / "LICENSE", documents / "copyright")
        _put(REPOSITORY / "docs/postgres.md", documents / "postgres.md")
        compressed = gzip.compress((REPOSITORY / "CHANGELOG.md").read_bytes(), mtime=0)
        (documents / "changelog.gz").write_bytes(compressed)
        _pack(tree, control(major, target, tree), deb)
    return deb


def control(major: Major, target: Target, tree: Path) -> str:
    """The control file of the package whose files are in `tree`."""
    kib = sum(file.stat().st_size for file in tree.rglob("*") if file.is_file()) // 1024
    depends = [f"libc6 (>= {extension.GLIBC})", f"postgresql-{major.number}"]
    depends.append(f"postgresql-{major.number}-pgvector (>= {PGVECTOR_MIN})")
    return f"""Package: {name(major)}
Version: {version()}-1
Architecture: {target.debian}
Maintainer: The Pagehop authors <pagehop@localhost>
Installed-Size: {kib}
Depends: {", ".join(depends)}
Section: database
Priority: optional
Description: vector index for PostgreSQL {major.number} that reads one page per hop
 The index access method "pagehop", on the types and operators of pgvector.
 Run CREATE EXTENSION pagehop CASCADE in each database. Nothing is preloaded.
"""


def tried(major: Major, deb: Path) -> str:
    """Installs a package in an empty Debian, with its dependencies, and runs queries there. Returns
    what was tried and how long it took.
    """
    _say(f"trying {deb.name} in an empty Debian {major.suite}")
    with roots.debian(major.suite) as root:
        root.bring(SMOKE)
        begun = time.monotonic()
        _install(root, major, deb)
        installed = time.monotonic()
        answer = _asked(root, major)
        took = time.monotonic() - begun
        _refused(root, major)
        root.run(f"dpkg --purge {name(major)} && ! find /usr -name '*pagehop*' | grep .")
    return f"{answer}; {took:.0f} s from an empty Debian to it, {installed - begun:.0f} of them apt's"


def dockerfile_command() -> str:
    """The shell command that installs the package in an image."""
    joined = DOCKERFILE.read_text().replace("\\\n", " ")
    [command] = re.findall(r"^RUN --mount=type=bind,target=/packages (.+)$", joined, re.MULTILINE)
    return str(command)


def _install(root: Root, major: Major, deb: Path) -> None:
    """Runs the Dockerfile's command in `root`, with the variables of the official image of
    PostgreSQL.
    """
    for folder in ["packages", "docker-entrypoint-initdb.d"]:
        (root.path / folder).mkdir()
    shutil.copy(deb, root.path / "packages")
    variables = f"PG_MAJOR={major.number} TARGETARCH={X86_64.debian} DEBIAN_FRONTEND=noninteractive"
    root.run(f"export {variables}\n{dockerfile_command()}", network=True)


def _asked(root: Root, major: Major) -> str:
    """Runs the script of `make installcheck`, and compares psql's output with the expected one."""
    said = root.run(
        f"""
        {_start(major)}
        su postgres -c 'createdb --template=template0 smoke && psql -X -a -q -d smoke' < {SMOKE.name} 2>&1
        """
    )
    expected = SMOKE_EXPECTED.read_text()
    if said != expected:
        changes = "\n".join(
            difflib.unified_diff(expected.splitlines(), said.splitlines(), "expected", "said", lineterm="")
        )
        raise DevServerError(f"the output of PostgreSQL {major.number} differs from {SMOKE_EXPECTED.name}:\n{changes}")
    return f"the output of PostgreSQL {major.number} equals {SMOKE_EXPECTED.name}"


def _refused(root: Root, major: Major) -> None:
    """Checks the errors of two broken servers: one without pgvector, one with a library file that
    is not a library.
    """
    library = f"/{major.library_folder}/pagehop.so"
    said = root.run(
        f"""
        dpkg --force-depends --remove postgresql-{major.number}-pgvector >&2
        {_start(major)}
        ! su postgres -c "createdb bare && psql -X -d bare -c 'CREATE EXTENSION pagehop CASCADE'" 2>&1
        printf 'no library' > {library}
        ! su postgres -c "psql -X -d smoke -c \\"LOAD 'pagehop'\\"" 2>&1
        """
    )
    for wanted in ['extension "vector" is not available', f'could not load library "{library}"']:
        if wanted not in said:
            raise DevServerError(f"'{wanted}' is not in what PostgreSQL {major.number} says: {said}")


def _start(major: Major) -> str:
    return f"install -d -o postgres -g postgres /run/postgresql && pg_ctlcluster {major.number} main start"


def _put(file: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, path)


def _pack(tree: Path, described: str, deb: Path) -> None:
    """Makes a package whose bytes depend only on its files and the date of the commit."""
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(described)
    for path in [tree, *tree.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    date = run(["git", "log", "-1", "--format=%ct"], cwd=REPOSITORY).strip()
    build: list[str | Path] = ["dpkg-deb", "--build", "--root-owner-group", "-Zxz", tree, deb]
    run(build, env=environment(SOURCE_DATE_EPOCH=date))


def _say(what: str) -> None:
    print(f"== {what}", file=sys.stderr, flush=True)
