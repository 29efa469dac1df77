//! What a card says of its receive side scaling: key, indirection table, hash function, and which
//! fields of a packet it hashes; and how that is set. What was there before is not kept here.

use weir_wire::rss::FlowKind;

use super::{EthtoolError, EthtoolRequest, Interface, u32_at, u64_at, unsupported};

const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_SRXFH: u32 = 0x2a;
const ETHTOOL_GRSSH: u32 = 0x46;
const ETHTOOL_SRSSH: u32 = 0x47;

/// `struct ethtool_rxfh` before its tail, bytes; the tail is the table, in 32 bits each, and the
/// key behind it.
const RXFH_HEADER_BYTES: usize = 24;
const RXFH_CONTEXT: usize = 4;
const RXFH_INDIR_SIZE: usize = 8;
const RXFH_KEY_SIZE: usize = 12;
const RXFH_FUNCTION: usize = 16;
const RXFH_INPUT: usize = 17;
/// A size of the table that leaves it as it is (`ETH_RXFH_INDIR_NO_CHANGE`).
const INDIR_NO_CHANGE: u32 = u32::MAX;

/// Contexts beside the first that are looked for; drivers number them from 1.
const CONTEXTS_MAX: u32 = 16;

/// A hash function (`ETH_RSS_HASH_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashFunction {
    Toeplitz,
    /// The exclusive or of the fields.
    Xor,
    /// CRC-32.
    Crc32,
    /// None that is known here: the driver's number.
    Other(u8),
}

/// What is done to the fields before they are hashed (`RXH_XFRM_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashInput {
    /// Nothing.
    AsIs,
    /// Source and destination are both replaced by their exclusive or.
    SymmetricXor,
    /// They are replaced by their or and their exclusive or.
    SymmetricOrXor,
    /// Nothing that is known here: the driver's number.
    Other(u8),
}

/// The settings of an interface: `ethtool -x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rss {
    /// The hash function; `None` if the driver does not name it.
    pub function: Option<HashFunction>,
    /// What is done to the fields before.
    pub input: HashInput,
    /// The key; empty if the driver does not show it.
    pub key: Vec<u8>,
    /// The indirection table: a receive queue for each bucket. Empty if the driver has none.
    pub table: Vec<u32>,
}

/// The settings of the interface; `None` if its driver has no receive side scaling.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface, or the driver refuses.
pub fn settings(ifname: &str) -> Result<Option<Rss>, EthtoolError> {
    let interface = Interface::new(ifname)?;
    let mut sizes = EthtoolRequest::new(ETHTOOL_GRSSH, 0, 0);
    if unsupported(interface.call("read receive side scaling", &mut sizes))? {
        return Ok(None);
    }
    let (entries, key_bytes) =
        (u32_at(sizes.bytes(), RXFH_INDIR_SIZE), u32_at(sizes.bytes(), RXFH_KEY_SIZE));
    // In units of four bytes, the key rounded up.
    let tail = entries as usize + key_bytes.div_ceil(4) as usize;
    let mut request = EthtoolRequest::new(ETHTOOL_GRSSH, tail, 4);
    request.set_u32(RXFH_INDIR_SIZE, entries);
    request.set_u32(RXFH_KEY_SIZE, key_bytes);
    interface.call("read receive side scaling", &mut request)?;
    Ok(Some(parse(request.bytes(), entries as usize, key_bytes as usize)))
}

/// Sets key and table, each if it is given; the rest stays as it is.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface, or the driver refuses: a key or a table of
/// another size than its own, a queue that it does not have.
pub fn set(ifname: &str, key: Option<&[u8]>, table: Option<&[u32]>) -> Result<(), EthtoolError> {
    let interface = Interface::new(ifname)?;
    // What is done to the fields has no "as it is" in kernels that know only one way.
    let mut now = EthtoolRequest::new(ETHTOOL_GRSSH, 0, 0);
    interface.call("read receive side scaling", &mut now)?;
    let input = now.bytes()[RXFH_INPUT];
    let (key, queues) = (key.unwrap_or_default(), table.unwrap_or_default());
    let mut request = EthtoolRequest::new(ETHTOOL_SRSSH, queues.len() + key.len().div_ceil(4), 4);
    let entries = u32::try_from(queues.len()).unwrap_or(u32::MAX);
    request.set_u32(RXFH_INDIR_SIZE, if table.is_some() { entries } else { INDIR_NO_CHANGE });
    request.set_u32(RXFH_KEY_SIZE, u32::try_from(key.len()).unwrap_or(u32::MAX));
    request.set_bytes(RXFH_INPUT, &[input]);
    for (entry, queue) in queues.iter().enumerate() {
        request.set_u32(RXFH_HEADER_BYTES + 4 * entry, *queue);
    }
    request.set_bytes(RXFH_HEADER_BYTES + 4 * queues.len(), key);
    interface.call("set receive side scaling", &mut request)
}

/// Numbers of the contexts that the interface has beside the first: further tables, which rules of
/// the card send packets to. Empty if its driver has none.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn contexts(ifname: &str) -> Result<Vec<u32>, EthtoolError> {
    let interface = Interface::new(ifname)?;
    let exists = |context: &u32| {
        let mut request = EthtoolRequest::new(ETHTOOL_GRSSH, 0, 0);
        request.set_u32(RXFH_CONTEXT, *context);
        // Drivers without contexts refuse in several ways.
        interface.call("read a context", &mut request).is_ok()
    };
    Ok((1..=CONTEXTS_MAX).filter(exists).collect())
}

