//! Names of systems: classes, their versions, and subtypes of those (pfctl_osfp.c).

use std::fmt::Write as _;

use super::System;
use crate::value::Text;

/// A name with its number, and what is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: Text,
    number: u32,
    below: Names,
}

/// The names of one level, those that were named last first, as pfctl's list has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    entries: Vec<Entry>,
}

impl Names {
    /// The numbers of a class, a version and a subtype. Behind an empty name there are no others.
    pub(super) fn add(&mut self, names: [&str; 3]) -> System {
        let mut numbers = [0; 3];
        let mut level = self;
        for (name, number) in names.into_iter().zip(&mut numbers) {
            if name.is_empty() {
                break;
            }
            *number = level.number(name);
            level = &mut level.entries[0].below;
        }
        let [class, version, subtype] = numbers;
        System { class, version, subtype }
    }

    /// The number of a name, which is the first then.
    fn number(&mut self, name: &str) -> u32 {
        let entry = match self.place(name) {
            Some(at) => self.entries.remove(at),
            None => {
                let number = u32::try_from(self.entries.len() + 1).unwrap_or(u32::MAX);
                Entry { name: name.into(), number, below: Self::default() }
            }
        };
        let number = entry.number;
        self.entries.insert(0, entry);
        number
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name.eq_ignore_ascii_case(name))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.place(name).map(|at| &self.entries[at])
    }

    /// What a rule's name stands for: a class, a class and a version, or all three, where version
    /// and subtype are joined by a dot, a blank or a hyphen (`pfctl_get_fingerprint`).
    pub(super) fn system(&self, name: &str) -> Option<System> {
        if let Some(class) = self.entry(name) {
            return Some(System { class: class.number, ..System::default() });
        }
        let (class, rest) = name.split_once(' ')?;
        let class = self.entry(class)?;
        let found = System { class: class.number, ..System::default() };
        if let Some(version) = class.below.entry(rest) {
            return Some(System { version: version.number, ..found });
        }
        class.below.entries.iter().find_map(|version| {
            let (head, tail) = rest.split_at_checked(version.name.len())?;
            let tail = tail.strip_prefix(['.', ' ', '\t', '-'])?;
            let is_it = head.eq_ignore_ascii_case(&version.name);
            let subtype = version.below.entry(tail).filter(|_| is_it)?;
            Some(System { version: version.number, subtype: subtype.number, ..found })
        })
    }

    /// All names that [`Self::system`] knows, in pfctl's form.
    pub(super) fn all(&self) -> Vec<Text> {
        let mut all = Vec::new();
        for class in &self.entries {
            all.push(class.name.clone());
            for version in &class.below.entries {
                all.push(full([&class.name, &version.name, ""]).into());
                let subtypes = version.below.entries.iter();
                all.extend(
                    subtypes
                        .map(|subtype| full([&class.name, &version.name, &subtype.name]).into()),
                );
            }
        }
        all
    }

    /// A line for each, by the alphabet, what is below it behind it (`print_name_list`).
    pub(super) fn put(&self, out: &mut String) {
        self.put_behind(out, "");
    }

    fn put_behind(&self, out: &mut String, before: &str) {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_cached_key(|entry| entry.name.to_ascii_lowercase());
        for entry in entries {
            let line = format!("{before}{}\t", entry.name);
            // A String takes what is written.
            let _ = writeln!(out, "{line}");
            entry.below.put_behind(out, &line);
        }
    }
}

/// A name of all three as pfctl prints it (`pfctl_lookup_fingerprint`).
pub(super) fn full([class, version, subtype]: [&str; 3]) -> String {
    if version.is_empty() {
        return class.to_owned();
    }
    if subtype.is_empty() {
        return format!("{class} {version}");
    }
    let is_number = version.contains('.')
        && !version.contains(' ')
        && subtype.starts_with(|c: char| c.is_ascii_digit());
    let joint = if is_number { '.' } else { ' ' };
    format!("{class} {version}{joint}{subtype}")
}
