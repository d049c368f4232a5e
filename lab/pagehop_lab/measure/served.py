"""Servers: the load generator queries from its own process, and reports the costs of both."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from pagehop_lab.analysis.records import CeilingRecord, LoadgenRecord, PointRecord, Profiled
from pagehop_lab.data import Dataset
from pagehop_lab.engines.engine import EngineError, Options, Question, Served
from pagehop_lab.machine import counters
from pagehop_lab.machine.place import on_one_core
from pagehop_lab.measure import loadgen, profile, usage
from pagehop_lab.measure.answers import Answers, summary
from pagehop_lab.measure.limit import limited
from pagehop_lab.measure.load import Ask
from pagehop_lab.measure.stream import Stream

_CEILING_S = 0.5


def measure(engine: Served, dataset: Dataset, options: Options, ask: Ask, folder: Path) -> tuple[PointRecord, Answers]:
    """Measures the queries of a set, from a file in `folder` on."""
    if ask.cold_queries is not None:
        return _measure_in_state(engine, dataset, options, ask, folder)
    question = engine.question(options, ask.k, ask.matching)
    with Stream(engine, dataset, ask.insert_rate, ask.matching) as stream, _place(engine, ask):
        length = ["--seconds", f"{max(ask.warmup_s, 0.1):g}"]
        warmed = _run(question, dataset, ask, [*length, "--warmup", "0"])
        if warmed["errors"] or not warmed["count"]:
            raise EngineError(warmed["first_error"] or "no request was answered while warming up")
        count = ask.count(float(warmed["qps"]), len(dataset.queries))
        file = folder / "answers.npy"
        more = ["--count", str(count), "--warmup", f"{ask.warmup_s:g}", "--answers", str(file)]
        more += ["--rate", f"{ask.rate:g}"] if ask.rate else []
        more += ["--server-pid-cpu", "--blocks"] if question.local else []
        said = _run(question, dataset, ask, more)
        profiled = _profile(engine, question, dataset, ask) if ask.profile_s else Profiled()
    kept = np.load(file)
    answers = Answers(kept[:, 0], kept[:, 1], kept[:, 2:])
    raw: PointRecord = {**_raw(engine, question, said, ask), **stream.told(), **profiled}
    return raw | summary(answers, stream.dataset(), ask.k), answers


def _profile(engine: Served, question: Question, dataset: Dataset, ask: Ask) -> Profiled:
    """Repeats the queries at the same rate, and samples where the server's time goes, new
    connections included.
    """
    pid, length = engine.pid(), ["--seconds", f"{ask.profile_s:g}", "--warmup", "0"]
    length += ["--rate", f"{ask.rate:g}"] if ask.rate else []
    return profile.during([] if pid is None else usage.family(pid), lambda: _run(question, dataset, ask, length))


def _measure_in_state(
    engine: Served, dataset: Dataset, options: Options, ask: Ask, folder: Path
) -> tuple[PointRecord, Answers]:
    """A few queries with caches in the wanted state. Every state begins with empty caches."""
    assert ask.cold_queries is not None
    engine.memory_mib = ask.memory_mib
    engine.cool()
    pid = engine.pid()
    with limited(ask.memory_mib) as limit:
        if limit is not None and pid is not None:
            limit.enter(usage.family(pid))
        raw, answers = _ask_few(engine, dataset, options, ask, folder)
        if limit is not None:
            raw["memory_limit"] = limit.told()
    return raw | summary(answers, dataset, ask.k), answers


def _ask_few(engine: Served, dataset: Dataset, options: Options, ask: Ask, folder: Path) -> tuple[PointRecord, Answers]:
    """Sends a few queries. The cost of requests outside the clock does not count.

    In the cold state the load generator executes the statement with its first query before the
    clock, so one query more is sent.
    """
    question, file = engine.question(options, ask.k), folder / "answers.npy"
    # The reads for the server's own counters belong to the warm-up, too.
    more = ["--server-pid-cpu", "--blocks"]
    uncounted = int(ask.cache == "cold")
    count = min(ask.cold_queries or 0, len(dataset.queries) - uncounted)
    one = folder / "query.npy"
    if ask.cache == "hot":
        np.save(one, dataset.queries[:1])
        more += ["--queries", str(one)]
    if not uncounted:
        # In a run of its own: what it reads is not counted. It begins in the middle of the file.
        with _place(engine, ask):
            _run(question, dataset, ask, ["--count", "1", "--warmup", f"{ask.warmup_s:g}", *more])
    engine.on_phase("search")
    pid = engine.pid()
    before = usage.bytes_read(pid) if pid is not None else None
    with _place(engine, ask):
        length = ["--count", str(count + uncounted), "--warmup", "0"]
        said = _run(question, dataset, ask, [*length, "--answers", str(file), *more])
    kept = np.load(file)[uncounted:]
    answers = Answers(kept[:, 0], kept[:, 1], kept[:, 2:])
    raw = _raw(engine, question, said, ask) | {"count": len(kept), "waited": None}
    total_s = float(answers.latency_ns.sum()) / 1e9
    raw |= {"elapsed_s": total_s, "qps": len(kept) / total_s}
    if pid is not None and before is not None:
        # The counters of connections that have ended were added to those of their parent.
        read = (usage.bytes_read(pid) - before) / (count + uncounted)
        raw |= {"bytes_read_per_query": read, "storage_reads_per_query": read / usage.PAGE_BYTES}
    return raw, answers


def ceiling(engine: Served, options: Options, ask: Ask) -> CeilingRecord:
    """The rate of the load generator if the server only returns rows."""
    question = engine.question(options, ask.k)
    with _place(engine, ask):
        # In proportion to the plan's own warm-up: a plan with a short one wants short measurements.
        seconds = min(_CEILING_S, 5 * ask.warmup_s or _CEILING_S)
        words = ["--seconds", f"{seconds:g}", "--warmup", f"{seconds / 5:g}", "--connections", str(ask.sessions)]
        said = _loadgen(question, [*words, "-k", str(ask.k), "--statement", question.base_statement])
    return {
        "sessions": ask.sessions,
        "statement": question.base_statement,
        "qps": said["qps"],
        "client_cpu_us_per_query": said["client_cpu_us_per_query"],
    }


def _place(engine: Served, ask: Ask) -> AbstractContextManager[None]:
    """One core for client and server while one session asks: neither wakes another."""
    pid = engine.pid()
    alone = ask.one_core and ask.sessions == 1 and not ask.insert_rate
    return on_one_core(pid) if alone and pid is not None else nullcontext()


def _run(question: Question, dataset: Dataset, ask: Ask, more: list[str]) -> LoadgenRecord:
    words = ["--connections", str(ask.sessions), "-k", str(ask.k)]
    words += [] if "--queries" in more else ["--queries", str(dataset.folder / "queries.npy")]
    words += ["--param-type", question.param_type] if question.param_type else []
    for name, value in question.settings.items():
        words += ["--set", f"{name}={value}"]
    return _loadgen(question, [*words, "--statement", question.statement, *more])


def _loadgen(question: Question, more: list[str]) -> LoadgenRecord:
    # A password on the command line could be read by everybody on the machine.
    url, password = split_password(question.url)
    command = [str(loadgen.program()), question.protocol, "--url", url, "--json", *more]
    environment = os.environ | ({} if password is None else {"PGPASSWORD": password})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if not done.stdout:
        raise EngineError(done.stderr.strip() or f"the load generator ended with {done.returncode} and said nothing")
    said: LoadgenRecord = json.loads(done.stdout)
    return said


def split_password(url: str) -> tuple[str, str | None]:
    """A URL without its password, and the password."""
    found = re.match(r"(\w+://[^:/@]*):([^@/]*)@(.*)", url)
    return (f"{found[1]}@{found[3]}", unquote(found[2])) if found else (url, None)


def _raw(engine: Served, question: Question, said: LoadgenRecord, ask: Ask) -> PointRecord:
    """The report of the load generator, by the names that all raw measurements have."""
    plan, blocks, pid = said["plan"], said["blocks"], engine.pid()
    client_us = said["client_cpu_us_per_query"]
    busy = said["server_cpu_us_per_query"]
    one_core = ask.one_core and ask.sessions == 1 and not ask.insert_rate and pid is not None
    waited = None
    if one_core and not ask.rate and busy is not None and client_us is not None:
        waited = said["elapsed_s"] * 1e6 / max(said["count"], 1) / (busy + client_us)
    share = None if client_us is None else client_us * said["qps"] / 1e6 / min(ask.sessions, usage_cores(one_core))
    return {
        "count": said["count"] + said["errors"],
        "errors": said["errors"],
        "first_error": said["first_error"],
        "elapsed_s": said["elapsed_s"],
        "qps": said["qps"],
        "unsent_count": said["unsent_count"],
        "index_used": bool(plan["index_scan"]) and question.index in plan["indexes"],
        "client_share": share,
        "storage_reads_per_query": blocks["read_per_query"] if blocks else None,
        "engine_cpu_us_per_query": busy,
        "engine_total_cpu_us_per_query": said["server_total_cpu_us_per_query"],
        "client_cpu_us_per_query": client_us,
        "switches_per_query": said["server_switches_per_query"],
        "blocks_hit_per_query": blocks["hit_per_query"] if blocks else None,
        "blocks_read_per_query": blocks["read_per_query"] if blocks else None,
        "memory_bytes": usage.memory_bytes(pid) if pid is not None else None,
        "waited": waited,
        "other_busy_cores": said["other_busy_cores"],
        "interrupted": said["interrupted"],
        "plan": plan["text"],
        "settings": said["settings"],
        "server_version": said["server_version"],
        # Results are published, so the path of the queries is left out.
        "loadgen": said | {"queries": {**said["queries"], "file": Path(said["queries"]["file"]).name}},
    }


def usage_cores(one_core: bool) -> int:
    """Cores that a client may be busy on."""
    return 1 if one_core else counters.cores()
