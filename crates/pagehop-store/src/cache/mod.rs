//! Pages in memory: frames, the table that finds them, the readers that may still use them, and
//! reads ahead.

pub(crate) mod budget;
pub(crate) mod epoch;
pub(crate) mod frames;
pub(crate) mod lane;
pub(crate) mod pool;
pub(crate) mod spill;
pub(crate) mod uring;
