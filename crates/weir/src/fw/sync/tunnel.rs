//! One TLS connection, and a local connection whose bytes it carries, both ways at once and on one
//! thread. Whoever does not read is not read from: no more than a piece of each direction waits
//! here. It never looks at what it carries, and trusts whom `trust` does.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::{AlertDescription, Connection, Error as TlsError};

use super::trust::WrongKey;

/// Bytes that are read at a time.
const PIECE_SIZE_BYTES: usize = 256 << 10;
/// How long it waits before it looks whether it is to stop.
const POLL: Duration = Duration::from_millis(100);
/// Once one side has ended, the other one may say nothing for so long.
const LINGER: Duration = Duration::from_secs(5);

/// Whether to stop.
pub(super) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// How what is carried has ended without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The other firewall has said that it is done.
    Peer,
    /// This firewall has.
    Local,
    /// It was asked to stop.
    Stopped,
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{}", words(.0))]
    Tls(#[from] TlsError),
    #[error("nothing came for too long")]
    Silent,
    /// Without the alert that TLS ends with.
    #[error("the connection was cut")]
    Cut,
    #[error("the other side has closed the connection")]
    Closed,
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("asked to stop")]
    Stopped,
}

/// What an error of TLS means.
fn words(error: &TlsError) -> String {
    let what = match error {
        TlsError::AlertReceived(AlertDescription::CertificateUnknown) => {
            "the other firewall refuses this one's key: `weir fw sync keygen --public` prints it, \
             and --peer there has to name it"
        }
        TlsError::NoApplicationProtocol
        | TlsError::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "the other side is no weir fw sync of this version"
        }
        TlsError::AlertReceived(
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
        ) => "the other side speaks no TLS 1.3, or is no weir fw sync",
        TlsError::InvalidMessage(_) => "what came is not TLS",
        TlsError::NoCertificatesPresented => "it shows no key",
        TlsError::PeerIncompatible(_) => return format!("it is no weir fw sync: {error}"),
        TlsError::InvalidCertificate(rustls::CertificateError::Other(other)) => {
            return other.to_string();
        }
        _ => return error.to_string(),
    };
    what.to_owned()
}

impl Failure {
    /// Whether a key was shown that nobody has named.
    pub(super) fn is_wrong_key(&self) -> bool {
        matches!(self, Self::Tls(error) if WrongKey::is(error))
    }
}

/// A TLS connection, from its first byte on.
pub(super) struct Tunnel {
    tls: Connection,
    tcp: TcpStream,
    piece: Vec<u8>,
    /// What has come and is not passed on, from `passed` on.
    received: Vec<u8>,
    passed: usize,
    /// The other side has said that it sends no more.
    is_ended: bool,
}

