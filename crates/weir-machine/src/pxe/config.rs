//! `pxe.toml`: what is offered to machines that boot from the network.
//!
//! Everything is checked here that can be without looking at files; what is not known is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use weir_wire::mac::MacAddr;
use weir_wire::units::parse_duration;

use super::MENU_KEYS;

/// The longest lease; dnsmasq's shortest is two minutes.
const LEASE_MIN: Duration = Duration::from_secs(120);
/// Length of the prefix of the largest network that machines are looked for in.
const PREFIX_BITS: u32 = 16;
/// Speeds that boot loaders of all the systems know.
const SPEEDS: [u32; 6] = [9_600, 19_200, 38_400, 57_600, 115_200, 230_400];

/// What is served.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Addresses that are given out: first and last.
    pub range: (Ipv4Addr, Ipv4Addr),
    /// For how long.
    pub lease: Duration,
    /// The router that machines are told.
    pub gateway: Option<Ipv4Addr>,
    /// The name server that they are told.
    pub dns: Option<Ipv4Addr>,
    /// Port of the HTTP server.
    pub http_port: u16,
    /// Which boot loader shows the menu.
    pub loader: Loader,
    /// Whether only machines of `hosts` are answered.
    pub only_hosts: bool,
    /// The machines' serial port.
    pub serial: Serial,
    /// Head of the menu.
    pub title: String,
    /// The entry that is booted if nobody chooses.
    pub default: Option<String>,
    /// How long somebody has to choose; `None`: for ever.
    pub timeout: Option<Duration>,
    /// What there is to boot.
    pub entries: Vec<Entry>,
    /// Machines that boot an entry without being asked.
    pub hosts: Vec<Machine>,
}

/// Which boot loader shows the menu.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loader {
    /// PXELINUX on BIOS, which has the serial port itself; iPXE on UEFI.
    #[default]
    Auto,
    /// iPXE everywhere: files come by HTTP, but the menu is on the serial port only if firmware or
    /// network card put it there.
    Ipxe,
}

/// A serial port of a PC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Serial {
    /// 0 is COM1, ttyS0, uart0.
    pub port: u8,
    /// Bits per second.
    pub speed: u32,
}

impl Default for Serial {
    fn default() -> Self {
        Self { port: 0, speed: 115_200 }
    }
}

/// A machine with an entry of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its network card.
    pub mac: MacAddr,
    /// The entry that it boots.
    pub entry: String,
}

/// Something to boot.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name in the menu's commands, in URLs and in paths.
    pub name: String,
    /// Its line in the menu.
    pub title: String,
    /// What it is.
    pub kind: Kind,
}

/// What an entry boots. Files are relative to the directory of `pxe.toml`.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A Linux kernel with its initial RAM disks.
    Linux {
        kernel: String,
        /// Initial RAM disks.
        initrd: Vec<String>,
        /// Words for the kernel, after the serial console.
        append: String,
        /// A file of answers, and the word that names it to the installer, `{}` for its URL.
        answers: Option<(String, &'static str)>,
        /// Where the kernel and RAM disk come from.
        source: &'static str,
    },
    /// mfsBSD: FreeBSD in memory. Its image gets the serial console.
    Mfsbsd {
        /// The image of a disk (`.img`), not compressed.
        image: String,
    },
    /// OpenBSD's pxeboot with a kernel.
    Openbsd {
        /// `pxeboot`.
        pxeboot: String,
        /// `bsd.rd`, or another kernel.
        kernel: String,
    },
    /// NetBSD's pxeboot with a kernel.
    Netbsd {
        /// `pxeboot_ia32_com0.bin`.
        pxeboot: String,
        /// `netbsd-INSTALL.gz`, or another kernel.
        kernel: String,
    },
    /// An image that a helper writes to the machine's disk: BSDRP, OPNsense, pfSense, XigmaNAS.
    Image {
        /// The image, raw or compressed by xz or gzip.
        image: String,
        /// The mfsBSD entry that is booted to write it.
        helper: String,
        /// The disk there, such as `ada0`.
        disk: String,
    },
    /// An image that boots from memory through the BIOS: floppies, memtest, DOS.
    Memdisk { image: String },
    /// The machine's own disk.
    Local,
    /// Start again.
    Reboot,
}

