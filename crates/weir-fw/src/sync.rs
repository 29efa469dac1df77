//! States as bytes that any firewall can read: what `weir pfctl --store-states` writes and `-L`
//! reads (docs/fw-states.md), and what one firewall sends another one ([`stream`],
//! docs/fw-sync.md).
//!
//! Integers are in network order. Names and rules stand for the numbers that differ from one
//! firewall to the next. Records say their length, so that a reader skips those that it does not
//! know. This module never looks at a firewall, and does no input or output.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub mod stream;
#[cfg(test)]
mod tests;

/// What a stream begins with.
pub const MAGIC: [u8; 8] = *b"weirsync";
/// The version of the format.
pub const VERSION: u16 = 1;
/// Bytes of the header.
pub const HEADER_SIZE_BYTES: usize = 12;
/// Bytes of a record's type and length.
pub const RECORD_HEADER_SIZE_BYTES: usize = 4;
/// Bytes of a state, without its type and length.
pub const STATE_SIZE_BYTES: u16 = 148;
/// The same of a state with all parts.
const PARTS_SIZE_BYTES_MAX: usize = STATE_SIZE_BYTES as usize
    + 2 * (RECORD_HEADER_SIZE_BYTES + WIRE_SIZE_BYTES as usize)
    + RECORD_HEADER_SIZE_BYTES
    + GATEWAYS_SIZE_BYTES as usize;
/// Bytes of a part, without its type and length.
const WIRE_SIZE_BYTES: u16 = 26;
const GATEWAYS_SIZE_BYTES: u16 = 4;
/// [`State::idle_ms`] of a state that came from another firewall, if no packet has come since.
pub const SECOND_HAND: u64 = u64::MAX;
/// The longest name of an interface or a tag.
pub const NAME_SIZE_BYTES_MAX: usize = 63;

/// Types of records.
const TYPE_END: u16 = 0;
const TYPE_INTERFACE: u16 = 1;
const TYPE_TAG: u16 = 2;
const TYPE_STATE: u16 = 3;
const TYPE_STATE_OF_PARTS: u16 = 4;
/// [`Record::Unknown`] of a state with a part of an unknown type. It counts as a state.
pub const UNKNOWN_STATE: u16 = TYPE_STATE_OF_PARTS;
const TYPE_GATEWAY: u16 = 5;

/// Parts of such a state, behind what each state has.
const PART_WIRE: [u16; 2] = [1, 2];
const PART_GATEWAYS: u16 = 3;

/// [`State::flags`]: only phases of TCP are followed.
pub const SLOPPY: u16 = 1 << 0;
/// One packet only so far.
pub const FIRST: u16 = 1 << 1;
/// TCP: the handshake is complete.
pub const CONNECTED: u16 = 1 << 2;
const STATE_FLAGS: u16 = SLOPPY | FIRST | CONNECTED;

/// [`Half::flags`]: it is there.
pub const PRESENT: u16 = 1 << 0;
/// It covers its interface alone.
pub const IF_BOUND: u16 = 1 << 1;
/// `no-sync`
pub const NO_SYNC: u16 = 1 << 2;
/// `log (all)`
pub const LOG_ALL: u16 = 1 << 3;
/// `allow-opts`
pub const ALLOW_OPTIONS: u16 = 1 << 4;
/// Every packet is looked at by more than the state: its rule logs all, counts for a table, or has
/// `max-pkt-rate`.
pub const WATCHED: u16 = 1 << 5;
/// `pflow`
pub const PFLOW: u16 = 1 << 6;
const HALF_FLAGS: u16 = PRESENT | IF_BOUND | NO_SYNC | LOG_ALL | ALLOW_OPTIONS | WATCHED | PFLOW;

/// TCP of one end; other protocols have a phase alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peer {
    /// TCP: the number of BSD's `tcp_fsm.h`, 0 to 10; else pf's: 0 nothing, 1 one packet, 2 more.
    pub phase: u8,
    /// Shift of its window, 0 to 14, and 0x80 if its SYN had the option.
    pub wscale: u8,
    /// The largest window that it has offered, scaled down.
    pub max_win: u16,
    /// Its sequence window: first number, and the one behind the last.
    pub seq: [u32; 2],
}

