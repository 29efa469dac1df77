//! Two sides and what is between them, with a socket pair in the place of each daemon.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore, version};

use super::key::{PrivateKey, PublicKey};
use super::local::Firewall;
use super::serve::Server;
use super::to::Link;
use super::trust::{self, Caller, Listener};
use super::tunnel::{Ended, Failure, Tunnel};

/// Nothing takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is not to come about is given so long.
const BRIEFLY: Duration = Duration::from_millis(300);

/// A daemon that hands the other end of each session to the test.
struct Fake {
    sessions: Mutex<Sender<UnixStream>>,
    is_away: AtomicBool,
}

impl Fake {
    fn new() -> (Self, Receiver<UnixStream>) {
        let (sessions, given) = mpsc::channel();
        (Self { sessions: Mutex::new(sessions), is_away: AtomicBool::new(false) }, given)
    }
}

impl Firewall for Fake {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.is_away.load(Ordering::SeqCst), "no firewall runs");
        Ok(())
    }

    fn join(&self) -> anyhow::Result<UnixStream> {
        self.check()?;
        let (home, other) = UnixStream::pair()?;
        other.set_read_timeout(Some(PATIENCE))?;
        self.sessions.lock().unwrap().send(other)?;
        Ok(home)
    }
}

/// What is said, in the order in which it was.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn add(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn count(&self, part: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }

    #[track_caller]
    fn await_line(&self, part: &str) {
        let until = Instant::now() + PATIENCE;
        while self.count(part) == 0 {
            assert!(Instant::now() < until, "{part}: {:?}", self.0.lock().unwrap());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn key() -> PrivateKey {
    PrivateKey::new().unwrap()
}

fn later() -> Instant {
    Instant::now() + PATIENCE
}

fn never() -> bool {
    false
}

/// A connection over the loopback.
fn wires() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// Both ends of a handshake, with the keys of each and what each takes.
fn shaken(
    caller: (&PrivateKey, Vec<PublicKey>),
    listener: (&PrivateKey, Vec<PublicKey>),
) -> (Result<Tunnel, Failure>, Result<Tunnel, Failure>) {
    let (one, other) = wires();
    let (call, take) = (Caller::new(caller.0, caller.1), Listener::new(listener.0, listener.1));
    let mut near = Tunnel::new(call.unwrap().begin().unwrap(), one).unwrap();
    let mut far = Tunnel::new(take.unwrap().begin().unwrap(), other).unwrap();
    thread::scope(|scope| {
        let far = scope.spawn(move || far.shake(later(), &never).map(|()| far));
        // Only what comes then says whether the other side agrees.
        let near = near.shake(later(), &never).map(|()| near);
        (near, far.join().unwrap())
    })
}

fn tunnels() -> (Tunnel, Tunnel) {
    let (near, far) = (key(), key());
    let (one, other) = shaken((&near, vec![far.public]), (&far, vec![key().public, near.public]));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(trust::peer(one.tls()), Some(far.public));
    assert_eq!(trust::peer(other.tls()), Some(near.public));
    (one, other)
}

/// A tunnel that carries: the far end of what it carries, and how it ended.
fn carrying(
    mut tunnel: Tunnel,
    is_stopped: &Arc<AtomicBool>,
) -> (UnixStream, thread::JoinHandle<Result<Ended, Failure>>) {
    let (home, other) = UnixStream::pair().unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    let stop = Arc::clone(is_stopped);
    let thread = thread::spawn(move || tunnel.carry(&home, &|| stop.load(Ordering::SeqCst)));
    (other, thread)
}

/// Bytes that do not repeat within a piece.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn who_has_the_right_keys_is_let_in() {
    drop(tunnels());
}

#[test]
fn a_key_that_was_not_named_is_refused_and_said() {
    let (near, far, other) = (key(), key(), key());
    // Of the one that is called: nothing of the caller's key is shown to it.
    let (one, two) = shaken((&near, vec![other.public]), (&far, vec![near.public]));
    let failure = one.err().expect("refused");
    assert!(failure.is_wrong_key());
    assert_eq!(
        failure.to_string(),
        format!("its key is {}, which --peer does not name", far.public)
    );
    let answer = two.err().expect("refused").to_string();
    assert!(answer.starts_with("the other firewall refuses this one's key"), "{answer}");

    // Of the caller, who learns it with the first byte that is not one.
    let (one, two) = shaken((&near, vec![far.public]), (&far, vec![other.public]));
    let failure = two.err().expect("refused");
    assert!(failure.is_wrong_key());
    assert!(failure.to_string().contains(&near.public.to_string()), "{failure}");
    let answer = one.unwrap().hear(later(), &never).unwrap_err().to_string();
    assert!(answer.starts_with("the other firewall refuses this one's key"), "{answer}");
}

/// Carries bytes both ways at once, in pieces of odd sizes.
#[test]
fn every_byte_arrives_in_order() {
    let stop = Arc::new(AtomicBool::new(false));
    let (one, two) = tunnels();
    let ((near, near_end), (far, far_end)) = (carrying(one, &stop), carrying(two, &stop));
    let bytes = noise(9_000_001);
    let write = |to: &UnixStream, mut step: usize| {
        let (mut to, mut rest) = (to.try_clone().unwrap(), bytes.clone());
        thread::spawn(move || {
            while !rest.is_empty() {
                let size = step.min(rest.len());
                to.write_all(&rest[..size]).unwrap();
                rest.drain(..size);
                step = step * 7 % 300_007 + 1;
            }
            to.shutdown(Shutdown::Write).unwrap();
        })
    };
    let read = |mut from: UnixStream| {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        all
    };
    let writers = [write(&near, 1), write(&far, 65_537)];
    let reader = thread::spawn(move || read(far));
    let back = read(near);
    assert!(back == bytes, "what comes back is what was sent");
    assert!(reader.join().unwrap() == bytes, "what arrives is what was sent");
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    near_end.join().unwrap().unwrap();
    far_end.join().unwrap().unwrap();
}

#[test]
fn one_side_may_end_before_the_other_has_said_all() {
    let stop = Arc::new(AtomicBool::new(false));
    let (one, two) = tunnels();
    let ((mut near, near_end), (mut far, far_end)) = (carrying(one, &stop), carrying(two, &stop));
    near.write_all(b"the last word").unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    far.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"the last word");
    let answer = noise(1_000_000);
    far.write_all(&answer).unwrap();
    drop(far);
    let mut back = Vec::new();
    near.read_to_end(&mut back).unwrap();
    assert!(back == answer, "all of it comes, after the end of the other direction");
    assert_eq!(near_end.join().unwrap().unwrap(), Ended::Local);
    assert_eq!(far_end.join().unwrap().unwrap(), Ended::Peer);
}

