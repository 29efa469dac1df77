//! The data path on a real kernel: what it does with frames, whether it agrees with the reference,
//! and whether its rules alone do.

#![forbid(unsafe_code)]

mod datapath;
mod differential;
mod judge;
mod programs;
