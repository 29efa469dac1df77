//! What the language has and the data path does not: the one list that refusals, the help of
//! diagnostics and `docs/fw-rules.md` come from.
//!
//! A ruleset with any of it is refused as a whole, with the place of each; what runs stays as it
//! is. Nothing is left out silently. What is accepted although it changes nothing here draws a
//! warning.

use std::collections::HashSet;

use weir_rules::ast::Queue;
use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::ir::{Address, AltqOn, Peer, Prelude, Rule, Rules, Ruleset};
use weir_rules::names;
use weir_rules::source::Span;
use weir_rules::value::{Direction, RuleOptions, SetFields, Setting, StateOptions, Text};

use self::unresolved::refusal_of_unresolved;
use crate::timeouts::PROFILE_TIMEOUTS;

mod interfaces;
mod os;
mod pipes;
mod queues;
mod route;
#[cfg(test)]
mod tests;
mod translation;
mod unresolved;

pub(crate) use interfaces::diagnostics as interfaces;
pub(crate) use pipes::diagnostics as pipes;
pub(crate) use translation::of_anchor;

macro_rules! refusals {
    ($($variant:ident: $construct:literal, $reason:literal;)+) => {
        /// Something that is refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Refusal {
            $($variant,)+
        }

        impl Refusal {
            /// All of them, for documentation.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The words that are refused.
            #[must_use]
            pub(crate) fn construct(self) -> &'static str {
                match self { $(Self::$variant => $construct,)+ }
            }

            /// Why, in half a sentence.
            #[must_use]
            pub(crate) fn reason(self) -> &'static str {
                match self { $(Self::$variant => $reason,)+ }
            }
        }
    };
}

refusals! {
    AfTo: "af-to with route-to, divert-to, synproxy state, set prio, set queue, dnpipe or dnqueue",
        "its packets are not judged where they leave, and the kernel's routes lead them";
    AfToPool: "af-to from a pool with bitmask, least-states or endpoint-independent, or to a list, \
               a table, (interface) or with a port",
        "there is one destination, or one prefix of destinations";
    AfToNothing: "af-to inet6 without to",
        "a prefix says where IPv4 destinations are in IPv6";
    NatIn: "nat-to in a rule that is not out, rdr-to in one that is not in",
        "sources are translated where packets leave, destinations where they come in";
    Gateway: "reply-to with no state; a gateway by least-states, or an interface or a typed table \
              among others",
        "answers are known by states, which are not counted by gateway; those two stand alone";
    Ether: "ether",
        "layer 2 is not filtered";
    ScrubTag: "scrub with tag, tagged, no-route or urpf-failed",
        "`scrub` rules are asked by interface, protocol, addresses and ports";
    QueueFlags: "queue with rio, cleardscp, flowvalve, wrr, efficient, root, hogs, fairq linkshare",
        "the kernel's queues and classes have nothing like it";
    Limiter: "a limiter's rate over more than 30,000,000 seconds",
        "the clock of the data path has too few bits to tell such times apart";
    Os: "os without fingerprints",
        "no file in the format of pf.os(5) is at /etc/pf.os, or where `set fingerprints` says";
    OsProxy: "os with synproxy state or set syncookies",
        "nothing is kept of a SYN that is answered by a cookie";
    ScrubOs: "scrub with os",
        "`scrub` rules are asked by interface, protocol, addresses and ports";
    Rdomain: "on rdomain other than 0",
        "there is one routing domain, the network namespace";
    RoutingTable: "rtable other than 0",
        "routes are looked up in the main routing table";
    RouteLabel: "route \"label\"",
        "the kernel's routes have no labels";
    SetDelay: "set delay",
        "packets do not wait";
    Divert: "divert-packet, and FreeBSD's divert-to",
        "the kernel has no divert sockets, which take whole packets";
    DivertElse: "divert-to, divert-reply with route-to, no state, match or the other direction",
        "a state keeps the socket that gets what comes in";
    AllowRelated: "allow-related",
        "SCTP associations are not followed";
    RuleTimeout: "timeouts of a rule other than tcp.*, udp.*, icmp.*, other.*, src.track",
        "they belong to the whole table of states";
    UnresolvedHost: "a host name without an address",
        "nothing could match it";
    UnresolvedInterface: "`em0:network` and the like without an address",
        "no packet could match it";
    IncompleteTable: "a table whose file could not be read",
        "it would run without its entries";
}

/// Half of the data path's ticks, which are compared as signed numbers, are more.
const LIMITER_RATE_MAX_S: u32 = 30_000_000;

/// What helps where something is missing.
const NOT_UNTIL_THERE: &str = "as pf, weir loads nothing until it is there";

/// `on rdomain 0`: everything here is in it.
const THE_RDOMAIN: (bool, u32) = (false, 0);

