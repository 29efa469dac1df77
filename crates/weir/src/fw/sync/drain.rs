//! `weir fw sync drain`: waits until the other firewall has all that there was when it was asked.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_fw::protocol::SyncOutStatus;
use weir_machine::cancel::Cancel;

use super::local;
use crate::cli::fw_sync::DrainArgs;
use crate::exit::{Outcome, put};
use crate::fw::put_json;

/// How often it looks.
const POLL: Duration = Duration::from_millis(10);

/// Runs the command.
pub(super) fn command(args: &DrainArgs, cancel: &Cancel) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let mut drain = Drain::default();
    let (out, is_drained) = loop {
        let asked = began.elapsed();
        let out = local::status()?.out;
        if drain.is_done(&out, asked) {
            break (out, true);
        }
        if asked >= args.timeout {
            break (out, false);
        }
        if !cancel.sleep(POLL) {
            return Ok(Outcome::Signal(cancel.signal().unwrap_or_default()));
        }
    };
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let text = if is_drained { done(&out, took_ms) } else { not_done(&out, took_ms) };
    if args.json.json {
        put_json(&json!({ "drained": is_drained, "took_ms": took_ms, "out": out }))?;
    } else {
        put(&text)?;
    }
    Ok(if is_drained { Outcome::Done } else { Outcome::No })
}

/// What has been seen so far.
#[derive(Debug, Default)]
struct Drain {
    /// The session, and its last mark at the first look after its bulk.
    first: Option<(u64, u64)>,
}

impl Drain {
    /// Whether a status says that all is there, so long after the question.
    ///
    /// A change may be known to nobody yet: the sender finds it when it looks. The mark that is
    /// under way now may be of a look that began before the question; the one after it is not, and
    /// it has all unless the lag says that its look has not come to its end.
    fn is_done(&mut self, out: &SyncOutStatus, asked: Duration) -> bool {
        let is_whole = out.is_live && out.bulk_percent.is_none() && out.bulk_count > 0;
        if !is_whole {
            self.first = None;
            return false;
        }
        let first = match self.first {
            Some((session, first)) if session == out.session_id => first,
            _ => {
                self.first = Some((out.session_id, out.sequence));
                out.sequence
            }
        };
        let asked_ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
        out.acknowledged_sequence >= first + 2 && (out.lag_ms == 0 || out.lag_ms < asked_ms)
    }
}

fn done(out: &SyncOutStatus, took_ms: u64) -> String {
    let stay: u64 = out.left_out.values().sum();
    let note = match stay {
        0 => String::new(),
        _ => format!("; {stay} times a state was not sent, see weir fw sync status"),
    };
    format!("the other firewall has all states, after {took_ms} ms{note}\n")
}

fn not_done(out: &SyncOutStatus, took_ms: u64) -> String {
    if !out.is_live {
        let why = out.last_error.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        return format!(
            "no session with another firewall for {took_ms} ms{why}; is weir fw sync to running?\n"
        );
    }
    let bulk = match (out.bulk_percent, out.bulk_count) {
        (Some(percent), _) => format!("bulk {percent} %"),
        (None, 0) => "bulk not sent".to_owned(),
        (None, _) => "bulk done".to_owned(),
    };
    format!(
        "not all states are at the other firewall after {took_ms} ms: {bulk}, lag {} ms, {} \
         unacknowledged\n",
        out.lag_ms, out.unacknowledged_count
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(sequence: u64, acknowledged_sequence: u64) -> SyncOutStatus {
        SyncOutStatus {
            is_live: true,
            session_id: 7,
            sequence,
            acknowledged_sequence,
            bulk_count: 1,
            ..SyncOutStatus::default()
        }
    }

    const SOON: Duration = Duration::from_millis(50);

    #[test]
    fn the_second_mark_after_the_question_says_that_all_is_there() {
        let mut drain = Drain::default();
        assert!(!drain.is_done(&live(10, 10), Duration::ZERO), "what is dirty is not known yet");
        assert!(!drain.is_done(&live(11, 11), SOON));
        assert!(!drain.is_done(&live(12, 11), SOON));
        assert!(drain.is_done(&live(12, 12), SOON));
    }

    #[test]
    fn changes_from_before_the_question_are_waited_for_and_later_ones_are_not() {
        let mut drain = Drain::default();
        drain.is_done(&live(10, 9), Duration::ZERO);
        let behind = |lag_ms| SyncOutStatus { lag_ms, ..live(14, 13) };
        assert!(!drain.is_done(&behind(50), SOON));
        assert!(!drain.is_done(&behind(90), SOON));
        assert!(drain.is_done(&behind(49), SOON));
    }

    #[test]
    fn a_bulk_or_another_session_begins_the_wait_anew() {
        let mut drain = Drain::default();
        drain.is_done(&live(10, 10), Duration::ZERO);
        let bulk = SyncOutStatus { bulk_percent: Some(99), ..live(12, 12) };
        assert!(!drain.is_done(&bulk, SOON));
        assert!(!drain.is_done(&SyncOutStatus { bulk_count: 0, ..live(13, 13) }, SOON));
        assert!(!drain.is_done(&SyncOutStatus { is_live: false, ..live(13, 13) }, SOON));
        assert!(!drain.is_done(&live(14, 14), SOON));
        assert!(!drain.is_done(&SyncOutStatus { session_id: 8, ..live(16, 16) }, SOON));
        assert!(drain.is_done(&SyncOutStatus { session_id: 8, ..live(18, 18) }, SOON));
    }
}
