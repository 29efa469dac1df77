//! The namespaces of one trial, and the tap devices that QEMU makes in them.
//!
//! QEMU makes its tap devices where it runs, in the DUT's namespace; generator and sink get theirs
//! from there. A tap device lives as long as QEMU has it open.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use weir_machine::qemu::Vm;
use weir_net::{Netlink, Netns};

use crate::testbed::TestbedError;
use crate::testbed::netns::layout::{
    GENERATOR_ADDRESSES, GENERATOR_DEVICE, GENERATOR_MAC, MTU_BYTES, SINK_ADDRESSES, SINK_DEVICE,
    SINK_MAC,
};
use crate::testbed::netns::parts::{Claim, park};
use crate::testbed::netns::wiring::{inside, namespace, prefix};

/// How long QEMU may take until its devices are there.
const DEVICE_PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The namespaces.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) generator: Netns,
    pub(super) dut: Netns,
    pub(super) sink: Netns,
    /// Directory for files of the trial; it goes with the record.
    pub(super) directory: PathBuf,
    claim: Claim,
}

impl Ports {
    /// Makes the namespaces, which are on record before.
    pub(super) fn create() -> Result<Self, TestbedError> {
        let id = std::process::id();
        // QEMU's first: it uses the devices of the others.
        let names = ["dut", "gen", "sink"].map(|role| format!("weir-{id}-{role}"));
        let (claim, directory) = Claim::take(&names)?;
        let [dut, generator, sink] = &names;
        let (dut, generator, sink) = (namespace(dut)?, namespace(generator)?, namespace(sink)?);
        Ok(Self { generator, dut, sink, directory, claim })
    }

    fn has(&self, device: &str) -> Result<bool, TestbedError> {
        inside(&self.dut, || {
            Ok::<_, String>(Netlink::open().and_then(|netlink| netlink.link(device)).is_ok())
        })
    }

    /// Gives generator and sink the devices that QEMU has made.
    pub(super) fn take_devices(&self, vm: &mut Vm) -> Result<(), TestbedError> {
        let deadline = Instant::now() + DEVICE_PATIENCE;
        let ends = [
            (&self.generator, GENERATOR_DEVICE, GENERATOR_MAC, GENERATOR_ADDRESSES),
            (&self.sink, SINK_DEVICE, SINK_MAC, SINK_ADDRESSES),
        ];
        for (netns, device, mac, addresses) in ends {
            while !self.has(device)? {
                vm.alive()?;
                if Instant::now() >= deadline {
                    let what = format!("QEMU did not create its device {device}");
                    return Err(TestbedError::new(what));
                }
                thread::sleep(POLL);
            }
            if let Err(error) = self.hand_over(netns, device, mac, addresses) {
                // A device goes with QEMU: then QEMU knows what is wrong.
                vm.stays_alive()?;
                return Err(error);
            }
        }
        park(&self.generator)
    }

    /// Moves a device to its namespace and sets it up there.
    fn hand_over(
        &self,
        netns: &Netns,
        device: &str,
        mac: [u8; 6],
        addresses: [&str; 2],
    ) -> Result<(), TestbedError> {
        inside(&self.dut, || Netlink::open()?.move_to_netns(device, netns))?;
        inside(netns, || {
            let netlink = Netlink::open().map_err(|e| e.to_string())?;
            netlink.set_mac(device, mac).map_err(|e| e.to_string())?;
            netlink.set_mtu(device, MTU_BYTES).map_err(|e| e.to_string())?;
            for address in addresses {
                netlink.add_address(device, prefix(address)?).map_err(|e| e.to_string())?;
            }
            netlink.set_up(device).map_err(|e| e.to_string())
        })
    }

    /// Ends what still runs in the namespaces, and removes everything.
    pub(super) fn remove(mut self) -> Result<(), TestbedError> {
        self.claim.release()
    }
}
