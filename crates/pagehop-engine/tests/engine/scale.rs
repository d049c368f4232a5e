//! The memory and the disk space in `docs/scale.md` are what the code needs.

use std::cell::RefCell;
use std::path::Path;

use crate::support::spilling::Spilling;
use crate::support::{Rows, built, embeddings, no_progress, options};
use pagehop_engine::{
    BuildOptions, EachChunk, Error, Index, Metric, PAGE_BYTES, Pages, VectorSource, build, build_memory_bytes,
    build_memory_bytes_min,
};

/// Threads in the table of the document.
const THREADS: usize = 8;

/// Bytes of the index a row, and rows a page, at some dimensions: as the first formula says.
const ROW_BYTES: [(usize, usize, usize); 3] = [(384, 2750, 3), (768, 4100, 2), (1536, 8200, 1)];

fn document() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md")).unwrap()
}

/// The lines of four numbers in a section.
fn table(section: &str) -> Vec<[f64; 4]> {
    let text = document();
    let section = text.split("\n## ").find(|part| part.starts_with(section)).unwrap();
    let numbers = |line: &str| -> Vec<f64> {
        line.split('|').filter_map(|cell| cell.trim().replace(',', "").parse().ok()).collect()
    };
    section.lines().filter_map(|line| numbers(line).try_into().ok()).collect()
}

/// The formula in the first table whose line begins with `what`.
fn formula(what: &str) -> String {
    let text = document();
    let line = text.lines().find(|line| line.starts_with(&format!("| {what} |"))).unwrap();
    line.split('|').nth(2).unwrap().to_owned()
}

#[test]
fn the_document_has_the_memory_of_builds() {
    let rows = table("Memory of a build");
    assert_eq!(rows.len(), 8, "lines of the table");
    for row in rows {
        let (rows, dim) = (row[0] as usize, row[1] as usize);
        let known = [build_memory_bytes_min(rows, dim, 0, THREADS), build_memory_bytes(rows, dim, THREADS)];
        for (bytes, said) in known.into_iter().zip(&row[2..]) {
            let gib = bytes as f64 / (1_u64 << 30) as f64;
            assert!((gib - said).abs() <= 0.05 + 0.001 * gib, "{rows} rows of {dim} dimensions: {gib}, not {said}");
        }
    }
}

/// A source that knows how many rows it has, and has none of them.
struct Promised(u64, usize);

impl VectorSource for Promised {
    fn dim(&self) -> usize {
        self.1
    }

    fn row_count(&self) -> Option<u64> {
        Some(self.0)
    }

    fn scan(&mut self, _: EachChunk<'_>) -> Result<(), Error> {
        panic!("the build was to be refused before it reads a row");
    }
}

#[test]
fn the_document_has_the_disk_space_of_builds() {
    assert!(formula("disk of a build").starts_with(" the index and `n` times 0.3 to 0.4 KB at its end;"));
    for (dim, row_bytes, _) in ROW_BYTES {
        let rows = 10_000_000;
        let memory_bytes = build_memory_bytes_min(rows, dim, 0, THREADS);
        let options = BuildOptions { memory_bytes, threads: THREADS, ..options(Metric::L2) };
        let mut sink = Spilling { free: Some(0), kept: Some(RefCell::default()), ..Spilling::default() };
        let refused = build(&mut Promised(rows as u64, dim), &options, &mut sink, &mut no_progress());
        let text = refused.unwrap_err().to_string();
        let needed = text.split(" MiB of disk space").next().unwrap().rsplit(' ').next().unwrap();
        let needed = needed.parse::<f64>().unwrap() * f64::from(1 << 20) / rows as f64;
        let beside = needed - row_bytes as f64;
        println!("{dim} dimensions: {beside} bytes a row beside the index");
        assert!((250.0..450.0).contains(&beside), "{dim} dimensions: {beside} bytes a row beside the index");
    }
}

#[test]
fn the_document_has_the_memory_of_an_open_index() {
    let rows = table("Memory of an open index");
    assert_eq!(rows.len(), 5, "lines of the table");
    for [rows, dim, table, cache] in rows {
        let (.., per_page) = *ROW_BYTES.iter().find(|(known, ..)| *known as f64 == dim).unwrap();
        let mib = rows / per_page as f64 * 4.0 / f64::from(1 << 20);
        assert!((mib - table).abs() <= 0.5 && (2.0 * mib - cache).abs() <= 0.5, "{rows} rows: {mib} MiB");
    }
}

#[test]
fn the_document_has_the_memory_of_a_check_and_the_rows_of_a_page() {
    let said = formula("memory of a check");
    let said: f64 = said.split(" bytes").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    for (dim, row_bytes, per_page) in ROW_BYTES {
        assert!(row_bytes.abs_diff(PAGE_BYTES / per_page) < 30, "{dim} dimensions");
        let index = Index::open(built(&Rows::new(dim, embeddings(dim, 60, 1)), &options(Metric::L2)).unwrap());
        let index = index.unwrap();
        let slots = index.pages().page_count() as usize * per_page;
        let bytes = index.check_memory_bytes() as f64 / slots as f64;
        println!("{dim} dimensions: {bytes} bytes a slot");
        assert!((said - 40.0..=said).contains(&bytes), "{dim} dimensions: {bytes} bytes a slot");
    }
}
