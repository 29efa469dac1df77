//! Three machines on this one: generator, DUT and receiver, each with a network namespace, process
//! ids, a root file system (an overlay on this machine's) and a real sshd of its own.
//!
//! ```text
//!   manager ──── bridge 192.0.2.1/24 ─┬─ gen .2 ─ gen0 198.18.0.2 ──── 198.18.0.1 dut0 ┐
//!   (namespace `SshHosts::namespace`) ├─ dut .3 ─────────────────────────────────────── ┤
//!                                     └─ recv .4 ─ recv0 198.19.0.2 ── 198.19.0.1 dut1 ┘
//! ```
//!
//! A machine that is told to `reboot` really ends: all its processes are killed and its network
//! namespace is deleted; then both are made anew, with another boot id, from what is on its disk:
//! `/etc/sysctl.conf`, `/etc/nftables.conf` and `/etc/rc.local`. `/tmp` and `/run` are empty then.
//! A power switch (`SshHosts::power_command`) works whatever state it is in.
//!
//! The client's configuration (`SshHosts::config`) reaches them from any namespace. Everything is
//! removed when [`SshHosts`] is dropped; what a killed process left is removed by the next one
//! ([`super::left`]).

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_net::registry::Record;

use super::left;
use super::slots::{MACHINES as MACHINES_AT_ONCE, Slot};

/// A machine: its name, its address for management, its interfaces with their addresses.
type MachineSpec = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Name, address, and data interfaces with their addresses.
const MACHINES: [MachineSpec; 3] = [
    ("gen", "192.0.2.2", &[("gen0", "198.18.0.2/24")]),
    ("dut", "192.0.2.3", &[("dut0", "198.18.0.1/24"), ("dut1", "198.19.0.1/24")]),
    ("recv", "192.0.2.4", &[("recv0", "198.19.0.2/24")]),
];
const MANAGER: &str = "192.0.2.1/24";
/// Cables between data interfaces.
const CABLES: [(&str, &str); 2] = [("gen0", "dut0"), ("recv0", "dut1")];
/// Namespaces are named so, with the process id and a number behind it.
const PREFIX: &str = "wssh";
const TICK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a machine has this module's files.
const ETC: &str = "etc/weir-test";

