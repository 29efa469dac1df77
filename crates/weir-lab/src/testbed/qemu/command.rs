//! QEMU's command line. Nothing is started here.

use std::path::Path;

use weir_machine::qemu::{self, CONSOLE_LOG, Chosen, MONITOR_SOCKET};

use super::files::Files;
use crate::model::qemu::QemuSpec;
use crate::testbed::netns::layout::{DUT_IN_MAC, DUT_OUT_MAC, GENERATOR_DEVICE, SINK_DEVICE};

/// A socket in the directory of a trial.
const CONSOLE_SOCKET: &str = "console.sock";

/// Address of the card that carries nothing but the lab's commands.
const MANAGEMENT_MAC: [u8; 6] = [0x02, 0x77, 0x65, 0x69, 0x72, 0x0f];
/// Descriptors of a card's ring, as many as QEMU allows: a network card has as many.
const RING_SIZE: u32 = 1024;

/// The program and its arguments.
pub(super) fn arguments(
    spec: &QemuSpec,
    files: &Files,
    accel: &Chosen,
    directory: &Path,
) -> Vec<String> {
    let in_directory = |name: &str| quoted(&directory.join(name));
    let mut all: Vec<String> = vec![qemu::PROGRAM.to_owned()];
    let mut add = |name: &str, value: String| all.extend([name.to_owned(), value]);
    add("-name", "weir-dut".to_owned());
    add("-machine", format!("q35,accel={}", accel.name()));
    if *accel == Chosen::Kvm {
        add("-cpu", "host".to_owned());
    }
    add("-smp", spec.cpus.to_string());
    add("-m", format!("{}M", spec.memory_bytes >> 20));
    add("-display", "none".to_owned());
    if let Some(kernel) = &files.kernel {
        // An argument of its own, in which commas mean nothing.
        add("-kernel", kernel.to_string_lossy().into_owned());
        if let Some(initrd) = &files.initrd {
            add("-initrd", initrd.to_string_lossy().into_owned());
        }
        add("-append", files.append.clone().unwrap_or_default());
    }
    // `snapshot` puts an overlay in front that has no name and goes with QEMU.
    let image = quoted(&files.image);
    let format = files.format.name();
    add("-drive", format!("file={image},format={format},if=none,id=disk,snapshot=on,cache=unsafe"));
    add("-device", "virtio-blk-pci,drive=disk".to_owned());
    add("-device", "virtio-rng-pci".to_owned());
    let forward = format!("hostfwd=tcp:127.0.0.1:{}-:{}", qemu::PORT, spec.ssh_port);
    add("-netdev", format!("user,id=management,restrict=on,ipv6=off,{forward}"));
    add("-device", card(&spec.nic, "management", MANAGEMENT_MAC, 1));
    for (device, mac) in [(GENERATOR_DEVICE, DUT_IN_MAC), (SINK_DEVICE, DUT_OUT_MAC)] {
        let queues =
            if spec.queues > 1 { format!(",queues={}", spec.queues) } else { String::new() };
        let tap = format!("tap,id={device},ifname={device},script=no,downscript=no{queues}");
        add("-netdev", tap);
        add("-device", card(&spec.nic, device, mac, spec.queues));
    }
    let (socket, log) = (in_directory(CONSOLE_SOCKET), in_directory(CONSOLE_LOG));
    add("-chardev", format!("socket,id=console,path={socket},server=on,wait=off,logfile={log}"));
    add("-serial", "chardev:console".to_owned());
    add("-qmp", format!("unix:{},server=on,wait=off", in_directory(MONITOR_SOCKET)));
    all.extend(["-no-user-config".to_owned(), "-nodefaults".to_owned()]);
    all
}

/// A network card; the ROM that would boot from it is left out.
fn card(nic: &str, netdev: &str, mac: [u8; 6], queues: u32) -> String {
    let mac: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut card = format!("{nic},netdev={netdev},mac={},romfile=", mac.join(":"));
    if nic.starts_with("virtio-net") && netdev != "management" {
        card.push_str(&format!(",rx_queue_size={RING_SIZE}"));
        if queues > 1 {
            card.push_str(&format!(",mq=on,vectors={}", 2 * queues + 2));
        }
    }
    card
}

/// A path inside an option of QEMU's, where a comma ends a value unless it is doubled.
fn quoted(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::files::tests::spec;
    use super::*;

    fn line(spec: &QemuSpec, accel: &Chosen) -> String {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a,b.raw", "kernel"] {
            fs::write(dir.path().join(name), "disk").unwrap();
        }
        let files = Files::find(spec, dir.path()).unwrap();
        arguments(spec, &files, accel, Path::new("/run/x")).join(" ")
    }

    #[test]
    fn a_machine_has_an_overlay_three_cards_and_a_console() {
        let text = line(&spec("a,b.raw"), &Chosen::Tcg(None));
        for part in [
            "q35,accel=tcg",
            "a,,b.raw,format=raw,if=none,id=disk,snapshot=on",
            "user,id=management,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:2222-:22",
            "ifname=gen0,script=no,downscript=no -device virtio-net-pci,netdev=gen0",
            "netdev=gen0,mac=02:77:65:69:72:02",
            "virtio-net-pci,netdev=sink0,mac=02:77:65:69:72:03,romfile=,rx_queue_size=1024",
            "path=/run/x/console.sock,server=on,wait=off,logfile=/run/x/console.log",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("-kernel") && !text.contains("-cpu") && !text.contains("mq=on"));
    }

    #[test]
    fn kernel_queues_and_card_are_as_asked() {
        let kernel = Some("kernel".to_owned());
        let append = Some("console=ttyS0 quiet".to_owned());
        let asked = QemuSpec { kernel, append, queues: 2, cpus: 3, ..spec("a,b.raw") };
        let text = line(&asked, &Chosen::Kvm);
        for part in ["-cpu host", "-smp 3", "-append console=ttyS0 quiet", "queues=2", "vectors=6"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let text = line(&QemuSpec { nic: "e1000".to_owned(), ..spec("a,b.raw") }, &Chosen::Kvm);
        assert!(text.contains("e1000,netdev=sink0") && !text.contains("rx_queue_size"), "{text}");
    }
}
