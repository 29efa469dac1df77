//! Host names of a ruleset, by the system's resolver (getaddrinfo(3)): what loads a ruleset asks
//! it, and what only reads one does with `--resolve`.
//!
//! This is the only place where weir asks the network anything by itself. Each name is asked once,
//! when a file is compiled, as pfctl does; all its addresses count, of both families. What the
//! facts know, an interface or a name of `/etc/hosts`, is not asked for, nor is what is made of
//! numbers: the resolver would take `192.168.1` for 192.168.0.1.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use weir_rules::dummynet::{Pipe, PipeQueue};
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

/// All addresses of a name, each once, in the resolver's order; or what to say of it.
fn addresses(name: &str) -> Result<Vec<IpAddr>, String> {
    if is_of_numbers(name) {
        return Err(format!(
            "`{name}` is neither a whole address nor a name: an IPv4 address has four numbers \
             from 0 to 255 without leading zeros"
        ));
    }
    let asked = |why: &str| format!("the system's resolver was asked: {why}");
    // The port is of no account.
    let found = (name, 0).to_socket_addrs();
    let found = found.map_err(|error: io::Error| asked(&error.to_string()))?;
    let mut addresses = Vec::new();
    for found in found {
        let address = found.ip();
        // With any interface's packets it would say more than the resolver did.
        if let SocketAddr::V6(scoped) = found
            && scoped.scope_id() != 0
        {
            return Err(asked(&format!(
                "{address} is an address on one interface alone (number {}): write it into the \
                 ruleset with that interface's name, as `{address}%eth0`",
                scoped.scope_id()
            )));
        }
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(asked("it has no address"));
    }
    Ok(addresses)
}

/// Whether a word has only numbers between its dots, with or without a length behind a slash:
/// forms that inet_aton(3) makes an address of, which nobody means. No name ends in a number.
fn is_of_numbers(word: &str) -> bool {
    word.split(['.', '/']).all(|part| {
        let hexadecimal = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"));
        match hexadecimal {
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            None => part.bytes().all(|byte| byte.is_ascii_digit()),
        }
    })
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
        self.names.ask(name).err().unwrap_or_default()
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

    fn pipe(&self, number: u16) -> Option<&Pipe> {
        self.facts.pipe(number)
    }

    fn pipe_queue(&self, number: u16) -> Option<&PipeQueue> {
        self.facts.pipe_queue(number)
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

    #[test]
    fn an_interface_without_an_address_is_no_host() {
        let facts = Facts::parse("interface em7\ninterface em8 192.0.2.1/24\n").unwrap();
        let names = Names::default();
        let input = weir_rules::parse::ParseInput {
            name: "pf.conf",
            bytes: b"pass in from em7\npass in from em7:0\npass in from em8\n",
            dialect: None,
            macros: &[],
            provider: &weir_rules::source::MemorySources::default(),
            limits: weir_rules::limits::Limits::default(),
        };
        let compiled = weir_rules::compile(input, &Asking { facts: &facts, names: &names });
        assert!(names.0.borrow().is_empty(), "{names:?}");
        let said = compiled.diagnostics.iter().map(|one| (one.help.as_deref(), &one.suggestion));
        let said: Vec<_> = said.collect();
        assert_eq!(said, [(Some("the interface `em7` has no such address"), &None); 2]);
    }

    #[test]
    fn numbers_are_no_names() {
        let (facts, names) = (Facts::new(), Names::default());
        let asking = Asking { facts: &facts, names: &names };
        let loose = ["192.168.1", "010.0.0.1", "12345", "0x7f.1", "127.0x1", "0X7F000001", "10/8"];
        for word in loose {
            assert_eq!(asking.host(word), [] as [IpAddr; 0], "{word}");
            let advice = asking.host_advice(word);
            assert!(advice.starts_with(&format!("`{word}` is neither a whole")), "{advice}");
        }
        assert_eq!(names.found(), []);
        for name in ["localhost", "0xcafe.example", "10.example", "face", "7.in-addr.arpa"] {
            assert!(!is_of_numbers(name), "{name}");
        }
    }

    #[test]
    fn an_answer_that_holds_on_one_interface_alone_is_not_taken_for_all() {
        let found = Names::default().ask("fe80::1%1").unwrap_err();
        assert!(found.contains("fe80::1 is an address on one interface alone"), "{found}");
        assert!(found.contains("(number 1)") && found.contains("`fe80::1%eth0`"), "{found}");
    }
}
