//! The parts of `SIOCETHTOOL` that weir needs: driver, statistics, features, GRO.
//!
//! Reference: include/uapi/linux/ethtool.h. Netlink has these too, but not the drivers' own
//! statistics, which are the only place where a veth counts what `ndo_xdp_xmit` refused. Interfaces
//! are named, and looked up in the calling thread's network namespace.

use std::io;

use crate::sys::{self, EthtoolRequest, IFNAMSIZ};

pub mod rss;

#[cfg(test)]
mod tests;

const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

const ETH_SS_STATS: u32 = 1;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;

/// The feature of a driver that takes VLAN tags out of received frames: `ethtool -K IF rxvlan`.
const VLAN_FEATURE: &str = "rx-vlan-hw-parse";
const VETH: &str = "veth";

/// `struct ethtool_gstrings` and `struct ethtool_sset_info` before their tails, bytes.
const GSTRINGS_HEADER_BYTES: usize = 12;
const SSET_INFO_HEADER_BYTES: usize = 16;
/// `struct ethtool_stats` and `struct ethtool_gfeatures` before their tails, bytes.
const COUNTED_HEADER_BYTES: usize = 8;
/// `struct ethtool_get_features_block`: available, requested, active, never changed.
const FEATURES_BLOCK_BYTES: usize = 16;
const FEATURES_BLOCK_ACTIVE: usize = 8;

/// How often a table is asked for again because its size changed meanwhile.
const ATTEMPTS: usize = 3;

/// Why an ethtool request failed.
#[derive(Debug, thiserror::Error)]
pub enum EthtoolError {
    /// The name cannot be an interface's.
    #[error("`{0}` is not an interface name: those have 1 to 15 bytes")]
    Name(String),
    /// The kernel or the driver refused.
    #[error("cannot {what} of interface `{interface}`: {source}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// Name of the interface.
        interface: String,
        /// What the kernel returned.
        source: io::Error,
    },
    /// The table's size kept changing between asking for it and reading it.
    #[error("the number of {what} of interface `{interface}` keeps changing: try again")]
    Changing {
        /// What was asked for.
        what: &'static str,
        /// Name of the interface.
        interface: String,
    },
}

impl EthtoolError {
    /// The system's number of the error, where it was the kernel that refused.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => source.raw_os_error(),
            Self::Name(_) | Self::Changing { .. } => None,
        }
    }
}

/// An interface by name.
struct Interface<'a> {
    name: &'a str,
    bytes: [u8; IFNAMSIZ],
}

impl<'a> Interface<'a> {
    fn new(name: &'a str) -> Result<Self, EthtoolError> {
        if name.is_empty() || name.len() >= IFNAMSIZ || name.contains('\0') {
            return Err(EthtoolError::Name(name.into()));
        }
        let mut bytes = [0; IFNAMSIZ];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self { name, bytes })
    }

    fn call(&self, what: &'static str, request: &mut EthtoolRequest) -> Result<(), EthtoolError> {
        sys::ethtool(&self.bytes, request).map_err(|source| EthtoolError::Refused {
            what,
            interface: self.name.into(),
            source,
        })
    }

    /// Number of strings in a set; zero if the driver does not have the set.
    fn string_count(&self, set: u32) -> Result<usize, EthtoolError> {
        let mut request = EthtoolRequest::new(ETHTOOL_GSSET_INFO, 1, 4);
        // The 64-bit mask at offset 8 names the sets; only low ones are asked for here.
        let mask = (1_u64 << set).to_ne_bytes();
        request.set_u32(8, u32_at(&mask, 0));
        request.set_u32(12, u32_at(&mask, 4));
        self.call("count the strings", &mut request)?;
        if u64_at(request.bytes(), 8) == 0 {
            return Ok(0);
        }
        Ok(u32_at(request.bytes(), SSET_INFO_HEADER_BYTES) as usize)
    }

    /// The strings of a set, of which there are `count`; `None` if there are not.
    fn strings(&self, set: u32, count: usize) -> Result<Option<Vec<String>>, EthtoolError> {
        let mut request = EthtoolRequest::new(ETHTOOL_GSTRINGS, count, ETH_GSTRING_LEN);
        request.set_u32(4, set);
        self.call("read the strings", &mut request)?;
        if u32_at(request.bytes(), 8) as usize != count {
            return Ok(None);
        }
        let tail = &request.bytes()[GSTRINGS_HEADER_BYTES..];
        Ok(Some(tail.chunks(ETH_GSTRING_LEN).take(count).map(text).collect()))
    }
}

