//! Texts with `${name}` in them.
//!
//! `${name}` stands for a sweep value or a parameter; `$${` is a literal `${`; any other `$` is
//! itself, so that shell variables (`$HOME`) and nftables' (`$lan`) need no escape. There are no
//! defaults, no nesting and no expressions.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Report, Source, Span, quote};
use crate::spec::fields::Text;
use crate::spec::suggest::nearest;

#[cfg(test)]
mod tests;

/// A text split at its references.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// Some `${` in it is not a reference; that was reported.
    malformed: bool,
    /// What the references' spans point into.
    pub(crate) source: Arc<Source>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Reference {
        name: String,
        span: Span,
    },
    /// `$${name}` in a file of another program: `${name}` where the name is known, and what it is
    /// where it is not.
    Escaped {
        name: String,
    },
}

/// A `${` that is not a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Malformed {
    span: Span,
    message: String,
}

/// One occurrence of `${` that is not escaped, in the order of the text.
type Occurrence = Result<Span, Malformed>;

impl Template {
    /// The template in a string of the specification. Every `${` that is not a reference is
    /// reported, and kept as it stands.
    pub(crate) fn in_spec(text: &Text, report: &mut Report) -> Self {
        let source = Arc::clone(&report.spec);
        // The string's source text differs from its value by quotes and escapes. References are
        // plain characters, so the n-th of the one is the n-th of the other.
        let raw = source.text.get(text.span.clone()).unwrap_or_default();
        let raw_spans: Vec<Span> =
            scan(raw, Escape::Always).1.iter().map(occurrence_span).collect();
        let (pieces, occurrences) = scan(&text.text, Escape::Always);
        let known = raw_spans.len() == occurrences.len();
        let place = |index: usize| match raw_spans.get(index) {
            Some(span) if known => text.span.start + span.start..text.span.start + span.end,
            _ => text.span.clone(),
        };
        Self::build(pieces, occurrences, &source, report, place)
    }

    /// The template that a whole file is; reports as [`Template::in_spec`].
    pub(crate) fn in_file(source: &Arc<Source>, report: &mut Report) -> Self {
        let (pieces, occurrences) = scan(&source.text, Escape::Always);
        let spans: Vec<Span> = occurrences.iter().map(occurrence_span).collect();
        Self::build(pieces, occurrences, source, report, |index| spans[index].clone())
    }

    /// The template that a file of another program is: what refers to nothing is nothing to
    /// complain about, and is kept as it stands, `$$` included.
    pub(crate) fn in_tree(source: &Arc<Source>) -> Self {
        let (pieces, _) = scan(&source.text, Escape::Known);
        Self { pieces, malformed: false, source: Arc::clone(source) }
    }

    /// Puts the places into the references, and reports what is malformed.
    fn build(
        mut pieces: Vec<Piece>,
        occurrences: Vec<Occurrence>,
        source: &Arc<Source>,
        report: &mut Report,
        place: impl Fn(usize) -> Span,
    ) -> Self {
        let mut references = pieces.iter_mut().filter_map(|piece| match piece {
            Piece::Reference { span, .. } => Some(span),
            Piece::Literal(_) | Piece::Escaped { .. } => None,
        });
        let mut malformed = false;
        for (index, occurrence) in occurrences.into_iter().enumerate() {
            if let Err(Malformed { message, .. }) = occurrence {
                let help = "`${name}` stands for a sweep or a parameter; `$${` is a plain `${`";
                report.push(Diagnostic::error(source, message).at(place(index)).help(help));
                malformed = true;
            } else if let Some(span) = references.next() {
                *span = place(index);
            }
        }
        Self { pieces, malformed, source: Arc::clone(source) }
    }

    /// Whether it can be rendered with values for the names that `known` knows.
    pub(crate) fn is_complete(&self, known: impl Fn(&str) -> bool) -> bool {
        !self.malformed && self.references().all(|(name, _)| known(name))
    }

