//! The scripts against machines that the tests play on a socket: boot loaders, installers and
//! shells that speak as the real ones do. No system is booted.

use std::io::Write as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::console::{ConsoleError, Script, Target};

const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "ssh-ed25519 AAAAC3NzaUser weir-lab";

const CARDS: [Card; 2] = [
    Card {
        addresses: ["198.18.0.1/24", "2001:2:0:1::1/64"],
        peer_mac: [2, 0x77, 0x65, 0x69, 0x72, 1],
        peers: ["198.18.0.2/24", "2001:2:0:1::2/64"],
        networks: ["198.18.0.0/16", "2001:2::/49"],
    },
    Card {
        addresses: ["198.19.0.1/24", "2001:2:0:8001::1/64"],
        peer_mac: [2, 0x77, 0x65, 0x69, 0x72, 4],
        peers: ["198.19.0.2/24", "2001:2:0:8001::2/64"],
        networks: ["198.19.0.0/16", "2001:2:0:8000::/49"],
    },
];

/// The machine's end of the line.
struct Player(UnixStream);

impl Player {
    fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for these keys, whatever comes before them.
    fn hear(&mut self, keys: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(keys.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap_or_else(|error| {
                panic!("{error} instead of {keys:?}, after {}", String::from_utf8_lossy(&heard))
            });
            heard.push(byte[0]);
        }
        String::from_utf8(heard).unwrap()
    }

    /// Asks, and gets exactly this answer.
    fn ask(&mut self, question: &str, answer: &str) {
        self.say(question);
        assert_eq!(self.hear("\r"), format!("{answer}\r"), "to {question}");
        self.say(&format!("{answer}\r\n"));
    }

    /// A shell that echoes, up to the command that ends the machine. Returns its commands.
    fn shell(&mut self, prompt: &str, result: impl Fn(&str) -> String) -> Vec<String> {
        let mut commands = Vec::new();
        loop {
            self.say(prompt);
            let line = self.hear("\r").trim_end().to_owned();
            if line == "halt -p" || line == "shutdown -p now" {
                // Whoever typed it hangs up: an echo may find nobody.
                commands.push(line);
                return commands;
            }
            self.say(&format!("{line}\r\n"));
            // In pieces, as a serial line brings it.
            for byte in result(&line).chars() {
                self.say(&byte.to_string());
            }
            commands.push(line);
        }
    }

    /// FreeBSD's loader, whose menu is somewhere else.
    fn freebsd_loader(&mut self) {
        self.say("\x1b[2JSeaBIOS\r\nConsoles: internal video/keyboard  serial port\r\n");
        self.hear("\x1b");
        self.say("\r\nType '?' for a list of commands, 'help' for more detailed help.\r\nOK ");
        self.hear("set console=comconsole\r");
        self.say("set console=comconsole\r\nOK ");
        self.hear("boot\r");
        self.say("boot\r\nFreeBSD 14.2-RELEASE releng/14.2 GENERIC amd64\r\n");
    }
}

/// What a shell says to the commands of the first boot.
fn first_boot_says(line: &str) -> String {
    match line {
        _ if line.contains("host-key: ") => {
            "host-key: ssh-ed25519 AAAAC3NzaHost root@weir-dut\r\n".to_owned()
        }
        _ if line.contains("kernel-is: ") => "kernel-is: 14.2-RELEASE\r\n".to_owned(),
        _ => String::new(),
    }
}

fn environment(name: &str) -> Option<String> {
    (name == script::PASSWORD).then(|| "0123456789abcdef".to_owned())
}

