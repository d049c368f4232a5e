//! Where the methods of a type are, how many it has, and that one name is one type.
//!
//! The methods of a type can call one another from any file, and no import shows it. So a file with
//! its own job has functions or a type of its own, which other files import.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::assert_none;
use crate::sources::source_folders;
use crate::text::{end_of_braces, functions, is_word};

/// Types whose methods are in several files, as `folder: type`, and the reason. In files other than
/// that of the type, their methods are `pub` or private to the file.
const FACES: [(&str, &str); 5] = [
    ("crates/pagehop-engine/src: Index", "its room is below those of the operations on it"),
    ("crates/pagehop-engine/src: Change", "likewise, for what vacuum, training and hosts do in one"),
    ("crates/pagehop-engine/src: Searcher", "searches with a filter are made of parts that use it"),
    ("crates/pagehop-engine/src: Value", "its texts have a file, which knows the kinds of values"),
    ("crates/pagehop-kernels/src: Kernels", "each kernel has a folder, which uses the dispatch to them"),
];

/// Proofs that the CPU has an instruction set. Each kernel is a method of a proof, in the folder of
/// the kernel.
const PROOFS: [&str; 2] = ["crates/pagehop-kernels/src: Avx512", "crates/pagehop-kernels/src: Avx512Bw"];

/// Largest number of methods of a type.
const METHODS_MAX: usize = 40;

/// Names that several types of a crate may have, as `folder: name`, and the reason.
const SHARED_NAMES: [(&str, &str); 5] = [
    ("crates/pagehop-cli/src: Args", "the arguments of each command"),
    ("lab/loadgen/src: Connection", "one of each protocol"),
    ("lab/loadgen/src: Field", "likewise"),
    ("lab/loadgen/src: Incoming", "likewise, over a common one"),
    ("lab/loadgen/src: Outgoing", "likewise"),
];

/// A block of methods that do not belong to a trait.
#[derive(Debug, PartialEq)]
struct Methods {
    of: String,
    /// The name and the visibility of each method.
    methods: Vec<(String, Visibility)>,
}

/// A type that is defined in a file.
#[derive(Debug, PartialEq)]
struct Defined {
    name: String,
    visibility: Visibility,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Visibility {
    Public,
    /// Visible to other files of the crate.
    Inside,
    Private,
}

#[test]
fn the_methods_of_a_type_are_in_its_file() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (folder, sources) in source_folders() {
        for (path, code) in &sources {
            let here = types(code);
            for block in methods(code).into_iter().filter(|block| !here.iter().any(|one| one.name == block.of)) {
                let name = format!("{folder}: {}", block.of);
                if PROOFS.contains(&name.as_str()) {
                    continue;
                }
                let Some((face, _)) = FACES.iter().find(|(face, _)| *face == name) else {
                    wrong.push(format!("{folder}/{path}: methods of {}, which is in another file", block.of));
                    continue;
                };
                used.insert(*face);
                let inside = block.methods.into_iter().filter(|(_, seen)| *seen == Visibility::Inside);
                wrong.extend(inside.map(|(method, _)| {
                    format!(
                        "{folder}/{path}: {}::{method} is for other files, and in none that they import",
                        block.of
                    )
                }));
            }
        }
    }
    let unused = FACES.iter().filter(|(face, _)| !used.contains(face));
    wrong.extend(unused.map(|(face, _)| format!("{face} needs no exception")));
    assert_none(&wrong);
}

#[test]
fn types_have_few_methods() {
    let mut wrong = Vec::new();
    let mut most = 0;
    for (folder, sources) in source_folders() {
        // If types of the same name are in different files, their methods are counted apart.
        let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for (path, code) in &sources {
            let here = types(code);
            for block in methods(code) {
                let is_here = here.iter().any(|one| one.name == block.of);
                let defines = |(_, code): &&(String, String)| types(code).iter().any(|one| one.name == block.of);
                let home = match is_here {
                    true => path,
                    false => sources.iter().find(defines).map_or(path, |(path, _)| path),
                };
                *counts.entry((block.of, home)).or_default() += block.methods.len();
            }
        }
        for ((name, home), count) in counts {
            most = most.max(count);
            if count > METHODS_MAX {
                wrong.push(format!("{folder}/{home}: {name} has {count} methods"));
            }
        }
    }
    assert!(most > METHODS_MAX / 2, "the methods of types are not found");
    assert_none(&wrong);
}

