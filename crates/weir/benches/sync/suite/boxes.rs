//! Namespaces with weir in them; the first two have the firewalls, which exchange their states.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_bpf::ethtool;
use weir_fw::protocol::{Client, Request, SyncStatus};
use weir_net::{Netlink, Netns, NetnsGuard};

use super::{Result, Settings};
use crate::closing::Closing;

/// The namespaces of the firewalls.
pub(super) const FIRST: usize = 0;
pub(super) const SECOND: usize = 1;

/// Addresses at which they take states, on the link between them.
pub(super) const LINK: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const PORT: u16 = 7467;

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// So many namespaces; removed when dropped.
#[derive(Debug)]
pub(super) struct Boxes<const COUNT: usize> {
    netns: [NetnsGuard; COUNT],
    weir: PathBuf,
    /// Keys and rules.
    folder: tempfile::TempDir,
    /// Closed behind the namespaces: if one is still there, the record stays, and the next lab
    /// cleans up.
    _record: Closing,
}

impl<const COUNT: usize> Boxes<COUNT> {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let id = std::process::id();
        let names: Vec<String> = (0..COUNT).map(|which| format!("weirbench{id}{which}")).collect();
        let record = Closing::record(&names)?;
        let netns: Result<Vec<NetnsGuard>> =
            names.iter().map(|name| Ok(Netns::create(name)?.guard())).collect();
        let netns = <[NetnsGuard; COUNT]>::try_from(netns?).map_err(|_| "too few namespaces")?;
        let (weir, folder) = (settings.weir.clone(), tempfile::tempdir()?);
        Ok(Self { netns, weir, folder, _record: record })
    }

    pub(super) fn all(&self) -> &[NetnsGuard; COUNT] {
        &self.netns
    }

    pub(super) fn netns(&self, which: usize) -> &Netns {
        &self.netns[which]
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Starts both firewalls, each with a key.
    pub(super) fn filter(&self, rules: &str) -> Result<()> {
        fs::write(self.path("pf.conf"), rules)?;
        for which in [FIRST, SECOND] {
            self.run(which, &["fw", "run", "-f", &self.path("pf.conf")])?;
            let key = self.key(which);
            let output = self.run(which, &["fw", "sync", "keygen", "--key", &key])?;
            fs::write(format!("{key}.pub"), output.stdout)?;
        }
        Ok(())
    }

    fn key(&self, which: usize) -> String {
        self.path(&format!("key{which}"))
    }

    /// Runs weir in a namespace, to a good end.
    pub(super) fn run(&self, which: usize, words: &[&str]) -> Result<Output> {
        self.run_program(which, self.weir().args(words))
    }

    /// Runs something in a namespace, to a good end.
    pub(super) fn run_program(&self, which: usize, command: &mut Command) -> Result<Output> {
        let output = self.netns[which].run(|| command.stdin(Stdio::null()).output())??;
        if output.status.success() {
            return Ok(output);
        }
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    pub(super) fn weir(&self) -> Command {
        Command::new(&self.weir)
    }

    /// Starts weir in a namespace.
    pub(super) fn start(&self, which: usize, words: &[&str]) -> Result<Process> {
        let mut command = self.weir();
        command.args(words).stdout(Stdio::null());
        self.start_program(which, command)
    }

    /// Starts something in a namespace.
    pub(super) fn start_program(&self, which: usize, mut command: Command) -> Result<Process> {
        let log = fs::File::create(self.path(&format!("log{which}")))?;
        let start = || -> io::Result<Child> { command.stdin(Stdio::null()).stderr(log).spawn() };
        Ok(Process(self.netns[which].run(start)??))
    }

    /// A firewall takes states.
    pub(super) fn serve(&self, which: usize) -> Result<Process> {
        let (key, peer) = (self.key(which), self.key(1 - which) + ".pub");
        let at = format!("{}:{PORT}", LINK[which]);
        self.start(which, &["fw", "sync", "serve", "--listen", &at, "--key", &key, "--peer", &peer])
    }

    /// A firewall sends its states to the other one.
    pub(super) fn send(&self, which: usize) -> Result<Process> {
        let (key, peer) = (self.key(which), self.key(1 - which) + ".pub");
        let to = format!("{}:{PORT}", LINK[1 - which]);
        self.start(which, &["fw", "sync", "to", &to, "--key", &key, "--peer", &peer])
    }

    /// Waits until the second firewall has what the first one has now, but for flows that nobody
    /// has answered.
    pub(super) fn drain(&self) -> Result<()> {
        let patience = format!("{}s", PATIENCE.as_secs());
        self.run(FIRST, &["fw", "sync", "drain", "--timeout", &patience]).map(drop)
    }

    /// Counters of a firewall, as `weir fw stats --json` has them.
    pub(super) fn stats(&self, which: usize) -> Result<serde_json::Value> {
        Ok(serde_json::from_slice(&self.run(which, &["fw", "stats", "--json"])?.stdout)?)
    }
}

impl<const COUNT: usize> Drop for Boxes<COUNT> {
    fn drop(&mut self) {
        for which in [FIRST, SECOND] {
            // What still runs goes with its namespace.
            drop(self.run(which, &["fw", "stop"]));
        }
    }
}

/// A process, ended when dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    pub(super) fn number(&self) -> Result<i32> {
        Ok(self.0.id().try_into()?)
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.number()?), signal)?)
    }

    /// Whether it has ended, and well.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        match self.0.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(format!("a process ended: {status}").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has an end of a veth in the calling thread's namespace take frames from XDP, for which it has to
/// be up first: otherwise the other end never says that it does.
pub(super) fn polling(name: &str) -> Result<()> {
    Netlink::open()?.set_up(name)?;
    Ok(ethtool::set_gro(name, true)?)
}

/// How both directions of a firewall's synchronisation are.
pub(super) fn status(netns: &Netns) -> Result<SyncStatus> {
    let ask = || Client::connect()?.ask(&Request::SyncStatus, |_| Ok(()));
    let answered = netns.run(ask)??;
    Ok(serde_json::from_value(answered.value.ok_or("no status")?)?)
}
