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
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
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
use serde::Serialize;

/// Connections at a time; more are closed at once, and told.
const CONNECTIONS_MAX: usize = 64;
/// A connection on which nothing is asked for so long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// What is read from a file at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A request that was answered, or could not be.
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
}

/// Serves these files until the process ends. Requests are told to `asked`.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve(
    address: SocketAddr,
    files: BTreeMap<String, PathBuf>,
    asked: Sender<Asked>,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
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
                    let file = String::new();
                    let _ = asked.send(Asked { address: peer.ip(), file, status, size_bytes: 0 });
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
    let (status, content) = match (request.method(), files.get(&path)) {
        (&Method::GET | &Method::HEAD, Some(file)) => match Content::open(file) {
            Ok(content) => (StatusCode::OK, content),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, Content::none()),
        },
        (&Method::GET | &Method::HEAD, None) => (StatusCode::NOT_FOUND, Content::none()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, Content::none()),
    };
    let size_bytes = content.left_bytes;
    let told = Asked { address, file: path, status: status.as_u16(), size_bytes };
    // Nobody listens any more when the service ends.
    let _ = asked.send(told);
    let body = if request.method() == Method::HEAD { Content::none() } else { content };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, size_bytes.into());
    let kind = hyper::header::HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, kind);
    response
}

/// What is left to send of a file.
struct Content {
    file: Option<File>,
    left_bytes: u64,
}

impl Content {
    fn none() -> Self {
        Self { file: None, left_bytes: 0 }
    }

    fn open(path: &PathBuf) -> io::Result<Self> {
        let file = File::open(path)?;
        let left_bytes = file.metadata()?.len();
        Ok(Self { file: Some(file), left_bytes })
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
