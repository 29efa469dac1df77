//! Reads a file of fingerprints (pf.os(5)) as pfctl_osfp.c does. Where that takes what no SYN can
//! have, and goes on, this refuses it: unknown options, and numbers that do not fit.

use std::ops::Range;

use super::syn::Kind;
use super::{
    FINGERPRINT_COUNT_MAX, Fingerprints, Number, Order, SYSTEM_COUNT_MAX, Signature, Window,
};

/// Longest name of a class, a version or a subtype (PF_OSFP_LEN is 32).
const NAME_SIZE_MAX: usize = 31;
/// Largest packet.
const SIZE_BYTES_MAX: u32 = 8192;
/// What the header of IPv6 is larger by.
const INET6_MORE_BYTES: u16 = 20;
/// A class that pfctl keeps for itself.
const RESERVED_CLASS: &str = "nomatch";
const FIELDS: &str = "window:TTL:DF:size:options:class:version:subtype:description";

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// The bytes that it is about.
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

/// A field of a line, with its place in the file.
#[derive(Clone, Copy)]
struct Field<'a> {
    text: &'a str,
    start: usize,
}

impl<'a> Field<'a> {
    fn trimmed(self) -> Self {
        let text = self.text.trim_start();
        let start = self.start + (self.text.len() - text.len());
        Field { text: text.trim_end(), start }
    }

    /// The parts between a separator.
    fn split(self, separator: char) -> impl Iterator<Item = Field<'a>> {
        let mut start = self.start;
        self.text.split(separator).map(move |text| {
            let part = Field { text, start };
            start += text.len() + separator.len_utf8();
            part
        })
    }

    fn behind(self, count: usize) -> Self {
        let count = count.min(self.text.len());
        Field { text: self.text.get(count..).unwrap_or(""), start: self.start + count }
    }

    fn problem<T>(self, message: String) -> Result<T, Problem> {
        Err(Problem { at: self.start..self.start + self.text.len(), message })
    }

    /// A number up to `max`.
    fn number(self, what: &str, max: u32) -> Result<u16, Problem> {
        let is_number = !self.text.is_empty() && self.text.bytes().all(|c| c.is_ascii_digit());
        if !is_number {
            return self.problem(format!("`{}` is not a {what}", self.text));
        }
        let number = self.text.parse::<u32>().ok().filter(|number| *number <= max);
        match number.and_then(|number| u16::try_from(number).ok()) {
            Some(number) => Ok(number),
            None => self.problem(format!("{what} {} is above {max}", self.text)),
        }
    }

    /// `*`, a number, or `%` and a number.
    fn comparison(self, what: &str, max: u32) -> Result<Number, Problem> {
        if self.text == "*" {
            return Ok(Number::Any);
        }
        if self.text.starts_with('%') {
            return Ok(Number::MultipleOf(self.behind(1).number(what, max)?));
        }
        Ok(Number::Equal(self.number(what, max)?))
    }
}

