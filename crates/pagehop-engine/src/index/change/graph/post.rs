//! The postings of a row, one in the tree of each column, and one for each tag in that of a column
//! of tags.
//!
//! Where nodes have no records, the postings of a row with several tags are a chain
//! (`postings.rs`). It is written from its head and removed from its end. So what an interrupted
//! change leaves of it can be found from the head.
//!
//! A row has them from the transaction that adds it to the vacuum that takes its node out of the
//! graph: a reader of an older snapshot may still look for it.
//!
//! The first two come with the node, in its step. Where a row has more and each step is durable by
//! itself, the meta page names the node whose postings are being written. If a crash
//! interrupts that, the next change writes the rest first.

use crate::Error;
use crate::columns::tags::{PostingTag, TagSets, posting_keys, says_all};
use crate::columns::{ColumnKind, RowValues, tag_columns};
use crate::ids::NodeId;
use crate::index::change::encode::{self, EncodedRow, unknown_centroid};
use crate::index::change::graph::Graph;
use crate::index::change::pages::keep;
use crate::index::change::pages::slots::{TreePosting, put_all};
use crate::index::change::pages::trees;
use crate::page::column_tree::Tree;
use crate::page::node::FLAGS_LIVE;
use crate::page::postings::{Posting, PostingKey};
use crate::page::row_record::read_tags;
use crate::page::{PageId, PagesMut, STEP_PAGES};
use crate::quantize::own::OwnCode;

fn trees<W: PagesMut>(graph: &Graph<'_, W>) -> Vec<Tree> {
    (0..graph.columns().roots.len()).map(|column| graph.columns().tree(graph.meta(), column)).collect()
}

/// The values and tags of the postings of a row in a tree.
fn keys_in<W: PagesMut>(
    graph: &Graph<'_, W>,
    tree: &Tree,
    values: RowValues<'_>,
    sets: &[Vec<u64>],
) -> Vec<(Option<u64>, Option<PostingTag>)> {
    let (value, columns) = (values.key(tree.column), &graph.columns().columns);
    if columns[tree.column].kind != ColumnKind::Tags {
        return vec![(value, None)];
    }
    let before = tag_columns(&columns[..tree.column]);
    let set = sets.get(before).map_or(&[][..], Vec::as_slice);
    let tags = posting_keys(value, set, graph.meta().has_tag_chains());
    tags.into_iter().map(|tag| (tag.tag, Some(tag))).collect()
}

/// The tags of a node that its `values` do not have.
pub(in crate::index::change) fn sets_of<W: PagesMut>(
    graph: &Graph<'_, W>,
    node: NodeId,
    values: &[u8],
) -> Result<TagSets, Error> {
    let meta = graph.meta();
    if !meta.has_tags {
        return Ok(TagSets::new());
    }
    if meta.has_tag_chains() {
        return chained_sets(graph, node, RowValues(values));
    }
    let (page, columns) = (meta.layout.place(node).0, &graph.columns().columns);
    read_tags(&mut graph.steps().reader(), meta.record_shape(), columns, (page, RowValues(values)))
}

/// [`sets_of`] of an index with chains, as far as the chains of the node go. No other writer may
/// write postings during this call.
fn chained_sets<W: PagesMut>(graph: &Graph<'_, W>, node: NodeId, values: RowValues<'_>) -> Result<TagSets, Error> {
    let centroid = graph.look(node, |_, header| header.centroid)?;
    let columns = &graph.columns().columns;
    let of_tags = trees(graph).into_iter().filter(|tree| columns[tree.column].kind == ColumnKind::Tags);
    let mut sets = TagSets::new();
    for tree in of_tags {
        let mut set = Vec::new();
        let mut at = values.key(tree.column).filter(|word| !says_all(*word)).unwrap_or(0);
        while at > 0 && tree.root.0 > 0 {
            let key = PostingKey::new(Some(at), centroid, node);
            let next = tree.next_tag(&graph.steps().reader(), key, (node, at))?;
            // A tag counts only if its own posting was found.
            set.extend(next.filter(|_| says_all(at)).map(|_| at));
            let next = next.unwrap_or(0);
            if next > 0 && (!says_all(next) || says_all(at) && next <= at) {
                let what = format!("the tags of node {node} do not form a chain");
                return Err(Error::corrupt(tree.root, what));
            }
            at = next;
        }
        sets.push(set);
    }
    Ok(sets)
}

/// The postings of a node, in the order in which they are written.
pub(super) fn postings<W: PagesMut>(graph: &Graph<'_, W>, node: NodeId, encoded: &EncodedRow) -> Vec<TreePosting> {
    let EncodedRow { centroid, factors, ref code, ref values, ref sets, .. } = *encoded;
    let posting =
        Posting { node, centroid, factors, values: values.clone(), code: code.clone(), tag: None, next: 0 };
    let mut postings = Vec::new();
    for tree in trees(graph) {
        for (_, tag) in keys_in(graph, &tree, RowValues(values), sets) {
            let (tag, next) = tag.map_or((None, 0), PostingTag::of_posting);
            postings.push((tree, Posting { tag, next, ..posting.clone() }));
        }
    }
    postings
}

