//! Checks the trees of columns: postings are those of the nodes, and each is on its leaf.

use super::nodes::{Check, Slot, edge_matches, hash, hash_bytes};
use crate::Error;
use crate::columns::tags::{TagSets, may_have, posting_keys, says_all};
use crate::columns::{ColumnKind, RowValues, tag_columns};
use crate::ids::NodeId;
use crate::index::state::State;
use crate::page::column_tree::Tree;
use crate::page::node::{FLAGS_DEAD, FLAGS_FREE, FLAGS_LIVE, NodeRef};
use crate::page::postings::{Posting, PostingKey};
use crate::page::row_record::read_tags;
use crate::page::{PageId, Reader};

/// A hash of a tag. The postings of a node are compared by the sum of these, so their order does
/// not matter. A node without postings has the sum 0.
fn mixed(tag: Option<u64>) -> u64 {
    hash([u64::from(tag.is_none()), tag.unwrap_or(0)].into_iter())
}

/// Checks that a column's tree has one posting of every live node, as the node says, and none
/// of a node that is unlinked or free. In a column of tags it is one for each tag.
pub(super) fn check(
    check: &mut Check<'_>,
    reader: &mut impl Reader,
    state: &State,
    column: usize,
) -> Result<(), Error> {
    let columns = &state.columns;
    let tree = columns.tree(check.meta, column);
    if tree.root.0 == 0 && check.slots.iter().all(|slot| slot.flags == FLAGS_FREE) {
        // There are no trees before the first rows.
        return Ok(());
    }
    let is_of_tags = columns.columns[column].kind == ColumnKind::Tags;
    let mut tags = if is_of_tags { tags_of_nodes(check, reader, state, column)? } else { Vec::new() };
    let ends = leaves(check, reader, &tree, &mut tags)?;
    for (page, key) in ends {
        let leaf = tree.leaf(reader, key)?;
        reader.release();
        if leaf != page {
            return Err(Error::corrupt(page, format!("a posting of it belongs on page {}", leaf.0)));
        }
    }
    let is_whole = |node: usize, slot: &Slot| match is_of_tags {
        true => tags[node] == 0,
        false => slot.posted >> column & 1 == 1,
    };
    let missing = |node: usize, slot: &Slot| slot.flags == FLAGS_LIVE && !slot.pending && !is_whole(node, slot);
    let unposted = check.meta.change.unposted as usize;
    let found = check.slots.iter().enumerate().find(|(node, slot)| missing(*node, slot) && *node != unposted);
    if let Some((node, _)) = found {
        let (page, slot) = check.meta.layout.place(node as NodeId);
        let name = &columns.columns[column].name;
        let what = match is_of_tags {
            true => "has no posting for one of its tags, or a wrong one",
            false => "has no posting of it",
        };
        return Err(Error::corrupt(page, format!("slot {slot}: the tree of column {name:?} {what}")));
    }
    Ok(())
}

/// Checks the postings on the leaves, and subtracts those of `tags` from what nodes must have.
/// Returns the ends of each leaf.
fn leaves(
    check: &mut Check<'_>,
    reader: &mut impl Reader,
    tree: &Tree,
    tags: &mut [u64],
) -> Result<Vec<(PageId, PostingKey)>, Error> {
    let mut ends: Vec<(PageId, PostingKey)> = Vec::new();
    let (slots, chains) = (&mut check.slots, check.meta.has_tag_chains());
    let all = (PostingKey::LEAST, PostingKey::range(None).1);
    tree.scan(reader, check.report.pages, all, |page, leaf| {
        let mut keys = Vec::with_capacity(leaf.count());
        for at in 0..leaf.count() {
            let posting = leaf.posting(at);
            let bad = |what: &str| Error::corrupt(page, format!("the posting of node {}: {what}", posting.node));
            let slot = slots.get_mut(posting.node as usize).filter(|slot| slot.exists);
            let slot = slot.ok_or_else(|| bad("there is no such node"))?;
            if !matches!(slot.flags, FLAGS_LIVE | FLAGS_DEAD) {
                return Err(bad("the node is not part of the graph"));
            }
            if !is_same(&posting, slot) {
                return Err(bad("it differs from the node"));
            }
            if let Some(tag) = posting.tag {
                let word = RowValues(&posting.values).key(tree.column);
                if !word.map_or(tag == 0, |word| is_tag_of(word, tag, chains)) {
                    return Err(bad("the node does not have its tag"));
                }
                let next = Some(posting.next).filter(|next| *next > 0);
                if next.is_some_and(|next| !says_all(next) || says_all(tag) && next <= tag) {
                    return Err(bad("its tags do not form a chain"));
                }
                let sum = &mut tags[posting.node as usize];
                *sum = sum.wrapping_sub(mixed(word.map(|_| tag)));
                *sum = sum.wrapping_add(next.map_or(0, |next| mixed(Some(next))));
            } else if slot.posted >> tree.column & 1 == 1 {
                return Err(bad("there are two"));
            }
            slot.posted |= 1 << tree.column;
            keys.push(posting.key(tree.column));
        }
        ends.extend(keys.iter().min().map(|key| (page, *key)));
        ends.extend(keys.iter().max().map(|key| (page, *key)));
        Ok(())
    })?;
    Ok(ends)
}

/// The sum that the tree of a column of tags must have for each node.
fn tags_of_nodes(
    check: &Check<'_>,
    reader: &mut impl Reader,
    state: &State,
    column: usize,
) -> Result<Vec<u64>, Error> {
    let (layout, columns) = (&check.meta.layout, &state.columns.columns);
    let before = tag_columns(&columns[..column]);
    let mut tags = vec![0u64; check.slots.len()];
    for page in check.meta.graph_pages(check.report.pages).map(PageId) {
        let mut rows: Vec<(usize, Vec<u8>)> = Vec::new();
        {
            let body = reader.finish(page)?;
            for slot in 0..layout.nodes_per_page * usize::from(check.meta.has_nodes(&body)) {
                let node = layout.node_id(page, slot) as usize;
                if check.slots[node].exists && check.slots[node].flags == FLAGS_LIVE {
                    rows.push((node, NodeRef::new(layout, &body, slot).values().0.to_vec()));
                }
            }
        }
        reader.release();
        for (node, values) in rows {
            let values = RowValues(&values);
            if check.meta.has_tag_chains() {
                // Each posting subtracts itself, and adds the next one of its chain.
                tags[node] = mixed(values.key(column));
                continue;
            }
            let sets: TagSets = read_tags(reader, check.meta.record_shape(), columns, (page, values))?;
            let keys = posting_keys(values.key(column), &sets[before], false);
            tags[node] = keys.into_iter().fold(0, |sum, tag| sum.wrapping_add(mixed(tag.tag)));
        }
    }
    Ok(tags)
}

/// Whether the set of a word may have a posting of a tag; with `chains`, also of the word itself.
fn is_tag_of(word: u64, tag: u64, chains: bool) -> bool {
    match says_all(word) {
        true => tag == word,
        false if chains && tag == word => true,
        false => tag != 0 && says_all(tag) && may_have(word, tag),
    }
}

fn is_same(posting: &Posting, slot: &Slot) -> bool {
    let stored = (posting.centroid, posting.factors, hash(posting.code.iter().copied()));
    edge_matches(stored, slot, true).is_ok() && hash_bytes(&posting.values) == slot.values_hash
}