impl Kind {
    /// Whether it needs a BIOS: memdisk, and boot loaders that are BIOS programs.
    #[must_use]
    pub(crate) fn needs_bios(&self) -> bool {
        match self {
            Self::Linux { .. } | Self::Local | Self::Reboot => false,
            Self::Mfsbsd { .. } | Self::Openbsd { .. } | Self::Netbsd { .. } => true,
            Self::Image { .. } | Self::Memdisk { .. } => true,
        }
    }
}

/// Where Debian's installer comes from.
const DEBIAN: &str = "Debian package debian-installer-12-netboot-amd64, or \
                      https://deb.debian.org/debian/dists/stable/main/installer-amd64/current/\
                      images/netboot/debian-installer/amd64/";
/// Where CentOS's installer comes from; its relatives have the same layout.
const CENTOS: &str = "https://mirror.stream.centos.org/9-stream/BaseOS/x86_64/os/images/pxeboot/";
const LINUX: &str = "the distribution's netboot directory, or /boot of a machine that runs it";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    serve: Serve,
    #[serde(default)]
    serial: Serial,
    #[serde(default)]
    menu: Menu,
    #[serde(default)]
    entry: Vec<EntryText>,
    #[serde(default)]
    host: Vec<HostText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Serve {
    range: String,
    #[serde(default, deserialize_with = "duration")]
    lease: Option<Duration>,
    gateway: Option<Ipv4Addr>,
    dns: Option<Ipv4Addr>,
    http_port: Option<u16>,
    #[serde(default)]
    loader: Loader,
    #[serde(default)]
    only_hosts: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Menu {
    title: Option<String>,
    default: Option<String>,
    #[serde(default, deserialize_with = "duration")]
    timeout: Option<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostText {
    mac: String,
    entry: String,
}

#[derive(Debug, Deserialize)]
struct EntryText {
    name: String,
    kind: String,
    title: Option<String>,
    #[serde(flatten)]
    fields: BTreeMap<String, toml::Value>,
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

impl Config {
    /// Reads a configuration; `name` is the file's, for messages.
    ///
    /// # Errors
    /// In words: what is wrong, with line or entry.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        file.check().map_err(|error| format!("{name}: {error}"))
    }

    /// The entry of that name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The key that chooses an entry in the menu.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<char> {
        let index = self.entries.iter().position(|entry| entry.name == name)?;
        MENU_KEYS.get(index).map(|key| char::from(*key))
    }
}

impl File {
    fn check(self) -> Result<Config, String> {
        let Serial { port, speed } = self.serial;
        if port > 3 || !SPEEDS.contains(&speed) {
            return Err(format!(
                "[serial]: ports are 0 to 3 and speeds {SPEEDS:?}, not {port} and {speed}"
            ));
        }
        let entries = entries(self.entry)?;
        let known = |entry: &str, of: &str| match entries.iter().any(|e| e.name == entry) {
            true => Ok(()),
            false => Err(format!("{of}: there is no entry `{entry}`")),
        };
        if let Some(default) = &self.menu.default {
            known(default, "[menu] default")?;
        }
        if self.menu.timeout.is_some() && self.menu.default.is_none() {
            return Err("[menu] timeout needs a `default`, which is what it boots".to_owned());
        }
        for entry in &entries {
            if let Kind::Image { helper, .. } = &entry.kind {
                known(helper, &format!("entry `{}`: helper", entry.name))?;
            }
        }
        let hosts = self.host.into_iter().map(|host| {
            let of = format!("[[host]] {}", host.mac);
            known(&host.entry, &of)?;
            let mac = host.mac.parse().map_err(|error| format!("{of}: {error}"))?;
            Ok(Machine { mac, entry: host.entry })
        });
        let hosts: Vec<Machine> = hosts.collect::<Result<_, String>>()?;
        if self.serve.only_hosts && hosts.is_empty() {
            return Err(
                "[serve] only_hosts: there is no [[host]], so no machine would be answered".into(),
            );
        }
        let lease = self.serve.lease.unwrap_or(Duration::from_secs(600));
        if lease < LEASE_MIN {
            return Err(format!("[serve] lease: {LEASE_MIN:?} is the shortest"));
        }
        let range = range(&self.serve.range).map_err(|error| format!("[serve] range: {error}"))?;
        if let Some(address) = self.serve.gateway {
            gateway(address, range).map_err(|error| format!("[serve] gateway: {error}"))?;
        }
        Ok(Config {
            range,
            lease,
            gateway: self.serve.gateway,
            dns: self.serve.dns,
            http_port: self.serve.http_port.unwrap_or(8080),
            loader: self.serve.loader,
            only_hosts: self.serve.only_hosts,
            serial: self.serial,
            title: title(self.menu.title.unwrap_or_else(|| "weir: boot from the network".into()))
                .map_err(|error| format!("[menu] title: {error}"))?,
            default: self.menu.default,
            timeout: self.menu.timeout.filter(|timeout| !timeout.is_zero()),
            entries,
            hosts,
        })
    }
}

/// The largest network that a range, and the router of its machines, may be in.
fn network(address: Ipv4Addr) -> u32 {
    address.to_bits() >> (u32::BITS - PREFIX_BITS)
}

/// The router of the machines has an address in their network that no machine gets.
fn gateway(address: Ipv4Addr, (first, last): (Ipv4Addr, Ipv4Addr)) -> Result<(), String> {
    if (first..=last).contains(&address) {
        return Err(format!("{address} is in the range {first}-{last}, so a machine may get it"));
    }
    if network(address) != network(first) {
        return Err(format!(
            "{address} and the range {first}-{last} cannot be in one network of {PREFIX_BITS} bits"
        ));
    }
    Ok(())
}

fn range(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), String> {
    let wrong = || format!("`{text}` is not a range: write one such as 192.0.2.100-192.0.2.150");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last): (Ipv4Addr, Ipv4Addr) = match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) => (first, last),
        _ => return Err(wrong()),
    };
    if first > last {
        return Err(format!("{first} is above {last}"));
    }
    if network(first) != network(last) {
        return Err(format!("{first} and {last} cannot be in one network of {PREFIX_BITS} bits"));
    }
    Ok((first, last))
}

