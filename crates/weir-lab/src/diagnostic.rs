//! What is wrong with a specification, and where: errors and warnings with source positions.
//!
//! A diagnostic carries the text it points into, so that a front end can draw it; its `Display`
//! is the plain form `lab.toml:12:7: error: …`. Nothing here prints or decides about exit codes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Byte range inside the text of a [`Source`].
pub type Span = Range<usize>;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The request cannot be honoured.
    Error,
    /// It is honoured, and probably not what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A text that diagnostics point into: the specification, or a file of a DUT.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path, for messages.
    pub name: String,
    /// Its text; empty when it could not be read.
    pub text: String,
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, complete without the drawing.
    pub message: String,
    /// What to write at the place, if that adds something.
    pub label: Option<String>,
    /// The place in the source; absent when the whole of it is meant, or the command line.
    pub span: Option<Span>,
    /// What to do about it.
    pub help: Option<String>,
    /// What it is about.
    pub source: Arc<Source>,
}

impl Diagnostic {
    /// An error about the whole of `source`.
    #[must_use]
    pub fn error(source: &Arc<Source>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            label: None,
            span: None,
            help: None,
            source: Arc::clone(source),
        }
    }

    /// A warning about the whole of `source`.
    #[must_use]
    pub fn warning(source: &Arc<Source>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(source, message) }
    }

    /// The same at a place.
    #[must_use]
    pub fn at(self, span: Span) -> Self {
        Self { span: Some(span), ..self }
    }

    /// The same with a text at the place.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// The same with advice.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Line and column of the place, both from 1; the column counts characters.
    #[must_use]
    pub fn position(&self) -> Option<(usize, usize)> {
        let start = self.span.as_ref()?.start;
        let before = self.source.text.get(..start)?;
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Some((line, before[line_start..].chars().count() + 1))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.source.name)?;
        if let Some((line, column)) = self.position() {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}: {}", self.severity, self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Whether one of them is an error.
#[must_use]
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// Collects diagnostics about a specification and the files that it names.
#[derive(Debug)]
pub(crate) struct Report {
    /// The specification.
    pub(crate) spec: Arc<Source>,
    diagnostics: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn new(spec: Arc<Source>) -> Self {
        Self { spec, diagnostics: Vec::new() }
    }

    /// Adds one, unless it is there already.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Adds one, unless its place already has one of this severity: a value that is looked at
    /// again for every point of the sweeps needs no more than one complaint.
    pub(crate) fn push_once(&mut self, diagnostic: Diagnostic) {
        let repeats = self.diagnostics.iter().any(|earlier| {
            earlier.severity == diagnostic.severity
                && earlier.span == diagnostic.span
                && Arc::ptr_eq(&earlier.source, &diagnostic.source)
        });
        if !repeats {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Adds an error at a place in the specification.
    pub(crate) fn error(&mut self, span: &Span, message: impl Into<String>) {
        self.push(Diagnostic::error(&self.spec, message).at(span.clone()));
    }

    /// Adds an error at a place in the specification, with advice.
    pub(crate) fn error_help(
        &mut self,
        span: &Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Diagnostic::error(&self.spec, message).at(span.clone()).help(help));
    }

    pub(crate) fn has_errors(&self) -> bool {
        has_errors(&self.diagnostics)
    }

    /// Everything, in the order of the texts: the specification first, then its files by name.
    pub(crate) fn finish(self) -> Vec<Diagnostic> {
        let Self { spec, mut diagnostics } = self;
        diagnostics.sort_by_key(|diagnostic| {
            let is_file = !Arc::ptr_eq(&diagnostic.source, &spec);
            let start = diagnostic.span.as_ref().map(|span| span.start);
            (is_file, diagnostic.source.name.clone(), start)
        });
        diagnostics
    }
}

/// A value of the user's in a message: in backquotes, on one line, shortened if it is long.
pub(crate) fn quote(text: &str) -> String {
    const LENGTH_MAX: usize = 60;
    let mut quoted = String::from("`");
    for (index, character) in text.chars().enumerate() {
        if index == LENGTH_MAX {
            quoted.push('…');
            break;
        }
        if character.is_control() {
            quoted.extend(character.escape_default());
        } else {
            quoted.push(character);
        }
    }
    quoted.push('`');
    quoted
}