/// The side of a state that one interface sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Half {
    pub flags: u16,
    /// The number of its interface's name; 0: it is not known.
    pub interface: u16,
    /// The number of its tag's name; 0: it has none.
    pub tag: u16,
    /// [`rule_hash`] of the rule that made it; 0: the default rule.
    pub rule: u64,
}

/// What a half of a translated state has on the wire, where rules have translated one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Address and port of end 1 at half A, of end 0 at half B.
    pub end: (IpAddr, u16),
    /// [`rule_hash`] of the rule that has given it; 0: it is not known.
    pub rule: u64,
}

/// A state. End 0 made it; half A sees its packets come in, half B sees them leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// IP protocol.
    pub protocol: u8,
    pub flags: u16,
    /// Address and port of both ends, of one family. ICMP has its identifier at the end that asks,
    /// and its type at the other.
    pub ends: [(IpAddr, u16); 2],
    /// Of both halves. If they have any, `ends` are those between the translation of a destination,
    /// where packets come in, and that of a source, where they leave.
    pub wire: [Option<Wire>; 2],
    /// Numbers of the names of gateways towards end 1 and towards end 0; 0: routes say it.
    pub gateways: [u16; 2],
    pub peers: [Peer; 2],
    pub halves: [Half; 2],
    /// Packets that both ends have sent.
    pub packets: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// Milliseconds since it was made.
    pub age_ms: u64,
    /// Milliseconds until it ends if no packet comes.
    pub remaining_ms: u64,
    /// Milliseconds since its last packet, or [`SECOND_HAND`].
    pub idle_ms: u64,
}

/// What kind of name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Interface,
    Tag,
    /// Of `route-to` or `reply-to`: its address, `@` and its interface, or one of both alone.
    Gateway,
}

impl Kind {
    const fn record_type(self) -> u16 {
        match self {
            Self::Interface => TYPE_INTERFACE,
            Self::Tag => TYPE_TAG,
            Self::Gateway => TYPE_GATEWAY,
        }
    }
}

/// A record of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// What a number stands for, before anything refers to it; never 0.
    Name {
        kind: Kind,
        number: u16,
        name: String,
    },
    State(Box<State>),
    /// Nothing follows: so many states were before it.
    End {
        state_count: u64,
    },
    /// Of a type that this version does not know.
    Unknown(u16),
}

/// Why bytes are no stream of states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {cause}")]
pub struct Error {
    /// Where what is wrong begins, from the start.
    pub at: usize,
    pub cause: Cause,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    #[error("these are no states that weir has stored")]
    Magic,
    #[error("version {0} of the format is not known here, {VERSION} is")]
    Version(u16),
    #[error("it ends in the middle")]
    Truncated,
    #[error("a record of type {kind} has {size} bytes")]
    Size { kind: u16, size: u16 },
    #[error("{field} cannot be {value}")]
    Value { field: &'static str, value: u64 },
    #[error("a name is not one")]
    Name,
    #[error("it says that it has {said} states, and has {found}")]
    Count { said: u64, found: u64 },
    #[error("something follows the end")]
    Behind,
}

/// What names a rule everywhere: FNV-1a (64 bits) of its anchor's path, a zero byte, its text as
/// `pfctl -sr` prints it, a zero byte, and how many rules of the same anchor and text stand before
/// it, four bytes. Never 0.
#[must_use]
pub fn rule_hash(anchor: &str, text: &str, ordinal: u32) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let parts = [anchor.as_bytes(), &[0], text.as_bytes(), &[0], &ordinal.to_be_bytes()];
    let bytes = parts.into_iter().flatten();
    let hash = bytes.fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    hash.max(1)
}

/// Appends a header: what a stream begins with.
pub fn put_header(out: &mut Vec<u8>) {
    out.extend(MAGIC);
    out.extend(VERSION.to_be_bytes());
    out.extend([0; 2]);
}

