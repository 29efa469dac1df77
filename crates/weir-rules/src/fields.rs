//! What each field of a rule means for what may become of the rule. The fields are taken apart
//! without `..`: a new one does not compile until it has its class.
//!
//! - *barrier*: the rule stays where it is, alone.
//! - *effect*: what a matching packet meets. Rules of one block have equal effects, so that it
//!   does not matter which of them matches.
//! - *condition*: may differ within a block, but not between rules that become one.
//! - *address*: the side of a condition that a table can hold.
//! - *nothing*: where the rule was written.

use crate::ir::{Action, Address, IcmpMatch, Interface, Peer, Pool, PoolPorts, Route, Rule};
use crate::value::{
    Af, Comparison, Direction, Divert, Dummynet, KeepState, Log, PoolKind, QueueName, RuleOptions,
    Scrub, SetFields, SourceTrack, StateOptions, TcpFlags, Text,
};

/// The fields of a rule by their class.
pub(crate) struct Fields<'a> {
    pub(crate) is_barrier: bool,
    pub(crate) effects: Effects<'a>,
    pub(crate) conditions: Conditions<'a>,
    pub(crate) from: &'a Address,
    pub(crate) to: &'a Address,
}

/// What a matching packet meets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Effects<'a> {
    action: Action,
    log: Option<Log>,
    quick: bool,
    nat: Option<&'a Pool>,
    rdr: Option<&'a Pool>,
    af_to: Option<Af>,
    route: Option<&'a Route>,
    options: OptionEffects<'a>,
}

/// The part of it that options say.
#[derive(Debug, PartialEq, Eq)]
struct OptionEffects<'a> {
    set: SetFields,
    keep_state: Option<KeepState>,
    state: Option<&'a StateOptions>,
    scrub: Option<Scrub>,
    allow_opts: bool,
    queue: Option<&'a QueueName>,
    dummynet: Option<Dummynet>,
    tag: Option<&'a Text>,
    rtable: Option<u32>,
    divert: Option<Divert>,
}

/// When a rule matches, the addresses left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Conditions<'a> {
    direction: Option<Direction>,
    interface: Option<&'a Interface>,
    rdomain: Option<(bool, u32)>,
    af: Option<Af>,
    protocol: Option<u8>,
    from_not: bool,
    from_port: Option<Comparison<u16>>,
    to_not: bool,
    to_port: Option<Comparison<u16>>,
    os: Option<&'a Text>,
    received_on: Option<&'a Interface>,
    user: Option<Comparison<u32>>,
    group: Option<Comparison<u32>>,
    icmp: Option<IcmpMatch>,
    options: OptionConditions<'a>,
}

/// The part of it that options say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct OptionConditions<'a> {
    flags: Option<TcpFlags>,
    tos: Option<u8>,
    prio: Option<u8>,
    fragment: bool,
    tagged: Option<&'a (bool, Text)>,
}

/// The options by their class: whether one is a barrier, effects, conditions.
fn option_fields(options: &RuleOptions) -> (bool, OptionEffects<'_>, OptionConditions<'_>) {
    let RuleOptions {
        flags,
        tos,
        prio,
        max_pkt_rate,
        set,
        keep_state,
        state,
        probability,
        fragment,
        scrub,
        allow_opts,
        labels,
        ridentifier,
        once,
        queue,
        dummynet,
        tag,
        tagged,
        rtable,
        divert,
        limiters,
    } = options;
    let counts_or_varies = max_pkt_rate.is_some()
        || probability.is_some()
        || *once
        || !limiters.is_empty()
        || !labels.is_empty()
        || ridentifier.is_some()
        || state.as_deref().is_some_and(counts_states);
    let effects = OptionEffects {
        set: *set,
        keep_state: *keep_state,
        state: state.as_deref(),
        scrub: *scrub,
        allow_opts: *allow_opts,
        queue: queue.as_ref(),
        dummynet: *dummynet,
        tag: tag.as_ref(),
        rtable: *rtable,
        divert: *divert,
    };
    let conditions = OptionConditions {
        flags: *flags,
        tos: *tos,
        prio: *prio,
        fragment: *fragment,
        tagged: tagged.as_ref(),
    };
    (counts_or_varies, effects, conditions)
}

