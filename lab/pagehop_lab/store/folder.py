"""A run's folder. Raw files get their names when they are complete, and are never written again.

A record's identity is everything that decides its figures; its name is a few words and a checksum
of the identity. A record that failed has the reason and the same identity; measured once more, it
is another attempt with a name of its own. The latest attempt decides what is still to be measured.
Reports use the latest attempt that has a figure: a later failure does not invalidate it. One
process at a time works in a folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

KINDS = ("points", "builds", "engines", "datasets", "ceilings", "picked", "foreign")
"""Kinds of raw files; `foreign` ones were measured elsewhere."""
LOCK = ".lock"
"""An empty file, which the process that works in the folder locks."""
_VERSION = 2
COMPLETE = 2
"""Version of raw files from which on the identity of a search has every field of its load."""
_UNFINISHED = ".unfinished-"
_WORDS_MAX = 90
# Facts of every machine, which reports show.
_OF_A_MACHINE = ("cpu", "cores", "kind")
# Facts of the machine that may change before a run ends.
_COMPILERS = "compilers"


class StoreError(Exception):
    """The folder cannot be used, or refuses a record."""


@dataclass(frozen=True)
class Record:
    """A raw file that exists."""

    kind: str
    file: str
    """Path relative to the run's folder."""
    attempt: int
    identity: Mapping[str, Any]
    raw: Any
    """The measurement, as it is in the file; empty in a failed record. This is JSON that is not
    checked: its readers say which record it is.
    """
    failed: str | None
    """Why there is no measurement."""
    commit: str | None = None
    """Commit of the lab that wrote the record, if it is known."""
    compilers: str | None = None
    """Compilers at that time, if they differ from those in `machine.json`."""
    version: int = _VERSION
    """Version of the raw file's form."""
    failed_later: str | None = None
    """Why a later attempt has no measurement; None if the latest one has."""

    @property
    def failure(self) -> str | None:
        """Why the latest attempt has no measurement; None if it has."""
        return self.failed or self.failed_later

    @property
    def is_again(self) -> bool:
        """Whether there was more than one attempt."""
        return self.attempt > 1 or self.failed_later is not None

    @property
    def cell(self) -> str:
        """A name that identifies records as a plan does, which does not know versions."""
        return cell(self.identity)