/// Makes a machine's disk, in a mount namespace of its own, and holds it.
const DISK: &str = r#"
set -e
mount -t tmpfs -o "size=$2" tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --rbind /dev "$1/root/dev"
mkdir -p "$1/root/opt/weir" "$1/root/etc/weir-test"
mount --bind "$3" "$1/root/opt/weir"
cp "$4"/* "$1/root/etc/weir-test/"
chmod 755 "$1/root" "$1/root/etc/weir-test/boot" "$1/root/etc/weir-test/reboot"
chmod 600 "$1/root/etc/weir-test/host_key"
mkdir -p "$1/root/usr/local/sbin"
ln -sf /etc/weir-test/reboot "$1/root/usr/local/sbin/reboot"
# A shell that sshd starts reads what this machine's root has set up for himself.
rm -f "$1/root/root/.bashrc" "$1/root/root/.profile" "$1/root/root/.bash_profile"
rm -f "$1/root/etc/nftables.conf" "$1/root/etc/rc.local" "$1/root/etc/sysctl.conf"
echo ready
exec sleep infinity
"#;

/// What a machine does when it starts: `boot NAME INTERFACE=ADDRESS…`.
/// Bash, because it takes note of the ends of orphans, as the first process has to.
const BOOT: &str = r#"#!/bin/bash
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
chmod 1777 /tmp
mkdir -p /run/sshd
cat /proc/sys/kernel/random/uuid >/run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
mkfifo /run/power
hostname "$1"
shift
ip link set lo up
for pair in "$@"; do
    ip link set "${pair%%=*}" up
    ip address add "${pair#*=}" dev "${pair%%=*}"
done
[ -r /etc/sysctl.conf ] && while IFS='= ' read -r name value; do
    echo "$value" >"/proc/sys/$(echo "$name" | tr . /)"
done </etc/sysctl.conf
[ -r /etc/nftables.conf ] && nft -f /etc/nftables.conf
[ -x /etc/rc.local ] && /etc/rc.local
[ -e /etc/weir-test/no-sshd ] || /usr/sbin/sshd -f /etc/weir-test/sshd_config -E /run/sshd.log
read -r word </run/power
"#;

const REBOOT: &str = "#!/bin/sh\necho now >/run/power\n";

/// The way to a machine: `way DIRECTORY NAME ADDRESS PORT`.
const WAY: &str = r#"
[ ! -e "$1/refuse-$2" ] || { echo >>"$1/refused-$2"; exit 1; }
exec nsenter --net=@NETNS@ bash -c 'exec 3<>"/dev/tcp/$0/$1" || exit
cat <&3 & cat >&3 <&0 & wait -n; kill $(jobs -p) 2>/dev/null' "$3" "$4"
"#;

const SSHD_CONFIG: &str = "\
ListenAddress 0.0.0.0
HostKey /etc/weir-test/host_key
AuthorizedKeysFile /etc/weir-test/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxSessions 200
MaxStartups 200
PidFile none
ClientAliveInterval 2
ClientAliveCountMax 2
";

/// What a machine does when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Next {
    /// It starts again.
    Start,
    /// It stays off until its power is switched.
    WaitForPower,
    /// It stays off.
    StayOff,
}

/// The machines.
#[derive(Debug)]
pub(crate) struct SshHosts {
    machines: Vec<TestHost>,
    namespace: String,
    dir: PathBuf,
    record: Option<Record>,
    _slot: Slot,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct TestHost {
    name: &'static str,
    dir: PathBuf,
    disk: Option<u32>,
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    boots: AtomicU32,
    next: AtomicU8,
    crash: AtomicBool,
    stop: AtomicBool,
}

impl SshHosts {
    /// Whether they can be started here; says that the test `test` is skipped if not.
    pub(crate) fn can_start(test: &str) -> bool {
        let why = lack();
        if let Some(why) = &why {
            skipped(test, why);
        }
        why.is_none()
    }

    /// Starts the machines, or says why the test `test` is skipped.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_with_disks_of(test, "64m")
    }

    /// The same with disks of this size (`64m`).
    pub(crate) fn start_with_disks_of(test: &str, size: &str) -> Option<Self> {
        if !Self::can_start(test) {
            return None;
        }
        let slot = MACHINES_AT_ONCE.take();
        let namespace = format!("{PREFIX}{}-{}", std::process::id(), unique());
        let machines = MACHINES.map(|(name, ..)| format!("{namespace}-{name}"));
        let (record, dir) = left::record(machines.into_iter().chain([namespace.clone()]));
        let record = Some(record);
        let mut hosts = Self { machines: Vec::new(), namespace, dir, record, _slot: slot };
        hosts.make_network();
        keygen(&hosts.dir.join("user_key"));
        for (name, ..) in MACHINES {
            hosts.machines.push(TestHost::start(name, &hosts.dir, &hosts.namespace, size));
        }
        hosts.write_config();
        for (name, ..) in MACHINES {
            hosts.wait_for_sshd(name);
        }
        Some(hosts)
    }

    /// The client's configuration: `ssh -F FILE gen|dut|recv`.
    pub(crate) fn config(&self) -> String {
        self.dir.join("ssh_config").to_string_lossy().into_owned()
    }

    /// The manager's namespace, from which 192.0.2.2 to 192.0.2.4 answer to ping:
    /// `ip netns exec NAMESPACE weir …`.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A directory for files of the manager.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A machine by its name.
    pub(crate) fn host(&self, name: &str) -> &TestHost {
        self.machines.iter().find(|host| host.name == name).expect("a machine of that name")
    }

    /// The DUT.
    pub(crate) fn dut(&self) -> &TestHost {
        self.host("dut")
    }

    /// A shell line of the manager that switches a machine's power off and on.
    pub(crate) fn power_command(&self, name: &str) -> String {
        format!("touch {}", self.host(name).dir.join("power").display())
    }

    /// Pulls the cable between a machine and the manager, or plugs it in again.
    pub(crate) fn pull_cable(&self, name: &str, pulled: bool) {
        let state = if pulled { "down" } else { "up" };
        ip(&format!("-n {} link set p-{name} {state}", self.namespace));
    }

    /// Makes the way to a machine refuse connections from now on, or take them again.
    pub(crate) fn refuse_connections(&self, name: &str, refuse: bool) {
        let file = self.dir.join(format!("refuse-{name}"));
        if refuse {
            fs::write(file, "").expect("writable");
        } else {
            drop(fs::remove_file(file));
        }
    }

    /// How many connections it has refused.
    pub(crate) fn refused(&self, name: &str) -> usize {
        let file = self.dir.join(format!("refused-{name}"));
        fs::read_to_string(file).map_or(0, |text| text.lines().count())
    }

    /// Makes the known hosts file say another key for a machine than it has.
    pub(crate) fn forget_host_key(&self, name: &str) {
        let other = self.dir.join("other_key");
        keygen(&other);
        self.write_known_hosts(Some((name, &other)));
    }

    /// Waits until a machine's sshd answers.
    #[track_caller]
    pub(crate) fn wait_for_sshd(&self, name: &str) {
        let (_, address, _) = MACHINES.iter().find(|(n, ..)| *n == name).expect("a machine");
        let deadline = Instant::now() + PATIENCE;
        let probe = format!("exec 3<>/dev/tcp/{address}/22 && read -r -t 5 line <&3");
        let answers = || {
            let output = Command::new("ip")
                .args(["netns", "exec", &self.namespace, "bash", "-c", &probe])
                .output();
            output.is_ok_and(|output| output.status.success())
        };
        while !answers() {
            assert!(Instant::now() < deadline, "the sshd of {name} does not answer");
            thread::sleep(TICK);
        }
    }

    fn make_network(&self) {
        let manager = &self.namespace;
        ip(&format!("netns add {manager}"));
        ip(&format!("-n {manager} link set lo up"));
        ip(&format!("-n {manager} link add bridge0 type bridge"));
        ip(&format!("-n {manager} address add {MANAGER} dev bridge0"));
        ip(&format!("-n {manager} link set bridge0 up"));
        for (name, ..) in MACHINES {
            ip(&format!("-n {manager} link add m-{name} type veth peer name p-{name}"));
            ip(&format!("-n {manager} link set p-{name} master bridge0 up"));
        }
        for (one, other) in CABLES {
            ip(&format!("-n {manager} link add {one} type veth peer name {other}"));
        }
    }

    fn write_config(&self) {
        let mut config = String::new();
        let dir = self.dir.display();
        // Whoever calls ssh may be in another namespace than the manager's.
        let way = WAY.replace("@NETNS@", &format!("/run/netns/{}", self.namespace));
        fs::write(self.dir.join("way"), way).expect("writable");
        for (name, address, _) in MACHINES {
            let lines = [
                format!("Host {name}"),
                format!("  HostName {address}"),
                "  User root".to_owned(),
                format!("  IdentityFile {dir}/user_key"),
                "  IdentitiesOnly yes".to_owned(),
                "  IdentityAgent none".to_owned(),
                format!("  UserKnownHostsFile {dir}/known_hosts"),
                "  GlobalKnownHostsFile /dev/null".to_owned(),
                format!("  ProxyCommand bash {dir}/way {dir} {name} %h %p\n"),
            ];
            config += &lines.join("\n");
        }
        fs::write(self.config(), config).expect("writable");
        self.write_known_hosts(None);
    }

    fn write_known_hosts(&self, other: Option<(&str, &Path)>) {
        let mut known = String::new();
        for (name, address, _) in MACHINES {
            let host_key = self.dir.join(format!("{name}.etc/host_key"));
            let file =
                other.filter(|(n, _)| *n == name).map_or(host_key, |(_, file)| file.to_owned());
            let key = fs::read_to_string(file.with_extension("pub")).expect("a key");
            known += &format!("{address} {key}");
        }
        fs::write(self.dir.join("known_hosts"), known).expect("writable");
    }
}

impl Drop for SshHosts {
    fn drop(&mut self) {
        // Each ends with its supervisor.
        self.machines.clear();
        drop(Command::new("ip").args(["netns", "del", &self.namespace]).output());
        // What is still there stays on record, for the next process.
        drop(self.record.take().map(Record::close));
    }
}

impl TestHost {
    fn start(name: &'static str, dir: &Path, manager: &str, size: &str) -> Self {
        let etc = dir.join(format!("{name}.etc"));
        fs::create_dir(&etc).expect("writable");
        keygen(&etc.join("host_key"));
        let key = fs::read(dir.join("user_key.pub")).expect("a key");
        fs::write(etc.join("authorized_keys"), key).expect("writable");
        for (file, text) in [("boot", BOOT), ("reboot", REBOOT), ("sshd_config", SSHD_CONFIG)] {
            fs::write(etc.join(file), text).expect("writable");
        }
        let machine_dir = dir.join(name);
        fs::create_dir_all(machine_dir.join("disk")).expect("writable");
        let shared = Arc::<Shared>::default();
        let (ready, disk) = mpsc::channel();
        let supervisor = {
            let (shared, machine_dir, size) =
                (Arc::clone(&shared), machine_dir.clone(), size.to_owned());
            let manager = manager.to_owned();
            // Whatever it starts is killed when this thread is gone.
            thread::spawn(move || {
                let holder = hold_disk(&machine_dir.join("disk"), &size, &etc);
                ready.send(holder.id()).expect("somebody waits");
                supervise(name, &machine_dir, &manager, &shared, holder);
            })
        };
        let disk = disk.recv_timeout(PATIENCE).ok();
        assert!(disk.is_some(), "the disk of {name} cannot be made");
        Self { name, dir: machine_dir, disk, shared, supervisor: Some(supervisor) }
    }

    /// How often it has started.
    pub(crate) fn boots(&self) -> u32 {
        self.shared.boots.load(Ordering::SeqCst)
    }

    /// What it does when it has ended.
    pub(crate) fn then(&self, next: Next) {
        self.shared.next.store(next as u8, Ordering::SeqCst);
    }

    /// Ends it at once, as a failure of its power would.
    pub(crate) fn crash(&self) {
        self.shared.crash.store(true, Ordering::SeqCst);
    }

    /// A path of its file system, as this process sees it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        let disk = self.dir.join("disk/root");
        let disk = disk.strip_prefix("/").expect("an absolute path");
        let holder = self.disk.expect("it has started").to_string();
        Path::new("/proc").join(holder).join("root").join(disk).join(path.trim_start_matches('/'))
    }

    /// Makes it take nobody's key.
    pub(crate) fn refuse_keys(&self) {
        fs::write(self.path(&format!("{ETC}/authorized_keys")), "").expect("writable");
    }

    /// Makes it start without sshd from now on.
    pub(crate) fn start_without_sshd(&self, without: bool) {
        let file = self.path(&format!("{ETC}/no-sshd"));
        if without {
            fs::write(file, "").expect("writable");
        } else {
            drop(fs::remove_file(file));
        }
    }

    /// Waits until it has started so often and answers.
    #[track_caller]
    pub(crate) fn wait_for_boot(&self, count: u32) {
        let deadline = Instant::now() + PATIENCE;
        while self.boots() < count {
            assert!(Instant::now() < deadline, "{} has not started {count} times", self.name);
            thread::sleep(TICK);
        }
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(supervisor) = self.supervisor.take() {
            drop(supervisor.join());
        }
    }
}

/// Makes a disk, and returns the process that holds it.
fn hold_disk(disk: &Path, size: &str, etc: &Path) -> Child {
    let binaries = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a directory");
    let mut holder = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"])
        .args(["sh", "-c", DISK, "disk"])
        .arg(disk)
        .arg(size)
        .arg(binaries)
        .arg(etc)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("setpriv and unshare");
    let mut line = String::new();
    let stdout = holder.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("readable");
    assert_eq!(line.trim(), "ready", "the disk {} cannot be made", disk.display());
    holder
}

/// Starts a machine whenever it has ended, as its state says.
fn supervise(name: &str, dir: &Path, manager: &str, shared: &Shared, mut holder: Child) {
    let power = dir.join("power");
    let stopped = || shared.stop.load(Ordering::SeqCst);
    while !stopped() {
        let namespace = format!("{manager}-{name}");
        let mut running = boot(name, dir, manager, &namespace, holder.id());
        shared.boots.fetch_add(1, Ordering::SeqCst);
        while !stopped() && !shared.crash.swap(false, Ordering::SeqCst) && !power.exists() {
            if running.try_wait().expect("a child").is_some() {
                break;
            }
            thread::sleep(TICK);
        }
        drop(running.kill());
        drop(running.wait());
        // The cables stay where they are plugged in.
        for (_, _, interfaces) in MACHINES.iter().filter(|(n, ..)| *n == name) {
            for (interface, _) in *interfaces {
                drop(ip_quietly(&format!("-n {namespace} link set {interface} netns {manager}")));
            }
        }
        drop(ip_quietly(&format!("-n {namespace} link set m-{name} netns {manager}")));
        drop(ip_quietly(&format!("netns del {namespace}")));
        while !stopped() {
            let next = shared.next.load(Ordering::SeqCst);
            let switched = power.exists();
            if next == Next::Start as u8 || (next == Next::WaitForPower as u8 && switched) {
                break;
            }
            if switched {
                drop(fs::remove_file(&power));
            }
            thread::sleep(TICK);
        }
        drop(fs::remove_file(&power));
    }
    drop(holder.kill());
    drop(holder.wait());
}

/// Starts a machine: its namespaces, and the first of its processes.
fn boot(name: &str, dir: &Path, manager: &str, namespace: &str, holder: u32) -> Child {
    let (_, address, interfaces) =
        MACHINES.iter().find(|(n, ..)| *n == name).expect("a machine of that name");
    ip(&format!("netns add {namespace}"));
    ip(&format!("-n {manager} link set m-{name} netns {namespace}"));
    let mut pairs = vec![format!("m-{name}={address}/24")];
    for (interface, address) in *interfaces {
        ip(&format!("-n {manager} link set {interface} netns {namespace}"));
        pairs.push(format!("{interface}={address}"));
    }
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "nsenter"])
        .arg(format!("--mount=/proc/{holder}/ns/mnt"))
        .arg(format!("--net=/run/netns/{namespace}"))
        .args(["unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "chroot"])
        .arg(dir.join("disk/root"))
        .args(["bash", "/etc/weir-test/boot", name])
        .args(pairs)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nsenter and unshare")
}

/// What this machine lacks for them.
fn lack() -> Option<String> {
    let root = fs::read_to_string("/proc/self/status")
        .is_ok_and(|s| s.lines().any(|l| l.starts_with("Uid:") && l.contains("\t0\t")));
    if !root {
        return Some("not root".to_owned());
    }
    let programs = ["ip", "unshare", "nsenter", "setpriv", "bash", "ssh", "ssh-keygen"];
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let is_there = |name: &str| path.split(':').any(|dir| Path::new(dir).join(name).exists());
    let missing: Vec<&str> =
        programs.into_iter().chain(["sshd"]).filter(|name| !is_there(name)).collect();
    (!missing.is_empty()).then(|| format!("there is no {} here", missing.join(", no ")))
}

#[expect(clippy::print_stderr, reason = "the test driver reads a test's captured output")]
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
}

/// A key pair without a passphrase; one that is there is replaced.
fn keygen(file: &Path) {
    drop(fs::remove_file(file));
    let output = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "weir-test", "-f"])
        .arg(file)
        .output()
        .expect("ssh-keygen");
    assert!(output.status.success(), "{output:?}");
    // ssh refuses a key that others may read.
    let options = fs::OpenOptions::new().read(true).mode(0o600).open(file).expect("a key");
    options.set_permissions(fs::Permissions::from_mode(0o600)).expect("own file");
}

#[track_caller]
fn ip(arguments: &str) {
    let output = ip_quietly(arguments);
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

fn ip_quietly(arguments: &str) -> std::process::Output {
    Command::new("ip").args(arguments.split(' ')).output().expect("ip")
}

/// A number for each testbed of this process.
fn unique() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    COUNT.fetch_add(1, Ordering::SeqCst)
}
