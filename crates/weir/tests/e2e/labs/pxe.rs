//! `weir pxe serve` boots a virtual machine from its network card, through the menu on its serial
//! console, to the login of a Debian kernel; `weir console` does what a person would.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_net::registry::Record;
use weir_net::{Netns, NetnsGuard};

use super::left;
use super::slots::NETWORK_BOOT;

/// How long a virtual machine may take to a login, emulated, on a busy machine.
const BOOT_PATIENCE: Duration = Duration::from_secs(480);
const PATIENCE: Duration = Duration::from_secs(60);

const MAC: &str = "52:54:00:77:00:01";
const KERNEL: &str = "/usr/lib/debian-installer/images/12/amd64/text/debian-installer/amd64/linux";
const BUSYBOX: &str = "/bin/busybox";

/// What the test needs, and the Debian package that has it.
const TOOLS: [(&str, &str); 6] = [
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/lib/ipxe/qemu/pxe-virtio.rom", "ipxe-qemu"),
    ("/usr/sbin/dnsmasq", "dnsmasq-base"),
    ("/usr/lib/PXELINUX/pxelinux.0", "pxelinux"),
    (BUSYBOX, "busybox-static"),
    (KERNEL, "debian-installer-12-netboot-amd64"),
];

#[expect(clippy::print_stderr, reason = "the test driver reads a test's captured output")]
pub(crate) fn can_run(test: &str) -> bool {
    let root =
        fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let missing = TOOLS.iter().find(|(path, _)| !Path::new(path).exists());
    let why = match (root, missing) {
        (false, _) => "not root".to_owned(),
        (true, Some((path, package))) => format!("no {path}: install {package}"),
        (true, None) if !Path::new("/dev/net/tun").exists() => "no /dev/net/tun".to_owned(),
        (true, None) => return true,
    };
    eprintln!("skipped: {test}: {why}");
    false
}

/// A process that is killed when the test ends, however it does.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A namespace with a bridge that has an address, and a tap for the machine.
pub(crate) struct Rack {
    namespace: Option<NetnsGuard>,
    name: String,
    dir: PathBuf,
    record: Option<Record>,
}

impl Drop for Rack {
    fn drop(&mut self) {
        drop(self.namespace.take());
        // What is still there stays on record, for the next process.
        drop(self.record.take().map(Record::close));
    }
}

