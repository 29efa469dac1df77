//! What is done inside a namespace of a testbed: its settings, the addresses, neighbours and routes
//! of its devices. Nothing here knows what the namespace is for.

use std::net::IpAddr;

use weir_net::{Netlink, Netns, Prefix, sysctl};

use super::layout::QUIET_SYSCTLS;
use crate::testbed::TestbedError;

/// Runs a closure inside a namespace and flattens its errors.
pub(in crate::testbed) fn inside<R: Send, E: std::fmt::Display>(
    netns: &Netns,
    what: impl FnOnce() -> Result<R, E> + Send,
) -> Result<R, TestbedError> {
    let result = netns.run(|| what().map_err(|e| e.to_string())).map_err(TestbedError::new)?;
    result.map_err(|e| TestbedError::new(format!("{}: {e}", netns.name())))
}

pub(in crate::testbed) fn namespace(name: &str) -> Result<Netns, TestbedError> {
    let netns = Netns::create(name).map_err(TestbedError::new)?;
    inside(&netns, || {
        for (setting, value) in QUIET_SYSCTLS {
            // A kernel without IPv6 has none of these, and nothing to quieten.
            match sysctl::write(setting, value) {
                Err(sysctl::SysctlError::Unknown { .. }) => {}
                result => result.map_err(|e| e.to_string())?,
            }
        }
        Netlink::open().and_then(|netlink| netlink.set_up("lo")).map_err(|e| e.to_string())
    })?;
    Ok(netns)
}

/// Gives a device its addresses.
pub(super) fn address(
    netns: &Netns,
    device: &str,
    addresses: &[String],
) -> Result<(), TestbedError> {
    inside(netns, || {
        let netlink = Netlink::open().map_err(|e| e.to_string())?;
        addresses.iter().try_for_each(|text| {
            netlink.add_address(device, prefix(text)?).map_err(|e| e.to_string())
        })
    })
}

/// Static neighbours at one MAC address.
pub(super) fn neighbours(
    netns: &Netns,
    device: &str,
    addresses: &[String],
    mac: [u8; 6],
) -> Result<(), TestbedError> {
    inside(netns, || {
        let netlink = Netlink::open().map_err(|e| e.to_string())?;
        addresses.iter().try_for_each(|text| {
            let address = prefix(text)?.address();
            netlink.add_neighbour(device, address, mac).map_err(|e| e.to_string())
        })
    })
}

/// Routes to networks, by the addresses of their gateways.
pub(super) fn routes(
    netns: &Netns,
    device: &str,
    networks: &[String; 2],
    gateways: &[String; 2],
) -> Result<(), TestbedError> {
    inside(netns, || {
        let netlink = Netlink::open().map_err(|e| e.to_string())?;
        for (network, gateway) in networks.iter().zip(gateways) {
            let gateway: IpAddr = prefix(gateway)?.address();
            netlink
                .add_route(prefix(network)?, Some(gateway), device)
                .map_err(|e| e.to_string())?;
        }
        Ok::<(), String>(())
    })
}

pub(in crate::testbed) fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|e| format!("{e}"))
}

pub(in crate::testbed) fn ifindex(device: &str) -> Result<u32, String> {
    Netlink::open().and_then(|n| n.ifindex(device)).map_err(|e| e.to_string())
}
