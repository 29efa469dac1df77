//! `weir fw sync track`: keeps a file from which VRRP reads whether this firewall may be master. It
//! never decides which of the two is.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weir_fw::protocol::SyncStatus;
use weir_machine::cancel::Cancel;

use super::{Voice, local};
use crate::cli::fw_sync::TrackArgs;
use crate::exit::Outcome;

/// How often it looks.
const POLL: Duration = Duration::from_millis(200);
/// What the file says: what is to be added to the priority.
const READY: &str = "0\n";
const NOT_READY: &str = "-100\n";

/// Runs until it is ended.
pub(super) fn command(
    args: &TrackArgs,
    cancel: &Cancel,
    voice: Voice<'_>,
) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let mut track = Track::new(args.alone_after);
    let mut said = None;
    loop {
        let ready = track.look(local::status().ok().as_ref(), began.elapsed());
        keep(&args.file, if ready.is_some() { READY } else { NOT_READY })?;
        let now = ready.unwrap_or("not ready: the other firewall's states are not here");
        if said != Some(now) {
            voice(now);
            said = Some(now);
        }
        if !cancel.sleep(POLL) {
            return Ok(Outcome::Signal(cancel.signal().unwrap_or_default()));
        }
    }
}

/// Has the file say something, also after somebody else has written it, as keepalived does when it
/// starts. It is written in place: that is what keepalived watches.
fn keep(file: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(file).is_ok_and(|it| it == text) {
        return Ok(());
    }
    fs::write(file, text)
        .with_context(|| format!("{} cannot be written; does its directory exist?", file.display()))
}

/// What has been seen so far.
struct Track {
    alone_after: Duration,
    /// Why it is ready, once it is.
    ready: Option<&'static str>,
    /// Since when no other firewall sends states.
    alone_since: Option<Duration>,
}

impl Track {
    const fn new(alone_after: Duration) -> Self {
        Self { alone_after, ready: None, alone_since: None }
    }

    /// Why this firewall is ready, if it is, by its status, so long after the start. Without a
    /// firewall there is no status, and the table of the next one may be empty.
    fn look(&mut self, status: Option<&SyncStatus>, now: Duration) -> Option<&'static str> {
        match status.map(|status| &status.incoming) {
            None => (self.ready, self.alone_since) = (None, None),
            Some(incoming) if incoming.bulk_count > 0 => {
                self.ready = Some("ready: the other firewall's states are here");
            }
            Some(incoming) if incoming.is_live => self.alone_since = None,
            Some(_) => {
                let since = *self.alone_since.get_or_insert(now);
                if self.ready.is_none() && now - since >= self.alone_after {
                    self.ready = Some("ready: no other firewall has connected");
                }
            }
        }
        self.ready
    }
}

#[cfg(test)]
mod tests {
    use weir_fw::protocol::SyncInStatus;

    use super::*;

    fn status(is_live: bool, bulk_count: u64) -> SyncStatus {
        let incoming = SyncInStatus { is_live, bulk_count, ..SyncInStatus::default() };
        SyncStatus { incoming, ..SyncStatus::default() }
    }

    fn track() -> impl FnMut(Option<SyncStatus>, u64) -> bool {
        let mut track = Track::new(Duration::from_secs(30));
        move |status, at_s| track.look(status.as_ref(), Duration::from_secs(at_s)).is_some()
    }

    #[test]
    fn it_is_ready_with_the_first_bulk_and_stays_so() {
        let mut look = track();
        assert!(!look(Some(status(false, 0)), 0));
        assert!(!look(Some(status(true, 0)), 29));
        assert!(!look(Some(status(true, 0)), 300), "a bulk takes as long as it takes");
        assert!(look(Some(status(true, 1)), 301));
        assert!(look(Some(status(false, 1)), 302));
        assert!(look(Some(status(true, 0)), 303), "another session");
    }

    #[test]
    fn it_is_ready_alone_after_a_time() {
        let mut look = track();
        assert!(!look(Some(status(false, 0)), 0));
        assert!(!look(Some(status(true, 0)), 20), "one was there for a moment");
        assert!(!look(Some(status(false, 0)), 21));
        assert!(!look(Some(status(false, 0)), 50));
        assert!(look(Some(status(false, 0)), 51));
    }

    #[test]
    fn without_a_firewall_it_is_not_ready() {
        let mut look = track();
        assert!(look(Some(status(true, 1)), 0));
        assert!(!look(None, 1));
        assert!(!look(Some(status(false, 0)), 2), "the table of the next one is empty");
        assert!(!look(None, 31));
        assert!(!look(Some(status(false, 0)), 40), "it has to be alone anew");
        assert!(look(Some(status(true, 1)), 41));
    }

    #[test]
    fn the_file_says_it_also_after_somebody_else_has_written_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("priority");
        let text = || fs::read_to_string(&file).unwrap();
        keep(&file, READY).unwrap();
        fs::write(&file, NOT_READY).unwrap();
        keep(&file, READY).unwrap();
        assert_eq!(text(), READY);
        let error = keep(&dir.path().join("none/priority"), READY).unwrap_err();
        assert!(error.to_string().contains("none/priority"), "{error}");
    }
}
