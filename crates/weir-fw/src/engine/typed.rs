//! Typed tables: what `weir fw table` makes and changes.
//!
//! Their entries are in the shared memory alone, as the sets that packets are looked up in
//! (`prefix/typed.rs`); here is what they are called, and what the values are that entries have by
//! number. A change of more than one entry writes a new set, which takes the place of the old one
//! by one store; so a batch is there for a packet as a whole, or not at all.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_rules::ir::{Ruleset, Table};
use weir_rules::typed::{Key, KeyType, Kinds, Numbered, Shape, Value, check_name};
use weir_rules::value::Text;

use super::{Engine, Refused, clock};
use crate::compile::{TableName, TypedValues, numbered_values};
use crate::heap::Memory;
use crate::install::GRACE_NS;
use crate::prefix::typed as sets;
use crate::protocol::{Named, TypedAction};

mod content;

use content::{Content, Counts};

/// Typed tables that there may be.
pub(crate) const TABLE_COUNT_MAX: usize = 65_534;
/// Numbers of sets of tables, as ipfw's.
pub(crate) const SET_MAX: u8 = 31;

/// A typed table: the number of its set, and its name. Rules name those of set 0.
pub(super) type TypedKey = (u8, String);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypedTable {
    pub(super) shape: Shape,
    /// Entries that it may have.
    pub(super) limit: Option<u64>,
    pub(super) is_locked: bool,
    /// Where its set stands; 0: it is empty.
    pub(super) set_at: u32,
    pub(super) entry_count: u64,
    /// What entries have by number.
    pub(super) values: Arc<[Value]>,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct TypedTables {
    pub(super) all: BTreeMap<TypedKey, TypedTable>,
}

/// A typed table as the document has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptTyped {
    set: u8,
    name: String,
    key: String,
    values: String,
    limit: Option<u64>,
    is_locked: bool,
    set_at: u32,
    /// What entries have by number, as entries are written.
    of_entries: Vec<String>,
}

/// What is said of a request.
#[derive(Debug, Default)]
pub(crate) struct TypedAnswer {
    /// Entries, a line each.
    pub(crate) text: String,
    pub(crate) value: serde_json::Value,
    /// Something that was asked for is not there.
    pub(crate) is_missing: bool,
}

impl TypedAnswer {
    fn value(value: serde_json::Value) -> Self {
        Self { value, ..Self::default() }
    }
}

impl TypedTable {
    pub(super) fn new(shape: Shape, limit: Option<u64>) -> Self {
        let values = Arc::from([]);
        Self { shape, limit, is_locked: false, set_at: 0, entry_count: 0, values }
    }

    fn value(&self, number: u32) -> Value {
        self.values.get(number as usize).cloned().unwrap_or_default()
    }
}

impl TypedTables {
    pub(super) fn kept(&self) -> Vec<KeptTyped> {
        let kept = |((set, name), table): (&TypedKey, &TypedTable)| KeptTyped {
            set: *set,
            name: name.clone(),
            key: table.shape.key.to_string(),
            values: table.shape.values.to_string(),
            limit: table.limit,
            is_locked: table.is_locked,
            set_at: table.set_at,
            of_entries: table.values.iter().map(ToString::to_string).collect(),
        };
        self.all.iter().map(kept).collect()
    }

    /// From a document.
    ///
    /// # Errors
    ///
    /// If it has words that no table has.
    pub(super) fn adopt<M: Memory + ?Sized>(
        kept: Vec<KeptTyped>,
        memory: &M,
    ) -> Result<Self, String> {
        let restored = |kept: KeptTyped| {
            let shape = shape(&kept.key, &kept.values)?;
            let read = |text: &String| Value::parse(shape.values, text.split_ascii_whitespace());
            let values: Arc<[Value]> =
                kept.of_entries.iter().map(read).collect::<Result<_, _>>()?;
            let count = sets::entries(memory, kept.set_at, shape.key).len();
            let table = TypedTable {
                limit: kept.limit,
                is_locked: kept.is_locked,
                set_at: kept.set_at,
                entry_count: u64::try_from(count).unwrap_or(u64::MAX),
                values,
                ..TypedTable::new(shape, None)
            };
            Ok(((kept.set, kept.name), table))
        };
        Ok(Self { all: kept.into_iter().map(restored).collect::<Result<_, String>>()? })
    }

