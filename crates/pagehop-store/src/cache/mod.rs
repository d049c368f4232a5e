//! Pages in memory: frames, the table that finds them, who may still look at them, and reads ahead.

pub(crate) mod budget;
pub(crate) mod epoch;
pub(crate) mod frames;
pub(crate) mod lane;
pub(crate) mod pool;
pub(crate) mod spill;
pub(crate) mod uring;
