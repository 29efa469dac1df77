//! What the benchmarks share that compare series of one run with each other.

pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod table;
