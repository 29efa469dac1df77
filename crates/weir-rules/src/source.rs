//! Files as values: identities, byte ranges, lines and columns, and where `include` takes its
//! bytes from. Nothing is opened here.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A file of one compilation; the first is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileId(pub u32);

/// Bytes `start..end` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end` of `file`.
    #[must_use]
    pub fn new(file: FileId, start: u32, end: u32) -> Self {
        Self { file, start, end }
    }

    /// From the start of `self` to the end of `last`; `self` alone where that is another file or
    /// lies before.
    #[must_use]
    pub fn to(self, last: Self) -> Self {
        if last.file == self.file && last.end > self.start {
            Self { end: last.end.max(self.end), ..self }
        } else {
            self
        }
    }
}

/// A line and a column, both from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
}

/// A file that was read.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The name as given on the command line or by `include`.
    pub name: String,
    /// Its text; bytes that are not UTF-8 are replaced one by one, so that offsets stay.
    pub text: Arc<str>,
    line_starts: Vec<u32>,
}

impl SourceFile {}

/// The files of one compilation.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a file. Bytes that are not UTF-8 become `?`, one for one, so that offsets stay true.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> FileId {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => lossy(bytes),
        };
        let mut line_starts = vec![0];
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        line_starts.extend(newlines.map(|(at, _)| offset(at + 1)));
        let id = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        self.files.push(SourceFile { name: name.to_owned(), text: text.into(), line_starts });
        id
    }

    /// All files, in the order of their identities.
    #[must_use]
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// All files with their identities, in order.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        (0..).map(FileId).zip(&self.files)
    }

    /// A file by its identity.
    #[must_use]
    pub fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(usize::try_from(id.0).ok()?)
    }

    /// Where an offset of a file is.
    #[must_use]
    pub fn position(&self, file: FileId, at: u32) -> Position {
        let Some(file) = self.file(file) else {
            return Position { line: 1, column: 1 };
        };
        let line = file.line_starts.partition_point(|start| *start <= at).max(1);
        let start = index(file.line_starts[line - 1]);
        let before = file.text.get(start..index(at)).unwrap_or("");
        Position { line: offset(line), column: offset(before.chars().count() + 1) }
    }

    /// Where a span begins.
    #[must_use]
    pub fn start(&self, span: Span) -> Position {
        self.position(span.file, span.start)
    }

    /// The words under a span; empty if it is in no file.
    #[must_use]
    pub fn text(&self, span: Span) -> &str {
        let text = self.file(span.file).map_or("", |file| &file.text);
        text.get(index(span.start)..index(span.end)).unwrap_or("")
    }

    /// `file:line`, as pfctl begins its messages.
    #[must_use]
    pub fn place(&self, span: Span) -> String {
        let name = self.file(span.file).map_or("?", |file| &file.name);
        format!("{name}:{}", self.start(span).line)
    }
}

/// Replaces each byte that is not part of valid UTF-8 by `?`.
fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

/// An offset as the spans hold it. Sources are limited to 1 GiB, so nothing is lost.
pub(crate) fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

pub(crate) fn index(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// Where `include`, `load anchor`, `set fingerprints` and table files take their bytes from.
pub trait SourceProvider {
    /// The bytes of `path`, as it is written in the file `from`.
    ///
    /// # Errors
    ///
    /// Says why there are none, in words that go into the diagnostic.
    fn read(&self, path: &str, from: &str) -> Result<Vec<u8>, String>;
}

/// Files in memory. An empty one has none, which makes every `include` an error.
#[derive(Debug, Clone, Default)]
pub struct MemorySources {
    files: BTreeMap<String, Vec<u8>>,
}

impl MemorySources {
    /// Adds or replaces a file.
    #[must_use]
    pub fn with(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.to_owned(), bytes.into());
        self
    }
}

impl SourceProvider for MemorySources {
    fn read(&self, path: &str, _from: &str) -> Result<Vec<u8>, String> {
        self.files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }
}
