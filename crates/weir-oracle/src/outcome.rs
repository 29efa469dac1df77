//! What a device says of a packet, of its states and of its counters.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use weir_rules::evaluate::end_text;
use weir_rules::value::Text;
use weir_wire::protocol::{self, ICMP, ICMP6, SCTP, TCP, UDP};

/// Why a packet was dropped: pf's own reasons (`PFRES_NAMES` of pfvar.h), and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// A rule blocks it.
    Match,
    /// An offset of a header leads outside the packet.
    BadOffset,
    /// A fragment that overlaps another, or that no packet can be cut into.
    Fragment,
    /// A header is cut off, or its length is impossible; also UDP to port 0.
    Short,
    /// TCP flags that do not go together, an impossible TCP header, ICMP of the other family.
    Normalize,
    /// No room for a fragment's flow.
    Memory,
    /// Not used: timestamps of TCP are not compared.
    BadTimestamp,
    /// The box is too busy.
    Congestion,
    /// IP options without `allow-opts`.
    IpOption,
    /// A wrong checksum of the IPv4 header, or of TCP where a RST would answer.
    ProtoCksum,
    /// The packet does not fit the state that has its addresses.
    StateMismatch,
    /// The state could not be entered.
    StateInsert,
    /// `max` of the rule, or `set limit states`.
    StateLimit,
    /// A limit of a source's states, connections or rate, or of the number of sources.
    SrcLimit,
    /// Not used: TCP handshakes are not proxied.
    Synproxy,
    /// A pool has no address to give.
    MapFailed,
    /// It is longer than its way takes, in the family that it changes to.
    TooBig,
    /// It has no form in the other family, or no router forwards it there.
    AfTo,
    /// Its TTL ends where it would change its family.
    Ttl,
    /// `max-pkt-rate` of its state's rule.
    PktRate,
}

impl DropReason {
    /// All of them, pf's in the order of its counters.
    pub const ALL: &[Self] = &[
        Self::Match,
        Self::BadOffset,
        Self::Fragment,
        Self::Short,
        Self::Normalize,
        Self::Memory,
        Self::BadTimestamp,
        Self::Congestion,
        Self::IpOption,
        Self::ProtoCksum,
        Self::StateMismatch,
        Self::StateInsert,
        Self::StateLimit,
        Self::SrcLimit,
        Self::Synproxy,
        Self::MapFailed,
        Self::TooBig,
        Self::AfTo,
        Self::Ttl,
        Self::PktRate,
    ];

    /// pf's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::BadOffset => "bad-offset",
            Self::Fragment => "fragment",
            Self::Short => "short",
            Self::Normalize => "normalize",
            Self::Memory => "memory",
            Self::BadTimestamp => "bad-timestamp",
            Self::Congestion => "congestion",
            Self::IpOption => "ip-option",
            Self::ProtoCksum => "proto-cksum",
            Self::StateMismatch => "state-mismatch",
            Self::StateInsert => "state-insert",
            Self::StateLimit => "state-limit",
            Self::SrcLimit => "src-limit",
            Self::Synproxy => "synproxy",
            Self::MapFailed => "map-failed",
            Self::TooBig => "too-big",
            Self::AfTo => "af-to",
            Self::Ttl => "ttl",
            Self::PktRate => "pkt-rate",
        }
    }

    /// The reason of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the sender of a blocked packet gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// Nothing.
    None,
    /// A TCP RST.
    Rst,
    /// An ACK to a SYN in the middle of a connection.
    Challenge,
    /// An ICMP or ICMPv6 message of this type and code.
    Icmp(u8, u8),
    /// An SCTP ABORT.
    Abort,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Rst => f.write_str("rst"),
            Self::Challenge => f.write_str("ack"),
            Self::Icmp(kind, code) => write!(f, "icmp {kind}/{code}"),
            Self::Abort => f.write_str("abort"),
        }
    }
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It left by this interface: forwarded, or sent by the box itself.
    Out(Text),
    /// The box's own stack got it: it is for the box, or the fast path leaves it to the kernel
    /// (TTL expiry, no route, over the MTU, multicast, neighbour discovery, not IP).
    Box,
    /// It was dropped.
    Blocked(DropReason, Answer),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Out(interface) => write!(f, "out {interface}"),
            Self::Box => f.write_str("box"),
            Self::Blocked(reason, Answer::None) => write!(f, "blocked {reason}"),
            Self::Blocked(reason, answer) => write!(f, "blocked {reason} {answer}"),
        }
    }
}

