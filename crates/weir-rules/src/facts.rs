//! A resolver in memory, and the text it is read from.
//!
//! The text has one fact a line; `#` begins a comment:
//!
//! ```text
//! interface em0 192.0.2.1/24 broadcast 192.0.2.255 2001:db8::1/64 group egress mtu 1500
//! interface lo0 loopback ::1/128 fe80::1/64 127.0.0.1/8
//! interface tun0 10.8.0.1/32 peer 10.8.0.2
//! group dmz
//! host www.example.org 192.0.2.80 2001:db8::80
//! service proxy 3128/tcp
//! protocol pfsync 240
//! user www 80
//! usergroup www 80
//! pipe 1 config bw 10Mbit/s queue 50
//! queue 2 config pipe 1 weight 10
//! ```
//!
//! The last two are lines of dnctl(8): [`crate::dummynet`].
//! Protocols and services of [`crate::names`] are there without being named.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use crate::dummynet::{Pipe, PipeQueue, Pipes};
use crate::names;
use crate::resolve::{InterfaceAddress, InterfaceFacts, Resolver};
use crate::value::Text;

/// What is known of a machine.
#[derive(Debug, Clone)]
pub struct Facts {
    interfaces: Vec<InterfaceFacts>,
    groups: BTreeSet<String>,
    hosts: BTreeMap<String, Vec<IpAddr>>,
    ports: HashMap<String, u16>,
    tcp_names: HashMap<u16, Text>,
    udp_names: HashMap<u16, Text>,
    protocol_numbers: BTreeMap<String, u8>,
    protocol_names: BTreeMap<u8, Text>,
    users: BTreeMap<String, u32>,
    user_groups: BTreeMap<String, u32>,
    pipes: Pipes,
}

impl Default for Facts {
    fn default() -> Self {
        Self::new()
    }
}

impl Facts {
    /// The protocols and services of [`crate::names`], `root` and nothing else.
    #[must_use]
    pub fn new() -> Self {
        let mut facts = Self {
            interfaces: Vec::new(),
            groups: BTreeSet::new(),
            hosts: BTreeMap::new(),
            ports: HashMap::new(),
            tcp_names: HashMap::new(),
            udp_names: HashMap::new(),
            protocol_numbers: BTreeMap::new(),
            protocol_names: BTreeMap::new(),
            users: BTreeMap::from([("root".to_owned(), 0)]),
            user_groups: BTreeMap::from([("wheel".to_owned(), 0)]),
            pipes: Pipes::default(),
        };
        for (name, port, tcp, udp) in names::SERVICES {
            facts.add_service(name, *port, *tcp, *udp);
        }
        for (name, number) in names::PROTOCOLS {
            facts.add_protocol(name, *number);
        }
        facts
    }

    /// Adds an interface; its groups come to exist.
    pub fn add_interface(&mut self, interface: InterfaceFacts) {
        self.groups.extend(interface.groups.iter().cloned());
        self.interfaces.push(interface);
    }

    /// Adds a group without members.
    pub fn add_group(&mut self, name: &str) {
        self.groups.insert(name.to_owned());
    }

    /// Adds an address of a host.
    pub fn add_host(&mut self, name: &str, address: IpAddr) {
        self.hosts.entry(name.to_owned()).or_default().push(address);
    }

    /// Adds a service. The first name of a port is the one that is printed.
    pub fn add_service(&mut self, name: &str, port: u16, tcp: bool, udp: bool) {
        self.ports.entry(name.to_owned()).or_insert(port);
        let text: Text = name.into();
        if tcp {
            self.tcp_names.entry(port).or_insert_with(|| text.clone());
        }
        if udp {
            self.udp_names.entry(port).or_insert(text);
        }
    }

    /// Adds a protocol. The first name of a number is the one that is printed.
    pub fn add_protocol(&mut self, name: &str, number: u8) {
        self.protocol_numbers.entry(name.to_owned()).or_insert(number);
        self.protocol_names.entry(number).or_insert_with(|| name.into());
    }

    /// Adds a user by name, with the number that the system knows.
    pub fn add_user(&mut self, name: &str, number: u32) {
        self.users.insert(name.to_owned(), number);
    }

    /// Adds a group of users.
    pub fn add_user_group(&mut self, name: &str, number: u32) {
        self.user_groups.insert(name.to_owned(), number);
    }