impl Rack {
    pub(crate) fn new(name: &str, config: &str) -> Self {
        let name = format!("weir-pxe-{name}-{}", std::process::id());
        let (record, dir) = left::record([name.clone()].into_iter());
        let namespace = Netns::create(&name).expect("a namespace can be made").guard();
        let rack = Self { namespace: Some(namespace), name, dir, record: Some(record) };
        for line in [
            "link set lo up",
            "link add br0 type bridge",
            "address add 192.0.2.1/24 dev br0",
            "tuntap add dev tap0 mode tap",
            "link set tap0 master br0",
            "link set tap0 up",
            "link set br0 up",
        ] {
            let mut words = vec!["ip"];
            words.extend(line.split(' '));
            let status = rack.inside(&words).status().expect("ip runs");
            assert!(status.success(), "ip {line}");
        }
        fs::set_permissions(&rack.dir, fs::Permissions::from_mode(0o755)).expect("settable");
        fs::create_dir(rack.path("tiny")).expect("made");
        symlink(KERNEL, rack.path("tiny/linux")).expect("linked");
        initrd(&rack.path("initrd"), &rack.path("tiny/initrd.gz"));
        fs::write(rack.path("pxe.toml"), config).expect("written");
        rack
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn arg(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn inside(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).args(words);
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// Starts the service, and returns it when it has its sockets, with its events.
    pub(crate) fn serve(&self) -> (Running, Receiver<Value>) {
        let (dir, log) = (self.arg(""), self.arg("pxe.log"));
        let weir = env!("CARGO_BIN_EXE_weir");
        let words = [weir, "pxe", "serve", "--interface", "br0", "--dir", &dir, "--log", &log];
        let mut command = self.inside(&[&words[..], &["--json"]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("ip runs");
        let mut notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let events = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let child = Running(child);
        let mut said = String::new();
        loop {
            match notes.next() {
                Some(line) => said += &(line.expect("readable") + "\n"),
                None => panic!("it ended: {said}"),
            }
            if said.contains("Ctrl-C ends") {
                break;
            }
        }
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in events.map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        (child, receiver)
    }

    /// Starts a machine that boots from its network card. It waits for its console.
    pub(crate) fn machine(&self) -> Running {
        let serial = format!("unix:{},server=on,wait=on", self.arg("console"));
        let nic = format!("tap,ifname=tap0,script=no,downscript=no,model=virtio-net-pci,mac={MAC}");
        // It can wait; traffic that other tests measure meanwhile cannot.
        let words = "nice -n 5 qemu-system-x86_64 -accel tcg -m 512 -display none -monitor none";
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["-serial", &serial, "-nic", &nic, "-boot", "n", "-no-reboot"]);
        let log = fs::File::create(self.path("qemu.log")).expect("a log");
        let mut command = self.inside(&words);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("ip runs");
        let child = Running(child);
        let deadline = Instant::now() + PATIENCE;
        while !self.path("console").exists() {
            assert!(Instant::now() < deadline, "{}", self.read("qemu.log"));
            thread::sleep(Duration::from_millis(20));
        }
        child
    }

    /// Drives the machine's console by a script.
    fn drive(&self, script: &str) -> Output {
        fs::write(self.path("script.toml"), script).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["console", &self.arg("console"), "--script", &self.arg("script.toml")]);
        command.args(["--log", &self.arg("console.log"), "--json"]);
        command.env("WEIR_TEST_PASSWORD", "open sesame").stdin(Stdio::null());
        command.output().expect("it ends")
    }

    fn read(&self, name: &str) -> String {
        fs::read(self.path(name))
            .map_or_else(|e| e.to_string(), |b| String::from_utf8_lossy(&b).into())
    }
}

/// A RAM disk with a login: busybox, a password, a getty on the serial port.
fn initrd(work: &Path, to: &Path) {
    for dir in ["bin", "etc", "dev", "proc", "root"] {
        fs::create_dir_all(work.join(dir)).expect("made");
    }
    fs::copy(BUSYBOX, work.join("bin/busybox")).expect("copied");
    symlink("bin/busybox", work.join("init")).expect("linked");
    for applet in ["sh", "login"] {
        symlink("busybox", work.join("bin").join(applet)).expect("linked");
    }
    let hash = Command::new(BUSYBOX).args(["mkpasswd", "-m", "sha256", "open sesame"]).output();
    let hash = String::from_utf8(hash.expect("busybox runs").stdout).expect("text");
    let put = |name: &str, text: String| fs::write(work.join(name), text).expect("written");
    put("etc/passwd", format!("root:{}:0:0:root:/root:/bin/sh\n", hash.trim()));
    put("etc/group", "root:x:0:\n".into());
    let inittab = "::sysinit:/bin/busybox mount -t devtmpfs dev /dev\n\
                   ::sysinit:/bin/busybox mount -t proc proc /proc\n\
                   ::sysinit:/bin/busybox hostname weir-pxe\n\
                   ttyS0::respawn:/bin/busybox getty -L 115200 ttyS0 vt100\n";
    put("etc/inittab", inittab.into());
    let pack = format!(
        "cd '{}' && busybox find . | busybox cpio -o -H newc 2>/dev/null | busybox gzip >'{}'",
        work.display(),
        to.display()
    );
    let status = Command::new("/bin/sh").args(["-c", &pack]).status().expect("sh runs");
    assert!(status.success(), "{pack}");
}

/// From the login to the shell, and what the kernel says of itself.
const LOGIN: &str = r#"
[[step]]
name = "the login"
expect = 'weir-pxe login: $'
timeout = "470s"
fail = ['Kernel panic', 'No such file', 'could not be']
send_line = "root"

[[step]]
expect = 'Password: $'
secret = "WEIR_TEST_PASSWORD"

[[step]]
expect = '# $'
send_line = 'busybox uname -sv'

[[step]]
name = "the kernel"
expect = 'Linux #\d.* Debian [^\r\n]*'
send_line = "busybox poweroff -f"
"#;

pub(crate) const CONFIG: &str = r#"
[serve]
range = "192.0.2.100-192.0.2.120"

[menu]
title = "weir test rack"

[[entry]]
name = "local"
title = "Local disk"
kind = "local"

[[entry]]
name = "tiny"
title = "A tiny Debian"
kind = "linux"
kernel = "tiny/linux"
initrd = "tiny/initrd.gz"
append = "quiet"
"#;

/// Waits for an event.
fn await_event(events: &Receiver<Value>, seen: &mut Vec<Value>, is: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !seen.iter().any(&is) {
        let left = deadline.saturating_duration_since(Instant::now());
        match events.recv_timeout(left) {
            Ok(event) => seen.push(event),
            Err(error) => panic!("{error}; there were {seen:#?}"),
        }
    }
}

#[track_caller]
fn assert_driven(output: &Output, rack: &Rack) {
    assert!(
        output.status.success(),
        "{}\n{}\nconsole:\n{}\nservice:\n{}\nQEMU:\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        rack.read("console.log"),
        rack.read("pxe.log"),
        rack.read("qemu.log"),
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains("\"name\":\"the kernel\""), "{text}");
    assert!(!rack.read("console.log").contains("sesame"));
}

#[test]
fn a_machine_boots_from_its_card_through_the_serial_menu_to_a_login() {
    if !can_run("a_machine_boots_from_its_card_through_the_serial_menu_to_a_login") {
        return;
    }
    let _slot = NETWORK_BOOT.take();
    let rack = Rack::new("menu", CONFIG);
    let (mut service, events) = rack.serve();
    let _machine = rack.machine();
    let menu = "[[step]]\nname = \"the menu\"\nexpect = '2\\) A tiny Debian'\ntimeout = \"470s\"\n\
                send = \"2\"\n";
    let started = Instant::now();
    let output = rack.drive(&format!("{menu}{LOGIN}"));
    assert!(started.elapsed() < 2 * BOOT_PATIENCE);
    assert_driven(&output, &rack);
    let mut seen = Vec::new();
    let of = |kind: &'static str, file: &'static str| {
        move |event: &Value| event["kind"] == kind && event["file"] == file && event["mac"] == MAC
    };
    await_event(&events, &mut seen, of("sent", "tiny/initrd.gz"));
    let firmware = seen.iter().find(|event| event["kind"] == "asked").expect("it asked");
    assert!(firmware["firmware"].as_str().is_some_and(|f| f.starts_with("PXEClient:Arch:00000")));
    for file in ["pxelinux.0", "ldlinux.c32", "menu.c32", "pxelinux.cfg/default", "tiny/linux"] {
        assert!(seen.iter().any(of("sent", file)), "{file}: {seen:#?}");
    }
    let first_name = "pxelinux.cfg/01-52-54-00-77-00-01";
    assert!(seen.iter().any(of("looked", first_name)), "{seen:#?}");
    assert!(seen.iter().all(|event| event["kind"] != "missing"), "{seen:#?}");
    assert!(rack.read("pxe.log").contains("]: sent "));
    // It ends with its dnsmasq, also if it is killed.
    assert_eq!(dnsmasq_of(&rack).len(), 1);
    // `ip netns exec` has become weir.
    service.0.kill().expect("it is there");
    service.0.wait().expect("it ends");
    let deadline = Instant::now() + PATIENCE;
    while !dnsmasq_of(&rack).is_empty() {
        assert!(Instant::now() < deadline, "dnsmasq outlived weir");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The processes of the service's dnsmasq, not those that started it.
fn dnsmasq_of(rack: &Rack) -> Vec<u32> {
    let conf = rack.arg(".weir-pxe/dnsmasq.conf");
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let is_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.starts_with("/usr/sbin/dnsmasq") && line.contains(&conf)
    };
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(is_it).collect()
}

#[test]
fn a_machine_of_its_own_entry_boots_by_http_without_being_asked() {
    if !can_run("a_machine_of_its_own_entry_boots_by_http_without_being_asked") {
        return;
    }
    let config = CONFIG.replace("[menu]", "loader = \"ipxe\"\nonly_hosts = true\n[menu]");
    let host = format!("\n[[host]]\nmac = \"{MAC}\"\nentry = \"tiny\"\n");
    let _slot = NETWORK_BOOT.take();
    let rack = Rack::new("http", &(config + &host));
    let (_service, events) = rack.serve();
    let _machine = rack.machine();
    let output = rack.drive(LOGIN);
    assert_driven(&output, &rack);
    let mut seen = Vec::new();
    let of =
        |file: &'static str| move |event: &Value| event["kind"] == "http" && event["file"] == file;
    await_event(&events, &mut seen, of("tiny/initrd.gz"));
    let kernel = seen.iter().find(|event| of("tiny/linux")(event)).expect("the kernel came so");
    assert_eq!(kernel["size_bytes"], fs::metadata(KERNEL).expect("it is there").len());
    assert_eq!((&kernel["status"], &kernel["mac"]), (&200.into(), &MAC.into()));
    assert!(seen.iter().any(of("boot.ipxe")), "{seen:#?}");
    let is_sent = |event: &&Value| of("tiny/linux")(event) && event["state"] == "sent";
    let sent = seen.iter().find(is_sent).expect("all of the kernel went out");
    assert_eq!(sent["sent_bytes"], kernel["size_bytes"]);
}

#[test]
fn a_log_on_a_full_disk_does_not_end_the_service() {
    if !can_run("a_log_on_a_full_disk_does_not_end_the_service") {
        return;
    }
    let rack = Rack::new("full", CONFIG);
    symlink("/dev/full", rack.path("pxe.log")).expect("linked");
    // It has written lines of dnsmasq's before it says that it serves.
    let (mut service, _events) = rack.serve();
    assert!(service.0.try_wait().expect("a child").is_none());
    assert_eq!(dnsmasq_of(&rack).len(), 1);
}

#[test]
fn what_cannot_be_served_is_reported_before_anything_is_started() {
    if !can_run("what_cannot_be_served_is_reported_before_anything_is_started") {
        return;
    }
    let rack = Rack::new("refused", CONFIG);
    let weir = env!("CARGO_BIN_EXE_weir");
    let dir = rack.arg("");
    let run = |words: &[&str]| {
        let output = rack.inside(&[&[weir, "pxe"], words].concat()).output().expect("ip runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let serve = |interface| run(&["serve", "--interface", interface, "--dir", &dir]);
    let (code, _, said) = serve("br*");
    assert_eq!(code, Some(2));
    assert!(said.contains("dnsmasq does not accept this interface name"), "{said}");
    let (code, _, said) = serve("tap0");
    assert_eq!(code, Some(2));
    assert!(said.contains("`tap0` has no address in the network of the range"), "{said}");
    let (code, out, _) = run(&["check", "--dir", &dir]);
    assert_eq!((code, out.contains("0 of them missing")), (Some(0), true), "{out}");
    fs::remove_file(rack.path("tiny/linux")).expect("removed");
    let (code, out, _) = run(&["check", "--dir", &dir, "--json"]);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &report["lacking_count"]), (Some(1), &1.into()));
    let (code, _, said) = serve("br0");
    assert_eq!(code, Some(2));
    assert!(said.contains("tiny/linux: missing"), "{said}");
    assert!(!rack.path(".weir-pxe").exists());
    let moved = CONFIG.replace("192.0.2.100", "192.0.2.1");
    symlink(KERNEL, rack.path("tiny/linux")).expect("linked");
    fs::write(rack.path("pxe.toml"), moved).expect("written");
    let (code, _, said) = serve("br0");
    assert_eq!(code, Some(2));
    assert!(said.contains("the address of `br0` itself"), "{said}");
    // Somebody has the directory, or the port, already.
    fs::write(rack.path("pxe.toml"), CONFIG).expect("written");
    let (mut service, _events) = rack.serve();
    let (code, _, said) = serve("br0");
    assert_eq!(code, Some(2));
    assert!(said.contains("another weir pxe serves this directory"), "{said}");
    let other = rack.path("other");
    fs::create_dir(&other).expect("made");
    let only_local = CONFIG.split("[[entry]]\nname = \"tiny\"").next().expect("a part");
    fs::write(other.join("pxe.toml"), only_local).expect("written");
    let other = other.to_string_lossy().into_owned();
    let (code, _, said) = run(&["serve", "--interface", "br0", "--dir", &other]);
    assert_eq!(code, Some(2));
    assert!(said.contains("cannot serve HTTP on 192.0.2.1:8080"), "{said}");
    // A dnsmasq that ends takes the service with it, which says so.
    let [pid] = dnsmasq_of(&rack)[..] else { panic!("one dnsmasq") };
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(killed.expect("kill(1) runs").success());
    assert_eq!(service.0.wait().expect("it ends").code(), Some(2));
}
