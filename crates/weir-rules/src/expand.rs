//! From the syntax tree to rules without lists: names are looked up, lists multiplied, defaults
//! made explicit, and rules that contradict themselves refused.
//!
//! The order of the product is pfctl's: interface, protocol, ICMP type, source, destination,
//! source port, operating system, destination port, user, group.

mod address;
mod check;
mod ether;
mod label;
mod os;
mod pool;
mod product;
mod rule;
mod settings;
mod state;
mod table;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{self, Ast, Statement, StatementKind};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::dialect::Dialect;
use crate::fingerprint::Known;
use crate::ir::{LoadAnchor, Prelude, Rules, Ruleset};
use crate::limits::Limits;
use crate::resolve::Resolver;
use crate::source::{SourceMap, SourceProvider, Span};
use crate::value::{KeepState, LimiterKind, Setting, StateOptions, Text};

pub use address::interface_addresses;

/// What expansion needs besides the tree.
pub struct ExpandInput<'a> {
    /// What is known of the machine.
    pub resolver: &'a dyn Resolver,
    /// Where table files come from.
    pub provider: &'a dyn SourceProvider,
    pub limits: Limits,
    /// What `os` is looked up in.
    pub fingerprints: Known,
}

/// Expands a tree. What is wrong goes to `diagnostics`; the ruleset holds what is right.
pub fn expand(
    ast: &Ast,
    input: &ExpandInput<'_>,
    sources: &SourceMap,
    diagnostics: &mut Diagnostics,
) -> Ruleset {
    let mut expander = Expander {
        dialect: ast.dialect,
        resolver: input.resolver,
        provider: input.provider,
        limits: input.limits,
        sources,
        diagnostics,
        ruleset: Ruleset { dialect: ast.dialect, macros: ast.macros.clone(), ..Ruleset::default() },
        rule_count: 0,
        entry_count: 0,
        state_defaults: None,
        has_state_defaults: sets(ast, |setting| matches!(setting, Setting::StateDefaults(_))),
        has_if_bound: sets(ast, |setting| *setting == Setting::StatePolicyIfBound(true)),
        limiters: BTreeMap::new(),
        unknown: BTreeSet::new(),
        anchor_path: Vec::new(),
        fingerprints: &input.fingerprints,
        first_os: None,
        reserve: state::Reserve::default(),
    };
    expander.ruleset.settings.reassemble = ast.dialect == Dialect::OpenBsd;
    expander.ruleset.main = expander.statements(&ast.statements);
    expander.check_reserve();
    input.fingerprints.report(expander.first_os, expander.diagnostics);
    expander.ruleset.fingerprints.clone_from(&input.fingerprints.found);
    expander.ruleset
}

/// The state of an expansion.
struct Expander<'a> {
    dialect: Dialect,
    resolver: &'a dyn Resolver,
    provider: &'a dyn SourceProvider,
    limits: Limits,
    sources: &'a SourceMap,
    diagnostics: &'a mut Diagnostics,
    ruleset: Ruleset,
    rule_count: usize,
    entry_count: usize,
    state_defaults: Option<StateOptions>,
    /// Whether the defaults are set somewhere. Settings are printed in front of all rules, so that
    /// rules in front of them say what they have.
    has_state_defaults: bool,
    /// Whether `set state-policy if-bound` stands somewhere.
    has_if_bound: bool,
    /// Identifiers of limiters by name.
    limiters: BTreeMap<(LimiterKind, Text), u32>,
    /// Names that have been reported as unknown, once each.
    unknown: BTreeSet<Text>,
    /// Names of the anchors around the present statement.
    anchor_path: Vec<Text>,
    fingerprints: &'a Known,
    /// Where the first `os` stands.
    first_os: Option<Span>,
    reserve: state::Reserve,
}

/// What was wrong has been reported.
#[derive(Debug, Clone, Copy)]
struct Reported;

type Expanded<T> = Result<T, Reported>;

