//! A virtual machine of a kernel and a RAM disk, for what only the driver of a card shows.
//!
//! It boots, runs a script of steps, says on a serial port what each of them came to, and switches
//! itself off. The kernel is Debian 13's, whatever this host has: older ones show settings of these
//! cards that are not in force. It is fetched once and kept in the target directory. All else is
//! this host's: weir, ip(8), tc(8), ethtool(8) and busybox, with their libraries.
//!
//! Its cards are ports of one bridge, in a namespace that has no way out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_net::registry::Record;
use weir_net::{Netns, NetnsGuard};

use super::left;
use super::pxe::Running;
use crate::common::{can_run_lab, skipped};

/// Programs that these tests need, and their Debian packages.
const PROGRAMS: [(&str, &str); 8] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("busybox", "busybox-static"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("strip", "gcc"),
    ("ldd", "libc6-dev"),
];
/// Those of this host's that the machine has, beside weir.
const IN_MACHINE: [&str; 4] = ["busybox", "ip", "tc", "ethtool"];
/// Where the kernel comes from.
const SUITE: &str = "trixie";
const MIRROR: &str = "http://deb.debian.org/debian";
/// Modules by their files' names, as far as they are not part of the kernel.
const MODULES: [&str; 20] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "af_packet",
    "dca",
    "i2c-algo-bit",
    "pps_core",
    "ptp",
    "igb",
    "veth",
    "sch_codel",
    "sch_fq_codel",
    "sch_hfsc",
    "sch_htb",
    "sch_red",
];
/// How long fetching it may take.
const FETCH_SECONDS: &str = "120";
/// The exit code of timeout(1) for what took longer.
const TIMED_OUT: i32 = 124;
/// mmdebstrap's shells know only descriptors of one digit.
const CLOSE_INHERITED: &str = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- && exec \"$@\"";
/// From power on to power off: seconds, emulated on a machine that is idle.
const PATIENCE: Duration = Duration::from_secs(600);
/// How much of the console a message shows.
const CONSOLE_LINES_SHOWN: usize = 40;

/// The first process. `step NAME COMMAND…` runs a command and says what it came to; `name MAC NAME`
/// gives a card a name.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /etc /var
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs run /run
/bin/busybox mount -t tmpfs tmp /tmp
/bin/busybox ln -s /run /var/run
/bin/busybox --install -s /bin
export PATH=/bin NO_COLOR=1
exec </dev/null >/dev/ttyS0 2>&1
# Those that another one needs come first, in some round.
for round in 1 2 3 4 5 6; do
    for module in /modules/*.ko; do insmod "$module" 2>/dev/null && rm "$module"; done
done
for file in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >"$file"; done
# Otherwise the shell would run its own applets of these names.
ip() { /bin/ip "$@"; }
tc() { /bin/tc "$@"; }
ip link set lo up
name() {
    for card in /sys/class/net/*; do
        [ "$(cat "$card/address")" != "$1" ] || ip link set "${card##*/}" name "$2"
    done
}
step() {
    step=$1
    shift
    "$@" >/tmp/out 2>/tmp/err
    code=$?
    { echo "=== $step $code"; cat /tmp/out; echo "--- $step"; cat /tmp/err; } >/dev/ttyS1
}
. /steps
echo "=== end 0" >/dev/ttyS1
poweroff -f
"#;

/// A network card.
pub(super) struct Card {
    /// As QEMU's `-device` has it, without the end of the cable.
    pub(super) model: &'static str,
    pub(super) mac: &'static str,
    /// Of the tap at the other end.
    pub(super) queue_count: u32,
}

/// What a step came to.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Step {
    /// Its standard output, if it ended with this code.
    #[track_caller]
    pub(super) fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        let line = self.stdout.trim().lines().last().unwrap_or_default();
        let whole = serde_json::from_str(&self.stdout).or_else(|_| serde_json::from_str(line));
        whole.unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Fails unless it was refused with these words.
    #[track_caller]
    pub(super) fn is_refused(&self, why: &str) {
        assert!(self.code == 2 && self.stderr.contains(why), "{why}: {self:?}");
    }
}

/// What all steps came to, by their names.
pub(super) type Steps = BTreeMap<String, Step>;

/// A program of this host.
fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

/// Whether a machine can be started here; notes that the test was skipped if not.
pub(super) fn can_run(test: &str) -> bool {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(name, _)| program(name).is_none())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        skipped(test, &format!("not installed: {}", missing.join(" ")));
        return false;
    }
    if !Path::new("/dev/net/tun").exists() {
        skipped(test, "there is no /dev/net/tun");
        return false;
    }
    can_run_lab(test)
}

/// Whether this host's QEMU has a device.
pub(super) fn has_device(name: &str) -> bool {
    let output = Command::new("qemu-system-x86_64").args(["-device", "help"]).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).contains(&format!("name \"{name}\""))
    })
}

