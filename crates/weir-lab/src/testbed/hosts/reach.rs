//! The look at everything before the first run: what answers, what does not, and why.

use std::time::Duration;

use serde::Serialize;
use weir_machine::access::RemoteSpec;
use weir_machine::host::{Command, Host, HostError, Program};
use weir_machine::ssh::quote;
use weir_machine::switch::{self, SwitchRead};

use super::line;
use super::parts::Parts;
use crate::model::{DriverKind, EndSpec};

/// How long one look may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// What the machine is for: `generator`, `receiver`, `dut`, `reference`, `switch`.
    pub role: &'static str,
    /// Its name.
    pub machine: String,
    /// How it is reached.
    pub at: String,
    /// What was looked at: `ssh`, `program`, `interface`, `online`, `counters`.
    pub what: &'static str,
    /// Whether it is as it has to be.
    pub passed: bool,
    /// What was seen, or what is wrong and what to do.
    pub detail: String,
}

/// Looks at everything. A DUT that weir configures before it has to forward anything need not be
/// configured now.
pub(super) fn look(parts: &Parts, is_configured_first: bool) -> Vec<Reach> {
    let spec = &parts.spec;
    let mut table = Table::default();
    for (host, end) in parts.generators.iter().zip(&spec.generators) {
        table.end("generator", host.as_ref(), end);
    }
    table.end("receiver", parts.receiver.as_ref(), &spec.receiver);
    if let (Some(host), Some(remote)) = (&parts.reference, &spec.reference) {
        table.ssh("reference", host.as_ref(), remote);
    }
    table.device(parts, is_configured_first);
    for one in &spec.switches {
        let at = match &one.read {
            SwitchRead::Snmp { host } => host.clone(),
            SwitchRead::Command { .. } => "command".to_owned(),
        };
        let read = switch::read(one, parts.manager.as_ref());
        let seen = read.map(|counters| {
            let shown = counters.iter().map(|(name, value)| format!("{name} {value}"));
            shown.collect::<Vec<_>>().join(", ")
        });
        table.row("switch", (&one.name, at), "counters", seen);
    }
    table.0
}

#[derive(Default)]
struct Table(Vec<Reach>);

