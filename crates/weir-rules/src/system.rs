//! What the pfctl of one system refuses, and this crate takes: for files that are to run there.
//!
//! The one list of these. It follows `rule_consistent`, `filteropts_to_rule`, `collapse_redirspec`,
//! `expand_queue` and the grammar of pfctl's parse.y, OpenBSD's where nothing else is said, and
//! pf.conf(5), "QUEUEING". What neither system has is not here (`convert::weir_words`), nor is what
//! every reader refuses. It looks nothing up.

use std::collections::HashSet;

use weir_wire::protocol::{SCTP, TCP, UDP};

use crate::Compiled;
use crate::ast::{
    self, Action, Bandwidth, Filter, Oddity, Queue, QueueRate, Statement, StatementKind,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::ir::{self, Prelude, Rules, Ruleset};
use crate::source::{SourceMap, Span, offset};
use crate::value::{Af, KeepState, QueueName, RouteKind, Text};

/// What is refused of a ruleset where it is to run, in order of place.
#[must_use]
pub fn refusals(compiled: &Compiled, system: Dialect) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    carriage_returns(&compiled.sources, &mut found);
    for (span, oddity) in &compiled.ast.oddities {
        found.extend(odd(*oddity, system).map(|(code, message)| error(code, *span, message)));
    }
    if system == Dialect::OpenBsd {
        statements(&compiled.ast.statements, &mut found);
        rules(&compiled.ruleset.main, &mut found);
        queues(&compiled.ruleset, &mut found);
    }
    found.sort_by_key(|one| (one.span.file, one.span.start));
    // A statement is expanded to several rules.
    let mut seen = HashSet::new();
    found.retain(|one| seen.insert((one.span, one.message.clone())));
    found
}

fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(code, span, message)
}

/// The first line of each file that ends in a carriage return: of both systems, it is a character
/// like another. In a comment it does no harm, and a line with `#` is not looked at.
fn carriage_returns(sources: &SourceMap, found: &mut Vec<Diagnostic>) {
    for (file, source) in sources.numbered() {
        let mut at = 0;
        for line in source.text.split_inclusive('\n') {
            let end = at + line.len();
            if line.ends_with("\r\n") && !line.contains('#') {
                let span = Span::new(file, offset(end - 2), offset(end - 1));
                let message = "pfctl takes no carriage return: the lines of this file end in CR LF";
                let help = "convert it, as with `tr -d '\\r'`";
                found.push(error(Code::Syntax, span, message).help(help));
                break;
            }
            at = end;
        }
    }
}

/// What the parser has passed over.
fn odd(oddity: Oddity, system: Dialect) -> Option<(Code, &'static str)> {
    let is_openbsd = system == Dialect::OpenBsd;
    match oddity {
        Oddity::Comma => Some((Code::Syntax, "a comma parts two items: here one is missing")),
        Oddity::LogTwice => Some((Code::Duplicate, "pfctl takes the word once")),
        Oddity::SetTwice => Some((Code::Duplicate, "the same of a packet is set twice")),
        Oddity::RouteFirst => is_openbsd
            .then_some((Code::Syntax, "OpenBSD has `route-to` and its like behind the addresses")),
    }
}

fn statements(list: &[Statement], found: &mut Vec<Diagnostic>) {
    for statement in list {
        match &statement.kind {
            StatementKind::Rule(rule) => {
                of_rule(rule, statement.span, found);
                of_route(&rule.filter, Some(rule.action.value), found);
            }
            StatementKind::Anchor(anchor) => {
                of_route(&anchor.filter, None, found);
                statements(anchor.body.as_deref().unwrap_or_default(), found);
            }
            _ => {}
        }
    }
}

fn of_rule(rule: &ast::Rule, span: Span, found: &mut Vec<Diagnostic>) {
    if rule.action.value != Action::Match {
        return;
    }
    let options = &rule.filter.options;
    let messages = [
        ("once", options.once, "`once` only applies to pass and block rules"),
        ("allow-opts", options.allow_opts, "`allow-opts` can only be specified for pass rules"),
    ];
    for (name, is_there, message) in messages {
        if is_there {
            let span = rule.filter.option_span(name).unwrap_or(span);
            found.push(error(Code::Inconsistent, span, message));
        }
    }
}

