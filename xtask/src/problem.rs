//! One finding of a check, printed as compilers do, so that editors can jump to it.

use std::fmt;

/// Something that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Path relative to the repository.
    pub(crate) path: String,
    /// Line, from 1; absent when it is about the file as a whole.
    pub(crate) line: Option<usize>,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Problem {
    /// A finding about a file as a whole.
    pub(crate) fn file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    /// A finding at a line (from 1).
    pub(crate) fn line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.path, self.message),
            None => write!(formatter, "{}: {}", self.path, self.message),
        }
    }
}