    /// All entries of all tables.
    pub(super) fn entry_count(&self) -> usize {
        let count: u64 = self.all.values().map(|table| table.entry_count).sum();
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// What entries have by number, of the tables that rules can name.
    pub(super) fn values(&self) -> TypedValues {
        let of_rules = self.all.iter().filter(|((set, _), _)| *set == 0);
        of_rules.map(|((_, name), table)| (name.as_str().into(), table.values.clone())).collect()
    }

    /// Where their sets stand.
    pub(super) fn places(&self) -> HashMap<Text, u32> {
        let of_rules = self.all.iter().filter(|((set, _), _)| *set == 0);
        of_rules.map(|((_, name), table)| (name.as_str().into(), table.set_at)).collect()
    }

    fn get(&self, key: &TypedKey) -> Result<&TypedTable, Refused> {
        self.all.get(key).ok_or_else(|| no_table(key))
    }

    /// A table that may be changed.
    fn open(&self, key: &TypedKey) -> Result<&TypedTable, Refused> {
        let table = self.get(key)?;
        if table.is_locked {
            return Err(Refused(format!(
                "table {} is locked: `weir fw table unlock {}` lets it change",
                shown(key),
                key.1
            )));
        }
        Ok(table)
    }
}

/// A table's name, and its set if rules cannot name it.
fn shown((set, name): &TypedKey) -> String {
    if *set == 0 { format!("<{name}>") } else { format!("<{name}> of set {set}") }
}

fn no_table(key: &TypedKey) -> Refused {
    let name = shown(key);
    Refused(format!("no typed table {name} exists: create it with `weir fw table create`"))
}

fn check_set(set: u8) -> Result<(), Refused> {
    if set > SET_MAX {
        return Err(Refused(format!("table set {set} is out of range: sets are 0 to {SET_MAX}")));
    }
    Ok(())
}

fn shape(key: &str, values: &str) -> Result<Shape, String> {
    Ok(Shape { key: KeyType::parse(key)?, values: Kinds::parse(values)? })
}

impl Engine {
    /// `weir fw table`.
    pub(crate) fn typed(&mut self, set: u8, action: TypedAction) -> Result<TypedAnswer, Refused> {
        check_set(set)?;
        let key = |name: String| (set, name);
        match action {
            TypedAction::Create { names, key, values, limit } => {
                let shape = shape(&key, &values).map_err(Refused)?;
                self.create_typed(set, names, &TypedTable::new(shape, limit))
            }
            TypedAction::Destroy { names } => self.destroy_typed(set, names),
            TypedAction::Add { name, entries } => self.add_typed(&key(name), &entries),
            TypedAction::Delete { name, keys } => self.delete_typed(&key(name), &keys),
            TypedAction::Replace { name, entries } => self.replace_typed(&key(name), &entries),
            TypedAction::Flush { name } => {
                let key = key(name);
                let removed = self.typed.open(&key)?.entry_count;
                self.put_content(&key, Content::default())?;
                Ok(TypedAnswer::value(json!({ "deleted": removed })))
            }
            TypedAction::Lookup { name, keys } => self.look_up_typed(&key(name), &keys),
            TypedAction::List { name } => self.list_typed(&key(name)),
            TypedAction::Info { names } => self.tell_typed(set, names),
            TypedAction::Swap { name, other } => self.swap_typed(&key(name), &key(other)),
            TypedAction::SwapSets { other } => self.swap_sets(set, other),
            TypedAction::Lock { name, is_locked } => self.lock_typed(&key(name), is_locked),
        }
    }

    fn create_typed(
        &mut self,
        set: u8,
        names: Vec<String>,
        table: &TypedTable,
    ) -> Result<TypedAnswer, Refused> {
        let mut next = self.typed.clone();
        let count = names.len();
        for name in names {
            check_name(&name).map_err(Refused)?;
            let key = (set, name);
            if self.tables.all.contains_key(&(String::new(), key.1.clone())) {
                return Err(Refused(format!("<{}> is a table of pf.conf already", key.1)));
            }
            if next.all.contains_key(&key) {
                return Err(Refused(format!("there is a table {} already", shown(&key))));
            }
            next.all.insert(key, table.clone());
        }
        if next.all.len() > TABLE_COUNT_MAX {
            let count = next.all.len();
            return Err(Refused(format!(
                "{count} typed tables are more than the {TABLE_COUNT_MAX} that there may be"
            )));
        }
        self.put_typed(next, &[])?;
        Ok(TypedAnswer::value(json!({ "created": count })))
    }

