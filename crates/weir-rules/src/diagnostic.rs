//! What is wrong with a ruleset, as values: a stable code, the words it is about, what was
//! expected, and what to do. Drawing them is the caller's.

use strsim::osa_distance;

use crate::limits::Limits;
use crate::named::named;
use crate::source::{SourceMap, Span};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing has to change.
    Note,
    /// Understood, but suspicious, or it cannot run here.
    Warning,
    /// The ruleset is refused.
    Error,
}

impl Severity {
    /// As printed and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

named! {
    /// What a diagnostic is about. The names are stable: scripts may compare them.
    #[non_exhaustive]
    Code {
        /// The text does not follow the grammar.
        Syntax = "syntax",
        /// A string has no closing quote.
        UnterminatedString = "unterminated-string",
        /// A macro is used that nobody defined.
        UndefinedMacro = "undefined-macro",
        /// A macro's value leads back to the macro.
        RecursiveMacro = "recursive-macro",
        /// Files include each other in a circle.
        RecursiveInclude = "recursive-include",
        /// A file that `include` names cannot be read.
        IncludeFailed = "include-failed",
        /// A stated limit is met.
        Limit = "limit",
        /// A word that belongs to the other dialect.
        WrongDialect = "wrong-dialect",
        /// An option stands twice in one rule.
        Duplicate = "duplicate",
        /// A number or name is not in its range.
        BadValue = "bad-value",
        /// A port's name or range means nothing.
        BadPort = "bad-port",
        /// A protocol nobody knows.
        UnknownProtocol = "unknown-protocol",
        /// A user or group nobody knows.
        UnknownUser = "unknown-user",
        /// An ICMP type or code nobody knows.
        UnknownIcmp = "unknown-icmp",
        /// An address or a netmask cannot be.
        BadAddress = "bad-address",
        /// Options of a rule that contradict each other or what the rule is.
        Inconsistent = "inconsistent",
        /// A pool of addresses with a type that cannot serve it.
        BadPool = "bad-pool",
        /// A list in which no combination is valid.
        NoCombination = "no-combination",
        /// An interface that is not there; it may come later.
        UnknownInterface = "unknown-interface",
        /// A host name without an address, as far as anybody was asked.
        UnresolvedHost = "unresolved-host",
        /// A table's or an anchor's file that cannot be read.
        FileMissing = "file-missing",
        /// A line of a file of fingerprints that is none.
        BadFingerprint = "bad-fingerprint",
        /// An operating system that no fingerprint names.
        UnknownOs = "unknown-os",
        /// A table file's line that is not an address.
        BadTableEntry = "bad-table-entry",
        /// Something that is understood and printed, but that weir does not run.
        CannotRun = "cannot-run",
        /// Something pf accepts and ignores, or that changed its meaning.
        Deprecated = "deprecated",
        /// A rule that no packet reaches.
        Unreachable = "unreachable",
        /// A rule that an earlier or later one makes pointless.
        Shadowed = "shadowed",
        /// A rule that no packet can match.
        NeverMatches = "never-matches",
        /// A table that no rule uses.
        UnusedTable = "unused-table",
        /// A table that is used and nowhere defined.
        MissingTable = "missing-table",
        /// A macro that nothing uses.
        UnusedMacro = "unused-macro",
        /// Redirections that take the same packets.
        OverlappingRedirect = "overlapping-redirect",
        /// `quick` decides before a later default can.
        QuickHides = "quick-hides",
    }
}

/// Words of the source with a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The words.
    pub span: Span,
    /// The remark; may be empty.
    pub text: String,
}

/// A change that would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// What to replace.
    pub span: Span,
    /// What by.
    pub replacement: String,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What it is about.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence without a full stop.
    pub message: String,
    /// The words it is about.
    pub span: Span,
    /// What the caret's label says; may be empty.
    pub label: String,
    /// Other places that have to do with it, such as a definition.
    pub related: Vec<Label>,
    /// What would have been right, for syntax errors.
    pub expected: Vec<String>,
    /// What to do.
    pub help: Option<String>,
    /// A replacement that is near what was written.
    pub suggestion: Option<Suggestion>,
}

