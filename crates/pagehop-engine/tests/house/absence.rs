//! What a crate may not know: the CPU, the system, PostgreSQL, the bytes of a page.

use crate::assert_none;
use crate::sources::{ENGINE, files, read, source_folders, sources_of};
use crate::text::{blank_comments_and_strings, end_of_braces, has_word, is_word};

/// Words about the CPU, which only the kernels may use.
const CPU_WORDS: [&str; 6] = [
    "target_arch",
    "target_feature",
    "is_x86_feature_detected",
    "is_aarch64_feature_detected",
    "is_arm_feature_detected",
    "portable_simd",
];
/// Modules about the CPU, of `std` and `core`.
const CPU_MODULES: [&str; 2] = ["arch", "simd"];

/// The modules of `std` that are about the system.
const SYSTEM: [&str; 6] = ["fs", "net", "time", "env", "process", "os"];
/// Which of them each crate may use, and why. The engine has no files, no clock and no operating
/// system.
const MAY_USE: [(&str, &[&str]); 9] = [
    ("crates/pagehop-kernels/src", &["env"]), // a variable chooses the instruction set
    (ENGINE, &[]),
    ("crates/pagehop-store/src", &["fs", "time", "env", "process", "os"]), // the files
    ("crates/pagehop/src", &[]),
    ("crates/pagehop-cli/src", &["fs", "time", "process", "os"]), // files of vectors and answers
    ("crates/pagehop-sim/src", &["fs"]),                          // puts its counts into a document
    ("lab/loadgen/src", &["fs", "net", "time", "env", "process", "os"]), // a program of the lab
    ("postgres/src", &["time"]),
    ("python/src", &["time", "process"]), // a process sees that it was forked
];
/// Types of clocks, which a crate may not use that may not use `time`.
const CLOCKS: [&str; 2] = ["SystemTime", "Instant"];
/// Crates of system calls, and who may use them.
const SYSTEM_CALLS: [(&str, &[&str]); 4] = [
    ("libc", &["crates/pagehop-store/src", "postgres/src"]),
    ("rustix", &["crates/pagehop-store/src"]),
    ("io_uring", &["crates/pagehop-store/src"]),
    ("nix", &[]),
];

/// Words about signals, input and output, which only faces may use.
const FACE_WORDS: [&str; 14] = [
    "check_signals",
    "ctrlc",
    "dbg",
    "eprint",
    "eprintln",
    "print",
    "println",
    "pthread_sigmask",
    "sigaction",
    "signal_hook",
    "sigset_t",
    "stderr",
    "stdin",
    "stdout",
];
/// The faces, and two programs that are not of users.
const FACES: [&str; 5] =
    ["crates/pagehop-cli/src", "postgres/src", "python/src", "crates/pagehop-sim/src", "lab/loadgen/src"];

/// Words that only `postgres/` may use.
const POSTGRES_WORDS: [&str; 7] = ["postgres", "postgresql", "pg", "pgrx", "pgvector", "tid", "tids"];

/// The files outside `page/` that know the layout of bytes: those of edge codes and of the values
/// of columns, which a page stores without changes.
const KNOW_BYTES: [&str; 6] = [
    "columns/key.rs",
    "columns/rows.rs",
    "graph/refine.rs",
    "quantize/edge.rs",
    "quantize/estimate.rs",
    "quantize/landmarks.rs",
];
/// The files of the extension that convert bytes which are not of a page: those of a value of
/// pgvector, and those of a record of the log.
const CONVERT_OTHER_BYTES: [&str; 2] = ["pages/record.rs", "rows/vector.rs"];
/// What hosts may see of `page/`: the contract, and constants.
const CONTRACT: [&str; 18] = [
    "BODY_BYTES",
    "ChangeStep",
    "EachWork",
    "HOST_HEADER_BYTES",
    "MAGIC",
    "NumberedStep",
    "PAGE_BYTES",
    "PAYLOAD_BYTES_MAX",
    "PageId",
    "PageSink",
    "Pages",
    "PagesMut",
    "Reader",
    "STEP_PAGES",
    "Scratch",
    "ScratchFile",
    "SharedPages",
    "used_bytes",
];

/// Dependencies that are not crates of this repository, of those crates that have few: the engine's
/// copy bytes and compute a hash.
const OTHERS: [(&str, &[&str]); 2] =
    [("crates/pagehop-kernels", &[]), ("crates/pagehop-engine", &["bytemuck", "siphasher"])];

