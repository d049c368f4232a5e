//! Changes of the shape of a column's tree, on the bodies of its pages: full pages are split, and
//! nearly empty ones merged with a neighbor.
//!
//! A page is merged once a quarter of it is used, if the two then fill three quarters of a page at
//! most. So a page that was merged or split takes many changes before the next, and a range of old
//! values whose rows die one by one does not keep its leaves.

use super::PageId;
use super::column_inner::{CHILDREN_MAX, set_shape_number, shape_number, write_inner};
use super::column_tree::{Fill, Tree, TreePage};
use super::postings::{Posting, PostingKey};
use crate::Error;
use crate::ids::NodeId;

/// Of ten postings of a full leaf, the number that stays on it if the new posting is the greatest.
/// Where values only grow, no later posting goes to a leaf that was split.
const STAY_OF_10: usize = 9;

/// Removes the posting of a node from a leaf, or the posting of its tag in a column of tags.
/// Returns how full the leaf is then; `None` if there was no such posting.
///
/// # Errors
///
/// [`Error::Corrupt`] if the page is not a leaf.
pub(crate) fn remove(
    tree: &Tree,
    leaf: PageId,
    body: &mut [u8],
    of_node: (NodeId, Option<u64>),
) -> Result<Option<Fill>, Error> {
    if !tree.shape.remove(leaf, body, of_node)? {
        return Ok(None);
    }
    let count = tree.leaf_page(leaf, body)?.count();
    Ok(Some(Fill { count, capacity: tree.shape.capacity }))
}

/// Splits the full root, which keeps its page. The bodies are those of the root and of two new
/// pages. `key` is inserted next.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is not a page of a tree.
pub(crate) fn split_root(
    tree: &Tree,
    [front, back]: [PageId; 2],
    bodies: &mut [&mut [u8]],
    key: PostingKey,
    commit: u64,
) -> Result<(), Error> {
    let [root_body, front_body, back_body] = bodies else { unreachable!("three pages were asked for") };
    let number = next_number(tree, root_body, commit);
    let middle = divide(tree, (tree.root, &root_body[..]), key, front_body, back_body)?;
    write_inner(root_body, &[(PostingKey::LEAST, front), (middle, back)]);
    [root_body, front_body, back_body].into_iter().for_each(|body| set_shape_number(body, number));
    Ok(())
}

/// Moves the upper part of a full child to a new page behind it. The bodies are those of the
/// parent, which has room, of the child and of the new page. `key` is inserted next.
///
/// # Errors
///
/// [`Error::Corrupt`] if the first two are not pages of a tree.
pub(crate) fn split_child(
    tree: &Tree,
    [parent, full, new]: [PageId; 3],
    bodies: &mut [&mut [u8]],
    key: PostingKey,
    commit: u64,
) -> Result<(), Error> {
    let [parent_body, full_body, new_body] = bodies else { unreachable!("three pages were asked for") };
    let (number, whole) = (next_number(tree, full_body, commit), full_body.to_vec());
    let middle = divide(tree, (full, &whole), key, full_body, new_body)?;
    [full_body, new_body].into_iter().for_each(|body| set_shape_number(body, number));
    let mut children = children(tree, parent, parent_body)?;
    let at = children.partition_point(|(least, _)| *least <= middle);
    children.insert(at, (middle, new));
    set_children(tree, parent_body, &children, commit);
    Ok(())
}

/// Merges two neighbors that fit on one page: the children of a page at positions `at` and
/// `at + 1`. The bodies are those of the parent and of the two. Returns which of the two is no
/// longer in the tree: 1 (left) or 2 (right).
///
/// # Errors
///
/// [`Error::Corrupt`] if they are not such pages.
pub(crate) fn merge(
    tree: &Tree,
    [parent, left, right]: [PageId; 3],
    bodies: &mut [&mut [u8]],
    at: usize,
    commit: u64,
) -> Result<usize, Error> {
    let [parent_body, left_body, right_body] = bodies else { unreachable!("three pages were asked for") };
    let mut children = children(tree, parent, parent_body)?;
    let both = children.get(at..at + 2).map(|pair| [pair[0].1, pair[1].1]);
    if both != Some([left, right]) {
        let what = format!("its children {at} and {} are not pages {} and {}", at + 1, left.0, right.0);
        return Err(Error::corrupt(parent, what));
    }
    let number = next_number(tree, left_body, commit);
    let (low, high) = (tree.page(left, left_body)?, tree.page(right, right_body)?);
    let (mut gone, mut moves) = (2, true);
    match (low, high) {
        (TreePage::Leaf(low), TreePage::Leaf(_)) if low.count() == 0 => (gone, moves) = (1, false),
        (TreePage::Leaf(_), TreePage::Leaf(high)) if high.count() == 0 => moves = false,
        (TreePage::Leaf(low), TreePage::Leaf(high)) => {
            let of_low = (0..low.count()).map(|posting| low.posting(posting));
            let all: Vec<Posting> = of_low.chain((0..high.count()).map(|at| high.posting(at))).collect();
            if all.len() > tree.shape.capacity {
                return Err(Error::corrupt(left, "its neighbor has more postings than before"));
            }
            tree.shape.write(left_body, &all);
        }
        (TreePage::Inner(low), TreePage::Inner(high)) => {
            let (mut all, mut more) = (low.children(), high.children());
            more[0].0 = children[at + 1].0;
            all.append(&mut more);
            if all.len() > CHILDREN_MAX {
                return Err(Error::corrupt(left, "its neighbor has more children than before"));
            }
            write_inner(left_body, &all);
        }
        _ => return Err(Error::corrupt(right, "it is of another level than its neighbor")),
    }
    if moves {
        set_shape_number(left_body, number);
    }
    children.remove(at + gone - 1);
    set_children(tree, parent_body, &children, commit);
    Ok(gone)
}