#[test]
fn a_name_that_files_share_is_one_type() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (folder, sources) in source_folders() {
        let mut homes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (path, code) in &sources {
            let shared = types(code).into_iter().filter(|one| one.visibility != Visibility::Private);
            shared.for_each(|one| homes.entry(one.name).or_default().push(path));
        }
        for (name, homes) in homes.into_iter().filter(|(_, homes)| homes.len() > 1) {
            let full = format!("{folder}: {name}");
            match SHARED_NAMES.iter().find(|(shared, _)| *shared == full) {
                Some((shared, _)) => drop(used.insert(*shared)),
                None => wrong.push(format!("{full} is in {}", homes.join(", "))),
            }
        }
    }
    let unused = SHARED_NAMES.iter().filter(|(shared, _)| !used.contains(shared));
    wrong.extend(unused.map(|(shared, _)| format!("{shared} needs no exception")));
    assert_none(&wrong);
}

/// The structs, enums, unions and traits of a source that are outside of functions.
fn types(code: &str) -> Vec<Defined> {
    let mut found = Vec::new();
    for line in code.lines() {
        let (visibility, rest) = visibility(line);
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
        let kinds = ["struct ", "enum ", "union ", "trait "];
        let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind)).unwrap_or_default();
        let name: String = name.chars().take_while(|c| is_word(*c)).collect();
        if !name.is_empty() {
            found.push(Defined { name, visibility });
        }
    }
    found
}

/// The methods of the types of a source. Methods of traits are left out.
fn methods(code: &str) -> Vec<Methods> {
    let blocks = impl_blocks(code).into_iter();
    blocks
        .map(|(of, body)| {
            let code = &code[body];
            let methods = functions(code).into_iter().map(|(name, at)| {
                let line = code[..at.start].rfind('\n').map_or(0, |before| before + 1);
                (name, visibility(code[line..at.start].trim_start()).0)
            });
            Methods { of, methods: methods.collect() }
        })
        .collect()
}

/// The blocks of methods that do not belong to a trait: the type, and the range of the block's
/// code.
fn impl_blocks(code: &str) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("impl") {
        let (before, after) = (code[..at].trim_end_matches([' ', '\t']), &code[at + 4..]);
        let starts = before.is_empty() || before.ends_with('\n') || before.ends_with("unsafe");
        if !starts || !after.starts_with([' ', '<']) {
            continue;
        }
        let Some(open) = after.find('{') else { continue };
        let head = without_generics(&after[..open]);
        let of_trait = head.contains(" for ");
        let name = head.trim_start().split(|c: char| !is_word(c) && c != ':').next().unwrap_or_default();
        let name = name.rsplit("::").next().unwrap_or_default();
        if !of_trait && !name.is_empty() {
            let open = at + 4 + open;
            found.push((name.to_owned(), open..end_of_braces(code, open)));
        }
    }
    found
}

/// The head of a block without the parts in angle brackets, and without its `where`.
fn without_generics(head: &str) -> String {
    let (mut depth, mut kept, mut before) = (0, String::new(), ' ');
    for c in head.chars() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
        before = c;
    }
    let words = kept.split_whitespace().take_while(|word| *word != "where");
    words.map(|word| word.to_owned() + " ").collect()
}

/// The visibility of what a line defines, and the rest of the line.
fn visibility(line: &str) -> (Visibility, &str) {
    if let Some(rest) = line.strip_prefix("pub ") {
        return (Visibility::Public, rest);
    }
    match line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")) {
        Some((_, rest)) => (Visibility::Inside, rest),
        None => (Visibility::Private, line),
    }
}

#[test]
fn methods_are_told_from_those_of_traits() {
    let code = "
pub(super) struct A<'a, T: Fn() -> bool> { a: &'a T }
enum B { C }
impl<'a, T: Fn() -> bool> A<'a, T> {
    pub(crate) fn one(&self) { let _ = || -> i32 { 0 }; }
    pub const fn two() {}
    fn three<U>(u: impl Fn(U) -> U) -> impl Iterator<Item = U> {}
}
impl<T> From<T> for B where T: Copy { fn from(_: T) -> Self { B::C } }
impl<R> inner::D<R>
where
    R: for<'r> Fn(&'r u8),
{
}
";
    let defined = [("A", Visibility::Inside), ("B", Visibility::Private)];
    assert_eq!(types(code), defined.map(|(name, visibility)| Defined { name: name.to_owned(), visibility }));
    let methods = methods(code);
    let seen = [("one", Visibility::Inside), ("two", Visibility::Public), ("three", Visibility::Private)];
    let seen = seen.map(|(name, visibility)| (name.to_owned(), visibility)).to_vec();
    assert_eq!(methods[0], Methods { of: "A".to_owned(), methods: seen });
    assert_eq!(methods[1], Methods { of: "D".to_owned(), methods: Vec::new() });
    assert_eq!(methods.len(), 2);
}
