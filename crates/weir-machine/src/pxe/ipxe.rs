//! The menu for iPXE, whose files come by HTTP.
//!
//! After the commands of iPXE's documentation (ipxe.org/cmd), as of the version of 2019 that
//! Debian 12 has. Text in, text out.

use std::fmt::Write as _;

use super::config::{Config, Entry, Kind};
use super::need::served_as;
use super::{Place, linux_words};

/// The script's name.
pub(crate) const SCRIPT_NAME: &str = "boot.ipxe";

/// `boot.ipxe`.
#[must_use]
pub fn script(config: &Config, place: Place) -> String {
    let mut text = "#!ipxe\n# Written by weir pxe serve; it is rewritten each time.\n".to_owned();
    for host in &config.hosts {
        let _ = writeln!(text, "iseq ${{netX/mac}} {} && goto {} ||", host.mac, host.entry);
    }
    let _ = writeln!(text, ":menu\nmenu {}", config.title);
    for entry in &config.entries {
        let key = config.key(&entry.name).unwrap_or(' ');
        let _ = writeln!(text, "item --key {key} {} {key}) {}", entry.name, entry.title);
    }
    let default = config.default.as_ref().map(|name| format!(" --default {name}"));
    let timeout = config.timeout.map(|timeout| format!(" --timeout {}", timeout.as_millis()));
    let _ = writeln!(
        text,
        "choose{}{} selected && goto ${{selected}} || goto menu",
        default.unwrap_or_default(),
        timeout.unwrap_or_default()
    );
    for entry in &config.entries {
        let _ = writeln!(text, "\n:{}", entry.name);
        if entry.kind.needs_bios() {
            text += "iseq ${platform} pcbios || goto needs-bios\n";
        }
        text += &boot(config, place, entry);
    }
    text + "\n:needs-bios\necho This entry needs a BIOS: its boot loader is a BIOS program\n\
            :failed\nprompt --timeout 10000 Failed; any key shows the menu ||\ngoto menu\n"
}

fn boot(config: &Config, place: Place, entry: &Entry) -> String {
    let url = |file: &str| place.url(&served_as(&entry.name, file));
    match &entry.kind {
        Kind::Linux { kernel, initrd, append, answers, .. } => {
            let words = linux_words(entry, append, answers.as_ref(), config.serial, place);
            let names: Vec<String> = (0..initrd.len()).map(|n| format!("initrd{n}")).collect();
            // A kernel on UEFI finds its RAM disks by these names.
            let named: String = names.iter().map(|name| format!(" initrd={name}")).collect();
            let mut text = format!(
                "imgfree\nkernel {}{named} {words} BOOTIF=01-${{netX/mac:hexhyp}} || goto failed\n",
                url(kernel)
            );
            for (name, file) in names.iter().zip(initrd) {
                let _ = writeln!(text, "initrd --name {name} {} || goto failed", url(file));
            }
            text + "boot || goto failed\n"
        }
        Kind::Mfsbsd { image } => memdisk(place, &url(image), "harddisk raw"),
        Kind::Memdisk { image } => {
            memdisk(place, &url(image), if image.ends_with(".iso") { "iso raw" } else { "" })
        }
        // They ask for their files by TFTP themselves.
        Kind::Openbsd { pxeboot, .. } | Kind::Netbsd { pxeboot, .. } => {
            let path = served_as(&entry.name, pxeboot);
            format!("chain --replace tftp://{}/{path} || goto failed\n", place.address)
        }
        Kind::Image { helper, .. } => {
            config.entry(helper).map(|helper| boot(config, place, helper)).unwrap_or_default()
        }
        Kind::Local => "exit\n".to_owned(),
        Kind::Reboot => "reboot\n".to_owned(),
    }
}

fn memdisk(place: Place, image: &str, words: &str) -> String {
    format!(
        "imgfree\nkernel {} {words} || goto failed\ninitrd {image} || goto failed\n\
         boot || goto failed\n",
        place.url("memdisk")
    )
}
