//! Typed tables, weir's own: keys of one type, each with values, as ipfw(8) has them (LOOKUP
//! TABLES). Here is what they are, and how their entries are read and written; `weir-fw` keeps
//! them, and [`crate::evaluate`] asks them.
//!
//! An entry is a line: `10.0.0.0/8 tag office nexthop 192.0.2.1`.

mod key;
mod value;

use std::collections::HashMap;
use std::fmt;

pub use key::{Components, Flow, Key, KeyType};
pub use value::{Kinds, NextHop, Value, ValueKind};

/// The longest name of a typed table, in bytes; as ipfw's.
pub const NAME_SIZE_MAX: usize = 63;

/// What the entries of a table are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The type of the keys.
    pub key: KeyType,
    /// Which values an entry may have.
    pub values: Kinds,
}

impl fmt::Display for Shape {
    /// As a `table` statement of pf.conf has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type {}", self.key)?;
        if self.values.is_empty() { Ok(()) } else { write!(f, " values {}", self.values) }
    }
}

impl Shape {
    /// Reads an entry: a key, and words for its values.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn entry(&self, line: &str) -> Result<(Key, Value), String> {
        let mut one = Numbered::default();
        one.read(self, line)?;
        one.entries.pop().map(|(key, _)| key).zip(one.values.pop()).ok_or_else(String::new)
    }

    /// Reads entries, a line each; `#` begins a comment.
    ///
    /// # Errors
    ///
    /// The number of the line, from 1, and what is wrong with it.
    pub fn entries(&self, text: &str) -> Result<Vec<(Key, Value)>, (usize, String)> {
        let mut found = Numbered::default();
        for (at, line) in lines(text) {
            found.read(self, line).map_err(|why| (at, why))?;
        }
        let Numbered { entries, values, .. } = found;
        let value = |number: u32| values.get(number as usize).cloned().unwrap_or_default();
        Ok(entries.into_iter().map(|(key, number)| (key, value(number))).collect())
    }
}

/// Entries whose values have numbers: a list of many has few different ones, which are read once.
#[derive(Debug, Clone, Default)]
pub struct Numbered<'t> {
    /// Keys, in their order, with the numbers of their values.
    pub entries: Vec<(Key, u32)>,
    /// What the numbers stand for. Of words in another order there are two for one value.
    pub values: Vec<Value>,
    by_words: HashMap<&'t str, u32>,
}

impl<'t> Numbered<'t> {
    /// Reads an entry, as [`Shape::entry`].
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(&mut self, shape: &Shape, line: &'t str) -> Result<(), String> {
        let line = line.trim_ascii();
        let end = line.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(line.len());
        let (key, words) = line.split_at(end);
        if key.is_empty() {
            return Err("an entry begins with a key".to_owned());
        }
        let key = Key::parse(shape.key, key)?;
        let number = match self.by_words.get(words) {
            Some(number) => *number,
            None => {
                let value = Value::parse(shape.values, words.split_ascii_whitespace())?;
                let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                self.values.push(value);
                self.by_words.insert(words, number);
                number
            }
        };
        if let Some(value) = self.values.get(number as usize) {
            check_family(&key, value)?;
        }
        self.entries.push((key, number));
        Ok(())
    }
}

/// A packet has one family: it cannot go to a next hop of the other one.
fn check_family(key: &Key, value: &Value) -> Result<(), String> {
    let (Some(is_ipv6), Some(next_hop)) = (key.is_ipv6(), &value.next_hop) else { return Ok(()) };
    if next_hop.address.is_ipv6() == is_ipv6 {
        return Ok(());
    }
    Err(format!("{next_hop} cannot be the next hop of {key}: they are of different families"))
}

/// The lines of a text that have something, with their numbers from 1, without comments.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines());
    let bare = numbered.map(|(at, line)| (at, line.split('#').next().unwrap_or("").trim()));
    bare.filter(|(_, line)| !line.is_empty())
}

/// Whether a table may have this name.
///
/// # Errors
///
/// Why not.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.len() > NAME_SIZE_MAX {
        let size = name.len();
        return Err(format!(
            "a typed table's name may have at most {NAME_SIZE_MAX} bytes, and this one has {size}"
        ));
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_letter) {
        return Err(format!("`{name}` is not a table name: use letters, digits, `_`, `-` and `.`"));
    }
    Ok(())
}

/// What a typed table has, for whoever asks it entry by entry.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    entries: HashMap<Key, Value>,
    /// The lengths of prefixes that occur, of IPv4 and of IPv6, the longest first.
    lengths: [Vec<u8>; 2],
}

