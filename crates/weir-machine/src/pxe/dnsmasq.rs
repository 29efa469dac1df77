//! dnsmasq(8): its configuration, its supervision, and what its log says of machines.
//!
//! It is started with a configuration of its own alone, for one interface, without DNS. A shell
//! stands between, which ends it when this process ends, however that happens.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde::Serialize;

use super::config::{Config, Kind, Loader};
use super::layout::LEASES_NAME;
use super::{Place, ipxe};

/// How long it may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// Runs "$@", and ends it when standard input ends.
const GUARD: &str = r#"exec 3<&0
"$@" 3<&- </dev/null & p=$!
{ cat <&3 >/dev/null; kill "$p"; } 2>/dev/null & c=$!
exec 3<&-
wait "$p"; r=$?
kill "$c" 2>/dev/null
exit "$r""#;

/// Refuses an interface or a directory whose name would say something else to dnsmasq: its
/// configuration has no way to write them (dnsmasq(8): a trailing `*` is a wildcard, a comma ends
/// a value, a quote begins a string, `#` a comment).
///
/// # Errors
/// In words: the name, and the character.
pub fn check_names(interface: &str, dir: &Path) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:@+".contains(c);
    if interface.is_empty() || !interface.chars().all(is_plain) {
        return Err(format!(
            "`{interface}`: dnsmasq does not accept this interface name: it may have letters, \
             digits and ._-:@+ (`ip link set dev OLD name NEW`)"
        ));
    }
    let shown = dir.display();
    let text = dir.to_str().ok_or_else(|| format!("{shown}: the name is not text in UTF-8"))?;
    match text.chars().find(|c| c.is_control() || "\"\\,#".contains(*c)) {
        None => Ok(()),
        Some(bad) => Err(format!(
            "{shown}: dnsmasq cannot take a directory with {bad:?} in its name: use another one"
        )),
    }
}

/// What dnsmasq reads, for the interface where machines ask and the directory that it serves.
#[must_use]
pub fn configuration(config: &Config, interface: &str, place: Place, root: &Path) -> String {
    let (first, last) = config.range;
    let run_dir = root.parent().unwrap_or(root);
    let mut text = format!(
        "# Written by weir pxe serve; it is rewritten each time.\n\
         port=0\ninterface={interface}\nexcept-interface=lo\nbind-interfaces\n\
         dhcp-range={first},{last},{}s\ndhcp-leasefile={}\n\
         enable-tftp\ntftp-root={}\nlog-dhcp\n",
        config.lease.as_secs(),
        run_dir.join(LEASES_NAME).display(),
        root.display(),
    );
    // Without an option of its own dnsmasq tells machines that it is their router.
    match config.gateway {
        Some(gateway) => drop(writeln!(text, "dhcp-option=option:router,{gateway}")),
        None => text += "dhcp-option=option:router\n",
    }
    if let Some(dns) = config.dns {
        let _ = writeln!(text, "dhcp-option=option:dns-server,{dns}");
    }
    for host in &config.hosts {
        let _ = writeln!(text, "dhcp-host={},set:host", host.mac);
    }
    if config.only_hosts {
        text += "dhcp-ignore=tag:!host\n";
    }
    // Client architectures of RFC 4578 and IANA: 7 and 9 are UEFI on x86-64. Option 175 is iPXE's.
    text += "dhcp-match=set:ipxe,175\ndhcp-match=set:bios,option:client-arch,0\n\
             dhcp-match=set:efi,option:client-arch,7\ndhcp-match=set:efi,option:client-arch,9\n";
    // NetBSD's pxeboot asks a second time, as itself: it takes its kernel from an NFS server unless
    // the name of the file says otherwise (pxeboot(8) of NetBSD).
    if config.entries.iter().any(|entry| matches!(entry.kind, Kind::Netbsd { .. })) {
        text += "dhcp-vendorclass=set:netbsd,NetBSD:\ndhcp-boot=tag:netbsd,tftp:netbsd\n";
    }
    let script = place.url(ipxe::SCRIPT_NAME);
    let _ = writeln!(text, "dhcp-boot=tag:efi,tag:ipxe,{script}");
    text += "dhcp-boot=tag:efi,tag:!ipxe,ipxe.efi\n";
    match config.loader {
        Loader::Auto => text += "dhcp-boot=tag:bios,pxelinux.0\n",
        Loader::Ipxe => {
            let _ = writeln!(text, "dhcp-boot=tag:bios,tag:ipxe,{script}");
            text += "dhcp-boot=tag:bios,tag:!ipxe,undionly.kpxe\n";
        }
    }
    text
}

/// What a machine did, as the log tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    /// It asked for an address; what its firmware says of itself.
    Asked {
        /// Its MAC address.
        mac: String,
        /// Vendor class, such as `PXEClient:Arch:00000:UNDI:002001`.
        firmware: Option<String>,
    },
    /// It got one.
    Address {
        /// Its MAC address.
        mac: String,
        address: Ipv4Addr,
    },
    /// It was not answered.
    Refused {
        /// Its MAC address, as far as the log has it.
        mac: String,
        /// Why.
        reason: String,
    },
    /// It got a file.
    Sent {
        address: Ipv4Addr,
        /// The file, below the served directory.
        file: String,
    },
    /// It looked for a file that need not be there.
    Looked { address: Ipv4Addr, file: String },
    /// It asked for a file that is not there.
    Missing { address: Ipv4Addr, file: String },
    /// A transfer broke off.
    Broken {
        address: Ipv4Addr,
        /// What was said.
        reason: String,
    },
}

/// Follows the log, whose lines about one request follow each other.
#[derive(Debug, Default)]
pub struct Follower {
    root: String,
    /// Firmware by the number of the transaction.
    firmware: BTreeMap<String, String>,
}