#[test]
fn who_does_not_read_is_not_read_from() {
    let stop = Arc::new(AtomicBool::new(false));
    let (one, two) = tunnels();
    let ((mut near, near_end), (mut far, far_end)) = (carrying(one, &stop), carrying(two, &stop));
    near.set_write_timeout(Some(BRIEFLY)).unwrap();
    let bytes = noise(1 << 20);
    let mut sent = 0;
    // What sockets and both sides hold has an end.
    let count = loop {
        match near.write(&bytes[sent % bytes.len()..]) {
            Ok(size) => sent += size,
            Err(_) => break sent,
        }
        assert!(sent < 256 << 20, "nothing holds it back");
    };
    // The other direction goes on meanwhile.
    far.write_all(b"still there").unwrap();
    let mut word = [0; 11];
    near.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"still there");
    near.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    far.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), count);
    assert!(all.chunks(bytes.len()).all(|piece| piece == &bytes[..piece.len()]), "in order");
    drop(far);
    near_end.join().unwrap().unwrap();
    far_end.join().unwrap().unwrap();
}

#[test]
fn a_daemon_that_goes_ends_the_connection_and_a_cut_is_a_failure() {
    let stop = Arc::new(AtomicBool::new(false));
    let (one, two) = tunnels();
    let ((near, near_end), (far, far_end)) = (carrying(one, &stop), carrying(two, &stop));
    drop(near);
    assert_eq!(near_end.join().unwrap().unwrap(), Ended::Local);
    assert_eq!(far_end.join().unwrap().unwrap(), Ended::Peer);
    drop(far);

    let (one, two) = tunnels();
    let (mut near, near_end) = carrying(one, &stop);
    drop(two);
    let failure = near_end.join().unwrap().unwrap_err();
    assert!(matches!(failure, Failure::Cut), "{failure}");
    assert_eq!(near.read(&mut [0]).unwrap(), 0, "and the daemon sees it");

    let (one, two) = tunnels();
    let ((_near, near_end), (_far, far_end)) = (carrying(one, &stop), carrying(two, &stop));
    stop.store(true, Ordering::SeqCst);
    assert_eq!(near_end.join().unwrap().unwrap(), Ended::Stopped);
    far_end.join().unwrap().unwrap();
}

/// A server that runs beside the test.
struct Running<'a> {
    address: SocketAddr,
    log: &'a Log,
    sessions: &'a Receiver<UnixStream>,
    firewall: &'a Fake,
}