/// Whether routes are to be looked up in another table than the main one, which is `rtable 0`.
fn is_other_table(table: Option<u32>) -> bool {
    table.is_some_and(|number| number != 0)
}

/// What is accepted although it changes nothing. The first seven draw a warning.
#[cfg(test)]
pub(crate) const MEANINGLESS: &[(&str, &str)] = &[
    ("set timeout: tcp.tsdiff, sctp.*", "timestamps of TCP and SCTP are not followed"),
    ("ridentifier", "the log has a rule's number, and not this one"),
    ("log (user)", "the log has no owners of sockets"),
    ("log (to pflogN)", "there is one log, which has packets of all rules"),
    ("set debug", "`weir fw run` has its own messages"),
    ("scrub with log or label", "what `scrub` rules change is not logged, nor counted"),
    ("scrub within an anchor", "pf asks the `scrub` rules of the main ruleset alone"),
    ("set require-order", "it means nothing in pf any more"),
    ("set keepcounters", "counters of unchanged rules always stay"),
    (
        "set reassemble (but for no-df), fragment reassemble, fragment no reassemble",
        "fragments always follow their first one; what overtakes it is not translated, but dropped",
    ),
];

/// The refusal of `os` in one file and of a proxy in another.
#[must_use]
pub(crate) fn os_with_proxy() -> String {
    let refusal = Refusal::OsProxy;
    format!("weir's data path has no `{}`: {}", refusal.construct(), refusal.reason())
}

/// Finds all that is refused, and what is accepted without effect as warnings, in order of place.
#[must_use]
pub fn diagnostics(ruleset: &Ruleset) -> Vec<Diagnostic> {
    let typed = ruleset.tables.iter().filter(|table| table.typed.is_some());
    let typed = typed.map(|table| table.name.clone()).collect();
    let mut found = Found { typed, ..Found::default() };
    for prelude in &ruleset.prelude {
        found.prelude(prelude);
    }
    for table in &ruleset.tables {
        if table.lacks_file {
            found.refuse(Refusal::IncompleteTable, table.span);
        }
        found.list.extend(unresolved::of_table(table));
    }
    found.list.extend(unresolved::of_loads(ruleset));
    found.list.extend(queues::undefined(ruleset));
    found.rules(&ruleset.main);
    os::diagnose(&mut found, ruleset);
    found.list.sort_by_key(|diagnostic| (diagnostic.span.file, diagnostic.span.start));
    // A rule is expanded to several, which are refused for the same.
    let mut seen = HashSet::new();
    found.list.retain(|diagnostic| seen.insert((diagnostic.span, diagnostic.message.clone())));
    found.list
}

#[derive(Default)]
struct Found {
    list: Vec<Diagnostic>,
    /// Names of typed tables, whose uses the compiler knows.
    typed: HashSet<Text>,
}

impl Found {
    /// Refuses something of a rule.
    fn refuse_of(&mut self, refusal: Refusal, rule: &Rule) {
        match refusal {
            Refusal::UnresolvedHost | Refusal::UnresolvedInterface => {
                self.list.extend(unresolved::of_rule(rule, refusal));
            }
            _ => self.refuse(refusal, rule.span),
        }
    }

    fn refuse(&mut self, refusal: Refusal, span: Span) {
        // What pf refuses, too, is not a matter of the data path.
        let message = match refusal {
            Refusal::IncompleteTable => "the file of this table cannot be read".to_owned(),
            Refusal::Os => "unknown os fingerprint: there are none".to_owned(),
            _ => format!("weir's data path has no `{}`", refusal.construct()),
        };
        let help = match refusal {
            Refusal::Os => {
                "put a file in the format of pf.os(5) at /etc/pf.os, or name one by `set \
                 fingerprints`"
            }
            Refusal::IncompleteTable => NOT_UNTIL_THERE,
            Refusal::Divert => {
                "OpenBSD's `divert-to 127.0.0.1 port N` hands connections to a socket"
            }
            _ => "take it out; docs/fw-rules.md lists what the data path does not support",
        };
        let diagnostic = Diagnostic::error(Code::CannotRun, span, message).label(refusal.reason());
        self.list.push(diagnostic.help(help));
    }

    fn warn(&mut self, span: Span, what: &str, why: &str) {
        let message = format!("`{what}` changes nothing here");
        self.list.push(Diagnostic::warning(Code::CannotRun, span, message).label(why));
    }

    fn prelude(&mut self, prelude: &Prelude) {
        match prelude {
            Prelude::Macro(..) | Prelude::Table(_) => {}
            Prelude::Set(setting, span) => self.setting(setting, *span),
            Prelude::Altq(statement) => self.altq(statement),
            Prelude::Queue(queue) => self.queue(queue),
            Prelude::Limiter(limiter) => {
                if limiter.rate.is_some_and(|rate| rate.seconds > LIMITER_RATE_MAX_S) {
                    self.refuse(Refusal::Limiter, limiter.name.span);
                }
            }
        }
    }

