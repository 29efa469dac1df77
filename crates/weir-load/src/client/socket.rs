//! Sockets of connections: from a source address, to the server, and how they are ended.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use weir_http::figures::Failure;

use crate::tls::SessionError;

/// Begins to connect; the stream is established when it can be written to.
///
/// The port is chosen when the connection is made, so that one source has as many connections to
/// each server as it has ports (IP_BIND_ADDRESS_NO_PORT, ip(7)).
pub(super) fn connect(source: Option<IpAddr>, server: SocketAddr) -> Result<TcpStream, Failure> {
    let socket = new_socket(source, server).map_err(|error| failure(&error))?;
    if let Some(source) = source {
        let bound = socket.bind(&SocketAddr::new(source, 0).into());
        bound.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
            // No port is chosen yet, so that it cannot be for want of one.
            Some(Errno::EADDRNOTAVAIL) => Failure::Source,
            _ => failure(&error),
        })?;
    }
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::EINPROGRESS as i32) => {
            Err(failure(&error))
        }
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

fn new_socket(source: Option<IpAddr>, server: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), None)?;
    if let Some(source) = source {
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        if source.is_ipv6() {
            // An IPv6 address can be bound to only if an interface has it; a route does not do.
            socket.set_freebind_v6(true)?;
        }
    }
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// Has a connection end with a RST, whatever has not been sent or read.
pub(super) fn reset(stream: &TcpStream) {
    // It fails only for what is no socket.
    drop(SockRef::from(stream).set_linger(Some(Duration::ZERO)));
}

/// What an error of a connection means.
pub(super) fn failure(error: &io::Error) -> Failure {
    if SessionError::of(error).is_some() {
        return Failure::Tls;
    }
    let code = error.raw_os_error().map(Errno::from_raw);
    match code {
        Some(Errno::ECONNREFUSED) => Failure::Refused,
        Some(Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED) => Failure::Reset,
        Some(Errno::ETIMEDOUT) => Failure::Timeout,
        Some(Errno::EADDRNOTAVAIL | Errno::EADDRINUSE) => Failure::Ports,
        _ => Failure::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_not_there_is_told_from_a_lack_of_ports() {
        let server = "127.0.0.1:80".parse().unwrap();
        let nobodys = connect(Some([198, 18, 0, 1].into()), server);
        assert_eq!(nobodys.unwrap_err(), Failure::Source);
        assert_eq!(failure(&Errno::EADDRNOTAVAIL.into()), Failure::Ports);
    }
}
