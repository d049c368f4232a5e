//! Which room may import which, and where `unsafe` is allowed.

use crate::assert_none;
use crate::imports::Crate;
use crate::maps::{head, names_in};
use crate::sources::{ENGINE, files, read, sources_of};
use crate::text::{blank_comments_and_strings, has_word};

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
const INDEX_ROOMS: [(&str, &[&str]); 17] = [
    ("index/mod", &[]), // names the rooms, and uses none
    ("index/model", &[]),
    ("index/node_set", &[]),
    ("index/pending", &["index/node_set"]),
    ("index/state", &["index/model", "index/pending"]),
    ("index/open", &["index/state"]),
    ("index/check", &["index/model", "index/state", "index/open", "index/find"]),
    ("index/find", &["index/state"]),
    ("index/row_codes", &["index/state", "index/open"]),
    ("index/rows", &["index/find", "index/state", "index/open"]),
    ("index/payloads", &["index/find", "index/state", "index/open"]),
    ("index/build", &[]),
    (
        "index/search",
        &["index/model", "index/node_set", "index/state", "index/open", "index/find", "index/payloads"],
    ),
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
const POSTGRES_ROOMS: [&str; 25] = [
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
    "whole_errors",
    "errors",
];

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

/// The crates of this repository that a manifest lists, other than for tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut section = "";
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        }
        // `[dependencies]` and those of a target have lines, `[dependencies.NAME]` is one.
        let (table, in_table) = section.rsplit_once("dependencies").unwrap_or(("dev-", ""));
        let name = if line.starts_with('[') { in_table.trim_start_matches('.') } else { line };
        let name = name.split(['.', ' ', '=']).next().unwrap_or_default();
        if name.starts_with("pagehop") && !table.ends_with("dev-") && !table.starts_with("workspace") {
            found.push(name.to_owned());
        }
    }
    found
}

#[test]
fn dependencies_of_tests_do_not_count() {
    let manifest = "[package]\nname = \"pagehop-a\"\n[dependencies]\npagehop-b.workspace = true\n\
                    [target.'cfg(unix)'.dependencies]\npagehop-c = \"1\"\n[dependencies.pagehop-d]\n\
                    version = \"1\"\n[build-dependencies]\npagehop-e = \"1\"\n\
                    [dev-dependencies]\npagehop-f = \"1\"\n[dev-dependencies.pagehop-g]\n";
    assert_eq!(dependencies(manifest), ["pagehop-b", "pagehop-c", "pagehop-d", "pagehop-e"]);
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

#[test]
fn rooms_of_the_engine_import_one_way() {
    let sources = sources_of(ENGINE);
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
        sources_of(ENGINE).into_iter().map(|(file, _)| room_of(&file)).filter(|room| !named(room)).collect();
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
fn rooms_are_in_the_order_of_the_maps() {
    let mut wrong = Vec::new();
    for (path, rooms) in [("crates/pagehop-store/src", &STORE_ROOMS[..]), ("postgres/src", &POSTGRES_ROOMS[..])] {
        let mapped = mapped(&format!("{path}/lib.rs"), "");
        if mapped != rooms[1..] {
            wrong.push(format!("{path}/lib.rs has the order {mapped:?}, not {:?}", &rooms[1..]));
        }
    }
    for (path, above, rooms) in [("lib.rs", "", &ROOMS[..]), ("index/mod.rs", "index/", &INDEX_ROOMS[..])] {
        let mapped = mapped(&format!("{ENGINE}/{path}"), above);
        let place = |room: &str| mapped.iter().position(|name| name == room);
        // The file with the map uses none.
        for (room, allowed) in rooms.iter().filter(|(_, allowed)| !allowed.is_empty()) {
            let below = allowed.iter().filter(|target| place(target).is_none() || place(target) >= place(room));
            wrong.extend(below.map(|target| format!("{path}: {target} is not above {room}")));
        }
    }
    assert_none(&wrong);
}

/// The rooms in the map of a file, in order. Files inside a room are left out.
fn mapped(path: &str, above: &str) -> Vec<String> {
    let head = head(&read(path));
    let names = names_in(&head).into_iter().map(|name| name.trim_end_matches(".rs").trim_end_matches('/'));
    names.filter(|name| !name.contains('/')).map(|name| format!("{above}{name}")).collect()
}

/// The first folder or file below `src/`. Below `index/`, also the second.
fn room_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let segments: Vec<&str> = path.split('/').collect();
    let depth = if segments[0] == "index" { 2 } else { 1 };
    segments[..depth.min(segments.len())].join("/")
}
