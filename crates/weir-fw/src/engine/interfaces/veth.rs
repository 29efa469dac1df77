//! What is special about a veth in native mode, and what its owner should know of it.
//!
//! It takes frames from XDP only while its peer polls for them, because it has GRO or a program of
//! its own (`veth_xdp_xmit` of the kernel). Else whatever is sent to it is dropped without a word.
//! What its peer sends has no checksum, unless checksum offload is switched off there; such packets
//! are left to the kernel (`partial.h`). That cannot be asked, only be seen when one comes.

use weir_bpf::ethtool;
use weir_bpf::firewall::Firewall;

use super::Known;

/// Whether an interface of this name is a veth.
pub(super) fn is_one(name: &str) -> bool {
    ethtool::driver(name).is_ok_and(|driver| driver == "veth")
}

/// What is to be said of one whose peer takes no frames from XDP.
pub(super) fn deaf(known: &Known) -> Option<String> {
    let name = &known.name;
    (known.is_veth && !known.takes_redirected).then(|| {
        format!(
            "interface {name}: its peer takes no frames from XDP, so `block return` does not \
             answer there, and the kernel forwards what leaves by it, which is several times \
             slower: `ethtool -K PEER gro on`, for the other end of the veth"
        )
    })
}

/// Whether the byte at this place says that a packet came without its checksum.
pub(super) fn saw_partial(firewall: &Firewall, at: u32) -> bool {
    let mut byte = [0];
    firewall.arena().read(at, &mut byte);
    byte != [0]
}

/// What is to be said of one by which such packets come.
pub(super) fn partial(name: &str) -> String {
    format!(
        "interface {name}: its peer leaves checksums to hardware that a veth does not have; the \
         kernel forwards such packets, which is several times slower: `ethtool -K PEER tx off`, \
         for the other end of the veth"
    )
}
