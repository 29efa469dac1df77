//! Reads the sources that source limiters count (`bpf/include/weir/fw/limited.h`), which are in the
//! same map as those of rules. Programs alone change them: those that are over are named to the
//! sweeping program.

use std::io;
use std::net::IpAddr;

use libbpf_rs::{MapCore as _, MapFlags};

use super::Firewall;
use super::layout::{self, SOURCE_LEAVES, SOURCE_OF_LIMITER, control, source, source_key};
use super::sources::{self, word};

/// What a source limiter counts of one source, or network of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitedSource {
    /// Id of the limiter.
    pub limiter: u32,
    /// Its address, as far as the limiter's mask keeps it.
    pub address: IpAddr,
    pub state_count: u32,
    /// It was put into the limiter's table.
    pub is_listed: bool,
}

impl LimitedSource {
    /// From a key and a value of the map. `None` if it is no limiter's.
    fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let (address, _) = address(word(key, source_key::FAMILY)?, key.first_chunk()?)?;
        Some(Self {
            limiter: word(key, source_key::RULE)?,
            address,
            state_count: word(value, source::STATES)?,
            is_listed: word(value, source::IS_LISTED)? != 0,
        })
    }
}

/// A limiter's source, by its family and what stands beside that, and whether it leaves a table.
pub(super) fn address(family: u32, bytes: &[u8; 16]) -> Option<(IpAddr, bool)> {
    if family & SOURCE_OF_LIMITER == 0 {
        return None;
    }
    let found = sources::address(family & !(SOURCE_OF_LIMITER | SOURCE_LEAVES), bytes)?;
    Some((found, family & SOURCE_LEAVES != 0))
}

impl Firewall {
    /// The sources that limiters count, sorted. One that comes or goes meanwhile may be missing.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn limited_sources(&self) -> io::Result<Vec<LimitedSource>> {
        let mut found = Vec::new();
        self.each_node(|key, value| found.extend(LimitedSource::read(key, value)))?;
        found.sort_by_key(|source| (source.limiter, source.address));
        Ok(found)
    }

    /// Whether a limiter's source is in its table; `None`: it is not known any more.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn is_listed(&self, limiter: u32, address: IpAddr) -> io::Result<Option<bool>> {
        let (family, bytes) = match address {
            IpAddr::V4(address) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&address.octets());
                (layout::family::INET, bytes)
            }
            IpAddr::V6(address) => (layout::family::INET6, address.octets()),
        };
        let mut key = [0; source_key::SIZE_BYTES as usize];
        key[..16].copy_from_slice(&bytes);
        let mut put = |at: u32, word: u32| {
            key[at as usize..at as usize + 4].copy_from_slice(&word.to_ne_bytes());
        };
        put(source_key::RULE, limiter);
        put(source_key::FAMILY, u32::from(family) | SOURCE_OF_LIMITER);
        let found = self.sources.lookup(&key, MapFlags::ANY).map_err(io::Error::other)?;
        Ok(found.and_then(|value| word(&value, source::IS_LISTED)).map(|listed| listed != 0))
    }

    /// Ends those that have had no states for as long as their limiter's rate reaches back, or
    /// (`is_any`) all without states; gives how many.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn end_limited_sources(&self, is_any: bool) -> io::Result<u64> {
        if self.arena().read32(control::LIMITED_COUNT) == 0 {
            return Ok(0);
        }
        let mut keys: Vec<u32> = Vec::new();
        self.each_node(|key, value| {
            if LimitedSource::read(key, value).is_some_and(|source| source.state_count == 0) {
                keys.extend(sources::words(key));
            }
        })?;
        self.end_nodes(&keys, is_any)
    }
}

const _: () = assert!(SOURCE_OF_LIMITER > layout::family::INET6 as u32, "beside families");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limiters_source_is_no_rules() {
        let words =
            |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|word| word.to_ne_bytes()).collect() };
        let network = u32::from_ne_bytes([192, 0, 2, 0]);
        let mut value = vec![0; source::SIZE_BYTES as usize];
        value[source::STATES as usize] = 3;
        value[source::IS_LISTED as usize] = 1;
        let key = |family| words(&[network, 0, 0, 0, 9, family]);
        let found = LimitedSource::read(&key(SOURCE_OF_LIMITER), &value);
        let address = "192.0.2.0".parse().unwrap();
        let limited = LimitedSource { limiter: 9, address, state_count: 3, is_listed: true };
        assert_eq!(found, Some(limited));
        assert_eq!(LimitedSource::read(&key(0), &value), None);
        let bytes = [192, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let leaves = super::address(SOURCE_OF_LIMITER | SOURCE_LEAVES, &bytes);
        assert_eq!(leaves, Some((address, true)));
    }
}