/// Appends the name of an interface, a tag or a gateway; false, and nothing, if it has none or is
/// too long.
#[must_use]
pub fn put_name(out: &mut Vec<u8>, kind: Kind, number: u16, name: &str) -> bool {
    let size = name.len();
    if number == 0 || size == 0 || size > NAME_SIZE_BYTES_MAX {
        return false;
    }
    let Ok(size) = u16::try_from(size + 2) else { return false };
    out.extend(kind.record_type().to_be_bytes());
    out.extend(size.to_be_bytes());
    out.extend(number.to_be_bytes());
    out.extend(name.as_bytes());
    true
}

/// Appends the end of a stream.
pub fn put_end(out: &mut Vec<u8>, state_count: u64) {
    out.extend(TYPE_END.to_be_bytes());
    out.extend(8_u16.to_be_bytes());
    out.extend(state_count.to_be_bytes());
}

/// Appends a state. Its ends are to be of one family.
pub fn put_state(out: &mut Vec<u8>, state: &State) {
    const SIZE: usize = RECORD_HEADER_SIZE_BYTES + PARTS_SIZE_BYTES_MAX;
    let mut record = Writer { bytes: [0; SIZE], at: 0 };
    record.put(TYPE_STATE.to_be_bytes());
    record.put(STATE_SIZE_BYTES.to_be_bytes());
    record.put([if state.ends[0].0.is_ipv4() { 4 } else { 6 }, state.protocol]);
    record.put(state.flags.to_be_bytes());
    record.put_ends(&state.ends);
    for peer in &state.peers {
        record.put([peer.phase, peer.wscale]);
        record.put(peer.max_win.to_be_bytes());
        record.put(peer.seq[0].to_be_bytes());
        record.put(peer.seq[1].to_be_bytes());
    }
    for half in &state.halves {
        for word in [half.flags, half.interface, half.tag] {
            record.put(word.to_be_bytes());
        }
        record.put(half.rule.to_be_bytes());
    }
    let counts = state.packets.into_iter().chain(state.bytes);
    for number in counts.chain([state.age_ms, state.remaining_ms, state.idle_ms]) {
        record.put(number.to_be_bytes());
    }
    record.put_parts(state);
    out.extend_from_slice(&record.bytes[..record.at]);
}

/// A record of a known size: millions of them are written one after the other.
struct Writer<const SIZE: usize> {
    bytes: [u8; SIZE],
    at: usize,
}

impl<const SIZE: usize> Writer<SIZE> {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&field);
        self.at += N;
    }

    /// What only some states have.
    fn put_parts(&mut self, state: &State) {
        let whole = self.at;
        for (part, wire) in PART_WIRE.into_iter().zip(&state.wire) {
            let Some(wire) = wire else { continue };
            self.put(part.to_be_bytes());
            self.put(WIRE_SIZE_BYTES.to_be_bytes());
            self.put_end(&wire.end);
            self.put(wire.rule.to_be_bytes());
        }
        if state.gateways != [0, 0] {
            self.put(PART_GATEWAYS.to_be_bytes());
            self.put(GATEWAYS_SIZE_BYTES.to_be_bytes());
            state.gateways.iter().for_each(|number| self.put(number.to_be_bytes()));
        }
        let more = u16::try_from(self.at - whole).unwrap_or(0);
        if more > 0 {
            self.bytes[..2].copy_from_slice(&TYPE_STATE_OF_PARTS.to_be_bytes());
            self.bytes[2..4].copy_from_slice(&(STATE_SIZE_BYTES + more).to_be_bytes());
        }
    }

    fn put_ends(&mut self, ends: &[(IpAddr, u16); 2]) {
        ends.iter().for_each(|end| self.put_end(end));
    }

    fn put_end(&mut self, (address, port): &(IpAddr, u16)) {
        match address {
            IpAddr::V4(address) => {
                self.put(address.octets());
                self.put([0; 12]);
            }
            IpAddr::V6(address) => self.put(address.octets()),
        }
        self.put(port.to_be_bytes());
    }
}

/// Takes bytes apart, from the first to the last.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    state_count: u64,
    is_over: bool,
}

