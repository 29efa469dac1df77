//! The machines of a specification, over SSH.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use weir_machine::access::RemoteSpec;
use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, HostError, Output, Program};
use weir_machine::ssh::machine::Machine;
use weir_machine::ssh::{Secrets, SshHost, system};
use weir_results::counters::{Counters, DropRule, Selection};
use weir_wire::mac::MacAddr;

use super::device::Device;
use super::parts::Parts;
use crate::model::HostsSpec;
use crate::testbed::TestbedError;

/// How long the listing of interfaces may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long the total of a program that has ended may be under way.
const TOTAL_PATIENCE: Duration = Duration::from_secs(10);

/// Source of the sums over the DUT's interfaces.
const PORTS: &str = "dut ports";

/// Opens them; none is connected yet. A machine of several roles is opened once. Secrets are in the
/// environment of the manager's commands alone, and are taken out of what every machine says.
pub(super) fn open(spec: &HostsSpec, cancel: &Cancel) -> Result<Parts, TestbedError> {
    let secrets = Secrets::from_env(&spec.secrets).map_err(TestbedError::new)?;
    let mut opened: Vec<(RemoteSpec, Rc<dyn Host>)> = Vec::new();
    let mut open = |remote: &RemoteSpec| -> Rc<dyn Host> {
        if let Some((_, host)) = opened.iter().find(|(other, _)| other == remote) {
            return Rc::clone(host);
        }
        let host: Rc<dyn Host> = Rc::new(SshHost::new(remote, &secrets, cancel));
        opened.push((remote.clone(), Rc::clone(&host)));
        host
    };
    let generators: Vec<Rc<dyn Host>> =
        spec.generators.iter().map(|end| open(&end.remote)).collect();
    let receiver = open(&spec.receiver.remote);
    let reference = spec.reference.as_ref().map(&mut open);
    let manager: Rc<dyn Host> = Rc::new(SshHost::manager(&secrets, cancel));
    let next_hops = spec.generators.iter().filter_map(|end| end.next_hop_mac.clone()).collect();
    let machine = Machine::new(&spec.dut, &secrets, cancel);
    let device = Box::new(Dut { machine, next_hops, ports: OnceCell::new() });
    let (spec, total_patience) = (spec.clone(), TOTAL_PATIENCE);
    Ok(Parts { spec, generators, receiver, device, reference, manager, total_patience })
}

/// The DUT's machine.
struct Dut {
    machine: Machine,
    /// Addresses that the generators send to.
    next_hops: Vec<String>,
    /// Its interfaces, once they are known.
    ports: OnceCell<Ports>,
}

/// The DUT's interfaces on the path, by name.
#[derive(Debug, PartialEq, Eq)]
struct Ports {
    /// Those that the traffic comes in on.
    receives: Vec<String>,
    /// Those that it leaves on.
    sends: Vec<String>,
}

impl Dut {
    /// Its interfaces: those of the specification, which may say an address for a name; for what
    /// it does not say, those with the addresses that the generators send to.
    fn ports(&self) -> Result<&Ports, HostError> {
        if let Some(known) = self.ports.get() {
            return Ok(known);
        }
        let spec = self.machine.spec();
        let mut said = spec.receives.iter().chain(&spec.sends);
        let listing = if spec.receives.is_empty() || said.any(|name| is_address(name)) {
            let program = Program::Shell("ip -o link show 2>/dev/null || ifconfig -a");
            let command = Command { program, stdin: "", timeout: TIMEOUT, cancellable: true };
            Host::run(&self.machine, &command)?.stdout
        } else {
            String::new()
        };
        let found = find(&listing, (&spec.receives, &spec.sends), &self.next_hops);
        let found = found.map_err(|what| HostError::new(&spec.remote.name, what))?;
        Ok(self.ports.get_or_init(|| found))
    }

    fn receives(&self) -> &[String] {
        self.ports.get().map_or(&self.machine.spec().receives, |ports| &ports.receives)
    }

    fn sends(&self) -> &[String] {
        self.ports.get().map_or(&self.machine.spec().sends, |ports| &ports.sends)
    }
}

/// Whether an interface is told by its Ethernet address.
fn is_address(name: &str) -> bool {
    name.parse::<MacAddr>().is_ok()
}

