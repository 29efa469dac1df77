//! What is typed on a BSD's serial console: the way through boot loader and installer, and the
//! commands of the first boot, as scripts of [`crate::console`].
//!
//! The words are those of FreeBSD's `startbsdinstall` and loader, and of OpenBSD's `install.sub`
//! and boot(8). Questions are answered whenever they come, because releases differ in their order;
//! one that is not known lets the script fail with what the console showed. Text only.

use std::fmt::Write as _;

use super::{Bsd, Card};

/// The variable of the root password that an OpenBSD installer asks for.
pub(super) const PASSWORD: &str = "WEIR_IMAGE_PASSWORD";
/// Name of the step that has seen the machine's own public key.
pub(super) const HOST_KEY: &str = "host key";
/// Name of the step that has seen its kernel's version.
pub(super) const KERNEL: &str = "kernel";
/// What a command says that failed; typed so that its echo does not match.
const FAILED: &str = "IMAGE-SETUP-FAILED";

/// A script under way.
struct Writer(String);

impl Writer {
    /// Boot loaders lose keys that come too fast; an emulated installer unpacks for an hour.
    fn new(timeout: &str) -> Self {
        let fail = ["panic:", FAILED, "No space left", "installation step has been aborted"];
        let fail = fail.map(text).join(", ");
        Self(format!("timeout = \"{timeout}\"\nfail = [{fail}]\ncharacter_delay = \"5ms\"\n"))
    }

    fn step(&mut self, fields: &[(&str, String)]) {
        self.0.push_str("\n[[step]]\n");
        for (name, value) in fields {
            // Writing to a String cannot fail.
            let _ = writeln!(self.0, "{name} = {value}");
        }
    }

    fn type_at(&mut self, expect: &str, line: &str) {
        self.step(&[("expect", text(expect)), ("send_line", text(line))]);
    }

    /// Commands of a shell, each of which has to succeed.
    fn shell(&mut self, lines: &[String]) {
        for line in lines {
            let half = FAILED.len() / 2;
            let (a, b) = FAILED.split_at(half);
            self.type_at(PROMPT, &format!("{line} || echo {a}\"\"{b}"));
        }
    }

    /// Waits for something, answers these questions meanwhile, and does what `action` says then.
    fn answer_until(
        &mut self,
        (name, expect): (&str, &str),
        answers: &[(&str, &str)],
        action: (&str, &str),
    ) {
        let answers: Vec<String> = answers
            .iter()
            .map(|(question, keys)| {
                format!("{{ expect = {}, send = {} }}", text(question), text(&format!("{keys}\r")))
            })
            .collect();
        let answers = format!("[\n  {},\n]", answers.join(",\n  "));
        self.step(&[
            ("name", text(name)),
            ("expect", text(expect)),
            ("answer", answers),
            (action.0, text(action.1)),
        ]);
    }
}

/// A prompt of root's, after which nothing has come yet.
const PROMPT: &str = "[#] $";

/// A string of TOML.
fn text(value: &str) -> String {
    toml::Value::String(value.to_owned()).to_string()
}

/// From the medium's boot loader to the end of the installation; the machine powers itself off.
pub(super) fn install(system: Bsd) -> String {
    match system {
        Bsd::Freebsd => freebsd_install(),
        Bsd::Openbsd => openbsd_install(),
    }
}

/// Turns FreeBSD's loader, which may know nothing of a serial port, to it.
fn freebsd_loader(script: &mut Writer) {
    // Escape leaves the menu for the loader's prompt, wherever the menu is shown.
    script.step(&[
        ("name", text("the loader's prompt")),
        ("expect", text("^OK $")),
        ("nudge", text("\u{1b}")),
        ("nudge_every", text("1s")),
        ("send_line", text("set console=comconsole")),
    ]);
    script.type_at("OK $", "boot");
}

fn freebsd_install() -> String {
    let mut script = Writer::new("3h");
    freebsd_loader(&mut script);
    script.type_at(r"Console type \[vt100\]: $", "");
    // A button of the installer's welcome.
    script.step(&[
        ("name", text("the installer's welcome")),
        ("expect", text("Shell")),
        ("pause", text("2s")),
        ("send", text("s")),
    ]);
    let line = |line: &str| line.to_owned();
    script.shell(&[
        line("printf '%s\\n' 'PARTITIONS=vtbd0' > /tmp/answers"),
        line("printf '%s\\n' 'DISTRIBUTIONS=\"kernel.txz base.txz\"' >> /tmp/answers"),
        line("printf '%s\\n' 'export nonInteractive=YES' >> /tmp/answers"),
        // What follows the second `#!` runs on the new system.
        line("printf '%s%s\\n' '#' '!/bin/sh' >> /tmp/answers"),
        line("printf '%s\\n' 'sysrc -f /boot/loader.conf console=comconsole' >> /tmp/answers"),
        line("bsdinstall script /tmp/answers"),
    ]);
    script.type_at(PROMPT, "shutdown -p now");
    script.0
}

