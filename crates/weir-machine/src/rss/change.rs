//! Changes of receive side scaling: all of what was asked, or nothing.
//!
//! What the interface cannot take is refused before the first step. The former settings are on disk
//! by then ([`super::record`]). If a step fails, or the interface then shows something else than it
//! was told, what was set is put back, and the error says whether that worked.

use weir_bpf::ethtool::rss::HashFields;
use weir_wire::rss::key::{KEY_BYTES_MAX, KEY_BYTES_MIN};
use weir_wire::rss::{Fields, FlowKind, Key, Table};

use super::record::{Former, Record, RecordError, Records};
use weir_rss::card::{Card, CardError, State, bits_of};

/// What is to be different. What is not given stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub key: Option<Key>,
    pub table: Option<Table>,
    /// What is hashed of kinds of flow.
    pub fields: Vec<(FlowKind, Fields)>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The interface cannot have it.
    #[error("interface `{interface}` {why}; nothing was changed")]
    Impossible {
        interface: String,
        /// With what can be done instead.
        why: String,
    },
    /// The interface does not say what it is set to.
    #[error("{0}; nothing was changed")]
    Unread(#[source] Box<CardError>),
    /// The former settings are not on disk.
    #[error("{0}; nothing was changed")]
    Record(#[from] RecordError),
    /// A step failed.
    #[error("{what}: {source}; {}", put_back(restored.as_deref()))]
    Failed {
        /// The step.
        what: String,
        source: Box<CardError>,
        /// Why what was set before could not be put back; `None` if it was.
        restored: Option<Box<CardError>>,
    },
    /// Every step went well, but the interface shows something else.
    #[error(
        "interface `{interface}` took the change, but shows another {what} than it was told; {}",
        put_back(restored.as_deref())
    )]
    Ignored {
        interface: String,
        what: &'static str,
        /// As in [`ChangeError::Failed`].
        restored: Option<Box<CardError>>,
    },
    /// What was there before was put back, but the interface shows something else.
    #[error(
        "interface `{interface}` shows another {what} than it had before, though it took what was \
         put back: see `weir rss show {interface}`; `weir rss undo` tries again"
    )]
    NotBack { interface: String, what: &'static str },
}

/// What an interface shows that is not what it was set to, as far as it said that.
struct Difference<'a> {
    key: Option<&'a [u8]>,
    table: Option<&'a [u32]>,
    fields: Vec<(FlowKind, u64)>,
}

impl Former {
    fn difference(&self, now: &State) -> Difference<'_> {
        let fields = FlowKind::ALL.into_iter().filter_map(|kind| {
            let bits = self.fields[kind as usize]?;
            (now.fields[kind as usize] != Some(bits)).then_some((kind, bits))
        });
        Difference {
            key: (!self.key.is_empty() && self.key != now.key).then_some(self.key.as_slice()),
            table: (!self.table.is_empty() && self.table != now.table)
                .then_some(self.table.as_slice()),
            fields: fields.collect(),
        }
    }
}

impl Difference<'_> {
    /// The first of it.
    fn what(&self) -> Option<&'static str> {
        match (self.key, self.table, &self.fields[..]) {
            (Some(_), ..) => Some("key"),
            (_, Some(_), _) => Some("table"),
            (_, _, [_, ..]) => Some("set of fields"),
            _ => None,
        }
    }
}

fn unread(error: CardError) -> ChangeError {
    ChangeError::Unread(Box::new(error))
}

fn put_back(failed: Option<&CardError>) -> String {
    match failed {
        None => "what had been set before it was put back".to_owned(),
        Some(error) => format!(
            "what had been set before it could not be put back ({error}): `weir rss undo` tries \
             again"
        ),
    }
}

