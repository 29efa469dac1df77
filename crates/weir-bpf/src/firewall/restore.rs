//! Has the sweeping program make a state again that was stored: `bpf/include/weir/fw/restore.h`.
//!
//! Its bucket is locked as the data path does; what is there already, and `set limit states`, win.

use std::io;
use std::net::IpAddr;

use super::sweep::{WORDS, Words, put_address, word};
use super::{Firewall, layout};

/// A state with all that is known of it, in this firewall's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Address and port of both ends, of one family.
    pub ends: [(IpAddr, u16); 2],
    /// IP protocol.
    pub protocol: u8,
    /// `layout::STATE_*`: halves and whether they are bound, `SLOPPY`, `FIRST`, `WATCHED`.
    pub flags: u32,
    /// Its timeout table.
    pub profile: u8,
    /// What made half A and half B: `layout::HALF_*` above the rule's id.
    pub halves: [u32; 2],
    /// Slots of the interfaces of both halves; 0: unknown.
    pub interfaces: [u8; 2],
    /// Phases of both ends.
    pub phase: [u8; 2],
    /// TCP: sequence windows of both ends.
    pub seq: [[u32; 2]; 2],
    /// TCP: largest windows offered.
    pub max_win: [u16; 2],
    /// TCP: window scaling, as a record has it.
    pub wscale: [u8; 2],
    /// Packets from end 0 and from end 1.
    pub packets: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// When it was made, in ticks.
    pub created_tick: u32,
    /// When its last packet came, in ticks.
    pub last_tick: u32,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is there now.
    Made,
    /// There is a state with these ends, which stays as it is.
    Present,
    /// The table has as many states as `set limit states` allows.
    Limit,
    /// No slot has memory: [`Firewall::extend`].
    Memory,
    /// Its bucket's lock was not to be had.
    Busy,
}

/// What of a record's control word a request may say, but for the timeout table.
const FLAGS: u32 = layout::STATE_HALF_A
    | layout::STATE_HALF_B
    | layout::STATE_IF_BOUND_A
    | layout::STATE_IF_BOUND_B
    | layout::STATE_SLOPPY
    | layout::STATE_FIRST
    | layout::STATE_WATCHED;

fn bytes_of(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    bytes
}

/// Writes a field of the request, by its offset.
fn put(words: &mut Words, at: u32, bytes: &[u8]) {
    for (offset, byte) in bytes.iter().enumerate() {
        let at = at as usize + offset;
        let mut word = words[at / 4].to_ne_bytes();
        word[at % 4] = *byte;
        words[at / 4] = u32::from_ne_bytes(word);
    }
}

fn request(state: &Restored) -> Words {
    use layout::sweep;
    let mut words = [0; WORDS];
    let version = if state.ends[0].0.is_ipv4() { 4 } else { 6 };
    words[word::MODE] = layout::SWEEP_RESTORE;
    words[word::FLAGS] = version | u32::from(state.protocol) << layout::SWEEP_PROTOCOL_SHIFT;
    for (end, (address, port)) in state.ends.into_iter().enumerate() {
        words[word::PORT + end] = u32::from(port.to_be());
        put_address(&mut words[word::ADDRESS + 4 * end..], bytes_of(address));
    }
    let control = state.flags & FLAGS | u32::from(state.profile) << layout::STATE_PROFILE_SHIFT;
    put(&mut words, sweep::CONTROL, &control.to_ne_bytes());
    put(&mut words, sweep::CREATED_TICK, &state.created_tick.to_ne_bytes());
    put(&mut words, sweep::LAST_TICK, &state.last_tick.to_ne_bytes());
    for (index, at) in [0, 1].into_iter().zip(0_u32..) {
        put(&mut words, sweep::PACKETS + at * 8, &state.packets[index].to_ne_bytes());
        put(&mut words, sweep::BYTES + at * 8, &state.bytes[index].to_ne_bytes());
        put(&mut words, sweep::HALF + at * 4, &state.halves[index].to_ne_bytes());
        put(&mut words, sweep::SEQ + at * 8, &state.seq[index][0].to_ne_bytes());
        put(&mut words, sweep::SEQ + at * 8 + 4, &state.seq[index][1].to_ne_bytes());
        put(&mut words, sweep::MAX_WIN + at * 2, &state.max_win[index].to_ne_bytes());
    }
    put(&mut words, sweep::PHASE, &state.phase);
    put(&mut words, sweep::WSCALE, &state.wscale);
    put(&mut words, sweep::INTERFACE, &state.interfaces);
    words
}

impl Firewall {
    /// Makes a state, if nothing is in its place and the limit allows it.
    ///
    /// # Errors
    /// What the kernel returned, or that the ends are of two families.
    pub fn restore(&self, state: &Restored) -> io::Result<Outcome> {
        if state.ends[0].0.is_ipv4() != state.ends[1].0.is_ipv4() {
            return Err(io::Error::other("a state's ends are of two families"));
        }
        let answer = self.sweep_once(&request(state))?;
        match answer[word::NEXT] {
            layout::RESTORED_MADE => Ok(Outcome::Made),
            layout::RESTORED_PRESENT => Ok(Outcome::Present),
            layout::RESTORED_LIMIT => Ok(Outcome::Limit),
            layout::RESTORED_MEMORY => Ok(Outcome::Memory),
            layout::RESTORED_BUSY => Ok(Outcome::Busy),
            other => Err(io::Error::other(format!("the sweeping program answered {other}"))),
        }
    }
}
