//! Which rules match a superset of another's packets. `covers` answers yes only where that is
//! certain from the rules alone; tables and addresses of interfaces are compared by name.
//!
//! The fields are taken apart without `..`, so that a new one does not compile until it has been
//! said whether it is a condition.

use std::net::IpAddr;

use weir_wire::protocol::{ICMP, ICMP6, TCP};

use crate::ir::{Address, IcmpMatch, Interface, Peer, Rule};
use crate::value::{Comparison, Operator, RuleOptions, TcpFlags};

/// Everything of a rule that decides whether it matches. The rest is what it does.
struct Conditions<'a> {
    rule: &'a Rule,
    options: OptionConditions<'a>,
}

/// The conditions among the options.
struct OptionConditions<'a> {
    flags: Option<TcpFlags>,
    tos: Option<u8>,
    prio: Option<u8>,
    fragment: bool,
    tagged: Option<&'a (bool, crate::value::Text)>,
    /// Whether the match depends on chance, on counts or on time.
    varies: bool,
}

fn option_conditions(options: &RuleOptions) -> OptionConditions<'_> {
    let RuleOptions {
        flags,
        tos,
        prio,
        max_pkt_rate,
        set: _,
        keep_state: _,
        state: _,
        probability,
        fragment,
        scrub: _,
        allow_opts: _,
        labels: _,
        ridentifier: _,
        once,
        queue: _,
        dummynet: _,
        tag: _,
        tagged,
        rtable: _,
        divert: _,
        limiters,
    } = options;
    OptionConditions {
        flags: flags.filter(|flag| *flag != TcpFlags::ANY),
        tos: *tos,
        prio: *prio,
        fragment: *fragment,
        tagged: tagged.as_ref(),
        varies: max_pkt_rate.is_some() || probability.is_some() || *once || !limiters.is_empty(),
    }
}

/// What is left out of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Leniency {
    /// Only packets that begin a connection matter: `flags S/SA` of the wider rule counts as none.
    pub(crate) new_connections: bool,
    /// Fragments are put together before any rule sees them.
    pub(crate) reassembles: bool,
}

/// Whether `wide` matches every packet that `narrow` matches, at the same moment.
pub(crate) fn covers(wide: &Rule, narrow: &Rule, leniency: Leniency) -> bool {
    let Rule {
        span: _,
        action: _,
        anchor: _,
        direction,
        log: _,
        quick: _,
        interface,
        rdomain,
        af,
        protocol,
        from,
        to,
        os,
        received_on,
        user,
        group,
        icmp,
        options,
        nat: _,
        rdr: _,
        af_to: _,
        route: _,
    } = wide;
    // The cheap ones first: most pairs differ in one of them.
    wildcard(direction, &narrow.direction)
        && wildcard(protocol, &narrow.protocol)
        && wildcard(af, &narrow.af)
        && ports_cover(to.port, narrow.to.port)
        && ports_cover(from.port, narrow.from.port)
        && interface_covers(interface.as_ref(), narrow.interface.as_ref())
        && peer_covers(to, &narrow.to)
        && peer_covers(from, &narrow.from)
        && wildcard(rdomain, &narrow.rdomain)
        && wildcard(os, &narrow.os)
        && wildcard(received_on, &narrow.received_on)
        && wildcard(user, &narrow.user)
        && wildcard(group, &narrow.group)
        && icmp_covers(*icmp, narrow.icmp)
        && options_cover(
            &Conditions { rule: wide, options: option_conditions(options) },
            &Conditions { rule: narrow, options: option_conditions(&narrow.options) },
            leniency,
        )
}

/// Nothing said covers everything; something said covers the same.
fn wildcard<T: PartialEq>(wide: &Option<T>, narrow: &Option<T>) -> bool {
    wide.is_none() || wide == narrow
}

/// An interface's name ends in a digit, a group's cannot (ifconfig(8)).
pub(crate) fn is_one_interface(name: &str) -> bool {
    name.ends_with(|c: char| c.is_ascii_digit())
}

