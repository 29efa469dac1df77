//! What one firewall sends another one while both run: the header and records of stored states, and
//! a few records more. docs/fw-sync.md describes it.
//!
//! Bytes come in pieces of any size. A decoder never keeps more of them than one record has, which
//! is 64 KiB at most, and what was pushed last. It does no input or output.

use std::net::IpAddr;

use super::{
    Cause, Error, Fields, HEADER_SIZE_BYTES, MAGIC, RECORD_HEADER_SIZE_BYTES, Record, TYPE_END,
    UNKNOWN_STATE, VERSION, Writer,
};

#[cfg(test)]
mod tests;

const TYPE_SESSION: u16 = 16;
const TYPE_GONE: u16 = 17;
const TYPE_MARK: u16 = 18;
const TYPE_ACKNOWLEDGEMENT: u16 = 19;
const TYPE_BULK_BEGIN: u16 = 20;
const TYPE_BULK_END: u16 = 21;

/// Bytes of the end of a state, without its type and length.
const GONE_SIZE_BYTES: usize = 38;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Of this connection: another one each time.
    pub id: u64,
    /// Of its state table: the same as long as that lives.
    pub table: u64,
}

/// What names a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// IP protocol.
    pub protocol: u8,
    /// As [`super::State::ends`].
    pub ends: [(IpAddr, u16); 2],
}

/// A place in a stream, which the other side acknowledges once it has what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// From 1 on.
    pub sequence: u64,
    /// When it was written, milliseconds since 1970.
    pub sent_ms: u64,
    /// States, and ends of states, since the mark before.
    pub record_count: u32,
}

/// A record of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The first one of who sends states.
    Session(Session),
    /// A name, a state, or what is of an unknown type.
    Record(Record),
    /// A state has ended.
    Gone(Key),
    Mark(Mark),
    /// Of the mark with this sequence.
    Acknowledgement(u64),
    /// From here on all states follow once more, among what changes: about so many.
    BulkBegin(u64),
    /// That was all of them: so many.
    BulkEnd(u64),
}

fn put_record(out: &mut Vec<u8>, kind: u16, body: &[u8]) {
    out.extend(kind.to_be_bytes());
    out.extend(u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(body);
}

/// Appends who sends.
pub fn put_session(out: &mut Vec<u8>, session: Session) {
    let body = [session.id.to_be_bytes(), session.table.to_be_bytes()].concat();
    put_record(out, TYPE_SESSION, &body);
}

/// Appends the end of a state. Its ends are to be of one family.
pub fn put_gone(out: &mut Vec<u8>, key: &Key) {
    let mut body = Writer { bytes: [0; GONE_SIZE_BYTES], at: 0 };
    body.put([if key.ends[0].0.is_ipv4() { 4 } else { 6 }, key.protocol]);
    body.put_ends(&key.ends);
    put_record(out, TYPE_GONE, &body.bytes);
}

/// Appends a mark.
pub fn put_mark(out: &mut Vec<u8>, mark: Mark) {
    let mut body = [mark.sequence.to_be_bytes(), mark.sent_ms.to_be_bytes()].concat();
    body.extend(mark.record_count.to_be_bytes());
    put_record(out, TYPE_MARK, &body);
}

/// Appends that everything before a mark is taken in.
pub fn put_acknowledgement(out: &mut Vec<u8>, sequence: u64) {
    put_record(out, TYPE_ACKNOWLEDGEMENT, &sequence.to_be_bytes());
}

/// Appends that all states follow, of which there are so many now.
pub fn put_bulk_begin(out: &mut Vec<u8>, state_count: u64) {
    put_record(out, TYPE_BULK_BEGIN, &state_count.to_be_bytes());
}

/// Appends that all states were sent, of which there were so many.
pub fn put_bulk_end(out: &mut Vec<u8>, state_count: u64) {
    put_record(out, TYPE_BULK_END, &state_count.to_be_bytes());
}

/// Takes a stream apart as it comes.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// What of them is taken.
    taken: usize,
    /// Where they begin, from the stream's start.
    at: usize,
    has_header: bool,
    /// Since the last mark.
    record_count: u32,
    /// States since a bulk began.
    bulk_state_count: u64,
    error: Option<Error>,
}

