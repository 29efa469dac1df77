//! Packet formats, address ranges and flows: bytes in, values out.
//!
//! Each header has two types, after smoltcp's practice: a *view* `Packet<T>` over bytes, whose
//! length is checked once by `new_checked` so that no accessor can fail afterwards, and a compact
//! value `Repr` that is parsed from a view and emitted into one. On top of them stand pkt-gen's
//! address ranges ([`range`]), the flows they span ([`flow`]) and their order ([`walk`]), frame
//! sizes ([`sizes`]), weir's payload signature ([`signature`]), and the streams made of all these
//! ([`stream`]), whose reference frames ([`frame`]) every generator is compared with, byte for
//! byte. [`traffic`] is several of them with weights, [`describe`] reads one as a user writes it;
//! [`units`] reads and prints rates, counts and durations. [`pcap`] keeps frames, [`print`] shows
//! one, [`encap`] puts one into a tunnel. [`protocol`] has the numbers of IP protocols. [`rss`]
//! says which queue of a card a flow goes to.
//!
//! This crate is pure: it reads no clock, opens no file, starts no thread and looks at no
//! environment. It is `no_std`, so that the compiler keeps that promise. Whatever bytes a view is
//! given, it returns an error or a value and never panics.
//!
//! Frame sizes never include the four bytes of the frame check sequence: 60 is the smallest.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;
pub mod checksum;
pub mod describe;
pub mod encap;
pub mod error;
pub mod ethernet;
pub mod flow;
pub mod frame;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod mac;
pub mod pcap;
pub mod print;
pub mod protocol;
pub mod random;
pub mod range;
pub mod rss;
pub mod signature;
pub mod sizes;
pub mod stream;
pub mod tcp;
pub mod traffic;
pub mod udp;
pub mod units;
pub mod vlan;
pub mod walk;
pub mod weights;

pub use error::ParseError;
pub use flow::{Flow, FlowSpace};
pub use mac::MacAddr;
pub use range::{AddrRange, Range};
