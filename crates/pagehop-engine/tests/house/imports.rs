//! Which file of a crate imports which: `use` statements and paths, resolved to the file that
//! defines the item.
//!
//! A file that has modules below it (`lib.rs`, `mod.rs`) is a table of contents. What it re-exports
//! is not an import, and an import through it leads to the file that defines the item. Calls of
//! methods are not seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::{end_of_braces, is_word};

/// A path of modules from the root of a crate.
type Module = Vec<String>;

/// The files of a crate.
pub(crate) struct Crate {
    files: Vec<File>,
    modules: BTreeMap<Module, usize>,
    /// The path of a name that a module imports and that files below it may use, by module and
    /// name.
    exports: BTreeMap<(Module, String), Vec<String>>,
}

struct File {
    /// Path below the folder of sources.
    path: String,
    module: Module,
    paths: Vec<Path>,
}

/// A path in a source.
#[derive(Debug)]
struct Path {
    segments: Vec<String>,
    /// The name that a `use` gives to the item that it imports; `None` for other paths.
    name: Option<String>,
    is_export: bool,
}

/// What a path leads to.
enum Target {
    Module(Module),
    Item(Module),
}

impl Crate {
    /// A crate of `sources`, which are pairs of a path below the folder of sources and the code
    /// without comments and strings.
    pub(crate) fn new(sources: &[(String, String)]) -> Self {
        let files: Vec<File> = sources
            .iter()
            .map(|(path, code)| File { path: path.clone(), module: module_of(path), paths: paths(code) })
            .collect();
        let modules = files.iter().enumerate().map(|(at, file)| (file.module.clone(), at)).collect();
        let mut exports = BTreeMap::new();
        for file in &files {
            for path in &file.paths {
                if let Some(name) = &path.name {
                    exports.insert((file.module.clone(), name.clone()), path.segments.clone());
                }
            }
        }
        Self { files, modules, exports }
    }

    /// The files that each file imports.
    pub(crate) fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        self.files.iter().map(|file| (file.path.as_str(), self.imports_of(file))).collect()
    }

    fn imports_of(&self, file: &File) -> BTreeSet<&str> {
        let has_modules =
            self.modules.keys().any(|other| other.len() > file.module.len() && other.starts_with(&file.module));
        let aliases: BTreeMap<&str, Module> = file
            .paths
            .iter()
            .filter_map(|path| match self.resolve(&file.module, &path.segments, &BTreeMap::new())? {
                Target::Module(module) => Some((path.name.as_deref()?, module)),
                Target::Item(_) => None,
            })
            .collect();
        let counted = file.paths.iter().filter(|path| !(path.is_export && has_modules));
        let targets = counted.filter_map(|path| self.resolve(&file.module, &path.segments, &aliases));
        targets
            .filter_map(|target| match target {
                Target::Item(module) => Some(self.files[self.modules[&module]].path.as_str()),
                Target::Module(_) => None,
            })
            .filter(|path| *path != file.path)
            .collect()
    }

    /// What a path in `module` leads to; `None` for paths into other crates and for names that are
    /// not modules.
    fn resolve(&self, module: &[String], segments: &[String], aliases: &BTreeMap<&str, Module>) -> Option<Target> {
        let (first, mut rest) = segments.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module[..module.len() - 1].to_vec(),
            name => {
                let child = [module, std::slice::from_ref(first)].concat();
                match self.modules.contains_key(&child) {
                    true => child,
                    false => aliases.get(name)?.clone(),
                }
            }
        };
        while let Some((next, after)) = rest.split_first() {
            let child = [at.as_slice(), std::slice::from_ref(next)].concat();
            if next == "super" {
                at.pop();
            } else if self.modules.contains_key(&child) {
                at = child;
            } else if let Some(from) = self.exports.get(&(at.clone(), next.clone())) {
                let path = [from.as_slice(), after].concat();
                return self.resolve(&at, &path, &BTreeMap::new());
            } else {
                return Some(Target::Item(at));
            }
            rest = after;
        }
        Some(Target::Module(at))
    }
}