impl Diagnostic {
    /// What makes a ruleset unusable, at its place in the text.
    #[must_use]
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span, message.into())
    }

    /// What is allowed and hardly meant, at its place in the text.
    #[must_use]
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span, message.into())
    }

    fn new(severity: Severity, code: Code, span: Span, message: String) -> Self {
        Self {
            code,
            severity,
            message,
            span,
            label: String::new(),
            related: Vec::new(),
            expected: Vec::new(),
            help: None,
            suggestion: None,
        }
    }

    /// With a remark at the words themselves.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    /// With advice.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// With another place.
    #[must_use]
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push(Label { span, text: text.into() });
        self
    }

    /// With the words that would have been right.
    #[must_use]
    pub fn expected<T: Into<String>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.expected = words.into_iter().map(Into::into).collect();
        self
    }

    /// With the nearest of `candidates` to `written`, if one is near.
    #[must_use]
    pub fn nearest<'a>(
        mut self,
        written: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        if let Some(replacement) = nearest(written, candidates) {
            self.suggestion =
                Some(Suggestion { span: self.span, replacement: replacement.to_owned() });
        }
        self
    }

    /// One line, as compilers print it: `file:line:column: severity: message`.
    #[must_use]
    pub fn line(&self, sources: &SourceMap) -> String {
        let at = sources.start(self.span);
        let name = sources.file(self.span.file).map_or("?", |file| &file.name);
        let severity = self.severity.as_str();
        format!("{name}:{}:{}: {severity}: {}", at.line, at.column, self.message)
    }
}

/// The findings of one run, in the order in which they were made.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    count_max: usize,
    dropped_count: usize,
    error_count: usize,
}

impl Diagnostics {
    /// None yet; at most as many as the limits allow are kept.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self { count_max: limits.diagnostic_count_max, ..Self::default() }
    }

    /// Adds one, or counts it if there are too many.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.error_count += usize::from(diagnostic.severity == Severity::Error);
        if self.list.len() < self.count_max {
            self.list.push(diagnostic);
        } else {
            self.dropped_count += 1;
        }
    }

    /// Those that are kept.
    #[must_use]
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Whether what comes now is counted, and not kept.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.list.len() >= self.count_max
    }

    /// How many came after the limit.
    #[must_use]
    pub fn dropped_count(&self) -> usize {
        self.dropped_count
    }

    /// Errors, also those not kept.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.error_count
    }

    /// Gives the list away, sorted by place.
    #[must_use]
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|diagnostic| (diagnostic.span.file, diagnostic.span.start));
        self.list
    }
}

/// The candidate with the smallest edit distance (a swap of neighbours is one edit), if it is small
/// enough to be a slip: one third of the word, and at least one letter.
#[must_use]
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const WORD_SIZE_MAX: usize = 64;
    if written.len() > WORD_SIZE_MAX {
        return None;
    }
    let length = written.chars().count();
    if length < 2 {
        return None;
    }
    let allowed = (length / 3).max(1);
    // Words whose lengths differ by more are further away than that, without looking.
    let is_near = |word: &&str| {
        word.len() <= WORD_SIZE_MAX && word.chars().count().abs_diff(length) <= allowed
    };
    let distances = candidates.into_iter().filter(is_near);
    let best = distances.map(|word| (osa_distance(written, word), word)).min()?;
    (best.0 <= allowed && best.0 > 0).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_slips() {
        for (a, b, distance) in [
            ("pass", "pass", 0),
            ("pas", "pass", 1),
            ("psas", "pass", 1),
            ("blokc", "block", 1),
            ("", "in", 2),
            ("quikc", "quick", 1),
            ("inet", "inet6", 1),
        ] {
            assert_eq!(osa_distance(a, b), distance, "{a} {b}");
        }
        assert_eq!(nearest("blok", ["block", "pass"]), Some("block"));
        assert_eq!(nearest("zebra", ["block", "pass"]), None);
    }

    #[test]
    fn codes_have_names_of_their_own() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        assert_eq!(Code::Syntax.meaning(), "The text does not follow the grammar.");
    }
}
