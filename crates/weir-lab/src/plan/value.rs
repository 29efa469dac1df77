//! A value of the specification after substitution, and errors about it.

use crate::diagnostic::{Diagnostic, Report, Span, quote};
use crate::spec::fields::Text;

/// The rate that no software can be asked for in earnest.
pub(super) const RATE_PPS_MAX: f64 = 1e9;

/// A substituted value and the place that it was written at.
pub(crate) struct Value<'a> {
    pub(crate) text: String,
    pub(crate) written: &'a Text,
}

impl Value<'_> {
    /// Reports an error about the value, unless another point of the sweeps already has one.
    pub(super) fn error(&self, report: &mut Report, message: String, help: Option<&str>) {
        error_at(&self.written.span, report, message, help);
    }

    /// What the value came from, if the specification does not show it.
    pub(super) fn origin(&self) -> String {
        if self.text == self.written.text {
            String::new()
        } else {
            format!(" (from {})", quote(&self.written.text))
        }
    }
}

pub(super) fn error_at(span: &Span, report: &mut Report, message: String, help: Option<&str>) {
    let diagnostic = Diagnostic::error(&report.spec, message).at(span.clone());
    report.push_once(Diagnostic { help: help.map(str::to_owned), ..diagnostic });
}
