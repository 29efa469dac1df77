//! What is sent, how fast, and what arrived.
//!
//! [`stream`] describes the traffic, [`units`] reads and prints rates and durations, [`pacing`]
//! turns a rate into a schedule, [`live`] sends a stream with XDP live frames, [`receiver`] counts
//! what reaches an interface, [`observer`] says what became of it packet by packet, and
//! [`mod@expect`] is what a sender tells it of the streams to come. Packets are made and counted
//! inside the kernel by the programs of `weir-bpf`; this crate computes their configuration, places
//! their threads, and reads their counters.
//!
//! It never creates interfaces or namespaces, and it never prints.

#![forbid(unsafe_code)]

pub mod expect;
pub mod live;
pub mod observer;
pub mod pacing;
pub mod receiver;
pub mod stream;
pub mod units;
