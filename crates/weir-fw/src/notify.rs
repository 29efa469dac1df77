//! What a service manager is told: ready, stopping (sd_notify(3)).
//!
//! `weir fw run` in the background uses the same words to learn that its child filters. The
//! socket's name may be a path, or begin with `@`: then it is an abstract one, which systemd uses
//! in containers.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where the name of the socket stands.
pub(crate) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Packets are filtered.
pub(crate) fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={status}\n"));
}

/// The daemon ends.
pub(crate) fn stopping() {
    tell("STOPPING=1\n");
}

fn tell(words: &str) {
    if let Some(name) = env::var_os(NOTIFY_SOCKET) {
        // A service manager that is gone cannot be helped.
        drop(send(&name, words));
    }
}

fn send(name: &OsStr, words: &str) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(words.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_paths_or_abstract() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("weir-notify-test-{}", std::process::id());
        let sockets = [
            UnixDatagram::bind(&path).unwrap(),
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
        ];
        send(path.as_os_str(), "READY=1\n").unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1\n").unwrap();
        for socket in sockets {
            let mut words = [0; 32];
            let size = socket.recv(&mut words).unwrap();
            assert_eq!(&words[..size], b"READY=1\n");
        }
    }
}
