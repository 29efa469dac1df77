//! The host's network, as the lab needs it: named network namespaces, veth pairs with many
//! queues, addresses, routes, neighbours, threaded NAPI and its placement on CPUs, sysctls,
//! counters, processes inside namespaces, and the record by which a later start removes what a
//! killed one left behind.
//!
//! What this crate never does: it never changes the namespace of the thread that calls it (work
//! inside a namespace happens on a thread made for it, see [`Netns::run`]), never shells out to
//! `ip`, `ethtool` or `sysctl`, never touches an interface, a NAPI thread or a process of a
//! namespace it was not pointed at, and never prints.
//!
//! Nearly everything here acts on *the network namespace of the calling thread*: open a
//! [`Netlink`] inside [`Netns::run`] and it is that namespace's.
//!
//! ```no_run
//! use weir_net::{Netlink, Netns, VethEnd};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let generator = Netns::create("example-gen")?.guard();
//! let dut = Netns::create("example-dut")?.guard();
//! generator.run(|| -> Result<(), weir_net::NetlinkError> {
//!     let netlink = Netlink::open()?;
//!     netlink.create_veth(&VethEnd::new("g0"), &VethEnd::new("d0").in_netns(&dut), 2)?;
//!     netlink.set_up("g0")
//! })??;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod counters;
pub mod cpu;
mod error;
pub mod events;
mod genetlink;
pub mod link;
pub mod napi;
pub mod neighbour;
pub mod netlink;
pub mod netns;
pub mod private;
pub mod process;
pub mod procfs;
pub mod registry;
pub mod route;
pub mod shaping;
pub mod steering;
pub mod sysctl;
pub mod xdp;

pub use address::Prefix;
pub use cpu::CpuList;
pub use link::{LinkInfo, LinkStats, OperState, VethEnd};
pub use netlink::{Netlink, NetlinkError};
pub use netns::{Netns, NetnsError, NetnsGuard};

#[cfg(test)]
mod testing;
