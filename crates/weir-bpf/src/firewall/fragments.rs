//! Looks at the table of packets in fragments (`struct weir_fw_fragments` of
//! `bpf/include/weir/fw/fragment.h`), which programs alone change, and at what tables take of the
//! kernel's memory.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use super::Firewall;
use super::layout::fragments;

/// Where a value has the tick at which it is over.
const EXPIRES_AT: usize = fragments::EXPIRES_TICK as usize;

/// What the kernel's tables take beside the arena, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableBytes {
    /// That of packets in fragments.
    pub fragments: u64,
    /// That of sources, with the nodes that there are.
    pub sources: u64,
    /// That of entries of tables with `counters`, with those that have been counted.
    pub counted: u64,
}

impl Firewall {
    /// Fragmented packets that the table of fragments has room for.
    #[must_use]
    pub fn fragment_count_max(&self) -> u32 {
        self.fragments.max_entries()
    }

    /// Packets in fragments that are followed at a tick: what is over then is not one. One that
    /// comes or goes meanwhile may be missing.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn fragment_count(&self, now_tick: u32) -> io::Result<u64> {
        let mut count = 0;
        for key in self.fragments.keys() {
            let value = self.fragments.lookup(&key, MapFlags::ANY);
            let value = value.map_err(|error| io::Error::other(error.to_string()))?;
            count += u64::from(value.is_some_and(|value| is_alive(&value, now_tick)));
        }
        Ok(count)
    }

    /// What the kernel says of its tables' memory.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn table_bytes(&self) -> io::Result<TableBytes> {
        Ok(TableBytes {
            fragments: bytes(&self.fragments)?,
            sources: bytes(&self.sources)?,
            counted: bytes(&self.counted)?,
        })
    }
}

fn is_alive(value: &[u8], now_tick: u32) -> bool {
    let expires_tick = value.get(EXPIRES_AT..).and_then(<[u8]>::first_chunk::<4>);
    expires_tick
        .is_some_and(|tick| u32::from_ne_bytes(*tick).wrapping_sub(now_tick).cast_signed() > 0)
}

/// `memlock` of a map.
fn bytes(map: &MapHandle) -> io::Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(path)?;
    let memlock = text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
    memlock.ok_or_else(|| io::Error::other("the kernel does not say what a map takes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_does_not_count() {
        let value = |tick: u32| [[0; 4], tick.to_ne_bytes(), [9; 4]].concat();
        assert!(is_alive(&value(11), 10) && !is_alive(&value(10), 10));
        assert!(is_alive(&value(3), u32::MAX - 3), "ticks go around");
        assert!(!is_alive(&[0; 4], 10));
    }
}
