//! The state that processes share while they have one index open: mapped words, locks, and
//! snapshots.

pub(crate) mod attach;
pub(crate) mod locks;
pub(crate) mod mapping;
pub(crate) mod shared_words;
pub(crate) mod snapshots;
