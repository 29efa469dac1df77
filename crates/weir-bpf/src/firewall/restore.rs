//! Has the sweeping program make a state again that was stored, or that another firewall has:
//! `bpf/include/weir/fw/restore.h`.
//!
//! Its bucket is locked as the data path does; what is there already, and `set limit states`, win.
//! A translated one also needs the ends that it had on the wire, which nobody may have by now.
//! What another firewall has sent before is brought up to date, and ends as it says so.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use super::Firewall;
use super::layout::{self, control};
use super::sweep::{WORDS, Words, put_address, word};

/// What a half of a translated state has on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Address and port of end 1 at half A, of end 0 at half B.
    pub end: (IpAddr, u16),
    /// Id of the rule that has given it.
    pub rule: u32,
}

/// A state with all that is known of it, in this firewall's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Address and port of both ends, of one family.
    pub ends: [(IpAddr, u16); 2],
    /// Of both halves, where they are translated; of the same family.
    pub wire: [Option<Wire>; 2],
    /// Numbers of the gateways towards end 1 and towards end 0; 0: routes say it.
    pub gateways: [u8; 2],
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
    /// There is a state with these ends, of which more is known here.
    Present,
    /// The table has as many states as `set limit states` allows.
    Limit,
    /// No slot has memory: [`Firewall::extend`].
    Memory,
    /// Its bucket's lock was not to be had.
    Busy,
    /// It is here, and is as it is sent now.
    Updated,
    /// It was sent before, and has ended.
    Ended,
    /// What is to end is not there, or was not sent by another firewall.
    Absent,
}

/// What another firewall says of one of its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Import {
    /// It is so.
    State(Restored),
    /// The same, but it came from elsewhere, and the other firewall has had no packet of it.
    SecondHand(Restored),
    /// It has ended.
    Gone {
        /// As [`Restored::ends`].
        ends: [(IpAddr, u16); 2],
        /// IP protocol.
        protocol: u8,
    },
    /// Nothing: it is the other one that is to hear of this firewall's state once more.
    Tell {
        /// As [`Restored::ends`].
        ends: [(IpAddr, u16); 2],
        /// IP protocol.
        protocol: u8,
    },
}

/// States of one call at most that take one run of the program.
pub const GROUP_MAX: usize = layout::SWEEP_GROUP_MAX as usize;

/// What of a record's control word a request may say, but for the timeout table.
const FLAGS: u32 = layout::STATE_HALF_A
    | layout::STATE_HALF_B
    | layout::STATE_IF_BOUND_A
    | layout::STATE_IF_BOUND_B
    | layout::STATE_SLOPPY
    | layout::STATE_FIRST
    | layout::STATE_WATCHED;

/// As filters and requests have an address.
pub(super) fn bytes_of(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    bytes
}

/// Writes a field of the request, by its offset.
fn put<const N: usize>(request: &mut [u8], at: u32, field: [u8; N]) {
    request[at as usize..][..N].copy_from_slice(&field);
}

/// A request about a state, alone in its run.
fn about(mode: u32, ends: [(IpAddr, u16); 2], protocol: u8) -> io::Result<Words> {
    if ends[0].0.is_ipv4() != ends[1].0.is_ipv4() {
        return Err(io::Error::other("a state's ends are of two families"));
    }
    let mut words = [0; WORDS];
    let version = if ends[0].0.is_ipv4() { 4 } else { 6 };
    words[word::MODE] = mode;
    words[word::TO] = 1;
    words[word::FLAGS] = version | u32::from(protocol) << layout::SWEEP_PROTOCOL_SHIFT;
    for (end, (address, port)) in ends.into_iter().enumerate() {
        words[word::PORT + end] = u32::from(port.to_be());
        put_address(&mut words[word::ADDRESS + 4 * end..], bytes_of(address));
    }
    Ok(words)
}

