//! `weir fw sync status`: how the states go and come, as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anstyle::AnsiColor;
use anyhow::Context as _;
use weir_fw::protocol::{SyncInStatus, SyncOutStatus, SyncStatus};

use super::local;
use crate::cli::fw_sync::StatusArgs;
use crate::exit::{NO_OUTPUT, Outcome};
use crate::fw::put_json;
use crate::signals;

/// Width of the column of words.
const WORDS: usize = 22;

/// Runs the command.
pub(super) fn command(args: &StatusArgs) -> anyhow::Result<Outcome> {
    if let Some(interval) = args.every {
        return again_and_again(interval, args.json.json);
    }
    let status = local::status()?;
    if args.json.json {
        put_json(&status)?;
    } else {
        show(&text(&status))?;
    }
    let is_live = status.out.is_live || status.incoming.is_live;
    Ok(if is_live { Outcome::Done } else { Outcome::No })
}

/// Shows it until somebody asks to stop.
fn again_and_again(interval: Duration, is_json: bool) -> anyhow::Result<Outcome> {
    let cancel = signals::listen_alone()?;
    let mut next = cancel.now();
    loop {
        let status = local::status()?;
        let shown = if is_json { serde_json::to_string(&status)? } else { text(&status) };
        show(&format!("{shown}\n"))?;
        // Times that were missed are left out.
        while next <= cancel.now() {
            next += interval;
        }
        if !cancel.sleep_until(next) {
            return Ok(Outcome::Done);
        }
    }
}

fn show(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context(NO_OUTPUT)
}

/// Both tables.
fn text(status: &SyncStatus) -> String {
    let mut text = String::new();
    out(&mut text, &status.out);
    text.push('\n');
    incoming(&mut text, &status.incoming);
    text
}

fn out(text: &mut String, out: &SyncOutStatus) {
    head(text, "to another firewall", out.is_live, out.session_count);
    if out.session_count == 0 {
        return;
    }
    line(text, "lag", &format!("{} ms", out.lag_ms));
    let bulk = match (out.bulk_percent, out.bulk_count) {
        (Some(percent), _) => format!("{percent} %"),
        (None, 0) => "not sent to the end".to_owned(),
        (None, _) => "done".to_owned(),
    };
    line(text, "bulk", &bulk);
    line(text, "changes", &format!("{}/s, {} B/s", out.changes_per_second, out.bytes_per_second));
    let sent = format!("{}, of them {} ends", out.sent_count, out.deletes_count);
    line(text, "sent", &sent);
    line(text, "acknowledged", &out.acknowledged_count.to_string());
    line(text, "unacknowledged", &out.unacknowledged_count.to_string());
    line(text, "waiting, unanswered", &out.waiting_count.to_string());
    some(text, "records not known", out.skipped_count);
    left_out(text, "stay here", &out.left_out);
    error(text, out.last_error.as_deref());
}

fn incoming(text: &mut String, incoming: &SyncInStatus) {
    head(text, "from another firewall", incoming.is_live, incoming.session_count);
    if incoming.session_count == 0 {
        return;
    }
    line(text, "lag, by both clocks", &format!("{} ms", incoming.lag_ms));
    let bulk = match (incoming.is_bulk, incoming.bulk_count) {
        (true, _) => format!("{} states are under way", incoming.bulk_state_count),
        (false, 0) => "not come to the end".to_owned(),
        (false, _) => "done".to_owned(),
    };
    line(text, "bulk", &bulk);
    if incoming.is_deferring {
        line(text, "answers", "wait for their states");
    }
    line(text, "made", &incoming.inserted_count.to_string());
    line(text, "updated", &incoming.updated_count.to_string());
    line(text, "ended", &incoming.deleted_count.to_string());
    some(text, "by the default rule", incoming.default_rule_count);
    some(text, "present already", incoming.present_count);
    some(text, "ended, not here", incoming.absent_count);
    some(text, "records not known", incoming.skipped_count);
    left_out(text, "not made", &incoming.left_out);
    error(text, incoming.last_error.as_deref());
}

fn head(text: &mut String, words: &str, is_live: bool, session_count: u64) {
    let (style, what) = match (is_live, session_count) {
        (true, _) => (AnsiColor::Green.on_default().bold(), "live".to_owned()),
        (false, 0) => (AnsiColor::Yellow.on_default(), "no session".to_owned()),
        (false, count) => {
            (AnsiColor::Red.on_default().bold(), format!("no session any more, of {count}"))
        }
    };
    let width = WORDS + 2;
    // Writing to a String never fails.
    let _ = writeln!(text, "{words:width$}{style}{what}{style:#}");
}

fn line(text: &mut String, words: &str, value: &str) {
    let _ = writeln!(text, "  {words:WORDS$}{value}");
}

/// A line for what is rare.
fn some(text: &mut String, words: &str, count: u64) {
    if count > 0 {
        line(text, words, &count.to_string());
    }
}

fn left_out(text: &mut String, words: &str, reasons: &BTreeMap<String, u64>) {
    for (reason, count) in reasons {
        line(text, words, &format!("{count}: {reason}"));
    }
}

fn error(text: &mut String, error: Option<&str>) {
    if let Some(error) = error {
        line(text, "last error", error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_lives_and_what_was_left_out() {
        let mut status = SyncStatus::default();
        status.out.is_live = true;
        status.out.session_count = 1;
        status.out.lag_ms = 12;
        status.out.bulk_percent = Some(40);
        status.out.left_out.insert("they count for their source".to_owned(), 3);
        let shown = anstream::adapter::strip_str(&text(&status)).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "to another firewall     live");
        assert_eq!(lines[1], "  lag                   12 ms");
        assert_eq!(lines[2], "  bulk                  40 %");
        assert!(shown.contains("stay here             3: they count for their source\n"));
        assert!(shown.ends_with("\nfrom another firewall   no session\n"), "{shown}");

        status.out.is_live = false;
        status.out.last_error = Some("a mark's count is wrong".to_owned());
        let shown = anstream::adapter::strip_str(&text(&status)).to_string();
        assert!(shown.starts_with("to another firewall     no session any more, of 1\n"));
        assert!(shown.contains("last error            a mark's count is wrong\n"), "{shown}");
    }
}
