//! Answers on the control socket: a thread for each connection, and not many of them.

use std::io::{self, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::sync;
use crate::engine::{self, Engine, LiveCounts, Refused};
use crate::metrics;
use crate::peer::Gate;
use crate::protocol::{
    Bytes, Flushed, How, Killed, QUESTION_SIZE_BYTES_MAX, Reply, Request, Shown, SyncDirection,
    read_line,
};
use crate::shared::Shared;
use crate::socket::Listening;

/// Connections at a time.
const CLIENT_COUNT_MAX: usize = 16;
/// How often it looks whether it should stop.
const POLL: Duration = Duration::from_millis(50);
/// A client that asks nothing for so long is left, and one that reads nothing, if others need its
/// place: somebody looks at a listing page by page.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it looks whether a client that does not read is left.
const WRITE_POLL: Duration = Duration::from_millis(500);

static CLIENT_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Accepts connections until the daemon stops.
pub(super) fn run(shared: &Arc<Shared>, listening: &Listening, gate: &Gate) {
    let listener = &listening.listener;
    while !shared.stop.is_requested() {
        match listener.accept() {
            Ok((stream, _)) => accept(shared, stream, gate),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(listener),
            Err(error) => {
                shared.messages.tell(&format!("a client could not connect: {error}"));
                thread::sleep(POLL);
            }
        }
    }
}

/// Waits for a connection, but not for long.
fn wait(listener: &UnixListener) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd as _;
    let timeout = PollTimeout::try_from(POLL).unwrap_or(PollTimeout::ZERO);
    // An interrupted wait is over, too.
    let _ = poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], timeout);
}

fn accept(shared: &Arc<Shared>, stream: UnixStream, gate: &Gate) {
    let set = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(CLIENT_TIMEOUT)))
        .and_then(|()| stream.set_write_timeout(Some(WRITE_POLL)));
    if set.is_err() {
        return;
    }
    let admitted = gate.admit(&stream);
    let mut client = Client { stream, uid: *admitted.as_ref().unwrap_or(&u32::MAX) };
    if let Err(why) = admitted {
        client.refuse(&why.to_string());
        return;
    }
    let Some(place) = Place::take(&CLIENT_COUNT) else {
        client.refuse("too many clients at once; try again");
        return;
    };
    let shared = Arc::clone(shared);
    // Without a thread the client is left, and its place is free again.
    let _ = thread::Builder::new().name("client".to_owned()).spawn(move || {
        let _place = place;
        client.serve(&shared);
    });
}

/// One of the [`CLIENT_COUNT_MAX`] places, until it is dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(count: &'a AtomicUsize) -> Option<Self> {
        let place = Self(count);
        (count.fetch_add(1, Ordering::AcqRel) < CLIENT_COUNT_MAX).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether a client that has read nothing for so long is left: with so many connections.
fn gives_way(waited: Duration, client_count: usize) -> bool {
    waited >= CLIENT_TIMEOUT && client_count >= CLIENT_COUNT_MAX
}