/// Titles and words stand in lines of menus.
fn one_line(text: String) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err(format!("`{}` has control characters", text.escape_debug()));
    }
    Ok(text)
}

/// What iPXE would take for a command of its own: its scripts have no way to quote.
fn not_a_command(text: String) -> Result<String, String> {
    let is_command = |word: &str| matches!(word, "&&" | "||") || word.starts_with('#');
    let bad = match text.split_whitespace().find(|word| is_command(word)) {
        Some(word) => word,
        None if text.contains("${") => "${",
        None => return Ok(text),
    };
    Err(format!("`{text}`: iPXE would take `{bad}` for one of its commands: write it without"))
}

/// A line of a menu: PXELINUX makes the character behind a `^` the line's key, and iPXE takes what
/// begins with `-` for an option.
fn title(text: String) -> Result<String, String> {
    let text = not_a_command(one_line(text)?)?;
    match text.contains('^') || text.starts_with('-') {
        true => Err(format!("`{text}`: a title has no `^` and does not begin with `-`")),
        false => Ok(text),
    }
}

/// A file, whose name becomes a part of URLs, of lists and of lines of menus.
fn file_name(text: String) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-~".contains(c);
    let name = Path::new(&text).file_name().map(|name| name.to_string_lossy().into_owned());
    match name {
        Some(name) if name.chars().all(is_plain) => Ok(text),
        _ => Err(format!(
            "`{text}`: boot loaders take only file names with letters, digits and ._+-~: \
             rename it, or link it under such a name"
        )),
    }
}

fn entries(texts: Vec<EntryText>) -> Result<Vec<Entry>, String> {
    if texts.is_empty() {
        return Err("there is no [[entry]]: nothing could be booted".to_owned());
    }
    if texts.len() > MENU_KEYS.len() {
        return Err(format!("a menu has at most {} entries", MENU_KEYS.len()));
    }
    let mut entries: Vec<Entry> = Vec::new();
    for text in texts {
        let name = text.name.clone();
        let entry = text.check().map_err(|error| format!("entry `{name}`: {error}"))?;
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(format!("entry `{name}`: there are two with that name"));
        }
        let clash = |other: &&Entry| {
            std::mem::discriminant(&other.kind) == std::mem::discriminant(&entry.kind)
        };
        let fixed = matches!(entry.kind, Kind::Openbsd { .. } | Kind::Netbsd { .. });
        if let Some(other) = entries.iter().find(clash).filter(|_| fixed) {
            return Err(format!(
                "entry `{name}`: `{}` is for the same system, whose boot loader asks for files by \
                 one fixed name: serve the other one from a directory of its own",
                other.name
            ));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The fields of an entry, taken one by one, so that what is left is not known.
struct Fields(BTreeMap<String, toml::Value>);

impl Fields {
    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(toml::Value::String(text)) if !text.is_empty() => one_line(text).map(Some),
            Some(_) => Err(format!("`{name}` is not a text")),
        }
    }

    fn needed(&mut self, name: &str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| format!("`{name}` is missing"))
    }

    fn file(&mut self, name: &str) -> Result<String, String> {
        file_name(self.needed(name)?)
    }

    /// A file or a list of files.
    fn files(&mut self, name: &str) -> Result<Vec<String>, String> {
        self.texts(name)?.into_iter().map(file_name).collect()
    }

    /// A text or a list of texts.
    fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        match self.0.get(name) {
            Some(toml::Value::Array(_)) => {}
            _ => return Ok(self.text(name)?.into_iter().collect()),
        }
        let list = self.0.remove(name).and_then(|value| value.try_into().ok());
        list.ok_or_else(|| format!("`{name}` is not a list of texts"))
    }
}

