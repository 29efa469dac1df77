//! TCP below a connection of states: how it is made, and after what time one that is cut is given
//! up.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::tunnel::{Stop, wait};

/// What is sent and not acknowledged for so long, or not read, ends the connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// With nothing to send, the other side is asked so often whether it is there.
const PROBE: Duration = Duration::from_secs(1);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);

/// Has a connection notice that it is cut (tcp(7)), and send at once.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE).with_retries(5);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(PATIENCE))
}

/// Connects to the first address of a host that answers.
pub(super) fn connect(
    host: &str,
    bind: Option<IpAddr>,
    stop: Stop<'_>,
) -> anyhow::Result<TcpStream> {
    let all = host.to_socket_addrs()?;
    let mut last = None;
    for address in all.filter(|it| bind.is_none_or(|bind| bind.is_ipv4() == it.is_ipv4())) {
        match connect_to(address, bind, stop) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) => error.into(),
        None => anyhow::anyhow!("it has no address of the family of --bind"),
    })
}

fn connect_to(address: SocketAddr, bind: Option<IpAddr>, stop: Stop<'_>) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    if let Some(bind) = bind {
        socket.bind(&SocketAddr::new(bind, 0).into())?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32) => {}
        Err(error) => return Err(error),
    }
    let until = Instant::now() + CONNECT;
    loop {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        wait(&mut fds, POLL)?;
        if fds[0].any().unwrap_or(false) {
            break;
        }
        if Instant::now() >= until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answers"));
        }
        if stop() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    match socket.take_error()? {
        Some(error) => Err(error),
        None => {
            let stream = socket.into();
            prepare(&stream)?;
            Ok(stream)
        }
    }
}