/// Drives a machine by a script. Returns what was seen, and the log.
fn play<R: Send>(
    text: &str,
    machine: impl FnOnce(&mut Player) -> R + Send,
) -> (Result<BTreeMap<String, String>, ConsoleError>, R, String) {
    let dir: TempDir = tempfile::tempdir().unwrap();
    let (path, log) = (dir.path().join("console"), dir.path().join("log"));
    let listener = UnixListener::bind(&path).unwrap();
    // Nothing here loses keys.
    let text = text.replace("character_delay = \"5ms\"\n", "");
    let script = Script::parse("test", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let cancel = Cancel::default();
    let mut seen = BTreeMap::new();
    let (driven, played) = thread::scope(|scope| {
        let played = scope.spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            machine(&mut Player(stream))
        });
        let target = Target::Unix(path);
        let how = (Some(log.as_path()), &cancel);
        let driven = machine::drive(&target, &script, how, &environment, &mut |progress| {
            if let Some(matched) = &progress.matched {
                seen.insert(progress.name.to_owned(), matched.clone());
            }
        });
        (driven, played.join().unwrap())
    });
    (driven.map(|()| seen), played, fs::read_to_string(&log).unwrap())
}

fn request(system: Bsd, source: &Path, out: &Path) -> Request {
    Request {
        system,
        source: source.to_owned(),
        is_medium: None,
        out: out.to_owned(),
        size_bytes: SIZE_BYTES_MIN,
        cards: CARDS,
        log: None,
        replace: false,
        weir: "test".to_owned(),
    }
}

#[test]
fn freebsd_is_installed_from_the_shell_of_its_medium() {
    let (seen, commands, _) = play(&script::install(Bsd::Freebsd), |machine| {
        machine.freebsd_loader();
        machine.say(
            "\r\nWelcome to FreeBSD!\r\n\r\nPlease choose the appropriate terminal type for your \
             system.\r\nCommon console types are:\r\n   ansi     Standard ANSI terminal\r\n   \
             vt100    VT100 or compatible terminal\r\n\r\n",
        );
        machine.ask("Console type [vt100]: ", "");
        machine.say("\x1b[1;1H  Welcome to FreeBSD! \x1b[7m[Install]\x1b[0m [ Shell ] [Live CD]");
        machine.hear("s");
        machine.say("\x1b[2J\r\nWhen finished, type 'exit' to return to the installer.\r\n");
        machine.shell("# ", |line| match line {
            _ if line.starts_with("bsdinstall") => {
                "Extracting base.txz 100%\r\nInstallation Completed\r\n".to_owned()
            }
            _ => String::new(),
        })
    });
    seen.unwrap();
    let answers = commands.iter().find(|line| line.starts_with("bsdinstall script")).unwrap();
    assert!(answers.contains("/tmp/answers"), "{answers}");
    assert!(commands.iter().any(|line| line.contains("PARTITIONS=vtbd0")), "{commands:?}");
    assert_eq!(commands.last().unwrap(), "shutdown -p now");
}

#[test]
fn a_published_freebsd_gets_key_addresses_and_console_at_its_first_boot() {
    let text = script::first_boot(Bsd::Freebsd, true, KEY, &CARDS);
    let (seen, commands, _) = play(&text, |machine| {
        machine.freebsd_loader();
        machine.say("\r\nFreeBSD/amd64 (Amnesiac) (ttyu0)\r\n\r\n");
        machine.ask("login: ", "root");
        machine.shell("root@:~ # ", first_boot_says)
    });
    let about = about(&request(Bsd::Freebsd, Path::new("x"), Path::new("d/out")), &seen.unwrap());
    let about = about.unwrap();
    assert_eq!(about.ssh.host_key.as_deref(), Some("ssh-ed25519 AAAAC3NzaHost"));
    assert_eq!(about.ssh.key.as_deref(), Some("out.key"));
    assert_eq!(about.built.unwrap().kernel, "14.2-RELEASE");
    let all = commands.join("\n");
    for part in [
        KEY,
        "sysrc 'ifconfig_vtnet1=inet 198.18.0.1/24'",
        "sysrc 'static_arp_out=198.19.0.2 02:77:65:69:72:04'",
        "sysrc 'ipv6_route_in=2001:2::/49 2001:2:0:1::2'",
        "console=comconsole",
        "sshd_enable=YES",
    ] {
        assert!(all.contains(part), "no {part} in:\n{all}");
    }
}