impl Expander<'_> {
    fn statements(&mut self, statements: &[Statement]) -> Rules {
        let mut rules = Rules::default();
        for statement in statements {
            // What is wrong with a statement has been reported; the others are expanded still.
            let _ = self.statement(statement, &mut rules);
        }
        rules
    }

    fn statement(&mut self, statement: &Statement, rules: &mut Rules) -> Expanded<()> {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Macro(at) => {
                let definition = &self.ruleset.macros[*at];
                let prelude =
                    Prelude::Macro(definition.name.value.clone(), definition.value.value.clone());
                self.ruleset.prelude.push(prelude);
            }
            StatementKind::Include(_) => {}
            StatementKind::Set(settings) => {
                self.refuse_in_anchor("set", span)?;
                for setting in settings {
                    self.setting(setting, span)?;
                }
            }
            StatementKind::Table(table) => self.table(table, span),
            StatementKind::Rule(rule) => self.rule(rule, span, rules)?,
            StatementKind::Antispoof(antispoof) => self.antispoof(antispoof, span, rules)?,
            StatementKind::Anchor(anchor) => self.anchor(anchor, span, rules)?,
            StatementKind::LoadAnchor { name, file } => {
                self.refuse_in_anchor("load anchor", span)?;
                self.load_anchor(name.value.clone(), file, span);
            }
            StatementKind::Ether(rule) => self.ether_rule(rule, span, rules)?,
            StatementKind::Altq(altq) => {
                self.refuse_in_anchor("altq", span)?;
                self.altq(altq, span)?;
            }
            StatementKind::Queue(queue) => {
                self.refuse_in_anchor("queue", span)?;
                self.ruleset.prelude.push(Prelude::Queue(queue.clone()));
            }
            StatementKind::Limiter(limiter) => {
                let name = limiter.name.value.clone();
                let mut others =
                    self.limiters.iter().filter(|((kind, _), _)| *kind == limiter.kind);
                if others.any(|((_, other), id)| *other == name || *id == limiter.id) {
                    let id = limiter.id;
                    let message = format!("limiter `{name}` is defined twice, or its id {id}");
                    return self.fail(Code::Duplicate, limiter.name.span, &message);
                }
                self.limiters.insert((limiter.kind, name), limiter.id);
                self.ruleset.prelude.push(Prelude::Limiter(limiter.clone()));
            }
        }
        Ok(())
    }

    fn load_anchor(&mut self, name: Text, file: &crate::value::Spanned<Text>, span: Span) {
        let from = self.sources.file(span.file).map_or("", |file| &file.name);
        let absence = self.provider.read(&file.value, from).err();
        if let Some(cause) = &absence {
            let message = format!("cannot read `{}`: {cause}", file.value);
            let problem = Diagnostic::warning(Code::FileMissing, file.span, message);
            self.diagnostics.push(problem.help("the anchor stays empty until it can be read"));
        }
        self.ruleset.loads.push(LoadAnchor { name, file: file.value.clone(), span, absence });
    }

    fn refuse_in_anchor(&mut self, what: &str, span: Span) -> Expanded<()> {
        if self.anchor_path.is_empty() {
            return Ok(());
        }
        let message = format!("`{what}` cannot be within an anchor");
        self.fail(Code::Inconsistent, span, &message)
    }

    fn fail<T>(&mut self, code: Code, span: Span, message: &str) -> Expanded<T> {
        self.diagnostics.push(Diagnostic::error(code, span, message));
        Err(Reported)
    }

    /// A warning for what is understood, but cannot run here.
    fn cannot_run(&mut self, span: Span, what: &str) {
        let message = format!("{what} is understood, but weir does not run it");
        let problem = Diagnostic::warning(Code::CannotRun, span, message);
        self.diagnostics.push(problem.help("`weir fw run` refuses a ruleset with it"));
    }

    /// The interfaces of an `on`; those that are not there are named once each.
    fn interfaces(&mut self, list: &[ast::Interface]) -> Vec<Option<crate::ir::Interface>> {
        for interface in list {
            self.interface_known(&interface.name.value, interface.name.span);
        }
        let interfaces = list.iter().map(|interface| {
            Some(crate::ir::Interface { not: interface.not, name: interface.name.value.clone() })
        });
        if list.is_empty() { vec![None] } else { interfaces.collect() }
    }

    fn interface_known(&mut self, name: &Text, span: Span) {
        let exists = &**name == "any" || crate::resolve::interface_exists(self.resolver, name);
        if exists || !self.unknown.insert(format!("interface {name}").into()) {
            return;
        }
        let message = format!("there is no interface or group `{name}` here");
        let names = self.resolver.interfaces().iter().map(|interface| interface.name.as_str());
        let problem = Diagnostic::warning(Code::UnknownInterface, span, message);
        self.diagnostics.push(problem.nearest(name, names));
    }
}

/// Whether the file sets something.
fn sets(ast: &Ast, is_it: fn(&Setting) -> bool) -> bool {
    ast.statements.iter().any(|statement| match &statement.kind {
        StatementKind::Set(settings) => settings.iter().any(is_it),
        _ => false,
    })
}

/// Whether a rule of this keeps state.
fn keeps(state: Option<KeepState>) -> bool {
    matches!(state, Some(KeepState::Keep | KeepState::Modulate | KeepState::Synproxy))
}