#[test]
fn only_the_kernels_know_the_cpu() {
    let mut wrong = Vec::new();
    let (kernels, others): (Vec<_>, Vec<_>) =
        files(&[".rs"]).into_iter().partition(|path| path.starts_with("crates/pagehop-kernels/"));
    for path in others {
        wrong.extend(cpu_words(&blank_comments_and_strings(&read(&path))).map(|word| format!("{path}: {word}")));
    }
    assert_none(&wrong);
    let of_kernels = |path: &String| cpu_words(&blank_comments_and_strings(&read(path))).count();
    assert!(kernels.iter().map(of_kernels).sum::<usize>() > 10, "the words of kernels are not found");
}

fn cpu_words(code: &str) -> impl Iterator<Item = &'static str> {
    let words = CPU_WORDS.into_iter().filter(|word| has_word(code, word));
    let in_module = |module: &&str| ["std::", "core::"].iter().any(|crates| has_word_after(code, crates, module));
    words.chain(CPU_MODULES.into_iter().filter(in_module))
}

#[test]
fn the_store_has_the_files_and_the_engine_knows_no_system() {
    let mut wrong = Vec::new();
    for (folder, sources) in source_folders() {
        let Some((_, may_use)) = MAY_USE.iter().find(|(name, _)| *name == folder) else {
            wrong.push(format!("{folder} has no line"));
            continue;
        };
        let is_used = |name: &str| sources.iter().any(|(_, code)| has_word_after(code, "std::", name));
        let unused = may_use.iter().filter(|name| !is_used(name));
        wrong.extend(unused.map(|name| format!("{folder} does not use std::{name}")));
        for (path, code) in sources {
            let path = format!("{folder}/{path}");
            let modules = SYSTEM.iter().filter(|name| has_word_after(&code, "std::", name));
            wrong.extend(modules.filter(|name| !may_use.contains(name)).map(|name| format!("{path}: std::{name}")));
            let clocks = CLOCKS.iter().filter(|name| has_word(&code, name) && !may_use.contains(&"time"));
            wrong.extend(clocks.map(|name| format!("{path}: {name}")));
            let calls = SYSTEM_CALLS.iter().filter(|(name, _)| has_word(&code, name));
            let calls = calls.filter(|(_, users)| !users.contains(&folder.as_str()));
            wrong.extend(calls.map(|(name, _)| format!("{path}: {name}")));
        }
    }
    assert_none(&wrong);
}