impl EntryText {
    fn check(self) -> Result<Entry, String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || self.name.len() > 32 || !self.name.chars().all(is_plain) {
            return Err("a name has 1 to 32 characters of a-z, 0-9 and -".to_owned());
        }
        let reserved =
            ["menu", "failed", "needs-bios", "etc", "netbsd", "bsd", "memdisk", "scripts"];
        if reserved.contains(&self.name.as_str()) {
            return Err("this name is taken by the menus themselves".to_owned());
        }
        let mut fields = Fields(self.fields);
        let kind = kind(&self.kind, &mut fields)?;
        if let Some(field) = fields.0.keys().next() {
            return Err(format!("kind `{}` has no field `{field}`", self.kind));
        }
        let title = self.title.map_or_else(|| Ok(self.name.clone()), title)?;
        Ok(Entry { name: self.name, title, kind })
    }
}

fn kind(kind: &str, fields: &mut Fields) -> Result<Kind, String> {
    let linux = |fields: &mut Fields, answers: &str, form: &'static str, source| {
        let file = if answers.is_empty() { None } else { fields.text(answers)? };
        let file = file.map(file_name).transpose()?;
        let kernel = fields.file("kernel")?;
        let initrd = fields.files("initrd")?;
        // Each is served under its name, below the entry's.
        let mut names = BTreeSet::new();
        for path in [&kernel].into_iter().chain(&initrd).chain(&file) {
            if !names.insert(Path::new(path).file_name()) {
                return Err(format!("`{path}`: another file of the entry has the same name"));
            }
        }
        Ok::<_, String>(Kind::Linux {
            append: not_a_command(fields.text("append")?.unwrap_or_default())?,
            answers: file.map(|file| (file, form)),
            kernel,
            initrd,
            source,
        })
    };
    Ok(match kind {
        "linux" => linux(fields, "", "", LINUX)?,
        "debian" => linux(fields, "preseed", "auto=true priority=critical url={}", DEBIAN)?,
        "centos" => linux(fields, "kickstart", "inst.text inst.ks={}", CENTOS)?,
        "mfsbsd" => {
            let image = fields.file("image")?;
            if [".gz", ".xz", ".zst"].iter().any(|end| image.ends_with(end)) {
                return Err(format!(
                    "`{image}` is compressed: unpack it, because the serial console is written \
                     into the image"
                ));
            }
            Kind::Mfsbsd { image }
        }
        "openbsd" => {
            Kind::Openbsd { pxeboot: fields.file("pxeboot")?, kernel: fields.file("kernel")? }
        }
        "netbsd" => {
            Kind::Netbsd { pxeboot: fields.file("pxeboot")?, kernel: fields.file("kernel")? }
        }
        "image" => {
            let disk = fields.needed("disk")?;
            if !disk.bytes().all(|b| b.is_ascii_alphanumeric()) {
                return Err(format!("`{disk}` is not a FreeBSD disk name, such as ada0"));
            }
            Kind::Image { image: fields.file("image")?, helper: fields.needed("helper")?, disk }
        }
        "memdisk" => Kind::Memdisk { image: fields.file("image")? },
        "local" => Kind::Local,
        "reboot" => Kind::Reboot,
        other => {
            return Err(format!(
                "`{other}` is not a kind of entry: linux, debian, centos (also its relatives), \
                 mfsbsd, openbsd, netbsd, image, memdisk, local, reboot"
            ));
        }
    })
}
