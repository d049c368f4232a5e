//! The output of MariaDB's EXPLAIN, which has one row per table.

use crate::client::Rows;
use crate::plan::Plan;

/// Columns of EXPLAIN.
const TABLE: usize = 2;
const ACCESS: usize = 3;
const KEY: usize = 5;
const EXTRA: usize = 9;

/// The plan in the output of EXPLAIN. A key counts as an index scan only if its table is read in
/// the order of the key.
pub(super) fn read(rows: &Rows) -> Plan {
    let (mut lines, mut indexes) = (Vec::new(), Vec::new());
    for row in rows {
        let column = |number: usize| row.get(number).and_then(Option::as_deref);
        let access = column(ACCESS).unwrap_or("no access");
        let (mut line, key) = (format!("{access} {}", column(TABLE).unwrap_or("-")), column(KEY));
        if let Some(key) = key {
            line += &format!(" by {key}");
        }
        if let Some(extra) = column(EXTRA).filter(|extra| !extra.is_empty()) {
            line += &format!(" ({extra})");
        }
        lines.push(line);
        // Other accesses look up values or ranges. If rows are sorted afterwards, they were not
        // read in the order of the key.
        let sorted = column(EXTRA).is_some_and(|extra| extra.contains("filesort"));
        indexes.extend(key.filter(|_| access == "index" && !sorted).map(str::to_string));
    }
    Plan::new(lines.join("\n"), indexes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(access: &str, key: Option<&str>, extra: &str) -> Plan {
        let row =
            [Some("1"), Some("SIMPLE"), Some("t"), Some(access), None, key, None, None, Some("10"), Some(extra)];
        read(&vec![row.map(|value| value.map(str::to_string)).to_vec()])
    }

    #[test]
    fn the_key_of_an_ordered_scan_is_found() {
        let plan = of("index", Some("embedding"), "");
        assert_eq!((plan.text.as_str(), plan.index_scan), ("index t by embedding", true));
        assert!(plan.require("embedding").is_ok() && plan.require("PRIMARY").is_err());
    }

    #[test]
    fn other_reads_are_none_in_order() {
        let plan = of("ALL", None, "Using filesort");
        assert_eq!((plan.text.as_str(), plan.index_scan), ("ALL t (Using filesort)", false));
        assert!(!of("range", Some("PRIMARY"), "Using where").index_scan);
        assert!(!of("index", Some("PRIMARY"), "Using index; Using filesort").index_scan);
        assert!(!read(&vec![vec![Some("1".to_string())]]).index_scan);
    }
}
