//! Rows that are read and deleted in one transaction.

use std::collections::HashSet;

use super::Change;
use crate::index::change::pages::ids;
use crate::index::change::pages::keep;
use crate::page::PagesMut;
use crate::{Error, RowId, row_ids};

impl<W: PagesMut> Change<'_, W> {
    /// Deletes rows, and returns their vectors, one after the other, in the order of `ids`, which
    /// may repeat. They are decoded as [`Index::vectors`](crate::Index::vectors) says.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if an id is not in the index, which names it; whatever the host reports,
    /// and [`Error::Corrupt`]. The change must then be dropped.
    pub fn pop<I: RowId>(&mut self, ids: &[I]) -> Result<Vec<f32>, Error> {
        ids::check_kind::<I>(self.graph.meta())?;
        let (mut vectors, mut unknown, mut point) = (Vec::new(), Vec::new(), Vec::new());
        for id in ids {
            let Some((_, node)) = ids::find_row(self.graph.steps(), id)? else {
                unknown.push(id.clone());
                continue;
            };
            self.graph.look(node, |node, header| node.decode(header, &mut point))?;
            match self.graph.meta().kept() {
                Some(shape) => {
                    shape.decode(&keep::kept_vector(self.graph.steps(), node)?, &mut point);
                    vectors.extend_from_slice(&point);
                }
                None => vectors.extend_from_slice(self.graph.model().space.restore(&mut point)),
            }
        }
        if !unknown.is_empty() {
            return Err(row_ids::unknown(&unknown));
        }
        let mut seen = HashSet::new();
        let distinct: Vec<I> = ids.iter().filter(|id| seen.insert(*id)).cloned().collect();
        self.delete(&distinct)?;
        Ok(vectors)
    }
}
