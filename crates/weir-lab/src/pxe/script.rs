//! The console script that writes a disk image from mfsBSD, for `weir console`.

use super::config::{Config, Entry, Kind};
use super::need::served_as;
use super::{MENU_KEYS, Place};

/// The script for an entry; `None` if it is of another kind.
pub(super) fn install(config: &Config, place: Place, entry: &Entry) -> Option<String> {
    let Kind::Image { image, disk, .. } = &entry.kind else {
        return None;
    };
    let url = place.url(&served_as(&entry.name, image));
    let unpack = match image.rsplit_once('.') {
        Some((_, "xz")) => " | xz -dc",
        Some((_, "gz")) => " | gunzip -c",
        _ => "",
    };
    let key = config.key(&entry.name).unwrap_or(char::from(MENU_KEYS[0]));
    // The last word tells the shell's echo of the command from its result.
    let write = format!(
        "set -o pipefail; fetch -qo - {url}{unpack} | dd of=/dev/{disk} bs=1m && sync && \
         echo WEIR-\"WRITTEN\""
    );
    Some(format!(
        "# Written by weir pxe serve: puts {image} onto {disk} of the machine on this console.\n\
         # ALL THAT IS ON {disk} IS LOST. Run: weir console TARGET --script THIS-FILE\n\
         timeout = \"10m\"\n\n\
         [[step]]\nname = \"the menu\"\nexpect = '{key}\\) '\nsend = \"{key}\"\n\n\
         [[step]]\nname = \"mfsBSD\"\nexpect = 'login: '\nsend_line = \"root\"\n\n\
         [[step]]\nexpect = 'Password:'\nsend_line = \"mfsroot\"\n\n\
         [[step]]\nexpect = '[#%] $'\nsend_line = \"sh\"\n\n\
         [[step]]\nexpect = '[#$] $'\nsend_line = '{write}'\n\n\
         [[step]]\nname = \"the image is written\"\nexpect = 'WEIR-WRITTEN'\ntimeout = \"1h\"\n\
         fail = ['not found', 'No such file', 'fetch: ', 'Input/output error', 'No space left']\n\
         send_line = \"reboot\"\n"
    ))
}
