"""The same options have the same names and the same order in Rust, Python, SQL and on the command
line, and so have the figures of a report. CONTRIBUTING.md lists the intended differences under
"Names". Here they are in `ALIASES`, and in the names that are a place's own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from blocks import REPOSITORY

OPTIONS = {
    "build": "source ids metric id_kind vectors columns payload memory threads seed calibrate overwrite write progress "
    "strict",
    "create": "dim metric id_kind vectors columns payload seed overwrite cache durability auto_vacuum",
    "open": "cache direct io write durability log transaction auto_vacuum",
    "search": "queries k recall search_list slack where beam_width cache direct threads payload strict",
    "calibrate": "queries threads cache durability progress strict",
    "recall": "k samples queries recall search_list slack store cache direct threads progress strict",
    "compact": "into overwrite memory threads progress",
    "backup": "target overwrite progress",
}
"""For each operation, the options of all hosts, without the path of an index."""

REPORTS = {
    "setting": "k recall search_list slack half_interval best",
    "audit": "k recall half_interval target samples hops far rows changes",
    "measured": "rows samples by_queries changes longer_rows outdated",
    "info": "format_version metric dim vectors id_kind payload columns rows pages bytes max_degree nodes_per_page "
    "edge_bits edge_dims own_bits seed commit dead_rows free_slots trained_rows added_rows deleted_rows mark "
    "default_recall calibrated audit",
    "calibration": "rows changes samples by_queries far settings",
    "hits": "ids distances payload",
    "add-report": "added replaced unchanged",
    "vacuum-report": "freed unlinked waiting repaired",
    "backup-report": "pages bytes",
    "check": "pages nodes dead_nodes free_slots edges stale_edges reachable anchored",
}

ALIASES = {
    "filter": "where",
    "query": "queries",
    "column": "columns",
    "no_calibrate": "calibrate",
    "entries": "settings",
    "_payload": "payload",
}
"""The intended differences; CONTRIBUTING.md has the reasons."""

SQL_ALIASES = {
    "info": {"nodes": "rows", "dead_nodes": "dead_rows"},
    "measured": {
        "calibrated_nodes": "rows",
        "calibrated_by_queries": "by_queries",
        "changes_since_calibration": "changes",
    },
}
"""The same in SQL."""

PARTS = {"effort": "recall search_list slack", "writing": "cache durability"}
"""Options that commands share. Their structs are tested, too."""


class Place(NamedTuple):
    """A file in which a host declares an operation or a report."""

    what: str
    path: str
    part: str
    """A pattern that matches the declaration."""
    own: str = ""
    """Names that are not options of the operation, or that only this host has."""


RUST = "crates/pagehop-engine/src"
CLI = "crates/pagehop-cli/src"
LONG = re.compile(r'    #\[arg\([^\]]*\blong = "(\w+)"[^\]]*\)\]\n    \w+:')
"""An option of the command line whose name differs from its field."""
SQL = "postgres/sql/pagehop--0.1.0.sql"
OF_COMMANDS = "index output reporting json"


def struct(name: str) -> str:
    return rf"struct {name}(?:<'\w>)? \{{\n(.*?)^\}}"


PLACES = [
    Place("build", "python/pagehop/open.py", r"^def build\((.*?)\) -> ", "path"),
    Place("build", f"{RUST}/options.rs", struct("BuildOptions")),
    Place("build", f"{CLI}/commands/build.rs", struct("Args"), OF_COMMANDS),
    Place("create", "python/pagehop/open.py", r"^def create\((.*?)\) -> ", "path"),
    Place("create", f"{RUST}/options.rs", struct("CreateOptions")),
    Place("create", f"{CLI}/commands/create.rs", struct("Args"), OF_COMMANDS),
    Place("open", "python/pagehop/open.py", r"^def open\((.*?)\) -> ", "path"),
    Place("open", "crates/pagehop-store/src/options.rs", struct("OpenOptions")),
    Place("open", f"{CLI}/index_file.rs", struct("WriteOptions")),
    Place("open", f"{CLI}/index_file.rs", struct("ChangeOptions")),
    Place("search", "python/pagehop/index.py", r"^    def search\((.*?)\) -> ", "self"),
    Place("search", f"{RUST}/options.rs", struct("SearchOptions")),
    Place("search", f"{RUST}/index/search/batch.rs", struct("Batch"), "plan parts"),
    Place("search", f"{CLI}/effort.rs", struct("EffortOptions")),
    Place("search", f"{CLI}/commands/search/mod.rs", struct("Args"), f"{OF_COMMANDS} truth"),
    Place(
        "search",
        "postgres/src/options.rs",
        r"^pub\(crate\) fn register\(\)(.*)^/// The options of a search",
        "scan_order read_ahead skip_unread_distances max_scan_pages scan_mem_multiplier",
    ),
    Place("calibrate", "python/pagehop/index.py", r"^    def calibrate\((.*?)\) -> ", "self"),
    Place("calibrate", f"{RUST}/index/recall/calibrate.rs", r"pub fn calibrate\((.*?)\) -> "),
    Place("calibrate", "crates/pagehop-store/src/operations.rs", r"pub fn calibrate\((.*?)\) -> ", "index"),
    Place("calibrate", f"{CLI}/commands/calibrate.rs", struct("Args"), OF_COMMANDS),
    Place("calibrate", SQL, r"FUNCTION pagehop_calibrate\((\s+index regclass, queries.*?)OUT", "index"),
    Place("recall", "python/pagehop/index.py", r"^    def recall\((.*?)\) -> ", "self"),
    Place("recall", f"{RUST}/index/recall/audit.rs", r"pub fn recall\((.*?)\) -> ", "options"),
    Place("recall", f"{CLI}/commands/recall.rs", struct("Args"), OF_COMMANDS),
    Place("recall", SQL, r"FUNCTION pagehop_recall\((\s+index regclass, k int4 DEFAULT.*?)OUT", "index"),
    Place("recall", SQL, r"FUNCTION pagehop_recall\((\s+index regclass, k int4, queries.*?)OUT", "index"),
    Place("compact", "python/pagehop/open.py", r"^def compact\((.*?)\) -> ", "path"),
    Place("compact", "crates/pagehop-store/src/compact.rs", struct("CompactOptions")),
    Place("compact", f"{CLI}/commands/compact.rs", struct("Args"), OF_COMMANDS),
    Place("backup", "python/pagehop/index.py", r"^    def backup\((.*?)\) -> ", "self"),
    Place("backup", "crates/pagehop-store/src/backup/mod.rs", r"pub fn backup\((.*?)\) -> ", "index"),
    Place("backup", f"{CLI}/commands/backup.rs", struct("Args"), OF_COMMANDS),
    Place("backup-report", "python/pagehop/reports.py", r"^class BackupReport\(.*?$(.*?)^def"),
    Place("backup-report", "crates/pagehop-store/src/backup/mod.rs", struct("BackupReport")),
    Place("backup-report", f"{CLI}/commands/backup.rs", struct("Report"), "index target seconds"),
    # "and" is a word of the text between the names.
    Place(
        "hits",
        "python/pagehop/hits.py",
        r"^class _Pair\(.*?$(.*?    _payload.*?)^$",
        "and _buffer _queries _counters_at",
    ),
    Place("hits", f"{CLI}/commands/search/report.rs", struct("QueryLine"), "queries"),
    Place("add-report", "python/pagehop/reports.py", r"^class AddReport\(.*?$(.*?)^class"),
    Place("add-report", f"{RUST}/reports.rs", struct("AddReport")),
    Place("add-report", f"{CLI}/commands/add/mod.rs", struct("Report"), "index first_row rows seconds rows_per_s"),
    Place("vacuum-report", "python/pagehop/reports.py", r"^class VacuumReport\(.*?$(.*?)^class"),
    Place("vacuum-report", f"{RUST}/reports.rs", struct("VacuumReport")),
    Place("vacuum-report", f"{CLI}/commands/vacuum.rs", struct("Report"), "index seconds"),
    Place("calibration", "python/pagehop/reports.py", r"^class Calibration\(.*?$(.*?)^class"),
    Place("calibration", f"{RUST}/calibration.rs", struct("Calibration")),
    Place("calibration", f"{CLI}/commands/calibrate.rs", struct("Report"), "index seconds"),
    Place("setting", "python/pagehop/reports.py", r"^class Setting\(.*?$(.*?)^class"),
    Place("setting", f"{RUST}/calibration.rs", struct("Setting")),
    Place("setting", f"{CLI}/commands/calibrate.rs", struct("Setting")),
    Place("setting", SQL, r"FUNCTION pagehop_calibration\(.*?(OUT.*?\))"),
    Place("audit", "python/pagehop/reports.py", r"^class Audit\(.*?$(.*?)^class"),
    Place("audit", "python/pagehop/reports.py", r"^class RecallReport\(.*?$(.*?)^class"),
    Place("audit", f"{RUST}/reports.rs", struct("Audit")),
    Place("audit", f"{RUST}/reports.rs", struct("RecallReport")),
    Place("audit", f"{CLI}/commands/info.rs", struct("AuditReport")),
    Place("audit", f"{CLI}/commands/recall.rs", struct("Report"), "index search_list slack"),
    Place("audit", SQL, r"(OUT audited_k.*?)OUT changes_since_audit"),
    Place("audit", SQL, r"FUNCTION pagehop_recall\(.*?(OUT.*?\))"),
    Place("measured", "python/pagehop/reports.py", r"^class Measured\(.*?$(.*?)^class"),
    Place("measured", f"{RUST}/reports.rs", struct("Measured")),
    Place("measured", f"{CLI}/commands/info.rs", struct("MeasuredReport")),
    Place("measured", SQL, r"(OUT calibrated_nodes.*?)OUT audited_k"),
    Place(
        "info",
        "python/pagehop/reports.py",
        r"^class Info\(.*?$(.*?)^class",
        "log log_bytes_written page_bytes_written commits checkpoints",
    ),
    Place("info", f"{RUST}/reports.rs", struct("Info"), "audited"),
    Place("info", f"{CLI}/commands/info.rs", struct("Report"), "index"),
    Place("info", SQL, r"FUNCTION pagehop_info\(.*?(OUT.*?)OUT calibrated_nodes"),
    Place("check", "python/pagehop/reports.py", r"^class CheckReport\(.*?$(.*?)^class"),
    Place("check", f"{RUST}/reports.rs", struct("CheckReport")),
    Place("check", f"{CLI}/commands/check.rs", r" Sound \{\n(.*?)\}", "index ok"),
    Place("check", SQL, r"FUNCTION pagehop_check\(.*?(OUT.*?\))"),
]


def names(place: Place, text: str) -> list[str]:
    """The names that a place declares, in its order, in the spelling of `OPTIONS` and `REPORTS`."""
    found = re.search(place.part, text, re.DOTALL | re.MULTILINE)
    assert found, place
    body = LONG.sub(r"    \1:", found.group(1))
    if place.path == SQL:
        listed = re.findall(r"(?:^\s+|, |OUT )(?!OUT)(?:audited_)?(\w+) ", body, re.MULTILINE)
    elif place.path.startswith("postgres/"):
        listed = re.findall(r'c"pagehop\.(\w+)",$', body, re.MULTILINE)
    elif place.path.endswith(".py"):
        listed = re.findall(r"(?:^ +|^|, )(\w+)(?:: |,|$)", body, re.MULTILINE)
    else:
        listed = re.findall(r"^ +(?:pub(?:\(\w+\))? )?(\w+): ", body, re.MULTILINE)
    without = [name.removesuffix("_bytes") for name in listed]
    aliases = ALIASES | (SQL_ALIASES.get(place.what, {}) if place.path == SQL else {})
    whole = " ".join(PARTS.get(name, aliases.get(name, name)) for name in without)
    return [name for name in whole.split() if name not in place.own.split()]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.what} in {place.path}")
def test_names_and_their_order_are_the_same_everywhere(place: Place) -> None:
    expected = (OPTIONS | REPORTS)[place.what].split()
    here = names(place, (REPOSITORY / place.path).read_text())
    assert len(here) > (place.what != "calibrate"), place
    assert [name for name in here if name not in expected] == [], "these names differ from those of other hosts"
    assert here == [name for name in expected if name in here]


def test_another_name_and_another_order_are_seen() -> None:
    place = Place("build", "options.rs", struct("BuildOptions"))
    code = "pub struct BuildOptions {\n    /// Kinds.\n    pub row_ids: RowIds,\n    pub memory_bytes: u64,\n}\n"
    assert names(place, code) == ["row_ids", "memory"]
    code = code.replace("    pub row_ids", '    #[arg(long = "ids_kind", value_enum)]\n    row_ids')
    assert names(place, code) == ["ids_kind", "memory"]
    place = Place("search", "index.py", r"def search\((.*?)\) -> ", "self")
    code = "    def search(\n        self,\n        query: Any,\n        *,\n        slack: float = 0,\n    ) -> Hits:"
    assert names(place, code) == ["queries", "slack"]
