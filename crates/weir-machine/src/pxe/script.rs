//! The console script that writes a disk image from mfsBSD, for `weir console`.

use super::config::{Config, Entry, Kind};
use super::need::served_as;
use super::{MENU_KEYS, Place};

/// Where the programs before the last one of a pipe leave their exit statuses, on the machine: a
/// short name, because terminals take lines of 255 characters.
pub(super) const STATUS: &str = "/tmp/weir";
/// What the console shows at the end, whole: of the failures, all that is not the success.
const ENDED: &str = "WEIR-ENDED[ 0-9]*[\\r\\n]";

/// The script for an entry; `None` if it is of another kind.
pub(super) fn install(config: &Config, place: Place, entry: &Entry) -> Option<String> {
    let Kind::Image { image, disk, .. } = &entry.kind else {
        return None;
    };
    let url = place.url(&served_as(&entry.name, image));
    let unpack = match image.rsplit_once('.') {
        Some((_, "xz")) => "xz -dc",
        Some((_, "gz")) => "gunzip -c",
        _ => "",
    };
    let key = config.key(&entry.name).unwrap_or(char::from(MENU_KEYS[0]));
    // The quotes tell the shell's echo of the command from its result, and `obs` makes whole blocks
    // of what comes through the pipe in pieces.
    let last = if unpack.is_empty() { String::new() } else { format!(" | {}", noted(unpack)) };
    let write = format!(
        "rm -f {STATUS}; {}{last} | dd of=/dev/{disk} obs=1048576; \
         echo WEIR-\"ENDED\" $? $(cat {STATUS})",
        noted(&format!("fetch -qo - '{url}'"))
    );
    let zeros = if unpack.is_empty() { " 0 0" } else { " 0 0 0" };
    let written = format!("WEIR-ENDED{zeros}[\\r\\n]");
    let text = |text: &str| toml::Value::from(text).to_string();
    Some(format!(
        "# Written by weir pxe serve: puts {image} onto {disk} of the machine on this console.\n\
         # ALL THAT IS ON {disk} IS LOST. Run: weir console TARGET --script THIS-FILE\n\
         timeout = \"10m\"\n\n\
         [[step]]\nname = \"the menu\"\nexpect = '{key}\\) '\nsend = \"{key}\"\n\n\
         [[step]]\nname = \"mfsBSD\"\nexpect = 'login: '\nsend_line = \"root\"\n\n\
         [[step]]\nexpect = 'Password:'\nsend_line = \"mfsroot\"\n\n\
         [[step]]\nexpect = '[#%] $'\nsend_line = \"sh\"\n\n\
         [[step]]\nexpect = '[#$] $'\nsend_line = {}\n\n\
         [[step]]\nname = \"the image is written\"\nexpect = {}\ntimeout = \"1h\"\n\
         fail = [{}]\nsend_line = \"reboot\"\n",
        text(&write),
        text(&written),
        text(ENDED)
    ))
}

/// A program of a pipe, whose exit status is kept.
fn noted(program: &str) -> String {
    format!("{{ {program}; echo $? >>{STATUS}; }}")
}
