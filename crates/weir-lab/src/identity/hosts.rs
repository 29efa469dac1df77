//! What of the machines, images and configuration trees determines a result.
//!
//! Which machine, which interface, which program: all of that does. How long something may take,
//! where a password is found and which ssh configuration leads to a machine do not.

use serde_json::{Value, json};
use weir_machine::access::{BoxSpec, RemoteSpec};
use weir_machine::switch::SwitchSpec;
use weir_results::dut::{Tree, TreeFile};

use crate::model::{DriverSpec, EndSpec, HostsSpec, Image};

/// The testbed.
pub(super) fn json(hosts: &HostsSpec) -> Value {
    // Taken apart, here and below, so that a new field does not compile until it is decided upon.
    let HostsSpec {
        link_rate_bps,
        secrets: _,
        profile: _,
        generators,
        receiver,
        dut,
        reference,
        switches,
    } = hosts;
    json!({
        "kind": "hosts",
        "link_rate_bps": link_rate_bps,
        "generators": generators.iter().map(end).collect::<Vec<_>>(),
        "receiver": end(receiver),
        "dut": device(dut),
        "reference": reference.as_ref().map(remote),
        "switches": switches.iter().map(switch).collect::<Vec<_>>(),
    })
}

fn remote(remote: &RemoteSpec) -> Value {
    let RemoteSpec { name: _, ssh, config: _, processes: _ } = remote;
    json!(ssh)
}

fn end(end: &EndSpec) -> Value {
    let EndSpec { remote: machine, interface, mac, next_hop_mac, driver } = end;
    let DriverSpec { kind, program, options, start, stop, packets } = driver;
    json!({
        "machine": remote(machine),
        "interface": interface,
        "mac": mac,
        "next_hop_mac": next_hop_mac,
        "driver": kind.name(),
        "program": program,
        "options": options,
        "start": start,
        "stop": stop,
        "packets": packets,
    })
}

fn device(device: &BoxSpec) -> Value {
    let BoxSpec {
        remote: machine,
        system,
        receives,
        sends,
        reboot,
        power: _,
        boot_timeout: _,
        boot_time: _,
        online: _,
        upload: _,
    } = device;
    json!({
        "machine": remote(machine),
        "system": system.name(),
        "receives": receives,
        "sends": sends,
        "reboots": *reboot != weir_machine::access::Reset::None,
    })
}

fn switch(switch: &SwitchSpec) -> Value {
    let SwitchSpec { name: _, read: _, counters } = switch;
    let counters = counters.iter().map(|(place, at)| json!([place.name(), at]));
    counters.collect::<Vec<_>>().into()
}

/// An image: what is installed and how, not what it is called.
pub(super) fn image_json(image: &Image) -> Value {
    let Image { name: _, file, sha256, install, on, check, timeout: _ } = image;
    json!({
        "file": file.as_ref().map(|file| file.rsplit('/').next()),
        "sha256": sha256,
        "install": install,
        "on_dut": *on == crate::model::InstallOn::Dut,
        "check": check,
    })
}

/// A tree: every file's path, permissions and content, which is a text or has a checksum.
pub(super) fn tree_json(tree: &Tree) -> Value {
    let file = |TreeFile { path, mode, content }: &TreeFile| match content.text() {
        Some(text) => json!([path, mode, text]),
        None => json!([path, mode, { "sha256": content.sha256 }]),
    };
    tree.files.iter().map(file).collect::<Vec<_>>().into()
}