impl Tunnel {
    pub(super) fn new(mut tls: Connection, tcp: TcpStream) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        // What is read from one side goes to the other before more is read.
        tls.set_buffer_limit(None);
        let (piece, received) = (vec![0; PIECE_SIZE_BYTES], Vec::new());
        Ok(Self { tls, tcp, piece, received, passed: 0, is_ended: false })
    }

    pub(super) fn tls(&self) -> &Connection {
        &self.tls
    }

    /// Shakes hands, until then at the latest.
    pub(super) fn shake(&mut self, until: Instant, stop: Stop<'_>) -> Result<(), Failure> {
        self.talk(until, stop, |tunnel| !tunnel.tls.is_handshaking() && !tunnel.tls.wants_write())
    }

    /// Waits for the first byte that is carried: the other side has agreed to this one.
    pub(super) fn hear(&mut self, until: Instant, stop: Stop<'_>) -> Result<(), Failure> {
        self.talk(until, stop, |tunnel| !tunnel.received.is_empty())
    }

    fn talk(
        &mut self,
        until: Instant,
        stop: Stop<'_>,
        is_done: fn(&Self) -> bool,
    ) -> Result<(), Failure> {
        loop {
            self.flush()?;
            if is_done(self) {
                return Ok(());
            }
            if self.is_ended {
                return Err(Failure::Closed);
            }
            if stop() {
                return Err(Failure::Stopped);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Silent);
            }
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, self.tls.wants_write());
            wait(&mut [PollFd::new(self.tcp.as_fd(), flags)], left.min(POLL))?;
            self.fill()?;
        }
    }

    /// Carries what a local connection says, and what it is told, until both sides have ended.
    pub(super) fn carry(&mut self, local: &UnixStream, stop: Stop<'_>) -> Result<Ended, Failure> {
        local.set_nonblocking(true)?;
        let mut ends = Ends::default();
        let mut moved = Instant::now();
        loop {
            if stop() {
                self.end();
                return Ok(Ended::Stopped);
            }
            let is_moving = match self.step(local, &mut ends) {
                Ok(is_moving) => is_moving,
                Err(Broken::Local) => {
                    self.end();
                    return Ok(Ended::Local);
                }
                Err(Broken::Peer(failure)) => return Err(failure),
            };
            if is_moving {
                moved = Instant::now();
            }
            let who = match (ends.is_peer_first, ends.is_local_read) {
                (true, _) => Ended::Peer,
                (_, true) => Ended::Local,
                _ => continue,
            };
            let is_over = ends.is_local_shut && ends.is_peer_notified && !self.tls.wants_write();
            if is_over || moved.elapsed() >= LINGER {
                self.end();
                return Ok(who);
            }
        }
    }

    /// Passes on what waits, and waits for more; whether something came or went.
    fn step(&mut self, local: &UnixStream, ends: &mut Ends) -> Result<bool, Broken> {
        let mut is_moving = self.pass(local).map_err(|_| Broken::Local)?;
        is_moving |= self.flush().map_err(Broken::Peer)?;
        if ends.is_local_read && !ends.is_peer_notified {
            self.tls.send_close_notify();
            ends.is_peer_notified = true;
            self.flush().map_err(Broken::Peer)?;
        }
        if self.is_ended && self.received.is_empty() && !ends.is_local_shut {
            // It may have gone.
            drop(local.shutdown(Shutdown::Write));
            ends.is_local_shut = true;
        }
        let (takes_peer, takes_local) = self.await_any(local, ends)?;
        if takes_peer {
            is_moving |= self.fill().map_err(Broken::Peer)?;
            ends.is_peer_first |= self.is_ended && !ends.is_local_read;
        }
        if takes_local {
            is_moving |= self.take(local, ends)?;
        }
        Ok(is_moving)
    }

    /// Waits for what there is room for; from whom something comes.
    fn await_any(&self, local: &UnixStream, ends: &Ends) -> Result<(bool, bool), Broken> {
        let flags = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, reads);
            flags.set(PollFlags::POLLOUT, writes);
            flags
        };
        let is_full = self.tls.wants_write();
        let peer = flags(self.received.is_empty() && !self.is_ended, is_full);
        let daemon = flags(!is_full && !ends.is_local_read, !self.received.is_empty());
        let mut both = [PollFd::new(self.tcp.as_fd(), peer), PollFd::new(local.as_fd(), daemon)];
        // One that nothing is to happen on would wake this for its end again and again.
        let asked = match (peer.is_empty(), daemon.is_empty()) {
            (true, _) => &mut both[1..],
            (_, true) => &mut both[..1],
            _ => &mut both[..],
        };
        if peer.is_empty() && daemon.is_empty() {
            std::thread::sleep(POLL);
            return Ok((false, false));
        }
        wait(asked, POLL).map_err(|error| Broken::Peer(error.into()))?;
        let comes = |fd: &PollFd<'_>, flags: PollFlags| {
            flags.contains(PollFlags::POLLIN) && fd.any().unwrap_or(false)
        };
        Ok((comes(&both[0], peer), comes(&both[1], daemon)))
    }

    /// Writes what has come to the local side, as far as it takes it; whether it took some.
    fn pass(&mut self, local: &UnixStream) -> io::Result<bool> {
        let mut is_moving = false;
        while self.passed < self.received.len() {
            match (&*local).write(&self.received[self.passed..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    self.passed += size;
                    is_moving = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(is_moving),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.received.clear();
        self.passed = 0;
        Ok(is_moving)
    }

    /// Takes a piece from the local side; whether something came.
    fn take(&mut self, local: &UnixStream, ends: &mut Ends) -> Result<bool, Broken> {
        match (&*local).read(&mut self.piece) {
            Ok(0) => ends.is_local_read = true,
            Ok(size) => {
                let written = self.tls.writer().write_all(&self.piece[..size]);
                written.map_err(|error| Broken::Peer(error.into()))?;
                return Ok(true);
            }
            Err(error) if is_later(&error) => {}
            Err(_) => return Err(Broken::Local),
        }
        Ok(false)
    }

    /// Writes what waits to the socket, as far as it takes it; whether it took some.
    fn flush(&mut self) -> Result<bool, Failure> {
        let mut is_moving = false;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
                Ok(0) => return Err(Failure::Cut),
                Ok(_) => is_moving = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::of(error)),
            }
        }
        Ok(is_moving)
    }

    /// Reads from the socket once, and deciphers what came; whether something did.
    fn fill(&mut self) -> Result<bool, Failure> {
        let size = match self.tcp.read(&mut self.piece) {
            Ok(0) => return Err(Failure::Cut),
            Ok(size) => size,
            Err(error) if is_later(&error) => return Ok(false),
            Err(error) => return Err(Failure::of(error)),
        };
        let mut rest = &self.piece[..size];
        while !rest.is_empty() && !self.is_ended {
            self.tls.read_tls(&mut rest)?;
            let state = match self.tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // It says why to the other end, if there is room.
                    drop(self.tls.write_tls(&mut self.tcp));
                    return Err(error.into());
                }
            };
            self.is_ended |= state.peer_has_closed();
            let count = state.plaintext_bytes_to_read();
            let before = self.received.len();
            self.received.resize(before + count, 0);
            self.tls.reader().read_exact(&mut self.received[before..])?;
        }
        Ok(true)
    }

    /// Says that no more will be sent, if there is room for that.
    pub(super) fn end(&mut self) {
        self.tls.send_close_notify();
        drop(self.flush());
    }
}

impl Failure {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Cut,
            _ => Self::Socket(error),
        }
    }
}

/// Which directions have ended.
#[derive(Debug, Default)]
struct Ends {
    /// The local side says no more.
    is_local_read: bool,
    /// The other side was told so.
    is_peer_notified: bool,
    /// The local side was told that the other side says no more.
    is_local_shut: bool,
    is_peer_first: bool,
}

/// What a step breaks at.
enum Broken {
    /// The local side has gone: nobody is left to tell.
    Local,
    Peer(Failure),
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Waits until something is ready, or the time is over.
pub(super) fn wait(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let timeout = timeout.max(Duration::from_millis(1));
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    match poll(fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
