//! Booting machines from the network: what `weir pxe` serves, from one file.
//!
//! [`config`] reads `pxe.toml`; [`need`] lists the files that its entries need, and where each
//! comes from; [`layout`] makes the directory that is served, with menus for PXELINUX
//! ([`pxelinux`]) and iPXE ([`ipxe`]); [`dnsmasq`] is the program that answers DHCP and TFTP, and
//! what its log says; [`http`] serves the same files faster; [`mfsbsd`] puts a serial console into
//! an image. DHCP and TFTP are dnsmasq's: this module never speaks them. It never downloads
//! anything, and serves no file that the configuration does not name.

use std::net::Ipv4Addr;

pub mod config;
pub mod dnsmasq;
pub mod http;
pub mod ipxe;
pub mod layout;
pub(crate) mod mfsbsd;
pub mod need;
pub mod pxelinux;
mod script;
#[cfg(test)]
mod tests;

pub use config::Config;

/// The name of the configuration in its directory.
pub const CONFIG_NAME: &str = "pxe.toml";

/// Keys that choose an entry of a menu, in the order of the entries.
const MENU_KEYS: &[u8] = b"123456789abcdefghijklmnopqrstuvw";

/// The address and port under which files are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The address of the serving interface.
    pub address: Ipv4Addr,
    /// The port of the HTTP server.
    pub http_port: u16,
}

impl Place {
    /// The URL of a served file.
    #[must_use]
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}:{}/{path}", self.address, self.http_port)
    }
}

/// The words that a Linux kernel gets: its consoles, answers for its installer, and the user's own.
fn linux_words(
    entry: &config::Entry,
    append: &str,
    answers: Option<&(String, &str)>,
    serial: config::Serial,
    place: Place,
) -> String {
    let mut words = format!("console=tty0 console=ttyS{},{}n8", serial.port, serial.speed);
    if let Some((file, form)) = answers {
        let url = place.url(&need::served_as(&entry.name, file));
        words += &format!(" {}", form.replace("{}", &url));
    }
    if !append.is_empty() {
        words += &format!(" {append}");
    }
    words
}
