//! The testbed kind `hosts`: generators, DUT and receiver are machines behind SSH.
//!
//! ```text
//!   manager (this machine)
//!     │ ssh          │ ssh            │ ssh              │ snmpget, a command
//!   generator ─────► DUT ───────────► receiver           switch between them
//! ```
//!
//! There is no path without the DUT, so nothing is calibrated: verdicts refer to the stated rate of
//! the links, or say that it is not known. Each trial begins with a look at every machine but the
//! DUT: one that cannot be reached ends the campaign, which is resumed when it is back. A DUT that
//! is gone, or a program that ends by itself, voids its trial, and the campaign goes on.
//!
//! This module never repeats a trial, and never compares the clocks of two machines.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_machine::cancel::Cancel;
use weir_machine::digest::Reader;
use weir_machine::host::{Command, Host, Program};
use weir_machine::ssh::Secrets;
use weir_machine::switch::{SwitchPlace, SwitchSpec};
use weir_results::dut::{DutKind, System};
use weir_results::matrix::Series;
use weir_results::record::Check;
use weir_results::traffic::Traffic;

use super::{Rig, Testbed, TestbedError, Topology, Traces};
use crate::material::{self, Material, MaterialFile};
use crate::model::{DriverKind, HostsSpec, Image, Plan, TestbedSpec};

mod activity;
mod connections;
mod device;
mod feed;
mod image;
mod line;
mod lines;
mod machines;
mod pair;
mod parts;
mod program;
mod reach;
mod requests;
mod rig;
mod variables;

#[cfg(test)]
mod tests;

pub use reach::Reach;

use image::{By, Expected, Failure};
use parts::Parts;
use rig::HostsRig;
use weir_machine::awake::{self, Clocks, ReadClocks};

/// How often an image is installed in one block of a campaign, which may take an hour each time.
const INSTALL_ATTEMPTS_MAX: u32 = 2;
/// How long a machine may take to say that it is there.
const THERE_TIMEOUT: Duration = Duration::from_secs(30);

/// The testbed: machines that are or will be connected.
pub struct HostsTestbed {
    parts: Rc<Parts>,
    images: Vec<Image>,
    /// The DUT gets an image or a configuration tree before it has to forward anything.
    is_configured_first: bool,
    /// The SHA-256 of files that the campaign began with, by image, where the specification says
    /// none.
    began: RefCell<BTreeMap<String, String>>,
    /// Where the paths of images begin.
    folder: PathBuf,
    sample: Duration,
    cancel: Cancel,
    /// The image that the next trial needs, and the one that runs.
    next: RefCell<Option<String>>,
    installed: RefCell<Option<String>>,
    /// The next trial has a profile.
    profile: Cell<bool>,
    /// The image of this block could not be installed.
    failed: RefCell<Option<Failed>>,
    clocks: ReadClocks,
    built: Cell<Option<Clocks>>,
}

/// An image that could not be installed.
struct Failed {
    image: String,
    attempt_count: u32,
    why: String,
}

impl std::fmt::Debug for HostsTestbed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostsTestbed").field("spec", &self.parts.spec).finish_non_exhaustive()
    }
}

/// Whether this host has what a specification asks of it: the secrets in the environment, and the
/// files of the images that its cells run.
///
/// # Errors
/// The first that is missing.
pub fn check(spec: &HostsSpec, plan: &Plan, folder: &Path) -> Result<(), TestbedError> {
    Secrets::from_env(&spec.secrets).map_err(TestbedError::new)?;
    for image in material::images_of(plan, &plan.cells) {
        let (Some(file), Some(_)) = (&image.file, &image.install) else { continue };
        let path = folder.join(file);
        File::open(&path).map_err(|error| cannot_read(image, &path, &error))?;
    }
    Ok(())
}

fn cannot_read(image: &Image, path: &Path, error: &dyn Display) -> TestbedError {
    TestbedError::new(format!(
        "image {}: reading {}: {error}; put the file there, or correct `file`",
        image.name,
        path.display()
    ))
}

impl HostsTestbed {
    /// A testbed of the machines that `spec` names; `folder` is that of the specification. Nothing
    /// is connected yet.
    ///
    /// # Errors
    /// When a secret is not in the environment, or this machine has no place for what it needs.
    pub fn new(
        spec: &HostsSpec,
        plan: &Plan,
        folder: &Path,
        cancel: &Cancel,
    ) -> Result<Self, TestbedError> {
        let parts = machines::open(spec, cancel)?;
        Ok(Self::with(Rc::new(parts), plan, folder, cancel))
    }

