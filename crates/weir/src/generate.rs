//! Completion scripts and manual pages, from the definitions of the command line.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::ArgAction;
use clap_complete::Shell;

use crate::exit::Outcome;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell, command: &mut clap::Command) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "weir", &mut script);
    std::io::stdout().write_all(&script).context(crate::exit::NO_OUTPUT)?;
    Ok(Outcome::Done)
}

/// Writes a manual page for every command.
pub(crate) fn manual(dir: &Path, command: clap::Command) -> anyhow::Result<Outcome> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    clap_mangen::generate_to(with_synopsis(command, ""), dir)
        .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
    Ok(Outcome::Done)
}

/// The same commands with a synopsis that names the values of options, which `clap_mangen`'s own
/// leaves out. `before` is the command line up to this command.
fn with_synopsis(command: clap::Command, before: &str) -> clap::Command {
    let line = format!("{before}{}", command.get_name());
    let mut usage = line.clone();
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let mut parts = Vec::new();
        if let Some(short) = argument.get_short() {
            parts.push(format!("-{short}"));
        } else if let Some(long) = argument.get_long() {
            parts.push(format!("--{long}"));
        }
        // A flag has a value for itself, which is not written.
        if matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) {
            let name = argument.get_value_names().and_then(|names| names.first());
            let id = argument.get_id().as_str().to_uppercase();
            parts.push(name.map_or(id, ToString::to_string));
        }
        let text = parts.join(" ");
        let optional = !argument.is_required_set();
        usage.push_str(&if optional { format!(" [{text}]") } else { format!(" {text}") });
    }
    if command.has_subcommands() {
        usage.push_str(" COMMAND");
    }
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let before = format!("{line} ");
    let command = names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |sub| with_synopsis(sub, &before))
    });
    command.override_usage(usage)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_has_an_example_in_its_short_help() {
        fn check(command: &mut clap::Command) {
            let help = command.render_help().to_string();
            assert!(help.contains("Example"), "{help}");
            for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
                check(sub);
            }
        }
        check(&mut Cli::command());
    }

    /// The commands that do something, as they are called.
    fn command_lines(command: &clap::Command, before: &str) -> Vec<String> {
        let line = format!("{before}{}", command.get_name());
        let subs: Vec<_> =
            command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
        match subs.as_slice() {
            [] => vec![line],
            // What follows `weir lab image` says what is built, not what is done.
            _ if line == "weir lab image" => vec![line],
            subs => {
                // It does something by itself, too.
                let alone = command.is_args_conflicts_with_subcommands_set();
                let of_sub = |sub: &&clap::Command| command_lines(sub, &format!("{line} "));
                let below = subs.iter().flat_map(of_sub);
                alone.then(|| line.clone()).into_iter().chain(below).collect()
            }
        }
    }

    #[test]
    fn the_table_of_the_readme_has_every_command_once_and_no_other() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = fs::read_to_string(path).unwrap();
        let cells = readme.lines().filter(|line| line.starts_with("| `weir "));
        let mut named = Vec::new();
        for cell in cells.filter_map(|line| line.split(" | ").next()) {
            // The first is written out; the others are its last word.
            let mut words = cell.split('`').skip(1).step_by(2);
            let first = words.next().unwrap_or_default();
            let (before, _) = first.rsplit_once(' ').unwrap_or_default();
            named.push(first.to_owned());
            named.extend(words.map(|word| format!("{before} {word}")));
        }
        let mut known = command_lines(&Cli::command(), "");
        named.sort();
        known.sort();
        assert_eq!(named, known);
    }

    #[test]
    fn manual_pages_name_the_values_of_options() {
        let dir = tempfile::tempdir().unwrap();
        manual(dir.path(), Cli::command()).unwrap();
        let page = fs::read_to_string(dir.path().join("weir-lab-run.1")).unwrap();
        let line = page.lines().skip_while(|line| *line != ".SH SYNOPSIS").nth(1).unwrap();
        let line = line.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
        let options = "[-n N] [--only GLOB] [--out DIR] [--resume] [-y] [--wait D] [-v] [--json]";
        assert_eq!(line, format!("weir lab run SPEC {options}"));
    }

    #[test]
    fn iterations_are_checked_where_they_are_given() {
        let parse = |n: &str| {
            let line = ["weir", "lab", "resume", "dir", "-n", n];
            Cli::command().try_get_matches_from(line).map_err(|error| error.to_string())
        };
        assert!(parse("1000").is_ok());
        for (n, said) in [("0", "the least is 1"), ("1001", "at most 1000"), ("x", "at least 1")] {
            let error = parse(n).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
