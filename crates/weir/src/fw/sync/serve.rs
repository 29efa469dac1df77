//! `weir fw sync serve`: takes connections of other firewalls, and has their states come into this
//! one. One session at a time: a new connection of the same firewall takes the place of the one
//! before, which may have been cut without a word. Whoever cannot show a key that was named is
//! refused, and holds a place for a few seconds at most.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags};

use super::Voice;
use super::key::PublicKey;
use super::local::Firewall;
use super::repeats::{Kind, Repeats};
use super::trust::{self, Listener};
use super::tunnel::{Ended, Failure, Stop, Tunnel, wait};
use super::wire;

/// Connections that have not shown a key yet.
const PENDING_MAX: usize = 16;
/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long the session before may take to end, and the firewall to see that.
const TURN: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(100);
/// Between two tries to join the firewall.
const RETRY: Duration = Duration::from_millis(50);

/// Whose session there is, and what ends it.
struct Current {
    key: PublicKey,
    is_replaced: Arc<AtomicBool>,
}

/// Where other firewalls connect to.
pub(super) struct Server<'a> {
    listener: TcpListener,
    trust: &'a Listener,
    firewall: &'a dyn Firewall,
    voice: Voice<'a>,
    stop: Stop<'a>,
    current: Mutex<Option<Current>>,
    ended: Condvar,
    pending: AtomicUsize,
    repeats: Mutex<Repeats>,
    /// How long a handshake may take.
    handshake: Duration,
}

/// A connection's place among those that have not shown a key.
struct Pending<'a>(&'a AtomicUsize);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A session's place, which is free again when this goes.
struct Place<'a, 'b> {
    server: &'a Server<'b>,
    is_replaced: Arc<AtomicBool>,
}

impl Drop for Place<'_, '_> {
    fn drop(&mut self) {
        *lock(&self.server.current) = None;
        self.server.ended.notify_all();
    }
}

