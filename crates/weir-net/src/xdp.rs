//! What an interface can do with XDP frames, as the kernel says it (the `netdev` generic-netlink
//! family, Linux 6.3 and later; Documentation/netlink/specs/netdev.yaml).
//!
//! It never attaches a program.

use std::io;

use crate::genetlink;

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// `NETDEV_XDP_ACT_NDO_XMIT`: other devices' frames can be redirected to it now.
const NDO_XMIT: u64 = 1 << 2;

/// Whether XDP frames can be redirected to an interface of the calling thread's network namespace
/// now; `None` if the kernel is too old to say.
///
/// It changes: a veth has it while its peer has an XDP program or GRO, some drivers while a program
/// is attached to the interface itself.
///
/// # Errors
///
/// If the kernel refuses, or there is no such interface.
pub fn takes_redirected(ifindex: u32) -> io::Result<Option<bool>> {
    let answers = match genetlink::dump("netdev", NETDEV_CMD_DEV_GET, &[]) {
        Ok(answers) => answers,
        Err(error) if is_unsupported(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let features = answers.iter().find_map(|answer| {
        let value = |kind| answer.iter().find(|attribute| attribute.kind == kind);
        let is_it = value(NETDEV_A_DEV_IFINDEX)?.u32()? == ifindex;
        let bytes = value(NETDEV_A_DEV_XDP_FEATURES)?.value.as_slice().try_into().ok()?;
        is_it.then_some(u64::from_ne_bytes(bytes))
    });
    let features =
        features.ok_or_else(|| io::Error::from_raw_os_error(nix::Error::ENODEV as i32))?;
    Ok(Some(features & NDO_XMIT != 0))
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(nix::Error::EOPNOTSUPP as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::namespace;
    use crate::{Netlink, VethEnd};

    #[test]
    fn a_veth_without_a_ready_peer_takes_nothing() {
        let namespace = namespace("xdp");
        let (answer, none) = namespace
            .run(|| {
                let netlink = Netlink::open().unwrap();
                netlink.create_veth(&VethEnd::new("a"), &VethEnd::new("b"), 1).unwrap();
                netlink.set_up("a").unwrap();
                netlink.set_up("b").unwrap();
                (takes_redirected(netlink.ifindex("a").unwrap()), takes_redirected(9_999))
            })
            .unwrap();
        assert_ne!(answer.unwrap(), Some(true));
        assert!(matches!(none, Err(_) | Ok(None)), "there is no such interface");
    }
}
