//! Tests of whole runs (campaign, bisection, search) on a testbed without packets.

mod adaptive;
mod estimate;
mod lifecycle;
mod searches;
mod setup;
mod simulator;