fn openbsd_install() -> String {
    let mut script = Writer::new("3h");
    script.step(&[
        ("name", text("the boot prompt")),
        ("expect", text("boot> ?$")),
        ("send_line", text("stty com0 115200")),
    ]);
    script.type_at("boot> ?$", "set tty com0");
    script.type_at("boot> ?$", "boot");
    script.type_at(r"\(I\)nstall, \(U\)pgrade, \(A\)utoinstall or \(S\)hell\? ?$", "I");
    let network = [
        (r"Terminal type\? \[.*\] ?$", ""),
        (r"System hostname\?.*\) ?$", "weir-dut"),
        (r"Network interface to configure\?.*\[vio0\] ?$", "vio0"),
        (r"Network interface to configure\?.*\[done\] ?$", "done"),
        (r"IPv4 address for vio0\?.*\] ?$", "autoconf"),
        (r"IPv6 address for vio0\?.*\] ?$", "none"),
        (r"Default IPv4 route\?.*\] ?$", "none"),
        (r"DNS domain name\?.*\] ?$", ""),
        (r"DNS nameservers\?.*\] ?$", "none"),
    ];
    let password = r"Password for root account\? \(will not echo\) ?$";
    script.answer_until(("the network", password), &network, ("secret", PASSWORD));
    script.step(&[
        ("expect", text(r"Password for root account\? \(again\) ?$")),
        ("secret", text(PASSWORD)),
    ]);
    let rest = [
        (r"Start sshd\(8\) by default\?.*\] ?$", "yes"),
        (r"Do you expect to run the X Window System\?.*\] ?$", "no"),
        (r"Do you want the X Window System to be started by xenodm\(1\)\?.*\] ?$", "no"),
        (r"Change the default console to com0\?.*\] ?$", "yes"),
        (r"Which speed should com0 use\?.*\] ?$", "115200"),
        (r"Setup a user\?.*\] ?$", "no"),
        (r"Allow root ssh login\?.*\] ?$", "prohibit-password"),
        (r"What timezone are you in\?.*\] ?$", "UTC"),
        (r"Which disk is the root disk\?.*\] ?$", "sd0"),
        (r"Encrypt the root disk.*\?.*\] ?$", "no"),
        (r"Use \(W\)hole disk.*\?.*\] ?$", "whole"),
        (r"Use \(A\)uto layout.*\?.*\] ?$", "a"),
        (r"Which disk do you wish to initialize\?.*\] ?$", "done"),
        (r"Location of sets\?.*\[(?:cd0|disk|http)\] ?$", ""),
        (r"Location of sets\?.*\[done\] ?$", "done"),
        (r"Is the disk partition already mounted\?.*\] ?$", "no"),
        (r"Which disk contains the install media\?.*\] ?$", "sd1"),
        (r"Which sd1 partition has the install sets\?.*\] ?$", ""),
        (r"Pathname to the sets\?.*\] ?$", ""),
        (r"Set name\(s\)\?.*\[done\] ?$", "done"),
        (r"Continue without verification\?.*\] ?$", "yes"),
        (r"Time appears wrong\..*\] ?$", "yes"),
    ];
    let end = r"Exit to \(S\)hell, \(H\)alt or \(R\)eboot\?.*\] ?$";
    script.answer_until(("the installation", end), &rest, ("send_line", "H"));
    // A machine that is halted stays on.
    script.step(&[("expect", text("has halted|[Pp]ress any key to reboot"))]);
    script.0
}