impl Table {
    fn row(
        &mut self,
        role: &'static str,
        (machine, at): (&str, String),
        what: &'static str,
        seen: Result<String, String>,
    ) -> bool {
        let (passed, detail) = match seen {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        let machine = machine.to_owned();
        self.0.push(Reach { role, machine, at, what, passed, detail });
        passed
    }

    /// Whether the machine answers. What is not reached is not looked at further.
    fn ssh(&mut self, role: &'static str, host: &dyn Host, remote: &RemoteSpec) -> bool {
        let seen = run(host, "uname -sr").and_then(|output| first_line(&output));
        self.row(role, (&remote.name, destination(remote)), "ssh", seen)
    }

    fn end(&mut self, role: &'static str, host: &dyn Host, end: &EndSpec) {
        if !self.ssh(role, host, &end.remote) {
            return;
        }
        let of = || (end.remote.name.as_str(), destination(&end.remote));
        if end.driver.start.is_none() {
            let seen = program(host, end);
            self.row(role, of(), "program", seen);
        }
        let seen = interface(host, &end.interface).map_err(Interface::message);
        self.row(role, of(), "interface", seen);
    }

    fn device(&mut self, parts: &Parts, is_configured_first: bool) {
        let (spec, device) = (&parts.spec.dut, &parts.device);
        if !self.ssh("dut", device.host(), &spec.remote) {
            return;
        }
        let of = || (spec.remote.name.as_str(), destination(&spec.remote));
        if is_configured_first {
            let seen = "is checked once it has its configuration".to_owned();
            self.row("dut", of(), "online", Ok(seen));
        } else {
            let online = device.online().map(|()| "it is".to_owned());
            self.row("dut", of(), "online", online.map_err(|error| error.what));
        }
        match device.interfaces() {
            Ok(names) => {
                for name in &names {
                    let seen = match (interface(device.host(), name), is_configured_first) {
                        (Err(Interface::Down(why)), true) => {
                            Ok(format!("{why}, unless its configuration does so"))
                        }
                        (seen, _) => seen.map_err(Interface::message),
                    };
                    self.row("dut", of(), "interface", seen);
                }
            }
            Err(error) => {
                self.row("dut", of(), "interface", Err(error.what));
                return;
            }
        }
        let counted = device.counters().map_err(|error| error.what).and_then(|counters| {
            let points = [device.received(), device.forwarded()];
            let missing = points.iter().flatten().find(|point| point.sum(&counters).is_none());
            if let Some(missing) = missing {
                let what = missing.describe();
                return Err(format!("no counter gives {what}: are `receives` and `sends` right?"));
            }
            Ok(match points {
                [Some(_), Some(_)] => "what comes in and what leaves".to_owned(),
                [Some(_), None] => "what comes in; what leaves is not known: no `sends`".to_owned(),
                [None, Some(_)] => {
                    "what leaves; no interface has the generators' `next_hop_mac`".to_owned()
                }
                [None, None] => "none: what does not arrive is taken for its loss".to_owned(),
            })
        });
        self.row("dut", of(), "counters", counted);
    }
}

fn destination(remote: &RemoteSpec) -> String {
    remote.ssh.clone().unwrap_or_else(|| "this machine".to_owned())
}

fn run(host: &dyn Host, line: &str) -> Result<String, String> {
    let program = Program::Shell(line);
    let command = Command { program, stdin: "", timeout: TIMEOUT, cancellable: true };
    match host.run(&command) {
        Ok(output) if output.success() => Ok(output.stdout),
        Ok(output) => Err(output.said().to_owned()),
        Err(HostError { what, .. }) => Err(what),
    }
}

fn first_line(text: &str) -> Result<String, String> {
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.map(|line| line.trim().to_owned()).ok_or_else(|| "it answered nothing".to_owned())
}

fn program(host: &dyn Host, end: &EndSpec) -> Result<String, String> {
    let program = line::program(end);
    let found = run(host, &format!("command -v {program}"));
    let path = found.and_then(|text| first_line(&text)).map_err(|_| {
        format!(
            "`{program}` is not in PATH there: install it, or name it in `program` with its path"
        )
    })?;
    if end.driver.kind != DriverKind::Weir {
        return Ok(path);
    }
    let version = run(host, &format!("{program} --version")).map_err(|said| {
        format!("`{program} --version` fails: {said}: is it built for that machine?")
    })?;
    Ok(format!("{path}, {}", first_line(&version)?))
}

/// Why an interface cannot be used.
enum Interface {
    Missing(String),
    Down(String),
}

impl Interface {
    fn message(self) -> String {
        match self {
            Self::Missing(why) | Self::Down(why) => why,
        }
    }
}

/// Whether an interface is there, on Linux and the BSDs.
fn interface(host: &dyn Host, name: &str) -> Result<String, Interface> {
    let name = name.strip_prefix("netmap:").unwrap_or(name);
    let name = quote(name);
    let line = format!(
        "if command -v ip >/dev/null 2>&1; then ip link show dev {name}; else ifconfig {name}; fi"
    );
    let shown = run(host, &line).map_err(|said| {
        Interface::Missing(format!(
            "{said}: there is no interface {name}; `ip link` or `ifconfig` lists them"
        ))
    })?;
    let first = first_line(&shown).map_err(Interface::Missing)?;
    let flags = first.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    match flags {
        Some((flags, _)) if !flags.split(',').any(|flag| flag == "UP") => Err(Interface::Down(
            format!("{name} is down: `ip link set dev {name} up` or `ifconfig {name} up`"),
        )),
        _ => Ok(format!("{name} is up")),
    }
}
