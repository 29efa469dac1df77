//! A tunnel as a VPN makes one in a process: a tun in each of two namespaces; what leaves by one of
//! them comes in by the other. *Never* looks at a packet, and loses none but those that an end
//! which is down does not take.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
pub use weir_bpf::tun::Offload;
use weir_net::Netns;

/// The longest packet, with what may stand in front of it, bytes.
const PACKET_BYTES_MAX: usize = 1 << 17;
/// How long the end of the tunnel is waited for at most, ms.
const PATIENCE_MS: u16 = 50;

/// It ends, with its interfaces, when this is dropped.
#[derive(Debug)]
pub struct Tunnel {
    is_over: Arc<AtomicBool>,
    carriers: Vec<JoinHandle<()>>,
}

impl Tunnel {
    /// Makes an interface in each of two namespaces, of these names. They are down, and have no
    /// addresses.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: a name is taken, or the caller is not root.
    pub fn between(ends: [(&Netns, &str); 2], offload: Offload) -> io::Result<Self> {
        let open = |(netns, name): (&Netns, &str)| -> io::Result<File> {
            let opened = netns.run(|| weir_bpf::tun::open(name, offload));
            opened.map_err(io::Error::other)?
        };
        let [one, other] = ends;
        let (one, other) = (open(one)?, open(other)?);
        let is_over = Arc::new(AtomicBool::new(false));
        let mut carriers = Vec::new();
        for (from, to) in [(one.try_clone()?, other.try_clone()?), (other, one)] {
            let is_over = Arc::clone(&is_over);
            carriers.push(thread::spawn(move || carry(&from, &to, &is_over)));
        }
        Ok(Self { is_over, carriers })
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        for carrier in self.carriers.drain(..) {
            // One that panicked has said so.
            drop(carrier.join());
        }
    }
}

/// Brings packets from one end to the other until the tunnel is over, or an end is gone.
fn carry(mut from: &File, mut to: &File, is_over: &AtomicBool) {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    while !is_over.load(Ordering::Acquire) {
        match poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], PATIENCE_MS) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let Ok(size) = from.read(&mut packet) else { return };
        // An end that is down takes nothing.
        drop(to.write(&packet[..size]));
    }
}
