//! Load over the kernel's sockets: connections by the hundred thousand, in worker processes.
//!
//! [`crew`] starts workers, which are processes of the same program, and exchanges messages with
//! them: each has descriptors, a CPU and an event loop to itself. [`server`] answers HTTP/1.1 with
//! bodies of any size, and counts. [`client`] sends requests, counts and times. Either end may
//! speak TLS.
//!
//! It never prints and never reads the command line; what a message means, and every figure made
//! from counters, is weir-http's.

#![forbid(unsafe_code)]

pub mod client;
mod clock;
pub mod crew;
pub mod descriptors;
pub mod limits;
pub mod server;
mod tls;
mod wire;
