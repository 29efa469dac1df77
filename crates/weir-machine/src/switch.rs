//! Counters of switches, read by `snmpget` or a command of the manager.
//!
//! Community and keys for SNMP come out of net-snmp's own configuration (`~/.snmp/snmp.conf`:
//! `defVersion`, `defCommunity`, …): they stand neither in a specification nor on a command line.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::host::{Command, Host, Output, Program};

/// A switch: counters that are nobody's who sends, forwards or receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSpec {
    /// Name in messages and in the ledger.
    pub name: String,
    /// How its counters are read.
    pub read: SwitchRead,
    /// For each place between the machines, where its count is found: an object identifier for
    /// SNMP, a pattern whose first group is the number for a command.
    pub counters: Vec<(SwitchPlace, String)>,
}

/// How a switch is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum SwitchRead {
    /// `snmpget` on the manager. Community and keys come out of net-snmp's own `snmp.conf`.
    Snmp {
        /// Address of the switch.
        host: String,
    },
    /// A shell line of the manager that prints the counters.
    Command {
        /// The shell line.
        command: String,
    },
}

/// Where a switch counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchPlace {
    /// Frames that came from the generators.
    FromGenerator,
    /// Frames that went to the DUT.
    ToDut,
    /// Frames that came from the DUT.
    FromDut,
    /// Frames that went to the receiver.
    ToReceiver,
}

impl SwitchPlace {
    /// Every place, in the order of a packet's way.
    pub const ALL: [Self; 4] = [Self::FromGenerator, Self::ToDut, Self::FromDut, Self::ToReceiver];

    /// Its name in specifications and counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FromGenerator => "from_generator",
            Self::ToDut => "to_dut",
            Self::FromDut => "from_dut",
            Self::ToReceiver => "to_receiver",
        }
    }

    /// The counting point of the ledger that it stands beside.
    #[must_use]
    pub fn point(self) -> &'static str {
        match self {
            Self::FromGenerator => "accepted",
            Self::ToDut => "dut_received",
            Self::FromDut => "dut_forwarded",
            Self::ToReceiver => "delivered",
        }
    }
}

/// How long a switch may take to answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Reads every counter of a switch, from the manager.
pub fn read(switch: &SwitchSpec, manager: &dyn Host) -> Result<BTreeMap<String, u64>, String> {
    let run = |program| {
        let command = Command { program, stdin: "", timeout: TIMEOUT, cancellable: true };
        manager.run(&command).map_err(|error| error.what)
    };
    let counted = match &switch.read {
        SwitchRead::Snmp { host } => {
            // -Oqv prints values alone, one a line, in the order in which they were asked for.
            let mut argv = vec!["snmpget", "-Oqv", host.as_str()];
            argv.extend(switch.counters.iter().map(|(_, object)| object.as_str()));
            let output = run(Program::Arguments(&argv));
            output.and_then(|output| values(switch, &succeeded("snmpget", output)?))
        }
        SwitchRead::Command { command } => {
            let output = run(Program::Shell(command));
            output.and_then(|output| found(switch, &succeeded(command, output)?))
        }
    };
    counted.map_err(|why| {
        let next = match &switch.read {
            SwitchRead::Snmp { host } => format!(
                "try `snmpget {host} OBJECT` on the manager: version and community come out of \
                 ~/.snmp/snmp.conf"
            ),
            SwitchRead::Command { command } => {
                format!("run `{command}` on the manager, and check the patterns against its output")
            }
        };
        format!("reading its counters: {why}; {next}")
    })
}

fn succeeded(what: &str, output: Output) -> Result<String, String> {
    let said = match output.said() {
        "" => "it says nothing".to_owned(),
        said => format!("it says: {said}"),
    };
    match output.exit_code {
        Some(0) => Ok(output.stdout),
        Some(127) => Err(format!("`{what}` is not on the manager: install it; {said}")),
        Some(code) => Err(format!("`{what}` ended with exit code {code}; {said}")),
        None => Err(format!("`{what}` was killed; {said}")),
    }
}

