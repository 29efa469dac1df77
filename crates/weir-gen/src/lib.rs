//! What is sent, how fast, and what arrived.
//!
//! The traffic is [`weir_wire::traffic`]'s: one or several streams with weights. [`stream_file`]
//! reads a file of them, [`pacing`] turns a rate into a schedule. A [`backend`] sends a stream:
//! [`live`] with XDP live frames, [`packet`] through packet sockets, [`pcap`] into a capture file;
//! the latter two also send a [`replay`], the frames of a capture file. [`preflight`] looks at a
//! path before anything is sent, [`device`] reads what the sending device accepted,
//! [`receiver`] counts what reaches an interface, [`observer`] says what became of it packet by
//! packet, and [`mod@expect`] is what a sender tells it of the streams to come. [`pkt_gen`] reads
//! pkt-gen's command line and makes its output lines; [`getopt`] walks through such command lines.
//! [`echo`] has a server that returns datagrams, and its client; [`connect`] opens TCP connections
//! without sockets.
//! Live packets are made and counted inside the kernel by the programs of `weir-bpf`; this crate
//! computes their configuration, places their threads, and reads their counters.
//!
//! It creates no interfaces or namespaces but the idle pair that keeps the live generator ready,
//! which nobody sees, and it never prints.

#![forbid(unsafe_code)]

pub mod backend;
mod clock;
pub mod connect;
pub mod device;
pub mod echo;
pub mod error;
pub mod expect;
mod frames;
pub mod getopt;
pub mod live;
pub mod next_hop;
pub mod observer;
pub mod pacing;
pub mod packet;
pub mod pcap;
pub mod pkt_gen;
pub mod preflight;
pub mod receiver;
pub mod replay;
pub mod stream_file;
mod user_space;
pub mod window;
mod workers;
