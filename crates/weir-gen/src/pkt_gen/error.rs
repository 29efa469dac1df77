//! Why a pkt-gen command line cannot be honoured.

use std::fmt;

use weir_wire::stream::StreamError;

/// Why a pkt-gen command line cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PktGenError {
    /// The letter is not an option.
    #[error("-{0} is not an option of pkt-gen: `-h` lists them")]
    Unknown(char),
    /// pkt-gen has no long options.
    #[error("`{0}` is not an option: pkt-gen's are single letters, `-h` lists them")]
    Long(String),
    /// A word that belongs to no option.
    #[error("`{0}` does not belong to an option: pkt-gen takes only options")]
    Operand(String),
    /// The argument is not text.
    #[error("`{0}` is not UTF-8 text")]
    Text(String),
    /// The argument is missing.
    #[error("-{letter} needs an argument: -{letter} {name}")]
    ValueMissing {
        /// The option.
        letter: char,
        /// What to call its argument.
        name: &'static str,
    },
    /// An option that is given once too often.
    #[error("-{letter} is given more than {count} times")]
    TooOften {
        /// The option.
        letter: char,
        /// How often it may be given.
        count: usize,
    },
    /// The argument is wrong.
    #[error("-{letter} {text}: {reason}")]
    Value {
        /// The option.
        letter: char,
        /// The argument.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The option is refused.
    #[error("{option} is refused: {reason}")]
    Refused {
        /// The option, with its argument where that matters.
        option: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// There is no interface.
    #[error("no interface was given: -i INTERFACE")]
    InterfaceMissing,
    /// Options that do not go together.
    #[error("{0}")]
    Together(String),
    /// The packets cannot be sent.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl PktGenError {
    /// A wrong argument.
    pub(super) fn value(letter: char, text: &str, reason: &(impl fmt::Display + ?Sized)) -> Self {
        Self::Value { letter, text: text.to_owned(), reason: reason.to_string() }
    }
}