/// The driver's own statistics, in its order: `ethtool -S`. Empty if it has none.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface or the driver refuses.
pub fn stats(ifname: &str) -> Result<Vec<(String, u64)>, EthtoolError> {
    let interface = Interface::new(ifname)?;
    for _ in 0..ATTEMPTS {
        let count = interface.string_count(ETH_SS_STATS)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let Some(names) = interface.strings(ETH_SS_STATS, count)? else {
            continue;
        };
        let mut request = EthtoolRequest::new(ETHTOOL_GSTATS, count, 8);
        request.set_u32(4, u32::try_from(count).unwrap_or(u32::MAX));
        interface.call("read the statistics", &mut request)?;
        if u32_at(request.bytes(), 4) as usize != count {
            continue;
        }
        let (values, _) = request.bytes()[COUNTED_HEADER_BYTES..].as_chunks();
        return Ok(names.into_iter().zip(values.iter().map(|v| u64::from_ne_bytes(*v))).collect());
    }
    Err(EthtoolError::Changing { what: "statistics", interface: ifname.into() })
}

/// The interface's features and whether they are active: `ethtool -k`, with the kernel's names.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn features(ifname: &str) -> Result<Vec<(String, bool)>, EthtoolError> {
    let interface = Interface::new(ifname)?;
    for _ in 0..ATTEMPTS {
        let count = interface.string_count(ETH_SS_FEATURES)?;
        let Some(names) = interface.strings(ETH_SS_FEATURES, count)? else {
            continue;
        };
        let blocks = count.div_ceil(32);
        let mut request = EthtoolRequest::new(ETHTOOL_GFEATURES, blocks, FEATURES_BLOCK_BYTES);
        request.set_u32(4, u32::try_from(blocks).unwrap_or(u32::MAX));
        interface.call("read the features", &mut request)?;
        let bytes = request.bytes();
        let active = |index: usize| {
            let block = COUNTED_HEADER_BYTES + index / 32 * FEATURES_BLOCK_BYTES;
            u32_at(bytes, block + FEATURES_BLOCK_ACTIVE) >> (index % 32) & 1 == 1
        };
        // The kernel leaves gaps where a feature's bit is no longer used.
        return Ok((0..)
            .map(active)
            .zip(names)
            .map(|(on, name)| (name, on))
            .filter(|(name, _)| !name.is_empty())
            .collect());
    }
    Err(EthtoolError::Changing { what: "features", interface: ifname.into() })
}

/// Name of the interface's driver, such as `veth`.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface or it has no driver.
pub fn driver(ifname: &str) -> Result<String, EthtoolError> {
    let mut request = EthtoolRequest::new(ETHTOOL_GDRVINFO, 0, 0);
    Interface::new(ifname)?.call("read the driver's name", &mut request)?;
    Ok(text(&request.bytes()[4..4 + ETH_GSTRING_LEN]))
}

/// Whether an XDP program does not see the VLAN tags of frames that an interface receives, because
/// its driver takes them out and keeps them beside the frame. A veth has the feature too, but there
/// it is the peer that leaves tags out, which cannot be asked of the veth.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn hides_tags(ifname: &str) -> Result<bool, EthtoolError> {
    let features = features(ifname)?;
    // Interfaces without a driver's name are no veth.
    let driver = driver(ifname).unwrap_or_default();
    Ok(takes_tags_out(&driver, &features))
}

fn takes_tags_out(driver: &str, features: &[(String, bool)]) -> bool {
    driver != VETH && features.iter().any(|(name, is_on)| name == VLAN_FEATURE && *is_on)
}

/// How many queues an interface has in use: `ethtool -l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Transmit queues, those that also receive included.
    pub tx_count: u32,
    /// Receive queues, those that also transmit included.
    pub rx_count: u32,
}

/// How many queues the interface has in use; `None` if its driver does not say.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn channels(ifname: &str) -> Result<Option<Channels>, EthtoolError> {
    // struct ethtool_channels: the four maxima at 4..20, then rx, tx, other, combined.
    let mut request = EthtoolRequest::new(ETHTOOL_GCHANNELS, 0, 0);
    if unsupported(Interface::new(ifname)?.call("read the queues", &mut request))? {
        return Ok(None);
    }
    let field = |offset| u32_at(request.bytes(), offset);
    let combined = field(32);
    Ok(Some(Channels { tx_count: field(24) + combined, rx_count: field(20) + combined }))
}