fn interface_covers(wide: Option<&Interface>, narrow: Option<&Interface>) -> bool {
    let (Some(wide), Some(narrow)) = (wide, narrow) else {
        return wide.is_none();
    };
    let both_single = is_one_interface(&wide.name) && is_one_interface(&narrow.name);
    let others = wide.not && !narrow.not && both_single && wide.name != narrow.name;
    wide == narrow || others
}

fn icmp_covers(wide: Option<IcmpMatch>, narrow: Option<IcmpMatch>) -> bool {
    let (Some(wide), Some(narrow)) = (wide, narrow) else {
        return wide.is_none();
    };
    wide.kind == narrow.kind && wildcard(&wide.code, &narrow.code)
}

fn options_cover(wide: &Conditions<'_>, narrow: &Conditions<'_>, leniency: Leniency) -> bool {
    let (outer, other) = (&wide.options, &narrow.options);
    if outer.varies || (outer.fragment && !other.fragment) {
        return false;
    }
    wildcard(&outer.tos, &other.tos)
        && wildcard(&outer.prio, &other.prio)
        && wildcard(&outer.tagged, &other.tagged)
        && flags_cover(wide, narrow, leniency)
        && (leniency.new_connections || replies_covered(wide.rule, narrow.rule))
}

/// OpenBSD's rules that keep state take no ICMP replies, unless they are sloppy.
fn replies_covered(wide: &Rule, narrow: &Rule) -> bool {
    let refuses = |rule: &Rule| {
        rule.keeps_state() && !rule.options.state.as_ref().is_some_and(|state| state.sloppy)
    };
    let may_be_icmp = narrow.protocol.is_none_or(|protocol| matches!(protocol, ICMP | ICMP6));
    !refuses(wide) || refuses(narrow) || !may_be_icmp
}

/// Flags are looked at in TCP alone, but a rule that names some takes no fragment.
fn flags_cover(wide: &Conditions<'_>, narrow: &Conditions<'_>, leniency: Leniency) -> bool {
    let looks_inside = needs_whole_packet(narrow);
    let wide_is_whole = needs_whole_packet(wide);
    if narrow.options.fragment {
        return !wide_is_whole;
    }
    let fragments_fit = looks_inside || leniency.reassembles || leniency.new_connections;
    if wide_is_whole && !fragments_fit {
        return false;
    }
    let counts = |flags: &TcpFlags| !leniency.new_connections || *flags != TcpFlags::SYN;
    let Some(flag) = wide.options.flags.filter(counts) else {
        return true;
    };
    match (narrow.rule.protocol, narrow.options.flags) {
        (Some(protocol), _) if protocol != TCP => true,
        (_, Some(other)) => flag.mask & !other.mask == 0 && other.set & flag.mask == flag.set,
        (_, None) => false,
    }
}

/// Whether a rule looks behind the IP header, which a fragment does not have.
fn needs_whole_packet(conditions: &Conditions<'_>) -> bool {
    let rule = conditions.rule;
    rule.from.port.is_some()
        || rule.to.port.is_some()
        || rule.icmp.is_some()
        || rule.os.is_some()
        || rule.user.is_some()
        || rule.group.is_some()
        || conditions.options.flags.is_some()
}

fn peer_covers(wide: &Peer, narrow: &Peer) -> bool {
    // The ports have been compared.
    if wide.address == Address::Any && !wide.not {
        return true;
    }
    if wide.not == narrow.not && wide.address == narrow.address {
        return true;
    }
    let (Some(outer), Some(other)) = (Interval::of(&wide.address), Interval::of(&narrow.address))
    else {
        return false;
    };
    match (wide.not, narrow.not) {
        (false, false) => outer.contains(other),
        (true, true) => other.contains(outer),
        (true, false) => !outer.meets(other),
        (false, true) => false,
    }
}

/// Addresses from the first to the last, of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    is_v4: bool,
    first: u128,
    last: u128,
}

impl Interval {
    /// The addresses of a network or range; `None` if they are not known or are all.
    pub(crate) fn of(address: &Address) -> Option<Self> {
        match address {
            Address::Network(first, bits) => Some(Self::network(*first, *bits)),
            Address::Range(first, last) => {
                Some(Self { is_v4: first.is_ipv4(), first: number(*first), last: number(*last) })
            }
            _ => None,
        }
    }