#[test]
fn openbsds_installer_is_answered_in_any_order_and_never_shows_the_password() {
    let (seen, (), log) = play(&script::install(Bsd::Openbsd), |machine| {
        machine.say(">> OpenBSD/amd64 CDBOOT 3.65\r\n");
        machine.ask("boot> ", "stty com0 115200");
        machine.ask("boot> ", "set tty com0");
        machine.say("switching console to com0\r\n");
        machine.ask("boot> ", "boot");
        machine.say("Welcome to the OpenBSD/amd64 7.6 installation program.\r\n");
        machine.ask("(I)nstall, (U)pgrade, (A)utoinstall or (S)hell? ", "I");
        machine.ask("Terminal type? [vt220] ", "");
        machine.ask("System hostname? (short form, e.g. 'foo') ", "weir-dut");
        machine.say("\r\nAvailable network interfaces are: vio0 vlan0.\r\n");
        let interface = "Network interface to configure? (name, lladdr, '?', or 'done')";
        machine.ask(&format!("{interface} [vio0] "), "vio0");
        machine.ask("IPv4 address for vio0? (or 'autoconf' or 'none') [autoconf] ", "autoconf");
        machine.ask("IPv6 address for vio0? (or 'autoconf' or 'none') [none] ", "none");
        machine.ask(&format!("{interface} [done] "), "done");
        machine.ask("DNS domain name? (e.g. 'example.com') [my.domain] ", "");
        let password = environment(script::PASSWORD).unwrap();
        machine.say("Password for root account? (will not echo) ");
        assert_eq!(machine.hear("\r"), format!("{password}\r"));
        machine.say("\r\nPassword for root account? (again) ");
        // A machine that echoes what it should not.
        let heard = machine.hear("\r");
        machine.say(&format!("{heard}\n"));
        machine.ask("Start sshd(8) by default? [yes] ", "yes");
        machine.ask("Do you expect to run the X Window System? [yes] ", "no");
        machine.ask("Change the default console to com0? [yes] ", "yes");
        machine.say("Available speeds are: 9600 19200 38400 57600 115200.\r\n");
        machine.ask("Which speed should com0 use? (or 'done') [115200] ", "115200");
        machine.ask("Setup a user? (enter a lower-case loginname, or 'no') [no] ", "no");
        machine.say("WARNING: root is targeted by password guessing attacks.\r\n");
        machine
            .ask("Allow root ssh login? (yes, no, prohibit-password) [no] ", "prohibit-password");
        machine.ask("What timezone are you in? ('?' for list) [Canada/Mountain] ", "UTC");
        machine.say("\r\nAvailable disks are: sd0.\r\n");
        machine.ask("Which disk is the root disk? ('?' for details) [sd0] ", "sd0");
        machine.ask("Encrypt the root disk with a (p)assphrase or (k)eydisk? [no] ", "no");
        machine.ask("Use (W)hole disk MBR, whole disk (G)PT or (E)dit? [whole] ", "whole");
        machine.ask("Use (A)uto layout, (E)dit auto layout, or create (C)ustom layout? [a] ", "a");
        machine.say("\r\nLet's install the sets!\r\n");
        machine.ask("Location of sets? (cd0 disk http nfs or 'done') [cd0] ", "");
        machine.ask("Pathname to the sets? (or 'done') [7.6/amd64] ", "");
        machine.ask("Set name(s)? (or 'abort' or 'done') [done] ", "done");
        machine.ask(
            "Directory does not contain SHA256.sig. Continue without verification? [no] ",
            "yes",
        );
        machine.say("Installing base76.tgz  100% |****| 442 MB    00:20\r\n");
        machine.ask("Location of sets? (cd0 disk http nfs or 'done') [done] ", "done");
        machine.say("CONGRATULATIONS! Your OpenBSD install has been successfully completed!\r\n");
        machine.ask("Exit to (S)hell, (H)alt or (R)eboot? [reboot] ", "H");
        machine.say("The operating system has halted.\r\nPlease press any key to reboot.\r\n");
    });
    seen.unwrap();
    assert!(log.contains("********") && !log.contains("0123456789abcdef"), "{log}");
}