impl<'a> Server<'a> {
    pub(super) fn new(
        listen: SocketAddr,
        trust: &'a Listener,
        firewall: &'a dyn Firewall,
        voice: Voice<'a>,
        stop: Stop<'a>,
    ) -> anyhow::Result<Self> {
        let failed = || format!("cannot listen at {listen}");
        let listener = TcpListener::bind(listen).with_context(failed)?;
        listener.set_nonblocking(true).with_context(failed)?;
        Ok(Self {
            listener,
            trust,
            firewall,
            voice,
            stop,
            current: Mutex::default(),
            ended: Condvar::new(),
            pending: AtomicUsize::new(0),
            repeats: Mutex::default(),
            handshake: HANDSHAKE,
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits no longer for handshakes.
    #[cfg(test)]
    pub(super) fn hurry(&mut self, handshake: Duration) {
        self.handshake = handshake;
    }

    /// Serves until it is asked to stop.
    pub(super) fn run(&self) -> anyhow::Result<()> {
        thread::scope(|scope| {
            while !(self.stop)() {
                let fd = PollFd::new(self.listener.as_fd(), PollFlags::POLLIN);
                wait(&mut [fd], POLL).context("cannot wait for connections")?;
                let due = lock(&self.repeats).due(Instant::now());
                due.iter().for_each(|line| (self.voice)(line));
                match self.listener.accept() {
                    Ok((tcp, from)) => self.admit(scope, tcp, from),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => {
                        self.refuse(Kind::Many, &format!("a connection: {error}"));
                        // What is missing, such as descriptors, is not there again at once.
                        thread::sleep(POLL);
                    }
                }
            }
            Ok(())
        })
    }

    /// Gives a connection a thread, if there is room for it.
    fn admit<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        tcp: TcpStream,
        from: SocketAddr,
    ) {
        let pending = Pending(&self.pending);
        if self.pending.fetch_add(1, Ordering::SeqCst) >= PENDING_MAX {
            let text = format!("{from}: {PENDING_MAX} others have not shown a key yet");
            self.refuse(Kind::Many, &text);
            return;
        }
        let thread = thread::Builder::new().name("session".to_owned());
        let spawned = thread.spawn_scoped(scope, move || {
            if let Err((kind, why)) = self.session(tcp, from, pending) {
                self.refuse(kind, &format!("{from}: {why}"));
            }
        });
        if let Err(error) = spawned {
            self.refuse(Kind::Many, &format!("{from}: no thread for it: {error}"));
        }
    }

    fn session(
        &self,
        tcp: TcpStream,
        from: SocketAddr,
        pending: Pending<'_>,
    ) -> Result<(), (Kind, String)> {
        let stranger = |why: String| (Kind::Stranger, why);
        wire::prepare(&tcp).map_err(|error| stranger(error.to_string()))?;
        let tls = self.trust.begin().map_err(|error| stranger(error.to_string()))?;
        let mut tunnel = Tunnel::new(tls, tcp).map_err(|error| stranger(error.to_string()))?;
        match tunnel.shake(Instant::now() + self.handshake, self.stop) {
            Ok(()) => {}
            Err(Failure::Stopped) => return Ok(()),
            Err(failure) => return Err((kind(&failure), failure.to_string())),
        }
        let Some(key) = trust::peer(tunnel.tls()) else {
            return Err(stranger("it is no weir fw sync of this version".to_owned()));
        };
        let busy = |why: String, tunnel: &mut Tunnel| {
            tunnel.end();
            (Kind::Busy, why)
        };
        let place = self.take(key).map_err(|why| busy(why, &mut tunnel))?;
        drop(pending);
        let stop = || (self.stop)() || place.is_replaced.load(Ordering::Acquire);
        let local = match self.join(&stop) {
            Ok(local) => local,
            Err(error) => return Err(busy(crate::exit::message(&error), &mut tunnel)),
        };
        self.say(Kind::Begun, format!("states come from {from}"));
        let ended = tunnel.carry(&local, &stop);
        let why = match ended {
            Ok(Ended::Stopped) if (self.stop)() => return Ok(()),
            Ok(Ended::Stopped) => "it has connected anew".to_owned(),
            Ok(Ended::Peer) => "it has ended it".to_owned(),
            Ok(Ended::Local) => {
                "this firewall has ended it (`weir fw sync status` has its reason)".to_owned()
            }
            Err(failure) => failure.to_string(),
        };
        self.say(Kind::Ended, format!("no states come from {from} any more: {why}"));
        Ok(())
    }

    /// Takes the place of a session, also from the one before of the same firewall.
    fn take(&self, key: PublicKey) -> Result<Place<'_, 'a>, String> {
        let until = Instant::now() + TURN;
        let mut current = lock(&self.current);
        while let Some(other) = &*current {
            if other.key != key {
                return Err(format!("states come from another firewall, {}, already", other.key));
            }
            other.is_replaced.store(true, Ordering::Release);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("its connection before does not end".to_owned());
            }
            let waited = self.ended.wait_timeout(current, left);
            current = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_replaced = Arc::new(AtomicBool::new(false));
        *current = Some(Current { key, is_replaced: Arc::clone(&is_replaced) });
        Ok(Place { server: self, is_replaced })
    }

    /// The firewall may not have seen yet that the session before has ended.
    fn join(&self, stop: Stop<'_>) -> anyhow::Result<UnixStream> {
        let until = Instant::now() + TURN;
        loop {
            match self.firewall.join() {
                Err(_) if Instant::now() < until && !stop() => thread::sleep(RETRY),
                joined => return joined,
            }
        }
    }

    fn refuse(&self, kind: Kind, text: &str) {
        self.say(kind, format!("refused: {text}"));
    }

    fn say(&self, kind: Kind, text: String) {
        let said = lock(&self.repeats).add(kind, text, Instant::now());
        if let Some(text) = said {
            (self.voice)(&text);
        }
    }
}

/// What kind of refusal a failed handshake is.
fn kind(failure: &Failure) -> Kind {
    match failure {
        Failure::Silent => Kind::Silent,
        failure if failure.is_wrong_key() => Kind::Key,
        _ => Kind::Stranger,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
