//! A rule's line. The order of its words is pfctl's, which differs a little by dialect.

use std::fmt::Write as _;

use super::address::{PoolForm, comparison, from_to, pool};
use super::{Printer, anchor_words, bare, quoted};
use crate::dialect::Dialect;
use crate::ir::{Action, Interface, Route, Rule};
use crate::names;
use crate::value::{
    Af, BlockReturn, Comparison, Direction, Divert, Flush, KeepState, LimiterAction, LimiterKind,
    LimiterName, Log, RouteKind, RuleOptions, Scrub, SourceTrack, StateOptions, TCP_FLAG_LETTERS,
    TcpFlags,
};

pub(super) fn print(out: &mut String, printer: &Printer<'_>, rule: &Rule) {
    action(out, rule);
    direction(out, rule.direction);
    if let Some(log) = &rule.log {
        print_log(out, log);
    }
    if rule.quick {
        out.push_str(" quick");
    }
    if let Some(interface) = &rule.interface {
        on(out, " on", interface);
    }
    if let Some((not, rdomain)) = rule.rdomain {
        let _ = write!(out, " on {}rdomain {rdomain}", if not { "! " } else { "" });
    }
    if printer.dialect == Dialect::FreeBsd {
        route(out, printer, rule);
    }
    if let Some(af) = rule.af {
        let _ = write!(out, " {}", af.as_str());
    }
    if let Some(protocol) = rule.protocol {
        match printer.resolver.protocol_name(protocol) {
            Some(name) => {
                let _ = write!(out, " proto {}", bare(&name));
            }
            None => {
                let _ = write!(out, " proto {protocol}");
            }
        }
    }
    from_to(out, printer, rule);
    matching(out, rule);
    match printer.dialect {
        Dialect::FreeBsd => freebsd_options(out, rule),
        Dialect::OpenBsd => openbsd_options(out, rule),
    }
    translation(out, printer, rule);
    if printer.dialect == Dialect::OpenBsd {
        route(out, printer, rule);
    }
}

fn action(out: &mut String, rule: &Rule) {
    if let Some(anchor) = &rule.anchor {
        out.push_str(&anchor_words(anchor));
        return;
    }
    match rule.action {
        Action::Pass => out.push_str("pass"),
        Action::Match => out.push_str("match"),
        Action::Scrub => out.push_str("scrub"),
        Action::NoScrub => out.push_str("no scrub"),
        Action::Translate { kind, no, pass } => {
            out.push_str(if no { "no " } else { "" });
            out.push_str(kind.as_str());
            out.push_str(if pass { " pass" } else { "" });
        }
        Action::Block(policy) => {
            out.push_str("block ");
            block_return(out, policy, rule.af);
        }
    }
}

fn block_return(out: &mut String, policy: BlockReturn, af: Option<Af>) {
    match policy {
        BlockReturn::Drop => out.push_str("drop"),
        BlockReturn::Return => out.push_str("return"),
        BlockReturn::Rst { ttl: 0 } => out.push_str("return-rst"),
        BlockReturn::Rst { ttl } => {
            let _ = write!(out, "return-rst(ttl {ttl})");
        }
        BlockReturn::Icmp { code, code6 } => {
            let name = |kind: u8, code: u8, is_icmp6: bool| {
                let name = names::icmp_code_name(kind, code, is_icmp6);
                name.map_or_else(|| code.to_string(), ToOwned::to_owned)
            };
            let (v4, v6) = (name(3, code, false), name(1, code6, true));
            let _ = match af {
                Some(Af::Inet) => write!(out, "return-icmp({v4})"),
                Some(Af::Inet6) => write!(out, "return-icmp6({v6})"),
                None => write!(out, "return-icmp({v4}, {v6})"),
            };
        }
    }
}

pub(super) fn direction(out: &mut String, direction: Option<Direction>) {
    match direction {
        None => {}
        Some(Direction::In) => out.push_str(" in"),
        Some(Direction::Out) => out.push_str(" out"),
    }
}

pub(super) fn on(out: &mut String, word: &str, interface: &Interface) {
    let not = if interface.not { "! " } else { "" };
    let name = if &*interface.name == "any" { "any".to_owned() } else { bare(&interface.name) };
    let _ = write!(out, "{word} {not}{name}");
}

fn print_log(out: &mut String, log: &Log) {
    let Log { all, matches, user, interface } = *log;
    out.push_str(" log");
    let mut words = Vec::new();
    for (is_set, word) in [(all, "all"), (matches, "matches"), (user, "user")] {
        if is_set {
            words.push(word.to_owned());
        }
    }
    if interface != 0 {
        words.push(format!("to pflog{interface}"));
    }
    if !words.is_empty() {
        let _ = write!(out, " ({})", words.join(", "));
    }
}

