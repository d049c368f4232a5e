//! The memory of builds in `docs/scale.md` is what a build needs.

use std::path::Path;

use pagehop_engine::{build_memory_bytes, build_memory_bytes_min};

/// Threads in the table of the document.
const THREADS: usize = 8;

#[test]
fn the_document_has_the_memory_of_builds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split("\n## ").find(|part| part.starts_with("Memory of a build")).unwrap();
    let numbers = |line: &str| -> Vec<f64> {
        line.split('|').filter_map(|cell| cell.trim().replace(',', "").parse().ok()).collect()
    };
    let rows: Vec<Vec<f64>> = section.lines().map(numbers).filter(|numbers| numbers.len() == 4).collect();
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