/// The first boot: login, everything that makes a DUT of the machine, and its end. `from_loader`:
/// nobody has told the boot loader yet that there is a serial port.
pub(super) fn first_boot(
    system: Bsd,
    from_loader: bool,
    public_key: &str,
    cards: &[Card; 2],
) -> String {
    let mut script = Writer::new("1h");
    if from_loader {
        freebsd_loader(&mut script);
    }
    script.type_at("login: ?$", "root");
    if system == Bsd::Openbsd {
        script.step(&[("expect", text("Password: ?$")), ("secret", text(PASSWORD))]);
    }
    // Root's own shell may be csh.
    script.type_at(PROMPT, "exec /bin/sh");
    let mut lines: Vec<String> = vec![
        "mkdir -p -m 700 /root/.ssh".to_owned(),
        format!("printf '%s\\n' '{public_key}' > /root/.ssh/authorized_keys"),
        "chmod 600 /root/.ssh/authorized_keys".to_owned(),
    ];
    lines.extend(match system {
        Bsd::Freebsd => freebsd_lines(cards),
        Bsd::Openbsd => openbsd_lines(cards),
    });
    script.shell(&lines);
    let host_key = "echo \"host-key: $(cat /etc/ssh/ssh_host_ed25519_key.pub)\"";
    script.type_at(PROMPT, host_key);
    script.step(&[("name", text(HOST_KEY)), ("expect", text(r"host-key: ssh-ed25519 \S+\s"))]);
    script.type_at(PROMPT, "echo \"kernel-is: $(uname -r)\"");
    script.step(&[("name", text(KERNEL)), ("expect", text(r"kernel-is: \d\S*\s"))]);
    script.type_at(PROMPT, if system == Bsd::Openbsd { "halt -p" } else { "shutdown -p now" });
    script.0
}

/// The address alone.
fn bare(prefix: &str) -> &str {
    prefix.split('/').next().unwrap_or(prefix)
}

/// A MAC address as these systems write it.
fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn freebsd_lines(cards: &[Card; 2]) -> Vec<String> {
    let mut settings: Vec<String> = [
        "hostname=weir-dut",
        "sshd_enable=YES",
        "sendmail_enable=NONE",
        "gateway_enable=YES",
        "ipv6_gateway_enable=YES",
        "ifconfig_vtnet0=DHCP",
        "static_arp_pairs=in out",
        "static_ndp_pairs=in out",
        "static_routes=in out",
        "ipv6_static_routes=in out",
    ]
    .map(str::to_owned)
    .into();
    for ((index, name), card) in (1..).zip(["in", "out"]).zip(cards) {
        let ([v4, v6], peers) = (card.addresses, card.peers.map(bare));
        let peer_mac = mac(card.peer_mac);
        settings.extend([
            format!("ifconfig_vtnet{index}=inet {v4}"),
            format!("ifconfig_vtnet{index}_ipv6=inet6 {v6}"),
            format!("static_arp_{name}={} {peer_mac}", peers[0]),
            format!("static_ndp_{name}={} {peer_mac}", peers[1]),
            format!("route_{name}=-net {} {}", card.networks[0], peers[0]),
            format!("ipv6_route_{name}={} {}", card.networks[1], peers[1]),
        ]);
    }
    let mut lines: Vec<String> =
        settings.iter().map(|setting| format!("sysrc '{setting}'")).collect();
    lines.extend(
        [
            "sysrc -f /boot/loader.conf console=comconsole comconsole_speed=115200",
            "sysrc -f /boot/loader.conf autoboot_delay=1",
            "printf '%s\\n' 'PermitRootLogin prohibit-password' 'UseDNS no' >> \
             /etc/ssh/sshd_config",
            "service sshd keygen",
        ]
        .map(str::to_owned),
    );
    lines
}

fn openbsd_lines(cards: &[Card; 2]) -> Vec<String> {
    let mut lines: Vec<String> = [
        "printf '%s\\n' 'inet autoconf' > /etc/hostname.vio0",
        "printf '%s\\n' 'net.inet.ip.forwarding=1' 'net.inet6.ip6.forwarding=1' >> \
         /etc/sysctl.conf",
    ]
    .map(str::to_owned)
    .into();
    for (index, card) in (1..).zip(cards) {
        let ([v4, v6], peers) = (card.addresses, card.peers.map(bare));
        let peer_mac = mac(card.peer_mac);
        let file = [
            format!("inet {v4}"),
            format!("inet6 {v6}"),
            format!("{}arp -s {} {peer_mac}", '!', peers[0]),
            format!("{}ndp -s {} {peer_mac}", '!', peers[1]),
            format!("{}route add -inet {} {}", '!', card.networks[0], peers[0]),
            format!("{}route add -inet6 {} {}", '!', card.networks[1], peers[1]),
        ];
        // A line each: what a terminal takes at once has a limit.
        for (number, entry) in file.iter().enumerate() {
            let to = if number == 0 { ">" } else { ">>" };
            lines.push(format!("printf '%s\\n' '{entry}' {to} /etc/hostname.vio{index}"));
        }
    }
    lines.push("chmod 640 /etc/hostname.vio1 /etc/hostname.vio2".to_owned());
    // It makes a new kernel and new libraries at every boot, which would be measured.
    lines.push("rcctl disable library_aslr".to_owned());
    lines
}