/// Refuses what an interface in this state cannot have.
///
/// # Errors
/// [`ChangeError::Impossible`], with what can be done instead.
pub fn check(interface: &str, state: &State, change: &Change) -> Result<(), ChangeError> {
    let no = |why: String| Err(ChangeError::Impossible { interface: interface.to_owned(), why });
    if !state.contexts.is_empty() {
        let numbers: Vec<String> = state.contexts.iter().map(ToString::to_string).collect();
        return no(format!(
            "has further contexts of receive side scaling ({}), which share its queues and which \
             weir does not change: delete them (`ethtool -X {interface} context {} delete`), or \
             set them with ethtool(8)",
            numbers.join(", "),
            numbers[0]
        ));
    }
    if let Some(key) = &change.key {
        let (has, asked) = (state.key.len(), key.bytes().len());
        if has == 0 {
            return no("neither shows its key nor takes one: set its table or its fields".into());
        }
        if has != asked {
            let draw = match has {
                KEY_BYTES_MIN..=KEY_BYTES_MAX => "`--key random` draws one of that length",
                _ => "weir has keys of 40 to 52 bytes: set it with ethtool(8)",
            };
            return no(format!("has a key of {has} bytes, not of {asked}: {draw}"));
        }
    }
    if let Some(table) = &change.table {
        check_table(state, table).or_else(no)?;
    }
    for (kind, _) in &change.fields {
        if state.fields[*kind as usize].is_none() {
            return no(format!(
                "does not say which fields of {kind} it hashes, so it cannot be told to: change \
                 the table, or spread in software (rps_cpus)"
            ));
        }
    }
    Ok(())
}

fn check_table(state: &State, table: &Table) -> Result<(), String> {
    let (has, asked) = (state.table.len(), table.bucket_count());
    if has == 0 {
        return Err("has no indirection table that could be set".into());
    }
    if has != asked {
        return Err(format!(
            "has a table of {has} entries, not of {asked}: name a queue for each, or write \
             equal:QUEUES or weights:W,W,…"
        ));
    }
    let (queue_count, used) = (state.queue_count, table.queue_count());
    if let Some(queue_count) = queue_count.filter(|count| (*count as usize) < used) {
        return Err(format!(
            "has {queue_count} receive queues, numbered from 0, and no queue {}: use fewer, or \
             give it more with `ethtool -L`",
            used - 1
        ));
    }
    Ok(())
}

/// Changes what a card is set to, and returns what it shows then. The former settings are put on
/// record first, unless those from before an earlier change are there already.
///
/// # Errors
/// [`ChangeError`]: what was there before is there again, or the error says why not.
pub fn apply(card: &dyn Card, change: &Change, records: &Records) -> Result<State, ChangeError> {
    let before = card.read().map_err(unread)?;
    check(card.interface(), &before, change)?;
    let record = records.keep(card.interface(), &before)?;
    let result = steps(card, change, &before);
    let is_restored = |error: &ChangeError| match error {
        ChangeError::Failed { restored, .. } | ChangeError::Ignored { restored, .. } => {
            restored.is_none()
        }
        _ => true,
    };
    // Nothing is different from before the first change: there is nothing to undo.
    if result.as_ref().err().is_some_and(is_restored) && record.is_new {
        record.remove()?;
    }
    result
}

fn steps(card: &dyn Card, change: &Change, before: &State) -> Result<State, ChangeError> {
    let table: Option<Vec<u32>> =
        change.table.as_ref().map(|table| table.queues().iter().map(|q| u32::from(*q)).collect());
    let key = change.key.as_ref().map(Key::bytes);
    let mut done = Done::default();
    let failed = |what: &str, source, done: &Done| ChangeError::Failed {
        what: what.to_owned(),
        source: Box::new(source),
        restored: done.take_back(card, before).err().map(Box::new),
    };
    if key.is_some() || table.is_some() {
        // A driver may have taken one of the two when it refuses the other.
        done.hash = (key.is_some(), table.is_some());
        card.set_hash(key, table.as_deref())
            .map_err(|source| failed("key and table were not set", source, &done))?;
    }
    for (kind, fields) in &change.fields {
        done.fields.push(*kind);
        card.set_fields(*kind, bits_of(*fields)).map_err(|source| {
            failed(&format!("the fields of {kind} were not set"), source, &done)
        })?;
    }
    let after = card.read().map_err(|source| failed("it was not read back", source, &done))?;
    match differs(change, table.as_deref(), &after) {
        None => Ok(after),
        Some(what) => Err(ChangeError::Ignored {
            interface: card.interface().to_owned(),
            what,
            restored: done.take_back(card, before).err().map(Box::new),
        }),
    }
}