/// Runs one that takes these keys while the test does its work.
fn serving(home: &PrivateKey, peers: Vec<PublicKey>, test: impl FnOnce(&Running<'_>)) {
    serving_within(PATIENCE, home, peers, test);
}

/// The same with a time for handshakes.
fn serving_within(
    handshake: Duration,
    home: &PrivateKey,
    peers: Vec<PublicKey>,
    test: impl FnOnce(&Running<'_>),
) {
    let (log, is_stopped) = (Log::default(), AtomicBool::new(false));
    let (firewall, sessions) = Fake::new();
    let trust = Listener::new(home, peers).unwrap();
    let (voice, stop) = (|text: &str| log.add(text), || is_stopped.load(Ordering::SeqCst));
    let listen = "127.0.0.1:0".parse().unwrap();
    let mut server = Server::new(listen, &trust, &firewall, &voice, &stop).unwrap();
    server.hurry(handshake);
    let running = Running {
        address: server.address().unwrap(),
        log: &log,
        sessions: &sessions,
        firewall: &firewall,
    };
    /// Also when the test fails.
    struct Stopped<'a>(&'a AtomicBool);
    impl Drop for Stopped<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    thread::scope(|scope| {
        let stopped = Stopped(&is_stopped);
        let server = scope.spawn(|| server.run().unwrap());
        test(&running);
        drop(stopped);
        server.join().unwrap();
    });
}

/// What comes of a connection that says this and nothing more.
fn said_by(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset is an end, too.
    drop(stream.read_to_end(&mut answer));
    answer
}

/// A client that has shaken hands, and what it hears.
fn client(address: SocketAddr, home: &PrivateKey, peer: PublicKey) -> Result<Tunnel, Failure> {
    let trust = Caller::new(home, vec![peer]).unwrap();
    let tcp = TcpStream::connect(address).unwrap();
    let mut tunnel = Tunnel::new(trust.begin().unwrap(), tcp).unwrap();
    tunnel.shake(later(), &never)?;
    Ok(tunnel)
}

/// A client of usual TLS, without a key.
fn stranger(versions: &[&'static rustls::SupportedProtocolVersion], address: SocketAddr) -> String {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "weir-sync".try_into().unwrap();
    let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let tcp = TcpStream::connect(address).unwrap();
    let mut tunnel = Tunnel::new(tls.into(), tcp).unwrap();
    tunnel.shake(later(), &never).unwrap_err().to_string()
}

#[test]
fn strangers_are_refused_and_do_not_meet_the_firewall() {
    let (home, peer) = (key(), key());
    serving(&home, vec![peer.public], |server| {
        let garbage = said_by(server.address, &[0xff; 300]);
        assert!(garbage.len() < 20, "an alert at most: {garbage:?}");
        server.log.await_line("what came is not TLS");
        let web = said_by(server.address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(!web.starts_with(b"HTTP"), "{web:?}");
        stranger(&[&version::TLS12], server.address);
        stranger(&[&version::TLS13], server.address);

        let other = key();
        let refused = client(server.address, &other, home.public)
            .and_then(|mut tunnel| tunnel.hear(later(), &never).map(|()| tunnel));
        let answer = refused.err().expect("refused").to_string();
        assert!(answer.contains("refuses this one's key"), "{answer}");
        server.log.await_line(&format!("its key is {}", other.public));
        assert!(server.sessions.try_recv().is_err(), "none of them has met the firewall");

        // And the right one is let in after all of them.
        let mut tunnel = client(server.address, &peer, home.public).unwrap();
        let mut session = server.sessions.recv_timeout(PATIENCE).unwrap();
        session.write_all(b"welcome").unwrap();
        tunnel.hear(later(), &never).unwrap();
    });
}

/// A connection that keeps what goes by it, in the middle.
fn recorded(address: SocketAddr) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let middle = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let mut near = listener.accept().unwrap().0;
        let far = TcpStream::connect(address).unwrap();
        let (mut back, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let answers = thread::spawn(move || std::io::copy(&mut back, &mut to));
        let (mut all, mut piece, mut far) = (Vec::new(), [0; 4096], far);
        while let Ok(size) = near.read(&mut piece)
            && size > 0
        {
            all.extend_from_slice(&piece[..size]);
            far.write_all(&piece[..size]).unwrap();
        }
        drop(far.shutdown(Shutdown::Both));
        drop(answers.join());
        all
    });
    (middle, thread)
}

#[test]
fn a_session_that_is_replayed_is_none() {
    let (home, peer) = (key(), key());
    serving(&home, vec![peer.public], |server| {
        let (middle, recording) = recorded(server.address);
        let mut tunnel = client(middle, &peer, home.public).unwrap();
        let mut session = server.sessions.recv_timeout(PATIENCE).unwrap();
        session.write_all(b"welcome").unwrap();
        tunnel.hear(later(), &never).unwrap();
        drop((tunnel, session));
        let bytes = recording.join().unwrap();
        assert!(bytes.len() > 300, "a handshake");
        server.log.await_line("no states come from");
        said_by(server.address, &bytes);
        server.log.await_line("refused: ");
        assert!(server.sessions.recv_timeout(BRIEFLY).is_err(), "it has not met the firewall");
    });
}

#[test]
fn a_new_connection_takes_the_place_of_the_old_one_and_another_firewalls_does_not() {
    let (home, peer, third) = (key(), key(), key());
    serving(&home, vec![peer.public, third.public], |server| {
        let begin = |who: &PrivateKey, number: u8| {
            let mut tunnel = client(server.address, who, home.public).unwrap();
            let mut session = server.sessions.recv_timeout(PATIENCE).unwrap();
            session.write_all(&[number]).unwrap();
            tunnel.hear(later(), &never).unwrap();
            (tunnel, session)
        };
        let (_first, mut first) = begin(&peer, 1);
        let (second_tunnel, mut second) = begin(&peer, 2);
        assert_eq!(first.read(&mut [0]).unwrap(), 0, "the first one has ended");
        server.log.await_line("it has connected anew");

        let mut other = client(server.address, &third, home.public).unwrap();
        let failure = other.hear(later(), &never).unwrap_err();
        assert!(matches!(failure, Failure::Closed), "{failure}");
        server.log.await_line(&format!("{}, already", peer.public));
        drop(second_tunnel);
        assert_eq!(second.read(&mut [0]).unwrap(), 0);
        server.log.await_line("the connection was cut");
        begin(&third, 3);
    });
}

#[test]
fn those_that_say_nothing_leave_room_after_a_while() {
    let (home, peer) = (key(), key());
    serving_within(Duration::from_secs(3), &home, vec![peer.public], |server| {
        // The beginning of a record is not more than nothing.
        let mut record = TcpStream::connect(server.address).unwrap();
        record.write_all(&[22, 3, 1]).unwrap();
        let connect = || TcpStream::connect(server.address).unwrap();
        let idle = (0..40).map(|_| connect()).chain([record]).collect::<Vec<TcpStream>>();
        server.log.await_line("16 others have not shown a key yet");
        server.log.await_line("nothing came for too long");
        for mut stream in idle {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "closed, without a word");
        }
        client(server.address, &peer, home.public).unwrap();
        server.sessions.recv_timeout(PATIENCE).unwrap();
    });
}

