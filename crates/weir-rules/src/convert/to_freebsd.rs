//! OpenBSD's `match … nat-to` and its like as FreeBSD's `nat`, `rdr` and `binat`.
//!
//! `pass` with translation stays: FreeBSD reads it since 15. So does `match … scrub (…)`, which it
//! has since 14.

use super::{Work, within_anchors};
use crate::ast::{Action, AnchorKind, Rule, Statement, StatementKind, TranslateToKind};
use crate::ir;
use crate::source::{FileId, Span};
use crate::value::{Direction, Setting};

/// Options of a `match` that FreeBSD's translation rules have too.
const SHARED_OPTIONS: &[&str] = &["tag", "tagged", "rtable"];

/// A `match` that only translates.
fn is_translation(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Rule(rule) => {
            let translations = &rule.filter.translations;
            let new = |translate_to: &crate::ast::TranslateTo| {
                !matches!(translate_to.kind.value, TranslateToKind::Af(_))
            };
            rule.action.value == Action::Match && translations.iter().any(new)
        }
        _ => false,
    }
}

fn is_filter(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Rule(_) | StatementKind::Antispoof(_) => !is_translation(statement),
        StatementKind::Anchor(anchor) => anchor.kind == AnchorKind::Filter,
        _ => false,
    }
}

pub(super) fn statements(work: &mut Work<'_>) {
    let mut filters: Vec<&Statement> = Vec::new();
    let mut translations: Vec<(TranslateToKind, Span)> = Vec::new();
    for statement in work.statements() {
        if is_filter(statement) {
            filters.push(statement);
            kept(work, statement);
        }
        let StatementKind::Rule(rule) = &statement.kind else { continue };
        super::route::to_freebsd(work, rule, statement.span);
        if !is_translation(statement) || !work.is_here(statement.span) {
            continue;
        }
        let Some(text) = translation(work, rule, statement.span) else { continue };
        let kind = rule.filter.translations[0].kind.value;
        if !is_first(work, kind, statement.span, &translations, &filters) {
            continue;
        }
        translations.push((kind, statement.span));
        place(work, statement.span, text, filters.first().map(|first| first.span));
    }
    for inner in within_anchors(work.statements(), &is_translation) {
        let message = "translation within an anchor is not converted";
        work.refuse(inner.span, message, "write the anchor's rules by hand");
    }
    for inner in within_anchors(work.statements(), &super::route::is_route) {
        if let StatementKind::Rule(rule) = &inner.kind {
            super::route::to_freebsd(work, rule, inner.span);
        }
    }
    fragments(work);
}

/// A rule with translation that stays as it is.
fn kept(work: &mut Work<'_>, statement: &Statement) {
    if let StatementKind::Rule(rule) = &statement.kind
        && rule.action.value == Action::Pass
        && !rule.filter.translations.is_empty()
    {
        work.note(
            statement.span,
            "FreeBSD reads translation in a `pass` rule only since version 15",
        );
    }
}

/// Whether the rule can be taken before all filter rules, and alone of its kind.
fn is_first(
    work: &mut Work<'_>,
    kind: TranslateToKind,
    span: Span,
    translations: &[(TranslateToKind, Span)],
    filters: &[&Statement],
) -> bool {
    let same = |other: TranslateToKind| {
        other == kind || other == TranslateToKind::Binat || kind == TranslateToKind::Binat
    };
    let earlier =
        translations.iter().find(|(translation, at)| same(*translation) && work.overlap(*at, span));
    let line = |work: &Work<'_>, span: Span| work.compiled.sources.start(span).line;
    if let Some((_, at)) = earlier {
        let message = format!(
            "a packet may match this and the translation of line {}; OpenBSD takes both, and \
             FreeBSD the first",
            line(work, *at)
        );
        let help = "make the rules exclude each other by interface, protocol, address or port";
        work.refuse(span, message, help);
        return false;
    }
    let blocking = filters.iter().find(|filter| {
        let expanded = work.expanded(filter.span);
        let is_anchor = matches!(filter.kind, StatementKind::Anchor(_));
        let depends = is_anchor || expanded.iter().any(|rule| rule.quick || looks_at(rule, kind));
        depends && work.overlap(filter.span, span)
    });
    if let Some(filter) = blocking {
        let message = format!(
            "FreeBSD translates before it filters, and the rule of line {} comes before this and \
             may decide about the same packets or look at their addresses",
            line(work, filter.span)
        );
        work.refuse(span, message, "if that is what you mean, put translation first");
        return false;
    }
    true
}