    fn destroy_typed(&mut self, set: u8, names: Vec<String>) -> Result<TypedAnswer, Refused> {
        let mut next = self.typed.clone();
        let count = names.len();
        for name in names {
            let key = (set, name);
            next.open(&key)?;
            if self.is_typed_used(&key) {
                return Err(Refused(format!(
                    "table {} is used by the ruleset: load one without it first",
                    shown(&key)
                )));
            }
            next.all.remove(&key);
        }
        self.put_typed(next, &[])?;
        Ok(TypedAnswer::value(json!({ "destroyed": count })))
    }

    fn add_typed(&mut self, key: &TypedKey, entries: &[Named]) -> Result<TypedAnswer, Refused> {
        let table = self.typed.open(key)?;
        let added = read_entries(table.shape, entries)?;
        if let ([(entry, _)], [value]) = (&added.entries[..], &added.values[..])
            && let Some(counts) = self.put_one(key, entry, Some(value))?
        {
            return Ok(TypedAnswer::value(counts.to_json()));
        }
        let mut content = self.content(key)?;
        let counts = content.add(added);
        self.put_content(key, content)?;
        Ok(TypedAnswer::value(counts.to_json()))
    }

    fn replace_typed(&mut self, key: &TypedKey, entries: &[Named]) -> Result<TypedAnswer, Refused> {
        let table = self.typed.open(key)?;
        let added = read_entries(table.shape, entries)?;
        let mut content = Content::default();
        content.add(added);
        let count = content.entries.len();
        self.put_content(key, content)?;
        Ok(TypedAnswer::value(json!({ "entries": count })))
    }

    fn delete_typed(&mut self, key: &TypedKey, keys: &[Named]) -> Result<TypedAnswer, Refused> {
        let table = self.typed.open(key)?;
        // A list of entries says which ones, too.
        let first = |line: &str| {
            let word = line.split_ascii_whitespace().next().unwrap_or("");
            Key::parse(table.shape.key, word)
        };
        let mut removed = Vec::new();
        each_line(keys, |line| {
            removed.push(first(line)?);
            Ok(())
        })?;
        if let Some(missing) = self.missing_of(table, &removed) {
            let name = shown(key);
            return Err(Refused(format!("{missing} is not in table {name}: nothing was deleted")));
        }
        if let [entry] = &removed[..]
            && let Some(counts) = self.put_one(key, entry, None)?
        {
            return Ok(TypedAnswer::value(counts.to_json()));
        }
        let mut content = self.content(key)?;
        let counts = content.remove(&removed);
        self.put_content(key, content)?;
        Ok(TypedAnswer::value(counts.to_json()))
    }

    fn look_up_typed(&self, key: &TypedKey, keys: &[String]) -> Result<TypedAnswer, Refused> {
        let table = self.typed.get(key)?;
        let find = sets::finder(self.firewall.arena(), table.set_at);
        let (mut found, mut is_missing) = (Vec::new(), false);
        for word in keys {
            let entry = find(&Key::parse(table.shape.key, word).map_err(Refused)?);
            is_missing |= entry.is_none();
            let entry = entry.map(|(key, number)| format!("{key}{}", table.value(number)));
            found.push(json!({ "key": word, "entry": entry }));
        }
        Ok(TypedAnswer { value: found.into(), is_missing, text: String::new() })
    }

    fn list_typed(&self, key: &TypedKey) -> Result<TypedAnswer, Refused> {
        use std::fmt::Write as _;
        let table = self.typed.get(key)?;
        let mut text = String::new();
        for (key, number) in sets::entries(self.firewall.arena(), table.set_at, table.shape.key) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{key}{}", table.value(number));
        }
        Ok(TypedAnswer { text, value: self.typed_info(key)?, is_missing: false })
    }

    fn typed_info(&self, key: &TypedKey) -> Result<serde_json::Value, Refused> {
        let table = self.typed.get(key)?;
        let memory = self.firewall.arena();
        let bytes = sets::byte_count(memory, table.set_at);
        Ok(json!({
            "name": key.1,
            "set": key.0,
            "type": table.shape.key.to_string(),
            "values": table.shape.values.to_string(),
            "entries": table.entry_count,
            "different_values": table.values.len(),
            "limit": table.limit,
            "locked": table.is_locked,
            "used_by_rules": self.is_typed_used(key),
            "memory_bytes": bytes,
        }))
    }