    /// Reads the text of the module's description, on top of [`Facts::new`].
    ///
    /// # Errors
    ///
    /// Names the line and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, FactsError> {
        let mut facts = Self::new();
        for (index, words) in words(text) {
            facts.line(&words).map_err(|message| FactsError { line: index + 1, message })?;
        }
        Ok(facts)
    }

    /// Adds the names of the text of the module's description: hosts, services, protocols, users,
    /// groups of users, pipes and queues. Those of the text go before others. Its interfaces and
    /// groups of them are left out; gives the count of those lines.
    ///
    /// # Errors
    ///
    /// As [`Facts::parse`], also of lines that are left out.
    pub fn add_names(&mut self, text: &str) -> Result<usize, FactsError> {
        let mut seen = BTreeSet::new();
        let mut skipped_count = 0;
        for (index, words) in words(text) {
            let added = match &words[..] {
                ["interface" | "group", ..] => {
                    skipped_count += 1;
                    Self::default().line(&words)
                }
                ["host" | "service" | "protocol", name, ..] => {
                    if seen.insert((words[0], (*name).to_owned())) {
                        self.forget(words[0], name);
                    }
                    self.line(&words)
                }
                _ => self.line(&words),
            };
            added.map_err(|message| FactsError { line: index + 1, message })?;
        }
        Ok(skipped_count)
    }

    /// Forgets what a name stands for.
    fn forget(&mut self, kind: &str, name: &str) {
        match kind {
            "host" => drop(self.hosts.remove(name)),
            "service" => {
                self.ports.remove(name);
                self.tcp_names.retain(|_, known| **known != *name);
                self.udp_names.retain(|_, known| **known != *name);
            }
            _ => {
                self.protocol_numbers.remove(name);
                self.protocol_names.retain(|_, known| **known != *name);
            }
        }
    }

    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            [] => {}
            ["interface", name, rest @ ..] => self.add_interface(interface(name, rest)?),
            ["group", names @ ..] if !names.is_empty() => {
                for name in names {
                    self.add_group(name);
                }
            }
            ["host", name, addresses @ ..] if !addresses.is_empty() => {
                for address in addresses {
                    self.add_host(name, parse(address, "an address")?);
                }
            }
            ["service", name, port] => {
                let (port, protocol) = port.split_once('/').unwrap_or((port, ""));
                let (tcp, udp) = match protocol {
                    "" => (true, true),
                    "tcp" => (true, false),
                    "udp" => (false, true),
                    other => return Err(format!("`{other}` is neither tcp nor udp")),
                };
                self.add_service(name, parse(port, "a port")?, tcp, udp);
            }
            ["protocol", name, number] => self.add_protocol(name, parse(number, "a protocol")?),
            ["user", name, number] => self.add_user(name, parse(number, "a user's number")?),
            ["usergroup", name, number] => {
                self.add_user_group(name, parse(number, "a group's number")?);
            }
            ["pipe" | "queue", ..] => self.pipes.add(words)?,
            [word, ..] => {
                return Err(format!(
                    "`{word}` is not a fact, or its values are missing; facts are \
                     interface, group, host, service, protocol, user, usergroup, pipe and queue"
                ));
            }
        }
        Ok(())
    }
}

/// The words of each line, with its number from 0, without comments.
fn words(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().map(|(index, line)| {
        let line = line.split('#').next().unwrap_or("");
        (index, line.split_ascii_whitespace().collect())
    })
}

/// The lines of a text of facts that are about pipes and queues.
#[must_use]
pub fn pipe_lines(text: &str) -> String {
    let is_it = |line: &[&str]| matches!(line.first(), Some(&("pipe" | "queue")));
    let lines = words(text).map(|(_, line)| line).filter(|line| is_it(line));
    lines.map(|line| line.join(" ") + "\n").collect()
}

/// A line of facts that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactsError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for FactsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for FactsError {}

fn parse<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not {what}"))
}

fn interface(name: &str, words: &[&str]) -> Result<InterfaceFacts, String> {
    let mut facts = InterfaceFacts { name: name.to_owned(), ..InterfaceFacts::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "loopback" {
            facts.is_loopback = true;
            continue;
        }
        if let Some((address, bits)) = word.split_once('/') {
            let address: IpAddr = parse(address, "an address")?;
            let bits: u8 = parse(bits, "a prefix length")?;
            if bits > if address.is_ipv4() { 32 } else { 128 } {
                return Err(format!("`{word}` has too long a prefix"));
            }
            facts.addresses.push(InterfaceAddress { address, bits, broadcast: None, peer: None });
            continue;
        }
        let value = words.next().ok_or_else(|| format!("`{word}` has no value"))?;
        let last = facts.addresses.last_mut();
        match (*word, last) {
            ("group", _) => facts.groups.push((*value).to_owned()),
            ("mtu", _) => facts.mtu_bytes = Some(parse(value, "an MTU in bytes")?),
            ("speed", _) => facts.speed_bps = Some(parse(value, "a speed in bits per second")?),
            ("broadcast", Some(last)) => last.broadcast = Some(parse(value, "an address")?),
            ("peer", Some(last)) => last.peer = Some(parse(value, "an address")?),
            _ => return Err(format!("`{word}` does not describe an interface")),
        }
    }
    Ok(facts)
}

