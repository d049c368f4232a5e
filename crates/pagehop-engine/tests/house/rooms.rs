//! Which room may import which, and what rooms may not use.

use std::fs;

use crate::assert_none;
use crate::imports::Crate;
use crate::sources::{files, read, repository, source_folders, sources_in};
use crate::text::{blank_comments_and_strings, has_word, is_word};

const ENGINE: &str = "crates/pagehop-engine/src";

/// The crates of this repository that each crate depends on. Dependencies of its tests do not
/// count.
const DEPENDENCIES: [(&str, &[&str]); 9] = [
    ("crates/pagehop-kernels", &[]),
    ("crates/pagehop-engine", &["pagehop-kernels"]),
    ("crates/pagehop-store", &["pagehop-engine", "pagehop-kernels"]),
    ("crates/pagehop", &["pagehop-engine", "pagehop-store"]),
    ("crates/pagehop-cli", &["pagehop-engine", "pagehop-store"]),
    ("crates/pagehop-sim", &["pagehop-engine", "pagehop-store"]),
    ("lab/loadgen", &[]),
    ("postgres", &["pagehop-engine", "pagehop-kernels"]),
    ("python", &["pagehop-engine", "pagehop-kernels", "pagehop-store"]),
];

/// What each room of the engine may import, besides itself. A room is a folder or a file below
/// `src/`.
const ROOMS: [(&str, &[&str]); 20] = [
    ("ids", &[]),
    ("error", &["ids"]), // an error names a page
    ("memory", &["error"]),
    ("metric", &["error"]),
    ("vectors", &["error"]),
    ("random", &[]),
    ("row_ids", &["error"]),
    ("text_ids", &["error", "row_ids", "random"]),
    ("threads", &["error"]),
    ("progress", &["error"]),
    ("columns", &["error"]),
    ("filter", &["error", "columns"]),
    ("source", &["error", "columns"]),
    ("reports", &["ids", "metric", "vectors", "columns", "row_ids"]),
    ("options", &["error", "metric", "vectors", "row_ids", "reports", "columns"]),
    ("calibration", &["error", "options"]),
    ("quantize", &["error", "metric", "random", "threads"]),
    ("graph", &["error", "memory", "random", "threads", "quantize"]),
    (
        "page",
        &[
            "ids",
            "error",
            "memory",
            "metric",
            "vectors",
            "row_ids",
            "options",
            "calibration",
            "reports",
            "columns",
            "quantize",
        ],
    ),
    ("lib", &[]), // names the rooms, and uses none
];

/// What each room below `index/` may import of `index/`, besides itself. It may also import all
/// rooms above except the last.
const INDEX_ROOMS: [(&str, &[&str]); 16] = [
    ("index/mod", &[]), // names the rooms, and uses none
    ("index/model", &[]),
    ("index/node_set", &[]),
    ("index/pending", &["index/node_set"]),
    ("index/state", &["index/model", "index/pending"]),
    ("index/open", &["index/state"]),
    ("index/check", &["index/model", "index/state", "index/open", "index/find"]),
    ("index/find", &["index/state"]),
    ("index/rows", &["index/find", "index/state", "index/open"]),
    ("index/payloads", &["index/find", "index/state", "index/open"]),
    ("index/build", &[]),
    ("index/search", &["index/model", "index/node_set", "index/state", "index/open", "index/find"]),
    ("index/info", &["index/open", "index/search"]),
    ("index/rebuild", &["index/build", "index/open", "index/search", "index/state"]),
    (
        "index/change",
        &[
            "index/model",
            "index/node_set",
            "index/pending",
            "index/state",
            "index/open",
            "index/find",
            "index/build",
            "index/search",
        ],
    ),
    ("index/recall", &["index/state", "index/open", "index/search"]),
];

/// The rooms of the store, from top to bottom. A room imports only rooms below it.
const STORE_ROOMS: [&str; 25] = [
    "lib",
    "compact",
    "operations",
    "vacuum",
    "atomic_change",
    "check",
    "backup",
    "build",
    "index_file",
    "open",
    "transaction",
    "shared_transaction",
    "changed_pages",
    "commit",
    "checkpoint",
    "writer",
    "reader",
    "read_side",
    "log",
    "cache",
    "process",
    "disk",
    "options",
    "header",
    "bytes",
];

