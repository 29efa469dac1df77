//! From a path to a compiled ruleset.

use std::path::Path;
use std::sync::Arc;

use weir_fw::engine::{refusals_of_anchor, refusals_of_whole};
use weir_rules::check;
use weir_rules::convert::{typed_words, weir_words};
use weir_rules::diagnostic::{Code, Diagnostic, Severity};
use weir_rules::evaluate::LoadedAnchor;
use weir_rules::facts::Facts;
use weir_rules::fingerprint::Fingerprints;
use weir_rules::ir::{LoadAnchor, Ruleset};
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::resolve::Resolver;
use weir_rules::source::SourceProvider;
use weir_rules::value::Text;
use weir_rules::{Compiled, Dialect, system};

use super::files::{self, Disk};
use super::machine;
use super::names::{Asking, Names};
use crate::cli::fw::Target;
use crate::cli::ruleset::LanguageArgs;

/// How files are read.
pub(crate) struct Language {
    /// The dialect; `None` sees it from the text.
    pub(crate) dialect: Option<Dialect>,
    /// The dialect was named: then the file has none of the words of typed tables, which no pf has.
    pub(crate) is_strict: bool,
    /// Macros of the command line.
    pub(crate) macros: Vec<(String, String)>,
    /// The machine.
    pub(crate) facts: Facts,
    /// The files.
    pub(crate) disk: Disk,
    /// Host names that the facts do not know are asked of the system's resolver.
    pub(crate) names: Option<Names>,
}

impl Language {
    /// As the arguments have it.
    ///
    /// # Errors
    ///
    /// If the facts cannot be had.
    pub(crate) fn new(args: &LanguageArgs) -> anyhow::Result<Self> {
        Ok(Self {
            dialect: args.dialect.map(Dialect::from),
            is_strict: args.dialect.is_some(),
            macros: args.macros.clone(),
            facts: machine::facts(args.facts.as_deref())?,
            disk: Disk::default(),
            names: args.resolve.then(Names::default),
        })
    }

    /// Reads and compiles a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read. What is wrong in it is in the diagnostics.
    pub(crate) fn compile(&self, path: &Path) -> anyhow::Result<Compiled> {
        let (name, bytes) = files::first(path)
            .map_err(|cause| anyhow::anyhow!("cannot read {}: {cause}", path.display()))?;
        Ok(self.compile_bytes(&name, &bytes))
    }

    /// Compiles a text that was read.
    pub(crate) fn compile_bytes(&self, name: &str, bytes: &[u8]) -> Compiled {
        self.compile_with(name, bytes, &self.disk)
    }

    /// Compiles a text that was read; the files that it names come from `provider`.
    pub(crate) fn compile_with(
        &self,
        name: &str,
        bytes: &[u8],
        provider: &dyn SourceProvider,
    ) -> Compiled {
        self.compile_as(self.dialect, (name, bytes), provider, None)
    }

    /// The same of rules for an anchor of a firewall that runs, which knows its fingerprints.
    pub(crate) fn compile_anchor(
        &self,
        name: &str,
        bytes: &[u8],
        provider: &dyn SourceProvider,
    ) -> Compiled {
        self.compile_as(self.dialect, (name, bytes), provider, Some(None))
    }

    /// Compiles the files that a ruleset loads into anchors (`load anchor`), in its dialect, with
    /// the anchors' paths. That one is missing is a warning of the ruleset already.
    pub(crate) fn anchors(
        &self,
        compiled: &Compiled,
        from: &str,
        provider: &dyn SourceProvider,
    ) -> Vec<(Text, Compiled)> {
        let ruleset = &compiled.ruleset;
        let read = |load: &LoadAnchor| {
            let bytes = provider.read(&load.file, from).ok()?;
            let dialect = Some(ruleset.dialect);
            let known = Some(ruleset.fingerprints.clone());
            let anchor = self.compile_as(dialect, (&load.file, &bytes), provider, known);
            Some((load.name.clone(), anchor))
        };
        ruleset.loads.iter().filter_map(read).collect()
    }

