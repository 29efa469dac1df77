//! The texts that an editor has open, read as rulesets.
//!
//! What is open takes the place of the file on the disk, also where another file includes it. A
//! text that another open one includes is read as part of that one, where its macros are known.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use gen_lsp_types::{
    Code, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, Position, Range,
    Uri,
};
use weir_rules::diagnostic::{self, Severity};
use weir_rules::source::{FileId, SourceProvider, Span};

use super::analysis::{Analysis, Hover, Target};
use super::place::{self, Lines};
use crate::fw::files;
use crate::fw::load::Language;
use crate::fw::show;

/// Who found what is wrong.
const SOURCE: &str = "weir";

/// An open text.
pub(super) struct Document {
    pub(super) uri: Uri,
    pub(super) version: i32,
    pub(super) text: String,
    /// What came of reading it; `None` if it has changed since.
    read: Option<Read>,
}

/// A ruleset that was read, and its files by their [`FileId`].
struct Read {
    analysis: Analysis,
    files: Vec<(Uri, Lines)>,
    /// Paths by the names that the ruleset has for them.
    paths: HashMap<String, PathBuf>,
    /// All paths that were looked for.
    looked_for: BTreeSet<PathBuf>,
}

/// All open texts, by their URIs.
pub(super) struct Workspace {
    language: Language,
    documents: BTreeMap<String, Document>,
    /// Whether the editor shows related places itself.
    shows_related: bool,
}

impl Workspace {
    pub(super) fn new(language: Language, shows_related: bool) -> Self {
        Self { language, documents: BTreeMap::new(), shows_related }
    }

    /// Opens a text, or replaces it.
    pub(super) fn open(&mut self, uri: Uri, version: i32, text: String) {
        self.forget(&uri);
        let key = uri.0.clone();
        self.documents.insert(key, Document { uri, version, text, read: None });
    }

    /// Changes a text: all of it, or what is in a range. Whether it is open.
    pub(super) fn change(
        &mut self,
        uri: &Uri,
        version: i32,
        changes: Vec<(Option<Range>, String)>,
    ) -> bool {
        self.forget(uri);
        let Some(document) = self.documents.get_mut(&uri.0) else { return false };
        document.version = version;
        for (range, text) in changes {
            let Some(range) = range else {
                document.text = text;
                continue;
            };
            let lines = Lines::new(&document.text);
            let start = lines.offset(&document.text, range.start);
            let end = lines.offset(&document.text, range.end).max(start);
            document.text.replace_range(start..end, &text);
        }
        true
    }

    pub(super) fn close(&mut self, uri: &Uri) {
        self.forget(uri);
        self.documents.remove(&uri.0);
    }

    pub(super) fn get(&self, uri: &str) -> Option<&Document> {
        self.documents.get(uri)
    }

    /// A text changes: it, and all that have looked for it, are to be read anew.
    fn forget(&mut self, uri: &Uri) {
        let path = place::path(uri);
        for document in self.documents.values_mut() {
            let has_read = |read: &Read| path.as_ref().is_some_and(|p| read.looked_for.contains(p));
            if document.uri == *uri || document.read.as_ref().is_some_and(has_read) {
                document.read = None;
            }
        }
    }

    /// Reads what has changed.
    pub(super) fn refresh(&mut self) {
        let stale: Vec<String> = (self.documents.iter())
            .filter(|(_, document)| document.read.is_none())
            .map(|(key, _)| key.clone())
            .collect();
        for key in stale {
            let read = self.read(&self.documents[&key]);
            if let Some(document) = self.documents.get_mut(&key) {
                document.read = Some(read);
            }
        }
    }

