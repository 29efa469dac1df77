//! The small values that a rule is made of, the same before and after expansion.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::dialect::Dialect;
use crate::source::Span;

/// A name or a string. Cloning shares it.
pub type Text = Arc<str>;

/// A value with the words it was read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spanned<T> {
    pub value: T,
    /// The words.
    pub span: Span,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Af {
    /// IPv4.
    Inet,
    /// IPv6.
    Inet6,
}

impl Af {
    /// `inet` or `inet6`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Inet6 => "inet6",
        }
    }

    /// Bits of an address: 32 or 128.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::Inet => 32,
            Self::Inet6 => 128,
        }
    }
}

/// Which way a packet crosses an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Towards the box.
    In,
    /// Away from it.
    Out,
}

/// `log` and its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Log {
    /// Every packet of the state, not the first alone.
    pub all: bool,
    /// What later rules match too (OpenBSD, and FreeBSD since 14).
    pub matches: bool,
    /// The user behind the socket.
    pub user: bool,
    /// The number of the pflog interface; 0 is the default one.
    pub interface: u8,
}

/// What `block` does with the packet's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockReturn {
    /// Nothing.
    Drop,
    /// RST for TCP, ICMP unreachable for everything else.
    Return,
    /// RST, with this TTL if it is not 0.
    Rst {
        /// 0 for the default.
        ttl: u8,
    },
    /// ICMP unreachable, with a code for each family.
    Icmp {
        /// Code of ICMP type 3.
        code: u8,
        /// Code of ICMPv6 type 1.
        code6: u8,
    },
}

/// How two numbers compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `= a`
    Equal,
    /// `!= a`
    NotEqual,
    /// `< a`
    Less,
    /// `<= a`
    LessEqual,
    /// `> a`
    Greater,
    /// `>= a`
    GreaterEqual,
    /// `a >< b`: between, the ends excluded.
    Inside,
    /// `a <> b`: below a or above b.
    Outside,
    /// `a:b`: between, the ends included.
    Range,
}

/// A comparison with one number or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comparison<T> {
    /// How.
    pub operator: Operator,
    /// The number, or the lower end.
    pub first: T,
    /// The upper end of `Inside`, `Outside` and `Range`; the same as `first` otherwise.
    pub second: T,
}

impl<T: PartialOrd + Copy> Comparison<T> {
    /// Whether `value` satisfies it.
    #[must_use]
    pub fn holds(&self, value: T) -> bool {
        let (first, second) = (self.first, self.second);
        match self.operator {
            Operator::Equal => value == first,
            Operator::NotEqual => value != first,
            Operator::Less => value < first,
            Operator::LessEqual => value <= first,
            Operator::Greater => value > first,
            Operator::GreaterEqual => value >= first,
            Operator::Inside => value > first && value < second,
            Operator::Outside => value < first || value > second,
            Operator::Range => value >= first && value <= second,
        }
    }
}

/// `flags set/mask`, as bits of the TCP header: F 1, S 2, R 4, P 8, A 16, U 32, E 64, W 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags {
    /// Those that must be set.
    pub set: u8,
    /// Those that are looked at.
    pub mask: u8,
}

/// The letters of [`TcpFlags`], from bit 0.
pub(crate) const TCP_FLAG_LETTERS: &str = "FSRPAUEW";

impl TcpFlags {
    /// `flags any`: nothing is looked at.
    pub const ANY: Self = Self { set: 0, mask: 0 };
    /// `flags S/SA`, the default of a rule that keeps state.
    pub const SYN: Self = Self { set: 0x02, mask: 0x12 };
}

/// What becomes of a passed packet's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepState {
    /// `no state`
    No,
    /// `keep state`
    Keep,
    /// `modulate state`
    Modulate,
    /// `synproxy state`
    Synproxy,
}

/// How the states of a source are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceTrack {
    /// `source-track` alone: `rule` or `global` as the limits beside it need.
    Default,
    /// Per rule.
    Rule,
    /// Over all rules.
    Global,
}

