//! Serves files by HTTP/1.1, for boot loaders and installers: GET and HEAD of a closed list of
//! paths, each a file.
//!
//! The protocol is hyper's (RFC 9110, RFC 9112). There are no directories, no ranges (a request
//! for one gets the whole file, as RFC 9110 section 14.2 allows) and nothing to write to. A
//! connection has a thread, of which there are few: those of a rack.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, sockopt};
use serde::Serialize;

/// Connections at a time; more are closed at once, and told.
const CONNECTIONS_MAX: usize = 64;
/// A connection on which nothing is asked for so long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// What is read from a file at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A file of this size takes a while: that it is being sent is told too.
const LONG_BYTES: u64 = 1 << 20;

/// A request, and how far its answer is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Who asked.
    pub address: IpAddr,
    /// For what.
    pub file: String,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// What became of them.
    pub state: State,
    /// How many were handed to the network.
    pub sent_bytes: u64,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// A long one is on its way.
    Begun,
    /// All of it was sent.
    Sent,
    /// The connection, or the file, ended before.
    Broken,
    /// Nothing but its size was asked for (HEAD).
    #[serde(rename = "told")]
    SizeOnly,
    /// It is not to be had.
    Refused,
}

/// Serves these files until the process ends, on this interface alone if there is one. Requests
/// are told to `asked`.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve(
    address: SocketAddrV4,
    interface: Option<&str>,
    files: BTreeMap<String, PathBuf>,
    asked: Sender<Asked>,
) -> io::Result<SocketAddr> {
    let listener = listen(address, interface)?;
    let local = listener.local_addr()?;
    let files = Arc::new(files);
    let count = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name("http".into()).spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of file descriptors: some will be free again.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (files, asked, count) = (Arc::clone(&files), asked.clone(), Arc::clone(&count));
            if count.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                count.fetch_sub(1, Ordering::Relaxed);
                if let Ok(peer) = stream.peer_addr() {
                    let status = StatusCode::SERVICE_UNAVAILABLE.as_u16();
                    let report = Asked::refused(peer.ip(), String::new(), status);
                    let _ = asked.send(report);
                }
                continue;
            }
            let for_thread = Arc::clone(&count);
            let started = thread::Builder::new().name("http connection".into()).spawn(move || {
                // An error here is the other end's: it is gone, or speaks something else.
                let _ = connection(stream, &files, &asked);
                for_thread.fetch_sub(1, Ordering::Relaxed);
            });
            if started.is_err() {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })?;
    Ok(local)
}

/// A host answers to each of its addresses on every interface, unless a socket is bound to one.
fn listen(address: SocketAddrV4, interface: Option<&str>) -> io::Result<TcpListener> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    socket::setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    if let Some(interface) = interface {
        socket::setsockopt(&socket, sockopt::BindToDevice, &interface.into())?;
    }
    socket::bind(socket.as_raw_fd(), &SockaddrIn::from(address))?;
    socket::listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(socket.into())
}

fn connection(
    stream: TcpStream,
    files: &BTreeMap<String, PathBuf>,
    asked: &Sender<Asked>,
) -> io::Result<()> {
    let peer = stream.peer_addr()?.ip();
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream)?;
        let service = service_fn(|request: Request<Incoming>| {
            let response = answer(&request, files, peer, asked);
            async move { Ok::<_, Infallible>(response) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(IDLE_MAX);
        builder.serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
    })
}

fn answer(
    request: &Request<Incoming>,
    files: &BTreeMap<String, PathBuf>,
    address: IpAddr,
    asked: &Sender<Asked>,
) -> Response<Content> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let refused = |status: StatusCode| {
        let report = Asked::refused(address, path.clone(), status.as_u16());
        // Nobody listens any more when the service ends.
        let _ = asked.send(report);
        (status, 0, Content::none())
    };
    let (status, size_bytes, body) = match (request.method(), files.get(&path)) {
        (&Method::GET | &Method::HEAD, Some(path_of_file)) => match open(path_of_file) {
            Ok((file, size_bytes)) => {
                let report = Asked {
                    address,
                    file: path.clone(),
                    status: StatusCode::OK.as_u16(),
                    size_bytes,
                    state: State::SizeOnly,
                    sent_bytes: 0,
                };
                let body = if request.method() == Method::HEAD {
                    let _ = asked.send(report);
                    Content::none()
                } else {
                    Content::begin(file, report, asked.clone())
                };
                (StatusCode::OK, size_bytes, body)
            }
            Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR),
        },
        (&Method::GET | &Method::HEAD, None) => refused(StatusCode::NOT_FOUND),
        _ => refused(StatusCode::METHOD_NOT_ALLOWED),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, size_bytes.into());
    let kind = hyper::header::HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, kind);
    response
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path)?;
    let size_bytes = file.metadata()?.len();
    Ok((file, size_bytes))
}

impl Asked {
    fn refused(address: IpAddr, file: String, status: u16) -> Self {
        Self { address, file, status, size_bytes: 0, state: State::Refused, sent_bytes: 0 }
    }
}

/// What is left to send of a file. What became of it is told when it is dropped: sent, or not.
struct Content {
    file: Option<File>,
    left_bytes: u64,
    report: Option<(Asked, Sender<Asked>)>,
}

impl Content {
    fn none() -> Self {
        Self { file: None, left_bytes: 0, report: None }
    }

    fn begin(file: File, mut report: Asked, to: Sender<Asked>) -> Self {
        report.state = State::Begun;
        if report.size_bytes >= LONG_BYTES {
            let _ = to.send(report.clone());
        }
        Self { file: Some(file), left_bytes: report.size_bytes, report: Some((report, to)) }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let Some((mut report, to)) = self.report.take() else { return };
        report.sent_bytes = report.size_bytes - self.left_bytes;
        report.state = if self.left_bytes == 0 { State::Sent } else { State::Broken };
        let _ = to.send(report);
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let Some(file) = this.file.as_mut().filter(|_| this.left_bytes > 0) else {
            return Poll::Ready(None);
        };
        // This thread has no other connection that would wait for the disk.
        let most = usize::try_from(this.left_bytes).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut piece = vec![0; most];
        match file.read(&mut piece) {
            // It became shorter: the length was announced, so this is no end.
            Ok(0) => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            Ok(count) => {
                piece.truncate(count);
                this.left_bytes -= count as u64;
                Poll::Ready(Some(Ok(Frame::data(piece.into()))))
            }
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}
