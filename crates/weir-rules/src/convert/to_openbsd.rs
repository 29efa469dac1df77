//! FreeBSD's `nat`, `rdr`, `binat` and `scrub` as OpenBSD's `match` and `pass`.

use super::{Work, within_anchors};
use crate::ast::{Action, AnchorKind, Rule, Statement, StatementKind, Translation};
use crate::source::Span;
use crate::value::{Scrub, Setting};

/// The order that FreeBSD evaluates statements in, which has to be that of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Scrub,
    Translation,
    Filter,
}

fn stage(statement: &Statement) -> Option<Stage> {
    match &statement.kind {
        StatementKind::Rule(rule) => Some(match rule.action.value {
            Action::Scrub { .. } => Stage::Scrub,
            Action::Translate { .. } => Stage::Translation,
            Action::Pass | Action::Block(_) | Action::Match => Stage::Filter,
        }),
        StatementKind::Anchor(anchor) if anchor.kind == AnchorKind::Filter => Some(Stage::Filter),
        StatementKind::Antispoof(_) => Some(Stage::Filter),
        _ => None,
    }
}

pub(super) fn statements(work: &mut Work<'_>) {
    let mut reached: Option<(Stage, Span)> = None;
    let mut translations: Vec<(&Rule, Span)> = Vec::new();
    for statement in work.statements() {
        let current = stage(statement);
        match (current, reached) {
            (Some(current), Some((before, _))) if current < before && changes(statement) => {
                let message = "FreeBSD evaluates this before the rules above it, and OpenBSD \
                               after them";
                work.refuse(statement.span, message, "put scrub first, then nat, rdr and binat");
                continue;
            }
            (Some(current), _) => reached = Some((current, statement.span)),
            _ => {}
        }
        if let StatementKind::Rule(rule) = &statement.kind {
            super::route::to_openbsd(work, rule, statement.span);
        }
        match &statement.kind {
            StatementKind::Rule(rule) => self::rule(work, rule, statement.span, &mut translations),
            StatementKind::Anchor(anchor) => {
                if let AnchorKind::Translate(kind) = anchor.kind {
                    let message = format!("OpenBSD has no `{}-anchor`", kind.as_str());
                    let help = "an `anchor` there holds translation too: put one here instead";
                    work.refuse(statement.span, message, help);
                }
            }
            _ => {}
        }
    }
    for inner in within_anchors(work.statements(), &changes) {
        let message = "translation and scrub within an anchor are not converted";
        work.refuse(inner.span, message, "write the anchor's rules by hand");
    }
    for inner in within_anchors(work.statements(), &super::route::is_route) {
        if let StatementKind::Rule(rule) = &inner.kind {
            super::route::to_openbsd(work, rule, inner.span);
        }
    }
    fragments(work);
}

fn changes(statement: &Statement) -> bool {
    matches!(stage(statement), Some(Stage::Scrub | Stage::Translation))
}

fn rule<'a>(work: &mut Work<'_>, rule: &'a Rule, span: Span, before: &mut Vec<(&'a Rule, Span)>) {
    let is_no = match rule.action.value {
        Action::Scrub { no } => no,
        Action::Translate { no, .. } => no,
        Action::Pass | Action::Block(_) | Action::Match => return,
    };
    if !work.is_here(span) {
        return;
    }
    let word = work.text(rule.action.span.start, rule.action.span.end);
    if is_no {
        let message = format!("`{word}` makes an exception, which OpenBSD's `match` does not have");
        let help = "leave the exception out of the rules that follow, such as `from ! <table>`";
        return work.refuse(span, message, help);
    }
    // Of one kind the first that matches holds; `match` would take the next one too.
    let kind = |rule: &Rule| std::mem::discriminant(&rule.action.value);
    let same = |other: &Rule| match (&rule.action.value, &other.action.value) {
        (Action::Translate { kind: a, .. }, Action::Translate { kind: b, .. }) => {
            a == b || *a == Translation::Binat || *b == Translation::Binat
        }
        _ => kind(rule) == kind(other),
    };
    let earlier = before.iter().find(|(other, at)| same(other) && work.overlap(*at, span));
    if let Some((_, earlier)) = earlier.copied() {
        let message = format!(
            "a packet may match this and the `{word}` of line {}; FreeBSD takes the first, and \
             OpenBSD both",
            work.compiled.sources.start(earlier).line
        );
        let help = "make the rules exclude each other by interface, protocol, address or port";
        return work.refuse(span, message, help);
    }
    before.push((rule, span));
    match rule.action.value {
        Action::Translate { kind, pass, .. } => translation(work, rule, kind, pass, span),
        _ => scrub(work, rule, span),
    }
}

