//! What is special about a veth in native mode, and what its owner should know of it.
//!
//! It takes frames from XDP only while its peer polls for them, because it has GRO or a program of
//! its own (`veth_xdp_xmit` of the kernel). Else whatever is sent to it is dropped without a word.

use weir_bpf::ethtool;

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
