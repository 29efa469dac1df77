//! Ethernet (MAC) addresses: the 48-bit identifiers of IEEE 802.
//!
//! Reads and prints the colon form, `02:00:00:00:00:01`. It accepts no other separator and no
//! shortened octets, so that one address has one spelling.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A 48-bit Ethernet address, in the order in which it goes over the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address, `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// True for group addresses: multicast and broadcast (IEEE 802 I/G bit).
    #[must_use]
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// True for locally administered addresses (IEEE 802 U/L bit).
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.0[0] & 0x02 != 0
    }

    /// True for `00:00:00:00:00:00`, which no interface may use.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 6]
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacAddr({self})")
    }
}

/// Text that is not an Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an Ethernet address: write six octets such as `02:00:00:00:00:01`")]
pub struct MacAddrError {
    text: String,
}

impl FromStr for MacAddr {
    type Err = MacAddrError;

    /// Reads six two-digit hexadecimal octets joined by colons, in either case.
    ///
    /// # Errors
    ///
    /// [`MacAddrError`] for anything else.
    fn from_str(text: &str) -> Result<Self, MacAddrError> {
        let error = || MacAddrError { text: text.into() };
        let mut octets = [0; 6];
        let mut words = text.split(':');
        for octet in &mut octets {
            let word = words.next().ok_or_else(error)?;
            // from_str_radix would also take a sign.
            if word.len() != 2 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(error());
            }
            *octet = u8::from_str_radix(word, 16).map_err(|_| error())?;
        }
        match words.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints() {
        let mac: MacAddr = "02:00:00:AB:cd:0f".parse().unwrap();
        assert_eq!(mac, MacAddr([2, 0, 0, 0xab, 0xcd, 0x0f]));
        assert_eq!(mac.to_string(), "02:00:00:ab:cd:0f");
        assert!(mac.is_local() && !mac.is_multicast() && !mac.is_zero());
        assert!(MacAddr::BROADCAST.is_multicast());
        assert!(MacAddr::default().is_zero());
    }

    #[test]
    fn refuses_other_spellings() {
        for text in [
            "",
            "02",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "02-00-00-00-00-01",
            "02:00:00:00:00:0g",
            "+2:00:00:00:00:01",
            "02:00:00:00:00:01 ",
        ] {
            let error = text.parse::<MacAddr>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not an Ethernet")));
        }
    }

    proptest! {
        #[test]
        fn prints_what_it_reads(octets: [u8; 6]) {
            let mac = MacAddr(octets);
            prop_assert_eq!(mac.to_string().parse::<MacAddr>().unwrap(), mac);
        }

        #[test]
        fn never_panics(text in ".{0,24}") {
            let _ = text.parse::<MacAddr>();
        }
    }
}