fn translation(work: &mut Work<'_>, rule: &Rule, kind: Translation, pass: bool, span: Span) {
    let Some(target) = &rule.target else { return };
    let action = rule.action.span;
    let between = work.text(action.end, target.span.start);
    let Some(arrow) = between.rfind("->") else {
        let message = "the `->` of this rule comes from a macro";
        return work.refuse(span, message, "write it in the rule");
    };
    let head_end = if pass {
        // The action's span ends before `pass`.
        let skipped = between.len() - between.trim_start().len();
        action.end + crate::source::offset(skipped + "pass".len())
    } else {
        action.end
    };
    if pass && !work.text(action.end, head_end).ends_with("pass") {
        let message = "the `pass` of this rule comes from a macro";
        return work.refuse(span, message, "write it in the rule");
    }
    let verb = match (kind, pass) {
        (Translation::Nat, false) => "match out",
        (Translation::Rdr, false) => "match in",
        (Translation::Binat, false) => "match",
        (Translation::Nat, true) => "pass out quick",
        (Translation::Rdr, true) => "pass in quick",
        (Translation::Binat, true) => {
            let message = "`binat pass` lets both directions pass, which no rule of OpenBSD does";
            return work.refuse(span, message, "write `binat`, and `pass` rules for both");
        }
    };
    // `quick` stands behind `log`.
    let log = work.text(head_end, span.end).trim_start().starts_with("log");
    if pass && log {
        let message = "`pass log` in a translation rule is not converted";
        return work.refuse(span, message, "leave `log` out, and write it in the result");
    }
    work.edit(Span { end: head_end, ..action }, verb);
    let at = action.end + crate::source::offset(arrow);
    work.edit(Span { start: at, end: at + 2, ..span }, format!("{}-to", kind.as_str()));
    if pass {
        // FreeBSD makes a state of any packet here, not of a SYN alone.
        work.edit(Span { start: span.end, end: span.end, ..span }, " flags any");
    }
}

fn scrub(work: &mut Work<'_>, rule: &Rule, span: Span) {
    let options = &rule.filter.options;
    let scrub = options.scrub.unwrap_or_default();
    let Scrub { no_df, random_id, min_ttl, max_mss, reassemble_tcp, no_reassemble } = scrub;
    if no_reassemble {
        let message = "OpenBSD reassembles all fragments or none";
        return work.refuse(span, message, "write `set reassemble no` there");
    }
    let mut words = Vec::new();
    if no_df {
        words.push("no-df".to_owned());
    }
    if random_id {
        words.push("random-id".to_owned());
    }
    if min_ttl > 0 {
        words.push(format!("min-ttl {min_ttl}"));
    }
    if max_mss > 0 {
        words.push(format!("max-mss {max_mss}"));
    }
    if reassemble_tcp {
        words.push("reassemble tcp".to_owned());
    }
    let set_tos = options.set.tos;
    if words.is_empty() && set_tos.is_none() {
        let at = Span { end: span.start, ..span };
        return work.edit(at, "# OpenBSD reassembles fragments by itself: ");
    }
    let first = rule.filter.option_spans.iter().map(|(_, option_span)| option_span.start).min();
    let start = first.unwrap_or(span.end).max(rule.action.span.end);
    let mut text = String::new();
    if !words.is_empty() {
        text = format!("scrub ({})", words.join(" "));
    }
    if let Some(tos) = set_tos {
        text.push_str(&format!(" set tos {tos:#04x}"));
    }
    work.edit(rule.action.span, "match");
    let rest = work.text(rule.action.span.end, start);
    let blank = if rest.ends_with([' ', '\t']) { "" } else { " " };
    work.edit(Span { start, ..span }, format!("{blank}{}", text.trim_start()));
}

/// OpenBSD puts fragments together unless told otherwise, FreeBSD where `scrub` says so.
fn fragments(work: &mut Work<'_>) {
    let mut first = None;
    for statement in work.statements() {
        match &statement.kind {
            StatementKind::Set(settings)
                if settings.iter().any(|setting| matches!(setting, Setting::Reassemble { .. })) =>
            {
                return;
            }
            StatementKind::Rule(rule) if matches!(rule.action.value, Action::Scrub { .. }) => {
                let filter = &rule.filter;
                if !filter.interfaces.is_empty() || filter.af.is_some() {
                    let note =
                        "OpenBSD reassembles the fragments of all packets, not only of these";
                    work.note(statement.span, note);
                }
                return;
            }
            _ => {}
        }
        first = first.or(Some(statement.span));
    }
    let Some(first) = first.filter(|first| first.file == crate::source::FileId(0)) else { return };
    let at = Span { end: first.start, ..first };
    work.edit(at, "# As on FreeBSD without scrub.\nset reassemble no\n");
}