/// Writes all bytes as somebody reads them, until `is_left`, which is told for how long nothing was
/// read.
fn put_all(
    mut stream: &UnixStream,
    mut rest: &[u8],
    is_left: impl Fn(Duration) -> bool,
) -> io::Result<()> {
    let mut taken_at = Instant::now();
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => (rest, taken_at) = (&rest[size..], Instant::now()),
            Err(error) if metrics::is_wait(&error) => {
                if is_left(taken_at.elapsed()) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

struct Client {
    stream: UnixStream,
    uid: u32,
}

impl Client {
    fn refuse(&self, why: &str) {
        // It may be gone already.
        drop(self.put(&Reply::Failed(why.to_owned())));
    }

    fn put(&self, reply: &Reply) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.put_bytes(&line)
    }

    /// A piece of a long text, as it is.
    fn put_piece(&self, text: &str) -> io::Result<()> {
        self.put(&Reply::Follows(u32::try_from(text.len()).map_err(io::Error::other)?))?;
        self.put_bytes(text.as_bytes())
    }

    fn put_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let is_left = |waited: Duration| gives_way(waited, CLIENT_COUNT.load(Ordering::Acquire));
        put_all(&self.stream, bytes, is_left)
    }

    /// Answers one question after the other. A client that goes away ends it.
    fn serve(&mut self, shared: &Arc<Shared>) {
        let Ok(reading) = self.stream.try_clone() else { return };
        let mut reading = BufReader::new(reading);
        while let Ok(Some(line)) = read_line(&mut reading, QUESTION_SIZE_BYTES_MAX) {
            let request: Request = match serde_json::from_slice(&line) {
                Ok(request) => request,
                Err(error) => {
                    self.refuse(&format!("cannot understand the request: {error}"));
                    return;
                }
            };
            if let Request::Sync { direction } = &request {
                self.exchange(shared, direction, reading.buffer());
                return;
            }
            let is_stop = request == Request::Stop;
            let answered = match self.answer(shared, request) {
                Ok(exit_code) => self.put(&Reply::Done(exit_code)),
                Err(Refused(message)) => self.put(&Reply::Failed(message)),
            };
            if is_stop {
                shared.stop.request();
            }
            if answered.is_err() {
                return;
            }
        }
    }

    /// States go or come by this connection, until it ends.
    fn exchange(&self, shared: &Arc<Shared>, direction: &SyncDirection, first: &[u8]) {
        match sync::place(shared, direction) {
            Ok(_place) if self.put(&Reply::Done(0)).is_ok() => {
                sync::run(shared, direction, &self.stream, first);
            }
            Ok(_) => {}
            Err(why) => self.refuse(&why),
        }
    }

    fn text(&mut self, text: String) -> Result<(), Refused> {
        if text.is_empty() {
            return Ok(());
        }
        self.put(&Reply::Text(text)).map_err(gone)
    }

    fn note(&mut self, text: impl Into<String>) -> Result<(), Refused> {
        let text = text.into();
        if text.is_empty() {
            return Ok(());
        }
        self.put(&Reply::Note(text)).map_err(gone)
    }

    fn value(&mut self, value: serde_json::Value) -> Result<u8, Refused> {
        self.put(&Reply::Value(value)).map_err(gone)?;
        Ok(0)
    }

    fn json(&mut self, value: &impl serde::Serialize) -> Result<u8, Refused> {
        self.value(serde_json::to_value(value).map_err(Refused::because)?)
    }

    /// Does what is asked; gives the exit code for pfctl.
    fn answer(&mut self, shared: &Arc<Shared>, request: Request) -> Result<u8, Refused> {
        match request {
            Request::Status => {
                let value = shared.engine().status();
                return self.value(value);
            }
            Request::Stats { has_rules } => {
                let live = has_rules.then(|| live_counts(shared));
                let value = shared.engine().stats(live.as_ref());
                return self.value(value);
            }
            Request::Metrics => {
                let stats = shared.engine().stats(None);
                self.text(metrics::text(&stats, &shared.sessions.status()))?;
            }
            Request::Stop => shared.engine().stop(),
            Request::Load(load) => {
                let uid = self.uid;
                let notes = shared.engine().load(*load, uid)?;
                for line in notes {
                    self.note(line)?;
                }
                warn_of_missing(shared);
            }
            Request::Enable => {
                let note = shared.engine().enable(true)?;
                self.note(note)?;
            }
            Request::Disable => {
                let note = shared.engine().enable(false)?;
                self.note(note)?;
            }
            Request::Debug { level } => {
                shared.engine().set_debug(&level)?;
                self.note(format!("debug level set to '{level}'"))?;
            }
            Request::Show { what, how } => return self.show(shared, what, &how),
            Request::Flush { what, how } => self.flush(shared, what, &how)?,
            Request::Kill { which, interface } => {
                self.kill(shared, &which, interface.as_deref())?;
            }
            Request::SyncStatus => return self.json(&shared.sessions.status()),
            // It has taken the whole connection before.
            Request::Sync { .. } => {}
            Request::StoreStates => return self.store_states(shared),
            Request::LoadStates { stream } => {
                let restored = shared.engine().load_states(&stream.to_vec())?;
                return self.json(&restored);
            }
            Request::KillSources { from, to } => self.kill_sources(shared, &from, &to)?,
            Request::Table { name, anchor, action, entries, verbosity } => {
                let answer = shared.engine().table(&(anchor, name), action, &entries, verbosity)?;
                self.text(answer.text)?;
                self.note(answer.note)?;
                return Ok(answer.exit_code);
            }
            Request::TypedTable { set, action } => {
                let answer = shared.engine().typed(set, action)?;
                if !answer.text.is_empty() {
                    self.put_piece(&answer.text).map_err(gone)?;
                }
                self.value(answer.value)?;
                return Ok(u8::from(answer.is_missing));
            }
        }
        Ok(0)
    }

    fn kill_sources(
        &mut self,
        shared: &Arc<Shared>,
        from: &[String],
        to: &[String],
    ) -> Result<(), Refused> {
        let count = end_sources(shared, from, to)?;
        let (sources, others) = (from.len(), to.len());
        self.note(format!(
            "killed {count} src nodes from {sources} sources and {others} destinations"
        ))
    }

    fn store_states(&mut self, shared: &Arc<Shared>) -> Result<u8, Refused> {
        // The engine is not held up meanwhile.
        let storer = shared.engine().states_storer();
        let mut put = |bytes: &[u8]| self.put_piece(&Bytes::new(bytes).into_text());
        let stored = storer.store(&mut put).map_err(gone)?;
        self.json(&stored)
    }

    fn show(&mut self, shared: &Arc<Shared>, what: Shown, how: &How) -> Result<u8, Refused> {
        match what {
            Shown::States => {
                // Millions of lines: the engine is not held up meanwhile.
                let printer = shared.engine().states_printer(how);
                printer.print(&mut |text| self.put_piece(&text)).map_err(gone)?;
                Ok(0)
            }
            Shown::All => {
                let live = live_counts(shared);
                let parts = shared.engine().parts_of_all(how, &live)?;
                let printer = shared.engine().states_printer(how);
                let mut titles = crate::show::Titles::default();
                for (title, text) in parts {
                    if title == engine::STATES_TITLE {
                        self.states_part(&mut titles, &printer)?;
                    } else if !text.is_empty() {
                        let mut head = String::new();
                        titles.put(&mut head, title);
                        self.text(head + &text)?;
                    }
                }
                Ok(0)
            }
            _ => {
                let has_counts = matches!(what, Shown::Rules | Shown::Nat) && how.verbosity > 0;
                let needs_live = what == Shown::Labels || has_counts;
                let live = if needs_live { live_counts(shared) } else { LiveCounts::new() };
                let (text, exit_code) = shared.engine().shown(what, how, &live)?;
                self.text(text)?;
                Ok(exit_code)
            }
        }
    }

    /// The title comes with the first state, and not at all without one.
    fn states_part(
        &mut self,
        titles: &mut crate::show::Titles,
        printer: &engine::StatesPrinter,
    ) -> Result<(), Refused> {
        let mut is_first = true;
        let print = printer.print(&mut |text| {
            if text.is_empty() {
                return Ok(());
            }
            let mut head = String::new();
            if std::mem::replace(&mut is_first, false) {
                titles.put(&mut head, engine::STATES_TITLE);
            }
            self.put_piece(&(head + &text))
        });
        print.map_err(gone).map(drop)
    }

    fn flush(&mut self, shared: &Arc<Shared>, what: Flushed, how: &How) -> Result<(), Refused> {
        let is_all = what == Flushed::All;
        let is_anchored = !how.anchor.is_empty();
        if is_all || what == Flushed::Rules {
            shared.engine().flush_rules(&how.anchor)?;
            self.note("rules cleared")?;
        }
        if is_all || what == Flushed::Nat {
            shared.engine().flush_translation(&how.anchor)?;
            self.note("nat cleared")?;
        }
        if is_all || what == Flushed::Tables {
            let note = shared.engine().flush_tables(&how.anchor)?;
            self.note(note)?;
        }
        if is_anchored {
            return Ok(());
        }
        if is_all || what == Flushed::States {
            let any = ["0.0.0.0/0", "::/0"].map(str::to_owned).to_vec();
            let which = Killed::Hosts { from: any, to: Vec::new() };
            let count = end_states(shared, &which, how.interface.as_deref())?;
            self.note(format!("{count} states cleared"))?;
        }
        if is_all || what == Flushed::Sources {
            end_sources(shared, &["0.0.0.0/0", "::/0"].map(str::to_owned), &[])?;
            self.note("source tracking entries cleared")?;
        }
        if is_all || what == Flushed::Osfp {
            shared.engine().flush_fingerprints()?;
        }
        if is_all || what == Flushed::Info {
            shared.engine().clear_counters()?;
            self.note("pf: statistics cleared")?;
        }
        if is_all {
            self.note("pf: interface flags reset")?;
        }
        Ok(())
    }

    fn kill(
        &mut self,
        shared: &Arc<Shared>,
        which: &Killed,
        interface: Option<&str>,
    ) -> Result<(), Refused> {
        let count = end_states(shared, which, interface)?;
        self.note(match which {
            Killed::Hosts { from, to } => {
                let (sources, destinations) = (from.len(), to.len());
                format!(
                    "killed {count} states from {sources} sources and {destinations} destinations"
                )
            }
            Killed::Label { .. } | Killed::Id { .. } | Killed::Nat { .. } => {
                format!("killed {count} states")
            }
        })
    }
}