    /// The addresses of a network.
    pub(crate) fn network(address: IpAddr, bits: u8) -> Self {
        let width: u32 = if address.is_ipv4() { 32 } else { 128 };
        let free = width - u32::from(bits).min(width);
        let rest = if free == 128 { u128::MAX } else { (1_u128 << free) - 1 };
        let first = number(address) & !rest;
        Self { is_v4: address.is_ipv4(), first, last: first | rest }
    }

    fn contains(self, other: Self) -> bool {
        self.is_v4 == other.is_v4 && self.first <= other.first && other.last <= self.last
    }

    /// Whether both have an address.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.is_v4 == other.is_v4 && self.first <= other.last && other.first <= self.last
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The ports that satisfy a comparison, as at most two intervals with both ends included.
pub(crate) fn port_intervals(port: Comparison<u16>) -> impl Iterator<Item = (u16, u16)> + Clone {
    let (a, b) = (port.first, port.second);
    let below = |end: u16| end.checked_sub(1).map(|last| (0, last));
    let above = |start: u16| start.checked_add(1).map(|first| (first, u16::MAX));
    let (one, two) = match port.operator {
        Operator::Equal => (Some((a, a)), None),
        Operator::NotEqual => (below(a), above(a)),
        Operator::Less => (below(a), None),
        Operator::LessEqual => (Some((0, a)), None),
        Operator::Greater => (above(a), None),
        Operator::GreaterEqual => (Some((a, u16::MAX)), None),
        Operator::Inside => (a.checked_add(1).zip(b.checked_sub(1)), None),
        Operator::Outside => (below(a), above(b)),
        Operator::Range => (Some((a, b)), None),
    };
    [one, two].into_iter().flatten().filter(|(first, last)| first <= last)
}

fn ports_cover(wide: Option<Comparison<u16>>, narrow: Option<Comparison<u16>>) -> bool {
    let (Some(wide), Some(narrow)) = (wide, narrow) else {
        return wide.is_none();
    };
    if wide == narrow {
        return true;
    }
    let port_interval = port_intervals(wide);
    port_intervals(narrow)
        .all(|(first, last)| port_interval.clone().any(|(a, b)| a <= first && last <= b))
}

/// Whether some packet certainly matches both: their addresses and ports have one in common, and
/// everything else is equal or said by one alone.
pub(crate) fn overlaps(one: &Rule, other: &Rule) -> bool {
    let narrower = |rule: &Rule| option_conditions(&rule.options).varies;
    meets(&one.direction, &other.direction)
        && meets(&one.protocol, &other.protocol)
        && meets(&one.af, &other.af)
        && (interface_covers(one.interface.as_ref(), other.interface.as_ref())
            || interface_covers(other.interface.as_ref(), one.interface.as_ref()))
        && peers_meet(&one.from, &other.from)
        && peers_meet(&one.to, &other.to)
        && meets(&one.rdomain, &other.rdomain)
        && meets(&one.os, &other.os)
        && meets(&one.received_on, &other.received_on)
        && meets(&one.user, &other.user)
        && meets(&one.group, &other.group)
        && meets(&one.icmp, &other.icmp)
        && meets(&one.options.tagged, &other.options.tagged)
        && meets(&one.options.flags, &other.options.flags)
        && one.options.fragment == other.options.fragment
        && !narrower(one)
        && !narrower(other)
}

fn meets<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_none() || other.is_none() || one == other
}

fn peers_meet(one: &Peer, other: &Peer) -> bool {
    let is_any = |peer: &Peer| peer.address == Address::Any && !peer.not;
    let same = one.not == other.not && one.address == other.address;
    let known = || {
        let (a, b) = (Interval::of(&one.address)?, Interval::of(&other.address)?);
        Some(!one.not && !other.not && a.meets(b))
    };
    let addresses = is_any(one) || is_any(other) || same || known().unwrap_or(false);
    addresses && ports_meet(one.port, other.port)
}

fn ports_meet(one: Option<Comparison<u16>>, other: Option<Comparison<u16>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return true };
    let others = port_intervals(other);
    port_intervals(one).any(|(a, b)| others.clone().any(|(first, last)| a <= last && first <= b))
}
