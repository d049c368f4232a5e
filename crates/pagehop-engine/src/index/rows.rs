//! Rows by their id: ids in order, and vectors.

use crate::index::find::{AHEAD, Looked, expect_ids, find, find_id, root, settled, text_of};
use crate::index::open::Index;
use crate::index::state::State;
use crate::page::id_map::{self, Leaf};
use crate::page::node::with_node;
use crate::page::{Pages, Reader};
use crate::row_ids::{self, RowId};
use crate::{BODY_BYTES, Error};

impl<P: Pages> Index<P> {
    /// Up to `count` ids from `first` on, in ascending order; fewer only at the end. Rows that are
    /// in the index all the time are found, each once, by calls that go on after the last id.
    /// Reads one page of the map for about 600 ids.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the host owns the row ids; [`Error::Corrupt`] if pages contradict
    /// each other; [`Error::Busy`] if the index changes too often; any error of the host.
    pub fn ids(&self, first: u64, count: usize) -> Result<Vec<u64>, Error> {
        expect_ids::<u64>(self.newest())?;
        let mut ids = Vec::new();
        let mut next = Some(first);
        while let Some(from) = next.filter(|_| ids.len() < count) {
            let leaf = settled(self.pages(), self.newest(), |state, reader| leaf(state, reader, from).map(Some))?;
            ids.extend(leaf.ids);
            next = leaf.most.checked_add(1);
        }
        ids.truncate(count);
        Ok(ids)
    }

    /// Some text ids, about `count`, in an internal order: those from `first` on. `first` is 0 at
    /// the beginning, and then the number that the call before returned with its ids, which is
    /// `None` at the end. Rows that are in the index all the time are found, each once. Reads about
    /// two pages a row.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if ids are not texts; else as [`Index::ids`].
    pub fn text_ids(&self, first: u64, count: usize) -> Result<(Vec<String>, Option<u64>), Error> {
        expect_ids::<String>(self.newest())?;
        let mut texts = Vec::new();
        let mut next = Some(first);
        while let Some(from) = next.filter(|_| texts.len() < count) {
            let (found, most) =
                settled(self.pages(), self.newest(), |state, reader| texts_from(state, reader, from))?;
            texts.extend(found);
            next = most.checked_add(1);
        }
        Ok((texts, next))
    }

    /// Whether there is a row with `id`, as of the newest commit.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the index has ids of another kind; those of [`Index::ids`].
    pub fn contains<I: RowId>(&self, id: I) -> Result<bool, Error> {
        expect_ids::<I>(self.newest())?;
        settled(self.pages(), self.newest(), |state, reader| {
            match find_id(&state.meta, reader, id.key(), state.snapshot)? {
                Looked::Row(_) => Ok(Some(true)),
                Looked::Unknown => Ok(Some(false)),
                Looked::Changed => Ok(None),
            }
        })
    }

    /// The vectors of rows, one after the other, in the order of `ids`, which may repeat. Each is
    /// as of its newest commit.
    ///
    /// An index that keeps vectors gives them as they were added, with components rounded to half
    /// precision under [`Vectors::Float16`](crate::Vectors). Otherwise
    /// they are decoded from codes of 12 bits per dimension: the distance to the vector that was
    /// added is about 1/2000 of its distance from the mean of the rows. Under cosine they have
    /// length 1. Reads about two pages a row, and one more if ids are texts.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if an id is not in the index, which names it, or is of another kind;
    /// those of [`Index::ids`].
    pub fn vectors<I: RowId>(&self, ids: &[I]) -> Result<Vec<f32>, Error> {
        expect_ids::<I>(self.newest())?;
        let (mut vectors, mut unknown) = (Vec::new(), Vec::new());
        for part in ids.chunks(AHEAD) {
            let found = settled(self.pages(), self.newest(), |state, reader| part_of(state, reader, part))?;
            vectors.extend(found.vectors);
            unknown.extend(found.unknown);
        }
        if unknown.is_empty() { Ok(vectors) } else { Err(row_ids::unknown(&unknown)) }
    }
}

/// The rows of some ids; `None` if one of them is of a commit that is not visible yet.
fn part_of<R: Reader, I: RowId>(state: &State, reader: &mut R, ids: &[I]) -> Result<Option<FoundRows<I>>, Error> {
    let layout = &state.meta.layout;
    let mut nodes = Vec::with_capacity(ids.len());
    for id in ids {
        let found = find_id(&state.meta, reader, id.key(), state.snapshot)?;
        if let Looked::Row((_, node)) = found {
            reader.start(layout.place(node).0, 0..BODY_BYTES);
        }
        nodes.push(found);
    }
    let mut part = FoundRows { vectors: Vec::new(), unknown: Vec::new() };
    let kept = state.meta.kept();
    let (mut point, mut bytes) = (Vec::new(), Vec::new());
    for (id, found) in ids.iter().zip(nodes) {
        let (number, node) = match found {
            Looked::Row(found) => found,
            Looked::Changed => return Ok(None),
            Looked::Unknown => {
                part.unknown.push(id.clone());
                continue;
            }
        };
        let is_its_row = with_node(layout, reader, node, |node, header| {
            node.decode(header, &mut point);
            header.row_id == number && header.is_visible(state.snapshot)
        })?;
        if !is_its_row {
            return Ok(None);
        }
        match kept {
            Some(shape) => {
                reader.release();
                shape.read(reader, shape.place_of(layout, reader, node)?, &mut bytes)?;
                shape.decode(&bytes, &mut point);
                part.vectors.extend_from_slice(&point);
            }
            None => part.vectors.extend_from_slice(state.model.space.restore(&mut point)),
        }
        reader.release();
    }
    Ok(Some(part))
}

/// Rows that were found.
struct FoundRows<I> {
    vectors: Vec<f32>,
    unknown: Vec<I>,
}

/// The leaf of the map that has the numbers from `first` on.
fn leaf(state: &State, reader: &mut impl Reader, first: u64) -> Result<Leaf, Error> {
    match root(&state.meta)? {
        Some(root) => id_map::leaf_from(reader, root, first),
        None => Ok(Leaf { ids: Vec::new(), most: u64::MAX }),
    }
}

/// The texts of the rows of a leaf of the map, and the last number that can be on it; `None` if
/// one of the rows is of a commit that is not visible yet.
fn texts_from(state: &State, reader: &mut impl Reader, first: u64) -> Result<Option<(Vec<String>, u64)>, Error> {
    let Leaf { ids, most } = leaf(state, reader, first)?;
    reader.release();
    let mut texts = Vec::with_capacity(ids.len());
    for part in ids.chunks(AHEAD) {
        let mut nodes = Vec::with_capacity(part.len());
        for number in part {
            let Some(node) = find(&state.meta, reader, *number)? else { return Ok(None) };
            reader.start(state.meta.layout.place(node).0, 0..BODY_BYTES);
            nodes.push((*number, node));
        }
        for found in nodes {
            let Some(text) = text_of(&state.meta, reader, found, state.snapshot)? else { return Ok(None) };
            texts.push(text);
        }
    }
    Ok(Some((texts, most)))
}