    fn read(&self, document: &Document) -> Read {
        let open = self.documents.values();
        let open =
            open.filter_map(|document| Some((place::path(&document.uri)?, document.text.as_str())));
        let path = place::path(&document.uri);
        let name = match &path {
            Some(path) => path.display().to_string(),
            None => document.uri.0.clone(),
        };
        let provider = Overlay { open: open.collect(), seen: RefCell::default() };
        if let Some(path) = &path {
            provider.seen.borrow_mut().paths.insert(name.clone(), path.clone());
        }
        let bytes = document.text.as_bytes();
        let mut compiled = self.language.compile_with(&name, bytes, &provider);
        self.language.examine(&mut compiled);
        let Seen { paths, looked_for } = provider.seen.into_inner();
        let files = compiled.sources.files().iter().enumerate().map(|(index, file)| {
            let uri = match paths.get(&file.name) {
                _ if index == 0 => document.uri.clone(),
                Some(path) => self.uri(path),
                None => Uri(file.name.clone()),
            };
            (uri, Lines::new(&file.text))
        });
        let files = files.collect();
        Read { analysis: Analysis { compiled }, files, paths, looked_for }
    }

    /// The URI of a path: the editor's own, if it has it open.
    fn uri(&self, path: &Path) -> Uri {
        let mut open = self.documents.values().map(|document| &document.uri);
        let found = open.find(|uri| place::path(uri).as_deref() == Some(path));
        found.cloned().unwrap_or_else(|| place::uri(path))
    }

    /// Rulesets of their own: those that no other open text includes. Of texts that include each
    /// other, the first is one.
    fn roots(&self) -> impl Iterator<Item = &Document> {
        let includes = |outer: &Document, inner: &Document| {
            let files = outer.read.as_ref().map_or(&[][..], |read| &read.files);
            files.iter().skip(1).any(|(uri, _)| *uri == inner.uri)
        };
        self.documents.values().filter(move |document| {
            !self.documents.values().any(|other| {
                let is_other = other.uri != document.uri;
                is_other
                    && includes(other, document)
                    && (!includes(document, other) || other.uri.0 < document.uri.0)
            })
        })
    }

    /// What is wrong, by file: every open text is there, if only with nothing.
    pub(super) fn diagnostics(&self) -> BTreeMap<String, Vec<Diagnostic>> {
        let mut all: BTreeMap<String, Vec<Diagnostic>> =
            self.documents.keys().map(|uri| (uri.clone(), Vec::new())).collect();
        for document in self.roots() {
            let Some(read) = &document.read else { continue };
            let compiled = &read.analysis.compiled;
            for diagnostic in &compiled.diagnostics {
                let Some(location) = read.location(diagnostic.span) else { continue };
                let list = all.entry(location.uri.0.clone()).or_default();
                let shown = self.diagnostic(read, diagnostic, location.range);
                // A file that is included twice says what is wrong with it twice.
                if !list.contains(&shown) {
                    list.push(shown);
                }
            }
            if compiled.dropped_count > 0 {
                let message = format!("and {} more findings", compiled.dropped_count);
                let list = all.entry(document.uri.0.clone()).or_default();
                list.push(Diagnostic {
                    severity: Some(DiagnosticSeverity::Information),
                    source: Some(SOURCE.to_owned()),
                    message: message.into(),
                    ..Diagnostic::default()
                });
            }
        }
        all
    }

    fn diagnostic(
        &self,
        read: &Read,
        diagnostic: &diagnostic::Diagnostic,
        range: Range,
    ) -> Diagnostic {
        let mut message = diagnostic.message.clone();
        for advice in show::advice(diagnostic) {
            message.push_str("\nhelp: ");
            message.push_str(&advice);
        }
        let mut related = Vec::new();
        if !diagnostic.label.is_empty() {
            related.extend(read.related(diagnostic.span, &diagnostic.label));
        }
        for label in &diagnostic.related {
            related.extend(read.related(label.span, &label.text));
        }
        if !self.shows_related {
            let sources = &read.analysis.compiled.sources;
            for label in &diagnostic.related {
                message.push_str(&format!("\n{}: {}", sources.place(label.span), label.text));
            }
            related.clear();
        }
        Diagnostic {
            range,
            severity: Some(match diagnostic.severity {
                Severity::Error => DiagnosticSeverity::Error,
                Severity::Warning => DiagnosticSeverity::Warning,
                Severity::Note => DiagnosticSeverity::Information,
            }),
            code: Some(Code::String(diagnostic.code.as_str().to_owned())),
            source: Some(SOURCE.to_owned()),
            message: message.into(),
            related_information: Some(related).filter(|list| !list.is_empty()),
            ..Diagnostic::default()
        }
    }