/// Sorts the fields of a rule.
pub(crate) fn fields(rule: &Rule) -> Fields<'_> {
    let Rule {
        span: _,
        action,
        anchor,
        direction,
        log,
        quick,
        interface,
        rdomain,
        af,
        protocol,
        from: Peer { not: from_not, address: from, port: from_port },
        to: Peer { not: to_not, address: to, port: to_port },
        os,
        received_on,
        user,
        group,
        icmp,
        options,
        nat,
        rdr,
        af_to,
        route,
    } = rule;
    let (counts_or_varies, option_effects, option_conditions) = option_fields(options);
    let (nat, rdr, route) = (nat.as_deref(), rdr.as_deref(), route.as_deref());
    let effects = Effects {
        action: *action,
        log: *log,
        quick: *quick,
        nat,
        rdr,
        af_to: *af_to,
        route,
        options: option_effects,
    };
    let conditions = Conditions {
        direction: *direction,
        interface: interface.as_ref(),
        rdomain: *rdomain,
        af: *af,
        protocol: *protocol,
        from_not: *from_not,
        from_port: *from_port,
        to_not: *to_not,
        to_port: *to_port,
        os: os.as_ref(),
        received_on: received_on.as_ref(),
        user: *user,
        group: *group,
        icmp: *icmp,
        options: option_conditions,
    };
    let is_barrier = anchor.is_some() || counts_or_varies || stands_alone(&effects);
    Fields { is_barrier, effects, conditions, from, to }
}

/// Whether an effect shows which of several rules it was, or how often they matched.
fn stands_alone(effects: &Effects<'_>) -> bool {
    let pools = [effects.nat, effects.rdr, effects.route.map(|route| &route.pool)];
    let has_turns = pools.into_iter().flatten().any(takes_turns)
        || effects.rdr.is_some_and(|rdr| !is_one_port(rdr.ports));
    // Every match rule that logs writes a line of its own.
    let is_match = effects.action == Action::Match;
    let logs_each = effects.log.is_some_and(|log| log.matches || is_match);
    let is_filter = matches!(effects.action, Action::Pass | Action::Block(_) | Action::Match);
    has_turns || logs_each || !is_filter
}

/// Whether states are counted by the rule that made them.
fn counts_states(state: &StateOptions) -> bool {
    let StateOptions {
        max_states,
        no_sync: _,
        source_track,
        max_src_states,
        max_src_conn,
        max_src_conn_rate,
        max_src_nodes,
        overload,
        if_bound: _,
        sloppy: _,
        reserve: _,
        pflow: _,
        allow_related: _,
        timeouts: _,
    } = state;
    let per_rule = matches!(source_track, Some(SourceTrack::Rule | SourceTrack::Default));
    max_states.is_some()
        || max_src_states.is_some()
        || max_src_conn.is_some()
        || max_src_conn_rate.is_some()
        || max_src_nodes.is_some()
        || overload.is_some()
        || per_rule
}

/// Whether the choice of an address depends on what the rule chose before.
fn takes_turns(pool: &Pool) -> bool {
    let Pool { hosts, kind, sticky, ports: _, map_e: _, endpoint_independent: _ } = pool;
    let [only] = &hosts[..] else { return true };
    let is_one = match &only.address {
        None | Some(Address::Dynamic(_)) => true,
        Some(Address::Network(address, bits)) => *bits == if address.is_ipv4() { 32 } else { 128 },
        Some(_) => false,
    };
    *sticky || !is_one || !matches!(kind, None | Some(PoolKind::RoundRobin))
}

/// A range of new ports depends on the old one.
fn is_one_port(ports: PoolPorts) -> bool {
    match ports {
        PoolPorts::Default | PoolPorts::Static => true,
        PoolPorts::Range(first, last) => first == last,
    }
}

/// Whether two rules do the same with a packet.
pub(crate) fn same_effects(one: &Rule, other: &Rule) -> bool {
    fields(one).effects == fields(other).effects
}