/// What a device says of one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// What became of it.
    pub outcome: Outcome,
    /// The frame as it left, if it left and the device can tell. MAC addresses are not compared.
    pub frame: Option<Vec<u8>>,
    /// Whether it was logged, if the device can tell.
    pub logged: Option<bool>,
    /// Whether it was to be sent elsewhere as well (`dup-to`), where it was judged last, if the
    /// device can tell.
    pub copied: Option<bool>,
}

/// A state, told from its own direction: the source is who opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateInfo {
    /// IP protocol.
    pub protocol: u8,
    pub source: IpAddr,
    /// Its port; of ICMP queries the identifier.
    pub source_port: u16,
    pub destination: IpAddr,
    /// Its port; of ICMP queries the type.
    pub destination_port: u16,
    /// Both ends as they are outside of the interface of either half, where they are translated.
    pub outside: [Option<[(IpAddr, u16); 2]>; 2],
    /// What is added to the sequence numbers of the source, and of the destination, under `modulate
    /// state`.
    pub modulation: Option<[u32; 2]>,
    /// pf's names, `SYN_SENT:CLOSED`: the source's and the destination's.
    pub state: String,
    /// Whether it lets the source's packets in.
    pub has_in: bool,
    /// Whether it lets the source's packets out.
    pub has_out: bool,
    /// Packets of the source, and of the destination.
    pub packets: (u64, u64),
    /// Seconds until it expires if nothing comes, rounded down.
    pub expires_s: u64,
}

impl StateInfo {
    /// Protocol, ends and state: `tcp 10.0.0.5:1000 -> 1.2.3.4:80 SYN_SENT:CLOSED`. The ends are as
    /// the box routes the flow; what they are outside, where they are translated, stands behind
    /// them: `in-as 10.0.0.5:1000 -> 10.0.0.1:80` and `out-as 192.0.2.1:50001 -> 1.2.3.4:80`; then
    /// `modulated`, if sequence numbers are.
    #[must_use]
    pub fn line(&self) -> String {
        let word = protocol::word(self.protocol);
        let protocol = word.map_or_else(|| self.protocol.to_string(), str::to_owned);
        let has_ports = matches!(self.protocol, TCP | UDP | ICMP | ICMP6 | SCTP);
        let source = end_text(has_ports, self.source, self.source_port);
        let destination = end_text(has_ports, self.destination, self.destination_port);
        let mut outside = String::new();
        for (word, ends) in ["in-as", "out-as"].into_iter().zip(self.outside) {
            let ends = ends.map(|ends| ends.map(|(end, port)| end_text(has_ports, end, port)));
            outside +=
                &ends.map_or_else(String::new, |[from, to]| format!("{word} {from} -> {to} "));
        }
        let modulated = if self.modulation.is_some() { "modulated " } else { "" };
        format!("{protocol} {source} -> {destination} {outside}{modulated}{}", self.state)
    }

    /// `in`, `out` or `in+out`: which of its halves it has.
    #[must_use]
    pub fn halves(&self) -> &'static str {
        match (self.has_in, self.has_out) {
            (true, true) => "in+out",
            (true, false) => "in",
            (false, true) => "out",
            (false, false) => "none",
        }
    }
}

impl fmt::Display for StateInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (forward, back) = self.packets;
        let (halves, expires) = (self.halves(), self.expires_s);
        write!(f, "{} halves {halves} packets {forward}:{back} expires {expires}s", self.line())
    }
}

/// What a device counted since it was set up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Dropped packets by reason; a reason without any may be left out.
    pub drops: BTreeMap<DropReason, u64>,
    /// States that were made.
    pub inserts: u64,
    /// States that were removed, for whatever reason.
    pub removals: u64,
}
