//! What the server plans for the statement, and which indexes it would scan in order.

use serde::Serialize;

use crate::client::{Connection, STATEMENT, Trouble};
use crate::errors::Error;

/// Longest literal that is shown; a query's vector would hide the plan.
const LITERAL_BYTES_MAX: usize = 40;

/// A plan and what it says.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Plan {
    pub(crate) text: String,
    /// Whether there is an index scan that gives rows in order; a bitmap scan does not.
    pub(crate) index_scan: bool,
    pub(crate) indexes: Vec<String>,
}

impl Plan {
    /// Asks the server what it would do with `parameter`, a vector as text.
    pub(crate) fn ask(connection: &mut Connection, parameter: Option<&str>) -> Result<Self, Trouble> {
        let parameter = parameter.map(|text| format!("('{text}')")).unwrap_or_default();
        let rows = connection.simple(&format!("EXPLAIN EXECUTE {STATEMENT}{parameter}"))?;
        let lines: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().next()?).collect();
        Ok(Self::read(&lines.join("\n")))
    }

    /// Fails unless the index `name` is scanned.
    pub(crate) fn require(&self, name: &str) -> Result<(), Error> {
        if self.indexes.iter().any(|index| index == name) {
            return Ok(());
        }
        Err(Error::Failure(format!("the plan does not scan the index {name}:\n{}", self.text)))
    }

    fn read(text: &str) -> Self {
        let text: Vec<String> = text.lines().map(shorten).collect();
        let indexes: Vec<String> = text.iter().filter_map(|line| scanned(line)).collect();
        Self { index_scan: !indexes.is_empty(), indexes, text: text.join("\n") }
    }
}

/// How often the statement was planned for all parameters, and for the one at hand.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PlanCounts {
    pub(crate) generic_count: i64,
    pub(crate) custom_count: i64,
}

impl PlanCounts {
    /// The counts of this connection so far.
    pub(crate) fn ask(connection: &mut Connection) -> Result<Self, Trouble> {
        let sql =
            format!("SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE name = '{STATEMENT}'");
        let row = connection.simple(&sql)?.into_iter().next().unwrap_or_default();
        let mut counts = row.into_iter().map(|value| value.and_then(|text| text.parse().ok()).unwrap_or(0));
        let mut next = || counts.next().unwrap_or(0);
        Ok(Self { generic_count: next(), custom_count: next() })
    }

    /// The counts since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            generic_count: self.generic_count - before.generic_count,
            custom_count: self.custom_count - before.custom_count,
        }
    }
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

/// The line, with long literals cut.
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
        let plan =
            Plan::read("Limit  (cost=1..2 rows=10)\n  ->  Index Scan using items_hnsw on items  (cost=1..2)");
        assert!(plan.index_scan);
        assert_eq!(plan.indexes, ["items_hnsw"]);
        assert!(plan.require("items_hnsw").is_ok());
        let Error::Failure(text) = plan.require("items").unwrap_err() else { panic!() };
        assert!(text.contains("index items:\nLimit"), "{text}");
    }

    #[test]
    fn other_scans_are_none_in_order() {
        for line in ["Seq Scan on items", "->  Bitmap Index Scan on items_x", "->  Bitmap Heap Scan on items"] {
            assert!(!Plan::read(line).index_scan, "{line}");
        }
        assert_eq!(Plan::read("Index Only Scan using a on b").indexes, ["a"]);
        assert_eq!(Plan::read("Parallel Index Scan Backward using \"My \"\"x\" on b").indexes, ["My \"x"]);
    }

    #[test]
    fn a_long_vector_is_cut_and_a_short_text_is_not() {
        let line = format!("Order By: (embedding <-> '[{}]'::vector) Filter: (a = 'b')", "0,".repeat(100));
        assert_eq!(shorten(&line), "Order By: (embedding <-> '[...]'::vector) Filter: (a = 'b')");
    }
}
