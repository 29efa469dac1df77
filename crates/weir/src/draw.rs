//! Draws diagnostics: the line, the caret, the cause, the next step.
//!
//! On a terminal they are drawn with their place in the text; elsewhere each is one line that
//! begins with `file:line:column:`, which editors and scripts understand.

use std::io::{IsTerminal as _, Write as _};

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report,
};
use weir_lab::diagnostic::{Diagnostic, Severity};

/// Shows diagnostics on standard error.
pub(crate) fn diagnostics(list: &[Diagnostic]) {
    let terminal = std::io::stderr().is_terminal();
    for diagnostic in list {
        let text = if terminal { drawn(diagnostic) } else { diagnostic.to_string() };
        // Nobody is left to tell if standard error is closed.
        drop(writeln!(anstream::stderr(), "{text}"));
    }
}

fn drawn(diagnostic: &Diagnostic) -> String {
    let severity = match diagnostic.severity {
        Severity::Error => miette::Severity::Error,
        Severity::Warning => miette::Severity::Warning,
    };
    let mut drawing = MietteDiagnostic::new(diagnostic.message.clone()).with_severity(severity);
    drawing.help.clone_from(&diagnostic.help);
    if let Some(span) = &diagnostic.span {
        let label = LabeledSpan::new(diagnostic.label.clone(), span.start, span.len());
        drawing = drawing.with_label(label);
    }
    let source = &diagnostic.source;
    let report =
        Report::new(drawing).with_source_code(NamedSource::new(&source.name, source.text.clone()));
    let theme = if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) {
        GraphicalTheme::unicode_nocolor()
    } else {
        GraphicalTheme::unicode()
    };
    let mut text = String::new();
    match GraphicalReportHandler::new_themed(theme).render_report(&mut text, report.as_ref()) {
        Ok(()) => text,
        Err(_) => diagnostic.to_string(),
    }
}