impl<'a> Decoder<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// If it is none, or of another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let wrong = |at, cause| Err(Error { at, cause });
        if !bytes.starts_with(&MAGIC) {
            return wrong(0, Cause::Magic);
        }
        let Some(header) = bytes.first_chunk::<HEADER_SIZE_BYTES>() else {
            return wrong(bytes.len(), Cause::Truncated);
        };
        match u16::from_be_bytes([header[8], header[9]]) {
            VERSION => Ok(Self { bytes, at: HEADER_SIZE_BYTES, state_count: 0, is_over: false }),
            version => wrong(8, Cause::Version(version)),
        }
    }

    /// Where the next record begins.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    fn record(&mut self) -> Result<Record, Error> {
        let at = self.at;
        let wrong = |cause| Error { at, cause };
        let rest = &self.bytes[at..];
        let Some(&[high, low, long, short]) = rest.first_chunk() else {
            return Err(wrong(Cause::Truncated));
        };
        let (kind, size) = (u16::from_be_bytes([high, low]), u16::from_be_bytes([long, short]));
        let body = &rest[RECORD_HEADER_SIZE_BYTES..];
        let body = body.get(..size.into()).ok_or_else(|| wrong(Cause::Truncated))?;
        let mut fields = Fields { rest: body, is_short: false };
        let record = match kind {
            TYPE_END => {
                let said = fields.u64();
                if !fields.is_short && said != self.state_count {
                    return Err(wrong(Cause::Count { said, found: self.state_count }));
                }
                Record::End { state_count: said }
            }
            kind => fields.record(kind).map_err(wrong)?,
        };
        if fields.is_wrong() {
            return Err(wrong(Cause::Size { kind, size }));
        }
        self.at += RECORD_HEADER_SIZE_BYTES + usize::from(size);
        Ok(record)
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Record, Error>;

    /// The next record; nothing after [`Record::End`] or an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            if self.at >= self.bytes.len() {
                return None;
            }
            let error = Error { at: self.at, cause: Cause::Behind };
            self.at = self.bytes.len();
            return Some(Err(error));
        }
        let record = self.record();
        match &record {
            Ok(Record::State(_) | Record::Unknown(UNKNOWN_STATE)) => self.state_count += 1,
            Ok(Record::End { .. }) => self.is_over = true,
            Ok(_) => {}
            Err(_) => (self.is_over, self.at) = (true, self.bytes.len()),
        }
        Some(record)
    }
}

