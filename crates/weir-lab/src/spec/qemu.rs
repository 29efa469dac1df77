//! `[testbed]` of the kind `qemu`: its fields and their ranges.

use std::time::Duration;

use weir_machine::image::DiskFormat;
use weir_machine::qemu::Accel;
use weir_results::dut::System;
use weir_wire::units::{format_duration, parse_count};

use crate::diagnostic::{Report, quote};
use crate::model::qemu::{QemuSpec, Setup};
use crate::spec::cpus;
use crate::spec::cpus::refuse_overlaps;
use crate::spec::fields::Fields;
use crate::spec::suggest::nearest;

const FIELDS: [&str; 23] = [
    "kind",
    "image",
    "format",
    "kernel",
    "initrd",
    "append",
    "memory",
    "cpus",
    "nic",
    "queues",
    "accel",
    "ssh_user",
    "ssh_key",
    "ssh_host_key",
    "ssh_port",
    "console_ready",
    "boot_timeout",
    "setup",
    "system",
    "profile",
    "processes",
    "generator_cpus",
    "dut_cpus",
];

/// What a machine has unless it says otherwise.
const MEMORY_BYTES_DEFAULT: u64 = 512 << 20;
/// Less does not boot a kernel of today; more than this is a mistake in the unit.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=1 << 40;
const CPUS: std::ops::RangeInclusive<u64> = 1..=64;
const QUEUES: std::ops::RangeInclusive<u64> = 1..=16;
const PORTS: std::ops::RangeInclusive<u64> = 1..=65_535;
const SSH_PORT_DEFAULT: u16 = 22;
/// The card that every system has a driver for that is fast as well.
const NIC_DEFAULT: &str = "virtio-net-pci";
/// An emulated machine boots in seconds to minutes.
const BOOT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(300);
const BOOT_TIMEOUT_MAX: Duration = Duration::from_secs(7200);

/// The section.
pub(crate) fn qemu(fields: &Fields<'_, '_>, report: &mut Report) -> Option<QemuSpec> {
    fields.refuse_unknown(&FIELDS, report);
    let image = fields.required_text("image", report);
    let text = |name: &str, report: &mut Report| {
        let text = fields.text(name, report)?;
        if text.text.trim().is_empty() || text.text.contains('\n') {
            report.error(&text.span, format!("`{name}` must be one line that is not empty"));
        }
        Some(text.text)
    };
    let format =
        one_of(fields, "format", &[("qcow2", DiskFormat::Qcow2), ("raw", DiskFormat::Raw)], report);
    let accels = [("auto", Accel::Auto), ("kvm", Accel::Kvm), ("tcg", Accel::Tcg)];
    let accel = one_of(fields, "accel", &accels, report).unwrap_or(Accel::Auto);
    let (setup, system) = setup(fields, report);
    let number = |name: &str, range, report: &mut Report| {
        fields.count(name, range, report).and_then(|value| u32::try_from(value).ok())
    };
    let queues = number("queues", QUEUES, report).unwrap_or(1);
    let nic = nic(fields, queues, report);
    let [kernel, initrd, append] = ["kernel", "initrd", "append"].map(|name| text(name, report));
    if kernel.is_none() {
        for name in ["initrd", "append"] {
            if let Some(span) = fields.key_span(name) {
                let message = format!("`{name}` needs `kernel`: a boot loader has its own");
                report.error(&span, message);
            }
        }
    }
    let [generator_cpus, dut_cpus] = placement(fields, report);
    let [ssh_user, ssh_key, ssh_host_key, console_ready] =
        ["ssh_user", "ssh_key", "ssh_host_key", "console_ready"].map(|name| text(name, report));
    // Everything is looked at before what is missing ends it.
    let memory_bytes = memory(fields, report);
    let cpus = number("cpus", CPUS, report).unwrap_or(1);
    let ssh_port = number("ssh_port", PORTS, report).and_then(|port| port.try_into().ok());
    let boot_timeout = boot_timeout(fields, report);
    let profile = profile(fields, system, report);
    let processes = super::hosts::processes(fields, report);
    Some(QemuSpec {
        image: image?.text,
        format,
        kernel,
        initrd,
        append,
        memory_bytes,
        cpus,
        nic,
        queues,
        accel,
        ssh_user,
        ssh_key,
        ssh_host_key,
        ssh_port: ssh_port.unwrap_or(SSH_PORT_DEFAULT),
        console_ready,
        boot_timeout,
        setup,
        system,
        profile,
        processes,
        generator_cpus,
        dut_cpus,
    })
}