/// A number of events in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Events.
    pub limit: u32,
    /// Time, in seconds.
    pub seconds: u32,
}

/// What `overload` does with the states of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flush {
    /// They stay.
    No,
    /// Those that this rule made go.
    Rule,
    /// All go.
    Global,
}

/// The options in parentheses after `keep state`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateOptions {
    /// States that this rule may have.
    pub max_states: Option<u32>,
    /// States are not sent to peers.
    pub no_sync: bool,
    /// Sources are tracked.
    pub source_track: Option<SourceTrack>,
    /// States per source.
    pub max_src_states: Option<u32>,
    /// Established connections per source.
    pub max_src_conn: Option<u32>,
    /// New connections per source and time.
    pub max_src_conn_rate: Option<Rate>,
    /// Sources of this rule.
    pub max_src_nodes: Option<u32>,
    /// Table that takes a source that went over its limit.
    pub overload: Option<(Text, Flush)>,
    /// Whether states hold on one interface; `None` is `set state-policy`.
    pub if_bound: Option<bool>,
    /// Sequence numbers are not checked.
    pub sloppy: bool,
    /// May use the states of `set state-reserve`, weir's own.
    pub reserve: bool,
    /// Exported by pflow.
    pub pflow: bool,
    /// ICMP errors and SCTP associations that belong to the state pass too (FreeBSD).
    pub allow_related: bool,
    /// Timeouts of their own, in seconds, in the order of [`crate::names::TIMEOUTS`].
    pub timeouts: Vec<(u8, u32)>,
}

/// How a pool picks an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The network part is replaced.
    Bitmask,
    /// At random.
    Random,
    /// By a hash of the source, with its key.
    SourceHash(Option<Text>),
    /// In turn.
    RoundRobin,
    /// The address with the fewest states (OpenBSD).
    LeastStates,
}

/// `map-e-portset offset/length/id` (RFC 7597).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapEPortSet {
    /// Bits before the identifier.
    pub offset: u8,
    /// Bits of the identifier.
    pub length: u8,
    /// The identifier.
    pub id: u16,
}

/// Where a packet is handed to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Divert {
    /// `divert-to`; FreeBSD has a port alone.
    To(Option<IpAddr>, u16),
    /// `divert-reply`
    Reply,
    /// `divert-packet port`
    Packet(u16),
}

/// A queue, and one for packets without payload and for low delay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueName {
    /// The queue.
    pub name: Text,
    /// The second queue.
    pub priority: Option<Text>,
}

/// `dnpipe` or `dnqueue` (FreeBSD's dummynet).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dummynet {
    /// A pipe, not a queue.
    pub is_pipe: bool,
    /// The number for the rule's direction.
    pub forward: u16,
    /// The number for the other direction; 0 for none.
    pub reverse: u16,
}

impl Dummynet {
    /// What a rule says after others: a direction of which it names none keeps what they have said
    /// (`pf_rule_to_actions` of pf.c).
    #[must_use]
    pub fn over(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        let last = |new: u16, old: u16| if new == 0 { old } else { new };
        Self {
            is_pipe: self.is_pipe,
            forward: last(self.forward, before.forward),
            reverse: last(self.reverse, before.reverse),
        }
    }
}

/// What `match ... scrub (...)` and the old `scrub` rule change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Scrub {
    /// Clear the don't-fragment bit.
    pub no_df: bool,
    /// A random IP identification.
    pub random_id: bool,
    /// Raise the TTL to this; 0 leaves it.
    pub min_ttl: u8,
    /// Lower the MSS to this; 0 leaves it.
    pub max_mss: u16,
    /// TCP normalisation with state.
    pub reassemble_tcp: bool,
    /// `fragment no reassemble` of the old `scrub` rule: fragments stay fragments.
    pub no_reassemble: bool,
}

