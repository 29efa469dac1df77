//! The testbed kind `qemu`: the DUT is a virtual machine between two namespaces of this host.
//!
//! ```text
//!   weir-<id>-gen      weir-<id>-dut                 weir-<id>-sink
//!   gen0 (tap) ──────► QEMU: dut0  (DUT)  dut1 ────► sink0 (tap)      with a DUT
//!   gen0 ──────────────────────────────────────────► sink0 (veth)     calibration
//!                      127.0.0.1:2222 ─► the machine's SSH port, by QEMU's user network
//! ```
//!
//! Generator and sink are those of the kind `netns`, with its addresses; a tap device takes XDP
//! frames, and runs the sink's program. Every trial starts a new QEMU with an overlay over the
//! image that nobody keeps, so every iteration is a boot of a clean machine. QEMU runs inside the
//! DUT's namespace, has no way out of it, and is ended with it: also by the next start, if this
//! process was killed. This module knows nothing of what kind of DUT it carries.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_machine::cancel::Cancel;
use weir_machine::digest::Reader;
use weir_machine::image::bsd::Card;
use weir_machine::qemu::{self, Accel, Chosen, Login, QemuError, Vm};
use weir_machine::ssh::profile::Profiler;
use weir_net::CpuList;
use weir_results::matrix::Series;

use super::netns::{NetnsTestbed, placement};
use super::{Rig, Testbed, TestbedError, Topology, Traces};
use crate::material::Material;
use crate::model::qemu::QemuSpec;
use crate::model::{Image, TestbedSpec};

mod command;
mod files;
mod guest;
mod host;
mod ports;
mod rig;

use files::{Files, Stamp};
use host::QemuHost;
use ports::Ports;
use rig::QemuRig;

/// The testbed: a machine that can be started.
#[derive(Debug)]
pub struct QemuTestbed {
    /// The next machine.
    spec: RefCell<QemuSpec>,
    files: Files,
    version: String,
    accel: Chosen,
    cancel: Cancel,
    /// How the files looked when the campaign's were read.
    began: RefCell<Vec<Stamp>>,
    /// The next trial has a profile.
    profile: Cell<bool>,
    /// What the last machine that did not get ready has left.
    traces: RefCell<Traces>,
    /// What the calibration runs on; it holds the right to measure.
    direct: NetnsTestbed,
}

/// The machine's second and third card, for images that configure them by themselves.
#[must_use]
pub fn cards() -> [Card; 2] {
    guest::cards()
}

/// Whether this host has what a specification asks of it: QEMU, the files, KVM, CPUs.
///
/// # Errors
/// As [`QemuTestbed::new`], but for another lab.
pub fn check(spec: &QemuSpec, folder: &Path) -> Result<(), TestbedError> {
    Files::find(spec, folder)?;
    qemu::version()?;
    // What may be emulated is never refused, and trying KVM takes a while.
    if spec.accel == Accel::Kvm {
        Chosen::choose(spec.accel)?;
    }
    placement(&spec.placement()).map(drop)
}

impl QemuTestbed {
    /// A testbed whose paths are relative to `folder`. For another lab to end it waits as long as
    /// `wait`.
    ///
    /// # Errors
    /// When QEMU or a file is missing, KVM is asked for and does not work, CPUs are not there, or
    /// another lab measures on this host.
    pub fn new(
        spec: &QemuSpec,
        folder: &Path,
        wait: Duration,
        cancel: Cancel,
    ) -> Result<Self, TestbedError> {
        let files = Files::find(spec, folder)?;
        let version = qemu::version()?;
        let accel = Chosen::choose(spec.accel)?;
        let direct = NetnsTestbed::new(&spec.placement(), wait, cancel.clone())?;
        Ok(Self {
            spec: RefCell::new(spec.clone()),
            files,
            version,
            accel,
            cancel,
            began: RefCell::default(),
            profile: Cell::new(false),
            traces: RefCell::default(),
            direct,
        })
    }

    fn rig(&self) -> Result<QemuRig, TestbedError> {
        for stamp in self.began.borrow().iter() {
            stamp.check()?;
        }
        let ports = Ports::create()?;
        let spec = self.spec.borrow();
        let login = Login::prepare(&self.files.access(), &ports.dut, &ports.directory)?;
        let arguments = command::arguments(&spec, &self.files, &self.accel, &ports.directory);
        let setup = self.direct.setup();
        let placement = &setup.placement;
        let deadline = Instant::now() + spec.boot_timeout;
        let mut vm = Vm::start(&ports.dut, &ports.directory, &placement.dut, arguments)?;
        ports.take_devices(&mut vm)?;
        let host = QemuHost::new(&spec, &self.files, login, vm, &ports, &self.cancel)?;
        if let Err(error) = host.boot(deadline) {
            *self.traces.borrow_mut() = Traces::take_from(&host);
            return Err(error);
        }
        let profiler = match self.profile.take() {
            true => Some(Profiler::new(spec.system, None).map_err(TestbedError::new)?),
            false => None,
        };
        QemuRig::new(ports, host, placement, profiler)
    }
}

impl Testbed for QemuTestbed {
    fn environment(&self) -> Value {
        let (spec, setup) = (self.spec.borrow(), self.direct.setup());
        let placement = &setup.placement;
        json!({
            "kind": "qemu",
            "qemu": self.version,
            "accel": self.accel.name(),
            "accel_reason": self.accel.reason(),
            "image": self.files.environment(),
            "memory_bytes": spec.memory_bytes,
            "cpus": spec.cpus,
            "nic": spec.nic,
            "queues": spec.queues,
            "setup": spec.setup,
            "system": spec.system,
            "generator_cpus": placement.generator.to_string(),
            "dut_cpus": placement.dut.to_string(),
            "cpu_siblings": placement.siblings(),
            "sink_placement": "in the machine's own thread, which hands frames to the tap device",
        })
    }

    fn cpus(&self) -> Option<(usize, CpuList)> {
        self.direct.cpus()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.direct.warnings();
        warnings.extend(self.accel.warning());
        if self.spec.borrow().queues > 1 {
            warnings.push(
                "a tap device gives all frames of one generator thread to one queue: the machine \
                 receives on one of its queues"
                    .to_owned(),
            );
        }
        warnings
    }

    fn material(&self, _: &[&Image], reader: &Reader<'_>) -> Result<Material, TestbedError> {
        let (stamps, files) = self.files.read(reader)?;
        *self.began.borrow_mut() = stamps;
        Ok(Material { accel: Some(self.accel.name().to_owned()), files, ..Material::default() })
    }

    fn prepare(&self, _series: &Series, spec: &TestbedSpec) -> Result<(), TestbedError> {
        let TestbedSpec::Qemu(spec) = spec else {
            return Err(TestbedError::new(format!("it is not of the kind {}", spec.kind())));
        };
        self.direct.place_as(&spec.placement())?;
        *self.spec.borrow_mut() = (**spec).clone();
        Ok(())
    }

    fn profile_next(&self) {
        self.profile.set(true);
    }

    fn outlives_failures(&self) -> bool {
        true
    }

    fn build(&self, topology: Topology) -> Result<Box<dyn Rig>, TestbedError> {
        match topology {
            Topology::Direct => self.direct.build(Topology::Direct),
            Topology::Dut => Ok(Box::new(self.rig()?)),
        }
    }

    fn take_traces(&self) -> Traces {
        self.traces.take()
    }
}

impl From<QemuError> for TestbedError {
    fn from(error: QemuError) -> Self {
        // A machine that never ran would not run in the next trial either.
        if error.is_passing { Self::voids_trial(error) } else { Self::new(error) }
    }
}