/// The interfaces of a specification by name, out of `ip -o link` or `ifconfig -a`.
fn find(
    listing: &str,
    (receives, sends): (&[String], &[String]),
    next_hops: &[String],
) -> Result<Ports, String> {
    let named = |names: &[String], field: &str| -> Result<Vec<String>, String> {
        let name = |name: &String| match is_address(name) {
            false => Ok(name.clone()),
            true => match with_address(listing, name).as_slice() {
                [one] => Ok(one.clone()),
                [] => Err(format!(
                    "no interface of it has the address {name}: correct `{field}`; `ip link` or \
                     `ifconfig` lists them"
                )),
                several => Err(format!(
                    "{} have the address {name}: name the right one in `{field}`",
                    several.join(" and ")
                )),
            },
        };
        names.iter().map(name).collect()
    };
    let receives = match receives {
        [] => {
            let mut found: Vec<String> = Vec::new();
            for next_hop in next_hops {
                let names = with_address(listing, next_hop);
                if names.len() > 1 {
                    return Err(format!(
                        "{} have the address {next_hop}, and would be counted twice: name the \
                         right one in `receives`",
                        names.join(" and ")
                    ));
                }
                for name in names {
                    if !found.contains(&name) {
                        found.push(name);
                    }
                }
            }
            found
        }
        said => named(said, "receives")?,
    };
    Ok(Ports { receives, sends: named(sends, "sends")? })
}