/// The leaves of the first of `postings`, at most `most`, with room for them. The leaves are
/// distinct, so that one step can write to all.
pub(super) fn leaves<W: PagesMut>(
    graph: &mut Graph<'_, W>,
    postings: &[TreePosting],
    most: usize,
) -> Result<Vec<PageId>, Error> {
    let mut leaves = Vec::with_capacity(most);
    for (tree, posting) in postings.iter().take(most) {
        let leaf = trees::make_room(graph.steps_mut(), tree, posting.key(tree.column))?;
        if leaves.contains(&leaf) {
            break;
        }
        leaves.push(leaf);
    }
    Ok(leaves)
}

/// Adds `postings` of a node that was written, in steps of up to three leaves. The last step notes
/// that they are complete.
pub(super) fn post<W: PagesMut>(graph: &mut Graph<'_, W>, mut postings: &[TreePosting]) -> Result<(), Error> {
    while !postings.is_empty() {
        let leaves = leaves(graph, postings, STEP_PAGES - 1)?;
        let (now, later) = postings.split_at(leaves.len());
        let steps = graph.steps_mut();
        if later.is_empty() && steps.meta().change.unposted > 0 {
            steps.step_meta(&leaves, &mut |meta, bodies| {
                meta.change.unposted = 0;
                put_all(&leaves, bodies, now)
            })?;
        } else {
            steps.step(&leaves, &mut |bodies| put_all(&leaves, bodies, now))?;
        }
        postings = later;
    }
    posted(graph)
}

/// Ends the postings of the node that the meta page names.
fn posted<W: PagesMut>(graph: &mut Graph<'_, W>) -> Result<(), Error> {
    if graph.meta().change.unposted == 0 {
        return Ok(());
    }
    graph.steps_mut().step_meta(&[], &mut |meta, _| {
        meta.change.unposted = 0;
        Ok(())
    })
}

/// Writes the postings that an earlier change did not finish.
pub(in crate::index::change) fn post_unfinished<W: PagesMut>(graph: &mut Graph<'_, W>) -> Result<(), Error> {
    let node = graph.meta().change.unposted;
    if node == 0 {
        return Ok(());
    }
    if graph.look(node, |_, header| header.flags != FLAGS_LIVE)? {
        return posted(graph);
    }
    unpost(graph, node)?;
    let postings = postings(graph, node, &encoded(graph, node)?);
    post(graph, &postings)
}

/// Removes the postings of a dead node, while other writers may write theirs.
pub(super) fn unpost_beside_others<W: PagesMut>(graph: &mut Graph<'_, W>, node: NodeId) -> Result<(), Error> {
    match graph.meta().layout.column_bytes {
        0 => Ok(()),
        _ => graph.in_section(|graph| unpost(graph, node)),
    }
}

/// Removes the postings of a dead node.
pub(super) fn unpost<W: PagesMut>(graph: &mut Graph<'_, W>, node: NodeId) -> Result<(), Error> {
    let (values, centroid) = graph.look(node, |found, header| (found.values().0.to_vec(), header.centroid))?;
    let sets = sets_of(graph, node, &values)?;
    for tree in trees(graph) {
        for (value, tag) in keys_in(graph, &tree, RowValues(&values), &sets).into_iter().rev() {
            let tag = tag.and_then(|tag| tag.of_posting().0);
            let key = PostingKey::new(value, centroid, node);
            trees::remove(graph.steps_mut(), &tree, key, (node, tag))?;
        }
    }
    Ok(())
}

/// The content of a node, as if its row were added again.
pub(in crate::index::change) fn encoded<W: PagesMut>(
    graph: &Graph<'_, W>,
    node: NodeId,
) -> Result<EncodedRow, Error> {
    let (mut encoded, header) = graph.look(node, |found, header| {
        let (hi, lo, values) = (found.hi().to_vec(), found.lo().to_vec(), found.values().0.to_vec());
        (EncodedRow { hi, lo, values, ..EncodedRow::default() }, *header)
    })?;
    let target = graph.look(node, |found, _| encode::target(graph.meta(), graph.model(), node, found))?;
    let target = target.ok_or_else(|| unknown_centroid(graph.meta(), node))?;
    encoded.own = OwnCode { step: header.step, norm_sq: header.norm_sq };
    encoded.point = graph.point_of(node)?;
    encoded.exact = encoded.point.clone();
    encoded.kept = keep::kept_vector(graph.steps(), node)?;
    encoded.sets = sets_of(graph, node, &encoded.values)?;
    (encoded.centroid, encoded.factors, encoded.code) = (target.centroid, target.factors, target.code);
    Ok(encoded)
}