/// Whether a filter rule looks at what the translation changes.
fn looks_at(rule: &ir::Rule, kind: TranslateToKind) -> bool {
    let (from, to) = (!rule.from.is_any(), !rule.to.is_any());
    match kind {
        TranslateToKind::Nat => from,
        TranslateToKind::Rdr => to,
        TranslateToKind::Binat | TranslateToKind::Af(_) => from || to,
    }
}

/// The old form of a `match` rule.
fn translation(work: &mut Work<'_>, rule: &Rule, span: Span) -> Option<String> {
    let filter = &rule.filter;
    let [translation] = &filter.translations[..] else {
        let message = "FreeBSD's translation rules do one thing each, and this does two";
        work.refuse(span, message, "write a `match` for each");
        return None;
    };
    let (word, direction) = match translation.kind.value {
        TranslateToKind::Nat => ("nat", Some(Direction::Out)),
        TranslateToKind::Rdr => ("rdr", Some(Direction::In)),
        _ => ("binat", None),
    };
    if direction.is_some() && filter.direction != direction {
        let message = format!("FreeBSD's `{word}` only works in the other direction");
        work.refuse(span, message, "");
        return None;
    }
    let is_to = |name: &str| name == "translation";
    let other = filter.option_spans.iter().map(|(name, _)| *name);
    let mut other = other.filter(|name| !SHARED_OPTIONS.contains(name) && !is_to(name));
    let extra = other.next().or(filter.log.map(|_| "log")).or(filter.quick.then_some("quick"));
    if let Some(extra) = extra {
        let message = format!("FreeBSD's `{word}` rules have no `{extra}`");
        work.refuse(span, message, "write a separate `match` rule for it, if that is possible");
        return None;
    }
    let rest =
        behind_head(work.text(rule.action.span.end, translation.kind.span.start), filter.direction);
    let Some(head) = rest else {
        let message = "the direction of this rule comes from a macro";
        work.refuse(span, message, "write it in the rule");
        return None;
    };
    let pool = work.text(translation.pool.span.start, translation.pool.span.end);
    let tail = work.text(translation.pool.span.end, span.end);
    let words = [word, head.trim(), tail.trim(), "->", pool.trim()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    Some(words.join(" "))
}

/// What stands behind the direction.
fn behind_head(text: &str, direction: Option<Direction>) -> Option<&str> {
    let text = text.trim_start();
    let word = match direction {
        None => return Some(text),
        Some(Direction::In) => "in",
        Some(Direction::Out) => "out",
    };
    text.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\\']))
}

/// Puts the new rule in the place of the old one, or above the first filter rule.
fn place(work: &mut Work<'_>, span: Span, text: String, first_filter: Option<Span>) {
    match first_filter.filter(|first| first.file == FileId(0)) {
        None => work.edit(span, text),
        Some(first) => {
            work.edit(Span { end: first.start, ..first }, text + "\n");
            work.edit(span, "# The translation that stood here is above the first rule.");
        }
    }
}

/// FreeBSD puts fragments together where it is told to, OpenBSD everywhere.
fn fragments(work: &mut Work<'_>) {
    let is_set = |statement: &Statement| match &statement.kind {
        StatementKind::Set(settings) => {
            settings.iter().any(|setting| matches!(setting, Setting::Reassemble { .. }))
        }
        _ => false,
    };
    if work.statements().iter().any(is_set) {
        return;
    }
    let first = work.statements().first().map(|statement| statement.span);
    let Some(first) = first.filter(|first| first.file == FileId(0)) else { return };
    let at = Span { start: first.start, end: first.start, ..first };
    work.edit(at, "# As on OpenBSD by default.\nset reassemble yes\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_words() {
        assert_eq!(behind_head(" out on em0 ", Some(Direction::Out)), Some(" on em0 "));
        assert_eq!(behind_head(" $dir on em0 ", Some(Direction::Out)), None);
        assert_eq!(behind_head(" on em0 ", None), Some("on em0 "));
    }
}
