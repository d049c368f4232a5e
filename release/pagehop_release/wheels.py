"""Python wheels: one for each architecture, for Python 3.11 or newer on Linux with glibc 2.17 or
newer.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from devserver.errors import DevServerError
from devserver.folder import REPOSITORY
from devserver.processes import environment, run
from pagehop_release import foreign
from pagehop_release.roots import Root, debian
from pagehop_release.targets import Target

POLICY = "manylinux_2_17"
"""glibc 2.17, of 2012: the oldest version that Rust's standard library supports."""
BYTES_MAX = 6_000_000
IMPORT_MS_MAX = 60.0
"""Most milliseconds that importing takes beyond NumPy's own import, on an idle machine."""

_DEBIAN = "trixie"
_FIRST_ANSWER = REPOSITORY / "release/tries/first_answer.py"
_OLD_CPU = "Nehalem"
"""An x86-64-v2, the oldest CPU that NumPy's wheels support; it has no AVX."""
_NUMPY_ALONE = "import numpy; numpy.random.default_rng(7).normal(size=(99, 48)).argsort()"
_OLDER_CPU = "qemu64"
"""The first x86-64, which NumPy's wheels do not support."""


def build(target: Target, dist: Path) -> Path:
    """Compiles a wheel into `dist` and checks its size and the glibc that it needs. Two minutes on
    two cores.
    """
    _need_standard_library(target)
    dist.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        _say(f"compiling the wheel for {target.name}")
        maturin = ["maturin", "build", "--quiet", "--zig", "--locked", "--target", target.rust, "--out", scratch]
        run([*maturin, "--compatibility", POLICY], cwd=REPOSITORY, env=build_environment("wheels"))
        [made] = Path(scratch).glob("*.whl")
        _audit(target, made)
        return Path(shutil.copy(made, dist / made.name))


