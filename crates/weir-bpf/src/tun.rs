//! A tun (Documentation/networking/tuntap.rst): what the kernel sends by it is read as IP packets
//! without a link header, and what is written comes in by it. For tests of what tunnels carry.

use std::fs::File;
use std::io;

use crate::sys::tap;

/// What packets are read and written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Each packet alone, with its checksum.
    None,
    /// Each behind a `struct virtio_net_hdr`, which says what is left to hardware: checksums may be
    /// missing, and a TCP packet may be several segments in one, of up to 64 KiB.
    Tcp,
}

/// Opens a tun of the calling thread's network namespace, and makes it if there is none. It goes
/// when the file is closed. One read or write is one packet.
///
/// # Errors
/// What the kernel returned: without `CAP_NET_ADMIN`, or if the name is that of something else.
pub fn open(name: &str, offload: Offload) -> io::Result<File> {
    tap::open_tun(name, offload == Offload::Tcp).map(File::from)
}