/// The link's speed in Mbit/s; `None` if the driver has none, or does not know it because there is
/// no carrier. Virtual interfaces may name a speed that means nothing.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn speed_mbps(ifname: &str) -> Result<Option<u32>, EthtoolError> {
    // struct ethtool_cmd: the low half of the speed at 12, the high half at 28.
    let mut request = EthtoolRequest::new(ETHTOOL_GSET, 0, 0);
    if unsupported(Interface::new(ifname)?.call("read the speed", &mut request))? {
        return Ok(None);
    }
    let half =
        |offset: usize| u16::from_ne_bytes([request.bytes()[offset], request.bytes()[offset + 1]]);
    let speed = u32::from(half(28)) << 16 | u32::from(half(12));
    // Unknown is all ones, in 32 bits or (old drivers) in 16.
    Ok((speed != 0 && speed != u32::MAX && speed != 0xffff).then_some(speed))
}

/// Flow control of a link (IEEE 802.3 annex 31B): `ethtool -a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Whether both ends agree on it, instead of each doing as it is told.
    pub autonegotiated: bool,
    /// Whether this end stops sending when the other one asks for it.
    pub rx: bool,
    /// Whether this end asks the other one to stop.
    pub tx: bool,
}

/// The link's flow control; `None` if the driver has none.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn pause(ifname: &str) -> Result<Option<Pause>, EthtoolError> {
    // struct ethtool_pauseparam: autoneg, rx_pause, tx_pause.
    let mut request = EthtoolRequest::new(ETHTOOL_GPAUSEPARAM, 0, 0);
    if unsupported(Interface::new(ifname)?.call("read the flow control", &mut request))? {
        return Ok(None);
    }
    let field = |offset| u32_at(request.bytes(), offset) != 0;
    Ok(Some(Pause { autonegotiated: field(4), rx: field(8), tx: field(12) }))
}

/// Whether the driver does not know the command; other errors remain errors.
fn unsupported(result: Result<(), EthtoolError>) -> Result<bool, EthtoolError> {
    match result {
        Err(EthtoolError::Refused { source, .. })
            if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
        {
            Ok(true)
        }
        result => result.map(|()| false),
    }
}

/// Whether generic receive offload is on.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn gro(ifname: &str) -> Result<bool, EthtoolError> {
    let mut request = EthtoolRequest::new(ETHTOOL_GGRO, 0, 0);
    Interface::new(ifname)?.call("read GRO", &mut request)?;
    Ok(u32_at(request.bytes(), 4) != 0)
}

/// Turns generic receive offload on or off. On a veth it also decides whether NAPI runs without an
/// XDP program, and with it whether the peer can send XDP frames.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface or the change is refused.
pub fn set_gro(ifname: &str, on: bool) -> Result<(), EthtoolError> {
    let mut request = EthtoolRequest::new(ETHTOOL_SGRO, 0, 0);
    request.set_u32(4, u32::from(on));
    Interface::new(ifname)?.call("set GRO", &mut request)
}

/// Turns TCP segmentation offload on or off. A veth whose peer has GRO on hands packets to the
/// peer's queues only while it is off, unless the peer has an XDP program.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface or the change is refused.
pub fn set_tso(ifname: &str, on: bool) -> Result<(), EthtoolError> {
    let mut request = EthtoolRequest::new(ETHTOOL_STSO, 0, 0);
    request.set_u32(4, u32::from(on));
    Interface::new(ifname)?.call("set TSO", &mut request)
}

/// Turns checksums that the device computes on or off. A veth computes none: what it sends without
/// one gets it only where it leaves the host, and so not where it is sent back before the stack.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface or the change is refused.
pub fn set_tx_checksums(ifname: &str, on: bool) -> Result<(), EthtoolError> {
    let mut request = EthtoolRequest::new(ETHTOOL_STXCSUM, 0, 0);
    request.set_u32(4, u32::from(on));
    Interface::new(ifname)?.call("set checksums on transmission", &mut request)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(word)
}

/// The text up to the first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
