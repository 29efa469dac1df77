//! What packet tests run against: interfaces and routes, rules, frames in, what came of them.

use std::net::IpAddr;

use weir_rules::Compiled;
use weir_rules::facts::Facts;
use weir_rules::resolve::InterfaceFacts;
use weir_rules::value::Direction;

use crate::outcome::{Counters, Sent, StateInfo};

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

    /// Tells the device what another one has made of its next packet, and the other's states since.
    /// Addresses and ports that translation chooses freely are to be the same, as far as the rules
    /// allow them and they are free. A device that does not choose need not listen.
    fn choose_as(&mut self, _sent: &Sent, _states: Vec<StateInfo>) {}

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
