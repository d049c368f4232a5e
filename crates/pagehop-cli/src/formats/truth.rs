//! True neighbors, to measure recall against.

use std::path::Path;

use pagehop_engine::Error;

use super::layout::refuse;
use super::{Element, Shape, Table};

/// The ids of the true neighbors of each query, nearest first.
#[derive(Debug)]
pub(crate) struct Truth {
    k: usize,
    ids: Vec<Option<u64>>,
}

impl Truth {
    /// The `k` nearest neighbors of each query, from the file at `path`. The file must have
    /// `queries` rows of at least `k` ids. A negative id means that there is no neighbor.
    pub(crate) fn open(path: &Path, queries: u64, k: usize) -> Result<Self, Error> {
        let mut table = Table::open(path, Shape::Matrix)?;
        table.layout().check_ids(path)?;
        let (rows, width) = (table.layout().rows, table.layout().width as usize);
        if rows != queries {
            return refuse(path, format!("it holds neighbors of {rows} queries, there are {queries}"));
        }
        if width < k {
            return refuse(path, format!("it holds {width} neighbors per query; lower -k from {k}"));
        }
        let (mut ids, mut wide) = (Vec::new(), Vec::new());
        loop {
            wide.clear();
            if table.next_rows(&mut wide, Element::to_ids)?.1 == 0 {
                return Ok(Self { k, ids });
            }
            for row in wide.chunks_exact(width) {
                ids.extend(row[..k].iter().map(|&id| u64::try_from(id).ok()));
            }
        }
    }

    /// The number of true neighbors of `query` that are among `found`, and the number of true
    /// neighbors.
    pub(crate) fn count(&self, query: usize, found: &[u64]) -> (usize, usize) {
        let ids = self.ids[query * self.k..][..self.k].iter().flatten();
        let there = ids.clone().filter(|id| found.contains(id)).count();
        (there, ids.count())
    }
}