impl Scrub {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What `set (...)` changes in a matched packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SetFields {
    /// 802.1p priority, and that of packets without payload and for low delay.
    pub prio: Option<(u8, u8)>,
    /// The whole TOS byte.
    pub tos: Option<u8>,
    /// Delay in milliseconds (OpenBSD).
    pub delay_ms: Option<u16>,
}

/// A `state limiter` or `source limiter` in a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LimiterUse {
    /// Of states or of sources.
    pub kind: LimiterKind,
    /// By name or by number.
    pub limiter: LimiterName,
    /// What happens to a packet over the limit; `None` is the kernel's default.
    pub action: Option<LimiterAction>,
}

impl LimiterUse {
    /// Whether a packet over the limit is dropped. Without a word OpenBSD does that
    /// (`PF_LIMITER_DEFAULT` of pfvar.h); in FreeBSD the rule does not match (pf.conf(5)).
    #[must_use]
    pub fn blocks(&self, dialect: Dialect) -> bool {
        match self.action {
            Some(action) => action == LimiterAction::Block,
            None => dialect == Dialect::OpenBsd,
        }
    }

    /// Its number, if it is known.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        match self.limiter {
            LimiterName::Id(id) => Some(id),
            LimiterName::Name(_) => None,
        }
    }
}

/// How a rule names a limiter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LimiterName {
    /// By its name.
    Name(Text),
    /// By `id`.
    Id(u32),
}

/// What a limiter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimiterKind {
    State,
    /// Sources and their states.
    Source,
}

/// What becomes of a packet over a limiter's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimiterAction {
    /// The rule does not match.
    NoMatch,
    /// The packet is blocked.
    Block,
}

/// Options of a rule that no list multiplies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleOptions {
    /// TCP flags; `None` where the rule names none.
    pub flags: Option<TcpFlags>,
    /// The TOS byte must be this.
    pub tos: Option<u8>,
    /// The 802.1p priority must be this.
    pub prio: Option<u8>,
    /// The rule matches this many packets in this time at most.
    pub max_pkt_rate: Option<Rate>,
    /// Changes to the packet.
    pub set: SetFields,
    /// What to do with the connection; `None` where the rule does not say.
    pub keep_state: Option<KeepState>,
    /// Options of that; `None` where there is no parenthesis. After expansion, no options at all
    /// are `Some` beside `set state-defaults`.
    pub state: Option<Box<StateOptions>>,
    /// Chance of a match, as a fraction of 2^32 - 1.
    pub probability: Option<u32>,
    /// Fragments alone.
    pub fragment: bool,
    /// Normalisation.
    pub scrub: Option<Scrub>,
    /// Packets with IP options may pass.
    pub allow_opts: bool,
    /// Labels; FreeBSD has up to five.
    pub labels: Vec<Text>,
    /// An identifier for logs (FreeBSD).
    pub ridentifier: Option<u32>,
    /// The rule goes after its first match.
    pub once: bool,
    pub queue: Option<QueueName>,
    pub dummynet: Option<Dummynet>,
    /// Tag that the packet gets.
    pub tag: Option<Text>,
    /// Tag that the packet must have, or must not.
    pub tagged: Option<(bool, Text)>,
    /// Routing table.
    pub rtable: Option<u32>,
    /// Socket.
    pub divert: Option<Divert>,
    pub limiters: Vec<LimiterUse>,
}

/// What follows an interface's name in an address: `:network`, `:broadcast`, `:peer`, `:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Modifiers {
    /// The networks, not the addresses.
    pub network: bool,
    /// The broadcast addresses.
    pub broadcast: bool,
    /// The other ends of point-to-point links.
    pub peer: bool,
    /// Without aliases: the first address of each family.
    pub no_alias: bool,
}

/// How a rule routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// Packets of the rule's direction go there.
    RouteTo,
    /// Packets of the other direction go there.
    ReplyTo,
    /// A copy goes there.
    DupTo,
}

