//! Draws diagnostics: the line, the caret, the cause, the next step.
//!
//! On a terminal they are drawn with their place in the text; elsewhere each is one line that
//! begins with `file:line:column:`, which editors and scripts understand. Words are never broken:
//! paths, patterns and commands can be copied.

use std::io::{IsTerminal as _, Write as _};

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report,
};
use textwrap::{WordSeparator, WordSplitter};
use weir_lab::diagnostic::{Diagnostic, Severity};

/// Narrower than this, the drawing itself has no room; wider, lines are hard to read.
const WIDTH: std::ops::RangeInclusive<usize> = 60..=120;

/// Shows diagnostics on standard error.
pub(crate) fn diagnostics(list: &[Diagnostic]) {
    let terminal = std::io::stderr().is_terminal();
    for diagnostic in list {
        let text = if terminal { drawn(diagnostic, width()) } else { diagnostic.to_string() };
        // Nobody is left to tell if standard error is closed.
        drop(writeln!(anstream::stderr(), "{text}"));
    }
}

/// Columns for a drawing: the terminal's, within [`WIDTH`].
pub(crate) fn width() -> usize {
    let columns = terminal_size::terminal_size_of(std::io::stderr())
        .map_or(80, |(width, _)| usize::from(width.0));
    columns.clamp(*WIDTH.start(), *WIDTH.end())
}

fn drawn(diagnostic: &Diagnostic, width: usize) -> String {
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
    let source = NamedSource::new(&source.name, source.text.clone());
    rendered(drawing, source, width).unwrap_or_else(|| diagnostic.to_string())
}

/// The drawing of a diagnostic in its source, if it can be drawn.
pub(crate) fn rendered(
    drawing: MietteDiagnostic,
    source: NamedSource<String>,
    width: usize,
) -> Option<String> {
    let report = Report::new(drawing).with_source_code(source);
    let theme = if crate::progress::has_colour() {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(width)
        .with_break_words(false)
        .with_word_separator(WordSeparator::AsciiSpace)
        .with_word_splitter(WordSplitter::NoHyphenation);
    let mut text = String::new();
    handler.render_report(&mut text, report.as_ref()).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_lab::diagnostic::Source;

    use super::*;

    #[test]
    fn words_are_kept_whole() {
        let path = "/srv/results/a-directory-with-a-very-long-name/and-another-one/lab-of-today";
        let text = "name = 1\n".to_owned();
        let source = Arc::new(Source { name: "lab.toml".into(), text });
        let message = format!("cannot read the file that is named here, which is {path}.toml");
        let diagnostic = Diagnostic::error(&source, message).at(0..4).help(format!("try {path}"));
        let text = drawn(&diagnostic, 60);
        assert_eq!(text.matches(path).count(), 2, "{text}");
        let long = text.lines().filter(|line| line.chars().count() > 60 && !line.contains(path));
        assert_eq!(long.count(), 0, "{text}");
    }
}