#[test]
fn only_faces_have_signals_input_and_output() {
    let mut wrong = Vec::new();
    for (folder, sources) in source_folders() {
        for (path, code) in sources.iter().filter(|_| !FACES.contains(&folder.as_str())) {
            let words = FACE_WORDS.iter().filter(|word| has_word(code, word));
            wrong.extend(words.map(|word| format!("{folder}/{path}: {word}")));
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

#[test]
fn only_the_room_of_pages_knows_their_bytes() {
    let mut wrong = Vec::new();
    for (folder, sources) in source_folders() {
        let (is_engine, is_extension) = (folder == ENGINE, folder == "postgres/src");
        // The simulator damages pages on purpose.
        for (path, code) in sources.iter().filter(|_| folder != "crates/pagehop-sim/src") {
            if is_engine && (path.starts_with("page/") || KNOW_BYTES.contains(&path.as_str())) {
                continue;
            }
            // The store converts its own headers and records, and programs the formats of files.
            let may_convert =
                !is_engine && !is_extension || is_extension && CONVERT_OTHER_BYTES.contains(&path.as_str());
            let converts = code.contains("_le_bytes") && !may_convert;
            let knows_magic = is_extension && has_word(code, "MAGIC");
            if converts || knows_magic || parts_of_a_body(code).any(|part| is_engine || is_known_place(part)) {
                wrong.push(format!("{folder}/{path} knows bytes of a page"));
            }
        }
    }
    assert_none(&wrong);
}

/// The parts of a body that a source takes, as text.
fn parts_of_a_body(code: &str) -> impl Iterator<Item = &str> {
    let indexings = ["body[", "bodies[0][", "guard["].into_iter();
    let found = indexings.flat_map(|indexing| code.match_indices(indexing));
    let found = found.filter(|(at, _)| !code[..*at].ends_with(is_word));
    found.filter_map(|(at, indexing)| code[at + indexing.len()..].split(']').next())
}

/// Whether a place on a page is a number or a constant. A host takes the places that it is given.
fn is_known_place(part: &str) -> bool {
    let is_constant = |word: &str| word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase());
    part.split(|c: char| !is_word(c))
        .any(|word| word.starts_with(|c: char| c.is_ascii_digit()) || is_constant(word))
}

#[test]
fn hosts_see_the_contract_of_pages_and_no_bytes() {
    let sources = sources_of(ENGINE);
    let code = |name: &str| &sources.iter().find(|(path, _)| path == name).expect("the engine has it").1;
    let pages = published(code("page/mod.rs"));
    let root = published(code("lib.rs")).into_iter().filter(|item| item.starts_with("use page::"));
    let names: Vec<String> = pages.into_iter().chain(root).flat_map(|item| names_of(&item)).collect();
    assert!(names.len() > CONTRACT.len(), "{names:?}");
    let wrong: Vec<_> = names.into_iter().filter(|name| !CONTRACT.contains(&name.as_str())).collect();
    assert_none(&wrong);
}

/// What a source publishes, from after `pub` to the end of a `use`, or to the start of a value or a
/// body.
fn published(code: &str) -> Vec<String> {
    let items = code.match_indices("pub ").filter(|(at, _)| code[..*at].is_empty() || code[..*at].ends_with('\n'));
    let items = items.map(|(at, _)| &code[at + "pub ".len()..]);
    let end = |item: &&str| if item.starts_with("use ") { item.find(';') } else { item.find(['=', '{', ';']) };
    items.map(|item| item[..end(&item).unwrap_or(item.len())].to_owned()).collect()
}

/// The names that an item has. Those of a `use` are the ends of its paths.
fn names_of(item: &str) -> Vec<String> {
    let is_end = |word: &&str| !word.is_empty() && !word.ends_with("::");
    match item.strip_prefix("use ") {
        Some(tree) => tree
            .split(['{', '}', ','])
            .map(str::trim)
            .filter(is_end)
            .filter_map(|path| path.rsplit("::").next().map(str::to_owned))
            .collect(),
        None => {
            let mut words = item.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
            words.nth(1).map(str::to_owned).into_iter().collect()
        }
    }
}

#[test]
fn kernels_and_the_engine_depend_on_little() {
    let mut wrong = Vec::new();
    for (folder, allowed) in OTHERS {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let (_, after) = manifest.split_once("\n[dependencies]").expect("a crate has a list");
        let entries = after.lines().skip(1).take_while(|line| !line.starts_with('['));
        let names = entries.filter_map(|line| line.split(['.', ' ', '=', '#']).next());
        let others = names.filter(|name| !name.is_empty() && !name.starts_with("pagehop"));
        wrong.extend(others.filter(|name| !allowed.contains(name)).map(|name| format!("{folder}: {name}")));
        let tables = ["dependencies.", ".dependencies", "build-dependencies"];
        let tables = tables.iter().filter(|table| manifest.contains(*table));
        wrong.extend(tables.map(|table| format!("{folder} has a table {table}")));
    }
    assert_none(&wrong);
}

/// Whether `std::name` or `use std::{.., name, ..}` is in the code.
fn has_word_after(code: &str, prefix: &str, word: &str) -> bool {
    code.match_indices(prefix).any(|(at, _)| {
        let start = at + prefix.len();
        let after = &code[start..];
        let end = match after.starts_with('{') {
            true => end_of_braces(code, start),
            false => start + after.find(|c: char| !is_word(c)).unwrap_or(after.len()),
        };
        has_word(&code[start..end], word)
    })
}

#[test]
fn words_and_published_items_are_found() {
    assert!(has_word_after("use std::{sync::{Arc}, time};", "std::", "time"));
    assert!(has_word_after("std::time::Instant::now()", "std::", "time"));
    assert!(!has_word_after("std::sync::time", "std::", "time"));
    assert_eq!(
        cpu_words("#[cfg(target_arch = )] use core::arch::x86_64;").collect::<Vec<_>>(),
        ["target_arch", "arch"]
    );
    assert_eq!(parts_of_a_body("body[3] + antibody[4] + guard[at..end]").collect::<Vec<_>>(), ["3", "at..end"]);
    assert!(is_known_place("..8") && is_known_place("at + NODE_AT..") && !is_known_place("at..end1"));
    let items = published(
        "pub use a::{B, c::D};\npub(crate) mod e;\npub const F: u8 = 1;\npub mod g;\n    pub fn h() {}\n",
    );
    let names: Vec<String> = items.iter().flat_map(|item| names_of(item)).collect();
    assert_eq!(names, ["B", "D", "F", "g"]);
}