    fn tell_typed(&self, set: u8, names: Vec<String>) -> Result<TypedAnswer, Refused> {
        let keys: Vec<TypedKey> = if names.is_empty() {
            self.typed.all.keys().filter(|key| key.0 == set).cloned().collect()
        } else {
            names.into_iter().map(|name| (set, name)).collect()
        };
        let all = keys.iter().map(|key| self.typed_info(key)).collect::<Result<Vec<_>, _>>()?;
        Ok(TypedAnswer::value(all.into()))
    }

    fn swap_typed(&mut self, key: &TypedKey, other: &TypedKey) -> Result<TypedAnswer, Refused> {
        let (one, two) = (self.typed.open(key)?.clone(), self.typed.open(other)?.clone());
        if one.shape != two.shape {
            return Err(Refused(format!(
                "{} is `{}` and {} is `{}`: only tables of one type and the same values are \
                 swapped",
                shown(key),
                one.shape,
                shown(other),
                two.shape
            )));
        }
        for (table, from, name) in [(&one, &two, key), (&two, &one, other)] {
            check_limit(name, table.limit, from.entry_count)?;
        }
        let mut next = self.typed.clone();
        next.all.insert(key.clone(), TypedTable { limit: one.limit, ..two.clone() });
        next.all.insert(other.clone(), TypedTable { limit: two.limit, ..one });
        self.put_typed(next, &[])?;
        Ok(TypedAnswer::value(json!({ "swapped": 2 })))
    }

    /// Tables of two sets change places, all in one step. Rules name tables of set 0: what they use
    /// has to be in the other one, too, and of the same type.
    fn swap_sets(&mut self, set: u8, other: u8) -> Result<TypedAnswer, Refused> {
        check_set(other)?;
        let swapped = |found: u8| match found {
            _ if found == set => other,
            _ if found == other => set,
            _ => found,
        };
        let mut next = TypedTables::default();
        for (key, table) in &self.typed.all {
            let to = (swapped(key.0), key.1.clone());
            if to != *key {
                self.typed.open(key)?;
                if to.0 == 0 && self.tables.all.contains_key(&(String::new(), to.1.clone())) {
                    return Err(Refused(format!("<{}> is a table of pf.conf already", to.1)));
                }
            }
            next.all.insert(to, table.clone());
        }
        for (key, table) in self.typed.all.iter().filter(|(key, _)| self.is_typed_used(key)) {
            if next.all.get(key).is_none_or(|found| found.shape != table.shape) {
                let from = swapped(0);
                return Err(Refused(format!(
                    "rules use <{}>, and set {from} has no such table of `{}`",
                    key.1, table.shape
                )));
            }
        }
        let moved = self.typed.all.keys().filter(|key| swapped(key.0) != key.0).count();
        self.put_typed(next, &[])?;
        Ok(TypedAnswer::value(json!({ "swapped": moved })))
    }

    fn lock_typed(&mut self, key: &TypedKey, is_locked: bool) -> Result<TypedAnswer, Refused> {
        let mut next = self.typed.clone();
        let table = next.all.get_mut(key).ok_or_else(|| no_table(key))?;
        table.is_locked = is_locked;
        self.put_typed(next, &[])?;
        Ok(TypedAnswer::value(json!({ "locked": is_locked })))
    }

