//! pkt-gen's names of interfaces.
//!
//! pkt-gen's `-i` takes names of netmap ports, of which network interfaces are one kind; the
//! prefixes and suffixes are those of `nm_open`. The others have no counterpart here.

use super::PktGenError;

/// Longest name of an interface, bytes: `IFNAMSIZ` with its closing zero.
const NAME_BYTES_MAX: usize = 15;

/// An interface, by both of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's name.
    pub name: String,
    /// As pkt-gen prints it: with the prefix `netmap:`.
    pub shown: String,
    /// As it was given.
    pub given: String,
}

impl Interface {
    /// Reads a name as pkt-gen does. Whether there is such an interface is not known here.
    ///
    /// # Errors
    ///
    /// [`PktGenError::Value`] if the name means something else than a network interface.
    pub fn parse(text: &str) -> Result<Self, PktGenError> {
        let refuse = |reason: &str| Err(PktGenError::value('i', text, reason));
        let (name, prefixed) = match text.strip_prefix("netmap:") {
            Some(name) => (name, true),
            None => (text, false),
        };
        if name.starts_with("vale") {
            return refuse("there are no VALE switches here: use a veth pair or a bridge");
        }
        if !prefixed && text == "null" {
            return refuse("packets are not built without being sent");
        }
        if !prefixed && text.starts_with("pcap:") {
            return refuse(
                "there is no libpcap here: give the plain name; packet sockets are used where \
                 XDP is not possible",
            );
        }
        if !prefixed && text.starts_with("tap") {
            return refuse(
                "pkt-gen opens a tap device and sends into the host's stack, which is not done \
                 here; `weir gen -i` sends through an existing tap interface",
            );
        }
        if let Some(character) = name.chars().find(|c| "^*{}@+/".contains(*c)) {
            return refuse(&format!(
                "`{character}` chooses rings, pipes or modes of a netmap port, which do not exist \
                 here: give the plain name of the interface"
            ));
        }
        let ring = name.rsplit_once('-').is_some_and(|(_, ring)| {
            !ring.is_empty() && ring.bytes().all(|byte| byte.is_ascii_digit())
        });
        if prefixed && ring {
            return refuse("one ring of an interface cannot be chosen: all of its queues are used");
        }
        let bad = |c: char| c.is_whitespace() || c.is_control() || c == ':';
        if name.is_empty() || name == "." || name == ".." || name.contains(bad) {
            return refuse("this is not an interface name");
        }
        if name.len() > NAME_BYTES_MAX {
            return refuse("names of interfaces have at most 15 bytes");
        }
        let shown = format!("netmap:{name}");
        Ok(Self { name: name.to_owned(), shown, given: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_prefixed_names_are_interfaces() {
        for (text, name) in [
            ("eth0", "eth0"),
            ("netmap:eth0", "eth0"),
            ("veth-1", "veth-1"),
            ("netmap:br-lan", "br-lan"),
            ("eth0.100", "eth0.100"),
        ] {
            let interface = Interface::parse(text).unwrap();
            assert_eq!(interface.name, name);
            assert_eq!(interface.shown, format!("netmap:{name}"));
            assert_eq!(interface.given, text);
        }
    }

    #[test]
    fn what_is_no_network_interface_is_refused_with_its_reason() {
        for (text, part) in [
            ("vale0:1", "VALE"),
            ("netmap:vale0:1", "VALE"),
            ("null", "without being sent"),
            ("pcap:eth0", "plain name"),
            ("tap:x", "tap device"),
            ("tap0", "weir gen -i"),
            ("netmap:eth0/R", "`/`"),
            ("netmap:eth0^", "`^`"),
            ("eth0*", "`*`"),
            ("netmap:eth0{1", "`{`"),
            ("netmap:eth0}1", "`}`"),
            ("netmap:eth0@conf:rings=4", "`@`"),
            ("netmap:eth0+", "`+`"),
            ("netmap:eth0-3", "one ring"),
            ("netmap:", "not an interface name"),
            ("", "not an interface name"),
            ("..", "not an interface name"),
            ("eth 0", "not an interface name"),
            ("eth0:1", "not an interface name"),
            ("sixteen-letters-", "15 bytes"),
        ] {
            let error = Interface::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("-i {text}: ")), "{error}");
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