/// Interfaces that have an Ethernet address, out of `ip -o link` or `ifconfig -a`. Of several those
/// count that are not made upon another one, as a VLAN is, whose packets are the other one's, too.
fn with_address(listing: &str, sought: &str) -> Vec<String> {
    let mut found: Vec<(String, bool)> = Vec::new();
    let (mut current, mut is_upon) = ("", false);
    for line in listing.lines() {
        if let Some((number, rest)) = line.split_once(": ")
            && is_number(number)
        {
            // `2: eth0@if3: <…> … link/ether 02:…`; `@if3` is the other end of a veth elsewhere.
            let name = rest.split(':').next().unwrap_or_default();
            let (name, parent) = name.split_once('@').unwrap_or((name, ""));
            let is_elsewhere = parent.strip_prefix("if").is_some_and(is_number);
            (current, is_upon) = (name, !parent.is_empty() && !is_elsewhere);
        } else if !line.starts_with(char::is_whitespace) {
            // `igb0: flags=…`, with its address on a line of its own.
            (current, is_upon) = (line.split(':').next().unwrap_or_default(), false);
        }
        let mut words = line.split_whitespace();
        let is_kind = |word: &str| ["link/ether", "ether", "lladdr"].contains(&word);
        let address = words.find(|word| is_kind(word)).and_then(|_| words.next());
        if address.is_some_and(|address| address.eq_ignore_ascii_case(sought))
            && !current.is_empty()
        {
            found.push((current.to_owned(), is_upon));
        }
        // FreeBSD's and OpenBSD's words for what a VLAN is made upon.
        if ["parent interface: ", "parent: "].iter().any(|word| line.contains(word)) {
            found.iter_mut().filter(|entry| entry.0 == current).for_each(|entry| entry.1 = true);
        }
    }
    if found.len() > 1 {
        found.retain(|(_, is_upon)| !is_upon);
    }
    found.into_iter().map(|(name, _)| name).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl Device for Dut {
    fn host(&self) -> &dyn Host {
        &self.machine
    }

    fn counters(&self) -> Result<Counters, HostError> {
        let Ports { receives, sends } = self.ports()?;
        let mut counters = self.machine.interface_counters(&self.interfaces()?)?;
        let sum = |names: &[String], counter: &str| -> Option<u64> {
            let of = |name: &String| counters.get(name)?.get(counter).copied();
            names.iter().map(of).collect::<Option<Vec<u64>>>().map(|all| all.iter().sum())
        };
        let sums = [
            ("received_packets", receives, "rx_packets"),
            ("forwarded_packets", sends, "tx_packets"),
        ];
        let sums: BTreeMap<String, u64> = sums
            .into_iter()
            .filter(|(_, names, _)| !names.is_empty())
            .filter_map(|(name, names, counter)| Some((name.to_owned(), sum(names, counter)?)))
            .collect();
        counters.insert(PORTS.to_owned(), sums);
        Ok(counters)
    }

    fn interfaces(&self) -> Result<Vec<String>, HostError> {
        let Ports { receives, sends } = self.ports()?;
        let others = sends.iter().filter(|name| !receives.contains(name));
        Ok(receives.iter().chain(others).cloned().collect())
    }

    fn received(&self) -> Option<Selection> {
        let counts = self.machine.spec().system != weir_results::dut::System::Generic;
        let known = counts && !self.receives().is_empty();
        known.then(|| Selection::new(PORTS, &["received_packets"]))
    }

    fn forwarded(&self) -> Option<Selection> {
        let counts = self.machine.spec().system != weir_results::dut::System::Generic;
        let known = counts && !self.machine.spec().sends.is_empty();
        known.then(|| Selection::new(PORTS, &["forwarded_packets"]))
    }

    fn drops(&self) -> Vec<DropRule> {
        let spec = self.machine.spec();
        system::interface_drops(spec.system, self.receives(), self.sends())
    }

    fn online(&self) -> Result<(), HostError> {
        self.machine.connect()?;
        self.machine.online()
    }

    fn environment(&self) -> serde_json::Value {
        let spec = self.machine.spec();
        let names = match self.interfaces() {
            Ok(names) => names,
            Err(error) => return error.to_string().into(),
        };
        match system::environment(&self.machine, spec.system, &names) {
            Ok(value) => value,
            Err(error) => error.to_string().into(),
        }
    }

    fn feed(&self, line: &str, file: &Path, timeout: Duration) -> Result<Output, HostError> {
        self.machine.feed(line, file, timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_their_addresses() {
        let linux = "1: lo: <LOOPBACK,UP> mtu 65536 \\    link/loopback 00:00:00:00:00:00 brd 0\n\
                     2: eth0@if9: <UP> mtu 1500 \\    link/ether 02:00:00:00:00:0A brd f\n";
        let bsd = "igb0: flags=8863<UP,BROADCAST> metric 0 mtu 1500\n\
                   \tether 02:00:00:00:00:0a\n\
                   igb1: flags=8863<UP> mtu 1500\n\tlladdr 02:00:00:00:00:0b\n";
        let of = |text: &str, mac: &str| with_address(text, mac);
        assert_eq!(of(linux, "02:00:00:00:00:0a"), ["eth0"]);
        assert_eq!(of(bsd, "02:00:00:00:00:0a"), ["igb0"]);
        assert_eq!(of(bsd, "02:00:00:00:00:0b"), ["igb1"]);
        assert!(of(bsd, "02:00:00:00:00:0c").is_empty());
    }

    #[test]
    fn an_address_stands_for_its_interface_or_is_told() {
        let listing = "2: eth0: <UP> mtu 1500 \\    link/ether 02:00:00:00:00:0a brd f\n\
                       3: eth1: <UP> mtu 1500 \\    link/ether 02:00:00:00:00:0b brd f\n\
                       4: eth1.7@eth1: <UP> mtu 1500 \\    link/ether 02:00:00:00:00:0b brd f\n\
                       5: eth2: <UP> master br0 \\    link/ether 02:00:00:00:00:0d brd f\n\
                       6: br0: <UP> mtu 1500 \\    link/ether 02:00:00:00:00:0d brd f\n";
        let spec = |receives: &[&str], sends: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            (owned(receives), owned(sends))
        };
        let next_hops = ["02:00:00:00:00:0a".to_owned()];
        let found = |(receives, sends): (Vec<String>, Vec<String>)| {
            find(listing, (&receives, &sends), &next_hops)
        };
        let ports = found(spec(&[], &["02:00:00:00:00:0a", "eth1.7"])).unwrap();
        assert_eq!(
            (ports.receives.join(" "), ports.sends.join(" ")),
            ("eth0".into(), "eth0 eth1.7".into())
        );
        let error = found(spec(&["02:00:00:00:00:0c"], &[])).unwrap_err();
        assert!(error.contains("00:0c") && error.contains("`receives`"), "{error}");
        // A VLAN's packets are its parent's; a bridge and its member cannot be told apart.
        let ports = found(spec(&["eth0"], &["02:00:00:00:00:0b"])).unwrap();
        assert_eq!(ports.sends, ["eth1"]);
        let error = found(spec(&["eth0"], &["02:00:00:00:00:0d"])).unwrap_err();
        assert!(error.contains("eth2 and br0") && error.contains("`sends`"), "{error}");
        let shared = ["02:00:00:00:00:0d".to_owned()];
        let error = find(listing, (&[], &[]), &shared).unwrap_err();
        assert!(error.contains("eth2 and br0") && error.contains("`receives`"), "{error}");
        let bsd = "igb3: flags=8863<UP> mtu 1500\n\tether 02:00:00:00:00:0a\n\
                   vlan7: flags=8843<UP> mtu 1500\n\tether 02:00:00:00:00:0a\n\
                   \tvlan: 7 vlanproto: 802.1q vlanpcp: 0 parent interface: igb3\n";
        assert_eq!(with_address(bsd, "02:00:00:00:00:0a"), ["igb3"]);
    }
}