/// `route-to` and its like: since OpenBSD 6.9 they take addresses alone.
fn of_route(filter: &Filter, action: Option<Action>, found: &mut Vec<Diagnostic>) {
    let Some(route) = &filter.route else { return };
    let span = route.kind.span;
    let word = match route.kind.value {
        RouteKind::RouteTo => "route-to",
        RouteKind::ReplyTo => "reply-to",
        RouteKind::DupTo => "dup-to",
    };
    for host in &route.pool.hosts {
        if let Some(interface) = &host.interface {
            let message =
                format!("`{word}` takes the address of a next hop, and no interface, since 6.9");
            found.push(error(Code::Syntax, interface.span, message));
        }
    }
    if matches!(action, Some(Action::Block(_))) {
        let message = format!("`{word}` is not supported on block rules");
        found.push(error(Code::Inconsistent, span, message));
    } else if filter.options.keep_state == Some(KeepState::No) {
        let message = format!("`{word}` requires keep state");
        found.push(error(Code::Inconsistent, span, message));
    }
}

fn rules(rules: &Rules, found: &mut Vec<Diagnostic>) {
    for rule in &rules.filter {
        found.extend(of_protocol(rule).map(|why| error(Code::Inconsistent, rule.span, why)));
        let clears = rule.options.scrub.is_some_and(|scrub| scrub.no_df || scrub.random_id);
        if clears && rule.af == Some(Af::Inet6) {
            let message = "inet6 does not support the scrub options `no-df` and `random-id`";
            found.push(error(Code::Inconsistent, rule.span, message));
        }
        let body = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_deref());
        if let Some(body) = body {
            self::rules(body, found);
        }
    }
}

/// What goes with TCP and UDP alone.
fn of_protocol(rule: &ir::Rule) -> Option<&'static str> {
    let is_of_both = matches!(rule.protocol, Some(TCP | UDP));
    if is_of_both {
        None
    } else if rule.protocol == Some(SCTP) && (rule.from.port.is_some() || rule.to.port.is_some()) {
        Some("`port` only applies to tcp and udp: OpenBSD's pf does not know those of sctp")
    } else if rule.user.is_some() {
        Some("`user` only applies to tcp and udp: write `proto { tcp, udp }`")
    } else if rule.group.is_some() {
        Some("`group` only applies to tcp and udp: write `proto { tcp, udp }`")
    } else {
        None
    }
}

fn queues(ruleset: &Ruleset, found: &mut Vec<Diagnostic>) {
    let all: Vec<&Queue> = ruleset
        .prelude
        .iter()
        .filter_map(|prelude| match prelude {
            Prelude::Queue(queue) => Some(&**queue),
            _ => None,
        })
        .collect();
    let parents: HashSet<&Text> =
        all.iter().filter_map(|queue| queue.parent.as_ref()).map(|name| &name.value).collect();
    for queue in &all {
        let span = queue.name.span;
        let rates = [queue.bandwidth, queue.min, queue.max];
        if rates.into_iter().flatten().any(is_percent) {
            found.push(error(Code::BadValue, span, "no bandwidth in % yet"));
        }
        if queue.bandwidth.is_none() && queue.flow_count.is_none() {
            let message = "the queue has no `bandwidth` or `flows`";
            found.push(error(Code::BadValue, span, message));
        } else if queue.parent.is_none() && queue.bandwidth.is_some() && !has_default(queue, &all) {
            let message = format!("none of the queues of `{}` is the default", queue.name.value);
            let help = "packets that no rule assigns go by the one with `default`";
            found.push(error(Code::BadValue, span, message).help(help));
        }
    }
    assigned(&ruleset.main, &parents, found);
}

fn is_percent(rate: QueueRate) -> bool {
    let burst = rate.burst.map(|(burst, _)| burst);
    [Some(rate.rate), burst].into_iter().flatten().any(|one| matches!(one, Bandwidth::Percent(_)))
}

/// Whether a queue or one below it is the default. Each name is looked at once, also where one is
/// there twice, or below itself.
fn has_default(queue: &Queue, all: &[&Queue]) -> bool {
    let (mut open, mut seen) = (vec![queue], HashSet::from([&queue.name.value]));
    while let Some(above) = open.pop() {
        if above.is_default {
            return true;
        }
        let is_below = |other: &&&Queue| {
            other.parent.as_ref().is_some_and(|parent| parent.value == above.name.value)
        };
        for below in all.iter().filter(is_below) {
            if below.is_default {
                return true;
            }
            if seen.insert(&below.name.value) {
                open.push(below);
            }
        }
    }
    false
}

/// Packets are assigned to queues without others below them.
fn assigned(rules: &Rules, parents: &HashSet<&Text>, found: &mut Vec<Diagnostic>) {
    for rule in &rules.filter {
        let names = rule.options.queue.iter();
        let names = names.flat_map(|QueueName { name, priority }| [Some(name), priority.as_ref()]);
        for name in names.flatten().filter(|name| parents.contains(name)) {
            let message = format!("the queue `{name}` has others below it");
            let help = "packets are assigned to one of those";
            found.push(error(Code::Inconsistent, rule.span, message).help(help));
        }
        let body = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_deref());
        if let Some(body) = body {
            assigned(body, parents, found);
        }
    }
}