/// Groups of files that import one another in a circle. Each file is listed with the files of its
/// group that it imports.
pub(crate) fn circles(imports: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reached(file, imports))).collect();
    let mut found = BTreeSet::new();
    for (file, reached) in &reach {
        let circle: Vec<String> =
            reached.iter().filter(|other| reach[*other].contains(file)).map(|other| (*other).to_owned()).collect();
        if !circle.is_empty() {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// The files that `file` imports, directly or through others.
fn reached<'a>(file: &str, imports: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = imports[file].iter().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&imports[file]);
        }
    }
    reached
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`; `lib.rs` and `main.rs` are the root.
fn module_of(path: &str) -> Module {
    let path = path.strip_suffix(".rs").expect("a Rust source");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if ["lib", "main"].contains(&path) { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// The paths of `use` statements, and then all other paths.
fn paths(code: &str) -> Vec<Path> {
    let code = &without_inline_modules(code);
    let mut found = Vec::new();
    let mut rest = code.to_owned();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].trim_end();
        if code[..at].ends_with(is_word) || !before.is_empty() && !before.ends_with([';', '{', '}', ')', ']', 'b'])
        {
            continue;
        }
        let tree = code[at + 4..].split(';').next().unwrap_or_default();
        let is_export = before.ends_with("pub") || before.ends_with(')');
        expand(&[], tree, is_export, &mut found);
        rest.replace_range(at..at + 4 + tree.len(), &" ".repeat(4 + tree.len()));
    }
    inline(&rest, &mut found);
    found
}

/// The code, where `super` in modules inside the file is replaced by `self`: the file is one module
/// here.
fn without_inline_modules(code: &str) -> String {
    let mut flat = code.to_owned();
    for (at, _) in code.rmatch_indices("mod ") {
        let name = code[at + 4..].find(|c: char| !is_word(c)).map_or(code.len(), |end| at + 4 + end);
        let open = name + code[name..].len() - code[name..].trim_start().len();
        if !code[..at].ends_with(is_word) && code[open..].starts_with('{') {
            let end = end_of_braces(&flat, open);
            let inside = flat[open..end].replace("super::", "self::");
            flat.replace_range(open..end, &inside);
        }
    }
    flat
}

/// The paths of a `use` tree, such as `a::{self, b::c, d as e}`.
fn expand(prefix: &[String], tree: &str, is_export: bool, found: &mut Vec<Path>) {
    let tree = tree.trim();
    if let Some((head, list)) = tree.split_once('{') {
        let mut prefix = prefix.to_vec();
        prefix.extend(head.split("::").map(str::trim).filter(|segment| !segment.is_empty()).map(str::to_owned));
        let list = &list[..list.rfind('}').expect("a list ends")];
        top_level(list).into_iter().for_each(|tree| expand(&prefix, tree, is_export, found));
        return;
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let mut segments = prefix.to_vec();
    segments
        .extend(path.split("::").map(|segment| segment.trim().to_owned()).filter(|segment| !segment.is_empty()));
    if prefix.len() + 1 == segments.len()
        && segments.last().is_some_and(|last| last == "self")
        && !prefix.is_empty()
    {
        segments.pop();
    }
    let name = if alias.is_empty() { segments.last().cloned() } else { Some(alias.trim().to_owned()) };
    found.extend(name.map(|name| Path { segments, name: Some(name), is_export }));
}

/// The parts of a list between the commas that are outside of braces.
fn top_level(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Paths outside `use` statements: words with `::` between them.
fn inline(code: &str, found: &mut Vec<Path>) {
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let start = rest[..at].rfind(|c: char| !is_word(c)).map_or(0, |before| before + 1);
        let mut segments = vec![rest[start..at].to_owned()];
        let mut after = &rest[at..];
        while let Some(next) = after.strip_prefix("::").filter(|next| next.starts_with(is_word)) {
            let length = next.find(|c: char| !is_word(c)).unwrap_or(next.len());
            segments.push(next[..length].to_owned());
            after = &next[length..];
        }
        if !segments[0].is_empty() {
            found.push(Path { segments, name: None, is_export: false });
        }
        rest = after.strip_prefix("::").unwrap_or(after);
    }
}

#[test]
fn imports_lead_to_the_file_behind_a_table_of_contents() {
    let sources = [
        ("lib.rs", "mod a; pub mod b; mod d; pub use a::{First, inner::Second as Other}; pub(crate) use d::run;"),
        ("a/mod.rs", "pub mod inner; pub(crate) mod twin; pub struct First; fn f() { inner::make(); }"),
        ("a/inner.rs", "use crate::{Other, run}; use super::twin; pub struct Second; fn g() { twin::go() }"),
        ("a/twin.rs", "use std::fmt; use crate::a::inner::{self, Second}; fn h() { inner::x() }"),
        ("b.rs", "use crate::First; fn i() { crate::a::twin::go(); std::fs::read(First::NAME) }"),
        ("d.rs", "use crate::b; fn j() { b::k() } pub fn run() {} mod inside { fn l() { super::run() } }"),
    ];
    let owned = sources.map(|(path, code)| (path.to_owned(), code.to_owned()));
    let source_files = Crate::new(&owned);
    let imports = source_files.imports();
    let of = |file: &str| imports[file].iter().copied().collect::<Vec<_>>();
    assert_eq!(of("lib.rs"), [""; 0]);
    assert_eq!(of("a/mod.rs"), ["a/inner.rs"]);
    assert_eq!(of("a/inner.rs"), ["a/twin.rs", "d.rs"]);
    assert_eq!(of("a/twin.rs"), ["a/inner.rs"]);
    assert_eq!(of("b.rs"), ["a/mod.rs", "a/twin.rs"]);
    assert_eq!(of("d.rs"), ["b.rs"]);
    let circle = ["a/inner.rs", "a/mod.rs", "a/twin.rs", "b.rs", "d.rs"].map(str::to_owned).to_vec();
    assert_eq!(circles(&imports), [circle]);
}
