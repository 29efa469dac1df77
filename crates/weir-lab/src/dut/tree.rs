//! The DUT kinds `freebsd`, `openbsd` and `generic`: a machine that configures itself when it
//! boots, by a tree of files that was laid over its root.
//!
//! What its network stack and its firewalls (pf, ipfw, nftables' counters through the stack) drop
//! is named; what goes in and does not come out beside that is lost inside it, because no system
//! counts all that it loses. This module never touches the machine but through [`Host`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, Program};
use weir_machine::ssh::system;
use weir_results::counters::{Counters, DropRule};
use weir_results::dut::{System, Tree};
use weir_results::record::Check;
use weir_wire::stream::StreamSpec;

use super::{DutDriver, DutError, apply_sysctls, check_sysctls, linux};

/// How long the configuration may take to be in effect once the machine is online: a ruleset of
/// some 100,000 rules is loaded.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);
const CHECK_POLL: Duration = Duration::from_millis(500);
/// How long a question may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A driver for a machine that configures itself.
#[derive(Debug)]
pub(super) struct TreeDut {
    name: String,
    system: System,
    sysctls: BTreeMap<String, String>,
    tree: Option<Tree>,
    check: Option<String>,
    /// Whether its firewall keeps states: known once it is up.
    keeps_states: bool,
}

impl TreeDut {
    pub(super) fn new(
        name: &str,
        system: System,
        sysctls: BTreeMap<String, String>,
        tree: Option<Tree>,
        check: Option<String>,
    ) -> Self {
        let name = name.to_owned();
        Self { name, system, sysctls, tree, check, keeps_states: false }
    }

    fn ask(&self, host: &dyn Host, line: &str) -> Result<(bool, String), DutError> {
        let command = Command {
            program: Program::Shell(line),
            stdin: "",
            timeout: TIMEOUT,
            cancellable: true,
        };
        let output = host.run(&command).map_err(DutError::host(&self.name))?;
        Ok((output.success(), output.said().to_owned()))
    }

    /// Runs the specification's check; what it said if it failed.
    fn failed_check(&self, host: &dyn Host) -> Result<Option<String>, DutError> {
        let Some(line) = &self.check else { return Ok(None) };
        let (passed, said) = self.ask(host, line)?;
        let said = if said.is_empty() { "nothing".to_owned() } else { said };
        Ok((!passed).then(|| format!("`{line}` fails there; it says: {said}")))
    }
}

impl DutDriver for TreeDut {
    fn prepare(&mut self, host: &dyn Host) -> Result<(), DutError> {
        let runs = host.system().map_err(DutError::host(&self.name))?;
        if self.system != System::Generic && runs != self.system {
            return Err(DutError::Configuration {
                dut: self.name.clone(),
                what: format!(
                    "it is of the kind \"{}\", but the machine runs {}; correct one of them",
                    self.system.name(),
                    runs.name()
                ),
            });
        }
        match &self.tree {
            Some(tree) => host.upload(tree).map_err(DutError::host(&self.name)),
            None => Ok(()),
        }
    }

    fn configured_by_boot(&self) -> bool {
        true
    }

    fn start(&mut self, host: &dyn Host) -> Result<(), DutError> {
        apply_sysctls(&self.name, host, &self.sysctls)
    }

    fn ready(&mut self, host: &dyn Host, cancel: &Cancel) -> Result<(), DutError> {
        let deadline = Instant::now() + CHECK_TIMEOUT;
        while let Some(what) = self.failed_check(host)? {
            if Instant::now() >= deadline {
                return Err(DutError::NotReady { dut: self.name.clone(), what });
            }
            if !cancel.sleep(CHECK_POLL) {
                return Err(DutError::Cancelled);
            }
        }
        self.keeps_states =
            system::keeps_states(host, self.system).map_err(DutError::host(&self.name))?;
        Ok(())
    }

    fn keeps_flows(&self) -> bool {
        self.keeps_states
    }

    fn flows(&self, host: &dyn Host) -> Result<Option<u64>, DutError> {
        system::states(host, self.system).map_err(DutError::host(&self.name))
    }

    fn flows_of(&self, _spec: &StreamSpec) -> Result<u64, String> {
        Err("a firewall may keep one state for a flow or two, as its rules say".to_owned())
    }

    fn flow_limit(&self, host: &dyn Host) -> Result<Option<String>, DutError> {
        system::state_limit(host, self.system).map_err(DutError::host(&self.name))
    }

    fn counters(&self, host: &dyn Host) -> Result<Counters, DutError> {
        let mut counters = host.stack_counters().map_err(DutError::host(&self.name))?;
        let firewalls = system::firewalls(host, self.system);
        counters.extend(firewalls.map_err(DutError::host(&self.name))?);
        Ok(counters)
    }

    fn drops(&self) -> Vec<DropRule> {
        match self.system {
            System::Linux => linux::stack_drops(),
            other => system::stack_drops(other),
        }
    }

    fn levels(&self, host: &dyn Host) -> Result<BTreeMap<String, u64>, DutError> {
        let states = system::states(host, self.system).map_err(DutError::host(&self.name))?;
        Ok(states.map(|states| ("states".to_owned(), states)).into_iter().collect())
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn took_effect(&mut self, host: &dyn Host, run: &Counters) -> Result<Vec<Check>, DutError> {
        let mut checks = check_sysctls(&self.name, host, &self.sysctls)?;
        if let Some(line) = self.check.clone() {
            let failed = self.failed_check(host)?;
            checks.push(Check {
                name: "configuration".to_owned(),
                passed: failed.is_none(),
                detail: failed.unwrap_or_else(|| format!("`{line}` ends with 0")),
            });
        }
        for firewall in ["pf", "ipfw"] {
            let Some(counters) = run.get(firewall) else { continue };
            let moved = counters.iter().find(|&(name, &packets)| {
                packets > 0 && (name.starts_with("rule_") || name == "states_searches")
            });
            checks.push(Check {
                name: format!("{firewall}-counters"),
                passed: moved.is_some(),
                detail: match moved {
                    Some((name, packets)) => format!("{name} rose by {packets}"),
                    None => format!(
                        "{firewall} is enabled, but none of its rules and states met a packet of \
                         the run: the traffic goes another way"
                    ),
                },
            });
        }
        Ok(checks)
    }

    fn stop(&mut self, _host: &dyn Host) -> Result<(), DutError> {
        Ok(())
    }
}
