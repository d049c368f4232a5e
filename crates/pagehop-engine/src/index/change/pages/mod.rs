//! Pages that a change writes, apart from the edges of nodes.
//!
//! | file | subject |
//! |---|---|
//! | `graph_pages.rs` | pages of nodes, as changes to the graph read them |
//! | `steps.rs` | the pages and the meta page of a transaction, step by step |
//! | `spare.rs` | empty pages that are kept for reuse |
//! | `trees.rs` | the shape of trees of postings |
//! | `record_pages.rs` | pages of records |
//! | `ids.rs` | ids as users give them |
//! | `dead.rs` | dead nodes |
//! | `rows.rs` | the map of row ids |
//! | `pending.rs` | rows that wait for their node |
//! | `keep.rs` | kept vectors |
//! | `slots.rs` | free places for nodes |
//! | `sweep.rs` | graphs that are not used any more |

pub(crate) mod dead;
pub(crate) mod graph_pages;
pub(crate) mod ids;
pub(crate) mod keep;
pub(crate) mod pending;
pub(crate) mod record_pages;
pub(crate) mod rows;
pub(crate) mod slots;
pub(crate) mod spare;
pub(crate) mod steps;
pub(crate) mod sweep;
pub(crate) mod trees;