/// Removes `child`, below which there is no posting, from a page with other children.
///
/// # Errors
///
/// [`Error::Corrupt`] if they are not such pages.
pub(crate) fn take_out(
    tree: &Tree,
    (parent, child): (PageId, PageId),
    body: &mut [u8],
    commit: u64,
) -> Result<(), Error> {
    let mut children = children(tree, parent, body)?;
    let before = children.len();
    children.retain(|(_, page)| *page != child);
    if children.is_empty() || children.len() + 1 != before {
        return Err(Error::corrupt(parent, format!("page {} is not one of several children", child.0)));
    }
    set_children(tree, body, &children, commit);
    Ok(())
}

/// Copies the only child into the root. The bodies are those of the root and of the child.
///
/// # Errors
///
/// [`Error::Corrupt`] if the child is not a page of a tree.
pub(crate) fn pull_up(tree: &Tree, child: PageId, bodies: &mut [&mut [u8]], commit: u64) -> Result<(), Error> {
    let [root_body, child_body] = bodies else { unreachable!("two pages were asked for") };
    let number = next_number(tree, root_body, commit);
    let kind = tree.page(child, child_body).map(drop);
    root_body.copy_from_slice(child_body);
    set_shape_number(root_body, number);
    kind
}

fn children(tree: &Tree, page: PageId, body: &[u8]) -> Result<Vec<(PostingKey, PageId)>, Error> {
    match tree.page(page, body)? {
        TreePage::Inner(inner) => Ok(inner.children()),
        TreePage::Leaf(_) => Err(Error::corrupt(page, "it is a leaf of postings in place of an inner page")),
    }
}

fn set_children(tree: &Tree, body: &mut [u8], children: &[(PostingKey, PageId)], commit: u64) {
    let number = next_number(tree, body, commit);
    write_inner(body, children);
    set_shape_number(body, number);
}

/// The shape number of a page after a change of `commit`.
fn next_number(tree: &Tree, body: &[u8], commit: u64) -> u64 {
    if tree.is_hosted { shape_number(body).wrapping_add(1) } else { commit }
}

/// Writes what `body` holds to two bodies; returns the least key of the second.
fn divide(
    tree: &Tree,
    (page, body): (PageId, &[u8]),
    key: PostingKey,
    front: &mut [u8],
    back: &mut [u8],
) -> Result<PostingKey, Error> {
    match tree.page(page, body)? {
        TreePage::Leaf(leaf) => {
            let mut postings: Vec<Posting> = (0..leaf.count()).map(|at| leaf.posting(at)).collect();
            postings.sort_by_key(|posting| posting.key(tree.column));
            let (low, high) = postings.split_at(cut(tree, &postings, key));
            tree.shape.write(front, low);
            tree.shape.write(back, high);
            Ok(high[0].key(tree.column))
        }
        TreePage::Inner(inner) => {
            let children = inner.children();
            let (low, high) = children.split_at(children.len() / 2);
            write_inner(front, low);
            write_inner(back, high);
            Ok(high[0].0)
        }
    }
}

/// The number of a full leaf's postings, which are in order, that stay on it if `key` comes next:
/// half of them, but most if it is the greatest. Rows without a value are last in a tree, so the
/// greatest value is before them.
fn cut(tree: &Tree, postings: &[Posting], key: PostingKey) -> usize {
    let count = postings.len();
    let before = postings.partition_point(|posting| posting.key(tree.column) < key);
    match postings.get(before).map(|next| next.key(tree.column).value()) {
        None => count * STAY_OF_10 / 10,
        Some(None) if key.value().is_some() && before > count / 2 => before,
        Some(_) => count / 2,
    }
}