/// The values that snmpget printed.
fn values(switch: &SwitchSpec, text: &str) -> Result<BTreeMap<String, u64>, String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.len() != switch.counters.len() {
        let (asked, got) = (switch.counters.len(), lines.len());
        return Err(format!("snmpget was asked for {asked} objects and printed {got} lines"));
    }
    let value = |((place, object), line): (&(SwitchPlace, String), &&str)| {
        let number = line.parse().map_err(|_| format!("{object} is `{line}`, not a number"));
        Ok((place.name().to_owned(), number?))
    };
    switch.counters.iter().zip(&lines).map(value).collect()
}

/// What the patterns find in what a command printed.
fn found(switch: &SwitchSpec, text: &str) -> Result<BTreeMap<String, u64>, String> {
    let value = |(place, pattern): &(SwitchPlace, String)| {
        let name = place.name();
        let regex = Regex::new(pattern).map_err(|e| format!("`{name}`: {e}"))?;
        let group = regex.captures(text).and_then(|groups| groups.get(1));
        let Some(group) = group else {
            return Err(format!("`{name}`: `{pattern}` matches nothing of what was printed"));
        };
        let digits: String = group.as_str().chars().filter(|c| *c != ',').collect();
        let number = digits.parse().map_err(|_| {
            format!("`{name}`: `{pattern}` found `{}`, which is not a number", group.as_str())
        });
        Ok((name.to_owned(), number?))
    };
    switch.counters.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Cancel;
    use crate::ssh::{Secrets, SshHost};

    fn switch(read: SwitchRead, counters: &[(SwitchPlace, &str)]) -> SwitchSpec {
        let counters = counters.iter().map(|(place, at)| (*place, (*at).to_owned())).collect();
        SwitchSpec { name: "sw".into(), read, counters }
    }

    #[test]
    fn snmpgets_values_are_in_the_order_of_the_question() {
        let objects = [
            (SwitchPlace::FromGenerator, "IF-MIB::ifHCInUcastPkts.5"),
            (SwitchPlace::ToReceiver, "IF-MIB::ifHCOutUcastPkts.6"),
        ];
        let switch = switch(SwitchRead::Snmp { host: "sw".into() }, &objects);
        let read = values(&switch, "1000\n 990\n").unwrap();
        assert_eq!((read["from_generator"], read["to_receiver"]), (1000, 990));
        let error = values(&switch, "1000\nNo Such Instance currently exists\n").unwrap_err();
        assert!(error.contains("IF-MIB::ifHCOutUcastPkts.6"), "{error}");
        assert!(values(&switch, "1000\n").unwrap_err().contains("2 objects"));
    }

    #[test]
    fn a_commands_counters_are_found_by_their_patterns() {
        let patterns = [(SwitchPlace::ToDut, r"port2\s+tx ([0-9,]+)")];
        let switch = switch(SwitchRead::Command { command: "show".into() }, &patterns);
        let read = found(&switch, "port1 tx 5\nport2   tx 1,234\n").unwrap();
        assert_eq!(read["to_dut"], 1234);
        assert!(found(&switch, "port1 tx 5\n").unwrap_err().contains("matches nothing"));
    }

    #[test]
    fn what_fails_says_what_to_try() {
        let manager = SshHost::manager(&Secrets::default(), &Cancel::default());
        let patterns = [(SwitchPlace::ToDut, "tx ([0-9]+)")];
        let cases = [
            ("exit 3", "ended with exit code 3; it says nothing"),
            ("echo refused >&2; exit 3", "it says: refused"),
            ("no-such-tool", "is not on the manager: install it"),
            ("echo rx 5", "matches nothing"),
        ];
        for (line, why) in cases {
            let switch = switch(SwitchRead::Command { command: line.to_owned() }, &patterns);
            let error = read(&switch, &manager).unwrap_err();
            for part in ["reading its counters", why, &format!("run `{line}` on the manager")] {
                assert!(error.contains(part), "{part:?} is not in: {error}");
            }
        }
    }
}