impl Contents {
    /// Of entries; of two for one key the last holds.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = (Key, Value)>) -> Self {
        let entries: HashMap<Key, Value> = entries.into_iter().collect();
        let mut lengths = [Vec::new(), Vec::new()];
        for key in entries.keys() {
            if let Key::Net(address, bits) = key {
                lengths[usize::from(address.is_ipv6())].push(*bits);
            }
        }
        for lengths in &mut lengths {
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            lengths.dedup();
        }
        Self { entries, lengths }
    }

    /// The entry that a key is covered by: of networks the longest.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<(Key, &Value)> {
        let Key::Net(address, bits) = key else {
            return self.entries.get_key_value(key).map(|(key, value)| (key.clone(), value));
        };
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        lengths.iter().filter(|length| *length <= bits).find_map(|length| {
            let key = Key::net(*address, *length);
            self.entries.get(&key).map(|value| (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(key: &str, values: &str) -> Shape {
        Shape { key: KeyType::parse(key).unwrap(), values: Kinds::parse(values).unwrap() }
    }

    fn round(shape: &Shape, line: &str) -> Result<String, String> {
        shape.entry(line).map(|(key, value)| format!("{key}{value}"))
    }

    #[test]
    fn entries_are_read_and_written_alike() {
        for (key, values, line, written) in [
            ("addr", "nexthop", "10.1.2.3/8 nexthop 192.0.2.1", "10.0.0.0/8 nexthop 192.0.2.1"),
            ("addr", "nexthop,tag", "2001:db8::1 nexthop fe80::1%em0 tag a", ""),
            ("addr", "tag", "192.0.2.1", "192.0.2.1/32"),
            ("iface", "mark", "em0 mark 0x10", "em0 mark 16"),
            ("number", "skipto,dscp", "4294967295 skipto web dscp 46", ""),
            ("flow", "tag", "192.0.2.1,tcp,1,10.0.0.1,80 tag bad", ""),
            ("flow:proto,dst-port", "", "udp,53", ""),
            ("flow:dst-port,src-ip", "", "2001:db8::5,53", ""),
            ("flow:src-ip,dst-ip", "", "2001:db8::5,2001:db8::6", ""),
        ] {
            let written = if written.is_empty() { line } else { written };
            let shape = shape(key, values);
            let found = round(&shape, line);
            // Values are written in one order.
            let sorted = |text: &str| {
                let mut words: Vec<String> = text.split(' ').map(ToOwned::to_owned).collect();
                words.sort_unstable();
                words
            };
            let found = found.expect(line).replace("2001:db8::1/128", "2001:db8::1");
            assert_eq!(sorted(&found), sorted(written), "{line}");
        }
    }

    #[test]
    fn what_is_no_entry_says_why() {
        for (key, values, line, why) in [
            ("addr", "", "em0", "`em0` is not an address or network"),
            ("addr", "", "10.0.0.1/33", "`10.0.0.1/33` is not an address or network"),
            ("number", "", "10.0.0.1", "`10.0.0.1` is not a number from 0 to 4294967295"),
            ("iface", "", "sixteen-bytes-00", "`sixteen-bytes-00` is not an interface's name"),
            ("flow", "", "192.0.2.1,tcp,1", "`192.0.2.1,tcp,1` is not a flow of src-ip,proto,"),
            ("flow", "", "192.0.2.1,tcp,1,::1,2", "addresses of one family"),
            ("flow:proto", "", "nonsense", "`nonsense` is not a protocol"),
            ("addr", "mark", "::1 tag a", "the table has no value `tag`: its values are mark"),
            ("addr", "", "::1 tag a", "the table has no value `tag`: it has none"),
            ("addr", "tag", "::1 tag", "`tag` needs a value"),
            ("addr", "tag", "::1 tag a tag b", "`tag` is given twice"),
            ("addr", "dscp", "::1 dscp 64", "`64` is not a DSCP"),
            ("addr", "nexthop", "::1 nexthop em0", "`em0` is not an address"),
            ("addr", "nexthop", "::1 nexthop 192.0.2.1", "they are of different families"),
            ("addr", "nexthop", "::1 nexthop fe80::1", "may be on every link: name its interface"),
        ] {
            let refusal = round(&shape(key, values), line).expect_err(line);
            assert!(refusal.contains(why), "{line}: {refusal}");
        }
        assert_eq!(shape("number", "").entries("1\n# no\nx # y\n").unwrap_err().0, 3);
        assert!(KeyType::parse("mac").unwrap_err().contains("addr, iface, number or flow"));
        assert!(KeyType::parse("flow:src-ip,colour").unwrap_err().contains("`colour`"));
        assert!(Kinds::parse("tag,tag").unwrap_err().contains("twice"));
        assert!(Kinds::parse("weight").unwrap_err().contains("tag, skipto, mark, dscp, nexthop"));
        assert!(check_name(&"a".repeat(63)).is_ok() && check_name("a b").is_err());
        assert!(check_name(&"a".repeat(64)).unwrap_err().contains("63 bytes, and this one has 64"));
    }

    #[test]
    fn the_longest_network_is_found() {
        let shape = shape("addr", "mark");
        let entries = shape.entries("0.0.0.0/0 mark 1\n10.0.0.0/8 mark 2\n10.1.0.0/16 mark 3\n");
        let contents = Contents::new(entries.unwrap());
        let mark = |text: &str| {
            let key = Key::parse(shape.key, text).unwrap();
            contents.find(&key).and_then(|(_, value)| value.mark)
        };
        assert_eq!(
            (mark("10.1.0.9"), mark("10.2.0.0/16"), mark("9.9.9.9")),
            (Some(3), Some(2), Some(1))
        );
        assert_eq!(mark("::1"), None);
    }
}
