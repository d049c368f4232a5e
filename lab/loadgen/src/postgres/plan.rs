//! The output of PostgreSQL's EXPLAIN, line by line.

use crate::plan::Plan;

/// Longest literal of a plan that is shown, in bytes. A query vector would hide the plan.
const LITERAL_BYTES_MAX: usize = 40;

/// The plan in the output of EXPLAIN.
pub(super) fn read(text: &str) -> Plan {
    let text: Vec<String> = text.lines().map(shorten).collect();
    let indexes = text.iter().filter_map(|line| scanned(line)).collect();
    Plan::new(text.join("\n"), indexes)
}

/// The index that a line of a plan scans in order.
fn scanned(line: &str) -> Option<String> {
    let (_, after) = ["Index Scan", "Index Only Scan"].iter().find_map(|node| line.split_once(node))?;
    let after = after.strip_prefix(" Backward").unwrap_or(after).strip_prefix(" using ")?;
    if let Some(quoted) = after.strip_prefix('"') {
        let end = quoted.find("\" on ")?;
        return Some(quoted[..end].replace("\"\"", "\""));
    }
    after.split(' ').next().map(str::to_string)
}

/// `line`, with long literals replaced by `[...]`.
fn shorten(line: &str) -> String {
    let parts = line.split('\'').enumerate();
    let parts = parts.map(|(number, part)| {
        let cut = number % 2 == 1 && part.len() > LITERAL_BYTES_MAX;
        if cut { "[...]" } else { part }
    });
    parts.collect::<Vec<_>>().join("'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_scan_is_found_by_name() {
        let plan = read("Limit  (cost=1..2 rows=10)\n  ->  Index Scan using items_hnsw on items  (cost=1..2)");
        assert!(plan.index_scan);
        assert_eq!(plan.indexes, ["items_hnsw"]);
    }

    #[test]
    fn other_scans_are_none_in_order() {
        for line in ["Seq Scan on items", "->  Bitmap Index Scan on items_x", "->  Bitmap Heap Scan on items"] {
            assert!(!read(line).index_scan, "{line}");
        }
        assert_eq!(read("Index Only Scan using a on b").indexes, ["a"]);
        assert_eq!(read("Parallel Index Scan Backward using \"My \"\"x\" on b").indexes, ["My \"x"]);
    }

    #[test]
    fn a_long_vector_is_cut_and_a_short_text_is_not() {
        let line = format!("Order By: (embedding <-> '[{}]'::vector) Filter: (a = 'b')", "0,".repeat(100));
        assert_eq!(shorten(&line), "Order By: (embedding <-> '[...]'::vector) Filter: (a = 'b')");
    }
}
