//! Diagnostics of a ruleset, drawn or one a line, on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::ops::Range;

use miette::{LabeledSpan, MietteDiagnostic, NamedSource};
use weir_rules::diagnostic::{Code, Diagnostic, Severity};
use weir_rules::source::{SourceMap, Span};

use crate::draw;

/// Words of an error that a syntax error lists as right, at most.
const EXPECTED_MAX: usize = 12;

/// Shows diagnostics: drawn on a terminal, elsewhere each as a line
/// `file:line:column: severity: message` with its advice below.
pub(crate) fn diagnostics(list: &[Diagnostic], sources: &SourceMap, dropped_count: usize) {
    let terminal = std::io::stderr().is_terminal();
    let mut err = anstream::stderr();
    for diagnostic in list {
        let text = if terminal {
            drawn(diagnostic, sources, draw::width())
        } else {
            plain(diagnostic, sources)
        };
        // Nobody is left to tell if standard error is closed.
        drop(writeln!(err, "{text}"));
    }
    if dropped_count > 0 {
        drop(writeln!(err, "and {dropped_count} more, which are not shown"));
    }
}

/// A diagnostic without a drawing.
pub(crate) fn plain(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let mut text = diagnostic.line(sources);
    if diagnostic.code == Code::CannotRun {
        if !diagnostic.label.is_empty() {
            text.push_str(&format!(": {}", diagnostic.label));
        }
        let statement = sources.text(diagnostic.span).split_whitespace();
        text.push_str(&format!("\n  in: {}", statement.collect::<Vec<_>>().join(" ")));
    }
    for advice in advice(diagnostic) {
        text.push_str("\n  help: ");
        text.push_str(&advice);
    }
    for label in &diagnostic.related {
        text.push_str(&format!("\n  {}: {}", sources.place(label.span), label.text));
    }
    text
}

/// What was expected, what to write instead, and what to do.
pub(crate) fn advice(diagnostic: &Diagnostic) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(suggestion) = &diagnostic.suggestion {
        advice.push(format!("did you mean `{}`?", suggestion.replacement));
    }
    // What was meant says more than all that would be right.
    let is_meant = diagnostic.suggestion.is_some();
    let expected = if is_meant { &[][..] } else { &diagnostic.expected };
    let words = expected.iter().map(|word| match word.as_bytes().first() {
        Some(b'`') => word.clone(),
        _ if word.contains(' ') => word.clone(),
        _ => format!("`{word}`"),
    });
    let shown: Vec<String> = words.take(EXPECTED_MAX).collect();
    let rest = expected.len().saturating_sub(EXPECTED_MAX);
    match &shown[..] {
        [] => {}
        // The message says it already.
        [one] if diagnostic.message.contains(one.as_str()) => {}
        [one] => advice.push(format!("expected {one}")),
        all if rest > 0 => {
            advice.push(format!("expected {} or {rest} other words", all.join(", ")));
        }
        [first, last] if diagnostic.message.contains(&format!("{first} or {last}")) => {}
        [most @ .., last] => advice.push(format!("expected {} or {last}", most.join(", "))),
    }
    advice.extend(diagnostic.help.clone());
    advice
}

/// A diagnostic with its place in the text.
fn drawn(diagnostic: &Diagnostic, sources: &SourceMap, width: usize) -> String {
    let Some(file) = sources.file(diagnostic.span.file) else {
        return plain(diagnostic, sources);
    };
    let severity = match diagnostic.severity {
        Severity::Error => miette::Severity::Error,
        Severity::Warning => miette::Severity::Warning,
        Severity::Note => miette::Severity::Advice,
    };
    let label = Some(diagnostic.label.clone()).filter(|label| !label.is_empty());
    let range = bytes(diagnostic.span, &file.text);
    let mut drawing = MietteDiagnostic::new(diagnostic.message.clone())
        .with_severity(severity)
        .with_label(LabeledSpan::new_primary_with_span(label, range));
    let mut advice = advice(diagnostic);
    for other in &diagnostic.related {
        if other.span.file == diagnostic.span.file {
            let range = bytes(other.span, &file.text);
            drawing =
                drawing.and_label(LabeledSpan::new_with_span(Some(other.text.clone()), range));
        } else {
            advice.push(format!("{}: {}", sources.place(other.span), other.text));
        }
    }
    if !advice.is_empty() {
        drawing = drawing.with_help(advice.join("\n"));
    }
    let source = NamedSource::new(&file.name, file.text.to_string());
    draw::rendered(drawing, source, width).unwrap_or_else(|| plain(diagnostic, sources))
}

/// The bytes of a span, within the text; without the newline that a missing word would be under.
fn bytes(span: Span, text: &str) -> Range<usize> {
    let index = |at: u32| usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
    let (start, end) = (index(span.start), index(span.end));
    let trimmed = text.get(start..end).map_or(end, |words| start + words.trim_end().len());
    start..trimmed.max(start)
}

#[cfg(test)]
mod tests {
    use weir_rules::facts::Facts;

    use super::*;
    use crate::fw::load::Language;

    fn compiled(text: &str) -> weir_rules::Compiled {
        let facts = Facts::parse("interface em0 192.0.2.1/24\n").unwrap();
        let (macros, disk) = (Vec::new(), crate::fw::files::Disk::default());
        let (dialect, is_strict, names) = (None, false, None);
        let language = Language { dialect, is_strict, macros, facts, disk, names };
        language.compile_bytes("pf.conf", text.as_bytes())
    }

    #[test]
    fn a_slip_is_drawn_with_what_was_meant() {
        let compiled = compiled("pass in on em0\npass in qiuck on em0\n");
        let [diagnostic] = &compiled.diagnostics[..] else {
            panic!("{:?}", compiled.diagnostics);
        };
        let text = drawn(diagnostic, &compiled.sources, 80);
        assert!(text.contains("pf.conf:2:9"), "{text}");
        assert!(text.contains("did you mean `quick`?"), "{text}");
        let under = text.lines().position(|line| line.contains("pass in qiuck")).unwrap();
        assert!(text.lines().nth(under + 1).unwrap().contains('─'), "{text}");
        let line = plain(diagnostic, &compiled.sources);
        assert!(line.starts_with("pf.conf:2:9: error: "), "{line}");
        assert!(line.contains("\n  help: did you mean `quick`?"), "{line}");
    }

    #[test]
    fn spans_stay_within_the_text() {
        let file = weir_rules::source::FileId(0);
        assert_eq!(bytes(Span::new(file, 4, 9), "pass\n"), 4..4);
        assert_eq!(bytes(Span::new(file, 70, 90), "pass\n"), 5..5);
        assert_eq!(bytes(Span::new(file, 0, 5), "pass\n"), 0..4);
    }
}
