//! Shell fragments, evaluated by the system's shell in a clean environment.
//!
//! The pkt-gen set comes first, then the configuration, as bench-lab.sh reads them, so that a
//! configuration's `: ${V:="default"}` leaves alone what the set has set. Each evaluation is a
//! shell of its own: unlike there, nothing of one set is left for the next. What a fragment prints
//! goes nowhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use weir_net::process::{self, Invocation};

use super::{BenchLabError, absolute};

/// Every variable that means something.
pub const NAMES: [&str; 36] = [
    "SENDER_ADMIN",
    "SENDER_ADMIN_2",
    "RECEIVER_ADMIN",
    "DUT_ADMIN",
    "REF_ADMIN",
    "SENDER_LAB_IP",
    "RECEIVER_LAB_IP",
    "SENDER_LAB_IF",
    "RECEIVER_LAB_IF",
    "SENDER_MAC",
    "SENDER_LAB_IF_MAC",
    "RECEIVER_LAB_IF_MAC",
    "DUT_LAB_IF_MAC_SENDER_SIDE",
    "DUT_LAB_IF_MAC_RECEIVER_SIDE",
    "AF",
    "SENDER_LAB_NET",
    "RECEIVER_LAB_NET",
    "PKT_TO_SEND",
    "PKT_SIZE",
    "PMC_EVENT",
    "REBOOT_TIMEOUT",
    "IS_DUT_ONLINE_TARGET",
    "IS_DUT_ONLINE_CMD",
    "RECEIVER_START_CMD",
    "RECEIVER_STOP_CMD",
    "SENDER_START_CMD",
    "SENDER_START_CMD_2",
    "SENDER_STOP_CMD",
    "SENDER_2_START_CMD",
    "SENDER_2_START_CMD_2",
    "SENDER_2_STOP_CMD",
    "BEFORE_CMD",
    "DURING_CMD",
    "AFTER_CMD",
    "CUSTOM_CMD",
    "MAIL",
];

/// No fragment takes longer; one that waits for something would wait for ever.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads `$1`, if it is not empty, then the assignments in `$2`, then `$3`; prints the rest of its
/// arguments with their values, each ended by a zero. What cannot be read ends the shell; how the
/// last command of a fragment ended says nothing, as for bench-lab.sh (`[ … ] && PKT_SIZE=…`).
const SCRIPT: &str = r#"
set=$1 assignments=$2 config=$3
shift 3
{ [ -z "$set" ] || . "$set"; eval "$assignments"; . "$config"; } >/dev/null
for name; do
    eval "is_set=\${$name+x} value=\${$name-}"
    [ -z "$is_set" ] || printf '%s=%s\0' "$name" "$value"
done
"#;

/// Variables after an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variables {
    /// The fragments, for messages.
    pub(super) path: String,
    /// Lines of the fragments; `None` where they read other files, whose lines are not known.
    lines: Option<Vec<String>>,
    values: BTreeMap<String, String>,
}

impl Variables {
    /// The value of a variable that is set and not empty, without the blanks of continued lines.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// One that must be there; `why` says what it is for.
    pub(super) fn required(
        &self,
        name: &'static str,
        why: &'static str,
    ) -> Result<&str, BenchLabError> {
        self.get(name).ok_or_else(|| BenchLabError::Missing { path: self.path.clone(), name, why })
    }

    /// Whether a line of the fragments refers to a variable, other than to give it its default
    /// (`: ${V:=…}`). `None` if that cannot be told.
    pub(super) fn refers_to(&self, name: &str) -> Option<bool> {
        let refers = |line: &String| {
            line.match_indices(name).any(|(at, _)| {
                let (before, after) = (&line[..at], &line[at + name.len()..]);
                let goes_on = after.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric());
                (before.ends_with('$') || before.ends_with("${")) && !goes_on
            })
        };
        self.lines.as_ref().map(|lines| lines.iter().any(refers))
    }

    /// Another text wherever a text stands in a value.
    pub(super) fn replace(&mut self, text: &str, by: &str) {
        for value in self.values.values_mut() {
            *value = value.replace(text, by);
        }
    }

    /// A value that cannot be used.
    pub(super) fn refuse(&self, name: &str, why: impl Into<String>) -> BenchLabError {
        BenchLabError::Value {
            path: self.path.clone(),
            name: name.to_owned(),
            value: self.get(name).unwrap_or_default().to_owned(),
            why: why.into(),
        }
    }
}

/// Evaluates a configuration, behind a set if there is one; `overrides` are assigned between them.
pub(super) fn evaluate(
    set: Option<&Path>,
    config: &Path,
    overrides: &[(&str, &str)],
) -> Result<Variables, BenchLabError> {
    let (mut names, mut fragments): (Vec<String>, String) = Default::default();
    for path in set.iter().chain([&config]) {
        let path = absolute(path)?;
        match fs::read(&path) {
            Ok(bytes) => fragments.push_str(&String::from_utf8_lossy(&bytes)),
            Err(error) => return Err(BenchLabError::Path { path, what: error.to_string() }),
        }
        fragments.push('\n');
        names.push(path.to_string_lossy().into_owned());
    }
    let path = names.join(", then ");
    let set = if set.is_some() { names.remove(0) } else { String::new() };
    let config = names.remove(0);
    let assignments: String =
        overrides.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect();
    let search_path = format!("PATH={}", process::search_path().to_string_lossy());
    let words = ["env", "-i", &search_path, "sh", "-c", SCRIPT, "sh", &set, &assignments, &config];
    let invocation = Invocation::program(words.into_iter().chain(NAMES).map(str::to_owned));
    let output = process::run(&invocation, TIMEOUT).map_err(|_| BenchLabError::Shell {
        path: path.clone(),
        said: format!("nothing for {} s; a fragment only sets variables", TIMEOUT.as_secs()),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let said = last.unwrap_or("nothing, and ends with a failure").trim().to_owned();
        return Err(BenchLabError::Shell { path, said });
    }
    let text = output.text();
    let pairs = text.split_terminator('\0').filter_map(|pair| pair.split_once('='));
    let values = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Variables { path, lines: lines(&fragments), values })
}

/// The lines that may refer to a variable: no comments, and of defaults not the name that gets one.
fn lines(text: &str) -> Option<Vec<String>> {
    let lines = text.lines().map(str::trim_start);
    let reads_more = |line: &str| [". ", "source "].iter().any(|word| line.starts_with(word));
    if lines.clone().any(reads_more) {
        return None;
    }
    let refer = lines.filter(|line| !line.starts_with('#')).map(|line| match line {
        _ if line.starts_with(": ") => without_defaulted(line),
        _ => line.to_owned(),
    });
    Some(refer.collect())
}

/// A line `: ${V:="${OTHER}"}` without `${V`: that gives V its default, and does not use it.
fn without_defaulted(line: &str) -> String {
    let mut parts = line.split("${");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let behind = part.trim_start_matches(|c: char| c == '_' || c.is_ascii_alphanumeric());
        if behind.starts_with(":=") || behind.starts_with('=') {
            text.push_str(behind);
        } else {
            text.push_str("${");
            text.push_str(part);
        }
    }
    text
}
