//! Values of entries of typed tables.

use std::fmt;
use std::net::IpAddr;

use crate::limits::{INTERFACE_NAME_SIZE_MAX, LABEL_SIZE_MAX, TAG_SIZE_MAX};
use crate::value::Text;

/// The largest code point of Differentiated Services.
const DSCP_MAX: u8 = 63;

/// A value that entries may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// A tag of packets, by name.
    Tag,
    /// The label of a rule to go on at. pf's rules cannot: it is only kept.
    Skipto,
    /// A 32-bit mark.
    Mark,
    /// A code point of Differentiated Services, 0 to 63.
    Dscp,
    /// A router to send packets to.
    NextHop,
}

impl ValueKind {
    /// All, in the order in which they are written.
    pub const ALL: [Self; 5] = [Self::Tag, Self::Skipto, Self::Mark, Self::Dscp, Self::NextHop];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Skipto => "skipto",
            Self::Mark => "mark",
            Self::Dscp => "dscp",
            Self::NextHop => "nexthop",
        }
    }

    /// Whether it is a number.
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Mark | Self::Dscp)
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Which values the entries of a table may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Kinds(u8);

impl Kinds {
    /// Reads words between commas; an empty text is no values.
    ///
    /// # Errors
    ///
    /// If a word is no value, or stands there twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut kinds = Self::default();
        for word in text.split(',').filter(|_| !text.is_empty()) {
            let kind = ValueKind::parse(word).ok_or_else(|| {
                let all = ValueKind::ALL.map(ValueKind::as_str).join(", ");
                format!("`{word}` is not a value: use {all}")
            })?;
            if kinds.has(kind) {
                return Err(format!("`{word}` is given twice"));
            }
            kinds.0 |= 1 << kind as u8;
        }
        Ok(kinds)
    }

    /// Whether entries may have this value.
    #[must_use]
    pub const fn has(self, kind: ValueKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Whether entries have keys alone.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = ValueKind::ALL.into_iter().filter(|kind| self.has(*kind));
        f.write_str(&all.map(ValueKind::as_str).collect::<Vec<_>>().join(","))
    }
}

/// Where packets go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop {
    /// The router.
    pub address: IpAddr,
    /// The interface that it is reached by; `None`: that of the route to it.
    pub interface: Option<Text>,
}

impl NextHop {
    fn parse(text: &str) -> Result<Self, String> {
        let (address, interface) = match text.split_once('%') {
            Some((address, interface)) => (address, Some(interface)),
            None => (text, None),
        };
        let is_name = |name: &&str| !name.is_empty() && name.len() <= INTERFACE_NAME_SIZE_MAX;
        let found = address.parse::<IpAddr>().ok().filter(|_| interface.iter().all(is_name));
        let found = found.ok_or_else(|| format!("`{text}` is not an address, or ADDRESS%IF"))?;
        let is_link = matches!(found, IpAddr::V6(address) if address.is_unicast_link_local());
        if is_link && interface.is_none() {
            return Err(format!(
                "`{text}` may be on every link: name its interface, as `{text}%em0`"
            ));
        }
        Ok(Self { address: found, interface: interface.map(Into::into) })
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        self.interface.as_ref().map_or(Ok(()), |interface| write!(f, "%{interface}"))
    }
}

/// The values of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Value {
    /// The tag that packets get.
    pub tag: Option<Text>,
    /// A label of a rule.
    pub skipto: Option<Text>,
    /// 32 bits.
    pub mark: Option<u32>,
    /// 0 to 63.
    pub dscp: Option<u8>,
    /// Where packets go.
    pub next_hop: Option<NextHop>,
}

impl Value {
    /// Reads pairs of words, in any order.
    ///
    /// # Errors
    ///
    /// What the table has not, or what is not such a value.
    pub fn parse<'a>(
        kinds: Kinds,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let (mut value, mut given) = (Self::default(), Kinds::default());
        while let Some(word) = words.next() {
            let kind = ValueKind::parse(word).filter(|kind| kinds.has(*kind));
            let kind = kind.ok_or_else(|| {
                let has = if kinds.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("its values are {kinds}")
                };
                format!("the table has no value `{word}`: {has}")
            })?;
            if given.has(kind) {
                return Err(format!("`{word}` is given twice"));
            }
            given.0 |= 1 << kind as u8;
            let text = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            value.put(kind, text)?;
        }
        Ok(value)
    }

    fn put(&mut self, kind: ValueKind, text: &str) -> Result<(), String> {
        let name = |size_max: usize| {
            let is_fine = text.len() <= size_max;
            is_fine.then(|| Some(text.into())).ok_or_else(|| {
                format!("`{text}`: a {} may have at most {size_max} bytes", kind.as_str())
            })
        };
        match kind {
            ValueKind::Tag => self.tag = name(TAG_SIZE_MAX)?,
            ValueKind::Skipto => self.skipto = name(LABEL_SIZE_MAX)?,
            ValueKind::Mark => {
                let hex = text.strip_prefix("0x");
                let number = hex.map_or_else(|| text.parse(), |hex| u32::from_str_radix(hex, 16));
                let number = number.map_err(|_| format!("`{text}` is not a mark of 32 bits"))?;
                self.mark = Some(number);
            }
            ValueKind::Dscp => {
                let number = text.parse().ok().filter(|number| *number <= DSCP_MAX);
                let bad = || format!("`{text}` is not a DSCP: a number from 0 to {DSCP_MAX}");
                self.dscp = Some(number.ok_or_else(bad)?);
            }
            ValueKind::NextHop => self.next_hop = Some(NextHop::parse(text)?),
        }
        Ok(())
    }

    /// What it has, in the order in which it is written.
    pub fn parts(&self) -> impl Iterator<Item = (ValueKind, String)> {
        ValueKind::ALL.into_iter().filter_map(|kind| {
            let text = match kind {
                ValueKind::Tag => self.tag.as_ref().map(ToString::to_string),
                ValueKind::Skipto => self.skipto.as_ref().map(ToString::to_string),
                ValueKind::Mark => self.mark.map(|number| number.to_string()),
                ValueKind::Dscp => self.dscp.map(|number| number.to_string()),
                ValueKind::NextHop => self.next_hop.as_ref().map(ToString::to_string),
            };
            Some((kind, text?))
        })
    }
}

impl fmt::Display for Value {
    /// Behind a key: ` tag office nexthop 192.0.2.1`, as [`Value::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().try_for_each(|(kind, text)| write!(f, " {} {text}", kind.as_str()))
    }
}
