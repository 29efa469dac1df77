//! What a ruleset may name of this machine, as facts: interfaces and their addresses, groups,
//! services, protocols, host names, users, and pipes of dummynet, which a file alone gives.
//!
//! Interfaces come from the kernel, names from the files in `/etc`. No name server is asked, and no
//! other source of users than `/etc/passwd` and `/etc/group`. Services and protocols that
//! `weir-rules` knows keep FreeBSD's names; what it lacks is added from the files. As on OpenBSD,
//! the interfaces of default routes are in the group `egress`.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context as _;
use weir_net::Netlink;
use weir_rules::facts::{Facts, FactsError, pipe_lines};
use weir_rules::resolve::{InterfaceAddress, InterfaceFacts};

use super::files;

#[cfg(test)]
mod tests;

/// Facts of this machine, or those of a file.
///
/// # Errors
///
/// If the file cannot be read or says something that is no fact, or the kernel does not answer.
pub(crate) fn facts(file: Option<&Path>) -> anyhow::Result<Facts> {
    let Some(path) = file else {
        return of_host().context("cannot read the interfaces of this machine (give --facts FILE)");
    };
    Facts::parse(&text(path)?).map_err(|error| at(path, &error))
}

/// Names that a ruleset uses, of a file of facts, beside those of this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct MoreNames {
    text: String,
    /// What to say of lines that are of no account here.
    pub(crate) note: Option<String>,
}

impl MoreNames {
    /// Those of a file, if there is one.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has something else.
    pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = file else { return Ok(Self::default()) };
        let text = text(path)?;
        let skipped_count = Facts::new().add_names(&text).map_err(|error| at(path, &error))?;
        let note = (skipped_count > 0).then(|| {
            format!(
                "{}: note: its lines `interface` and `group` are left out here: interfaces and \
                 groups are those of this machine",
                path.display()
            )
        });
        Ok(Self { text, note })
    }

    /// Lines of pipes and queues, for a firewall that runs.
    pub(crate) fn pipes(&self) -> String {
        pipe_lines(&self.text)
    }

    /// Facts of this machine, with these names.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    pub(crate) fn with_host(&self) -> anyhow::Result<Facts> {
        let mut facts = facts(None)?;
        facts.add_names(&self.text)?;
        Ok(facts)
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        anyhow::anyhow!("cannot read the facts of {}: {}", path.display(), files::message(&error))
    })
}

fn at(path: &Path, error: &FactsError) -> anyhow::Error {
    anyhow::anyhow!("{}:{}: {}", path.display(), error.line, error.message)
}

fn of_host() -> anyhow::Result<Facts> {
    let mut facts = Facts::new();
    for interface in interfaces()? {
        facts.add_interface(interface);
    }
    facts.add_group("egress");
    // A file that is not there knows nothing.
    let text = |name: &str| fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
    add_services(&mut facts, &text("services"));
    add_protocols(&mut facts, &text("protocols"));
    add_hosts(&mut facts, &text("hosts"));
    for (name, number) in numbered(&text("passwd")) {
        facts.add_user(name, number);
    }
    for (name, number) in numbered(&text("group")) {
        facts.add_user_group(name, number);
    }
    Ok(facts)
}

fn interfaces() -> anyhow::Result<Vec<InterfaceFacts>> {
    let netlink = Netlink::open()?;
    let routes = netlink.routes()?;
    let is_egress = |ifindex: u32| routes.iter().any(|route| route.is_default_of(ifindex));
    let mut interfaces = Vec::new();
    for link in netlink.links()? {
        // An interface may go between the two questions.
        let Ok(addresses) = netlink.link_addresses(&link.name) else { continue };
        let addresses = addresses.into_iter().map(|address| InterfaceAddress {
            address: address.prefix.address(),
            bits: address.prefix.length(),
            broadcast: address.broadcast,
            peer: address.peer,
        });
        let groups = is_egress(link.ifindex).then(|| "egress".to_owned());
        interfaces.push(InterfaceFacts {
            groups: groups.into_iter().collect(),
            is_loopback: link.is_loopback,
            addresses: addresses.collect(),
            mtu_bytes: Some(link.mtu),
            speed_bps: speed_bps(&link.name),
            name: link.name,
        });
    }
    Ok(interfaces)
}

/// The speed that the driver tells, in bits per second; the file has Mb/s, or -1.
fn speed_bps(interface: &str) -> Option<u64> {
    let text =
        fs::read_to_string(Path::new("/sys/class/net").join(interface).join("speed")).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(1_000_000)
}

/// The words of each line that has any, without comments.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let words = text.lines().map(|line| {
        let line = line.split('#').next().unwrap_or("");
        line.split_whitespace().collect::<Vec<_>>()
    });
    words.filter(|words| !words.is_empty())
}

/// services(5): `name port/protocol alias...`
fn add_services(facts: &mut Facts, text: &str) {
    for words in lines(text) {
        let [name, port, aliases @ ..] = &words[..] else { continue };
        let Some((port, protocol)) = port.split_once('/') else { continue };
        let (Ok(port), "tcp" | "udp") = (port.parse(), protocol) else { continue };
        for name in std::iter::once(name).chain(aliases) {
            facts.add_service(name, port, protocol == "tcp", protocol == "udp");
        }
    }
}

/// protocols(5): `name number alias...`
fn add_protocols(facts: &mut Facts, text: &str) {
    for words in lines(text) {
        let [name, number, aliases @ ..] = &words[..] else { continue };
        let Ok(number) = number.parse() else { continue };
        for name in std::iter::once(name).chain(aliases) {
            facts.add_protocol(name, number);
        }
    }
}

/// hosts(5): `address name...`
fn add_hosts(facts: &mut Facts, text: &str) {
    for words in lines(text) {
        let Ok(address) = words[0].parse::<IpAddr>() else { continue };
        for name in &words[1..] {
            facts.add_host(name, address);
        }
    }
}

/// passwd(5) and group(5): `name:password:number:...`
fn numbered(text: &str) -> impl Iterator<Item = (&str, u32)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        Some((name, number.parse().ok()?))
    })
}
