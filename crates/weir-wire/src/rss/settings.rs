//! All that a card is set to: key, table, and the fields of each kind of flow.

use core::fmt;
use core::str::FromStr;

use super::fields::{Fields, Symmetry};
use super::key::Key;
use super::steering::Steering;
use super::table::Table;
use super::toeplitz::Toeplitz;

/// Kinds of flow whose fields a card sets apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowKind {
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv4.
    Udp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
}

impl FlowKind {
    /// All of them, in the order of [`Settings::fields`].
    pub const ALL: [Self; 4] = [Self::Tcp4, Self::Udp4, Self::Tcp6, Self::Udp6];

    /// TCP's or UDP's, of one family.
    #[must_use]
    pub const fn of(is_udp: bool, is_ipv6: bool) -> Self {
        match (is_udp, is_ipv6) {
            (false, false) => Self::Tcp4,
            (true, false) => Self::Udp4,
            (false, true) => Self::Tcp6,
            (true, true) => Self::Udp6,
        }
    }
}

/// As ethtool(8) writes them.
impl fmt::Display for FlowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp4 => "tcp4",
            Self::Udp4 => "udp4",
            Self::Tcp6 => "tcp6",
            Self::Udp6 => "udp6",
        })
    }
}

/// A text that names no kind of flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fields of tcp4, udp4, tcp6 and udp6 can be set")]
pub struct FlowKindError;

impl FromStr for FlowKind {
    type Err = FlowKindError;

    fn from_str(text: &str) -> Result<Self, FlowKindError> {
        let known = |kind: &Self| {
            matches!(
                (kind, text),
                (Self::Tcp4, "tcp4")
                    | (Self::Udp4, "udp4")
                    | (Self::Tcp6, "tcp6")
                    | (Self::Udp6, "udp6")
            )
        };
        Self::ALL.into_iter().find(known).ok_or(FlowKindError)
    }
}

/// What a card is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The key of its hash.
    pub key: Key,
    /// Its indirection table.
    pub table: Table,
    /// What is done to the fields before they are hashed.
    pub symmetry: Symmetry,
    /// What is hashed of each kind of flow, in the order of [`FlowKind::ALL`].
    pub fields: [Fields; 4],
}

impl Settings {
    /// What is hashed of one kind of flow.
    #[must_use]
    pub const fn fields_of(&self, kind: FlowKind) -> Fields {
        self.fields[kind as usize]
    }

    /// How packets of one kind of flow are spread.
    #[must_use]
    pub fn steering(&self, kind: FlowKind) -> Steering {
        Steering {
            toeplitz: Toeplitz::new(&self.key),
            fields: self.fields_of(kind),
            symmetry: self.symmetry,
            table: self.table.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_printed_and_index_the_fields() {
        for (index, kind) in FlowKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(kind as usize, index);
            assert_eq!(FlowKind::of(index % 2 == 1, index >= 2), kind);
        }
        assert_eq!("sctp4".parse::<FlowKind>(), Err(FlowKindError));
    }
}