fn route(out: &mut String, printer: &Printer<'_>, rule: &Rule) {
    let Some(Route { kind, pool: target }) = rule.route.as_deref() else { return };
    out.push_str(match kind {
        RouteKind::RouteTo => " route-to ",
        RouteKind::ReplyTo => " reply-to ",
        RouteKind::DupTo => " dup-to ",
    });
    pool(out, printer, target, rule.af_to.or(rule.af), PoolForm::Route);
}

/// Users, flags, ICMP, TOS and priority: what both dialects print the same way.
fn matching(out: &mut String, rule: &Rule) {
    let options = &rule.options;
    if let Some(interface) = &rule.received_on {
        on(
            out,
            if interface.not { " ! received-on" } else { " received-on" },
            &Interface { not: false, name: interface.name.clone() },
        );
    }
    identity(out, " user", rule.user);
    identity(out, " group", rule.group);
    match options.flags {
        None => {}
        Some(TcpFlags { set: 0, mask: 0 }) => {
            out.push_str(if options.fragment { "" } else { " flags any" });
        }
        Some(flags) => {
            out.push_str(" flags ");
            letters(out, flags.set);
            out.push('/');
            letters(out, flags.mask);
        }
    }
    if let Some(icmp) = rule.icmp {
        let is_icmp6 = rule.af == Some(Af::Inet6);
        out.push_str(if is_icmp6 { " icmp6-type " } else { " icmp-type " });
        match names::icmp_type_name(icmp.kind, is_icmp6) {
            Some(name) => out.push_str(name),
            None => out.push_str(&icmp.kind.to_string()),
        }
        if let Some(code) = icmp.code {
            out.push_str(" code ");
            match names::icmp_code_name(icmp.kind, code, is_icmp6) {
                Some(name) => out.push_str(name),
                None => out.push_str(&code.to_string()),
            }
        }
    }
    if let Some(tos) = options.tos {
        let _ = write!(out, " tos 0x{tos:02x}");
    }
    if let Some(prio) = options.prio {
        let _ = write!(out, " prio {prio}");
    }
    if let Some(rate) = options.max_pkt_rate {
        let _ = write!(out, " max-pkt-rate {}/{}", rate.limit, rate.seconds);
    }
}

fn identity(out: &mut String, word: &str, asked: Option<Comparison<u32>>) {
    let Some(asked) = asked else { return };
    out.push_str(word);
    let text = |number: u32| match number {
        u32::MAX => "unknown".to_owned(),
        number => number.to_string(),
    };
    comparison(out, asked.operator, &text(asked.first), &text(asked.second));
}

fn letters(out: &mut String, flags: u8) {
    let set = TCP_FLAG_LETTERS.chars().enumerate().filter(|(bit, _)| flags & (1 << bit) != 0);
    out.extend(set.map(|(_, letter)| letter));
}

fn freebsd_options(out: &mut String, rule: &Rule) {
    let options = &rule.options;
    let set = options.set;
    let is_scrub = matches!(rule.action, Action::Scrub | Action::NoScrub);
    let mut fields = Vec::new();
    prio(&mut fields, options);
    if let Some(tos) = set.tos.filter(|_| !is_scrub) {
        fields.push(format!("tos 0x{tos:02x}"));
    }
    if let Some(delay) = set.delay_ms {
        fields.push(format!("delay {delay}"));
    }
    if !fields.is_empty() {
        let _ = write!(out, " set ( {} )", fields.join(", "));
    }
    state(out, rule, true);
    limiters(out, options);
    if options.fragment {
        out.push_str(" fragment");
    }
    if is_scrub {
        old_scrub(out, rule);
    } else {
        scrub(out, options.scrub);
    }
    if options.allow_opts {
        out.push_str(" allow-opts");
    }
    if rule.action == Action::Scrub {
        let scrub = options.scrub.unwrap_or_default();
        out.push_str(if scrub.reassemble_tcp { " reassemble tcp" } else { "" });
        out.push_str(if scrub.no_reassemble {
            " fragment no reassemble"
        } else {
            " fragment reassemble"
        });
    }
    labels(out, options);
    if let Some(id) = options.ridentifier {
        let _ = write!(out, " ridentifier {id}");
    }
    if options.once {
        out.push_str(" once");
    }
    queue_and_dummynet(out, options);
    tags(out, options);
    match options.divert {
        None => {}
        Some(Divert::To(None, port)) => {
            let _ = write!(out, " divert-to {port}");
        }
        Some(target) => divert(out, target),
    }
}

