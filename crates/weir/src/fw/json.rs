//! Diagnostics as JSON. Lines and columns count from 1, columns in characters; an end is the place
//! behind the last character.

use serde::Serialize;
use weir_rules::Compiled;
use weir_rules::diagnostic::{self, Severity};
use weir_rules::source::{SourceMap, Span};

/// Words of a file.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    file: String,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
}

impl Place {
    pub(super) fn new(span: Span, sources: &SourceMap) -> Self {
        let (start, end) = (sources.start(span), sources.position(span.file, span.end));
        let file = sources.file(span.file).map_or_else(String::new, |file| file.name.clone());
        Self {
            file,
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
        }
    }

    /// `file:line`
    pub(super) fn short(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// Another place with a remark.
#[derive(Debug, Serialize)]
struct Related {
    #[serde(flatten)]
    place: Place,
    text: String,
}

/// What to write instead.
#[derive(Debug, Serialize)]
struct Suggestion {
    #[serde(flatten)]
    place: Place,
    replacement: String,
}

/// One finding.
#[derive(Debug, Serialize)]
pub(super) struct Diagnostic {
    severity: &'static str,
    code: &'static str,
    message: String,
    #[serde(flatten)]
    place: Place,
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expected: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<Suggestion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<Related>,
}

impl Diagnostic {
    fn new(diagnostic: &diagnostic::Diagnostic, sources: &SourceMap) -> Self {
        Self {
            severity: diagnostic.severity.as_str(),
            code: diagnostic.code.as_str(),
            message: diagnostic.message.clone(),
            place: Place::new(diagnostic.span, sources),
            label: diagnostic.label.clone(),
            expected: diagnostic.expected.clone(),
            help: diagnostic.help.clone(),
            suggestion: diagnostic.suggestion.as_ref().map(|suggestion| Suggestion {
                place: Place::new(suggestion.span, sources),
                replacement: suggestion.replacement.clone(),
            }),
            related: (diagnostic.related.iter())
                .map(|label| Related {
                    place: Place::new(label.span, sources),
                    text: label.text.clone(),
                })
                .collect(),
        }
    }
}

/// All findings of a file.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    pub(super) file: String,
    dialect: &'static str,
    rule_count: usize,
    pub(super) error_count: usize,
    pub(super) warning_count: usize,
    /// Findings beyond the limit, which are not listed.
    not_listed_count: usize,
    diagnostics: Vec<Diagnostic>,
}

impl Findings {
    pub(super) fn new(compiled: &Compiled) -> Self {
        let first = compiled.sources.files().first();
        let list = &compiled.diagnostics;
        let is_warning =
            |diagnostic: &&diagnostic::Diagnostic| diagnostic.severity == Severity::Warning;
        Self {
            file: first.map_or_else(String::new, |file| file.name.clone()),
            dialect: compiled.ast.dialect.as_str(),
            rule_count: compiled.ruleset.main.count(),
            error_count: compiled.error_count,
            warning_count: list.iter().filter(is_warning).count(),
            not_listed_count: compiled.dropped_count,
            diagnostics: self::list(list, &compiled.sources),
        }
    }
}

/// Findings as a list.
pub(super) fn list(list: &[diagnostic::Diagnostic], sources: &SourceMap) -> Vec<Diagnostic> {
    list.iter().map(|diagnostic| Diagnostic::new(diagnostic, sources)).collect()
}