    fn with(parts: Rc<Parts>, plan: &Plan, folder: &Path, cancel: &Cancel) -> Self {
        Self {
            parts,
            images: plan.images.clone(),
            is_configured_first: !plan.images.is_empty()
                || plan
                    .series
                    .iter()
                    .all(|series| matches!(&series.dut.kind, DutKind::Tree { tree: Some(_), .. })),
            began: RefCell::default(),
            folder: folder.to_owned(),
            sample: plan.trial.sample,
            cancel: cancel.clone(),
            next: RefCell::new(None),
            installed: RefCell::new(None),
            profile: Cell::new(false),
            failed: RefCell::default(),
            clocks: Box::new(awake::read),
            built: Cell::new(None),
        }
    }

    /// Looks at everything that a trial needs, one row each.
    #[must_use]
    pub fn look(&self) -> Vec<Reach> {
        reach::look(&self.parts, self.is_configured_first)
    }

    /// Asks every machine but the DUT whether it is there.
    fn all_there(&self) -> Result<(), TestbedError> {
        for (role, host) in self.parts.helpers() {
            let command = Command {
                program: Program::Shell("true"),
                stdin: "",
                timeout: THERE_TIMEOUT,
                cancellable: true,
            };
            // A connection that died unnoticed, as that of a machine that slept, is opened anew.
            let answer = host.run(&command).or_else(|_| host.run(&command));
            answer.map_err(|error| {
                TestbedError::new(format!(
                    "{role} {} does not answer: {}; finished iterations are kept: when it is \
                     back, continue with `weir lab resume`",
                    host.name(),
                    error.what
                ))
            })?;
        }
        Ok(())
    }

    /// Starts a DUT afresh that does not answer: it may have died in the last trial, which says
    /// nothing of the next image.
    fn awaken(&self) -> Result<(), TestbedError> {
        let host = self.parts.device.host();
        let command = Command {
            program: Program::Shell("true"),
            stdin: "",
            timeout: THERE_TIMEOUT,
            cancellable: true,
        };
        match host.run(&command).or_else(|_| host.run(&command)) {
            Err(error) if error.is_gone() => host
                .fresh()
                .map_err(|error| TestbedError::voids_trial(format!("DUT gone: {error}"))),
            _ => Ok(()),
        }
    }

    fn install(&self, image: &Image) -> Result<(), Failure> {
        let began = self.began.borrow();
        let expected = match &image.sha256 {
            Some(stated) => Some(Expected { sha256: stated, by: By::Specification }),
            None => began.get(&image.name).map(|sha256| Expected { sha256, by: By::Campaign }),
        };
        image::install(image, &self.folder, &self.parts, expected, &self.cancel)
    }

    /// Gets the image of the next trial onto the DUT.
    fn image(&self) -> Result<(), TestbedError> {
        let next = self.next.borrow().clone();
        let Some(name) = next.filter(|name| self.installed.borrow().as_ref() != Some(name)) else {
            return Ok(());
        };
        let Some(image) = self.images.iter().find(|image| image.name == name) else {
            return Err(TestbedError::new(format!("there is no image {name}")));
        };
        self.awaken()?;
        // Another image was asked for meanwhile: this is another block, and tries anew.
        let earlier = self.failed.take().filter(|failed| failed.image == name);
        let attempt_count = earlier.as_ref().map_or(0, |failed| failed.attempt_count);
        let why = match earlier {
            Some(failed) if attempt_count >= INSTALL_ATTEMPTS_MAX => failed.why,
            _ => match self.install(image) {
                Ok(()) => {
                    *self.installed.borrow_mut() = Some(name);
                    return Ok(());
                }
                Err(Failure::Replaced(what)) => return Err(TestbedError::new(what)),
                Err(Failure::Installation(why)) => why,
            },
        };
        let attempt_count = (attempt_count + 1).min(INSTALL_ATTEMPTS_MAX);
        let next = match attempt_count < INSTALL_ATTEMPTS_MAX {
            true => "the next cell tries again".to_owned(),
            false => format!(
                "it was tried {attempt_count} times, and is not tried again for the rest of this \
                 block; `weir lab resume` tries it again for cells that are not finished, and with \
                 `-n` for more iterations"
            ),
        };
        let error = TestbedError::voids_trial(format!("{why}; {next}"));
        // What runs now is uncertain.
        *self.installed.borrow_mut() = None;
        *self.failed.borrow_mut() = Some(Failed { image: name, attempt_count, why });
        Err(error)
    }
}