/// Boots a machine of that kernel with these cards, and runs the steps there.
pub(super) fn run(kernel: &Path, cards: &[Card], steps: &str) -> Steps {
    let rack = Rack::new(cards);
    // Too large for where records are, which is memory.
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
    let disk = ram_disk(work.path(), kernel, steps);
    rack.boot(&kernel.join("vmlinuz"), &disk, cards);
    let steps = parse(&rack.read("said"));
    assert!(steps.contains_key("end"), "the steps did not end: {steps:#?}\n{}", rack.console());
    steps
}

/// A namespace with a bridge and a tap for each card.
struct Rack {
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
    fn new(cards: &[Card]) -> Self {
        let name = format!("weir-cards-{}", std::process::id());
        let (record, dir) = left::record([name.clone()].into_iter());
        let namespace = Netns::create(&name).expect("a namespace can be made").guard();
        let quiet = || {
            for which in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                fs::write(path, "1").expect("the sysctl is written");
            }
        };
        namespace.run(quiet).expect("the namespace can be entered");
        let rack = Self { namespace: Some(namespace), name, dir, record: Some(record) };
        rack.ip("link add br0 type bridge mcast_snooping 0");
        for (number, card) in cards.iter().enumerate() {
            let queues = if card.queue_count > 1 { " multi_queue" } else { "" };
            rack.ip(&format!("tuntap add dev tap{number} mode tap{queues}"));
            rack.ip(&format!("link set tap{number} master br0 up"));
        }
        rack.ip("link set br0 up");
        rack
    }

    fn inside(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).args(words).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn ip(&self, line: &str) {
        let words: Vec<&str> = ["ip"].into_iter().chain(line.split(' ')).collect();
        let output = self.inside(&words).output().expect("ip runs");
        assert!(output.status.success(), "ip {line}: {output:?}");
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_string_lossy().into_owned()
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    fn console(&self) -> String {
        let text = self.read("console.log");
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..];
        format!("console:\n{}\nQEMU:\n{}", shown.join("\n"), self.read("qemu.log"))
    }

    /// Runs the machine until it has switched itself off.
    fn boot(&self, kernel: &Path, disk: &Path, cards: &[Card]) {
        // It can wait; traffic that other tests measure meanwhile cannot. With a thread for each
        // CPU, one of them can still run a breakpoint that the kernel patched code with and has
        // taken away since: int3 in the middle of the boot, and a panic.
        let words = "nice -n 5 qemu-system-x86_64 -no-user-config -nodefaults -display none \
                     -no-reboot -machine q35 -accel tcg,thread=single -smp 2 -m 768 -append";
        let mut command = self.inside(&words.split_whitespace().collect::<Vec<_>>());
        command.arg("console=ttyS0 quiet panic=-1").arg("-kernel").arg(kernel);
        command.arg("-initrd").arg(disk);
        for file in ["console.log", "said"] {
            command.args(["-serial", &format!("file:{}", self.path(file))]);
        }
        for (number, card) in cards.iter().enumerate() {
            let queues = match card.queue_count {
                1 => String::new(),
                count => format!(",queues={count}"),
            };
            let tap = format!("tap,id=n{number},ifname=tap{number}{queues}");
            let device = format!("{},netdev=n{number},mac={},romfile=", card.model, card.mac);
            command.args(["-netdev", &format!("{tap},script=no,downscript=no")]);
            command.args(["-device", &device]);
        }
        let log = fs::File::create(self.path("qemu.log")).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("ip runs");
        let mut machine = Running(child);
        let deadline = Instant::now() + PATIENCE;
        while machine.0.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "it did not end: {}", self.console());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The folder with the kernel of a package, `vmlinuz`, and those of [`MODULES`] that it has.
