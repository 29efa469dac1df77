//! Both ends over a pipe in memory, which passes on as few bytes at a time as the test says; and
//! tickets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::rc::Rc;

use super::*;
use crate::client::config::TlsConfig;
use crate::client::tls::Connector;
use crate::tls::Handshake;

#[test]
fn workers_read_each_others_tickets_and_nobody_elses() {
    let (one, other) = (Tickets::new(&[1; 32]).unwrap(), Tickets::new(&[1; 32]).unwrap());
    let ticket = one.encrypt(b"session").unwrap();
    assert_ne!(ticket, one.encrypt(b"session").unwrap(), "no nonce comes twice");
    assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
    assert_eq!(Tickets::new(&[2; 32]).unwrap().decrypt(&ticket), None);
    assert_eq!(other.decrypt(&ticket[..ticket.len() - 1]), None);
    assert_eq!(other.decrypt(&ticket[..5]), None);
    assert_eq!(other.decrypt(&[]), None);
}

#[test]
fn what_is_no_certificate_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("empty.pem");
    std::fs::write(&file, "nothing\n").unwrap();
    let files = |certificate: &Path, key: &Path| Certificate::Files {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    };
    let refused = |certificate: &Certificate| {
        Identity::new(certificate, &[]).map(|_| ()).unwrap_err().to_string()
    };
    let absent = directory.path().join("absent.pem");
    assert!(refused(&files(&absent, &file)).contains("absent.pem"));
    assert!(refused(&files(&file, &file)).contains("cannot read a certificate"));
    let listen = ["127.0.0.1:443".parse().unwrap(), "[::]:443".parse().unwrap()];
    Identity::new(&Certificate::SelfSigned, &listen).map(|_| ()).unwrap();
}

/// One way of a pipe.
type Bytes = Rc<RefCell<VecDeque<u8>>>;

/// No end has to be asked so often.
const PATIENCE: u32 = 1_000_000;

/// One end of a pipe. Each call moves at most so many bytes, and every other one none at all.
struct End {
    from: Bytes,
    to: Bytes,
    piece: usize,
    reads: u32,
    writes: u32,
}

impl End {
    fn pair(piece: usize) -> (Self, Self) {
        let (up, down) = (Bytes::default(), Bytes::default());
        let end = |from: &Bytes, to: &Bytes| Self {
            from: Rc::clone(from),
            to: Rc::clone(to),
            piece,
            reads: 0,
            writes: 0,
        };
        (end(&down, &up), end(&up, &down))
    }

