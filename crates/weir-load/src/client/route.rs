//! Whether a server can be reached at all, asked before anything is sent.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// Looks up the route from a source to a server. Nothing is sent.
///
/// # Errors
///
/// If there is no route, or the source is no address of this network namespace.
pub fn check(source: Option<IpAddr>, server: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, None)?;
    if let Some(source) = source {
        if source.is_ipv6() {
            socket.set_freebind_v6(true)?;
        }
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    // Of UDP, connecting is looking for a route (udp(7)).
    socket.connect(&server.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_route_is_refused() {
        let loopback = "127.0.0.1:80".parse().unwrap();
        check(None, loopback).unwrap();
        check(Some([127, 0, 0, 9].into()), loopback).unwrap();
        assert!(check(Some([198, 18, 0, 1].into()), loopback).is_err());
    }
}