pub(super) fn queue_and_dummynet(out: &mut String, options: &RuleOptions) {
    if let Some(queue) = &options.queue {
        let _ = match &queue.priority {
            Some(second) => write!(out, " queue({}, {})", bare(&queue.name), bare(second)),
            None => write!(out, " queue {}", bare(&queue.name)),
        };
    }
    if let Some(dummynet) = options.dummynet {
        let word = if dummynet.is_pipe { "dnpipe" } else { "dnqueue" };
        let _ = match dummynet.reverse {
            0 => write!(out, " {word} {}", dummynet.forward),
            reverse => write!(out, " {word}({}, {reverse})", dummynet.forward),
        };
    }
}

fn openbsd_options(out: &mut String, rule: &Rule) {
    let options = &rule.options;
    let mut fields = Vec::new();
    prio(&mut fields, options);
    if let Some(queue) = &options.queue {
        fields.push(match &queue.priority {
            Some(second) => format!("queue({}, {})", bare(&queue.name), bare(second)),
            None => format!("queue {}", bare(&queue.name)),
        });
    }
    if let Some(tos) = options.set.tos {
        fields.push(format!("tos 0x{tos:02x}"));
    }
    if let Some(delay) = options.set.delay_ms {
        fields.push(format!("delay {delay}"));
    }
    if !fields.is_empty() {
        let _ = write!(out, " set ({})", fields.join(", "));
    }
    state(out, rule, false);
    limiters(out, options);
    if options.fragment {
        out.push_str(" fragment");
    }
    scrub(out, options.scrub);
    if options.allow_opts {
        out.push_str(" allow-opts");
    }
    labels(out, options);
    if options.once {
        out.push_str(" once");
    }
    tags(out, options);
    if let Some(target) = options.divert {
        divert(out, target);
    }
}

fn prio(fields: &mut Vec<String>, options: &RuleOptions) {
    match options.set.prio {
        None => {}
        Some((first, second)) if first == second => fields.push(format!("prio {first}")),
        Some((first, second)) => fields.push(format!("prio({first}, {second})")),
    }
}

pub(super) fn labels(out: &mut String, options: &RuleOptions) {
    for label in &options.labels {
        let _ = write!(out, " label {}", quoted(label));
    }
}

pub(super) fn tags(out: &mut String, options: &RuleOptions) {
    if let Some(tag) = &options.tag {
        let _ = write!(out, " tag {}", bare(tag));
    }
    if let Some((not, tag)) = &options.tagged {
        let _ = write!(out, " {}tagged {}", if *not { "! " } else { "" }, bare(tag));
    }
    if let Some(rtable) = options.rtable {
        let _ = write!(out, " rtable {rtable}");
    }
}

fn divert(out: &mut String, divert: Divert) {
    let _ = match divert {
        Divert::Reply => write!(out, " divert-reply"),
        Divert::Packet(port) => write!(out, " divert-packet port {port}"),
        Divert::To(Some(address), port) => {
            write!(out, " divert-to {} port {port}", super::ip(address))
        }
        Divert::To(None, port) => write!(out, " divert-to port {port}"),
    };
}