    /// `fingerprints` are those of the ruleset that an anchor is in, where a file is an anchor's.
    fn compile_as(
        &self,
        dialect: Option<Dialect>,
        (name, bytes): (&str, &[u8]),
        provider: &dyn SourceProvider,
        fingerprints: Option<Option<Arc<Fingerprints>>>,
    ) -> Compiled {
        let input = ParseInput {
            name,
            bytes,
            dialect,
            macros: &self.macros,
            provider,
            limits: Limits::default(),
        };
        let asking = self.names.as_ref().map(|names| Asking { facts: &self.facts, names });
        let resolver = asking.as_ref().map_or(&self.facts as &dyn Resolver, |asking| asking);
        let mut compiled = match fingerprints {
            None => weir_rules::compile(input, resolver),
            Some(known) => weir_rules::compile_anchor(input, resolver, known),
        };
        if self.is_strict {
            let found = typed_words(&compiled.ruleset).into_iter();
            let error = |(span, message)| {
                let help = "without `--dialect` it is read as a file for weir";
                Diagnostic::error(Code::CannotRun, span, message).help(help)
            };
            let found: Vec<Diagnostic> = found.map(error).collect();
            compiled.error_count += found.len();
            Self::add(&mut compiled, found);
        }
        compiled
    }

    /// Puts what a system cannot run of a ruleset, and of the files that it loads into anchors,
    /// among their diagnostics, by place. Errors that were found before stay: all is said in one
    /// run. A host name without an address is an error only where the system's resolver was asked.
    /// Some interfaces are `unfilterable`.
    pub(crate) fn judge(
        &self,
        compiled: &mut Compiled,
        anchors: &mut [(Text, Compiled)],
        target: Target,
        unfilterable: &[String],
    ) {
        // A ruleset with errors is not whole.
        let whole = anchors.iter().filter(|(_, anchor)| anchor.error_count == 0);
        let whole: Vec<LoadedAnchor> = whole
            .map(|(path, anchor)| LoadedAnchor {
                path: path.clone(),
                ruleset: anchor.ruleset.clone(),
            })
            .collect();
        self.judge_file(compiled, target, |ruleset| {
            refusals_of_whole(ruleset, &whole, &self.facts, unfilterable)
        });
        for (_, anchor) in anchors {
            self.judge_file(anchor, target, |ruleset| {
                refusals_of_anchor(ruleset, &self.facts, unfilterable)
            });
        }
    }

    /// Judges a file; what weir says of it beyond single constructs is `more`.
    fn judge_file(
        &self,
        compiled: &mut Compiled,
        target: Target,
        more: impl FnOnce(&Ruleset) -> Vec<Diagnostic>,
    ) {
        // Of weir it is said below, of every construct, and other systems run what weir does not.
        let is_of_weir = |found: &Diagnostic| {
            found.code == Code::CannotRun && found.severity == Severity::Warning
        };
        compiled.diagnostics.retain(|found| !is_of_weir(found));
        let ruleset = &compiled.ruleset;
        let mut found = match target {
            Target::Weir => {
                let mut found = weir_fw::refusals(ruleset);
                if compiled.error_count == 0 {
                    found.extend(more(ruleset));
                }
                found
            }
            Target::Freebsd | Target::Openbsd => {
                let words = weir_words(ruleset).into_iter();
                let error = |(span, message)| Diagnostic::error(Code::CannotRun, span, message);
                let system = target.dialect().unwrap_or(ruleset.dialect);
                words.map(error).chain(system::refusals(compiled, system)).collect()
            }
        };
        found.retain(|found| self.names.is_some() || found.code != Code::UnresolvedHost);
        // What the language warns of, and a system refuses, is said once.
        let is_said = |said: &Diagnostic| match said.code {
            Code::FileMissing => found.iter().any(|one| one.message == said.message),
            Code::Duplicate => found.iter().any(|one| one.span == said.span),
            _ => false,
        };
        compiled.diagnostics.retain(|said| !is_said(said));
        let is_error = |found: &&Diagnostic| found.severity == Severity::Error;
        compiled.error_count += found.iter().filter(is_error).count();
        Self::add(compiled, found);
    }

    /// Puts what is suspicious in a ruleset among its diagnostics, by place, up to the limit on
    /// their number. What compiling says of a place stands first. Of a ruleset with errors nothing
    /// is added: a rule that was read in part says too little to be certain.
    pub(crate) fn examine(&self, compiled: &mut Compiled) {
        if compiled.error_count > 0 {
            return;
        }
        let found = check::check(compiled, &self.facts);
        Self::add(compiled, found);
    }

    /// Adds diagnostics by place, up to the limit on their number.
    fn add(compiled: &mut Compiled, mut found: Vec<Diagnostic>) {
        let room =
            Limits::default().diagnostic_count_max.saturating_sub(compiled.diagnostics.len());
        compiled.dropped_count += found.len().saturating_sub(room);
        found.truncate(room);
        compiled.diagnostics.append(&mut found);
        compiled
            .diagnostics
            .sort_by_key(|diagnostic| (diagnostic.span.file, diagnostic.span.start));
    }
}
