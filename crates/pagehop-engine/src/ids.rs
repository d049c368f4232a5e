//! Ids of pages and nodes.

/// Number of a page; page 0 is the meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// Id of a node: `page * nodes_per_page + slot`.
pub(crate) type NodeId = u32;
