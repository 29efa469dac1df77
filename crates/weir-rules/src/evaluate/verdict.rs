//! What becomes of a packet.

use std::net::IpAddr;

use super::ready::List;
use super::view::RuleId;
use crate::ir::Rule;
use crate::value::{Af, Divert, Dummynet, KeepState, LimiterKind, QueueName, RouteKind, Text};

/// A rule with its place.
#[derive(Debug, Clone, Copy)]
pub struct RuleRef<'a> {
    /// Its place among all rules.
    pub id: RuleId,
    pub rule: &'a Rule,
    /// Its number in its list, as pfctl counts from 0.
    pub number: u32,
    pub list: List,
    /// The path of its anchor; empty for the main ruleset.
    pub anchor: &'a str,
    /// It is from a [`super::LoadedAnchor`], and its span is of that one's files.
    pub is_loaded: bool,
}

impl PartialEq for RuleRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Whether the packet goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It does.
    Pass,
    /// It is dropped.
    Block,
}

impl Decision {
    /// `pass` or `block`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Block => "block",
        }
    }
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The last matching rule says so.
    Rule,
    /// No rule matched: the implicit default pass.
    Default,
    /// `set skip` on the interface.
    Skip,
    /// The packet belongs to a state.
    State,
    /// The packet has a state's addresses but does not fit it.
    StateMismatch,
    /// `pass` in a translation rule: no filter rule is asked.
    TranslationPass,
    /// An impossible packet: TCP flags that do not go together, ICMP of the other family, UDP to
    /// port 0.
    Malformed,
    /// IP options, or the headers that the dialect counts among them, without `allow-opts`.
    Options,
    /// `max`: the rule has too many states.
    StateLimit,
    /// `max-src-states` or `max-src-nodes`.
    SourceLimit,
    /// A limiter that blocks has no room.
    Limiter(LimiterKind),
    /// The pool has no address or port to give.
    Translation,
    /// The pool of `route-to` has no address to give.
    Route,
    /// `af-to`: the packet has no form in the other family, or no router forwards it there.
    Family,
}

impl Reason {
    /// One word for it, for JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Default => "default",
            Self::Skip => "skip",
            Self::State => "state",
            Self::StateMismatch => "state-mismatch",
            Self::TranslationPass => "translation-pass",
            Self::Malformed => "malformed",
            Self::Options => "ip-option",
            Self::StateLimit => "state-limit",
            Self::SourceLimit => "src-limit",
            Self::Limiter(_) => "limiter",
            Self::Translation => "map-failed",
            Self::Route => "no-route",
            Self::Family => "af-to",
        }
    }
}

/// The answer to the sender of a blocked packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Response {
    None,
    /// A TCP RST with this TTL; 0 is the default one.
    Rst {
        /// TTL; 0 for the default.
        ttl: u8,
    },
    /// An ICMP message of the packet's family.
    Icmp {
        /// Its type: 3 of ICMP, 1 of ICMPv6.
        kind: u8,
        code: u8,
    },
    /// An SCTP ABORT (FreeBSD).
    SctpAbort,
}

/// Addresses and ports after translation.
#[derive(Debug, Clone, Copy)]
pub struct Translated<'a> {
    /// The rule that translated last.
    pub rule: RuleRef<'a>,
    /// The new source.
    pub source: IpAddr,
    /// The new source port, or the identifier of an ICMP echo.
    pub source_port: u16,
    /// The new destination.
    pub destination: IpAddr,
    /// The new destination port.
    pub destination_port: u16,
    /// The new family of `af-to`.
    pub af_to: Option<Af>,
    /// Whether the packet is changed. OpenBSD translates through states alone: a packet whose
    /// last matching rule makes none leaves as it came.
    pub takes_effect: bool,
}

/// A state that the packet makes.
#[derive(Debug, Clone, Copy)]
pub struct NewState<'a> {
    /// How: with sequence numbers modulated or proxied, where the packet is a SYN of TCP.
    pub kind: KeepState,
    /// The rule whose options hold; `None` for the default rule, whose packets make a state only
    /// where they are translated (FreeBSD).
    pub rule: Option<RuleRef<'a>>,
    /// It holds on its interface alone.
    pub if_bound: bool,
    /// Sequence numbers are not checked.
    pub sloppy: bool,
    /// It is not sent to peers.
    pub no_sync: bool,
    /// It may be one of the reserved ones.
    pub reserve: bool,
    /// TCP is normalised with state (`reassemble tcp`).
    pub reassemble_tcp: bool,
}

/// What matching rules change in a packet and its state, in the order of matching: later ones
/// override.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Actions {
    /// The tag that it leaves with.
    pub tag: Option<Text>,
    pub queue: Option<QueueName>,
    pub dummynet: Option<Dummynet>,
    /// The routing table.
    pub rtable: Option<u32>,
    /// Every packet of the state is logged.
    pub log_all: bool,
    /// The TOS byte.
    pub set_tos: Option<u8>,
    /// 802.1p priorities: of the packet, and of those without payload or for low delay.
    pub set_prio: Option<(u8, u8)>,
    /// Delay in milliseconds.
    pub delay_ms: Option<u16>,
    /// TTL is raised to this.
    pub min_ttl: Option<u8>,
    /// MSS is lowered to this.
    pub max_mss: Option<u16>,
    /// The don't-fragment bit is cleared.
    pub no_df: bool,
    /// The IP identification becomes random.
    pub random_id: bool,
    /// TCP is normalised with state.
    pub reassemble_tcp: bool,
    /// IP options are allowed.
    pub allow_opts: bool,
}

/// Where a rule sends a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChoice {
    /// How.
    pub kind: RouteKind,
    pub interface: Option<Text>,
    /// The next hop; `None` leaves the packet's own destination.
    pub gateway: Option<IpAddr>,
    /// Whether this packet goes there: `reply-to` is for those of the other direction.
    pub applies_now: bool,
}

/// Old `scrub` rules (FreeBSD): the first that matches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Normalisation<'a> {
    /// For the IP header and fragments.
    pub ip: Option<RuleRef<'a>>,
    pub tcp: Option<RuleRef<'a>>,
}

/// What becomes of a packet, and why.
#[derive(Debug, Clone)]
pub struct Verdict<'a> {
    /// Whether it goes on.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// The last matching rule (`pass` or `block`); `None` is the default.
    pub rule: Option<RuleRef<'a>>,
    /// `quick` ended the evaluation, of the rule or of an anchor around it.
    pub quick: bool,
    /// The `match` rules that matched, in order.
    pub matches: Vec<RuleRef<'a>>,
    /// Rules that log the packet, in order: with `log`, or because of an earlier
    /// `log (matches)`.
    pub logs: Vec<RuleRef<'a>>,
    /// Rules with `once` that have had their match: the caller marks them as spent.
    pub spent_once: Vec<RuleId>,
    /// Old `scrub` rules.
    pub scrub: Normalisation<'a>,
    /// Translation, if any rule translates.
    pub translation: Option<Translated<'a>>,
    /// What the rules change.
    pub actions: Actions,
    /// The answer of a block.
    pub response: Response,
    /// The answer if the state cannot be made: `set fail-policy return`.
    pub failure: Response,
    /// The state that is made.
    pub state: Option<NewState<'a>>,
    /// `synproxy`: the SYN is answered, not passed on.
    pub is_proxied: bool,
    /// `route-to` and its like.
    pub route: Option<RouteChoice>,
    /// The socket.
    pub divert: Option<Divert>,
}
