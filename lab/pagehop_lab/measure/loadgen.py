"""The load generator: the path of its program."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from devserver.folder import IN_CHECKOUT, REPOSITORY
from pagehop_lab.engines.engine import EngineError

VARIABLE = "PAGEHOP_LOADGEN"
"""The environment variable that names a compiled load generator; without it, it is compiled."""


@cache
def program() -> Path:
    """The program, which is compiled if necessary. EngineError if that fails."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    if not IN_CHECKOUT:
        raise EngineError(
            f"servers are asked by the load generator, which is compiled. Run `cargo build --release "
            f"-p pagehop-loadgen` in a checkout of Pagehop, and name the program by {VARIABLE}"
        )
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "pagehop-loadgen"]
    try:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EngineError(f"servers are asked by the load generator, which cargo compiles: {error}") from None
    if done.returncode != 0:
        raise EngineError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target") / "release/pagehop-loadgen"