    /// The rulesets that a text is in, and which of their files it is.
    fn readings(&self, uri: &Uri) -> Vec<(&Read, FileId)> {
        let reads = self.roots().filter_map(|root| root.read.as_ref());
        let places = reads.flat_map(|read| {
            let files = read.files.iter().zip(0_u32..);
            files.filter(|((name, _), _)| name == uri).map(move |(_, id)| (read, FileId(id)))
        });
        places.collect()
    }

    /// What is at a place of an open text.
    pub(super) fn hover(&self, uri: &Uri, position: Position) -> Option<(Hover, Range)> {
        self.readings(uri).into_iter().find_map(|(read, file)| {
            let at = read.offset(file, position)?;
            let hover = read.analysis.hover(file, at, &self.language.facts)?;
            let range = read.location(hover.span)?.range;
            Some((hover, range))
        })
    }

    /// Where what is at a place of an open text is defined.
    pub(super) fn definitions(&self, uri: &Uri, position: Position) -> Vec<Location> {
        for (read, file) in self.readings(uri) {
            let Some(at) = read.offset(file, position) else { continue };
            let targets = read.analysis.definitions(file, at);
            let places = targets.iter().filter_map(|target| match target {
                Target::Words(span) => read.location(*span),
                Target::File(name, _) => {
                    let path = read.paths.get(&**name)?;
                    Some(Location { uri: self.uri(path), range: Range::default() })
                }
            });
            let places: Vec<Location> = places.collect();
            if !places.is_empty() {
                return places;
            }
        }
        Vec::new()
    }
}

impl Read {
    fn location(&self, span: Span) -> Option<Location> {
        let file = self.analysis.compiled.sources.file(span.file)?;
        let (uri, lines) = self.files.get(usize::try_from(span.file.0).ok()?)?;
        Some(Location { uri: uri.clone(), range: lines.range(&file.text, span) })
    }

    fn offset(&self, file: FileId, position: Position) -> Option<u32> {
        let text = &self.analysis.compiled.sources.file(file)?.text;
        let (_, lines) = self.files.get(usize::try_from(file.0).ok()?)?;
        u32::try_from(lines.offset(text, position)).ok()
    }

    fn related(&self, span: Span, text: &str) -> Option<DiagnosticRelatedInformation> {
        let location = self.location(span)?;
        Some(DiagnosticRelatedInformation { location, message: text.to_owned() })
    }
}

/// Files on the disk, below those that are open.
struct Overlay<'a> {
    open: BTreeMap<PathBuf, &'a str>,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    paths: HashMap<String, PathBuf>,
    looked_for: BTreeSet<PathBuf>,
}

impl SourceProvider for Overlay<'_> {
    /// From the working directory as pfctl, or else beside the file that names it.
    fn read(&self, path: &str, from: &str) -> Result<Vec<u8>, String> {
        let mut seen = self.seen.borrow_mut();
        let beside = seen.paths.get(from).and_then(|base| Some(base.parent()?.join(path)));
        let mut first_error = None;
        for candidate in [Some(PathBuf::from(path)), beside].into_iter().flatten() {
            let Ok(candidate) = std::path::absolute(candidate) else { continue };
            seen.looked_for.insert(candidate.clone());
            let found = match self.open.get(&candidate) {
                Some(text) => Ok(text.as_bytes().to_vec()),
                None => files::read(&candidate),
            };
            match found {
                Ok(bytes) => {
                    seen.paths.insert(path.to_owned(), candidate);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    first_error.get_or_insert(error);
                }
                Err(error) => return Err(files::message(&error)),
            }
        }
        Err(first_error.map_or_else(|| "no such file".to_owned(), |error| files::message(&error)))
    }
}
