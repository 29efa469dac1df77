//! Which file of fingerprints a ruleset has: that of `set fingerprints`, or [`DEFAULT_FILE`]. It is
//! read by the provider of the ruleset's files, and stands among them for what is said of it.

use std::sync::Arc;

use super::{Fingerprints, read};
use crate::ast::{Ast, StatementKind};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::source::{SourceMap, SourceProvider, Span, offset};
use crate::value::{Setting, Text};

/// Where fingerprints are without `set fingerprints` (pf.conf(5)).
pub const DEFAULT_FILE: &str = "/etc/pf.os";

/// What is known of fingerprints where rules with `os` are read.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// They themselves; `None` if they could not be read, or nobody knows them here.
    pub found: Option<Arc<Fingerprints>>,
    /// Why there are none, for the first rule that asks for them.
    missing: Option<Diagnostic>,
    /// What is wrong in their file.
    problems: Vec<Diagnostic>,
    /// A ruleset that does not need them takes it all the same.
    is_default: bool,
}

impl Known {
    /// Those of the ruleset that an anchor's rules are loaded into; `None`: they are not known, and
    /// names are not looked up.
    #[must_use]
    pub fn of_ruleset(found: Option<Arc<Fingerprints>>) -> Self {
        Self { found, ..Self::default() }
    }

    /// Reads the file that a ruleset of this name has.
    pub(crate) fn of_file(
        ast: &Ast,
        name: &str,
        provider: &dyn SourceProvider,
        sources: &mut SourceMap,
    ) -> Self {
        let set = last_set(ast);
        let is_default = set.is_none();
        let (path, span) = set.unwrap_or((DEFAULT_FILE.into(), Span::default()));
        let from = sources.file(span.file).map_or(name, |file| &file.name);
        let bytes = match provider.read(&path, from) {
            Ok(bytes) => bytes,
            Err(cause) => {
                let message = format!("cannot read `{path}`: {cause}");
                let missing = Diagnostic::warning(Code::FileMissing, span, message);
                let help = "`os` needs fingerprints in the format of pf.os(5): there, or in a file \
                            that `set fingerprints` names";
                return Self { missing: Some(missing.help(help)), is_default, ..Self::default() };
            }
        };
        let file = sources.add(&path, &bytes);
        let text = sources.file(file).map(|file| file.text.clone()).unwrap_or_default();
        match read::read(&text) {
            Ok(found) => Self { found: Some(Arc::new(found)), is_default, ..Self::default() },
            Err(problems) => {
                let problems = problems.into_iter().map(|problem| {
                    let span = Span::new(file, offset(problem.at.start), offset(problem.at.end));
                    Diagnostic::error(Code::BadFingerprint, span, problem.message)
                });
                Self { problems: problems.collect(), is_default, ..Self::default() }
            }
        }
    }

    /// Says what is wrong with the file; `used` is where the first rule stands that needs it.
    pub(crate) fn report(&self, used: Option<Span>, diagnostics: &mut Diagnostics) {
        if let Some(missing) = &self.missing
            && (used.is_some() || !self.is_default)
        {
            let span = used.filter(|_| self.is_default).unwrap_or(missing.span);
            diagnostics.push(Diagnostic { span, ..missing.clone() });
        }
        let is_needed = used.is_some() || !self.is_default;
        for problem in &self.problems {
            let severity = if is_needed { Severity::Error } else { Severity::Warning };
            diagnostics.push(Diagnostic { severity, ..problem.clone() });
        }
    }
}

/// The last `set fingerprints`, which holds, and its statement.
fn last_set(ast: &Ast) -> Option<(Text, Span)> {
    let settings = ast.statements.iter().filter_map(|statement| match &statement.kind {
        StatementKind::Set(settings) => Some((settings, statement.span)),
        _ => None,
    });
    let paths = settings.flat_map(|(settings, span)| {
        settings.iter().filter_map(move |setting| match setting {
            Setting::Fingerprints(path) => Some((path.clone(), span)),
            _ => None,
        })
    });
    paths.last()
}
