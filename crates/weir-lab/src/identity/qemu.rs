//! What of a virtual machine determines a figure. Where its files are does not; the image does, by
//! the name that the specification gives it: that what is in it stays the same in a campaign, and
//! what runs its instructions, is the matter of [`crate::material`].

use serde_json::{Value, json};

use crate::model::qemu::QemuSpec;

pub(super) fn json(qemu: &QemuSpec) -> Value {
    // Taken apart, so that a new field does not compile until it is decided upon.
    let QemuSpec {
        image,
        format: _,
        kernel,
        initrd,
        append,
        memory_bytes,
        cpus,
        nic,
        queues,
        accel,
        ssh_user: _,
        ssh_key: _,
        ssh_host_key: _,
        ssh_port: _,
        console_ready: _,
        boot_timeout: _,
        setup,
        // The image has one system, and DUTs of another are refused.
        system: _,
        profile: _,
        processes: _,
        generator_cpus,
        dut_cpus,
    } = qemu;
    json!({
        "kind": "qemu",
        "image": image,
        "kernel": kernel,
        "initrd": initrd,
        "append": append,
        "memory_bytes": memory_bytes,
        "cpus": cpus,
        "nic": nic,
        "queues": queues,
        "accel": accel,
        "setup": setup,
        "generator_cpus": generator_cpus,
        "dut_cpus": dut_cpus,
    })
}