/// `to` against `serve`, with a firewall that comes late and a connection that is lost.
#[test]
fn a_link_begins_comes_back_and_says_each_once() {
    let (home, peer) = (key(), key());
    let (log, is_stopped) = (Log::default(), AtomicBool::new(false));
    let (firewall, sessions) = Fake::new();
    let trust = Caller::new(&peer, vec![home.public]).unwrap();
    serving(&home, vec![peer.public], |server| {
        server.firewall.is_away.store(true, Ordering::SeqCst);
        let host = server.address.to_string();
        let (voice, stop) = (|text: &str| log.add(text), || is_stopped.load(Ordering::SeqCst));
        let link = Link {
            host: &host,
            bind: Some("127.0.0.1".parse().unwrap()),
            trust: &trust,
            firewall: &firewall,
            voice: &voice,
            stop: &stop,
        };
        thread::scope(|scope| {
            let link = scope.spawn(|| link.run());
            log.await_line("takes no states now");
            server.log.await_line("no firewall runs");
            assert!(sessions.try_recv().is_err(), "this firewall's session is not begun in vain");
            server.firewall.is_away.store(false, Ordering::SeqCst);
            for round in 1..=2 {
                let mut far = server.sessions.recv_timeout(PATIENCE).unwrap();
                far.write_all(b"header").unwrap();
                let mut near = sessions.recv_timeout(PATIENCE).unwrap();
                let mut word = [0; 6];
                near.read_exact(&mut word).unwrap();
                assert_eq!(&word, b"header");
                near.write_all(b"states").unwrap();
                far.read_exact(&mut word).unwrap();
                assert_eq!(&word, b"states");
                assert_eq!(log.count("states go to"), 2 * round, "{:?}", log.0.lock().unwrap());
                // The other daemon goes, as in a restart.
                drop(far);
                assert_eq!(near.read(&mut [0]).unwrap(), 0);
            }
            log.await_line("any more: the other firewall has ended it");
            is_stopped.store(true, Ordering::SeqCst);
            link.join().unwrap();
        });
    });
}
