//! Sockets of connections: from a source address, to the server, and how they are ended.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use weir_http::figures::Failure;

/// Begins to connect; the stream is established when it can be written to.
///
/// The port is chosen when the connection is made, so that one source has as many connections to
/// each server as it has ports (IP_BIND_ADDRESS_NO_PORT, ip(7)).
pub(super) fn connect(source: Option<IpAddr>, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), None)?;
    if let Some(source) = source {
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        if source.is_ipv6() {
            // An IPv6 address can be bound to only if an interface has it; a route does not do.
            socket.set_freebind_v6(true)?;
        }
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::EINPROGRESS as i32) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// Has a connection end with a RST, whatever has not been sent or read.
pub(super) fn reset(stream: &TcpStream) {
    // It fails only for what is no socket.
    drop(SockRef::from(stream).set_linger(Some(Duration::ZERO)));
}

/// What an error of a connection means.
pub(super) fn failure(error: &io::Error) -> Failure {
    let code = error.raw_os_error().map(Errno::from_raw);
    match code {
        Some(Errno::ECONNREFUSED) => Failure::Refused,
        Some(Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED) => Failure::Reset,
        Some(Errno::ETIMEDOUT) => Failure::Timeout,
        Some(Errno::EADDRNOTAVAIL | Errno::EADDRINUSE) => Failure::Ports,
        _ => Failure::Unreachable,
    }
}