def build_environment(folder: str) -> dict[str, str]:
    """The environment for builds in which cargo writes no path of this machine into its output."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    shortened = {REPOSITORY: "pagehop", **dict.fromkeys(sorted(home.glob("registry/src/*")), "crates")}
    flags = [f"--remap-path-prefix={path}={name}" for path, name in shortened.items()]
    targets = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").absolute()
    return environment(CARGO_ENCODED_RUSTFLAGS="\x1f".join(flags), CARGO_TARGET_DIR=str(targets / folder))


def tried(target: Target, wheel: Path) -> str:
    """Installs a wheel in an empty Debian with pip, without the network, and searches there.
    Returns what was tried and how long it took.
    """
    _say(f"trying {wheel.name} in an empty Debian {_DEBIAN}")
    return _tried_here(wheel) if target.is_ours else _tried_emulated(target, wheel)


def _audit(target: Target, wheel: Path) -> None:
    if wheel.stat().st_size > BYTES_MAX:
        raise DevServerError(f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {BYTES_MAX:,}")
    said = " ".join(run(["auditwheel", "show", wheel]).split())
    if f'platform tag: "{POLICY}_{target.name}"' not in said:
        raise DevServerError(f"{wheel.name} does not run everywhere that {POLICY} does: {said}")


def _need_standard_library(target: Target) -> None:
    if (Path(run(["rustc", "--print", "sysroot"]).strip()) / "lib/rustlib" / target.rust).exists():
        return
    advice = f"Rust's standard library for {target.rust} is missing, and rustup did not get it"
    run(["rustup", "target", "add", target.rust], cwd=REPOSITORY, advice=advice)


def _tried_here(wheel: Path) -> str:
    with debian(_DEBIAN) as root, tempfile.TemporaryDirectory() as scratch:
        root.install(["python3", "python3-venv"])
        python = root.run("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()
        wheels = _needed(Path(scratch), wheel, python)
        for file in [*wheels, _FIRST_ANSWER, Path("/usr/bin/qemu-x86_64-static")]:
            root.bring(file)
        begun = time.monotonic()
        root.run("python3 -m venv v && v/bin/pip install --quiet --no-index --find-links . pagehop")
        answer = root.run(f"v/bin/python {_FIRST_ANSWER.name}").strip()
        took = time.monotonic() - begun
        # The package also works if its folder is not writable: nothing is written beside it.
        root.run(f"v/bin/python {_FIRST_ANSWER.name}", readonly=f"/root/v/lib/python{python}")
        _on_old_cpus(root, f"v/lib/python{python}/site-packages")
        beyond = _import_ms(
            root.run("for i in 1 2 3 4 5; do v/bin/python -X importtime -c 'import pagehop' 2>&1; done")
        )
    if beyond > IMPORT_MS_MAX:
        raise DevServerError(
            f"importing pagehop takes {beyond:.0f} ms more than NumPy, at most {IMPORT_MS_MAX:.0f} are allowed"
        )
    return f"{answer}; {took:.1f} s from an empty environment to it; imported in {beyond:.0f} ms beyond NumPy's"


def _on_old_cpus(root: Root, site: str) -> None:
    """Checks that the wheel runs without AVX, and that importing it on an older CPU than NumPy
    supports gives an error that says so.
    """
    python = f"PYTHONPATH={site} ./qemu-x86_64-static -cpu"
    try:
        root.run(f"{python} {_OLD_CPU} /usr/bin/python3 -c '{_NUMPY_ALONE}'")
    except DevServerError as error:
        raise DevServerError(
            f"NumPy alone does not run on the CPU {_OLD_CPU}, which says nothing of the wheel: {error}"
        ) from None
    root.run(f"{python} {_OLD_CPU} /usr/bin/python3 {_FIRST_ANSWER.name}")
    said = root.run(f"! {python} {_OLDER_CPU} /usr/bin/python3 -c 'import pagehop' 2>&1")
    if "ImportError: this CPU is older than x86-64-v2" not in said:
        raise DevServerError(f"on the CPU {_OLDER_CPU}, importing pagehop says: {said}")


def _tried_emulated(target: Target, wheel: Path) -> str:
    with (
        foreign.root(target, _DEBIAN, ["python3", "python3-pip", "libstdc++6"]) as root,
        tempfile.TemporaryDirectory() as scratch,
    ):
        python = root.run("/usr/bin/python3", ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
        for file in [*_needed(Path(scratch), wheel, python, target), _FIRST_ANSWER]:
            shutil.copy(file, root.path / "root")
        pip = ["-m", "pip", "install", "--quiet", "--no-compile", "--no-index", "--find-links", "."]
        root.run("/usr/bin/python3", [*pip, "--target", "/root/site", "pagehop"])
        answer = root.run("/usr/bin/python3", [_FIRST_ANSWER.name], PYTHONPATH="/root/site").strip()
    return f"{answer}, emulated by {Path(target.emulator).name}"


def _needed(folder: Path, wheel: Path, python: str, target: Target | None = None) -> list[Path]:
    """The files of the wheel and its dependencies, downloaded by this machine's pip."""
    platforms = [f"--platform=manylinux_2_{minor}_{target.name}" for minor in (17, 27, 28)] if target else []
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--python-version={python}"]
    run([*pip, *platforms, "--dest", folder, wheel])
    return sorted(folder.glob("*.whl"))


def _import_ms(said: str) -> float:
    """Milliseconds that importing pagehop takes beyond NumPy's import: the least of several."""
    own = [int(us) for us in re.findall(r"\|\s+(\d+) \| pagehop$", said, re.MULTILINE)]
    numpy = [int(us) for us in re.findall(r"\|\s+(\d+) \|\s+numpy$", said, re.MULTILINE)]
    return min(whole - part for whole, part in zip(own, numpy, strict=True)) / 1000


def _say(what: str) -> None:
    print(f"== {what}", file=sys.stderr, flush=True)