    /// How much of `size` bytes this call moves.
    fn size(&self, size: usize, calls: u32) -> io::Result<usize> {
        assert!(calls < PATIENCE, "nothing comes of it");
        let size = size.min(self.piece);
        if calls % 2 == 1 && size > 0 { Ok(size) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}

impl Read for End {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        let here = self.from.borrow().len();
        let size = self.size(room.len().min(here), self.reads)?;
        self.from.borrow_mut().read(&mut room[..size])
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes += 1;
        let size = self.size(bytes.len(), self.writes)?;
        self.to.borrow_mut().write(&bytes[..size])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn connector(resumes: bool) -> Connector {
    let config = TlsConfig { name: "127.0.0.1".into(), ca: None, verifies: false, resumes };
    Connector::new(&config, 1).unwrap()
}

fn acceptor() -> Acceptor {
    let identity = Identity::new(&Certificate::SelfSigned, &["127.0.0.1:1".parse().unwrap()]);
    Acceptor::new(&identity.unwrap()).unwrap()
}

/// Reads what is there.
fn read(session: &mut Session, end: &mut End, all: &mut Vec<u8>) {
    let mut buffer = [0; 700];
    match session.read(end, &mut buffer, false) {
        Ok((size, _)) => all.extend_from_slice(&buffer[..size]),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
    }
}

/// Writes what is not written yet.
fn write(session: &mut Session, end: &mut End, text: &[u8], written: &mut usize) {
    if *written == text.len() {
        session.flush(end).unwrap();
        return;
    }
    match session.write(end, &[IoSlice::new(&text[*written..])]) {
        Ok(size) => *written += size,
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
    }
}

/// A handshake, and some bytes each way; how each end says that the handshake was.
fn talk(connector: &Connector, acceptor: &Acceptor, piece: usize) -> [Handshake; 2] {
    let (mut near, mut far) = End::pair(piece);
    let (mut client, mut server) = (connector.begin().unwrap(), acceptor.begin().unwrap());
    let (mut one, mut other) = (None, None);
    while one.is_none() || other.is_none() {
        one = one.or(client.handshake(&mut near).unwrap());
        other = other.or(server.handshake(&mut far).unwrap());
    }
    let text: Vec<u8> = (0..20_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut written = [0; 2];
    while up.len() < text.len() || down.len() < text.len() {
        write(&mut client, &mut near, &text, &mut written[0]);
        read(&mut server, &mut far, &mut up);
        write(&mut server, &mut far, &text, &mut written[1]);
        read(&mut client, &mut near, &mut down);
    }
    assert!(up == text && down == text, "in pieces of {piece}");
    [one.unwrap(), other.unwrap()]
}

#[test]
fn both_ends_agree_however_few_bytes_come_at_a_time() {
    let acceptor = acceptor();
    for piece in [1, 5, 100, 4095, 4096, 4097, 1 << 20] {
        let connector = connector(true);
        assert_eq!(talk(&connector, &acceptor, piece), [Handshake::Full; 2]);
        assert_eq!(talk(&connector, &acceptor, piece), [Handshake::Resumed; 2]);
        // Without what it has kept, it cannot.
        let connector = self::connector(false);
        assert_eq!(talk(&connector, &acceptor, piece), [Handshake::Full; 2]);
        assert_eq!(talk(&connector, &acceptor, piece), [Handshake::Full; 2]);
    }
}

/// What an end makes of bytes in the place of a handshake.
fn refused(session: &mut Session, end: &mut End) -> String {
    loop {
        match session.handshake(end) {
            Ok(done) => assert_eq!(done, None),
            Err(error) => {
                let error = crate::tls::SessionError::of(&error).expect("an error of TLS");
                return error.to_string();
            }
        }
    }
}

#[test]
fn who_speaks_something_else_is_refused_in_words() {
    let (mut near, mut far) = End::pair(1 << 20);
    let text = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    while far.write(text).is_err() {}
    let mut client = connector(true).begin().unwrap();
    assert!(refused(&mut client, &mut near).contains("not TLS"));
    let (mut near, mut far) = End::pair(1 << 20);
    let mut config = acceptor().0.as_ref().clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (mut client, server) = (connector(true).begin().unwrap(), Acceptor(Arc::new(config)));
    let mut server = server.begin().unwrap();
    assert_eq!(client.handshake(&mut near).unwrap(), None);
    assert!(refused(&mut server, &mut far).contains("HTTP/2"));
    while !server.flush(&mut far).unwrap() {}
    assert!(refused(&mut client, &mut near).contains("no HTTP/2"));
}

#[test]
fn an_announced_end_is_no_truncation() {
    for is_announced in [true, false] {
        let (mut near, mut far) = End::pair(1 << 20);
        let (mut client, mut server) =
            (connector(true).begin().unwrap(), acceptor().begin().unwrap());
        let (mut one, mut other) = (None, None);
        while one.is_none() || other.is_none() {
            one = one.or(client.handshake(&mut near).unwrap());
            other = other.or(server.handshake(&mut far).unwrap());
        }
        let mut written = 0;
        while written == 0 {
            write(&mut server, &mut far, b"bye", &mut written);
        }
        if is_announced {
            server.end(&mut far);
        }
        while !server.flush(&mut far).unwrap() {}
        let mut all = Vec::new();
        while all.is_empty() {
            read(&mut client, &mut near, &mut all);
        }
        assert_eq!(all, b"bye");
        // The socket's end.
        let (mut reader, mut buffer) = (Ended(near), [0; 9]);
        let end = loop {
            match client.read(&mut reader, &mut buffer, true) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                end => break end,
            }
        };
        match end {
            Ok((size, _)) => assert!(is_announced && size == 0),
            Err(error) => {
                assert!(!is_announced && error.kind() == io::ErrorKind::UnexpectedEof, "{error}");
            }
        }
    }
}

/// A pipe of which the other end is closed.
struct Ended(End);

impl Read for Ended {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.0.from.borrow().is_empty() { Ok(0) } else { self.0.read(room) }
    }
}

impl Write for Ended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
