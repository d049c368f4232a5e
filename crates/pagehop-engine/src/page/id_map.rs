//! The map from row ids to nodes: a B+ tree whose leaves are not sorted.
//!
//! So a row that is added or removed changes twelve bytes of one leaf and not half of it, which
//! keeps the log small. A lookup scans the leaf, which is cheaper than the cache misses on the way
//! to it. Full pages are split on the way down, so that a split never needs more than its page, its
//! parent and the new pages: the preemptive splitting of Guibas and Sedgewick (1978). The root
//! stays where it is. Pages are never merged: ids come back, and the map is a third of a percent of
//! an index.

use crate::Error;
use crate::ids::NodeId;
use crate::page::kind::{self, PageKind, kind};
use crate::page::{self, BODY_BYTES, PageId, PageSink, PagesMut, Reader};

/// Entries of a leaf; children of an inner page.
const ENTRIES_MAX: usize = 677;
/// Entries that a bulk build puts on a leaf.
const ENTRIES_BUILT: usize = 610;
const COUNT_AT: usize = 2;
const KEYS_AT: usize = 40;
const VALUES_AT: usize = KEYS_AT + 8 * ENTRIES_MAX;
/// More levels than 2^32 pages can need: a longer path is a circle.
const DEPTH_MAX: usize = 8;

const _: () = assert!(VALUES_AT + 4 * ENTRIES_MAX <= BODY_BYTES);

/// A page of the map. In a leaf, entry `i` says that the row of `key(i)` is in node `value(i)`; in
/// an inner page, ids from `key(i)` on are below the child `value(i + 1)`, smaller ones below the
/// children before it.
#[derive(Clone, Copy)]
struct MapPage<'a>(&'a [u8]);

impl<'a> MapPage<'a> {
    /// The page, if the bytes are a page of the map.
    fn new(page: PageId, body: &'a [u8]) -> Result<Self, Error> {
        let map = Self(body);
        let is_map = matches!(kind(body), Some(PageKind::IdLeaf | PageKind::IdInner));
        if !is_map || map.count() > ENTRIES_MAX || !map.is_leaf() && map.count() == 0 {
            let what = format!("kind {} with {} entries is not a page of the row id map", body[0], map.count());
            return Err(Error::corrupt(page, what));
        }
        Ok(map)
    }

    fn is_leaf(self) -> bool {
        kind(self.0) == Some(PageKind::IdLeaf)
    }

    fn is_full(self) -> bool {
        self.count() == ENTRIES_MAX
    }

    fn count(self) -> usize {
        u16::from_le_bytes([self.0[COUNT_AT], self.0[COUNT_AT + 1]]).into()
    }

    fn keys(self) -> &'a [[u8; 8]] {
        let keys = if self.is_leaf() { self.count() } else { self.count() - 1 };
        &self.0[KEYS_AT..VALUES_AT].as_chunks().0[..keys]
    }

    fn value(self, index: usize) -> u32 {
        u32::from_le_bytes(self.0[VALUES_AT..].as_chunks().0[index])
    }

    /// The position of `id` in a leaf.
    fn position(self, id: u64) -> Option<usize> {
        let id = id.to_le_bytes();
        self.keys().iter().position(|key| *key == id)
    }

    /// The position of the child of an inner page that leads to `id`.
    fn child(self, id: u64) -> usize {
        self.keys().partition_point(|key| u64::from_le_bytes(*key) <= id)
    }

    fn entries(self) -> impl Iterator<Item = (u64, u32)> {
        self.keys().iter().enumerate().map(move |(i, key)| (u64::from_le_bytes(*key), self.value(i)))
    }
}

fn set_count(body: &mut [u8], count: usize) {
    body[COUNT_AT..COUNT_AT + 2].copy_from_slice(&(count as u16).to_le_bytes());
}

fn set_key(body: &mut [u8], index: usize, key: u64) {
    body[KEYS_AT + 8 * index..][..8].copy_from_slice(&key.to_le_bytes());
}

fn set_value(body: &mut [u8], index: usize, value: u32) {
    body[VALUES_AT + 4 * index..][..4].copy_from_slice(&value.to_le_bytes());
}

fn write_leaf(body: &mut [u8], entries: &[(u64, u32)]) {
    kind::clear(body, PageKind::IdLeaf);
    set_count(body, entries.len());
    for (i, (id, node)) in entries.iter().enumerate() {
        set_key(body, i, *id);
        set_value(body, i, *node);
    }
}

/// `children` with the smallest id below each; that of the first is not written.
fn write_inner(body: &mut [u8], children: &[(u64, u32)]) {
    kind::clear(body, PageKind::IdInner);
    set_count(body, children.len());
    for (i, (least, child)) in children.iter().enumerate() {
        set_value(body, i, *child);
        if i > 0 {
            set_key(body, i - 1, *least);
        }
    }
}

