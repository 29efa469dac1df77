//! Machines: how one is reached, configured, booted, switched off and asked for its counters.
//!
//! Hosts over SSH, virtual machines, serial consoles, network boot, power switches, receive queues,
//! disk images.
//! *Never* knows of campaigns: what is measured, and why, is `weir-lab`'s.

#![forbid(unsafe_code)]

pub mod access;
pub mod awake;
pub mod cancel;
pub mod capped_log;
pub mod console;
pub mod digest;
pub mod environment;
pub mod host;
pub mod image;
mod lines;
pub mod pxe;
pub mod qemu;
pub mod queues;
pub mod rss;
pub mod ssh;
pub mod switch;
