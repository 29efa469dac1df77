//! Host names of a ruleset, by the system's resolver (getaddrinfo(3)): what loads a ruleset asks
//! it, and what only reads one does with `--resolve`.
//!
//! This is the only place where weir asks the network anything by itself. Each name is asked once,
//! when a file is compiled, as pfctl does; all its addresses count, of both families. What the
//! facts know, an interface or a name of `/etc/hosts`, is not asked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};

use weir_rules::facts::Facts;
use weir_rules::resolve::{InterfaceFacts, Resolver};
use weir_rules::value::Text;

/// What the resolver said of the names that it was asked for: addresses, or why there are none.
#[derive(Debug, Default)]
pub(crate) struct Names(RefCell<BTreeMap<String, Result<Vec<IpAddr>, String>>>);

impl Names {
    /// The addresses of a name, asked for at most once.
    fn ask(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let mut asked = self.0.borrow_mut();
        asked.entry(name.to_owned()).or_insert_with(|| addresses(name)).clone()
    }

    /// The names that have addresses.
    pub(crate) fn found(&self) -> Vec<(String, Vec<IpAddr>)> {
        let asked = self.0.borrow();
        let found = asked.iter().filter_map(|(name, answer)| {
            let addresses = answer.as_ref().ok()?;
            Some((name.clone(), addresses.clone()))
        });
        found.collect()
    }
}

/// All addresses of a name, each once, in the resolver's order.
fn addresses(name: &str) -> Result<Vec<IpAddr>, String> {
    // The port is of no account.
    let found = (name, 0).to_socket_addrs().map_err(|error: io::Error| error.to_string())?;
    let mut addresses = Vec::new();
    for address in found.map(|address| address.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err("it has no address".to_owned());
    }
    Ok(addresses)
}

/// Facts, and beyond them the system's resolver.
pub(crate) struct Asking<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) names: &'a Names,
}

impl Resolver for Asking<'_> {
    fn interfaces(&self) -> &[InterfaceFacts] {
        self.facts.interfaces()
    }

    fn is_group(&self, name: &str) -> bool {
        self.facts.is_group(name)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        let known = self.facts.host(name);
        if known.is_empty() { self.names.ask(name).unwrap_or_default() } else { known }
    }

    fn host_advice(&self, name: &str) -> String {
        let why = self.names.ask(name).err().unwrap_or_default();
        format!("the system's resolver was asked: {why}")
    }

    fn service_port(&self, name: &str) -> Option<u16> {
        self.facts.service_port(name)
    }

    fn service_name(&self, port: u16, is_tcp: bool) -> Option<Text> {
        self.facts.service_name(port, is_tcp)
    }

    fn protocol_number(&self, name: &str) -> Option<u8> {
        self.facts.protocol_number(name)
    }

    fn protocol_name(&self, number: u8) -> Option<Text> {
        self.facts.protocol_name(number)
    }

    fn user(&self, name: &str) -> Option<u32> {
        self.facts.user(name)
    }

    fn group(&self, name: &str) -> Option<u32> {
        self.facts.group(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_once_and_known_ones_never() {
        let facts = Facts::parse("host www.example.org 192.0.2.80\n").unwrap();
        let names = Names::default();
        let asking = Asking { facts: &facts, names: &names };
        let www: IpAddr = "192.0.2.80".parse().unwrap();
        assert_eq!(asking.host("www.example.org"), [www]);
        assert_eq!(names.found(), []);
        // An address in words is its own answer: nobody is asked for it.
        let address: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(asking.host("2001:db8::1"), [address]);
        assert_eq!(names.found(), [("2001:db8::1".to_owned(), vec![address])]);
        // No resolver is asked for a name that cannot be one.
        assert_eq!(asking.host("no\0name"), [] as [IpAddr; 0]);
        let advice = asking.host_advice("no\0name");
        assert!(advice.starts_with("the system's resolver was asked: "), "{advice}");
        assert_eq!(names.found().len(), 1);
    }
}