#[test]
fn the_first_boot_of_openbsd_logs_in_with_the_password_and_configures_its_cards() {
    let text = script::first_boot(Bsd::Openbsd, false, KEY, &CARDS);
    let (seen, commands, _) = play(&text, |machine| {
        machine.say("\r\nOpenBSD/amd64 (weir-dut.my.domain) (tty00)\r\n\r\n");
        machine.ask("login: ", "root");
        machine.say("Password:");
        machine.hear("0123456789abcdef\r");
        machine.shell("\r\nweir-dut# ", first_boot_says)
    });
    assert!(seen.unwrap().contains_key(script::HOST_KEY));
    let all = commands.join("\n");
    for part in [
        "'inet 198.19.0.1/24' > /etc/hostname.vio2",
        "'!ndp -s 2001:2:0:1::2 02:77:65:69:72:01' >> /etc/hostname.vio1",
        "'!route add -inet 198.19.0.0/16 198.19.0.2'",
        "net.inet.ip.forwarding=1",
    ] {
        assert!(all.contains(part), "no {part} in:\n{all}");
    }
    assert_eq!(commands.last().unwrap(), "halt -p");
}

#[test]
fn a_command_that_fails_and_a_question_that_is_not_known_end_it_with_what_was_shown() {
    let text = script::first_boot(Bsd::Freebsd, false, KEY, &CARDS);
    let (driven, _, _) = play(&text, |machine| {
        machine.ask("login: ", "root");
        machine.say("# ");
        machine.hear("exec /bin/sh\r");
        machine.say("# ");
        machine.hear("\r");
        machine.say("mkdir: /root/.ssh: Read-only file system\r\nIMAGE-SETUP-FAILED\r\n# ");
    });
    let error = driven.unwrap_err().to_string();
    assert!(error.contains("which means a failure") && error.contains("Read-only"), "{error}");
    let text = script::install(Bsd::Openbsd).replace("\"3h\"", "\"300ms\"");
    let (driven, _, _) = play(&text, |machine| {
        for answer in ["stty com0 115200", "set tty com0", "boot"] {
            machine.ask("boot> ", answer);
        }
        machine.ask("(I)nstall, (U)pgrade, (A)utoinstall or (S)hell? ", "I");
        machine.say("What is your favourite colour? [blue] ");
        // Until the console is closed.
        let _ = std::io::copy(&mut machine.0, &mut std::io::sink());
    });
    let error = driven.unwrap_err().to_string();
    assert!(error.contains("favourite colour") && error.contains("the network"), "{error}");
}

#[test]
fn what_a_file_is_is_told_by_its_content_and_name() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let mut iso = vec![0; 0x8001];
    iso.extend(ISO_NAME);
    assert_eq!(look(&put("a.img", &iso)).unwrap(), Source::Cd);
    assert_eq!(look(&put("FreeBSD-14-memstick.img", b"x")).unwrap(), Source::Stick);
    assert_eq!(look(&put("install76.img", b"x")).unwrap(), Source::Stick);
    let disk = put("FreeBSD-14.qcow2", b"QFI\xfb");
    assert_eq!(look(&disk).unwrap(), Source::Disk);
    let error = look(&put("a.qcow2.xz", b"\xfd7zXZ\0")).unwrap_err().to_string();
    assert!(error.contains("xz -d -k") && error.contains("a.qcow2.xz"), "{error}");
    assert!(look(&dir.path().join("missing")).unwrap_err().to_string().contains("missing"));
    let out = dir.path().join("out");
    let error = check(&request(Bsd::Openbsd, &disk, &out)).unwrap_err().to_string();
    assert!(error.contains("OpenBSD publishes no disks"), "{error}");
    let small = Request { size_bytes: 1 << 30, ..request(Bsd::Openbsd, &disk, &out) };
    let small = Request { is_medium: Some(true), ..small };
    assert!(check(&small).unwrap_err().to_string().contains("4 GiB at least"));
    assert_eq!(check(&request(Bsd::Freebsd, &disk, &out)).unwrap(), Source::Disk);
    fs::write(dir.path().join("out.key"), "precious").unwrap();
    assert!(check(&request(Bsd::Freebsd, &disk, &out)).is_err());
}
