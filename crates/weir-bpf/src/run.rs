//! Runs any XDP program by `BPF_PROG_TEST_RUN`: on live frames, or once on a copy of a frame.

pub use crate::sys::{test_run_live as live, test_run_once as once};