/// Reads a file.
///
/// # Errors
///
/// What is wrong with each of its lines.
pub(super) fn read(text: &str) -> Result<Fingerprints, Vec<Problem>> {
    let mut found = Fingerprints::default();
    let mut problems = Vec::new();
    for line in (Field { text, start: 0 }).split('\n') {
        let content = line.text.split('#').next().unwrap_or("");
        let line = Field { text: content, ..line }.trimmed();
        if line.text.is_empty() {
            continue;
        }
        if let Err(problem) = add_line(&mut found, line) {
            problems.push(problem);
        }
        if found.list.len() > FINGERPRINT_COUNT_MAX || found.count > SYSTEM_COUNT_MAX {
            let message = format!(
                "more than {FINGERPRINT_COUNT_MAX} fingerprints, or {SYSTEM_COUNT_MAX} systems"
            );
            problems.extend(line.problem::<()>(message).err());
            break;
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

fn add_line(found: &mut Fingerprints, line: Field<'_>) -> Result<(), Problem> {
    let mut fields: Vec<Field<'_>> = line.split(':').map(Field::trimmed).collect();
    // What ends the last field is no field.
    if fields.len() == 10 && fields[9].text.is_empty() {
        fields.pop();
    }
    let [window, ttl, df, size, options, class, version, subtype, description] = fields[..] else {
        let count = fields.len();
        return line.problem(format!("a fingerprint has 9 fields, and not {count}: {FIELDS}"));
    };
    let mut signature = Signature {
        window: window_of(window)?,
        ttl: u8::try_from(ttl.number("TTL", 255)?).unwrap_or(u8::MAX),
        df: df.number("don't-fragment bit", 1)? != 0,
        size_bytes: size.comparison("size of a packet", SIZE_BYTES_MAX)?,
        order: Order::default(),
        mss: Number::Any,
        wscale: Number::Any,
        zero_timestamp: false,
        is_inet6: false,
    };
    read_options(options, &mut signature)?;
    if description.text.len() < 2 {
        return description.problem("the description is missing".to_owned());
    }
    // Both marks are for other programs.
    let name = class.text.strip_prefix(['@', '*']).unwrap_or(class.text);
    if name.is_empty() {
        return class.problem("the class is missing".to_owned());
    }
    if name.eq_ignore_ascii_case(RESERVED_CLASS) {
        return class.problem(format!("the class `{RESERVED_CLASS}` is reserved"));
    }
    if let Some(long) = [class, version, subtype].iter().find(|f| f.text.len() > NAME_SIZE_MAX) {
        return long.problem(format!("a name has at most {NAME_SIZE_MAX} bytes"));
    }
    let names = [name, version.text, subtype.text];
    add(found, signature, names);
    if found.count > SYSTEM_COUNT_MAX {
        return Ok(());
    }
    add(found, of_inet6(signature), names);
    Ok(())
}

/// The same for IPv6, as pfctl makes it.
fn of_inet6(signature: Signature) -> Signature {
    let more = |size: u16| size.saturating_add(INET6_MORE_BYTES);
    let size_bytes = match signature.size_bytes {
        Number::Any => Number::Any,
        Number::Equal(size) => Number::Equal(more(size)),
        Number::MultipleOf(size) => Number::MultipleOf(more(size)),
    };
    Signature { size_bytes, df: true, is_inet6: true, ..signature }
}

/// Adds a system, and before it each that its ranges stand for (`add_fingerprint`).
fn add(found: &mut Fingerprints, signature: Signature, [class, version, subtype]: [&str; 3]) {
    let (of_version, of_subtype) = (range(version), range(subtype));
    let is = |at: &Option<Vec<String>>| at.as_ref().is_some_and(|list| !list.is_empty());
    let with_itself = |list: Option<Vec<String>>, name: &str| {
        let mut list = list.unwrap_or_default();
        list.push(name.to_owned());
        list
    };
    let (has_versions, has_subtypes) = (is(&of_version), is(&of_subtype));
    let subtypes = with_itself(of_subtype, subtype);
    for one in with_itself(of_version, version) {
        for other in &subtypes {
            let is_range = (has_versions && one != version) || (has_subtypes && other != subtype);
            found.add(signature, [class, &one, other], is_range);
            if found.count > SYSTEM_COUNT_MAX {
                return;
            }
        }
    }
}

/// What a range `a-b` or `m.a-m.b` stands for: numbers of one or two digits, the last one up to
/// three.
fn range(name: &str) -> Option<Vec<String>> {
    let (first, last) = name.split_once('-')?;
    let major = |text: &str| {
        let (major, minor) = text.split_once('.')?;
        let is_digit = major.len() == 1 && major.bytes().all(|c| c.is_ascii_digit());
        is_digit.then(|| (major.to_owned(), minor.to_owned()))
    };
    let (prefix, first, last) = match (major(first), major(last)) {
        (Some((one, first)), Some((other, last))) if one == other => (one + ".", first, last),
        (None, _) => (String::new(), first.to_owned(), last.to_owned()),
        _ => return None,
    };
    let number = |text: &str, size_max: usize| {
        let is_number = text.bytes().all(|c| c.is_ascii_digit()) && text.len() <= size_max;
        text.parse::<u32>().ok().filter(|_| is_number)
    };
    let numbers = number(&first, 2)?..=number(&last, 3)?;
    Some(numbers.map(|number| format!("{prefix}{number}")).collect())
}

fn window_of(field: Field<'_>) -> Result<Window, Problem> {
    const WHAT: &str = "size of a window";
    const MAX: u32 = 0xffff;
    let count = |field: Field<'_>| match field.behind(1) {
        // pfctl takes a letter alone, as of none.
        rest if rest.text.is_empty() => Ok(0),
        rest => rest.number("number of segments", MAX),
    };
    match field.text.as_bytes().first() {
        Some(b'S') => Ok(Window::Segments(count(field)?)),
        Some(b'T') => Ok(Window::Packets(count(field)?)),
        _ => Ok(Window::Plain(field.comparison(WHAT, MAX)?)),
    }
}

/// The options in their order; `.` is none.
fn read_options(field: Field<'_>, signature: &mut Signature) -> Result<(), Problem> {
    if field.text == "." {
        return Ok(());
    }
    for option in field.split(',') {
        let value = option.behind(1);
        let letter = option.text.chars().next().map(|letter| letter.to_ascii_uppercase());
        let kind = match (letter, value.text) {
            (Some('N'), "") => Kind::Nop,
            (Some('S'), "") => Kind::Sack,
            (Some('T'), "") => Kind::Timestamp,
            (Some('T'), "0") => {
                signature.zero_timestamp = true;
                Kind::Timestamp
            }
            (Some('M'), _) => {
                signature.mss = value.comparison("size of a segment", 0xffff)?;
                Kind::Mss
            }
            (Some('W'), _) => {
                signature.wscale = value.comparison("scale of a window", 255)?;
                Kind::Wscale
            }
            _ => {
                let text = option.text;
                let message = format!("`{text}` is not a TCP option: N, S, T, T0, M and W are");
                return option.problem(message);
            }
        };
        if signature.order.count >= Order::COUNT_MAX {
            let message = format!("a fingerprint has at most {} options", Order::COUNT_MAX);
            return option.problem(message);
        }
        signature.order.push(kind);
    }
    Ok(())
}