impl Resolver for Facts {
    fn interfaces(&self) -> &[InterfaceFacts] {
        &self.interfaces
    }

    fn is_group(&self, name: &str) -> bool {
        self.groups.contains(name)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        self.hosts.get(name).cloned().unwrap_or_default()
    }

    fn service_port(&self, name: &str) -> Option<u16> {
        self.ports.get(name).copied()
    }

    fn service_name(&self, port: u16, is_tcp: bool) -> Option<Text> {
        let names = if is_tcp { &self.tcp_names } else { &self.udp_names };
        names.get(&port).cloned()
    }

    fn protocol_number(&self, name: &str) -> Option<u8> {
        self.protocol_numbers.get(name).copied()
    }

    fn protocol_name(&self, number: u8) -> Option<Text> {
        self.protocol_names.get(&number).cloned()
    }

    fn user(&self, name: &str) -> Option<u32> {
        self.users.get(name).copied()
    }

    fn group(&self, name: &str) -> Option<u32> {
        self.user_groups.get(name).copied()
    }

    fn pipe(&self, number: u16) -> Option<&Pipe> {
        self.pipes.pipe(number)
    }

    fn pipe_queue(&self, number: u16) -> Option<&PipeQueue> {
        self.pipes.queue(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read() {
        let text = "# a machine\n\
             interface em0 192.0.2.1/24 broadcast 192.0.2.255 2001:db8::1/64 group egress\n\
             interface lo0 loopback 127.0.0.1/8\n\
             host www 192.0.2.80\nservice proxy 3128/tcp\nuser www 80\ngroup empty\n";
        let facts = Facts::parse(text).unwrap();
        assert_eq!(facts.interfaces()[0].addresses.len(), 2);
        assert!(facts.interfaces()[1].is_loopback);
        assert!(facts.is_group("egress") && facts.is_group("empty"));
        assert_eq!(facts.service_name(3128, true).as_deref(), Some("proxy"));
        assert_eq!(facts.service_name(3128, false), None);
        assert_eq!(facts.host("www").len(), 1);
        assert_eq!(facts.user("www"), Some(80));
    }

    #[test]
    fn names_are_added_to_what_is_known_and_interfaces_are_not() {
        let mut facts = Facts::parse("interface em0 192.0.2.1/24\nuser www 80\n").unwrap();
        facts.add_names("# OpenBSD\nuser _ntpd 83\nuser www 67\nservice x 7000/udp\n").unwrap();
        assert_eq!((facts.user("_ntpd"), facts.user("www")), (Some(83), Some(67)));
        assert_eq!(facts.service_name(7000, false).as_deref(), Some("x"));
        facts.add_host("gw", "192.0.2.1".parse().unwrap());
        let more = "service http 8080/tcp\nhost gw 10.0.0.1\nhost gw 10.0.0.2\nprotocol tcp 200\n";
        facts.add_names(more).unwrap();
        assert_eq!(facts.service_port("http"), Some(8080));
        assert_eq!(facts.host("gw").len(), 2, "those of the text alone");
        assert_eq!(facts.protocol_number("tcp"), Some(200));
        for (text, part) in [
            ("user a 1\ninterface em1 192.0.2.1/40\n", "line 2: `192.0.2.1/40` has too long"),
            ("group\n", "line 1: "),
            ("user a b\n", "line 1: `b` is not"),
        ] {
            let error = facts.add_names(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let skipped = facts.add_names("interface em1 10.0.0.1/8 group dmz\ngroup dmz\nuser z 9\n");
        assert_eq!((skipped, facts.user("z")), (Ok(2), Some(9)));
        assert_eq!((facts.interfaces().len(), facts.is_group("dmz")), (1, false));
        facts.add_names("pipe 1 config bw 1Mbit/s\npipe 1 config\n").unwrap();
        assert_eq!(facts.pipe(1).unwrap().rate_bps, None, "the last line counts");
        let error = facts.add_names("pipe 1 config delay 5\n").unwrap_err().to_string();
        assert!(error.contains("line 1: `delay` is not done"), "{error}");
    }

    /// The lines of pipes alone, for who gets no other facts.
    #[test]
    fn lines_of_pipes_are_found() {
        let text = "user a 1\n pipe 1 config bw 1Mbit/s # slow\nqueue 2 config pipe 1\n";
        assert_eq!(pipe_lines(text), "pipe 1 config bw 1Mbit/s\nqueue 2 config pipe 1\n");
    }

    #[test]
    fn wrong_facts_name_their_line() {
        for (text, part) in [
            ("\ninterface em0 1.2.3.4/33\n", "line 2: `1.2.3.4/33` has too long a prefix"),
            ("hots a 1.2.3.4", "`hots` is not a fact"),
            ("service a 70000", "`70000` is not a port"),
            ("interface em0 broadcast 1.2.3.4", "`broadcast` does not describe"),
        ] {
            let error = Facts::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