    fn altq(&mut self, altq: &AltqOn) {
        let interface = altq.altq.interfaces.first();
        let span = interface.map_or_else(Span::default, |interface| interface.name.span);
        if let Some(refusal) = queues::of_altq(altq) {
            self.refuse(refusal, span);
        }
    }

    fn queue(&mut self, queue: &Queue) {
        if let Some(refusal) = queues::of_queue(queue) {
            self.refuse(refusal, queue.name.span);
        }
    }

    fn setting(&mut self, setting: &Setting, span: Span) {
        match setting {
            Setting::Limit(..)
            | Setting::BlockPolicy(_)
            | Setting::Skip(_)
            | Setting::StatePolicyIfBound(_)
            | Setting::LogInterface(_)
            | Setting::HostId(_)
            | Setting::Optimization(_)
            | Setting::StateDefaults(_)
            | Setting::Syncookies(_)
            | Setting::FailPolicy(_)
            | Setting::KeepCounters
            | Setting::RulesetOptimization(_)
            | Setting::RequireOrder(_)
            | Setting::Reassemble { .. }
            | Setting::HashSize(_)
            | Setting::StateReserve(_)
            | Setting::WeirStages(_)
            | Setting::Fingerprints(_) => {}
            Setting::Timeout(index, _) => {
                let name = names::timeout_name(*index);
                if name == "tcp.tsdiff" || name.starts_with("sctp.") {
                    self.warn(span, name, "timestamps and SCTP are not followed");
                }
            }
            Setting::Debug(_) => self.warn(span, "set debug", "`weir fw run` has its own messages"),
        }
    }

    fn rules(&mut self, rules: &Rules) {
        for rule in &rules.ether {
            self.refuse(Refusal::Ether, rule.span);
        }
        for rule in &rules.scrub {
            self.scrub(rule);
        }
        for rule in [&rules.nat, &rules.rdr, &rules.binat].into_iter().flatten() {
            self.translating(rule);
        }
        for rule in &rules.filter {
            self.filter(rule);
        }
        let all = [&rules.nat, &rules.rdr, &rules.binat, &rules.filter].into_iter().flatten();
        let anchors = all.filter_map(|rule| rule.anchor.as_ref());
        for body in anchors.filter_map(|anchor| anchor.body.as_ref()) {
            translation::in_anchor(self, body);
            self.rules(body);
        }
    }

    /// A rule of FreeBSD's lists of translation.
    fn translating(&mut self, rule: &Rule) {
        let found = translation::refusals_of(rule).into_iter().chain(refusals_of_any(rule));
        for refusal in found {
            self.refuse_of(refusal, rule);
        }
        self.logged(rule);
        if translation::is_to_loopback(rule) {
            self.list.push(translation::loopback_warning(rule));
        }
    }

    /// A rule of FreeBSD's list `scrub`. Without options it puts fragments together, which are
    /// followed here.
    fn scrub(&mut self, rule: &Rule) {
        let options = &rule.options;
        let is_of_routes =
            |end: &Peer| matches!(end.address, Address::NoRoute | Address::UrpfFailed);
        let is_tagged = options.tag.is_some() || options.tagged.is_some();
        let asks_more = is_tagged || is_of_routes(&rule.from) || is_of_routes(&rule.to);
        for refusal in refusals_of_any(rule).chain(asks_more.then_some(Refusal::ScrubTag)) {
            self.refuse_of(refusal, rule);
        }
        if rule.log.is_some() {
            self.warn(rule.span, "scrub with log", "what `scrub` rules change is not logged");
        }
        if !options.labels.is_empty() {
            self.warn(rule.span, "scrub with label", "packets are not counted by `scrub` rules");
        }
        self.late_no_df(rule);
        self.half_reassembled(rule);
    }

    /// What a log of pf's would have that this one lacks.
    fn logged(&mut self, rule: &Rule) {
        if rule.options.ridentifier.is_some() {
            self.warn(rule.span, "ridentifier", "the log has the rule's number, and not this one");
        }
        if rule.log.is_some_and(|log| log.user) {
            self.warn(rule.span, "log (user)", "the log has no owners of sockets");
        }
        if rule.log.is_some_and(|log| log.interface != 0) {
            self.warn(rule.span, "log (to …)", "there is one log, which has packets of all rules");
        }
    }

    /// Of the three things that pf does by `reassemble tcp` one is done here.
    fn half_reassembled(&mut self, rule: &Rule) {
        if rule.options.scrub.is_some_and(|scrub| scrub.reassemble_tcp) {
            let message = "`reassemble tcp` changes timestamps, and no more";
            let warning = Diagnostic::warning(Code::CannotRun, rule.span, message.to_owned());
            let label = "TTLs may fall, and timestamps may run backwards";
            self.list.push(warning.label(label));
        }
    }