/// The rooms of the PostgreSQL extension, in the same order.
const POSTGRES_ROOMS: [&str; 24] = [
    "lib",
    "handler",
    "build",
    "insert",
    "vacuum",
    "cost",
    "validate",
    "sql",
    "scan",
    "audit",
    "calibrate",
    "train",
    "options",
    "pages",
    "rows",
    "temp_files",
    "parameters",
    "progress",
    "sql_function",
    "replay",
    "held_interrupts",
    "signals",
    "lists",
    "errors",
];

/// The files of the engine outside `page/` that know the layout of bytes: those of edge codes and
/// of the values of columns, which a page stores without changes.
const KNOW_BYTES: [&str; 6] = [
    "columns/key.rs",
    "columns/rows.rs",
    "graph/refine.rs",
    "quantize/edge.rs",
    "quantize/estimate.rs",
    "quantize/landmarks.rs",
];

/// Words that only `postgres/` may use.
const POSTGRES_WORDS: [&str; 7] = ["postgres", "postgresql", "pg", "pgrx", "pgvector", "tid", "tids"];

/// What the engine may not use: it has no files, no clock and no operating system.
const NO_SYSTEM: [&str; 6] = ["fs", "net", "time", "env", "process", "os"];

/// Where `unsafe` is allowed: the files of one instruction set, the dispatch to them, the store's
/// frames, rings and shared memory, and all of `postgres/`. A name that ends in `/` is a folder.
const UNSAFE_ALLOWED: [&str; 10] = [
    "crates/pagehop-kernels/src/dispatch.rs",
    "crates/pagehop-store/src/build/freed_memory.rs",
    "crates/pagehop-store/src/cache/frames.rs",
    "crates/pagehop-store/src/cache/pool.rs",
    "crates/pagehop-store/src/process/mapping.rs",
    "crates/pagehop-store/src/cache/uring.rs",
    "crates/pagehop-store/tests/fork.rs",
    "crates/pagehop-store/tests/support/cached.rs",
    "crates/pagehop-store/tests/support/counted.rs",
    "postgres/",
];
const INSTRUCTION_SETS: [&str; 6] = ["avx2.rs", "avx512.rs", "x86_64.rs", "neon.rs", "aarch64.rs", "sve.rs"];

#[test]
fn the_engine_knows_no_system() {
    let mut wrong = Vec::new();
    for (path, code) in sources_in("crates/pagehop-engine/src") {
        for name in NO_SYSTEM.iter().filter(|name| has_word_after(&code, "std::", name)) {
            wrong.push(format!("{path}: std::{name}"));
        }
        for name in ["SystemTime", "Instant"] {
            if has_word(&code, name) {
                wrong.push(format!("{path}: {name}"));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn kernels_depend_on_nothing() {
    let manifest = fs::read_to_string(repository().join("crates/pagehop-kernels/Cargo.toml"))
        .expect("the kernels have a manifest");
    let after = manifest.split_once("[dependencies]").map_or("", |(_, after)| after);
    let entries = after.lines().take_while(|line| !line.starts_with('['));
    let wrong: Vec<_> = entries
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| format!("pagehop-kernels depends on {line}"))
        .collect();
    assert_none(&wrong);
    assert!(!manifest.contains("[dependencies."), "pagehop-kernels has a dependency");
}

#[test]
fn crates_depend_as_the_picture_shows() {
    let mut wrong = Vec::new();
    for path in files(&["Cargo.toml"]).into_iter().filter(|path| path.contains('/')) {
        let folder = path.strip_suffix("/Cargo.toml").expect("it is in a folder");
        let found: Vec<String> = dependencies(&read(&path));
        match DEPENDENCIES.iter().find(|(name, _)| *name == folder) {
            Some((_, allowed)) if found == *allowed => {}
            Some((_, allowed)) => wrong.push(format!("{folder} depends on {found:?}, not {allowed:?}")),
            None => wrong.push(format!("{folder} is a crate without a line")),
        }
    }
    assert_none(&wrong);
}

/// The crates of this repository in `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let after = manifest.split_once("\n[dependencies]").map_or("", |(_, after)| after);
    let lines = after.lines().skip(1).take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("pagehop")).map(str::to_owned).collect()
}

#[test]
fn unsafe_stays_where_it_is_allowed() {
    let mut wrong = Vec::new();
    for path in files(&[".rs"]) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_kernel = path.starts_with("crates/pagehop-kernels/src/");
        let allowed = is_kernel && INSTRUCTION_SETS.contains(&name)
            || UNSAFE_ALLOWED.iter().any(|place| path == *place || place.ends_with('/') && path.starts_with(place));
        if !allowed && has_word(&blank_comments_and_strings(&read(&path)), "unsafe") {
            wrong.push(format!("{path}: unsafe"));
        }
    }
    assert_none(&wrong);
}

