//! What every page of the lab has around it: style, plots' dark colours, the script that sorts.
//!
//! The script is the only one, it is part of the page, and the page is complete without it.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::plot::{self, palette};

const PAGE_CSS: &str = include_str!("page.css");
const SORT_JS: &str = include_str!("sort.js");

/// A page of that title; `main` and `foot` are what stands in it.
pub(crate) fn page(title: &str, main: &Markup, foot: &Markup) -> String {
    let style = format!("{}{PAGE_CSS}{}", palette::css(":root"), plot::dark_css());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                main { (main) }
                (foot)
                script { (PreEscaped(SORT_JS)) }
            }
        }
    };
    page.into_string() + "\n"
}

/// A path as a relative link: every byte but letters, digits and a few signs is escaped.
pub(crate) fn link(path: &str) -> String {
    let mut link = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            link.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(link, "%{byte:02X}");
        }
    }
    // A first part with a colon would be a scheme; it is escaped above, as every colon is.
    link
}

#[cfg(test)]
mod tests {
    use super::link;

    #[test]
    fn names_of_any_kind_become_links() {
        assert_eq!(link("cells/a.b/1/trial.json"), "cells/a.b/1/trial.json");
        assert_eq!(link("cells/a b#c?d%é/1"), "cells/a%20b%23c%3Fd%25%C3%A9/1");
        assert_eq!(link("javascript:x\"<"), "javascript%3Ax%22%3C");
    }
}