/// Transactions that are remembered.
const TRANSACTIONS_MAX: usize = 256;

impl Follower {
    /// For the log of a dnsmasq that serves this directory.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: format!("{}/", root.display()), ..Self::default() }
    }

    /// What a line says, if it says something of a machine.
    pub fn line(&mut self, line: &str) -> Option<Event> {
        // `dnsmasq-dhcp[3198]: `, on a terminal without the process id.
        let (part, rest) = line.split_once(": ")?;
        match part.split('[').next()? {
            "dnsmasq-tftp" => return self.tftp(rest),
            "dnsmasq-dhcp" => {}
            _ => return None,
        }
        let (transaction, rest) = rest.split_once(' ')?;
        if let Some(firmware) = rest.strip_prefix("vendor class: ") {
            if self.firmware.len() >= TRANSACTIONS_MAX {
                self.firmware.clear();
            }
            self.firmware.insert(transaction.to_owned(), firmware.to_owned());
            // The request's own line comes after what is in it.
            return None;
        }
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let is_mac = |word: &&&str| word.len() == 17 && word.matches(':').count() == 5;
        let mac = words.iter().find(is_mac).map(|mac| (*mac).to_owned());
        let address = words.iter().find_map(|word| word.parse().ok());
        let what = words.first()?.split('(').next()?;
        match (what, mac, address) {
            ("DHCPDISCOVER", Some(mac), _) if words.contains(&"no") => {
                Some(Event::Refused { mac, reason: "no address left in the range".to_owned() })
            }
            ("DHCPDISCOVER", Some(mac), _) if rest.ends_with("ignored") => Some(Event::Refused {
                mac,
                reason: "only machines of [[host]] are answered".into(),
            }),
            ("DHCPDISCOVER", Some(mac), _) => {
                Some(Event::Asked { mac, firmware: self.firmware.get(transaction).cloned() })
            }
            ("DHCPACK", Some(mac), Some(address)) => Some(Event::Address { mac, address }),
            ("DHCPNAK", Some(mac), _) => {
                let reason = rest.split_once(&mac).map_or("", |(_, reason)| reason.trim());
                Some(Event::Refused { mac, reason: reason.to_owned() })
            }
            _ => None,
        }
    }

    fn tftp(&self, rest: &str) -> Option<Event> {
        let file = |path: &str| path.strip_prefix(&self.root).unwrap_or(path).to_owned();
        if let Some((path, address)) =
            rest.strip_prefix("sent ").and_then(|r| r.rsplit_once(" to "))
        {
            return Some(Event::Sent { address: address.parse().ok()?, file: file(path) });
        }
        if let Some((path, rest)) =
            rest.strip_prefix("file ").and_then(|r| r.split_once(" not found"))
        {
            let address = rest.rsplit(' ').next()?.parse().ok()?;
            let file = file(path);
            return Some(if is_optional(&file) {
                Event::Looked { address, file }
            } else {
                Event::Missing { address, file }
            });
        }
        let address = rest.rsplit(' ').next()?.parse().ok()?;
        let broken = ["error", "failed", "cannot"].iter().any(|word| rest.starts_with(word));
        broken.then(|| Event::Broken { address, reason: rest.to_owned() })
    }
}

/// Files that boot loaders try before the one that is there.
fn is_optional(file: &str) -> bool {
    file.starts_with("pxelinux.cfg/") || matches!(file, "etc/random.seed" | "boot.cfg")
}

/// A running dnsmasq.
#[derive(Debug)]
pub struct Dnsmasq {
    guard: Child,
    lines: Receiver<String>,
    /// The last lines, for messages.
    recent: Vec<String>,
}

/// Whether a line of the log says that dnsmasq has its sockets.
#[must_use]
pub fn is_started(line: &str) -> bool {
    line.starts_with("dnsmasq") && line.contains(": started, version")
}

/// What there is to hear from it.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line of its log.
    Line(String),
    /// Nothing for that long.
    Nothing,
    /// It ended: why, in its own words.
    Ended(String),
}

impl Dnsmasq {
    /// Starts it.
    ///
    /// # Errors
    /// In words.
    pub fn start(configuration: &str, run_dir: &Path) -> Result<Self, String> {
        let path = run_dir.join("dnsmasq.conf");
        fs::write(&path, configuration)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let program = ["/usr/sbin/dnsmasq", "/sbin/dnsmasq", "/usr/local/sbin/dnsmasq"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .unwrap_or("dnsmasq");
        let mut guard = Command::new("/bin/sh")
            .args(["-c", GUARD, "sh", program, "--keep-in-foreground", "--log-facility=-"])
            .arg("--pid-file")
            .arg(format!("--conf-file={}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start dnsmasq: {error}"))?;
        let stderr = guard.stderr.take().ok_or("dnsmasq has no standard error")?;
        let (sender, lines) = mpsc::channel();
        let reader = thread::Builder::new().name("dnsmasq".into()).spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        reader.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { guard, lines, recent: Vec::new() })
    }

    /// Waits for its next line.
    pub fn hear(&mut self, patience: Duration) -> Heard {
        match self.lines.recv_timeout(patience) {
            Ok(line) => {
                self.recent.push(line.clone());
                self.recent.drain(..self.recent.len().saturating_sub(3));
                Heard::Line(line)
            }
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.guard.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                let words = self.recent.join("; ");
                let missing = words.contains("dnsmasq: not found");
                let advice = if missing { "; install the package dnsmasq-base" } else { "" };
                Heard::Ended(format!("dnsmasq ended ({status}): {words}{advice}"))
            }
        }
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        // The guard ends dnsmasq when its input ends.
        drop(self.guard.stdin.take());
        let deadline = Instant::now() + STOP_PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.guard.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}