    /// The first of some keys that a table has no entry of.
    fn missing_of<'k>(&self, table: &TypedTable, keys: &'k [Key]) -> Option<&'k Key> {
        let find = sets::finder(self.firewall.arena(), table.set_at);
        keys.iter().find(|key| find(key).is_none_or(|(found, _)| found != **key))
    }

    /// What a table holds.
    fn content(&self, key: &TypedKey) -> Result<Content, Refused> {
        let table = self.typed.get(key)?;
        let entries = sets::entries(self.firewall.arena(), table.set_at, table.shape.key);
        Ok(Content { entries, values: table.values.to_vec() })
    }

    /// Puts one entry into its table, or takes it out, in its place. `None` if the table needs a
    /// new set for it: nothing has changed then.
    fn put_one(
        &mut self,
        key: &TypedKey,
        entry: &Key,
        value: Option<&Value>,
    ) -> Result<Option<Counts>, Refused> {
        let table = self.typed.get(key)?;
        let is_new = self.missing_of(table, std::slice::from_ref(entry)).is_some();
        let number = match value {
            None => None,
            Some(value) => match table.values.iter().position(|known| known == value) {
                None => return Ok(None),
                Some(number) => Some(u32::try_from(number).unwrap_or(u32::MAX)),
            },
        };
        let mut counts = Counts::default();
        let mut count = table.entry_count;
        match number {
            Some(_) if is_new => {
                count += 1;
                check_limit(key, table.limit, count)?;
                self.check_all_entries(1)?;
                counts.added = 1;
            }
            Some(_) => counts.updated = 1,
            None => {
                count -= 1;
                counts.deleted = 1;
            }
        }
        if !sets::change(self.firewall.arena(), table.set_at, entry, number) {
            return Ok(None);
        }
        if let Some(table) = self.typed.all.get_mut(key) {
            table.entry_count = count;
        }
        Ok(Some(counts))
    }

    /// `set limit table-entries`, which all tables share.
    fn check_all_entries(&self, more: usize) -> Result<(), Refused> {
        let limit = usize::try_from(self.main.limit("table-entries")).unwrap_or(usize::MAX);
        let count = self.tables.entry_count() + self.typed.entry_count() + more;
        if count > limit {
            return Err(Refused(super::tables::too_many_entries(count, limit)));
        }
        Ok(())
    }

    /// Gives a table other entries, all at once.
    fn put_content(&mut self, key: &TypedKey, mut content: Content) -> Result<(), Refused> {
        content.compact();
        let table = self.typed.get(key)?;
        let count = u64::try_from(content.entries.len()).unwrap_or(u64::MAX);
        check_limit(key, table.limit, count)?;
        let more = count.saturating_sub(table.entry_count);
        if more > 0 {
            self.check_all_entries(usize::try_from(more).unwrap_or(usize::MAX))?;
        }
        let set_at = self.place_content(table.shape.key, &content)?;
        let table = TypedTable {
            set_at,
            entry_count: count,
            values: content.values.into(),
            ..table.clone()
        };
        let mut next = self.typed.clone();
        next.all.insert(key.clone(), table);
        self.put_typed(next, &[set_at])
    }

    /// Puts a set of entries into the shared memory, where nobody finds it yet; 0 for none.
    fn place_content(&self, of: KeyType, content: &Content) -> Result<u32, Refused> {
        content.check()?;
        self.installer()?.place_typed(of, &content.entries).map_err(Refused::because)
    }

    /// Makes these the typed tables. `fresh`: sets that go again if that cannot be.
    fn put_typed(&mut self, next: TypedTables, fresh: &[u32]) -> Result<(), Refused> {
        let before = std::mem::replace(&mut self.typed, next);
        // What rules have of values is in their image: both change by one store.
        let is_of_image = self.used_typed().any(|(_, key)| {
            before.all.get(&key).map(|table| &table.values)
                != self.typed.all.get(&key).map(|table| &table.values)
        });
        let written =
            if is_of_image { self.install_with(self.tables.clone()) } else { self.write_typed() };
        let (gone, result) = match written {
            Ok(()) => (before, Ok(())),
            Err(error) => (std::mem::replace(&mut self.typed, before), Err(error)),
        };
        let old = gone.all.values().map(|table| table.set_at).chain(fresh.iter().copied());
        self.retire_sets(old)?;
        result
    }

    /// Gives back sets that no table has any more.
    pub(super) fn retire_sets(&self, sets: impl Iterator<Item = u32>) -> Result<(), Refused> {
        let kept: HashSet<u32> = self.typed.all.values().map(|table| table.set_at).collect();
        let old: BTreeSet<u32> = sets.filter(|at| *at != 0 && !kept.contains(at)).collect();
        let until_ns = clock::boot_ns() + GRACE_NS;
        let installer = self.installer()?;
        let mut old = old.into_iter();
        old.try_for_each(|at| installer.heap().retire(at, until_ns)).map_err(Refused::because)
    }

    /// The typed tables as a ruleset's `table` statements have them (`has_tables`: they count), and
    /// the sets that were made for that.
    pub(super) fn declared(
        &self,
        ruleset: &Ruleset,
        has_tables: bool,
    ) -> Result<(TypedTables, Vec<u32>), Refused> {
        let mut next = self.typed.clone();
        let mut fresh = Vec::new();
        let of_main = ruleset.tables.iter().filter(|table| table.anchor.is_empty() && has_tables);
        for declared in of_main {
            let made = self.declare(&mut next, declared);
            match made {
                Ok(set_at) => fresh.extend(set_at),
                Err(error) => {
                    self.retire_sets(fresh.into_iter())?;
                    return Err(error);
                }
            }
        }
        Ok((next, fresh))
    }

    fn declare(&self, next: &mut TypedTables, declared: &Table) -> Result<Option<u32>, Refused> {
        let key = (0, declared.name.to_string());
        let before = next.all.get(&key);
        let Some(typed) = &declared.typed else {
            if before.is_some() {
                let name = shown(&key);
                return Err(Refused(format!(
                    "{name} is a typed table here, and the ruleset has one of pf's by this name: \
                     `weir fw table destroy {}` removes it",
                    key.1
                )));
            }
            return Ok(None);
        };
        let limit = typed.limit.map(u64::from);
        let mut table = before.cloned().unwrap_or_else(|| TypedTable::new(typed.shape, limit));
        if table.shape != typed.shape {
            return Err(Refused(format!(
                "{} is declared `{}`, and it is `{}`: `weir fw table destroy {}` removes it",
                shown(&key),
                typed.shape,
                table.shape,
                key.1
            )));
        }
        table.limit = limit.or(table.limit);
        let mut set_at = None;
        if let Some(entries) = &typed.entries {
            if table.is_locked {
                return Err(Refused(format!(
                    "{} is locked, and the ruleset has entries for it: `weir fw table unlock {}`",
                    shown(&key),
                    key.1
                )));
            }
            let (entries, values) = numbered_values(entries);
            let content = Content { entries, values: values.to_vec() };
            table.entry_count = u64::try_from(content.entries.len()).unwrap_or(u64::MAX);
            table.set_at = self.place_content(table.shape.key, &content)?;
            table.values = values;
            set_at = Some(table.set_at);
        }
        let checked = check_limit(&key, table.limit, table.entry_count);
        if let Err(error) = checked {
            self.retire_sets(set_at.into_iter())?;
            return Err(error);
        }
        next.all.insert(key, table);
        Ok(set_at)
    }

    /// Notes the typed tables that there are now, and has rules ask their sets.
    fn write_typed(&mut self) -> Result<(), Refused> {
        self.write_document()?;
        let used: Vec<(usize, u32)> = self
            .used_typed()
            .filter_map(|(index, key)| Some((index, self.typed.all.get(&key)?.set_at)))
            .collect();
        let installer = self.installer()?;
        used.into_iter().for_each(|(index, set_at)| installer.point(index, set_at));
        Ok(())
    }

    /// The typed tables that rules ask, by their places in the directory.
    fn used_typed(&self) -> impl Iterator<Item = (usize, TypedKey)> {
        self.directory.iter().enumerate().filter_map(|(index, table)| match table {
            TableName::Typed(name) => Some((index, (0, name.to_string()))),
            _ => None,
        })
    }

    /// Whether a table of pfctl's is none, but a typed one.
    pub(super) fn is_typed(&self, (anchor, name): &super::tables::Key) -> bool {
        anchor.is_empty() && self.typed.all.contains_key(&(0, name.clone()))
    }

    /// Whether rules ask a table, or the ruleset declares it.
    fn is_typed_used(&self, key: &TypedKey) -> bool {
        let is_it = |table: &Table| table.typed.is_some() && *table.name == *key.1;
        key.0 == 0
            && (self.main.ruleset.tables.iter().any(is_it)
                || self.used_typed().any(|(_, used)| used == *key))
    }
}

fn check_limit(key: &TypedKey, limit: Option<u64>, count: u64) -> Result<(), Refused> {
    match limit.filter(|limit| count > *limit) {
        Some(limit) => Err(Refused(format!(
            "{count} entries are more than the {limit} that table {} may have (its limit)",
            shown(key)
        ))),
        None => Ok(()),
    }
}

/// Reads entries of a table of this shape; those of all files, or of the command line.
fn read_entries(shape: Shape, lines: &[Named]) -> Result<Numbered<'_>, Refused> {
    let mut found = Numbered::default();
    each_line(lines, |line| found.read(&shape, line))?;
    Ok(found)
}

/// Does something with each line; what is wrong is said with its place.
fn each_line<'l>(
    lines: &'l [Named],
    mut one: impl FnMut(&'l str) -> Result<(), String>,
) -> Result<(), Refused> {
    for Named { name, text } in lines {
        for (at, line) in weir_rules::typed::lines(text) {
            one(line).map_err(|why| match name {
                Some(name) => Refused(format!("{name}:{at}: {why}: nothing was changed")),
                None => Refused(why),
            })?;
        }
    }
    Ok(())
}