impl Decoder {
    /// At the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the bytes that follow.
    pub fn push(&mut self, bytes: &[u8]) {
        self.at += self.taken;
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether a record has come in part.
    #[must_use]
    pub fn is_in_a_record(&self) -> bool {
        self.taken < self.bytes.len()
    }

    /// The next record, if all of it has come.
    ///
    /// # Errors
    ///
    /// What is no stream: from then on, always the same.
    pub fn next_item(&mut self) -> Result<Option<Item>, Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        self.item().map_err(|cause| {
            let error = Error { at: self.at + self.taken, cause };
            self.error = Some(error.clone());
            error
        })
    }

    fn item(&mut self) -> Result<Option<Item>, Cause> {
        if !self.has_header && !self.header()? {
            return Ok(None);
        }
        let rest = &self.bytes[self.taken..];
        let Some(&[high, low, long, short]) = rest.first_chunk() else { return Ok(None) };
        let (kind, size) = (u16::from_be_bytes([high, low]), u16::from_be_bytes([long, short]));
        let size_bytes = RECORD_HEADER_SIZE_BYTES + usize::from(size);
        let Some(body) = rest.get(RECORD_HEADER_SIZE_BYTES..size_bytes) else { return Ok(None) };
        let mut fields = Fields { rest: body, is_short: false };
        let item = fields.item(kind)?;
        if fields.is_wrong() {
            return Err(Cause::Size { kind, size });
        }
        self.count(&item)?;
        self.taken += size_bytes;
        Ok(Some(item))
    }

    /// Counts what comes, and compares with what the other side says of it.
    fn count(&mut self, item: &Item) -> Result<(), Cause> {
        let (said, found) = match item {
            Item::Record(Record::State(_) | Record::Unknown(UNKNOWN_STATE)) => {
                self.record_count = self.record_count.saturating_add(1);
                self.bulk_state_count += 1;
                return Ok(());
            }
            Item::Gone(_) => {
                self.record_count = self.record_count.saturating_add(1);
                return Ok(());
            }
            Item::BulkBegin(_) => {
                self.bulk_state_count = 0;
                return Ok(());
            }
            // Among them were changes, which are no part of it.
            Item::BulkEnd(said) => (*said, (*said).min(self.bulk_state_count)),
            Item::Mark(mark) => {
                (mark.record_count.into(), std::mem::take(&mut self.record_count).into())
            }
            _ => return Ok(()),
        };
        if said == found { Ok(()) } else { Err(Cause::Count { said, found }) }
    }

    /// Whether the header has come.
    fn header(&mut self) -> Result<bool, Cause> {
        let has = self.bytes.len().min(MAGIC.len());
        if self.bytes[..has] != MAGIC[..has] {
            return Err(Cause::Magic);
        }
        let Some(header) = self.bytes.first_chunk::<HEADER_SIZE_BYTES>() else { return Ok(false) };
        match u16::from_be_bytes([header[8], header[9]]) {
            VERSION => {}
            version => return Err(Cause::Version(version)),
        }
        (self.has_header, self.taken) = (true, HEADER_SIZE_BYTES);
        Ok(true)
    }
}

impl Fields<'_> {
    fn item(&mut self, kind: u16) -> Result<Item, Cause> {
        Ok(match kind {
            TYPE_SESSION => Item::Session(Session { id: self.u64(), table: self.u64() }),
            TYPE_GONE => {
                let [version, protocol] = self.take();
                Item::Gone(Key { protocol, ends: [self.end(version)?, self.end(version)?] })
            }
            TYPE_MARK => {
                let (sequence, sent_ms) = (self.u64(), self.u64());
                Item::Mark(Mark { sequence, sent_ms, record_count: self.u32() })
            }
            TYPE_ACKNOWLEDGEMENT => Item::Acknowledgement(self.u64()),
            TYPE_BULK_BEGIN => Item::BulkBegin(self.u64()),
            TYPE_BULK_END => Item::BulkEnd(self.u64()),
            // What runs has no end.
            TYPE_END => return Err(Cause::Value { field: "the type of a record", value: 0 }),
            kind => Item::Record(self.record(kind)?),
        })
    }
}
