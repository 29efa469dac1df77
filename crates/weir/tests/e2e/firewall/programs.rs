//! Programs that nobody here wrote, from a client to a server, each by connections that last as
//! long as the test: curl, whose requests go over one, ssh, whose command goes on, and iperf3.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_net::{Netns, NetnsGuard};

use super::network::{Killed, SERVER};
use crate::common::{skipped, wait_or_show};

/// Where they are served.
pub(super) const PORTS: &str = "{ 22 80 5201 }";

const SSHD_CONFIG: &str = "\
HostKey DIR/host_key
AuthorizedKeysFile DIR/key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PrintMotd no
PrintLastLog no
PidFile none
ClientAliveInterval 1
ClientAliveCountMax 60
";
/// What sshd wants is in a place of its namespace alone.
const SSHD: &str = "mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -f";

/// A program of the client's, and what it has said so far.
struct Program {
    name: &'static str,
    child: Killed,
    said: PathBuf,
}

/// How much a program has got, as it says: bytes that it prints, or intervals with any.
fn progress(name: &str, said: &Path) -> usize {
    let said = fs::read_to_string(said).unwrap_or_default();
    if name != "iperf3" {
        return said.len();
    }
    let intervals = said.lines().filter(|line| line.contains("Bytes"));
    intervals.filter(|line| !line.contains(" 0.00 Bytes")).count()
}

/// All that run.
pub(super) struct Programs {
    all: Vec<Program>,
    _servers: Vec<Killed>,
}

fn inside(netns: &Netns, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name()]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn started(mut command: Command) -> Killed {
    Killed(command.spawn().expect("ip runs"))
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Programs {
    /// Starts those that are installed; the others are skipped by name.
    pub(super) fn start(test: &str, client: &NetnsGuard, server: &NetnsGuard, dir: &Path) -> Self {
        let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let (mut all, mut servers) = (Vec::new(), Vec::new());
        let mut run = |name: &'static str, words: &[&str]| {
            let said = dir.join(format!("{name}.out"));
            let mut command = inside(client, words);
            let file = File::create(&said).expect("a file");
            command.stdout(file.try_clone().expect("a handle")).stderr(file);
            all.push(Program { name, child: started(command), said });
        };
        let mut has = |name: &str, needs: &[&str], serve: &[&str]| {
            if let Some(missing) = needs.iter().find(|program| !is_there(program)) {
                skipped(&format!("{test}: {name}"), &format!("{missing} is not installed"));
                return false;
            }
            servers.push(started(inside(server, serve)));
            true
        };
        let weir = env!("CARGO_BIN_EXE_weir");
        if has("curl", &["curl"], &[weir, "http", "serve", "--listen", &format!("{SERVER}:80")]) {
            // One request after the other: each says how many connections it has made.
            let urls = format!("http://{SERVER}/b/16Ki?[1-9999]");
            let retry = ["--retry", "9", "--retry-delay", "1", "--retry-connrefused"];
            let each = ["--output", "/dev/null", "--write-out", "%{stderr}%{num_connects}\\n"];
            let all = ["curl", "--silent", "--no-buffer", "--rate", "5/s", &urls];
            run("curl", &[&all[..], &each, &retry].concat());
        }
        if has("iperf3", &["iperf3"], &["iperf3", "--server", "--one-off"]) {
            // What comes is counted, not what was given to a socket. Its server takes a moment to
            // listen.
            let long = "--reverse --time 600 --bitrate 5M --interval 1 --forceflush";
            let line = format!("sleep 1; exec iperf3 --client {SERVER} {long}");
            run("iperf3", &["sh", "-c", &line]);
        }
        for name in ["key", "host_key"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f"];
            drop(Command::new("ssh-keygen").args(words).arg(path(name)).output());
        }
        let config = SSHD_CONFIG.replace("DIR", &dir.to_string_lossy());
        fs::write(path("sshd_config"), config).expect("a file");
        let sshd = format!("{SSHD} {}", path("sshd_config"));
        if has("ssh", &["ssh", "/usr/sbin/sshd", "ssh-keygen"], &["sh", "-c", &sshd]) {
            let (key, known) = (path("key"), "UserKnownHostsFile=/dev/null");
            let how = ["-o", known, "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes"];
            let tries = ["-o", "ConnectionAttempts=10"];
            let goes_on = [&format!("root@{SERVER}"), "while sleep 0.2; do echo here; done"];
            run("ssh", &[&["ssh", "-F", "none", "-i", &key][..], &how, &tries, &goes_on].concat());
        }
        Self { all, _servers: servers }
    }

    /// Each of them gets something more, and none has ended.
    #[track_caller]
    pub(super) fn go_on(&mut self, why: &str, evidence: impl Fn() -> String) {
        for Program { name, child, said } in &mut self.all {
            let before = progress(name, said);
            let what = format!("{why}: {name} gets more");
            wait_or_show(&what, || progress(name, said) > before, &evidence);
            if *name == "curl" {
                let connects = fs::read_to_string(&said).expect("readable");
                let is_one = connects.lines().skip(1).all(|connects| connects == "0");
                assert!(is_one, "{why}: curl has made another connection\n{connects}");
            }
            let ended = child.0.try_wait().expect("a child");
            assert!(ended.is_none(), "{why}: {name} has ended: {ended:?}");
        }
    }
}