/// Whether `std::name` or `use std::{.., name, ..}` is in the code.
fn has_word_after(code: &str, prefix: &str, word: &str) -> bool {
    code.match_indices(prefix).any(|(at, _)| {
        let after = &code[at + prefix.len()..];
        let end = if after.starts_with('{') { after.find('}') } else { after.find(|c: char| !is_word(c)) };
        has_word(&after[..end.unwrap_or(after.len())], word)
    })
}

#[test]
fn rooms_of_the_engine_import_one_way() {
    let sources = engine_sources();
    let engine = Crate::new(&sources);
    let mut wrong = Vec::new();
    for (file, imports) in engine.imports() {
        let room = room_of(file);
        let allowed = |target: &str| {
            let of = |rooms: &[(&str, &[&str])]| {
                rooms.iter().find(|(name, _)| *name == room).map(|(_, to)| to.contains(&target))
            };
            let below =
                room.starts_with("index/") && ROOMS[..ROOMS.len() - 1].iter().any(|(name, _)| *name == target);
            below || of(&ROOMS).or(of(&INDEX_ROOMS)).unwrap_or(false)
        };
        for import in imports {
            let target = room_of(import);
            if target != room && !allowed(&target) {
                wrong.push(format!("{file}: {room} may not import {target} ({import})"));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn every_room_of_the_engine_has_a_line() {
    let named = |room: &str| ROOMS.iter().chain(&INDEX_ROOMS).any(|(name, _)| *name == room);
    let wrong: Vec<_> =
        engine_sources().into_iter().map(|(file, _)| room_of(&file)).filter(|room| !named(room)).collect();
    assert_none(&wrong);
}

#[test]
fn rooms_of_the_store_and_of_the_extension_import_only_rooms_below_them() {
    let mut wrong = Vec::new();
    for (folder, rooms) in [("crates/pagehop-store/src", &STORE_ROOMS[..]), ("postgres/src", &POSTGRES_ROOMS[..])] {
        let sources = sources_of(folder);
        let place = |file: &str| rooms.iter().position(|name| *name == room_of(file));
        for (file, imports) in Crate::new(&sources).imports() {
            let Some(from) = place(file) else {
                wrong.push(format!("{folder}/{file}: its room has no line"));
                continue;
            };
            let above = imports.into_iter().filter(|import| place(import).is_some_and(|to| to < from));
            wrong.extend(above.map(|import| format!("{folder}/{file} imports {import}, which is above it")));
        }
        let exists = |name: &&&str| sources.iter().any(|(file, _)| room_of(file) == **name);
        wrong.extend(rooms.iter().filter(|name| !exists(name)).map(|name| format!("{folder} has no room {name}")));
    }
    assert_none(&wrong);
}

#[test]
fn only_the_room_of_pages_knows_their_bytes() {
    let mut wrong = Vec::new();
    for (path, code) in engine_sources() {
        let may_know = path.starts_with("page/") || KNOW_BYTES.contains(&path.as_str());
        let converts = code.contains("_le_bytes");
        let looks_into = ["body[", "bodies[0][", "guard["]
            .iter()
            .any(|indexing| code.match_indices(indexing).any(|(at, _)| !code[..at].ends_with(is_word)));
        if !may_know && (converts || looks_into) {
            wrong.push(format!("{path} knows bytes of a page"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn only_the_extension_knows_postgresql() {
    let mut wrong = Vec::new();
    for (folder, sources) in source_folders() {
        if folder.starts_with("postgres/") || folder.starts_with("lab/") {
            continue;
        }
        for (path, code) in sources {
            let words = code.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
            let known: Vec<_> = words.filter(|word| POSTGRES_WORDS.contains(&word.as_str())).collect();
            if !known.is_empty() {
                wrong.push(format!("{folder}/{path}: {}", known.join(", ")));
            }
        }
    }
    assert_none(&wrong);
}

/// The sources of the engine, with paths below its folder.
fn engine_sources() -> Vec<(String, String)> {
    sources_of(ENGINE)
}

/// The sources in a folder `src/`, with paths below it.
fn sources_of(folder: &str) -> Vec<(String, String)> {
    source_folders().into_iter().find(|(name, _)| name == folder).expect("the crate has sources").1
}

/// The first folder or file below `src/`. Below `index/`, also the second.
fn room_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let segments: Vec<&str> = path.split('/').collect();
    let depth = if segments[0] == "index" { 2 } else { 1 };
    segments[..depth.min(segments.len())].join("/")
}
