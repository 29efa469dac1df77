//! The values of a dataset's text, as ministat reads it: one column, and `#` before a comment.
//!
//! White space at a line's end does not count. The rest is cut at any of the delimiters, several of
//! them in a row counting as one (`strtok(3)`); a field that begins with `#` ends the line, and a
//! line without the column wanted is passed over. Numbers are C's (`strtod(3)`).
//!
//! ministat reads lines into a buffer and takes what does not fit for another line, and it carries
//! on with infinities until they break the plot. Both are refused here, with file and line.

use super::{VALUES_MIN, Version};
use crate::number;

/// Where the values stand in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout<'a> {
    /// Which column, from 1 (`-C`).
    pub column: usize,
    /// Bytes that separate columns (`-d`).
    pub delimiters: &'a [u8],
    /// Whose buffer a line has to fit in.
    pub version: Version,
}

impl Default for Layout<'_> {
    /// The first column of those that spaces and tabs separate.
    fn default() -> Self {
        Self { column: 1, delimiters: b" \t", version: Version::Current }
    }
}

impl Layout<'_> {
    /// The longest line in bytes, its end included: one less than `BUFSIZ` of the system on which
    /// that version runs, FreeBSD or Debian.
    #[must_use]
    pub(crate) const fn line_bytes_max(&self) -> usize {
        match self.version {
            Version::Current => 1023,
            Version::Of2015 => 8191,
        }
    }
}

/// Why a text is no dataset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// A field is not a number.
    #[error("Invalid data on line {line} in {name}")]
    Invalid {
        /// Line, from 1.
        line: usize,
        /// The dataset.
        name: String,
    },
    /// A field is an infinity, a NaN, or a number that is too large.
    #[error("Value on line {line} in {name} is not a finite number")]
    NotFinite {
        /// Line, from 1.
        line: usize,
        /// The dataset.
        name: String,
    },
    /// A line does not fit the buffer.
    #[error("Line {line} in {name} is longer than {max} bytes")]
    LineTooLong {
        /// Line, from 1.
        line: usize,
        /// The dataset.
        name: String,
        /// The longest there may be, bytes.
        max: usize,
    },
    /// There are fewer than [`VALUES_MIN`] values.
    #[error("Dataset {0} must contain at least 3 data points")]
    TooFewValues(String),
}

/// The values of the text `bytes`, in their order; `name` is for the messages.
///
/// # Errors
///
/// [`DatasetError`], with the first line that is wrong.
pub fn read(bytes: &[u8], name: &str, layout: &Layout<'_>) -> Result<Vec<f64>, DatasetError> {
    let max = layout.line_bytes_max();
    let mut values = Vec::new();
    for (text, line) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        let name = || name.to_owned();
        if text.len() > max {
            return Err(DatasetError::LineTooLong { line, name: name(), max });
        }
        let Some(field) = field(text, layout) else { continue };
        match number::parse(field) {
            None => return Err(DatasetError::Invalid { line, name: name() }),
            Some(value) if !value.is_finite() => {
                return Err(DatasetError::NotFinite { line, name: name() });
            }
            Some(value) => values.push(value),
        }
    }
    if values.len() < VALUES_MIN {
        return Err(DatasetError::TooFewValues(name.to_owned()));
    }
    Ok(values)
}

/// The field of a line that is wanted, if it is there.
fn field<'a>(line: &'a [u8], layout: &Layout<'_>) -> Option<&'a [u8]> {
    // C's strings end at a zero byte.
    let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
    let end = line[..end].iter().rposition(|byte| !number::is_space(*byte)).map_or(0, |at| at + 1);
    line[..end]
        .split(|byte| layout.delimiters.contains(byte))
        .filter(|field| !field.is_empty())
        .take_while(|field| field[0] != b'#')
        .nth(layout.column.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str, layout: &Layout<'_>) -> Result<Vec<f64>, String> {
        read(text.as_bytes(), "s", layout).map_err(|error| error.to_string())
    }

    #[test]
    fn one_column_without_comments() {
        let text = "# pps\n\n1 # one\n  2\t8 \r\n#9\n3\n4 # 5";
        assert_eq!(values(text, &Layout::default()), Ok(vec![1.0, 2.0, 3.0, 4.0]));
        let layout = Layout { column: 2, delimiters: b",;", ..Layout::default() };
        assert_eq!(values("a,1\nb;;2\nc\n,d,3,x\n,#,4\n", &layout), Ok(vec![1.0, 2.0, 3.0]));
    }

    #[test]
    fn what_c_takes_for_a_number() {
        let text = "0x1.8p1\n.5\n5.\n-1e-3\n+7\n\x0b8\n9\x0b\n10\0x\n";
        let expected = vec![3.0, 0.5, 5.0, -0.001, 7.0, 8.0, 9.0, 10.0];
        assert_eq!(values(text, &Layout::default()), Ok(expected));
    }

    #[test]
    fn refusals_name_line_and_file() {
        let layout = Layout::default();
        let message = |text: &str| values(text, &layout).unwrap_err();
        for bad in ["x", "1e", "1,5", "0x", "--1", "1_0", "\u{fc}"] {
            let text = format!("# c\n1\n{bad}\n");
            assert_eq!(message(&text), "Invalid data on line 3 in s", "{bad}");
        }
        for bad in ["inf", "-Infinity", "nan", "1e999"] {
            let text = format!("1\n{bad}\n");
            assert_eq!(message(&text), "Value on line 2 in s is not a finite number", "{bad}");
        }
        let few = "Dataset s must contain at least 3 data points";
        assert_eq!(message("1\n2\n"), few);
        assert_eq!(message(""), few);
        let long = format!("1\n#{}\n", "-".repeat(1021));
        assert_eq!(message(&long), few, "the longest line");
        let long = format!("1\n#{}\n", "-".repeat(1022));
        assert_eq!(message(&long), "Line 2 in s is longer than 1023 bytes");
        let layout = Layout { version: Version::Of2015, ..layout };
        assert_eq!(values(&long, &layout), Err(few.to_owned()));
        let spaces = Layout { delimiters: b",", ..Layout::default() };
        assert_eq!(values("1 ,2\n", &spaces), Err("Invalid data on line 1 in s".to_owned()));
    }

    proptest! {
        #[test]
        fn reads_what_was_written(
            numbers in prop::collection::vec(prop::num::f64::NORMAL, 3..30), column in 1_usize..4
        ) {
            let line = |number: &f64| format!("{}{number:e} # {number}\n", "0 ".repeat(column - 1));
            let text: String = numbers.iter().map(line).collect();
            let layout = Layout { column, ..Layout::default() };
            prop_assert_eq!(values(&text, &layout), Ok(numbers));
        }

        #[test]
        fn never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..2000), column in 0_usize..4
        ) {
            let layout = Layout { column, ..Layout::default() };
            if let Ok(values) = read(&bytes, "s", &layout) {
                prop_assert!(values.len() >= VALUES_MIN && values.iter().all(|v| v.is_finite()));
            }
        }
    }
}
