//! What stands for `${name}` in the lines that start and stop generators and receivers.

use std::sync::Arc;

use crate::diagnostic::{Report, Source};
use crate::spec::template::Template;

/// The names that a generator's lines, or a receiver's, may refer to.
pub(crate) fn names(is_generator: bool) -> &'static [&'static str] {
    const BOTH: [&str; 3] = ["interface", "sample_ms", "traffic"];
    const GENERATOR: [&str; 10] = [
        "interface",
        "sample_ms",
        "traffic",
        "src",
        "dst",
        "size",
        "src_mac",
        "dst_mac",
        "rate_pps",
        "count",
    ];
    if is_generator { &GENERATOR } else { &BOTH }
}

/// A line with its references replaced. Those that it may not have were refused with the
/// specification, and stay.
pub(super) fn render(line: &str, values: &[(&str, String)]) -> String {
    let source = Arc::new(Source { name: "a line".to_owned(), text: line.to_owned() });
    let mut unheard = Report::new(Arc::clone(&source));
    Template::in_file(&source, &mut unheard).render(|name| {
        values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    })
}

/// A word for a shell, quoted if it has to be.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("netmap:ix0"), "netmap:ix0");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn what_a_run_has_is_put_in_and_the_shells_own_stays() {
        let values = [("interface", "ix0".to_owned()), ("count", "10".to_owned())];
        let line = "tx -i ${interface} -n ${count} > ${HOME}/log; echo $$";
        assert_eq!(render(line, &values), "tx -i ix0 -n 10 > ${HOME}/log; echo $$");
    }
}