class RunFolder:
    """The records of a run, by kind and identity."""

    def __init__(self, path: Path) -> None:
        """The folder at `path`, for reading."""
        self.path = path
        self._lock: BinaryIO | None = None
        self._commit: str | None = None
        self._compilers: str | None = None
        self._records: dict[tuple[str, str], Record] = {}
        self._measured: dict[tuple[str, str], Record] = {}
        self.damaged: list[str] = []
        """Files that cannot be read; they count as not measured."""
        if not path.is_dir():
            raise StoreError(f"{path} is not a folder of a run")
        for kind in KINDS:
            for file in sorted((path / kind).glob("*.json")):
                # Another process may write while this one reads.
                if not file.name.startswith(_UNFINISHED):
                    self._read(kind, file)

    @staticmethod
    @contextlib.contextmanager
    def writing(path: Path, plan: str, machine: Mapping[str, Any], commit: str | None = None) -> Iterator[RunFolder]:
        """The folder at `path`, made if needed, for a run of a plan on this machine.

        `commit` is the lab's.
        """
        with _full_disk(path):
            path.mkdir(parents=True, exist_ok=True)
        with (path / LOCK).open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"another run is at work in {path}") from None
            for leftover in path.rglob(f"{_UNFINISHED}*"):
                leftover.unlink()
            known = _same_machine(path / "machine.json", machine)
            _keep_plan(path, plan)
            folder = RunFolder(path)
            folder._lock, folder._commit = lock, commit
            if known.get(_COMPILERS) is not None and machine.get(_COMPILERS) != known[_COMPILERS]:
                folder._compilers = machine.get(_COMPILERS)
            try:
                yield folder
            finally:
                folder._lock = None

    @staticmethod
    @contextlib.contextmanager
    def adding(path: Path) -> Iterator[RunFolder]:
        """The existing folder of a run, for records that were measured elsewhere."""
        folder = RunFolder(path)
        # A folder without a plan is not the folder of a run.
        assert folder.plan is not None
        with (path / LOCK).open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"another run is at work in {path}") from None
            folder._lock = lock
            try:
                yield folder
            finally:
                folder._lock = None

    # ---- what is there ----

    @property
    def plan(self) -> str:
        """The plan that was run last."""
        plans = _plans(self.path)
        if not plans:
            raise StoreError(f"{self.path} has no plan: it is not a folder of a run")
        try:
            return plans[-1].read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read {plans[-1]}: {getattr(error, 'strerror', None) or error}") from None

    @property
    def machine(self) -> dict[str, Any]:
        """What the measurements ran on."""
        return _machine(self.path / "machine.json")

    def get(self, kind: str, identity: Mapping[str, Any]) -> Record | None:
        """The latest record of an identity."""
        return self._records.get((kind, checksum(identity)))

    def all(self, kind: str) -> list[Record]:
        """The latest record of every identity."""
        return [record for (of, _), record in self._records.items() if of == kind]

    def known(self, kind: str) -> list[Record]:
        """The record of every identity for reports: the latest that was measured, or else the
        latest failure.
        """
        return [self._known(key, record) for key, record in self._records.items() if key[0] == kind]

    def _known(self, key: tuple[str, str], latest: Record) -> Record:
        measured = self._measured.get(key, latest)
        return measured if measured is latest else replace(measured, failed_later=latest.failed)

    # ---- writing ----

    def add(
        self,
        kind: str,
        words: str,
        identity: Mapping[str, Any],
        raw: Mapping[str, Any] | None = None,
        *,
        failed: str | None = None,
        arrays: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Record:
        """Writes a record: what was measured, or why it failed; `words` begin its name.

        `arrays` go to a file beside it, which the record names as `arrays`.
        """
        assert self._lock is not None, "a folder is written to within `writing`"
        assert (raw is None) != (failed is None)
        before = self.get(kind, identity)
        attempt = before.attempt + 1 if before else 1
        content: dict[str, Any] = {"version": _VERSION, "attempt": attempt, "identity": identity, "failed": failed}
        if self._commit:
            content["commit"] = self._commit
        if self._compilers:
            content[_COMPILERS] = self._compilers
        with _full_disk(self.path):
            while True:
                name = f"{_safe(words)}.{checksum(identity)}" + (f".{attempt}" if attempt > 1 else "")
                path = self.path / kind / f"{name}.json"
                if not path.exists():
                    break
                # A file that could not be read already has the name.
                attempt += 1
                content["attempt"] = attempt
            path.parent.mkdir(exist_ok=True)
            if arrays:
                beside = path.with_suffix(".npz")
                _publish_arrays(beside, arrays)
                raw = {**(raw or {}), "arrays": beside.name}
            content["raw"] = raw
            _publish(path, json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")
        self._read(kind, path)
        return self._records[kind, checksum(identity)]

    def _read(self, kind: str, file: Path) -> None:
        relative = str(file.relative_to(self.path))
        try:
            content = json.loads(file.read_text())
            identity = content["identity"]
            raw, failed = content["raw"] or {}, content["failed"]
            if not 1 <= content["version"] <= _VERSION:
                raise ValueError("another lab wrote it, and its measurement may have another form")
            by = content.get("commit"), content.get(_COMPILERS), content["version"]
            read = Record(kind, relative, content["attempt"], identity, raw, failed, *by)
        except (OSError, ValueError, KeyError, TypeError):
            self.damaged.append(relative)
            return
        key = (kind, checksum(identity))
        for records in [self._records] if failed else [self._records, self._measured]:
            if key not in records or records[key].attempt < read.attempt:
                records[key] = read


def checksum(identity: Mapping[str, Any]) -> str:
    """Twelve letters for an identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def cell(identity: Mapping[str, Any]) -> str:
    """Twelve letters for an identity without the version of the engine and of the statements that
    it is asked.
    """
    return checksum({name: value for name, value in identity.items() if name not in ("version", "statements")})


def _safe(words: str) -> str:
    """Words as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", words)[:_WORDS_MAX].strip("-.")


def _publish(path: Path, content: bytes) -> None:
    """Gives a file its name once it is whole; fails if the name is taken."""
    unfinished = path.with_name(f"{_UNFINISHED}{path.name}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _publish_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    unfinished = path.with_name(f"{_UNFINISHED}{path.name}")
    try:
        with unfinished.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        # Without its record, which was not written, an array file says nothing.
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _same_machine(path: Path, machine: Mapping[str, Any]) -> Mapping[str, Any]:
    """The description of the machine of a folder, which must be this machine."""
    if not path.exists():
        with _full_disk(path.parent):
            _publish(path, json.dumps(machine, indent=1).encode() + b"\n")
        return machine
    known = _machine(path)
    # Folders from before say less of the machine, and what is not known is not a difference. An
    # upgrade of the compilers must not end a run that takes days: records say so instead.
    differing = [
        name
        for name, now in machine.items()
        if name != _COMPILERS and now is not None and known.get(name) is not None and known[name] != now
    ]
    if differing:
        told = ", ".join(f"{name} was {known.get(name)} and is {machine[name]}" for name in differing)
        raise StoreError(f"{path.parent} was measured on another machine ({told}): choose another folder with --into")
    return known


def _machine(path: Path) -> dict[str, Any]:
    """The description of a machine in its file. StoreError if it is not one."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    missing = [name for name in _OF_A_MACHINE if not isinstance(known, dict) or name not in known]
    if missing:
        raise StoreError(f"cannot read {path}: it has no {' and no '.join(missing)}, as every run's has")
    return dict(known)


def _keep_plan(path: Path, plan: str) -> None:
    """Keeps a copy of the plan, unless it equals the last one. A plan never replaces another."""
    plans = _plans(path)
    if plans and plans[-1].read_text() == plan:
        return
    with _full_disk(path):
        _publish(path / f"plan-{len(plans) + 1:03}.toml", plan.encode())


def _plans(path: Path) -> list[Path]:
    return sorted(path.glob("plan-*.toml"))


@contextlib.contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    """An error of a full disk names the folder; earlier measurements are safe."""
    try:
        yield
    except OSError as error:
        kept = "what was measured before is kept, run the same command to continue"
        raise StoreError(f"cannot write to {path}: {error.strerror or error}; {kept}") from error
