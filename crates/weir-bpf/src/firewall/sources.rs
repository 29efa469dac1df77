//! Reads the nodes of sources: what rules with `source-track` and its like count of each source
//! (`struct weir_source` of `bpf/include/weir/fw/source.h`). They are changed by programs alone:
//! those that are to go are named to the sweeping program, a few in each run, so that it holds up
//! no packets however many there are.

use std::io;
use std::net::IpAddr;

use super::Firewall;
use super::layout::{self, control, family, source, source_key};
use super::restore::bytes_of;
use super::sweep::{Filter, Mode, WORDS, Words, word};
use crate::sys::batch;

const KEY_BYTES: usize = source_key::SIZE_BYTES as usize;
const KEY_WORDS: usize = KEY_BYTES / 4;
/// Keys of one request at most.
const KEYS_MAX: usize = layout::SWEEP_KEYS_MAX as usize;
pub(super) const VALUE_BYTES: usize = source::SIZE_BYTES as usize;

/// What is counted of one source, for one rule or for all that track globally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The source.
    pub address: IpAddr,
    /// Id of the rule; `None`: all rules with `source-track global`.
    pub rule: Option<u32>,
    pub state_count: u32,
    /// Its connections, handshakes complete.
    pub connection_count: u32,
    /// Connections of late, in thousandths, as of the last one.
    pub rate_thousandths: u32,
    /// In how many seconds they count; 0: no rule limits them.
    pub rate_seconds: u32,
    /// When the node was made, in ticks.
    pub created_tick: u32,
    /// When it goes, of one without states, in ticks.
    pub expires_tick: u32,
}

impl Source {
    /// From a key and a value of the map. `None` if it counts a rule's nodes instead.
    fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let address = address(word(key, source_key::FAMILY)?, key.first_chunk()?)?;
        let rule = word(key, source_key::RULE)?;
        Some(Self {
            address,
            rule: (rule != layout::RULE_NONE).then_some(rule),
            state_count: word(value, source::STATES)?,
            connection_count: word(value, source::CONNECTIONS)?,
            rate_thousandths: word(value, source::RATE)?,
            rate_seconds: word(value, source::RATE_SECONDS)?,
            expires_tick: word(value, source::EXPIRES_TICK)?,
            created_tick: word(value, source::CREATED_TICK)?,
        })
    }
}

/// A word of a key or of a value.
pub(super) fn word(bytes: &[u8], at: u32) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at as usize..)?.first_chunk::<4>()?))
}

/// A key as words.
pub(super) fn words(key: &[u8]) -> impl Iterator<Item = u32> {
    key.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word))
}

/// A source's address. `None` if the family is none: the key then counts a rule's nodes.
pub(super) fn address(family: u32, bytes: &[u8; 16]) -> Option<IpAddr> {
    match u8::try_from(family) {
        Ok(family::INET) => Some(IpAddr::from(*bytes.first_chunk::<4>()?)),
        Ok(family::INET6) => Some(IpAddr::from(*bytes)),
        _ => None,
    }
}

impl Firewall {
    /// The nodes that there are, sorted by address. One that comes or goes meanwhile may be
    /// missing.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn sources(&self) -> io::Result<Vec<Source>> {
        let mut found = Vec::new();
        self.each_source(|_, source| found.push(source))?;
        found.sort_by_key(|source| (source.address, source.rule));
        Ok(found)
    }

    fn each_source(&self, mut each: impl FnMut(&[u8], Source)) -> io::Result<()> {
        self.each_node(|key, value| {
            if let Some(source) = Source::read(key, value) {
                each(key, source);
            }
        })
    }

    /// All that is in the map.
    pub(super) fn each_node(&self, each: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
        batch::for_each(&self.sources, each)
    }

    /// Ends the nodes that have had no states for as long as `src.track` of their rules says, and
    /// those of limiters that are over; gives how many.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn expire_sources(&self) -> io::Result<u64> {
        let limited_count = self.end_limited_sources(false)?;
        if self.arena.read32(control::SOURCE_COUNT) == 0 {
            return Ok(limited_count);
        }
        Ok(limited_count + self.end_sources(false, |source| source.state_count == 0)?)
    }

    /// Ends the nodes of sources that fit a filter's version and `source`; gives how many. Their
    /// states go on, and count nowhere.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn kill_sources(&self, filter: Filter) -> io::Result<u64> {
        // States first: one that were counted off a node that it was never in would spoil that.
        self.sweep_all(Mode::Untrack(filter))?;
        self.end_sources(true, |source| is_from(source.address, &filter))
    }

    /// Ends nodes that fit, whatever they count or as far as their time is over.
    fn end_sources(&self, is_any: bool, fits: impl Fn(&Source) -> bool) -> io::Result<u64> {
        let mut keys: Vec<u32> = Vec::new();
        self.each_source(|key, source| {
            if fits(&source) {
                keys.extend(words(key));
            }
        })?;
        self.end_nodes(&keys, is_any)
    }

    /// Ends the nodes of keys, as far as their time is over, or (`is_any`) all.
    pub(super) fn end_nodes(&self, keys: &[u32], is_any: bool) -> io::Result<u64> {
        let mut ended = 0;
        for group in keys.chunks(KEYS_MAX * KEY_WORDS) {
            let mut request: Words = [0; WORDS];
            request[word::MODE] = layout::SWEEP_SOURCES;
            request[word::TO] = u32::try_from(group.len() / KEY_WORDS).map_err(io::Error::other)?;
            request[word::RULE] = u32::from(is_any);
            let answer = self.sweep_list(&request, group, KEYS_MAX * KEY_WORDS)?;
            ended += u64::from(answer[word::REMOVED]);
        }
        Ok(ended)
    }
}

/// Whether an address fits a filter's version and `source`.
fn is_from(address: IpAddr, filter: &Filter) -> bool {
    let version = if address.is_ipv4() { 4 } else { 6 };
    let bits = |bytes: [u8; 16]| u128::from_be_bytes(bytes);
    let differ = bits(bytes_of(address)) ^ bits(filter.source.address);
    [0, version].contains(&filter.ip_version) && differ & bits(filter.source.mask) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_as_it_is_written() {
        let words =
            |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|word| word.to_ne_bytes()).collect() };
        let address = u32::from_ne_bytes([192, 0, 2, 7]);
        let value: Vec<u32> = (100..115).collect();
        let source = Source::read(&words(&[address, 0, 0, 0, 9, 0]), &words(&value)).unwrap();
        assert_eq!((source.address, source.rule), ("192.0.2.7".parse().unwrap(), Some(9)));
        assert_eq!((source.state_count, source.connection_count), (101, 102));
        assert_eq!((source.rate_thousandths, source.rate_seconds), (103, 110));
        assert_eq!((source.expires_tick, source.created_tick), (113, 114));
        let all = Source::read(&words(&[0, 0, 0, 0, layout::RULE_NONE, 1]), &words(&value));
        assert_eq!(
            all.map(|source| (source.address, source.rule)),
            Some(("::".parse().unwrap(), None))
        );
        assert_eq!(Source::read(&words(&[0, 0, 0, 0, 9, 2]), &words(&value)), None);
    }
}