/// State, probability, and the options of the state. OpenBSD leaves `keep state` out where it has
/// no options.
fn state(out: &mut String, rule: &Rule, is_always: bool) {
    let options = &rule.options;
    match options.keep_state {
        None => {}
        Some(KeepState::Keep) if !is_always && options.state.is_none() => {}
        Some(keep) => {
            let _ = write!(out, " {}", keep.as_str());
        }
    }
    if let Some(probability) = options.probability {
        let percent = f64::from(probability) * 100.0 / (f64::from(u32::MAX) + 1.0);
        let text = format!("{percent:.6}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let _ = write!(out, " probability {text}%");
    }
    let words = options.state.as_ref().map(|state| state_options(state)).unwrap_or_default();
    if !words.is_empty() {
        let _ = write!(out, " ({})", words.join(", "));
    }
}

pub(super) fn state_options(state: &StateOptions) -> Vec<String> {
    let StateOptions {
        max_states,
        no_sync,
        source_track,
        max_src_states,
        max_src_conn,
        max_src_conn_rate,
        max_src_nodes,
        overload,
        if_bound,
        sloppy,
        reserve,
        pflow,
        allow_related,
        timeouts,
    } = state;
    let mut words = Vec::new();
    let count = |word: &str, text: Option<u32>, words: &mut Vec<String>| {
        words.extend(text.map(|count| format!("{word} {count}")));
    };
    count("max", *max_states, &mut words);
    let flag = |is_set: bool, word: &str, words: &mut Vec<String>| {
        words.extend(is_set.then(|| word.to_owned()));
    };
    flag(*no_sync, "no-sync", &mut words);
    words.extend(source_track.map(|source_track| match source_track {
        SourceTrack::Rule => "source-track rule".to_owned(),
        SourceTrack::Global => "source-track global".to_owned(),
        SourceTrack::Default => "source-track".to_owned(),
    }));
    count("max-src-states", *max_src_states, &mut words);
    count("max-src-conn", *max_src_conn, &mut words);
    words.extend(max_src_conn_rate.map(|max_src_conn_rate| {
        format!("max-src-conn-rate {}/{}", max_src_conn_rate.limit, max_src_conn_rate.seconds)
    }));
    count("max-src-nodes", *max_src_nodes, &mut words);
    words.extend(overload.as_ref().map(|(table, flush)| {
        let flush = match flush {
            Flush::No => "",
            Flush::Rule => " flush",
            Flush::Global => " flush global",
        };
        format!("overload <{}>{flush}", bare(table))
    }));
    words
        .extend(if_bound.map(|if_bound| if if_bound { "if-bound" } else { "floating" }.to_owned()));
    flag(*sloppy, "sloppy", &mut words);
    flag(*reserve, "reserve", &mut words);
    flag(*pflow, "pflow", &mut words);
    flag(*allow_related, "allow-related", &mut words);
    // In the order of pf's own numbers, where these came last.
    let is_late = |number: u8| {
        let name = names::timeout_name(number);
        name == "tcp.tsdiff" || name.starts_with("sctp.")
    };
    let mut timeouts = timeouts.clone();
    timeouts.sort_by_key(|(timeout, _)| (is_late(*timeout), *timeout));
    let timeouts = timeouts.iter();
    words.extend(
        timeouts.map(|(timeout, value)| format!("{} {value}", names::timeout_name(*timeout))),
    );
    words
}

fn limiters(out: &mut String, options: &RuleOptions) {
    for limiter in &options.limiters {
        out.push_str(match limiter.kind {
            LimiterKind::State => " state limiter ",
            LimiterKind::Source => " source limiter ",
        });
        match &limiter.limiter {
            LimiterName::Id(id) => {
                let _ = write!(out, "id {id}");
            }
            LimiterName::Name(name) => out.push_str(&bare(name)),
        }
        out.push_str(match limiter.action {
            None => "",
            Some(LimiterAction::NoMatch) => " (no-match)",
            Some(LimiterAction::Block) => " (block)",
        });
    }
}

/// ` no-df …` of the old `scrub` rule.
fn old_scrub(out: &mut String, rule: &Rule) {
    let scrub = rule.options.scrub.unwrap_or_default();
    out.push_str(if scrub.no_df { " no-df" } else { "" });
    out.push_str(if scrub.random_id { " random-id" } else { "" });
    if scrub.min_ttl > 0 {
        let _ = write!(out, " min-ttl {}", scrub.min_ttl);
    }
    if scrub.max_mss > 0 {
        let _ = write!(out, " max-mss {}", scrub.max_mss);
    }
    if let Some(tos) = rule.options.set.tos {
        let _ = write!(out, " set-tos 0x{tos:02x}");
    }
}

/// ` scrub (no-df …)`
fn scrub(out: &mut String, scrub: Option<Scrub>) {
    let Some(scrub) = scrub else { return };
    let Scrub { no_df, random_id, min_ttl, max_mss, reassemble_tcp, no_reassemble: _ } = scrub;
    let mut words = Vec::new();
    words.extend(no_df.then(|| "no-df".to_owned()));
    words.extend(random_id.then(|| "random-id".to_owned()));
    words.extend((min_ttl > 0).then(|| format!("min-ttl {min_ttl}")));
    words.extend(reassemble_tcp.then(|| "reassemble tcp".to_owned()));
    words.extend((max_mss > 0).then(|| format!("max-mss {max_mss}")));
    let _ = write!(out, " scrub ({})", words.join(" "));
}

fn translation(out: &mut String, printer: &Printer<'_>, rule: &Rule) {
    let translated = rule.af_to.or(rule.af);
    let is_old = matches!(rule.action, Action::Translate { .. });
    if let Some(af) = rule.af_to {
        let _ = write!(out, " af-to {} from ", af.as_str());
    }
    if let Some(nat) = &rule.nat {
        out.push_str(match (is_old, rule.af_to) {
            (true, _) => " -> ",
            (false, Some(_)) => "",
            (false, None) => " nat-to ",
        });
        pool(out, printer, nat, translated, PoolForm::Nat);
    }
    if let Some(rdr) = &rule.rdr {
        out.push_str(match (is_old, rule.af_to) {
            (true, _) => " -> ",
            (false, Some(_)) => " to ",
            (false, None) => " rdr-to ",
        });
        pool(out, printer, rdr, translated, PoolForm::Rdr);
    }
}
