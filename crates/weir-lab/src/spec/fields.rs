//! Typed access to TOML tables, with positions: every complaint points at the text.
//!
//! An accessor reports what is wrong with its field and returns `None`; a caller that has a
//! default goes on with it, so that one reading finds as many errors as possible.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_wire::units::{parse_count, parse_duration};

use crate::diagnostic::{Report, Source, Span, quote};
use crate::spec::suggest::nearest;

/// A value as text, and where it stands in the specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// The value: a string without its quotes, or a number in plain decimals.
    pub(crate) text: String,
    /// The place of the value, quotes included.
    pub(crate) span: Span,
}

impl Text {
    /// Where a part of the text stands, unless escapes or line ends make that uncertain.
    pub(crate) fn inner(&self, source: &Source, part: Span) -> Option<Span> {
        let start = self.span.start + 1;
        let same = source.text.get(start..self.span.end.checked_sub(1)?)? == self.text;
        same.then(|| start + part.start..start + part.end)
    }
}

/// A table whose fields are known.
pub(crate) struct Fields<'a, 'i> {
    /// What it is, for messages: `[trial]`.
    what: &'a str,
    /// Its header.
    pub(crate) span: Span,
    table: &'a DeTable<'i>,
}

impl<'a, 'i> Fields<'a, 'i> {
    /// The table that `value` is.
    pub(crate) fn of(
        what: &'a str,
        value: &'a Spanned<DeValue<'i>>,
        report: &mut Report,
    ) -> Option<Self> {
        let Some(table) = value.get_ref().as_table() else {
            let found = type_name(value.get_ref());
            report.error(&value.span(), format!("{what} must be a table, not {found}"));
            return None;
        };
        Some(Self { what, span: value.span(), table })
    }

    /// Refuses every field that is not in `known`.
    pub(crate) fn refuse_unknown(&self, known: &[&str], report: &mut Report) {
        for (key, _) in self.in_order() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let help = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has: {}", known.join(", ")),
                };
                let message = format!("unknown field {} in {}", quote(name), self.what);
                report.error_help(&key.span(), message, help);
            }
        }
    }

    /// Every key and value, in the order of the text.
    pub(crate) fn in_order(&self) -> Vec<(&'a Spanned<toml::de::DeString<'i>>, &'a Value<'i>)> {
        in_order(self.table)
    }

    /// A field's key, for complaints about its presence.
    pub(crate) fn key_span(&self, name: &str) -> Option<Span> {
        self.table.get_key_value(name).map(|(key, _)| key.span())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value<'i>> {
        self.table.get(name)
    }

    /// A field that must be there.
    pub(crate) fn required(&self, name: &str, report: &mut Report) -> Option<&'a Value<'i>> {
        let value = self.get(name);
        if value.is_none() {
            report.error(&self.span, format!("{} has no `{name}`", self.what));
        }
        value
    }

    /// A string.
    pub(crate) fn text(&self, name: &str, report: &mut Report) -> Option<Text> {
        let value = self.get(name)?;
        let Some(text) = value.get_ref().as_str() else {
            let found = type_name(value.get_ref());
            report.error(&value.span(), format!("`{name}` must be a text, not {found}"));
            return None;
        };
        Some(Text { text: text.into(), span: value.span() })
    }

    /// A string that must be there.
    pub(crate) fn required_text(&self, name: &str, report: &mut Report) -> Option<Text> {
        self.required(name, report)?;
        self.text(name, report)
    }

    /// A string, or a number as text.
    pub(crate) fn text_or_number(&self, name: &str, report: &mut Report) -> Option<Text> {
        text_or_number(name, self.get(name)?, report)
    }

    /// A string, or a truth value as text.
    pub(crate) fn text_or_boolean(&self, name: &str, report: &mut Report) -> Option<Text> {
        let value = self.get(name)?;
        let text = match value.get_ref() {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Boolean(boolean) => boolean.to_string(),
            other => {
                let message = format!("`{name}` must be true or false, not {}", type_name(other));
                report.error(&value.span(), message);
                return None;
            }
        };
        Some(Text { text, span: value.span() })
    }

    /// A whole number inside a range.
    pub(crate) fn integer(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
        report: &mut Report,
    ) -> Option<u64> {
        let value = self.get(name)?;
        let DeValue::Integer(integer) = value.get_ref() else {
            let found = type_name(value.get_ref());
            report.error(&value.span(), format!("`{name}` must be a whole number, not {found}"));
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let inside = number.filter(|number| range.contains(number));
        if inside.is_none() {
            let (low, high) = range.into_inner();
            let message = format!("`{name}` must be {low} to {high}, not {integer}");
            report.error(&value.span(), message);
        }
        inside
    }

    /// A whole number inside a range, which may be a text: with a multiplier, or substituted.
    pub(crate) fn count(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
        report: &mut Report,
    ) -> Option<u64> {
        let text = match self.get(name)?.get_ref().as_str() {
            Some(text) => text.to_owned(),
            None => return self.integer(name, range, report),
        };
        let inside = parse_count(&text).ok().filter(|number| range.contains(number));
        if inside.is_none() {
            let (low, high) = range.into_inner();
            let message = format!("`{name}` must be {low} to {high}, not {}", quote(&text));
            report.error(&self.span_of(name), message);
        }
        inside
    }

    /// A duration, as text with a unit.
    pub(crate) fn duration(&self, name: &str, report: &mut Report) -> Option<Duration> {
        let value = self.get(name)?;
        let Some(text) = value.get_ref().as_str() else {
            let found = type_name(value.get_ref());
            let message = format!("`{name}` must be a duration, not {found}");
            report.error_help(&value.span(), message, "a text with a unit: \"200ms\", \"3s\"");
            return None;
        };
        match parse_duration(text) {
            Ok(duration) => Some(duration),
            Err(error) => {
                report.error(&value.span(), format!("`{name}`: {error}"));
                None
            }
        }
    }

    /// The field's place, or the table's.
    pub(crate) fn span_of(&self, name: &str) -> Span {
        self.get(name).map_or_else(|| self.span.clone(), Spanned::span)
    }
}

/// A TOML value with its place.
pub(crate) type Value<'i> = Spanned<DeValue<'i>>;

/// Every key and value of a table, in the order of the text.
pub(crate) fn in_order<'a, 'i>(
    table: &'a DeTable<'i>,
) -> Vec<(&'a Spanned<toml::de::DeString<'i>>, &'a Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// A string, or a number as text in plain decimals.
pub(crate) fn text_or_number(name: &str, value: &Value<'_>, report: &mut Report) -> Option<Text> {
    let span = value.span();
    let text = match value.get_ref() {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            let Ok(parsed) = parsed else {
                report.error(&span, format!("`{name}`: {number} needs more than 64 bits"));
                return None;
            };
            Some(parsed.to_string())
        }
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(parsed) if parsed.is_finite() => Some(parsed.to_string()),
            _ => None,
        },
        _ => None,
    };
    if text.is_none() {
        let found = type_name(value.get_ref());
        report.error(&span, format!("`{name}` must be a text or a number, not {found}"));
    }
    text.map(|text| Text { text, span })
}

/// What a value is, for messages.
pub(crate) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => "a fraction",
            _ => "an infinite number or none",
        },
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
