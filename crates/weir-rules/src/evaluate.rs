//! The reference evaluator: what pf does with a packet, as a pure function of the ruleset, its
//! tables, the packet, and what an argument says of states, routes, time and chance.
//!
//! It is the oracle that faster implementations are held against, so it follows pf.conf(5) and
//! the kernel's pf.c, pf_lb.c, pf_norm.c and pf_if.c of the ruleset's dialect:
//!
//! - Interfaces under `set skip` are not filtered at all.
//! - FreeBSD's `scrub` rules come first; the first that matches holds, for the IP header and again
//!   for TCP. TCP flags that no connection has (SYN with RST, FIN without ACK, none at all) are
//!   dropped, unless there are `scrub` rules and none takes the packet. ICMP of the other family
//!   and UDP to port 0 are dropped.
//! - The state table comes before all rules; fragments have no states.
//! - FreeBSD's `nat`, `rdr` and `binat` rules come before the filter, which sees the new addresses:
//!   out `binat` and then `nat`, in `rdr` and then `binat`; the first rule of a list that matches
//!   wins. `nat-to`, `rdr-to` and `af-to` translate where they match: `match` rules at once, for
//!   the rules after them, and `pass` rules at the end, if they have won.
//! - The last `pass` or `block` that matches wins, `quick` ends the evaluation, and `match` rules
//!   add up. Where none wins, the packet passes without a state.
//! - An anchor's rules stand where the anchor's rule stands, if that matches. One with `quick`
//!   ends the evaluation if a `pass` or `block` in it, however deep, matched. An anchor that is
//!   not there is empty.
//! - Tags hold from the rule that gives them, also if another rule wins; a blocked packet's tag is
//!   of no use to anyone.
//! - A state is made for the winner's `keep state`; in FreeBSD also for every packet that was
//!   translated. Fragments and ICMP errors make none. In OpenBSD a rule that keeps state does not
//!   match ICMP replies, and translation works through states alone.
//!
//! Fragments are those that are left after reassembly: with `set reassemble` the caller puts
//! packets together and asks about the whole. Users and groups are those of local sockets; of a
//! forwarded packet they are unknown, so `user = x` does not match it and `user != x` does. The
//! operating system of a SYN is an argument like its ports; without one, only `os unknown`
//! matches. Layer 2 rules (`ether`) are not evaluated: a packet here has no MAC addresses.

mod compile;
mod criteria;
mod criterion;
mod describe;
mod finish;
mod flatten;
mod frame;
pub mod packet;
mod probe;
mod ready;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod translate;
mod typed;
mod verdict;
mod view;
mod walk;

use std::net::IpAddr;

use crate::resolve::{InterfaceAddress, Resolver};
use crate::value::{Af, mask4, mask6};

pub use compile::{EvaluateError, Evaluator, LoadedAnchor, anchor_path};
pub use criterion::Criterion;
pub(crate) use describe::flag_letters;
pub use describe::{DescribeError, end_text};
pub use flatten::Step;
pub use frame::FrameError;
pub use packet::{Extensions, Icmp, IcmpRole, Packet, Quoted};
pub use ready::List;
pub use table::{Table, Tables, TypedTable};
pub(crate) use trace::{Outcome, Seen, Subject, Tracer};
pub use translate::source_hash_seed;
pub use typed::ValueEnd;
pub use verdict::{
    Actions, Decision, NewState, Normalisation, Reason, Response, RouteChoice, RuleRef, Translated,
    Verdict,
};
pub use view::{
    AllRouted, Mapping, Moment, NoStates, PoolEnd, Routes, RoutingView, RuleId, SourceCount,
    StateHit, StateView,
};

/// An address as a number, for quick comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ip {
    V4(u32),
    V6(u128),
}

impl From<IpAddr> for Ip {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::V4(v4.into()),
            IpAddr::V6(v6) => Self::V6(v6.into()),
        }
    }
}

impl From<Ip> for IpAddr {
    fn from(address: Ip) -> Self {
        match address {
            Ip::V4(v4) => Self::V4(v4.into()),
            Ip::V6(v6) => Self::V6(v6.into()),
        }
    }
}

impl Ip {
    pub(crate) fn is_v4(self) -> bool {
        matches!(self, Self::V4(_))
    }

    pub(crate) fn af(self) -> Af {
        if self.is_v4() { Af::Inet } else { Af::Inet6 }
    }

    /// Whether the network of this address holds another one.
    pub(crate) fn prefix_holds(self, bits: u8, other: Self) -> bool {
        match (self, other) {
            (Self::V4(v4), Self::V4(other)) => (v4 ^ other) & mask4(bits) == 0,
            (Self::V6(v6), Self::V6(other)) => (v6 ^ other) & mask6(bits) == 0,
            _ => false,
        }
    }
}

/// Whether the network of an address holds another one.
pub(crate) fn prefix_holds(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    Ip::from(network).prefix_holds(bits, address.into())
}

/// The interface whose network (or far end) holds the address, if it is one alone. Addresses of a
/// link are on every interface.
#[must_use]
pub fn interface_to(address: IpAddr, resolver: &dyn Resolver) -> Option<&str> {
    let holds = |interface_address: &InterfaceAddress| {
        interface_address.peer == Some(address)
            || (!interface_address.is_link_local()
                && interface_address.address != address
                && prefix_holds(interface_address.address, interface_address.bits, address))
    };
    let mut found =
        resolver.interfaces().iter().filter(|interface| interface.addresses.iter().any(holds));
    let first = found.next()?;
    found.next().is_none().then_some(&*first.name)
}