fn differs(change: &Change, table: Option<&[u32]>, after: &State) -> Option<&'static str> {
    if change.key.as_ref().is_some_and(|key| key.bytes() != after.key) {
        return Some("key");
    }
    if table.is_some_and(|table| table != after.table) {
        return Some("table");
    }
    let shown = |(kind, fields): &(FlowKind, Fields)| {
        after.fields[*kind as usize]
            .is_some_and(|bits| HashFields::of(bits) == HashFields::of(bits_of(*fields)))
    };
    (!change.fields.iter().all(shown)).then_some("set of fields")
}

/// What was set, or may have been.
#[derive(Debug, Default)]
struct Done {
    /// Key and table.
    hash: (bool, bool),
    fields: Vec<FlowKind>,
}

impl Done {
    /// Puts back what was there, the last first.
    fn take_back(&self, card: &dyn Card, before: &State) -> Result<(), CardError> {
        let mut result = Ok(());
        for kind in self.fields.iter().rev() {
            if let Some(bits) = before.fields[*kind as usize] {
                result = result.and(card.set_fields(*kind, bits));
            }
        }
        let key = self.hash.0.then_some(before.key.as_slice());
        let table = self.hash.1.then_some(before.table.as_slice());
        if key.is_some() || table.is_some() {
            result = result.and(card.set_hash(key, table));
        }
        result
    }
}

/// Refuses to put back a table whose queues are not all there any more, or that is of another size.
fn check_former(interface: &str, now: &State, former: &Former) -> Result<(), ChangeError> {
    let needed = former.table.iter().max().map_or(0, |queue| queue + 1);
    let no = |why: String| Err(ChangeError::Impossible { interface: interface.to_owned(), why });
    match now.queue_count {
        Some(queue_count) if queue_count < needed && former.table != now.table => no(format!(
            "had a table over {needed} receive queues, and has {queue_count} now: give it that \
             many again (`ethtool -L {interface} combined {needed}`), then undo"
        )),
        _ if former.table.len() != now.table.len() => no(format!(
            "had a table of {} entries, and has one of {} now, as drivers change it with the \
             number of queues: give it as many queues as it had (`ethtool -L`), then undo",
            former.table.len(),
            now.table.len()
        )),
        _ => Ok(()),
    }
}

/// Puts back what was there before the first change, and forgets it. `None` if nothing is on
/// record.
///
/// # Errors
/// [`ChangeError`] if the card refuses, or then shows something else; the record then stays.
pub fn undo(card: &dyn Card, records: &Records) -> Result<Option<Former>, ChangeError> {
    let Some(record) = records.find(card.interface())? else { return Ok(None) };
    let Record { former, .. } = &record;
    let now = card.read().map_err(unread)?;
    check_former(card.interface(), &now, former)?;
    let failed = |what: String, source| {
        let source = Box::new(source);
        ChangeError::Failed { what, source, restored: None }
    };
    let Difference { key, table, fields } = former.difference(&now);
    if key.is_some() || table.is_some() {
        card.set_hash(key, table)
            .map_err(|source| failed("key and table were not put back".to_owned(), source))?;
    }
    for (kind, bits) in fields {
        card.set_fields(kind, bits)
            .map_err(|source| failed(format!("the fields of {kind} were not put back"), source))?;
    }
    let after = card.read().map_err(unread)?;
    if let Some(what) = former.difference(&after).what() {
        let interface = card.interface().to_owned();
        return Err(ChangeError::NotBack { interface, what });
    }
    let former = former.clone();
    record.remove()?;
    Ok(Some(former))
}

#[cfg(test)]
mod tests;
