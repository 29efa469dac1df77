//! The help, and the table of the manual: both from the table of options.

use std::fmt::Write as _;

use super::Function;
use super::options::{Decision, OPTIONS};

/// Width of the help, columns.
const WIDTH: usize = 80;
/// Where the explanations start, columns.
const INDENT: usize = 16;

/// The help.
#[must_use]
pub fn usage() -> String {
    let mut text = String::from(
        "Sends, receives and times packets with pkt-gen's command line and output.\n\n\
         Usage: pkt-gen -i INTERFACE [-f rx|tx|ping|pong] [options]\n\nOptions:\n",
    );
    for option in OPTIONS {
        let synopsis = match option.value {
            Some(value) => format!("  -{} {value}", option.letter),
            None => format!("  -{}", option.letter),
        };
        let state = match option.decision {
            Decision::Same | Decision::Differs(_) => "",
            Decision::NoEffect(_) => " (changes nothing)",
            Decision::Refused(_) => " (refused)",
        };
        let lines = wrapped(&format!("{}{state}", option.meaning), WIDTH - INDENT);
        for (index, line) in lines.iter().enumerate() {
            let left = if index == 0 { synopsis.as_str() } else { "" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{left:INDENT$}{line}");
        }
    }
    text.push_str(
        "\nExample:\n  pkt-gen -i eth1 -f tx -N -n 80000000 -l 60 -w 4 \
         -D 02:00:00:00:00:01 \\\n          -s 198.18.10.1:2000-198.18.10.70 \
         -d 198.19.10.1:2000-198.19.10.70\n",
    );
    text
}

/// The table of the manual, in Markdown.
#[must_use]
pub fn options_table() -> String {
    let mut text = String::from("| option | meaning | here |\n|---|---|---|\n");
    for option in OPTIONS {
        let synopsis = match option.value {
            Some(value) => format!("-{} {value}", option.letter),
            None => format!("-{}", option.letter),
        };
        let mut here = match option.decision {
            Decision::Same => "the same".to_owned(),
            Decision::Differs(how) => how.to_owned(),
            Decision::NoEffect(why) => format!("changes nothing: {why}"),
            Decision::Refused(why) => format!("refused: {why}"),
        };
        if option.functions.len() < Function::ALL.len() {
            let names: Vec<_> = option.functions.iter().map(ToString::to_string).collect();
            let _ = write!(here, " (counts with {} only)", names.join(" and "));
        }
        let escape = |text: &str| text.replace('|', "\\|");
        let (meaning, here) = (escape(option.meaning), escape(&here));
        let _ = writeln!(text, "| `{synopsis}` | {meaning} | {here} |");
    }
    text
}

/// Breaks text at spaces into lines of at most `width` columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_option_once_and_fits() {
        let help = usage();
        for option in OPTIONS {
            let start = format!("  -{}", option.letter);
            let lines = help
                .lines()
                .filter(|line| line.strip_prefix(&start).is_some_and(|rest| rest.starts_with(' ')));
            assert_eq!(lines.count(), 1, "-{}", option.letter);
        }
        assert!(help.contains("Example:"));
        assert!(help.lines().all(|line| line.len() <= WIDTH), "{help}");
    }

    #[test]
    fn the_table_has_a_row_per_option() {
        assert_eq!(options_table().lines().count(), OPTIONS.len() + 2);
        assert!(options_table().contains("| `-n COUNT` | "));
        assert!(options_table().contains("tx and ping only"));
    }
}