///
/// # Errors
/// When Debian's kernel of that package cannot be had here.
pub(super) fn kernel(package: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    // Another list of modules is another folder.
    let ready = folder.join(format!("{package}-{}", MODULES.len()));
    if ready.is_dir() {
        return Ok(ready);
    }
    fs::create_dir_all(&folder).expect("writable");
    let work = tempfile::tempdir_in(&folder).expect("writable");
    let root = work.path().join("root");
    let mut command = Command::new("sh");
    command.args(["-c", CLOSE_INHERITED, "sh", "timeout", "--kill-after=5", FETCH_SECONDS]);
    command.args(["unshare", "--mount", "mmdebstrap"]);
    command.args(["--mode=root", "--variant=extract", "--quiet"]);
    command.args(["--format=directory", "--architectures=amd64", "--components=main"]);
    command.args(["--aptopt=Apt::Install-Recommends \"false\"", "--include", package, SUITE]);
    let output = command.arg(&root).arg(MIRROR).output().expect("sh runs");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rfind(|line| line.starts_with("E:")).unwrap_or(said.trim());
        let why = match output.status.code() {
            Some(TIMED_OUT) | None => format!("not within {FETCH_SECONDS} s"),
            Some(_) => last.to_owned(),
        };
        return Err(format!("no {package} of Debian {SUITE} from {MIRROR}: {why}"));
    }
    let found = work.path().join("found");
    fs::create_dir(&found).expect("writable");
    for file in files(&root.join("boot")) {
        if name(&file).starts_with("vmlinuz-") {
            fs::copy(&file, found.join("vmlinuz")).expect("copied");
        }
    }
    assert!(found.join("vmlinuz").is_file(), "no kernel in {package}");
    // One of the two may be a link to the other.
    let modules = ["usr/lib/modules", "lib/modules"].map(|folder| root.join(folder));
    for file in modules.iter().find(|folder| folder.is_dir()).into_iter().flat_map(|f| files(f)) {
        let file_name = name(&file);
        let Some((stem, ending)) = file_name.split_once(".ko") else { continue };
        if !MODULES.contains(&stem) {
            continue;
        }
        let to = found.join(format!("{stem}.ko"));
        fs::copy(&file, to.with_extension(format!("ko{ending}"))).expect("copied");
        if ending == ".xz" {
            let packed = to.with_extension("ko.xz");
            let status = Command::new("busybox").arg("unxz").arg(&packed).status();
            assert!(status.expect("busybox runs").success(), "{}", packed.display());
        }
    }
    // Another process may have fetched it meanwhile: a folder with files is not replaced.
    match fs::rename(&found, &ready) {
        Err(error) if !ready.is_dir() => panic!("{}: {error}", ready.display()),
        _ => Ok(ready),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files below a folder; links to folders are not followed.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Makes the RAM disk below `dir`.
fn ram_disk(dir: &Path, kernel: &Path, steps: &str) -> PathBuf {
    let root = dir.join("root");
    for folder in ["bin", "modules"] {
        fs::create_dir_all(root.join(folder)).expect("made");
    }
    let weir = PathBuf::from(env!("CARGO_BIN_EXE_weir"));
    let programs = IN_MACHINE.iter().filter_map(|name| program(name)).chain([weir.clone()]);
    for file in programs {
        for library in libraries(&file) {
            let to = root.join(library.strip_prefix("/").expect("an absolute path"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            fs::copy(&library, to).expect("copied");
        }
        fs::copy(&file, root.join("bin").join(name(&file))).expect("copied");
    }
    // What names lines of source is most of it.
    let status = Command::new("strip").arg(root.join("bin").join(name(&weir))).status();
    assert!(status.expect("strip runs").success());
    for file in files(kernel).iter().filter(|file| name(file).ends_with(".ko")) {
        fs::copy(file, root.join("modules").join(name(file))).expect("copied");
    }
    fs::write(root.join("steps"), steps).expect("written");
    fs::write(root.join("init"), INIT).expect("written");
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).expect("settable");
    let disk = dir.join("disk.cpio");
    let pack = format!(
        "cd '{}' && busybox find . | busybox cpio -o -H newc 2>/dev/null >'{}'",
        root.display(),
        disk.display()
    );
    let status = Command::new("/bin/sh").args(["-c", &pack]).status().expect("sh runs");
    assert!(status.success(), "{pack}");
    fs::remove_dir_all(root).expect("removed");
    disk
}

/// The libraries of a program, with what loads them; none of one that needs none.
fn libraries(file: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(file).output().expect("ldd runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |line: &str| {
        let (before, _) = line.rsplit_once(" (0x")?;
        let path = before.rsplit_once("=> ").map_or(before.trim(), |(_, path)| path);
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(path).collect()
}

/// What the machine has said: `=== NAME CODE`, standard output, `--- NAME`, standard error.
fn parse(text: &str) -> Steps {
    let mut steps = Steps::new();
    let (mut last, mut is_error) = (None::<String>, false);
    for line in text.lines() {
        if let Some(said) = line.strip_prefix("=== ") {
            let (name, code) = said.split_once(' ').unwrap_or((said, ""));
            let code = code.parse().unwrap_or(-1);
            steps.insert(name.to_owned(), Step { code, ..Step::default() });
            (last, is_error) = (Some(name.to_owned()), false);
        } else if let Some(step) = last.as_ref().and_then(|name| steps.get_mut(name)) {
            if last.as_deref() == line.strip_prefix("--- ") {
                is_error = true;
                continue;
            }
            let part = if is_error { &mut step.stderr } else { &mut step.stdout };
            part.push_str(line);
            part.push('\n');
        }
    }
    steps
}

#[test]
fn what_a_machine_says_is_read_step_by_step() {
    let steps = parse("noise\n=== show 0\n{\"a\": 1}\n--- show\nwarning: x\n=== set 2\n--- set\n");
    assert_eq!(steps["show"].json(0)["a"], 1);
    assert_eq!(steps["show"].stderr, "warning: x\n");
    assert_eq!((steps["set"].code, steps["set"].stdout.as_str()), (2, ""));
}
