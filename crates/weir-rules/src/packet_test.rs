//! Packet tests: rules, packets in, verdicts, packets out, states and counters in one text file,
//! run against any [`Device`]: the [`reference`](reference::Reference) on the evaluator, or a real
//! data path.
//!
//! ```text
//! # A comment. Interfaces and names are written as for `weir fw --facts`.
//! interface em0 10.0.0.1/24 2001:db8::1/64
//! interface em1 192.0.2.1/24
//! route 0.0.0.0/0 em1
//!
//! rules {
//! block return
//! pass in on em0 proto tcp to port 80
//! pass out on em1
//! }
//!
//! in on em0 tcp 10.0.0.5:1000 > 203.0.113.9:80 S    => out em1, ttl 63
//! in on em1 tcp 203.0.113.9:80 > 10.0.0.5:1000 SA ack 1001    => out em0
//! in on em0 tcp 10.0.0.5:1001 > 203.0.113.9:22 S    => blocked match rst
//! out on em1 udp 192.0.2.1:5000 > 203.0.113.9:53    => out em1
//! states: 2
//! state: tcp 10.0.0.5:1000 -> 203.0.113.9:80 ESTABLISHED:SYN_SENT halves in+out packets 1:1
//! at +30s
//! drops: match 1
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `interface`, `group`, `host`, `service`, `protocol`, `user`, `usergroup` | [`crate::facts`] |
//! | `route PREFIX INTERFACE` | where packets go besides the interfaces' networks |
//! | `dialect freebsd`, `dialect openbsd` | of the rules, where it is not to be guessed |
//! | `rules {` … `}` | loads a ruleset; a second one takes its place, and states stay |
//! | `refused {` … `}` | as `rules`, but the device has to refuse it |
//! | `at T`, `at +T` | sets the clock, or moves it: `500ms`, `3s`, `2m`, `24h` |
//! | `in on …`, `out on …` | a packet ([`frame`]) and, behind `=>`, what becomes of it |
//! | `states: N` | how many states there are |
//! | `state: …` | a state with these ends and names; `halves`, `packets` and `expires` if told |
//! | `no state: …` | none whose description begins so |
//! | `drops: REASON N, …` | all drops so far, by reason |
//! | `inserts: N`, `removals: N` | of states so far |
//!
//! What becomes of a packet is `out INTERFACE`, `box`, or `blocked REASON` with `rst`, `icmp
//! TYPE/CODE` or `abort` if the sender gets an answer. Behind a comma: `ttl N`, `tos N` and `df` or
//! `no df` of the frame that leaves, `logged` and `not logged`. Lines may go on after `\`, and a
//! line that begins with `=>` belongs to the one before.

pub mod format;
pub mod frame;
mod outcome;
pub mod random;
pub mod reference;
pub mod runner;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use outcome::{Answer, Counters, DropReason, Outcome, Sent, StateInfo};

use crate::Compiled;
use crate::facts::Facts;
use crate::resolve::InterfaceFacts;
use crate::value::Direction;

/// What a device could not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(pub String);

/// Interfaces and routes.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// The interfaces, in order. Their addresses are the box's own, their networks are reached
    /// through them. An MTU that is not given is 1500.
    pub interfaces: Vec<InterfaceFacts>,
    /// Network, its bits, and the interface that leads there. The longest prefix wins.
    pub routes: Vec<(IpAddr, u8, String)>,
    /// The same interfaces and other names, for whoever resolves.
    pub facts: Facts,
}

/// A ruleset to load.
#[derive(Debug, Clone, Copy)]
pub struct RuleText<'a> {
    /// The file that it stands in.
    pub name: &'a str,
    /// The line of its first line there, from 1.
    pub first_line: u32,
    /// The text.
    pub text: &'a str,
    /// The same, compiled without errors.
    pub compiled: &'a Compiled,
}

/// What is tested. Time is the test's: a device has no clock of its own here, and what is due by
/// then (expiry of states and fragments) has happened before the call's work is done.
pub trait Device {
    /// Starts anew with these interfaces and routes: no rules, no states, counters at zero.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the device cannot.
    fn configure(&mut self, network: &Network) -> Result<(), DeviceError>;

    /// Puts a ruleset in place of the present one. States stay.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the ruleset is refused: the present one stays.
    fn load(&mut self, rules: &RuleText<'_>) -> Result<(), DeviceError>;

    /// Gives the device a frame that arrives by an interface (`In`), or that the box itself sends
    /// by it (`Out`). The frame's MAC addresses are made up: the device may put its own there.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if that was not possible; a dropped packet is no error.
    fn send(
        &mut self,
        frame: &[u8],
        direction: Direction,
        interface: &str,
        now_ns: u64,
    ) -> Result<Sent, DeviceError>;

    /// What was counted since [`Device::configure`].
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if it could not be read.
    fn counters(&mut self, now_ns: u64) -> Result<Counters, DeviceError>;

    /// All states.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if they could not be read.
    fn states(&mut self, now_ns: u64) -> Result<Vec<StateInfo>, DeviceError>;
}
