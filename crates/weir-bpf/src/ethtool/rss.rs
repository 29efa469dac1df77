//! What a card says of its receive side scaling: key, indirection table, hash function, and which
//! fields of a packet it hashes. Only read here.

use super::{EthtoolError, EthtoolRequest, Interface, u32_at, u64_at, unsupported};

const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_GRSSH: u32 = 0x46;

/// `struct ethtool_rxfh` before its tail, bytes; the tail is the table, in 32 bits each, and the
/// key behind it.
const RXFH_HEADER_BYTES: usize = 24;
const RXFH_INDIR_SIZE: usize = 8;
const RXFH_KEY_SIZE: usize = 12;
const RXFH_FUNCTION: usize = 16;
const RXFH_INPUT: usize = 17;

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

/// Kinds of flow whose fields a card can be asked for (`…_FLOW`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowType {
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv4.
    Udp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
}

impl FlowType {
    const fn number(self) -> u32 {
        match self {
            Self::Tcp4 => 0x01,
            Self::Udp4 => 0x02,
            Self::Tcp6 => 0x05,
            Self::Udp6 => 0x06,
        }
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

/// The fields that the interface hashes of a kind of flow; `None` if its driver does not say.
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn fields(ifname: &str, flow_type: FlowType) -> Result<Option<HashFields>, EthtoolError> {
    // struct ethtool_rxnfc: the kind of flow at 4, the fields as bits in 64 at 8.
    let mut request = EthtoolRequest::new(ETHTOOL_GRXFH, 0, 0);
    request.set_u32(4, flow_type.number());
    let asked = Interface::new(ifname)?.call("read the hashed fields", &mut request);
    if unsupported(asked)? {
        return Ok(None);
    }
    Ok(Some(fields_of(u64_at(request.bytes(), 8))))
}

fn fields_of(bits: u64) -> HashFields {
    let has = |bit: u32| bits >> bit & 1 == 1;
    HashFields {
        src: has(4),
        dst: has(5),
        src_port: has(6),
        dst_port: has(7),
        others: bits & !0xf0 != 0,
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
        let all = fields_of(0xf0);
        assert!(all.src && all.dst && all.src_port && all.dst_port && !all.others);
        let addresses = fields_of(0x30);
        assert!(addresses.src && addresses.dst && !addresses.src_port && !addresses.dst_port);
        assert!(fields_of(0x34).others);
    }

    #[test]
    fn an_interface_without_it_says_so_and_a_missing_one_is_an_error() {
        assert_eq!(settings("lo").unwrap(), None);
        assert_eq!(fields("lo", FlowType::Udp4).unwrap(), None);
        let error = settings("none-such").unwrap_err().to_string();
        assert!(error.contains("receive side scaling of interface `none-such`"), "{error}");
    }
}
