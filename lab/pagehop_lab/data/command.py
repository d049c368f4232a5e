"""Makes sets by name, and prints the place, the content and the checksum of each."""

from __future__ import annotations

import argparse
import functools
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from devserver.folder import REPOSITORY
from pagehop_lab.data import sets
from pagehop_lab.data.errors import DataError
from pagehop_lab.data.real import NAMES, files
from pagehop_lab.data.real.files import Content
from pagehop_lab.data.real.sources import Say

SEED = 1
DATA = REPOSITORY / "data"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="./dev data", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"of {', '.join(sets.NAMED)}")
    parser.add_argument("--rows", type=int, help="rows of each set; the folder has the number in its name")
    parser.add_argument("--seed", type=int, default=SEED, help="decides which passages or images are queries")
    parser.add_argument("--fbin", action="store_true", help="also write them as .fbin and .ibin files")
    asked = parser.parse_args(arguments)
    # The shell's `kill` ends the processes that embed, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for name in asked.names:
            if name in NAMES:
                folder = make(name, DATA, asked.rows, asked.seed, _say)
                if asked.fbin:
                    files.write_fbin(folder)
            else:
                _prepare(name, asked.rows, asked.seed, fbin=asked.fbin)
    except DataError as error:
        print(f"./dev data: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("./dev data: interrupted; what is done is kept, run the same command to continue", file=sys.stderr)
        return 130
    return 0


def _prepare(name: str, rows: int | None, seed: int, *, fbin: bool) -> None:
    """Makes a set that needs no other set."""
    if not sets.known(name):
        raise DataError(f"'{name}' is not one of {', '.join(sets.NAMED)}")
    made = sets.prepare(name, None, rows, None, None, seed, _say)
    _say(f"{name}: {made.facts.rows:,} x {made.facts.dim}, {made.facts.queries:,} queries, truth known; {made.folder}")
    if fbin:
        folder = DATA / name
        folder.mkdir(parents=True, exist_ok=True)
        files.write_as_fbin(folder, made.base, made.queries, made.truth_ids)
        _say(f"{name}: as .fbin and .ibin in {folder}")


def make(name: str, data: Path, rows: int | None, seed: int, say: Say) -> Path:
    """The folder of a set, which is made if it is missing."""
    if name not in NAMES:
        raise DataError(f"'{name}' is not one of {', '.join(NAMES)}")
    # The libraries that make real sets are only installed where such sets are made.
    from pagehop_lab.data.real import sentences, sift, texts
    from pagehop_lab.data.real.prose import RULES

    usual_rows = {
        "tokens-384": texts.TOKEN_ROWS,
        "sentences-256": sentences.SENTENCE_ROWS,
        "sift-128": sift.ROWS,
    }
    default = usual_rows.get(name, texts.TEXT_ROWS)
    count = default if rows is None else rows
    usual = (count, seed) == (default, SEED)
    folder = data / (name if usual else f"{name}-{count}" + (f"-seed-{seed}" if seed != SEED else ""))
    about = files.make(folder, name, lambda: _content(name, data, count, seed, say), say)
    say(
        f"{folder.name}: {about['rows']:,} x {about['dim']}, {about['queries']:,} queries, "
        f"truth under {' and '.join(about['metrics'])}, checksum {about['checksum']}"
    )
    if about["sources"].get("rules", RULES) != RULES:
        say(f"{folder.name}: its passages were found by older rules than today's; remove {folder} to make it again")
    return folder


def _content(name: str, data: Path, rows: int, seed: int, say: Say) -> Content:
    from pagehop_lab.data.real import sentences, sift, texts

    if name == "sift-128":
        return sift.descriptors(data, seed, rows, say)
    of: dict[str, Callable[[Any, int], Content]] = {
        "texts-384": texts.passages_near_passages,
        "texts-384-ood": texts.passages_near_titles,
        "tokens-384": texts.tokens_near_tokens,
        "lsa-1024": functools.partial(texts.topics, dim=1024),
        "lsa-1536": functools.partial(texts.topics, dim=1536),
        "sentences-256": sentences.sentences_near_sentences,
    }
    return of[name](texts.read(data, seed, say), rows)


def _say(line: str) -> None:
    print(line, flush=True)