impl Testbed for HostsTestbed {
    fn environment(&self) -> Value {
        let about = |host: &Rc<dyn Host>| {
            let command = Command {
                program: Program::Shell("uname -a"),
                stdin: "",
                timeout: THERE_TIMEOUT,
                cancellable: true,
            };
            match host.run(&command) {
                Ok(output) => output.said().to_owned(),
                Err(error) => error.what,
            }
        };
        let helpers = self.parts.helpers();
        let systems: serde_json::Map<String, Value> = helpers
            .into_iter()
            .map(|(role, host)| (format!("{role} {}", host.name()), about(host).into()))
            .collect();
        json!({
            "kind": "hosts",
            "machines": serde_json::to_value(&self.parts.spec).unwrap_or(Value::Null),
            "systems": systems,
            "dut": self.parts.device.environment(),
        })
    }

    fn warnings(&self) -> Vec<String> {
        let spec = &self.parts.spec;
        let mut warnings = Vec::new();
        if spec.link_rate_bps.is_none() {
            warnings.push(
                "no `link_rate` is stated: verdicts cannot tell whether the links were the limit"
                    .to_owned(),
            );
        }
        let leaves = |switch: &SwitchSpec| {
            switch.counters.iter().any(|(place, _)| *place == SwitchPlace::FromDut)
        };
        let counts = !spec.dut.sends.is_empty() && spec.dut.system != System::Generic;
        if !counts && !spec.switches.iter().any(leaves) {
            warnings.push(
                "nothing counts what leaves the DUT: a loss behind it that the receiver's \
                 interface does not count either is taken for the DUT's; name its interfaces in \
                 `sends`, or a switch's `from_dut`"
                    .to_owned(),
            );
        }
        if spec.dut.reboot == weir_machine::access::Reset::None {
            warnings.push(
                "the DUT is not rebooted between runs: iterations may depend on one another"
                    .to_owned(),
            );
        }
        warnings
    }

    fn material(&self, images: &[&Image], reader: &Reader<'_>) -> Result<Material, TestbedError> {
        let mut material = Material::default();
        for image in images {
            let (Some(file), Some(_)) = (&image.file, &image.install) else { continue };
            let path = self.folder.join(file);
            let sha256 = match &image.sha256 {
                Some(stated) => stated.clone(),
                None => reader.sha256(&path).map_err(|error| cannot_read(image, &path, &error))?,
            };
            if image.sha256.is_none() {
                self.began.borrow_mut().insert(image.name.clone(), sha256.clone());
            }
            let path = path.to_string_lossy().into_owned();
            material.files.insert(material::name_of(image), MaterialFile { path, sha256 });
        }
        Ok(material)
    }

    fn prepare(&self, series: &Series, _spec: &TestbedSpec) -> Result<(), TestbedError> {
        self.next.borrow_mut().clone_from(&series.image);
        Ok(())
    }

    fn profile_next(&self) {
        self.profile.set(true);
    }

    fn outlives_failures(&self) -> bool {
        true
    }

    fn awake(&self) -> Option<Check> {
        let slept = awake::slept(self.built.get()?, (self.clocks)());
        Some(Check {
            name: "manager-awake".to_owned(),
            passed: slept.is_none(),
            detail: match slept {
                None => "this machine was not suspended".to_owned(),
                Some(time) => format!(
                    "this machine was suspended for {:.1} s during the trial: keep it awake \
                     (`systemd-inhibit`); `weir lab resume DIR -n N` adds iterations",
                    time.as_secs_f64()
                ),
            },
        })
    }

    fn build(&self, topology: Topology) -> Result<Box<dyn Rig>, TestbedError> {
        if topology == Topology::Direct {
            return Err(TestbedError::new("hosts have no path without the DUT"));
        }
        self.built.set(Some((self.clocks)()));
        self.all_there()?;
        self.image()?;
        let mut rig = HostsRig::new(Rc::clone(&self.parts), self.sample, self.cancel.clone());
        if self.profile.take() {
            rig.profile()?;
        }
        Ok(Box::new(rig))
    }

    fn take_traces(&self) -> Traces {
        self.parts.take_traces()
    }
}

/// Why generators of this testbed cannot make a traffic; `None` if they can.
pub(crate) fn refusal(spec: &HostsSpec, traffic: &Traffic) -> Option<String> {
    if traffic.http().is_some() {
        return requests::refusal(spec, traffic);
    }
    if traffic.connect().is_some() {
        return connections::refusal(spec, traffic);
    }
    let drivers = spec.generators.iter().filter(|end| end.driver.start.is_none());
    drivers.map(|end| end.driver.kind).find_map(|kind: DriverKind| line::refusal(kind, traffic))
}
