//! The server's plan for the statement, and the indexes that it scans in order.

use serde::Serialize;

use crate::errors::Error;

/// A plan.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Plan {
    pub(crate) text: String,
    /// Whether an index scan returns rows in order. A bitmap scan does not.
    pub(crate) index_scan: bool,
    pub(crate) indexes: Vec<String>,
}

impl Plan {
    /// A plan with the text `text`, which scans `indexes`.
    pub(crate) fn new(text: String, indexes: Vec<String>) -> Self {
        Self { text, index_scan: !indexes.is_empty(), indexes }
    }

    /// Fails unless the plan scans the index `name`.
    pub(crate) fn require(&self, name: &str) -> Result<(), Error> {
        if self.indexes.iter().any(|index| index == name) {
            return Ok(());
        }
        Err(Error::Failure(format!("the plan does not scan the index {name}:\n{}", self.text)))
    }
}

/// How often the statement used a generic plan, and how often a plan for its parameter.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PlanCounts {
    pub(crate) generic_count: i64,
    pub(crate) custom_count: i64,
}

impl PlanCounts {
    /// The counts since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            generic_count: self.generic_count - before.generic_count,
            custom_count: self.custom_count - before.custom_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_is_not_scanned_is_told_with_the_plan() {
        let plan = Plan::new("a plan".to_string(), vec!["items_hnsw".to_string()]);
        assert!(plan.index_scan && plan.require("items_hnsw").is_ok());
        let Error::Failure(text) = plan.require("items").unwrap_err() else { panic!() };
        assert!(text.contains("index items:\na plan"), "{text}");
        assert!(!Plan::new(String::new(), Vec::new()).index_scan);
    }
}