    /// The names it refers to and where, in the order of the text.
    pub(crate) fn references(&self) -> impl Iterator<Item = (&str, &Span)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Reference { name, span } => Some((name.as_str(), span)),
            Piece::Literal(_) | Piece::Escaped { .. } => None,
        })
    }

    /// The text with every reference replaced; a name without a value stays as it was written.
    pub(crate) fn render<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Reference { name, .. } => match value(name) {
                    Some(value) => text.push_str(value),
                    None => text.extend(["${", name, "}"]),
                },
                Piece::Escaped { name } => {
                    let escape = if value(name).is_some() { "" } else { "$" };
                    text.extend([escape, "${", name, "}"]);
                }
            }
        }
        text
    }
}

/// Reports references to names that do not exist; returns those that do.
pub(crate) fn check_references<'t>(
    templates: impl Iterator<Item = &'t Template>,
    scopes: &[&BTreeSet<&str>],
    report: &mut Report,
) -> BTreeSet<String> {
    let names: BTreeSet<&str> = scopes.iter().flat_map(|scope| scope.iter().copied()).collect();
    let mut found = BTreeSet::new();
    for template in templates {
        for (name, span) in template.references() {
            if names.contains(name) {
                found.insert(name.to_owned());
                continue;
            }
            let help = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `${{{near}}}`?"),
                None => format!("for this text as it stands, write `$${{{name}}}`"),
            };
            let message = format!("`${{{name}}}` is neither a sweep nor a parameter of this DUT");
            let message = match scopes {
                [_] => format!("`${{{name}}}` is not a sweep"),
                _ => message,
            };
            let diagnostic = Diagnostic::error(&template.source, message);
            report.push(diagnostic.at(span.clone()).help(help));
        }
    }
    found
}

fn occurrence_span(occurrence: &Occurrence) -> Span {
    match occurrence {
        Ok(span) => span.clone(),
        Err(malformed) => malformed.span.clone(),
    }
}

/// Whether `name` can stand in `${name}`.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Where `$${` is a literal `${`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    Always,
    /// Where the name after it is known.
    Known,
}

/// Splits `text`; spans are relative to it.
fn scan(text: &str, escape: Escape) -> (Vec<Piece>, Vec<Occurrence>) {
    let mut pieces = Vec::new();
    let mut occurrences = Vec::new();
    let mut literal = String::new();
    let mut position = 0;
    while let Some(found) = text[position..].find("${") {
        let start = position + found;
        if found > 0 && text.as_bytes()[start - 1] == b'$' {
            // `$${`: the first `$` is the escape.
            literal.push_str(&text[position..start - 1]);
            position = start + 2;
            if escape == Escape::Always {
                literal.push_str("${");
                continue;
            }
            let name = text[position..].split_once('}').map(|(name, _)| name);
            if let Some(name) = name.filter(|name| is_name(name)) {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(Piece::Escaped { name: name.into() });
                position += name.len() + 1;
            } else {
                literal.push_str("$${");
            }
            continue;
        }
        literal.push_str(&text[position..start]);
        let rest = &text[start + 2..];
        // Looking no further than the line keeps the error of a forgotten brace where it is.
        let line = rest.find('\n').map_or(rest, |end| &rest[..end]);
        let Some(length) = line.find('}') else {
            let message = "`${` without a closing `}`".into();
            occurrences.push(Err(Malformed { span: start..start + 2, message }));
            literal.push_str("${");
            position = start + 2;
            continue;
        };
        let name = &rest[..length];
        let span = start..start + 2 + length + 1;
        position = span.end;
        if is_name(name) {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            pieces.push(Piece::Reference { name: name.into(), span: span.clone() });
            occurrences.push(Ok(span));
        } else {
            let what = if name.is_empty() { "`${}` has no name".into() } else { bad_name(name) };
            literal.push_str(&text[span.clone()]);
            occurrences.push(Err(Malformed { span, message: what }));
        }
    }
    literal.push_str(&text[position..]);
    pieces.push(Piece::Literal(literal));
    (pieces, occurrences)
}

fn bad_name(name: &str) -> String {
    format!("{} cannot be a name: names are letters, digits, `_` and `-`", quote(name))
}
