//! A line of text with what is emphasised, code, or a link in it.

/// A piece of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Span {
    /// Text as it is.
    Text(String),
    /// What stands out.
    Strong(Line),
    /// A name of a program, a file, an option.
    Code(String),
    /// A link: where it leads, relative to the document, and its text.
    Link(String, Line),
    /// The colour of a series, in a page.
    Swatch(usize),
    /// Text that a page gives a style of its own.
    Styled(String, Line),
}

/// A line of text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line(pub(super) Vec<Span>);

impl Line {
    /// An empty line, to which the others add.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds text, literally.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Span::Text(text.into()))
    }

    /// Adds another line.
    #[must_use]
    pub fn line(mut self, line: impl Into<Self>) -> Self {
        self.0.extend(line.into().0);
        self
    }

    /// Adds a sentence in which names between backticks are code.
    #[must_use]
    pub(crate) fn prose(self, text: &str) -> Self {
        self.line(prose(text))
    }

    /// Adds what stands out.
    #[must_use]
    pub(crate) fn strong(self, line: impl Into<Self>) -> Self {
        self.with(Span::Strong(line.into()))
    }

    /// Adds code.
    #[must_use]
    pub fn code(self, text: impl Into<String>) -> Self {
        self.with(Span::Code(text.into()))
    }

    /// Adds a link.
    #[must_use]
    pub fn link(self, to: impl Into<String>, line: impl Into<Self>) -> Self {
        self.with(Span::Link(to.into(), line.into()))
    }

    /// Adds the colour of a series.
    #[must_use]
    pub(crate) fn swatch(self, colour: usize) -> Self {
        self.with(Span::Swatch(colour))
    }

    /// Adds text in a style of the page.
    #[must_use]
    pub(crate) fn styled(self, style: impl Into<String>, line: impl Into<Self>) -> Self {
        self.with(Span::Styled(style.into(), line.into()))
    }

    fn with(mut self, span: Span) -> Self {
        self.0.push(span);
        self
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|span| match span {
            Span::Text(text) | Span::Code(text) => text.is_empty(),
            Span::Strong(line) | Span::Link(_, line) | Span::Styled(_, line) => line.is_empty(),
            Span::Swatch(_) => true,
        })
    }

    /// The same, without links.
    pub(super) fn unlinked(&self) -> Self {
        let span = |span: &Span| match span {
            Span::Link(_, line) => line.unlinked().0,
            Span::Strong(line) => vec![Span::Strong(line.unlinked())],
            Span::Styled(style, line) => vec![Span::Styled(style.clone(), line.unlinked())],
            other => vec![other.clone()],
        };
        Self(self.0.iter().flat_map(span).collect())
    }

    /// Its words, without emphasis; code between backticks.
    #[must_use]
    pub fn plain(&self) -> String {
        let mut plain = String::new();
        for span in &self.0 {
            match span {
                Span::Text(text) => plain += text,
                Span::Code(text) => plain.extend(["`", text, "`"]),
                Span::Strong(line) | Span::Link(_, line) | Span::Styled(_, line) => {
                    plain += &line.plain();
                }
                Span::Swatch(_) => {}
            }
        }
        plain
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::new().text(text)
    }
}

impl From<&String> for Line {
    fn from(text: &String) -> Self {
        Self::new().text(text)
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new().text(text)
    }
}

/// A sentence in which names between backticks are code. A backtick without a partner is one.
#[must_use]
pub(crate) fn prose(text: &str) -> Line {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text.into();
    }
    let spans = parts.iter().zip(0_u32..).filter(|(part, _)| !part.is_empty());
    let span = |(part, index): (&&str, u32)| match index % 2 {
        1 => Span::Code((*part).to_owned()),
        _ => Span::Text((*part).to_owned()),
    };
    Line(spans.map(span).collect())
}

/// A text that leads somewhere, if there is somewhere to go.
pub fn linked(to: Option<&str>, text: impl Into<Line>) -> Line {
    match to {
        Some(to) => Line::new().link(to, text),
        None => text.into(),
    }
}

/// A name on one line: control characters, which a file's name may hold, as spaces.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
