//! The menu for PXELINUX, on the serial port and the screen.
//!
//! After the directives of Syslinux's documentation (doc/syslinux.txt, doc/menu.txt). PXELINUX
//! itself sets the serial port up; keys act at once. Text in, text out.

use std::fmt::Write as _;
use std::time::Duration;

use super::config::{Config, Entry, Kind};
use super::need::served_as;
use super::{Place, linux_words};

/// How long a machine with an entry of its own waits, so that somebody can stop it.
const HOST_TIMEOUT: Duration = Duration::from_secs(5);

/// `pxelinux.cfg/default`, or with a machine's entry its own file.
#[must_use]
pub fn menu(config: &Config, place: Place, choice: Option<&str>) -> String {
    let serial = config.serial;
    let mut text = format!(
        "# Written by weir pxe serve; it is rewritten each time.\n\
         SERIAL {} {}\nUI menu.c32\nPROMPT 0\nMENU TITLE {}\nMENU IMMEDIATE\n",
        serial.port, serial.speed, config.title
    );
    let default = choice.or(config.default.as_deref());
    let timeout = if choice.is_some() { Some(HOST_TIMEOUT) } else { config.timeout };
    if let (Some(timeout), Some(default)) = (timeout, default) {
        // Tenths of a second.
        let _ = writeln!(text, "TIMEOUT {}\nONTIMEOUT {default}", timeout.as_millis() / 100);
    }
    for entry in &config.entries {
        let key = config.key(&entry.name).unwrap_or(' ');
        let _ = write!(text, "\nLABEL {}\n  MENU LABEL ^{key}) {}\n", entry.name, entry.title);
        if default == Some(entry.name.as_str()) {
            text += "  MENU DEFAULT\n";
        }
        text += &boot(config, place, entry);
    }
    text
}

/// The name of a machine's own file: hardware type and address.
#[must_use]
pub(crate) fn machine_file(mac: [u8; 6]) -> String {
    let digits: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("01-{}", digits.join("-"))
}

fn boot(config: &Config, place: Place, entry: &Entry) -> String {
    let path = |file: &str| served_as(&entry.name, file);
    match &entry.kind {
        Kind::Linux { kernel, initrd, append, answers, .. } => {
            let words = linux_words(entry, append, answers.as_ref(), config.serial, place);
            let mut text = format!("  LINUX {}\n", path(kernel));
            if !initrd.is_empty() {
                let files: Vec<String> = initrd.iter().map(|file| path(file)).collect();
                let _ = writeln!(text, "  INITRD {}", files.join(","));
            }
            // BOOTIF= tells an installer which card it came from.
            text + &format!("  APPEND {words}\n  SYSAPPEND 2\n")
        }
        Kind::Mfsbsd { image } => {
            format!("  LINUX memdisk\n  INITRD {}\n  APPEND harddisk raw\n", path(image))
        }
        Kind::Memdisk { image } => {
            let iso = if image.ends_with(".iso") { " iso raw" } else { "" };
            format!("  LINUX memdisk\n  INITRD {}\n  APPEND{iso}\n", path(image))
                .replace("  APPEND\n", "")
        }
        Kind::Openbsd { pxeboot, .. } | Kind::Netbsd { pxeboot, .. } => {
            format!("  COM32 pxechn.c32\n  APPEND {}\n", path(pxeboot))
        }
        Kind::Image { helper, .. } => {
            config.entry(helper).map(|helper| boot(config, place, helper)).unwrap_or_default()
        }
        Kind::Local => "  LOCALBOOT 0\n".to_owned(),
        Kind::Reboot => "  COM32 reboot.c32\n".to_owned(),
    }
}
