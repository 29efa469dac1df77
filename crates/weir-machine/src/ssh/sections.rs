//! A text of several parts, each under a line `== <name>`.

/// The parts of a text that begin with lines `== <name>`.
pub(super) fn sections(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            found.push((name.trim().to_owned(), String::new()));
        } else if let Some((_, body)) = found.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    found
}
