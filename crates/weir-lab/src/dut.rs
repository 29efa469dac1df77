//! What is measured: drivers that configure a DUT, see that it is ready, prove that its
//! configuration took effect, read its counters and stop it.
//!
//! A driver talks to its machine through [`Host`] alone, so it runs on any testbed. It never
//! touches the generator, the sink or a device of the testbed.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_machine::cancel::Cancel;
use weir_machine::host::{Host, HostError};
use weir_results::counters::{Counters, DropRule};
use weir_results::dut::{Dut, DutKind};
use weir_results::record::Check;
use weir_wire::stream::StreamSpec;

mod command;
mod conntrack;
mod linux;
mod nftables;
pub(crate) mod pair;
mod tree;
mod weir_command;
mod weir_fw;

/// A configured device under test. The methods are called in the order in which they stand here.
pub trait DutDriver {
    /// Puts the configuration in place.
    ///
    /// # Errors
    /// [`DutError::Configuration`] when the configuration itself is at fault.
    fn prepare(&mut self, host: &dyn Host) -> Result<(), DutError>;

    /// Whether what [`DutDriver::prepare`] put there takes effect when the machine boots: it is
    /// started afresh after that, and not before.
    fn configured_by_boot(&self) -> bool {
        false
    }

    /// Starts it.
    ///
    /// # Errors
    /// As [`DutDriver::prepare`].
    fn start(&mut self, host: &dyn Host) -> Result<(), DutError>;

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// [`DutError::NotReady`] when it does not in its time.
    fn ready(&mut self, host: &dyn Host, cancel: &Cancel) -> Result<(), DutError>;

    /// Whether every flow should be sent once, slowly, before the measurement, because the DUT
    /// keeps a state per flow.
    fn keeps_flows(&self) -> bool;

    /// Checks, after each flow was sent once, that the DUT knows as many as there are; `None`
    /// where it has no such number.
    ///
    /// # Errors
    /// When the host cannot be asked.
    fn flows(&self, host: &dyn Host) -> Result<Option<u64>, DutError>;

    /// How many of a stream's flows the DUT keeps apart, once each of them was sent; or why that
    /// cannot be said, in words.
    ///
    /// # Errors
    /// The reason.
    fn flows_of(&self, spec: &StreamSpec) -> Result<u64, String>;

    /// The setting that limits how many flows the DUT can know, in words; `None` where it has no
    /// such limit.
    ///
    /// # Errors
    /// When the host cannot be asked.
    fn flow_limit(&self, host: &dyn Host) -> Result<Option<String>, DutError>;

    /// The measurement begins, and takes so long.
    ///
    /// # Errors
    /// When what is to happen in it cannot be prepared.
    fn measuring(&mut self, _host: &dyn Host, _duration: Duration) -> Result<(), DutError> {
        Ok(())
    }

    /// Whether another box takes over in the middle of the measurement.
    fn is_taken_over(&self) -> bool {
        false
    }

    /// Its own counters.
    ///
    /// # Errors
    /// When they cannot be read.
    fn counters(&self, host: &dyn Host) -> Result<Counters, DutError>;

    /// Its named losses. They lie between the device that received and the device that sends: what
    /// the DUT forwarded is counted there, because where a stack counts it differs between
    /// kernels, and a program that bypasses the stack is not counted by it at all.
    fn drops(&self) -> Vec<DropRule>;

    /// Losses of the testbed, by name, that are also among its own, which say more of them.
    fn names_drops_of(&self) -> &'static [&'static str] {
        &[]
    }

    /// Sizes and numbers that it has after a run and that say what it takes: states, bytes of a
    /// table. None where it tells none.
    ///
    /// # Errors
    /// When the host cannot be asked.
    fn levels(&self, _host: &dyn Host) -> Result<BTreeMap<String, u64>, DutError> {
        Ok(BTreeMap::new())
    }

    /// Whether nothing but its devices can be counted: what goes in and does not come out is then
    /// a loss of the DUT, although no counter names it.
    fn is_opaque(&self) -> bool;

    /// Checks, from the counters of a run, that the configuration took effect.
    ///
    /// # Errors
    /// When the host cannot be asked.
    fn took_effect(&mut self, host: &dyn Host, run: &Counters) -> Result<Vec<Check>, DutError>;

    /// Stops it.
    ///
    /// # Errors
    /// When it cannot be stopped.
    fn stop(&mut self, host: &dyn Host) -> Result<(), DutError>;
}

/// The driver for a DUT of the specification.
#[must_use]
pub fn driver(dut: &Dut) -> Box<dyn DutDriver> {
    match &dut.kind {
        DutKind::Linux { sysctls, nft } => {
            Box::new(linux::Linux::new(&dut.name, sysctls.clone(), nft.clone()))
        }
        DutKind::Command { .. } => Box::new(command::CommandDut::new(dut)),
        DutKind::WeirFw { .. } => Box::new(weir_fw::WeirFw::new(dut)),
        DutKind::Tree { system, sysctls, tree, check } => Box::new(tree::TreeDut::new(
            &dut.name,
            *system,
            sysctls.clone(),
            tree.clone(),
            check.clone(),
        )),
    }
}

/// What went wrong with a DUT.
#[derive(Debug, thiserror::Error)]
pub enum DutError {
    /// The configuration is at fault: it would fail in every trial.
    #[error("DUT `{dut}`: {what}")]
    Configuration {
        /// Its name.
        dut: String,
        /// What does not work, with file and line where there are some.
        what: String,
    },
    /// It did not get ready.
    #[error("DUT `{dut}` did not get ready: {what}")]
    NotReady {
        /// Its name.
        dut: String,
        /// What was asked, and what it said last.
        what: String,
    },
    /// Its host failed.
    #[error("DUT `{dut}`: {source}")]
    Host {
        /// Its name.
        dut: String,
        /// The cause.
        source: HostError,
    },
    /// The run was cancelled while it was waited for.
    #[error("cancelled")]
    Cancelled,
}

impl DutError {
    fn host(dut: &str) -> impl FnOnce(HostError) -> Self {
        let dut = dut.to_owned();
        move |source| Self::Host { dut, source }
    }
}

/// Applies kernel settings and reads them back.
fn apply_sysctls(
    dut: &str,
    host: &dyn Host,
    sysctls: &BTreeMap<String, String>,
) -> Result<(), DutError> {
    for (name, value) in sysctls {
        host.set_sysctl(name, value).map_err(|e| DutError::Configuration {
            dut: dut.to_owned(),
            what: format!("sysctl {name} = {value}: {}", e.what),
        })?;
    }
    Ok(())
}

/// Checks that kernel settings still are what was asked for.
fn check_sysctls(
    dut: &str,
    host: &dyn Host,
    sysctls: &BTreeMap<String, String>,
) -> Result<Vec<Check>, DutError> {
    sysctls
        .iter()
        .map(|(name, configured)| {
            let seen = host.sysctl(name).map_err(DutError::host(dut))?;
            let same = seen.split_whitespace().eq(configured.split_whitespace());
            Ok(Check {
                name: format!("sysctl {name}"),
                passed: same,
                detail: if same {
                    format!("is {seen}")
                } else {
                    format!("is {seen}, not {configured}")
                },
            })
        })
        .collect()
}