fn request(state: &Restored) -> io::Result<Words> {
    use layout::sweep;
    let words = about(layout::SWEEP_RESTORE, state.ends, state.protocol)?;
    let mut words = words.map(u32::to_ne_bytes);
    let bytes = words.as_flattened_mut();
    let mut translated = [0_u8; 2];
    let control = state.flags & FLAGS | u32::from(state.profile) << layout::STATE_PROFILE_SHIFT;
    put(bytes, sweep::CONTROL, control.to_ne_bytes());
    put(bytes, sweep::CREATED_TICK, state.created_tick.to_ne_bytes());
    put(bytes, sweep::LAST_TICK, state.last_tick.to_ne_bytes());
    for (index, at) in [0, 1].into_iter().zip(0_u32..) {
        put(bytes, sweep::PACKETS + at * 8, state.packets[index].to_ne_bytes());
        put(bytes, sweep::BYTES + at * 8, state.bytes[index].to_ne_bytes());
        put(bytes, sweep::HALF + at * 4, state.halves[index].to_ne_bytes());
        put(bytes, sweep::SEQ + at * 8, state.seq[index][0].to_ne_bytes());
        put(bytes, sweep::SEQ + at * 8 + 4, state.seq[index][1].to_ne_bytes());
        put(bytes, sweep::MAX_WIN + at * 2, state.max_win[index].to_ne_bytes());
    }
    put(bytes, sweep::PHASE, state.phase);
    put(bytes, sweep::WSCALE, state.wscale);
    put(bytes, sweep::INTERFACE, state.interfaces);
    for ((half, at), wire) in (0..).zip(0_u32..).zip(state.wire) {
        let Some(Wire { end: (address, port), rule }) = wire else { continue };
        if address.is_ipv4() != state.ends[0].0.is_ipv4() {
            return Err(io::Error::other("a state is of two families"));
        }
        translated[half] = 1;
        put(bytes, sweep::MASK + at * 16, bytes_of(address));
        put(bytes, sweep::WIRE_PORT + at * 2, port.to_be_bytes());
        put(bytes, sweep::TRANSLATOR + at * 4, rule.to_ne_bytes());
    }
    put(bytes, sweep::TRANSLATED, translated);
    put(bytes, sweep::GATEWAY, state.gateways);
    Ok(words.map(u32::from_ne_bytes))
}

fn outcome(answer: u32) -> io::Result<Outcome> {
    match answer {
        layout::RESTORED_MADE => Ok(Outcome::Made),
        layout::RESTORED_PRESENT => Ok(Outcome::Present),
        layout::RESTORED_LIMIT => Ok(Outcome::Limit),
        layout::RESTORED_MEMORY => Ok(Outcome::Memory),
        layout::RESTORED_BUSY => Ok(Outcome::Busy),
        layout::RESTORED_UPDATED => Ok(Outcome::Updated),
        layout::RESTORED_ENDED => Ok(Outcome::Ended),
        layout::RESTORED_ABSENT => Ok(Outcome::Absent),
        other => Err(io::Error::other(format!("the sweeping program answered {other}"))),
    }
}

impl Firewall {
    /// Makes a state, if nothing is in its place and the limit allows it.
    ///
    /// # Errors
    /// What the kernel returned, or that the ends are of two families.
    pub fn restore(&self, state: &Restored) -> io::Result<Outcome> {
        self.note_translation(state);
        outcome(self.sweep_once(&request(state)?)?[word::NEXT])
    }

    /// Where there is a translated state, packets are looked for by what they have on the wire.
    fn note_translation(&self, state: &Restored) {
        if state.wire.iter().any(Option::is_some) {
            let flags = self.arena().word32(control::FLAGS);
            flags.fetch_or(layout::CONTROL_TRANSLATED, Ordering::AcqRel);
        }
    }

    /// Takes in what another firewall says of its states, in its order, since a bulk began that is
    /// odd or even; gives what became of each.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn import(&self, imports: &[Import], is_odd: bool) -> io::Result<Vec<Outcome>> {
        let flags = layout::SWEEP_IMPORT | if is_odd { layout::SWEEP_ODD } else { 0 };
        let mut outcomes = Vec::with_capacity(imports.len());
        for group in imports.chunks(GROUP_MAX) {
            let mut words = Vec::with_capacity(WORDS * GROUP_MAX);
            for import in group {
                let mut one = match import {
                    Import::State(state) | Import::SecondHand(state) => {
                        self.note_translation(state);
                        request(state)?
                    }
                    Import::Gone { ends, protocol } => about(layout::SWEEP_GONE, *ends, *protocol)?,
                    Import::Tell { ends, protocol } => about(layout::SWEEP_TELL, *ends, *protocol)?,
                };
                one[word::TO] = u32::try_from(group.len()).map_err(io::Error::other)?;
                one[word::FLAGS] |= flags;
                if matches!(import, Import::SecondHand(_)) {
                    one[word::FLAGS] |= layout::SWEEP_SECOND_HAND;
                }
                words.extend(one);
            }
            let answers = self.sweep_frame(&words)?;
            let (answers, _) = answers.as_chunks::<WORDS>();
            for answer in answers {
                outcomes.push(outcome(answer[word::NEXT])?);
            }
        }
        Ok(outcomes)
    }

    /// Says whether another firewall sends its states, whether its bulk is odd, and whether that is
    /// under way: what it has sent does not expire meanwhile.
    pub fn keep_imported(&self, is_live: bool, is_odd: bool, is_bulk: bool) {
        let give = |is_given: bool, flag: u32| if is_given { flag } else { 0 };
        let flags = give(is_live, layout::SYNC_IN_LIVE)
            | give(is_odd, layout::SYNC_IN_ODD)
            | give(is_bulk, layout::SYNC_IN_ALL);
        self.arena().write32(control::SYNC_IN, flags);
    }
}
