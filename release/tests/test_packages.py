"""The content of the packages of `./dev release`, without compiling anything."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from devserver.errors import DevServerError
from devserver.folder import REPOSITORY
from pagehop_release import crates, debs, extension, wheels
from pagehop_release.__main__ import main
from pagehop_release.extension import MAJORS
from pagehop_release.roots import Root
from pagehop_release.targets import AARCH64, X86_64


def test_crates_for_others_are_described_and_pinned_to_this_version() -> None:
    assert crates.names() == ["pagehop", "pagehop-cli", "pagehop-engine", "pagehop-kernels", "pagehop-store"]
    workspace = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]
    for name in crates.names():
        about = tomllib.loads((REPOSITORY / "crates" / name / "Cargo.toml").read_text())["package"]
        assert {"description", "readme", "license", "rust-version"} <= set(about)
        assert 1 <= len(about["keywords"]) <= 5
        assert all(len(word) <= 20 for word in about["keywords"])
        needed = workspace["dependencies"].get(name)
        assert needed is None or needed["version"] == workspace["package"]["version"]


def test_a_crate_without_its_licence_is_refused(tmp_path: Path) -> None:
    for files in (["Cargo.toml", "README.md", "LICENSE", "src/lib.rs"], ["Cargo.toml", "README.md", "src/lib.rs"]):
        crate = tmp_path / "one-0.1.0.crate"
        with tarfile.open(crate, "w:gz") as opened:
            for file in files:
                opened.addfile(tarfile.TarInfo(f"one-0.1.0/{file}"))
        if "LICENSE" in files:
            crates.check(crate)
        else:
            with pytest.raises(DevServerError, match="has no LICENSE"):
                crates.check(crate)


def test_a_debian_package_asks_for_its_server_and_pgvector(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(5000))
    fields = dict(
        line.split(": ", 1)
        for line in debs.control(MAJORS[0], AARCH64, tmp_path).splitlines()
        if not line.startswith(" ")
    )
    assert fields["Package"] == "postgresql-17-pagehop"
    assert fields["Architecture"] == "arm64"
    assert fields["Installed-Size"] == "4"
    assert "postgresql-17, postgresql-17-pgvector (>= 0.7)" in fields["Depends"]
    assert f"libc6 (>= {extension.GLIBC})" in fields["Depends"]


def test_the_dockerfile_installs_the_package_that_is_made() -> None:
    command = debs.dockerfile_command()
    assert 'postgresql-"${PG_MAJOR}"-pagehop_*_"${TARGETARCH}".deb' in command
    assert all(debs.name(major) == f"postgresql-{major.number}-pagehop" for major in MAJORS)


def test_the_pg_config_of_unpacked_headers_answers_what_compiling_asks(tmp_path: Path) -> None:
    header = tmp_path / "usr/include/postgresql/18/server/pg_config.h"
    header.parent.mkdir(parents=True)
    header.write_text('#define PG_MAJORVERSION "18"\n#define PG_VERSION "18.6 (Debian 18.6-3)"\n')
    program = extension._pg_config(MAJORS[1], tmp_path)
    said = subprocess.run([program, "--version", "--includedir-server"], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["PostgreSQL 18.6 (Debian 18.6-3)", str(header.parent)]
    assert subprocess.run([program, "--nonsense"], capture_output=True, check=False).returncode == 1


def test_time_of_an_import_is_the_least_beyond_numpys() -> None:
    line = "import time:      100 |     {:>6} | {}\n"
    said = "".join(line.format(us, name) for us, name in [(90_000, "  numpy"), (120_000, "pagehop")])
    said += "".join(line.format(us, name) for us, name in [(80_000, "  numpy"), (95_000, "pagehop")])
    assert wheels._import_ms(said) == 15


def test_a_binary_names_no_folder_of_this_machine() -> None:
    flags = wheels.build_environment("wheels")["CARGO_ENCODED_RUSTFLAGS"].split("\x1f")
    assert f"--remap-path-prefix={REPOSITORY}=pagehop" in flags


def test_a_wheel_that_is_too_large_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "pagehop-0.1.0-cp311-abi3-linux_x86_64.whl"
    wheel.write_bytes(bytes(wheels.BYTES_MAX + 1))
    with pytest.raises(DevServerError, match="6,000,001 bytes, more than 6,000,000"):
        wheels._audit(X86_64, wheel)


def test_a_command_that_fails_in_a_root_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(DevServerError, match=f"in {re.escape(str(tmp_path))}:\nfalse"):
        Root(tmp_path).run("false")


def test_the_first_answer_is_right(tmp_path: Path) -> None:
    script = REPOSITORY / "release/tries/first_answer.py"
    said = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("recall ")


@pytest.mark.parametrize(
    ("dies", "says", "refused"),
    [
        ("-c 'import numpy", "", "NumPy alone does not run on the CPU Nehalem"),
        ("first_answer.py", "", "^the wheel died$"),
        ("nothing", "Illegal instruction", "importing pagehop says: Illegal instruction"),
        ("nothing", "ImportError: this CPU is older than x86-64-v2, and", ""),
    ],
)
def test_a_wheel_that_dies_on_an_old_cpu_is_told_from_a_numpy_that_does(
    dies: str, says: str, refused: str, tmp_path: Path
) -> None:
    class Emulated(Root):
        def run(self, script: str, *, network: bool = False, readonly: str = "") -> str:  # noqa: ARG002
            if dies in script:
                raise DevServerError("the wheel died")
            return says

    with pytest.raises(DevServerError, match=refused) if refused else contextlib.nullcontext():
        wheels._on_old_cpus(Emulated(tmp_path), "site")


def test_a_target_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["wheels", "--target", "sparc"])
    assert "x86_64" in capsys.readouterr().err
