//! A file of streams: TOML with a table `[[stream]]` for each, whose keys are those of
//! [`describe::FIELDS`].
//!
//! ```toml
//! [[stream]]
//! name = "legitimate"
//! src = "198.18.10.1:2000-198.18.10.70"
//! dst = "198.19.10.1:2000-198.19.10.70"
//! size = "imix"
//! weight = 9
//!
//! [[stream]]
//! name = "attack"
//! src = "198.18.20.1:1024-198.18.20.250:65535"
//! dst = "198.19.10.1:80"
//! proto = "tcp"
//! random = true
//! ```
//!
//! Text comes in as an argument: nothing here opens a file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use weir_wire::describe::{self, Description, FieldError};

/// Most streams of a file: their numbers have eight bits in the signature.
pub(crate) const STREAM_COUNT_MAX: usize = 256;

/// Why a text is no list of streams.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct StreamFileError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// A stream of a file, and where its fields stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStream {
    /// What was written.
    pub description: Description,
    line: usize,
    lines: Vec<(&'static str, usize)>,
}

impl FileStream {
    /// Says in which line a field stands that cannot be honoured.
    #[must_use]
    pub fn locate(&self, error: &FieldError) -> StreamFileError {
        let found = self.lines.iter().find(|(field, _)| *field == error.field);
        let line = found.map_or(self.line, |(_, line)| *line);
        StreamFileError { line, message: format!("`{}`: {}", error.field, error.message) }
    }
}

/// Reads the tables of a file, in their order.
///
/// # Errors
/// [`StreamFileError`] if the text is not TOML, has another key than `stream`, no stream or too
/// many, or if a table has an unknown key or a value that is neither text, number nor boolean.
pub fn read(text: &str) -> Result<Vec<FileStream>, StreamFileError> {
    let at = |span: Range<usize>, message: String| StreamFileError {
        line: text[..span.start.min(text.len())].matches('\n').count() + 1,
        message,
    };
    let file = DeTable::parse(text)
        .map_err(|error| at(error.span().unwrap_or(0..0), error.message().to_owned()))?;
    let mut streams = Vec::new();
    for (key, value) in file.get_ref() {
        let DeValue::Array(tables) = value.get_ref() else {
            return Err(at(key.span(), unknown_table(key.get_ref())));
        };
        if key.get_ref() != "stream" {
            return Err(at(key.span(), unknown_table(key.get_ref())));
        }
        for table in tables {
            let DeValue::Table(fields) = table.get_ref() else {
                return Err(at(table.span(), "`stream` must be a list of tables".to_owned()));
            };
            streams.push(stream(fields, &table.span(), &at)?);
        }
    }
    match streams.len() {
        0 => Err(at(0..0, "there is no stream: write a table `[[stream]]`".to_owned())),
        1..=STREAM_COUNT_MAX => Ok(streams),
        count => Err(at(
            text.len()..text.len(),
            format!("{count} streams are too many: at most {STREAM_COUNT_MAX}"),
        )),
    }
}

fn unknown_table(key: &str) -> String {
    format!("`{key}` is not known here: a file of streams has tables `[[stream]]`")
}

fn stream(
    fields: &DeTable<'_>,
    span: &Range<usize>,
    at: &impl Fn(Range<usize>, String) -> StreamFileError,
) -> Result<FileStream, StreamFileError> {
    let mut description = Description::default();
    let mut lines = Vec::new();
    for (key, value) in fields {
        let Some(field) = Description::field(key.get_ref()) else {
            let known: Vec<&str> = describe::FIELDS.iter().map(|field| field.name).collect();
            let message =
                format!("`{}` is not a field of a stream: {}", key.get_ref(), known.join(", "));
            return Err(at(key.span(), message));
        };
        let Some(text) = text_of(value) else {
            let message = format!("`{field}`: write text, a decimal number, or true or false");
            return Err(at(value.span(), message));
        };
        description.set(field, text);
        lines.push((field, at(key.span(), String::new()).line));
    }
    Ok(FileStream { description, line: at(span.clone(), String::new()).line, lines })
}

fn text_of(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.clone().into_owned()),
        // The text of another base lacks its prefix: it would be read as another number.
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::describe::Macs;
    use weir_wire::mac::MacAddr;

    const GOOD: &str = "\
# Two streams.
[[stream]]
src = \"198.18.10.1\"
dst = \"198.19.10.1\"
size = 128
weight = 3

[[stream]]
name = \"attack\"
src = \"198.18.20.1\"
dst = \"198.19.10.1:80\"
proto = \"tcp\"
random = true
";

    #[test]
    fn tables_become_streams() {
        let streams = read(GOOD).expect("it is good");
        assert_eq!(streams.len(), 2);
        assert_eq!(streams[0].description.get("size"), Some("128"));
        assert_eq!(streams[0].description.get("weight"), Some("3"));
        assert_eq!(streams[1].description.get("random"), Some("true"));
        assert_eq!(streams[1].description.get("name"), Some("attack"));
    }

    #[test]
    fn what_is_wrong_is_found() {
        let refused = |from: &str, to: &str| {
            assert!(GOOD.contains(from), "{from}");
            let error = read(&GOOD.replace(from, to)).expect_err("it is refused");
            (error.line, error.message)
        };
        assert_eq!(refused("size", "siez").0, 5);
        assert!(refused("size", "siez").1.contains("dst_mac"));
        assert_eq!(refused("128", "[1]").0, 5);
        assert!(refused("128", "0x80").1.contains("decimal"));
        assert_eq!(refused("= 128", "= ").0, 5);
        assert_eq!(refused("# Two", "two = 2 #").0, 1);
        assert!(read("").expect_err("empty").message.contains("[[stream]]"));
        let streams = read(&GOOD.replace("tcp", "sctp")).expect("each field is a text");
        let macs = Macs { src: MacAddr([2; 6]), dst: MacAddr([2; 6]) };
        let error = streams[1].description.spec(1, macs).expect_err("no such protocol");
        assert_eq!(streams[1].locate(&error).line, 12);
        let missing = read("\n[[stream]]\nsrc = \"198.18.10.1\"\n").expect("readable");
        let error = missing[0].description.spec(0, macs).expect_err("no destination");
        assert_eq!(missing[0].locate(&error).line, 2);
    }
}