/// What states add to the counters of rules. Others are answered meanwhile.
fn live_counts(shared: &Arc<Shared>) -> LiveCounts {
    let firewall = Arc::clone(shared.engine().firewall());
    engine::live_counts(&firewall)
}

fn end_states(
    shared: &Arc<Shared>,
    which: &Killed,
    interface: Option<&str>,
) -> Result<u64, Refused> {
    let (firewall, filters) = {
        let engine = shared.engine();
        (Arc::clone(engine.firewall()), engine.filters(which, interface)?)
    };
    engine::kill(&firewall, &filters)
}

/// Ends the nodes of sources; gives how many.
fn end_sources(shared: &Arc<Shared>, from: &[String], to: &[String]) -> Result<u64, Refused> {
    let (firewall, filters) = {
        let engine = shared.engine();
        (Arc::clone(engine.firewall()), engine.source_filters(from, to)?)
    };
    engine::kill_sources(&firewall, &filters)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` wants")]
fn gone(error: io::Error) -> Refused {
    Refused(format!("the client is gone: {error}"))
}

/// Says so if rules log or export, and nobody was named who gets that.
pub(super) fn warn_of_missing(shared: &Arc<Shared>) {
    warn_of_log(shared);
    warn_of_pflow(shared);
}

/// Says so if rules log and nobody writes it down.
fn warn_of_log(shared: &Arc<Shared>) {
    let logs = |engine: &Engine| engine.has_log_rules();
    if !shared.has_log_file && logs(&shared.engine()) {
        shared
            .messages
            .tell("the rules log packets, but nothing writes them to a file: use --log FILE");
    }
}

/// Says so if flows of rules are to be exported, and it was not said where to.
fn warn_of_pflow(shared: &Arc<Shared>) {
    if !shared.has_collector && shared.engine().has_pflow_rules() {
        shared.messages.tell(
            "rules have `pflow`, but their flows are exported to nobody: use --pflow \
             flowdst=ADDRESS:PORT",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A connection that holds little, and whose writer does not wait for long.
    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        nix::sys::socket::setsockopt(&ours, nix::sys::socket::sockopt::SndBuf, &4096).unwrap();
        ours.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        (ours, theirs)
    }

    #[test]
    fn who_reads_slowly_reads_it_all() {
        let (ours, mut theirs) = pair();
        let bytes: Vec<u8> = (0..4_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        // It is not read before the writer has waited in vain for some times.
        let (asked, is_read) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while asked.load(Ordering::Acquire) < 20 {
                    thread::yield_now();
                }
                let mut all = vec![0; bytes.len()];
                theirs.read_exact(&mut all).unwrap();
                assert!(all == bytes);
                is_read.store(true, Ordering::Release);
            });
            let is_left = |_| asked.fetch_add(1, Ordering::AcqRel) > usize::MAX / 2;
            put_all(&ours, &bytes, is_left).unwrap();
        });
        assert!(is_read.load(Ordering::Acquire));
        let (ours, _theirs) = pair();
        let error = put_all(&ours, &bytes, |_| true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_reader_gives_way_only_where_it_is_crowded() {
        assert!(!gives_way(CLIENT_TIMEOUT * 100, CLIENT_COUNT_MAX - 1));
        assert!(!gives_way(CLIENT_TIMEOUT / 2, CLIENT_COUNT_MAX));
        assert!(gives_way(CLIENT_TIMEOUT, CLIENT_COUNT_MAX));
    }

    #[test]
    fn a_client_that_ends_badly_leaves_its_place() {
        let count = AtomicUsize::new(0);
        let mut places: Vec<_> =
            (0..CLIENT_COUNT_MAX).map(|_| Place::take(&count).unwrap()).collect();
        assert!(Place::take(&count).is_none());
        let place = places.pop();
        let ended = thread::scope(|scope| {
            let panics = move || {
                let _place = place;
                std::panic::resume_unwind(Box::new(()));
            };
            scope.spawn(panics).join()
        });
        assert!(ended.is_err());
        assert_eq!(count.load(Ordering::Acquire), CLIENT_COUNT_MAX - 1);
        assert!(Place::take(&count).is_some());
    }
}
