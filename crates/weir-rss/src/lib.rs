//! Receive side scaling for applications: one socket for each receive queue or bucket of an
//! interface, so that what a card has spread over CPUs stays spread.
//!
//! [`card`] reads (and for weir's own commands sets) what an interface says of itself. [`group`]
//! opens the sockets, which share an address, and attaches a program that hands each packet to the
//! socket of its bucket, by the same hash as the card's. [`Steering`] tells the bucket and the
//! socket of a flow or packet, and follows changes of the interface's settings. [`Tap`] is a card
//! with receive side scaling for programs that read frames themselves.
//!
//! ```no_run
//! use weir_rss::{Each, Options, Steer, open_udp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::of_interface("eth1", "10.0.0.1:7".parse()?, Each::Queue, Steer::Hash)?;
//! let (sockets, mut steering) = open_udp(&options)?.into_parts();
//! for (queue, socket) in sockets.into_iter().enumerate() {
//!     std::thread::spawn(move || {
//!         let mut buffer = [0; 2048];
//!         while let Ok((bytes, peer)) = socket.recv_from(&mut buffer) {
//!             println!("queue {queue}: {bytes} bytes from {peer}");
//!         }
//!     });
//! }
//! loop {
//!     std::thread::sleep(std::time::Duration::from_secs(1));
//!     // It goes by what it knew if somebody has changed the interface too much.
//!     if let Err(error) = steering.follow() {
//!         println!("{error}");
//!     }
//! }
//! # }
//! ```
//!
//! Programs need `CAP_BPF` and `CAP_NET_ADMIN`; interfaces and addresses are those of the calling
//! thread's network namespace. The crate starts no threads, pins none, never prints, and sends
//! nothing: whether a card does what it says, `weir rss probe` finds out.

#![forbid(unsafe_code)]

pub mod card;
pub mod group;
pub mod tap;

pub use group::{
    Each, Group, GroupError, Options, Steer, Steering, of_sockets, open_tcp, open_udp,
};
pub use tap::{Tap, TapError};
pub use weir_wire::flow::Flow;
pub use weir_wire::rss::Settings;
pub use weir_wire::rss::steering::Place;