/// Puts `id` into the body of a leaf with room for it. Returns the node that it had before.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a leaf, or has no room.
pub(crate) fn put(page: PageId, body: &mut [u8], id: u64, node: NodeId) -> Result<Option<NodeId>, Error> {
    let leaf = leaf(page, body)?;
    let count = leaf.count();
    if let Some(at) = leaf.position(id) {
        let before = leaf.value(at);
        set_value(body, at, node);
        return Ok(Some(before));
    }
    if leaf.is_full() {
        return Err(Error::corrupt(page, "a leaf of the row id map has no room, although it was made"));
    }
    set_key(body, count, id);
    set_value(body, count, node);
    set_count(body, count + 1);
    Ok(None)
}

/// Removes `id` from the body of a leaf. Returns the node that it had.
pub(crate) fn remove(page: PageId, body: &mut [u8], id: u64) -> Result<Option<NodeId>, Error> {
    let leaf = leaf(page, body)?;
    let Some(at) = leaf.position(id) else { return Ok(None) };
    let node = leaf.value(at);
    let last = leaf.count() - 1;
    let (last_id, last_node) = (u64::from_le_bytes(leaf.keys()[last]), leaf.value(last));
    set_key(body, at, last_id);
    set_value(body, at, last_node);
    set_key(body, last, 0);
    set_value(body, last, 0);
    set_count(body, last);
    Ok(Some(node))
}

fn leaf(page: PageId, body: &[u8]) -> Result<MapPage<'_>, Error> {
    let leaf = MapPage::new(page, body)?;
    if leaf.is_leaf() { Ok(leaf) } else { Err(Error::corrupt(page, "a leaf of the row id map is an inner page")) }
}

/// The leaf that has `id`, if any does, and the node.
pub(crate) fn find(reader: &impl Reader, root: PageId, id: u64) -> Result<(PageId, Option<NodeId>), Error> {
    let mut page = root;
    for _ in 0..DEPTH_MAX {
        let guard = reader.finish(page)?;
        let map = MapPage::new(page, &guard)?;
        if map.is_leaf() {
            return Ok((page, map.position(id).map(|at| map.value(at))));
        }
        page = PageId(map.value(map.child(id)));
    }
    Err(Error::corrupt(page, "the row id map goes in circles"))
}

/// The ids of one leaf.
pub(crate) struct Leaf {
    /// The ids from the requested one on, in order.
    pub(crate) ids: Vec<u64>,
    /// No leaf after this one has ids up to here.
    pub(crate) most: u64,
}

/// The ids from `first` on in the leaf that `first` belongs to.
pub(crate) fn leaf_from(reader: &mut impl Reader, root: PageId, first: u64) -> Result<Leaf, Error> {
    let (mut page, mut most) = (root, u64::MAX);
    for _ in 0..DEPTH_MAX {
        let next = {
            let guard = reader.finish(page)?;
            let map = MapPage::new(page, &guard)?;
            if map.is_leaf() {
                let mut ids: Vec<u64> = map.entries().map(|(id, _)| id).filter(|id| *id >= first).collect();
                ids.sort_unstable();
                if ids.last().is_some_and(|last| *last > most) {
                    return Err(Error::corrupt(page, format!("it has ids above {most}")));
                }
                return Ok(Leaf { ids, most });
            }
            let child = map.child(first);
            // The first key is above `first`, so it is not 0.
            most = map.keys().get(child).map_or(most, |key| most.min(u64::from_le_bytes(*key).saturating_sub(1)));
            PageId(map.value(child))
        };
        reader.release();
        page = next;
    }
    Err(Error::corrupt(page, "the row id map goes in circles"))
}

/// The leaf for `id`, split where it was full.
pub(crate) fn make_room<W: PagesMut>(pages: &mut W, root: PageId, id: u64) -> Result<PageId, Error> {
    if is_full(pages, root)? {
        split_root(pages, root)?;
    }
    let mut page = root;
    for _ in 0..DEPTH_MAX {
        let (child, next) = {
            let reader = pages.reader();
            let guard = reader.finish(page)?;
            let map = MapPage::new(page, &guard)?;
            if map.is_leaf() {
                return Ok(page);
            }
            let child = map.child(id);
            (child, PageId(map.value(child)))
        };
        if is_full(pages, next)? {
            // The parent is read again to see which half `id` belongs to.
            split_child(pages, page, child, next)?;
        } else {
            page = next;
        }
    }
    Err(Error::corrupt(page, "the row id map goes in circles"))
}

fn is_full<W: PagesMut>(pages: &W, page: PageId) -> Result<bool, Error> {
    let reader = pages.reader();
    let guard = reader.finish(page)?;
    Ok(MapPage::new(page, &guard)?.is_full())
}

/// Two bodies that together hold what `body` holds, and the least id of the second.
fn halves(page: PageId, body: &[u8], front: &mut [u8], back: &mut [u8]) -> Result<u64, Error> {
    let map = MapPage::new(page, body)?;
    if map.is_leaf() {
        let mut entries: Vec<(u64, u32)> = map.entries().collect();
        entries.sort_unstable();
        let (low, high) = entries.split_at(entries.len() / 2);
        write_leaf(front, low);
        write_leaf(back, high);
        return Ok(high[0].0);
    }
    let least = |i: usize| if i == 0 { 0 } else { u64::from_le_bytes(map.keys()[i - 1]) };
    let children: Vec<(u64, u32)> = (0..map.count()).map(|i| (least(i), map.value(i))).collect();
    let (low, high) = children.split_at(children.len() / 2);
    write_inner(front, low);
    write_inner(back, high);
    Ok(high[0].0)
}

