//! The colours of every plot and page, for light and for dark.
//!
//! One table gives both style sheets, and a test holds every colour in it against its background:
//! at least 4.5:1 (WCAG 2.2, AA) for whatever may carry or be text. The hues of the DUTs follow
//! Okabe and Ito, so that they stay apart for colour-blind readers; plots also use shapes, labels
//! and hatching, and never colour alone.

use std::fmt::Write as _;

/// A colour in both schemes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tone {
    /// Name of the CSS variable, without the dashes.
    pub(crate) name: &'static str,
    /// On a light background.
    pub(crate) light: &'static str,
    /// On a dark background.
    pub(crate) dark: &'static str,
}

const fn tone(name: &'static str, light: &'static str, dark: &'static str) -> Tone {
    Tone { name, light, dark }
}

/// The background of everything.
pub(crate) const BACKGROUND: Tone = tone("bg", "#ffffff", "#14171a");

/// Rules and fills that carry no information of their own.
pub(crate) const QUIET: [Tone; 2] =
    [tone("rule", "#dfe3e6", "#2e343a"), tone("soft", "#f5f6f7", "#1c2024")];

/// Text, and marks that carry information.
pub(crate) const MARKS: [Tone; 18] = [
    tone("ink", "#1a1f24", "#e4e7ea"),
    tone("muted", "#5a646e", "#9aa5af"),
    tone("s0", "#1f5fa8", "#74b3f0"),
    tone("s1", "#b84a00", "#f59a57"),
    tone("s2", "#00755c", "#4fcbab"),
    tone("s3", "#86408a", "#d99be0"),
    tone("s4", "#7a6000", "#d8bd4a"),
    tone("s5", "#a3243b", "#f28a99"),
    tone("delivered", "#1b6f6a", "#62c4bb"),
    tone("dut0", "#866412", "#d6b65c"),
    tone("dut1", "#63452a", "#c39c78"),
    tone("dut2", "#a85b1e", "#eba873"),
    tone("generator0", "#5a646e", "#9aa5af"),
    tone("generator1", "#3f4850", "#c3cbd2"),
    tone("sink0", "#86408a", "#d99be0"),
    tone("sink1", "#5e3a7a", "#b79be8"),
    tone("residual", "#a3243b", "#f28a99"),
    tone("bad", "#a3243b", "#f28a99"),
];

/// Colours for DUTs before they repeat.
pub(crate) const SERIES_COLOURS: usize = 6;

/// The tone of that name; that of text where there is none.
pub(crate) fn tone_named(name: &str) -> Tone {
    let all = || MARKS.iter().chain(&QUIET).chain([&BACKGROUND]);
    all().find(|t| t.name == name).copied().unwrap_or(MARKS[0])
}

/// The tone of the series with that number.
pub(crate) fn series(index: usize) -> Tone {
    MARKS[2 + index % SERIES_COLOURS]
}

/// Rules that replace every light colour of a figure's attributes, where a reader prefers dark;
/// `scope` stands before each selector.
pub(crate) fn dark_rules(scope: &str) -> String {
    let mut rules = String::new();
    let mut seen = Vec::new();
    for t in [BACKGROUND].iter().chain(&QUIET).chain(&MARKS) {
        // plotters writes colours in upper case.
        let light = t.light.to_uppercase();
        if seen.contains(&light) {
            continue;
        }
        // Writing to a String cannot fail.
        for attribute in ["fill", "stroke"] {
            let dark = t.dark;
            let _ = write!(rules, "{scope}[{attribute}=\"{light}\"]{{{attribute}:{dark}}}");
        }
        seen.push(light);
    }
    format!("@media screen and (prefers-color-scheme:dark){{{rules}}}\n")
}

/// The variables for `selector`: light, dark where the reader prefers it, light on paper.
pub(crate) fn css(selector: &str) -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for t in [BACKGROUND].iter().chain(&QUIET).chain(&MARKS) {
        // Writing to a String cannot fail.
        let _ = write!(light, "--{}:{};", t.name, t.light);
        let _ = write!(dark, "--{}:{};", t.name, t.dark);
    }
    format!(
        "{selector}{{{light}}}\n\
         @media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}\n\
         @media print{{{selector}{{{light}}}}}\n"
    )
}