fn parse(bytes: &[u8], entries: usize, key_bytes: usize) -> Rss {
    let table = (0..entries).map(|entry| u32_at(bytes, RXFH_HEADER_BYTES + 4 * entry)).collect();
    let key = RXFH_HEADER_BYTES + 4 * entries;
    Rss {
        function: match bytes[RXFH_FUNCTION] {
            0 => None,
            1 => Some(HashFunction::Toeplitz),
            2 => Some(HashFunction::Xor),
            4 => Some(HashFunction::Crc32),
            other => Some(HashFunction::Other(other)),
        },
        input: match bytes[RXFH_INPUT] {
            0 => HashInput::AsIs,
            1 => HashInput::SymmetricXor,
            2 => HashInput::SymmetricOrXor,
            other => HashInput::Other(other),
        },
        key: bytes[key..key + key_bytes].to_vec(),
        table,
    }
}

/// The kernel's number of a kind of flow (`…_FLOW`).
const fn flow_type(kind: FlowKind) -> u32 {
    match kind {
        FlowKind::Tcp4 => 0x01,
        FlowKind::Udp4 => 0x02,
        FlowKind::Tcp6 => 0x05,
        FlowKind::Udp6 => 0x06,
    }
}

/// Fields of a packet that a card hashes (`RXH_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashFields {
    /// The source address.
    pub src: bool,
    /// The destination address.
    pub dst: bool,
    /// The source port: the first two bytes behind the IP header.
    pub src_port: bool,
    /// The destination port.
    pub dst_port: bool,
    /// Anything else, such as a VLAN's number.
    pub others: bool,
}

/// The fields that the interface hashes of a kind of flow, as the kernel's bits; `None` if its
/// driver does not say.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn field_bits(ifname: &str, kind: FlowKind) -> Result<Option<u64>, EthtoolError> {
    // struct ethtool_rxnfc: the kind of flow at 4, the fields as bits in 64 at 8.
    let mut request = EthtoolRequest::new(ETHTOOL_GRXFH, 0, 0);
    request.set_u32(4, flow_type(kind));
    let asked = Interface::new(ifname)?.call("read the hashed fields", &mut request);
    if unsupported(asked)? {
        return Ok(None);
    }
    Ok(Some(u64_at(request.bytes(), 8)))
}

/// Sets the fields that the interface hashes of a kind of flow, as the kernel's bits.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface, or the driver refuses.
pub fn set_field_bits(ifname: &str, kind: FlowKind, bits: u64) -> Result<(), EthtoolError> {
    let mut request = EthtoolRequest::new(ETHTOOL_SRXFH, 0, 0);
    request.set_u32(4, flow_type(kind));
    request.set_bytes(8, &bits.to_ne_bytes());
    Interface::new(ifname)?.call("set the hashed fields", &mut request)
}

impl HashFields {
    /// By the kernel's bits.
    #[must_use]
    pub const fn of(bits: u64) -> Self {
        Self {
            src: bits & 0x10 != 0,
            dst: bits & 0x20 != 0,
            src_port: bits & 0x40 != 0,
            dst_port: bits & 0x80 != 0,
            others: bits & !0xf0 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_structure_is_read() {
        let mut bytes = vec![0; RXFH_HEADER_BYTES];
        bytes[RXFH_FUNCTION] = 1;
        bytes[RXFH_INPUT] = 1;
        bytes.extend([3_u32, 0, 1].iter().flat_map(|queue| queue.to_ne_bytes()));
        bytes.extend([0x6d, 0x5a]);
        let rss = parse(&bytes, 3, 2);
        assert_eq!(rss.function, Some(HashFunction::Toeplitz));
        assert_eq!(rss.input, HashInput::SymmetricXor);
        assert_eq!((rss.table, rss.key), (vec![3, 0, 1], vec![0x6d, 0x5a]));
    }

    #[test]
    fn fields_are_bits() {
        let all = HashFields::of(0xf0);
        assert!(all.src && all.dst && all.src_port && all.dst_port && !all.others);
        let addresses = HashFields::of(0x30);
        assert!(addresses.src && addresses.dst && !addresses.src_port && !addresses.dst_port);
        assert!(HashFields::of(0x34).others);
    }

    #[test]
    fn an_interface_without_it_says_so_and_a_missing_one_is_an_error() {
        assert_eq!(settings("lo").unwrap(), None);
        assert_eq!(field_bits("lo", FlowKind::Udp4).unwrap(), None);
        assert!(contexts("lo").unwrap().is_empty());
        let refused = set("lo", Some(&[1; 40]), None).unwrap_err();
        assert_eq!(refused.code(), Some(libc::EOPNOTSUPP), "{refused}");
        assert!(set_field_bits("lo", FlowKind::Udp4, 0xf0).is_err());
        let error = settings("none-such").unwrap_err().to_string();
        assert!(error.contains("receive side scaling of interface `none-such`"), "{error}");
    }
}
