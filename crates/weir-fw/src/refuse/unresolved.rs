//! What is not there, by its name: addresses of hosts and interfaces in rules and tables, and the
//! files of `load anchor`.
//!
//! pfctl refuses a file with any (`host` of pfctl_parser.c, `pfctl_load_anchors` of parse.y). This
//! looks nothing up, and reads no file.

use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::ir::{Address, Pool, Rule, Ruleset, Table};
use weir_rules::source::Span;

use super::{NOT_UNTIL_THERE, Refusal};

/// What has no address: a host, or an interface.
pub(super) fn refusal_of_unresolved(address: &Address) -> Option<Refusal> {
    match address {
        Address::Unresolved(name) => Some(refusal_of_name(name)),
        _ => None,
    }
}

/// Whether what has no address may be a host's name: `:0` is the only modifier of those.
fn refusal_of_name(name: &str) -> Refusal {
    let name = name.split('/').next().unwrap_or(name);
    if name.strip_suffix(":0").unwrap_or(name).contains(':') {
        Refusal::UnresolvedInterface
    } else {
        Refusal::UnresolvedHost
    }
}

/// The refusals of one kind, for each name of a rule that has no address.
pub(super) fn of_rule(rule: &Rule, kind: Refusal) -> Vec<Diagnostic> {
    let pools = [rule.nat.as_deref(), rule.rdr.as_deref()];
    let route = rule.route.as_ref().map(|route| &route.pool);
    let pools = pools.into_iter().chain([route]).flatten();
    let of_pool = |pool: &'_ Pool| -> Vec<Address> {
        pool.hosts.iter().filter_map(|host| host.address.clone()).collect()
    };
    let ends = [rule.from.address.clone(), rule.to.address.clone()];
    let addresses = ends.into_iter().chain(pools.flat_map(of_pool));
    let of_kind = addresses.filter(|address| refusal_of_unresolved(address) == Some(kind));
    let names = of_kind.filter_map(|address| match address {
        Address::Unresolved(name) => Some(name),
        _ => None,
    });
    names.map(|name| diagnostic(&name, rule.span)).collect()
}

/// The names of a table's lists and files that have no address.
pub(super) fn of_table(table: &Table) -> impl Iterator<Item = Diagnostic> {
    table.unresolved.iter().map(|(name, span)| diagnostic(name, *span))
}

/// The files of `load anchor` that cannot be read.
pub(super) fn of_loads(ruleset: &Ruleset) -> impl Iterator<Item = Diagnostic> {
    ruleset.loads.iter().filter_map(|load| {
        let message = format!("cannot read `{}`: {}", load.file, load.absence.as_ref()?);
        let error = Diagnostic::error(Code::FileMissing, load.span, message);
        Some(error.label("the anchor would be empty").help(NOT_UNTIL_THERE))
    })
}

/// An error that names what has no address.
fn diagnostic(name: &str, span: Span) -> Diagnostic {
    let refusal = refusal_of_name(name);
    let code = match refusal {
        Refusal::UnresolvedHost => Code::UnresolvedHost,
        _ => Code::CannotRun,
    };
    let message = format!("no address is known for `{name}`");
    Diagnostic::error(code, span, message).label(refusal.reason()).help(NOT_UNTIL_THERE)
}
