//! States that have ended, as the data path tells of them (`bpf/include/weir/fw/event.h`): the same
//! words that stood in the table, read in the same way. It never looks at the table, where another
//! state may have the place by now.

use weir_bpf::firewall::layout::{
    self, EVENT_CHANGED, EVENT_ENDED, EVENT_GONE, change as changed, event, event_alias,
    translated_change,
};

use super::{COUNT_WORD, Line, Raw, Record, account_of, low, take_apart};

/// Words in a row of an event.
fn words<const N: usize>(bytes: &[u8], at: u32) -> Option<[u64; N]> {
    let mut words = [0; N];
    let mut rest = bytes.get(at as usize..)?.chunks_exact(8);
    for word in &mut words {
        *word = u64::from_ne_bytes(*rest.next()?.first_chunk()?);
    }
    Some(words)
}

/// The state that an event says has ended; `None` if it is of another kind.
pub(crate) fn ended(bytes: &[u8]) -> Option<Record> {
    let word = |at: u32| Some(u32::from_ne_bytes(*bytes.get(at as usize..)?.first_chunk()?));
    if word(event::KIND)? != EVENT_ENDED {
        return None;
    }
    let mut line: Line = words(bytes, event::LINE)?;
    let kept = words(bytes, event::ACCOUNT)?;
    let account = account_of(&mut line, || kept);
    let addresses = words(bytes, event::ADDR)?;
    let mut raw = Raw { slot: word(event::SLOT)?, line, account, addresses, ..Raw::default() };
    if low(line[0]) & layout::STATE_TRANSLATED != 0 {
        add_aliases(&mut raw, bytes, event::ALIAS)?;
    }
    Some(take_apart(&raw))
}

/// Of a translated state: its aliases, which stand from there on.
fn add_aliases(raw: &mut Raw, bytes: &[u8], mut at: u32) -> Option<()> {
    for alias in &mut raw.aliases {
        let line: Line = words(bytes, at + event_alias::LINE)?;
        let addresses = words(bytes, at + event_alias::ADDR)?;
        *alias = (line[0] != 0).then_some((line, addresses));
        at += event_alias::SIZE_BYTES;
    }
    // The first one has counted for the record.
    let counted = raw.aliases.iter().flatten().map(|(line, _)| line[COUNT_WORD]).next();
    raw.line[COUNT_WORD] = counted.unwrap_or(0);
    Some(())
}

/// What another firewall has to know.
#[derive(Debug)]
pub(crate) enum Change {
    /// A state is so now.
    Now(Record),
    /// One that was sent has ended.
    Gone(Record),
}

/// A change of a state; `None` if it is of another kind. What has gone has no aliases.
pub(crate) fn change(bytes: &[u8]) -> Option<Change> {
    let word = |at: u32| Some(u32::from_ne_bytes(*bytes.get(at as usize..)?.first_chunk()?));
    let make = match word(changed::KIND)? {
        EVENT_CHANGED => Change::Now,
        EVENT_GONE => Change::Gone,
        _ => return None,
    };
    let mut line: Line = words(bytes, changed::LINE)?;
    let kept = words(bytes, changed::ACCOUNT)?;
    let account = account_of(&mut line, || kept);
    let addresses = words(bytes, changed::ADDR)?;
    let slot = word(changed::SLOT)?;
    let mut raw = Raw { slot, line, account, addresses, ..Raw::default() };
    if word(changed::KIND)? == EVENT_CHANGED && low(line[0]) & layout::STATE_TRANSLATED != 0 {
        add_aliases(&mut raw, bytes, translated_change::ALIAS)?;
    }
    Some(make(take_apart(&raw)))
}
