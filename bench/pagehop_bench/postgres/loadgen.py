"""The load generator of lab/: one prepared statement, vectors in binary, over and over; what it says, as a value."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from devserver import Cluster
from labservers.mariadb import Instance

VARIABLE = "PAGEHOP_LOADGEN"
"""The environment variable that names a compiled load generator; without it, it is compiled."""

REPOSITORY = Path(__file__).resolve().parents[3]
# On one core, time that neither the client nor the server had is time that others took, or that storage did.
WAITED_MAX = 1.05


class LoadgenError(Exception):
    """The load generator failed, or the server did under it."""


@dataclass(frozen=True)
class Asked:
    """What one run of the load generator measured."""

    count: int
    elapsed_s: float
    qps: float
    recall: float | None
    latency_us: dict[str, float]
    client_cpu_us: float
    server_cpu_us: float
    """CPU of the connections' processes for each request."""
    server_total_cpu_us: float
    """CPU of all processes of the server for each request."""
    read_blocks: float
    """Blocks of the whole database that came from outside of shared_buffers, for each request."""
    hit_blocks: float
    rows_short: int
    """Answers with fewer rows than were asked for."""
    custom_plans: int
    """Requests that were planned anew."""
    other_busy_cores: float
    load_average: float
    plan: str

    @property
    def waited(self) -> float:
        """Time on the clock over CPU time of client and server: 1 where both have one core to themselves."""
        return self.elapsed_s * 1e6 / self.count / (self.client_cpu_us + self.server_cpu_us)

    def as_json(self) -> dict[str, Any]:
        """Everything but the plan."""
        return {name: value for name, value in asdict(self).items() if name != "plan"} | {"waited": self.waited}

    @staticmethod
    def of(said: Mapping[str, Any]) -> Asked:
        """What the generator's JSON says."""
        blocks, plans = said["blocks"] or {}, said["plans"] or {}
        prefix = "latency_us_"
        return Asked(
            count=int(said["count"]),
            elapsed_s=float(said["elapsed_s"]),
            qps=float(said["qps"]),
            recall=said["recall"],
            latency_us={
                name.removeprefix(prefix): float(value) for name, value in said.items() if name.startswith(prefix)
            },
            client_cpu_us=float(said["client_cpu_us_per_query"]),
            server_cpu_us=float(said["server_cpu_us_per_query"]),
            server_total_cpu_us=float(said["server_total_cpu_us_per_query"]),
            read_blocks=float(blocks.get("read_per_query", 0)),
            hit_blocks=float(blocks.get("hit_per_query", 0)),
            rows_short=int(said["rows_short_count"]),
            custom_plans=int(plans.get("custom_count", 0)),
            other_busy_cores=float(said["other_busy_cores"]),
            load_average=float(said["load_average"]),
            plan=str(said["plan"]["text"]),
        )


def ask(
    server: Cluster | Instance,
    statement: str,
    *,
    count: int,
    queries: Path | None = None,
    truth: Path | None = None,
    settings: Mapping[str, str] | None = None,
    index: str | None = None,
    connections: int = 1,
    warmup: float = 0.0,
    rows: int = 10,
) -> Asked:
    """Asks `count` times, from the first query on, with `warmup` seconds before; fails unless `index` is scanned."""
    command: list[str | Path] = [
        program(), *_protocol(server), "--json", "--server-pid-cpu", "--blocks", "--statement", statement,
        "--count", str(count), "--rows", str(rows), "--connections", str(connections), "--warmup", f"{warmup:g}",
    ]  # fmt: skip
    for flag, value in [("--queries", queries), ("--truth", truth), ("--require-index", index)]:
        command += [flag, value] if value is not None else []
    for name, setting in (settings or {}).items():
        command += ["--set", f"{name}={setting}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoadgenError(f"{statement}\n{done.stderr.strip()}\n{server.log_end()}")
    return Asked.of(json.loads(done.stdout))


def _protocol(server: Cluster | Instance) -> list[str]:
    """How the server is reached."""
    if isinstance(server, Instance):
        return ["mysql", "--url", server.url()]
    # Whether the planner would take the index by itself is another question.
    url = f"postgres://postgres@/postgres?host={server.folder}&port={server.port}"
    return ["postgres", "--url", url, "--set", "enable_seqscan=off"]


@cache
def program() -> Path:
    """The compiled load generator."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "pagehop-loadgen"]
    if subprocess.run(command, cwd=REPOSITORY, check=False).returncode != 0:
        raise LoadgenError(f"{' '.join(command)} failed; the reason is above")
    return REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target") / "release/pagehop-loadgen"