/// What is left of a record.
struct Fields<'a> {
    rest: &'a [u8],
    /// More was read than there was.
    is_short: bool,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.rest.split_first_chunk() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => {
                self.is_short = true;
                [0; N]
            }
        }
    }

    /// Whether there was too little, or is something left.
    const fn is_wrong(&self) -> bool {
        self.is_short || !self.rest.is_empty()
    }

    /// A name, a state, or what is unknown.
    fn record(&mut self, kind: u16) -> Result<Record, Cause> {
        match kind {
            TYPE_INTERFACE => self.name(Kind::Interface),
            TYPE_TAG => self.name(Kind::Tag),
            TYPE_GATEWAY => self.name(Kind::Gateway),
            TYPE_STATE => Ok(Record::State(Box::new(self.state()?))),
            TYPE_STATE_OF_PARTS => self.state_of_parts(),
            other => {
                self.rest = &[];
                Ok(Record::Unknown(other))
            }
        }
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }

    fn name(&mut self, kind: Kind) -> Result<Record, Cause> {
        let number = self.u16();
        let name = std::str::from_utf8(std::mem::take(&mut self.rest)).unwrap_or_default();
        let has_size = (1..=NAME_SIZE_BYTES_MAX).contains(&name.len());
        if number == 0 || !has_size || name.chars().any(char::is_control) {
            return Err(Cause::Name);
        }
        Ok(Record::Name { kind, number, name: name.to_owned() })
    }

    /// A state with something that most have not. One with a part of an unknown type would not be
    /// the same without that.
    fn state_of_parts(&mut self) -> Result<Record, Cause> {
        let mut parts = self.rest.split_off(usize::from(STATE_SIZE_BYTES)..).unwrap_or_default();
        let version = self.rest.first().copied().unwrap_or(0);
        let (mut state, mut last) = (self.state()?, 0);
        allow("the size of a state's parts", 0, !parts.is_empty() || self.is_short)?;
        while !parts.is_empty() {
            let mut part = Fields { rest: parts, is_short: false };
            let (kind, size) = (part.u16(), part.u16());
            allow("a part behind a later one", kind.into(), kind > last)?;
            last = kind;
            let Some(body) = part.rest.split_off(..usize::from(size)) else {
                return Err(Cause::Value { field: "a part's size", value: size.into() });
            };
            parts = part.rest;
            let mut body = Fields { rest: body, is_short: part.is_short };
            match PART_WIRE.iter().position(|wire| *wire == kind) {
                Some(half) => {
                    let is_there = state.halves[half].flags & PRESENT != 0;
                    allow("the wire of a half that is not there", kind.into(), is_there)?;
                    state.wire[half] = Some(body.wire(version)?);
                }
                None if kind == PART_GATEWAYS => {
                    state.gateways = [body.u16(), body.u16()];
                    let is_any = state.gateways != [0, 0];
                    allow("a state's number of gateways", 0, is_any || body.is_short)?;
                }
                None => return Ok(Record::Unknown(UNKNOWN_STATE)),
            }
            allow("a part's size", size.into(), !body.is_wrong())?;
        }
        Ok(Record::State(Box::new(state)))
    }

    fn state(&mut self) -> Result<State, Cause> {
        if self.rest.len() != usize::from(STATE_SIZE_BYTES) {
            self.is_short = true;
        }
        let [version, protocol] = self.take();
        let flags = self.u16();
        let ends = [self.end(version)?, self.end(version)?];
        let peers = [self.peer(protocol)?, self.peer(protocol)?];
        let halves = [self.half()?, self.half()?];
        let state = State {
            protocol,
            flags,
            ends,
            wire: [None; 2],
            gateways: [0; 2],
            peers,
            halves,
            packets: [self.u64(), self.u64()],
            bytes: [self.u64(), self.u64()],
            age_ms: self.u64(),
            remaining_ms: self.u64(),
            idle_ms: self.u64(),
        };
        allow("a state's flags", flags.into(), flags & !STATE_FLAGS == 0)?;
        let is_there = halves.iter().any(|half| half.flags & PRESENT != 0);
        allow("the number of a state's halves", 0, is_there || self.is_short)?;
        Ok(state)
    }

    fn end(&mut self, version: u8) -> Result<(IpAddr, u16), Cause> {
        let bytes: [u8; 16] = self.take();
        let port = self.u16();
        allow("an IP version", version.into(), matches!(version, 4 | 6) || self.is_short)?;
        if version == 6 {
            return Ok((Ipv6Addr::from(bytes).into(), port));
        }
        let (&[a, b, c, d, ref rest @ ..], is_short) = (&bytes, self.is_short);
        let spare = rest.iter().copied().max().unwrap_or(0);
        allow("a byte behind an IPv4 address", spare.into(), spare == 0 || is_short)?;
        Ok((Ipv4Addr::new(a, b, c, d).into(), port))
    }

    fn wire(&mut self, version: u8) -> Result<Wire, Cause> {
        Ok(Wire { end: self.end(version)?, rule: self.u64() })
    }

    fn peer(&mut self, protocol: u8) -> Result<Peer, Cause> {
        let [phase, wscale] = self.take();
        let peer = Peer { phase, wscale, max_win: self.u16(), seq: [self.u32(), self.u32()] };
        let phase_max = if protocol == weir_wire::protocol::TCP { 10 } else { 2 };
        allow("a phase", phase.into(), phase <= phase_max)?;
        let is_scale = wscale & 0x7f <= 14;
        allow("a window's scale", wscale.into(), is_scale)?;
        Ok(peer)
    }

    fn half(&mut self) -> Result<Half, Cause> {
        let (flags, interface, tag) = (self.u16(), self.u16(), self.u16());
        allow("the flags of a half", flags.into(), flags & !HALF_FLAGS == 0)?;
        Ok(Half { flags, interface, tag, rule: self.u64() })
    }
}

fn allow(field: &'static str, value: u64, is_right: bool) -> Result<(), Cause> {
    if is_right { Ok(()) } else { Err(Cause::Value { field, value }) }
}
