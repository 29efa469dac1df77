//! Typed handles to weir's BPF programs and maps, and the few system calls without a safe wrapper.
//! [`generator`] sends XDP live frames, [`connect`] opens TCP connections with them, [`sink`]
//! counts what arrives, [`reflect`] sends it back, [`histogram`] reads the histograms that programs
//! keep, [`probe`] asks the kernel what it can do, [`ethtool`] reads and sets what only that ioctl
//! knows, [`packet`] sends frames where there is no XDP, [`rss`] has the programs of receive side
//! scaling, [`rerss`] those that hand packets to CPUs by what they carry, [`steer`] those that
//! choose among sockets, [`toeplitz`] hashes many flows at once, [`echo`] counts and returns
//! datagrams where they come in, [`datagrams`] and [`xsk`] are sockets for many packets at a time,
//! [`namespace`] asks how namespaces stand to each other, [`yardstick`] is a fixed piece of work,
//! [`interrupts`] adds up the time that CPUs spend on them, [`priority`] is a thread's turn,
//! [`tun`] opens a tun.
//! [`firewall`] holds the firewall's programs and the memory they share. The C sources are in
//! `bpf/`; the build script compiles them, and the object files are embedded here. [`object`],
//! [`map`], [`attach`] and [`run`] do for any object file what these do for theirs: tests and
//! benchmarks have programs of their own (weir-oracle).
//!
//! This is the only crate with `unsafe`, and all of it is in the private module `sys`: a few calls,
//! each behind a safe function that checks what the kernel relies on. Programs are loaded from the
//! object files directly rather than through generated skeletons, which would add unsafe code and
//! tie every handle to the lifetime of the opened object.
//!
//! Nothing is pinned in a BPF file system: programs, maps and links live as long as their handles,
//! and end with the process whatever happens to it. The crate never creates interfaces or
//! namespaces, never starts threads, and never prints. Interface indices and names are always those
//! of the calling thread's network namespace.

pub mod attach;
pub mod connect;
pub mod datagrams;
pub mod echo;
pub mod ethtool;
pub mod firewall;
pub mod generator;
pub mod histogram;
pub mod interrupts;
pub mod map;
pub mod namespace;
pub mod object;
pub mod packet;
pub mod priority;
pub mod probe;
pub mod reflect;
pub mod rerss;
pub mod rss;
pub mod run;
pub mod sink;
pub mod steer;
#[cfg(test)]
mod streams;
mod sys;
pub mod toeplitz;
pub mod tun;
#[expect(dead_code, reason = "structures and enumerations come as a whole")]
mod words;
pub mod xsk;
pub mod yardstick;
