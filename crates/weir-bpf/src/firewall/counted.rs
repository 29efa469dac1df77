//! Reads, and forgets, what was counted of entries of tables with `counters` (`struct
//! weir_fw_counts` of `bpf/include/weir/fw/layout.h`). Programs alone count.

use std::io;
use std::net::IpAddr;

use libbpf_rs::{MapCore as _, MapFlags};

use super::Firewall;
use super::layout::{counted_key, counts};
use super::sources::address;

pub(super) const VALUE_BYTES: usize = counts::SIZE_BYTES as usize;

/// An entry of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CountedKey {
    /// The table's number, from 1: `weir_fw_counted.table`.
    pub table: u32,
    /// The network.
    pub address: IpAddr,
    /// The length of its prefix.
    pub bits: u8,
}

/// Packets and bytes, IP headers included, by direction (in, out) and outcome (passed, blocked).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub packets: [[u64; 2]; 2],
    pub bytes: [[u64; 2]; 2],
}

fn word(bytes: &[u8], at: u32) -> Option<[u8; 4]> {
    bytes.get(at as usize..)?.first_chunk().copied()
}

impl CountedKey {
    fn read(key: &[u8]) -> Option<Self> {
        let number = |at: u32| word(key, at).map(u32::from_ne_bytes);
        Some(Self {
            table: number(counted_key::TABLE)?,
            address: address(number(counted_key::FAMILY)?, key.first_chunk()?)?,
            bits: u8::try_from(number(counted_key::BITS)?).ok()?,
        })
    }
}

impl Counts {
    fn read(value: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        for (at, fields) in
            [(counts::PACKETS, &mut found.packets), (counts::BYTES, &mut found.bytes)]
        {
            let words = value.get(at as usize..)?.as_chunks::<8>().0.iter();
            for (field, word) in fields.as_flattened_mut().iter_mut().zip(words) {
                *field = u64::from_ne_bytes(*word);
            }
        }
        Some(found)
    }
}

impl Firewall {
    /// What was counted of a table's entries. One that is counted for the first time meanwhile may
    /// be missing.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn counted(&self, table: u32) -> io::Result<Vec<(CountedKey, Counts)>> {
        let mut found = Vec::new();
        for bytes in self.counted.keys() {
            let Some(key) = CountedKey::read(&bytes).filter(|key| key.table == table) else {
                continue;
            };
            let value = self.counted.lookup(&bytes, MapFlags::ANY).map_err(io::Error::other)?;
            found.extend(value.and_then(|value| Some((key, Counts::read(&value)?))));
        }
        Ok(found)
    }

    /// Forgets what was counted of the entries that a function names.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn forget_counted(&self, is_over: impl Fn(&CountedKey) -> bool) -> io::Result<()> {
        let is_named = |bytes: &Vec<u8>| CountedKey::read(bytes).is_none_or(|key| is_over(&key));
        for bytes in self.counted.keys().filter(is_named).collect::<Vec<_>>() {
            self.counted.delete(&bytes).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_is_written() {
        let mut key = vec![0; counted_key::SIZE_BYTES as usize];
        let mut put = |at: u32, bytes: [u8; 4]| {
            key[at as usize..at as usize + 4].copy_from_slice(&bytes);
        };
        put(counted_key::ADDR, [192, 0, 2, 0]);
        put(counted_key::BITS, 24_u32.to_ne_bytes());
        put(counted_key::TABLE, 7_u32.to_ne_bytes());
        let expected = CountedKey { table: 7, address: "192.0.2.0".parse().unwrap(), bits: 24 };
        assert_eq!(CountedKey::read(&key), Some(expected));
        let value: Vec<u8> = (1..=8_u64).flat_map(u64::to_ne_bytes).collect();
        assert_eq!(value.len(), VALUE_BYTES);
        let counts = Counts::read(&value).unwrap();
        assert_eq!((counts.packets, counts.bytes), ([[1, 2], [3, 4]], [[5, 6], [7, 8]]));
    }
}
