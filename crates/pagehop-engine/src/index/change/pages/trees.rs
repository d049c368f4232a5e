//! Steps that change the shape of the trees of columns. One writer at a time makes them: it is
//! alone or in its section.
//!
//! Searches go through a tree beside it. A page that is taken out is used again at once, maybe for
//! something else: how a reader notices is in `column_inner.rs`.

use super::spare;
use super::steps::Steps;
use crate::Error;
use crate::ids::NodeId;
use crate::page::column_change;
use crate::page::column_tree::{Tree, circles};
use crate::page::postings::PostingKey;
use crate::page::{PageId, PagesMut};

/// More splits than one posting needs: after each the page above is read again.
const LOOKS_MAX: usize = 24;

/// The leaf for `key`, with room for a posting: full pages on the way are split.
///
/// # Errors
///
/// [`Error::Corrupt`] if pages contradict each other; any error of the host.
pub(in crate::index::change) fn make_room<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    tree: &Tree,
    key: PostingKey,
) -> Result<PageId, Error> {
    for _ in 0..LOOKS_MAX {
        let way = tree.way(&steps.reader(), key)?;
        let mut full = None;
        for (level, (page, _)) in way.iter().enumerate() {
            let fill = tree.fill(&steps.reader(), *page)?;
            if fill.count >= fill.capacity {
                full = Some(level);
                break;
            }
        }
        match full {
            None => return Ok(way.last().expect("a way ends at a leaf").0),
            Some(0) => split_root(steps, tree, key)?,
            Some(level) => split_child(steps, tree, (way[level - 1].0, way[level].0), key)?,
        }
    }
    Err(circles(tree.root))
}

fn split_root<W: PagesMut>(steps: &mut Steps<'_, W>, tree: &Tree, key: PostingKey) -> Result<(), Error> {
    let (new, commit) = ([spare::take(steps)?, spare::take(steps)?], steps.commit_number());
    steps
        .step(&[tree.root, new[0], new[1]], &mut |bodies| column_change::split_root(tree, new, bodies, key, commit))
}

fn split_child<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    tree: &Tree,
    (parent, full): (PageId, PageId),
    key: PostingKey,
) -> Result<(), Error> {
    let (pages, commit) = ([parent, full, spare::take(steps)?], steps.commit_number());
    steps.step(&pages, &mut |bodies| column_change::split_child(tree, pages, bodies, key, commit))
}

/// Removes the posting of a node, or that of its `tag` if it has several; `key` is its place. A
/// leaf that becomes nearly empty is merged with a neighbor.
///
/// # Errors
///
/// Those of [`make_room`].
pub(in crate::index::change) fn remove<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    tree: &Tree,
    key: PostingKey,
    of_node: (NodeId, Option<u64>),
) -> Result<(), Error> {
    let leaf = tree.leaf(&steps.reader(), key)?;
    let mut left = None;
    steps.step(&[leaf], &mut |bodies| {
        left = column_change::remove(tree, leaf, bodies[0], of_node)?;
        Ok(())
    })?;
    if leaf != tree.root && left.is_some_and(|fill| fill.is_sparse()) {
        tidy(steps, tree, key)?;
    }
    Ok(())
}

/// Merges the leaf for `key` with a neighbor, and so on upward while pages have few children.
fn tidy<W: PagesMut>(steps: &mut Steps<'_, W>, tree: &Tree, key: PostingKey) -> Result<(), Error> {
    let way = tree.way(&steps.reader(), key)?;
    let mut level = way.len() - 1;
    while level > 0 && tree.fill(&steps.reader(), way[level].0)?.is_sparse() {
        let siblings = tree.fill(&steps.reader(), way[level - 1].0)?.count;
        let changed = match siblings {
            1 => take_out_of(steps, tree, &way, level)?,
            _ => merge(steps, tree, way[level - 1])?.then_some(level - 1),
        };
        let Some(next) = changed else { break };
        level = next;
    }
    if level < way.len() - 1 {
        pull_up(steps, tree)?;
    }
    Ok(())
}

/// Merges the child of a page at a position with the next one or the one before, if they fit.
fn merge<W: PagesMut>(steps: &mut Steps<'_, W>, tree: &Tree, (parent, at): (PageId, usize)) -> Result<bool, Error> {
    let count = tree.fill(&steps.reader(), parent)?.count;
    let pairs = [Some(at), at.checked_sub(1)];
    for at in pairs.into_iter().flatten().filter(|at| at + 1 < count) {
        let reader = steps.reader();
        let (left, right) = (tree.child(&reader, parent, at)?, tree.child(&reader, parent, at + 1)?);
        let fits = tree.fill(&reader, left)?.fits(tree.fill(&reader, right)?);
        drop(reader);
        if fits {
            let (pages, commit) = ([parent, left, right], steps.commit_number());
            steps.step_meta(&pages, &mut |meta, bodies| {
                let gone = column_change::merge(tree, pages, bodies, at, commit)?;
                spare::give(meta, pages[gone], bodies[gone]);
                Ok(())
            })?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes an empty leaf out of the tree together with the pages above it that have no other child.
/// `level` is that of the page which is its parent's only child. Returns the level of the page that
/// lost a child; `None` if the leaf has postings, or the tree has no other.
fn take_out_of<W: PagesMut>(
    steps: &mut Steps<'_, W>,
    tree: &Tree,
    way: &[(PageId, usize)],
    level: usize,
) -> Result<Option<usize>, Error> {
    if level < way.len() - 1 || tree.fill(&steps.reader(), way[level].0)?.count > 0 {
        return Ok(None);
    }
    let mut top = level;
    while top > 0 && tree.fill(&steps.reader(), way[top - 1].0)?.count == 1 {
        top -= 1;
    }
    let Some((parent, _)) = top.checked_sub(1).map(|above| way[above]) else { return Ok(None) };
    let (child, commit) = (way[top].0, steps.commit_number());
    steps.step_meta(&[parent, child], &mut |meta, bodies| {
        column_change::take_out(tree, (parent, child), bodies[0], commit)?;
        spare::give(meta, child, bodies[1]);
        Ok(())
    })?;
    for (page, _) in &way[top + 1..] {
        steps.step_meta(&[*page], &mut |meta, bodies| {
            spare::give(meta, *page, bodies[0]);
            Ok(())
        })?;
    }
    Ok(Some(top - 1))
}

/// Gives the root the place of its only child.
fn pull_up<W: PagesMut>(steps: &mut Steps<'_, W>, tree: &Tree) -> Result<(), Error> {
    while !tree.is_leaf(&steps.reader(), tree.root)? && tree.fill(&steps.reader(), tree.root)?.count == 1 {
        let (child, commit) = (tree.child(&steps.reader(), tree.root, 0)?, steps.commit_number());
        steps.step_meta(&[tree.root, child], &mut |meta, bodies| {
            column_change::pull_up(tree, child, bodies, commit)?;
            spare::give(meta, child, bodies[1]);
            Ok(())
        })?;
    }
    Ok(())
}