/// Who sets the machine's cards up, and what it runs. The lab sets up Linux alone.
fn setup(fields: &Fields<'_, '_>, report: &mut Report) -> (Setup, System) {
    let systems = System::ALL.map(|system| (system.name(), system));
    let system = one_of(fields, "system", &systems, report);
    let setups = [("linux", Setup::Linux), ("none", Setup::None)];
    let setup = one_of(fields, "setup", &setups, report);
    if let (Some(Setup::Linux), Some(system)) = (setup, system)
        && system != System::Linux
    {
        let message = format!("setup = \"linux\" is not for system = \"{}\"", system.name());
        let help = "setup = \"none\": the image, or the DUT's tree, gives its cards addresses";
        report.error_help(&fields.span_of("setup"), message, help);
    }
    match (setup, system) {
        (None | Some(Setup::Linux), None | Some(System::Linux)) => (Setup::Linux, System::Linux),
        (_, Some(system)) => (Setup::None, system),
        (Some(Setup::None), None) => (Setup::None, System::Generic),
    }
}

/// One of a few words.
fn one_of<T: Copy>(
    fields: &Fields<'_, '_>,
    name: &str,
    words: &[(&str, T)],
    report: &mut Report,
) -> Option<T> {
    let text = fields.text(name, report)?;
    let found = words.iter().find(|(word, _)| *word == text.text).map(|(_, value)| *value);
    if found.is_none() {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let help = match nearest(&text.text, names.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are: {}", names.join(", ")),
        };
        report.error_help(&text.span, format!("`{name}` is not {}", quote(&text.text)), help);
    }
    found
}

fn memory(fields: &Fields<'_, '_>, report: &mut Report) -> u64 {
    let Some(text) = fields.text_or_number("memory", report) else {
        return MEMORY_BYTES_DEFAULT;
    };
    match parse_count(&text.text) {
        Ok(bytes) if MEMORY_BYTES.contains(&bytes) => bytes,
        _ => {
            let message = format!("`memory`: {} is not a memory size", quote(&text.text));
            report.error_help(&text.span, message, "in bytes: \"512Mi\", \"4Gi\"; at least 64Mi");
            MEMORY_BYTES_DEFAULT
        }
    }
}

fn nic(fields: &Fields<'_, '_>, queues: u32, report: &mut Report) -> String {
    let Some(text) = fields.text("nic", report) else {
        return NIC_DEFAULT.to_owned();
    };
    let is_model = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if text.text.is_empty() || !text.text.chars().all(is_model) {
        let message = format!("`nic`: {} is not a network card model", quote(&text.text));
        let help = "`qemu-system-x86_64 -device help` lists them: virtio-net-pci, e1000, vmxnet3";
        report.error_help(&text.span, message, help);
    } else if queues > 1 && text.text != NIC_DEFAULT {
        let message = format!("{} has one queue", text.text);
        let help = format!("only {NIC_DEFAULT} has more here");
        report.error_help(&fields.span_of("queues"), message, help);
    }
    text.text
}

fn boot_timeout(fields: &Fields<'_, '_>, report: &mut Report) -> Duration {
    let timeout = fields.duration("boot_timeout", report).unwrap_or(BOOT_TIMEOUT_DEFAULT);
    if timeout.is_zero() || timeout > BOOT_TIMEOUT_MAX {
        let most = format_duration(BOOT_TIMEOUT_MAX);
        let message = format!("`boot_timeout` must be above zero and at most {most}");
        report.error(&fields.span_of("boot_timeout"), message);
    }
    timeout
}

fn profile(fields: &Fields<'_, '_>, system: System, report: &mut Report) -> bool {
    let Some(text) = fields.text_or_boolean("profile", report) else { return false };
    match text.text.as_str() {
        "true" if !matches!(system, System::Linux | System::Freebsd) => {
            let message = "`profile` needs system = \"linux\" (perf) or \"freebsd\" (pmcstat)";
            report.error(&text.span, message);
        }
        "true" => return true,
        "false" => {}
        _ => report.error(&text.span, "`profile` must be true or false"),
    }
    false
}

fn placement(fields: &Fields<'_, '_>, report: &mut Report) -> [Option<String>; 2] {
    const LISTS: [&str; 2] = ["generator_cpus", "dut_cpus"];
    let sets = cpus::sets(fields, &LISTS, report);
    refuse_overlaps(fields, &sets, report);
    LISTS.map(|name| sets.iter().find(|(list, _)| *list == name).map(|(_, set)| cpus::display(set)))
}