    /// `no-df` where packets leave comes after they were compared with the MTU there.
    fn late_no_df(&mut self, rule: &Rule) {
        let clears = rule.options.scrub.is_some_and(|scrub| scrub.no_df);
        if clears && rule.direction == Some(Direction::Out) {
            let message = "packets longer than the MTU where they leave keep `don't fragment`";
            let warning = Diagnostic::warning(Code::CannotRun, rule.span, message.to_owned());
            let help = "clear it where they come in: `in` instead of `out`";
            self.list.push(warning.label("`no-df` comes too late for them here").help(help));
        }
    }

    fn filter(&mut self, rule: &Rule) {
        let span = rule.span;
        for refusal in
            refusals_of(rule, &self.typed).into_iter().chain(translation::refusals_of(rule))
        {
            self.refuse_of(refusal, rule);
        }
        self.half_reassembled(rule);
        self.logged(rule);
        if translation::is_turned_round(rule) {
            self.refuse(Refusal::NatIn, span);
        }
        if translation::is_to_loopback(rule) {
            self.list.push(translation::loopback_warning(rule));
        }
        self.late_no_df(rule);
        if let Some(state) = &rule.options.state {
            for refusal in refusals_of_state(state) {
                self.refuse(refusal, span);
            }
        }
    }
}

/// What of a filter rule is refused, but for the options of its state.
fn refusals_of(rule: &Rule, typed: &HashSet<Text>) -> Vec<Refusal> {
    let of_routes = [route::refusal_of(rule, typed), route::refusal_of_divert(rule)];
    refusals_of_any(rule).chain(of_routes.into_iter().flatten()).collect()
}

/// What is refused of a rule of any list.
fn refusals_of_any(rule: &Rule) -> impl Iterator<Item = Refusal> {
    // Taken apart, so that what is new in the language is either here, or known to be done: a rule
    // is never run as if it asked for less.
    let Rule {
        rdomain,
        from,
        to,
        os: _,
        options,
        span: _,
        log: _,
        action: _,
        anchor: _,
        direction: _,
        quick: _,
        interface: _,
        af: _,
        protocol: _,
        received_on: _,
        user: _,
        group: _,
        icmp: _,
        nat: _,
        rdr: _,
        af_to: _,
        route: _,
    } = rule;
    let RuleOptions {
        set,
        rtable,
        limiters: _,
        flags: _,
        tos: _,
        prio: _,
        max_pkt_rate: _,
        keep_state: _,
        state: _,
        probability: _,
        fragment: _,
        scrub: _,
        allow_opts: _,
        labels: _,
        ridentifier: _,
        once: _,
        queue: _,
        dummynet: _,
        tag: _,
        tagged: _,
        divert: _,
    } = options;
    let SetFields { delay_ms, tos: _, prio: _ } = set;
    let found = [
        (Refusal::Rdomain, rdomain.is_some_and(|domain| domain != THE_RDOMAIN)),
        (Refusal::SetDelay, delay_ms.is_some()),
        (Refusal::RoutingTable, is_other_table(*rtable)),
    ];
    let by_options =
        found.into_iter().filter_map(|(refusal, is_there)| is_there.then_some(refusal));
    by_options.chain([from, to].into_iter().filter_map(refusal_of_end))
}

fn refusal_of_end(end: &Peer) -> Option<Refusal> {
    match end.address {
        Address::RouteLabel(_) => Some(Refusal::RouteLabel),
        Address::Unresolved(_) => refusal_of_unresolved(&end.address),
        Address::Any
        | Address::NoRoute
        | Address::UrpfFailed
        | Address::Network(..)
        | Address::Range(..)
        | Address::Table(_)
        | Address::Dynamic(_) => None,
    }
}

fn refusals_of_state(state: &StateOptions) -> Vec<Refusal> {
    // What `max` brings by itself is no wish of the file: see the differences in docs/fw-rules.md.
    let tenth = state.max_states.map_or(0, |max| max / 10);
    let is_supported = |(index, value): &(u8, u32)| match names::timeout_name(*index) {
        "adaptive.start" => tenth > 0 && *value == tenth.saturating_mul(6),
        "adaptive.end" => tenth > 0 && *value == tenth.saturating_mul(12),
        name => PROFILE_TIMEOUTS.contains(&name),
    };
    let found = [
        (Refusal::AllowRelated, state.allow_related),
        (Refusal::RuleTimeout, !state.timeouts.iter().all(is_supported)),
    ];
    found.into_iter().filter(|(_, is_there)| *is_there).map(|(refusal, _)| refusal).collect()
}