/// The root keeps its place and gets two children.
fn split_root<W: PagesMut>(pages: &mut W, root: PageId) -> Result<(), Error> {
    let front = pages.allocate(2)?;
    let back = PageId(front.0 + 1);
    page::step(pages, &[root, front, back], &mut |bodies| {
        let [root_body, front_body, back_body] = bodies else { unreachable!("three pages were asked for") };
        let middle = halves(root, root_body, front_body, back_body)?;
        write_inner(root_body, &[(0, front.0), (middle, back.0)]);
        Ok(())
    })
}

/// The upper half of a full child moves to a new page behind it. The parent has room.
fn split_child<W: PagesMut>(pages: &mut W, parent: PageId, child: usize, full: PageId) -> Result<(), Error> {
    let new = pages.allocate(1)?;
    page::step(pages, &[parent, full, new], &mut |bodies| {
        let [parent_body, full_body, new_body] = bodies else { unreachable!("three pages were asked for") };
        let whole = full_body.to_vec();
        let middle = halves(full, &whole, full_body, new_body)?;
        let map = MapPage::new(parent, parent_body)?;
        let least = |i: usize| if i == 0 { 0 } else { u64::from_le_bytes(map.keys()[i - 1]) };
        let mut children: Vec<(u64, u32)> = (0..map.count()).map(|i| (least(i), map.value(i))).collect();
        children.insert(child + 1, (middle, new.0));
        write_inner(parent_body, &children);
        Ok(())
    })
}

/// The node of some row; `None` if there are no rows.
pub(crate) fn any(reader: &mut impl Reader, page_count: u32, root: PageId) -> Result<Option<NodeId>, Error> {
    let mut stack = vec![root];
    for _ in 0..page_count {
        let Some(page) = stack.pop() else { return Ok(None) };
        {
            let guard = reader.finish(page)?;
            let map = MapPage::new(page, &guard)?;
            if map.is_leaf() && map.count() > 0 {
                return Ok(Some(map.value(0)));
            }
            if !map.is_leaf() {
                stack.extend((0..map.count()).map(|child| PageId(map.value(child))));
            }
        }
        reader.release();
    }
    Err(Error::corrupt(root, "the row id map goes in circles"))
}

/// Writes a map of `entries`, sorted by id, to pages from `first` on; returns its root and the page
/// after it.
pub(crate) fn write(
    entries: &[(u64, NodeId)],
    first: PageId,
    sink: &mut dyn PageSink,
) -> Result<(PageId, PageId), Error> {
    let mut body = vec![0; BODY_BYTES];
    let mut page = first.0;
    let mut level: Vec<(u64, u32)> = Vec::new();
    let leaves = entries.chunks(ENTRIES_BUILT).chain(entries.is_empty().then_some(entries));
    for part in leaves {
        write_leaf(&mut body, part);
        sink.write(PageId(page), &body)?;
        level.push((part.first().map_or(0, |entry| entry.0), page));
        page += 1;
    }
    while level.len() > 1 {
        let mut above = Vec::new();
        for children in level.chunks(ENTRIES_BUILT) {
            write_inner(&mut body, children);
            sink.write(PageId(page), &body)?;
            above.push((children[0].0, page));
            page += 1;
        }
        level = above;
    }
    Ok((PageId(level[0].1), PageId(page)))
}

/// Passes every entry of the map to `each`, with its leaf, in no order, in an index of `page_count`
/// pages.
pub(crate) fn scan(
    reader: &mut impl Reader,
    page_count: u32,
    root: PageId,
    mut each: impl FnMut(PageId, u64, NodeId) -> Result<(), Error>,
) -> Result<(), Error> {
    // Ids that may be below a page: from the first number up to the second.
    let mut stack = vec![(root, 0u64, u64::MAX, 0)];
    let mut seen = 0;
    while let Some((page, least, most, depth)) = stack.pop() {
        let outside = |id| Error::corrupt(page, format!("id {id} is not between {least} and {most}"));
        if depth == DEPTH_MAX || seen == page_count {
            return Err(Error::corrupt(page, "the row id map goes in circles"));
        }
        {
            let guard = reader.finish(page)?;
            let map = MapPage::new(page, &guard)?;
            if map.is_leaf() {
                for (id, node) in map.entries() {
                    if !(least..=most).contains(&id) {
                        return Err(outside(id));
                    }
                    each(page, id, node)?;
                }
            } else {
                let mut low = least;
                for i in 0..map.count() {
                    let next = map.keys().get(i).map(|key| u64::from_le_bytes(*key));
                    if let Some(next) = next.filter(|next| *next < low || *next > most) {
                        return Err(outside(next));
                    }
                    let high = next.map_or(most, |next| next.saturating_sub(1));
                    stack.push((PageId(map.value(i)), low, high, depth + 1));
                    low = next.unwrap_or(most);
                }
            }
        }
        reader.release();
        seen += 1;
    }
    Ok(())
}