/// `set` statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// `set timeout name seconds`: index in [`crate::names::TIMEOUTS`].
    Timeout(u8, u32),
    /// `set limit name count`: index in [`crate::names::LIMITS`].
    Limit(u8, u32),
    /// `set optimization`: one of [`crate::names::OPTIMIZATIONS`].
    Optimization(Text),
    /// `set ruleset-optimization`: `none`, `basic` or `profile`.
    RulesetOptimization(Text),
    /// `set block-policy`
    BlockPolicy(BlockReturn),
    /// `set fail-policy`
    FailPolicy(BlockReturn),
    /// `set skip on`
    Skip(Vec<Text>),
    /// `set state-policy`: bound to the interface or not.
    StatePolicyIfBound(bool),
    /// `set state-defaults`
    StateDefaults(Box<StateOptions>),
    /// `set loginterface`; `None` is `none`.
    LogInterface(Option<Text>),
    /// `set fingerprints`
    Fingerprints(Text),
    /// `set hostid`
    HostId(u32),
    /// `set debug`
    Debug(Text),
    /// `set reassemble yes|no [no-df]`
    Reassemble {
        /// Fragments are put together.
        enabled: bool,
        /// Also those with the don't-fragment bit.
        no_df: bool,
    },
    /// `set syncookies`
    Syncookies(Syncookies),
    /// `set require-order`, which no longer means anything.
    RequireOrder(bool),
    /// `set keepcounters`
    KeepCounters,
    /// `set hashsize`, weir's own: buckets of the state table.
    HashSize(u32),
    /// `set state-reserve`, weir's own: states, of the limit, for rules with `reserve`.
    StateReserve(u32),
    /// `set weir-stages`, weir's own.
    WeirStages(WeirStages),
}

/// `set weir-stages`: in how many stages packets are judged. It changes no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WeirStages {
    /// As many as the number of states calls for.
    #[default]
    Auto,
    /// At once, whatever that number is.
    One,
    /// Two wherever that is right, whatever that number is.
    Two,
}

impl WeirStages {
    /// The words for it, in the order of the variants.
    pub const WORDS: [&str; 3] = ["auto", "one", "two"];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// `set syncookies`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syncookies {
    /// Off.
    Never,
    /// For every SYN.
    Always,
    /// Between two fill levels of the state table, in percent.
    Adaptive {
        /// On from here.
        start: u8,
        /// Off below here.
        end: u8,
    },
}

impl Syncookies {
    /// With more half-open states than the first they are on, and off again with fewer than the
    /// second, of a table of `state_limit` states: pfctl(8). Of [`Self::Adaptive`] alone.
    #[must_use]
    pub fn levels(self, state_limit: u32) -> Option<[u32; 2]> {
        let Self::Adaptive { start, end } = self else { return None };
        let share = |percent: u8| u64::from(state_limit) * u64::from(percent) / 100;
        Some([start, end].map(|percent| u32::try_from(share(percent)).unwrap_or(u32::MAX)))
    }

    /// The word after `set syncookies`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::Adaptive { .. } => "adaptive",
        }
    }
}

/// A name with its modifiers, as written.
pub(crate) fn with_modifiers(name: &str, modifiers: Modifiers) -> Text {
    let Modifiers { network, broadcast, peer, no_alias } = modifiers;
    let mut text = name.to_owned();
    for (is_set, word) in
        [(network, ":network"), (broadcast, ":broadcast"), (peer, ":peer"), (no_alias, ":0")]
    {
        if is_set {
            text.push_str(word);
        }
    }
    text.into()
}

/// The mask of a prefix length up to 32.
pub(crate) fn mask4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)
}

/// The mask of a prefix length up to 128.
pub(crate) fn mask6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0)
}

/// The address with the bits after the prefix cleared.
#[must_use]
pub fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & mask4(bits)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & mask6(bits)).into(),
    }
}
