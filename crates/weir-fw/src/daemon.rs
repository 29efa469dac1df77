//! The daemon: owns the data path, expires states, follows the kernel's routes and interfaces,
//! writes the log, and answers on the control socket.
//!
//! When it ends by a signal, or dies, the programs stay attached and go on with the rules that they
//! have; the next daemon takes over their states and counters. Only `weir fw stop` removes them.

mod grower;
mod serve;
mod sweeper;
mod sync;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crate::engine::{Engine, Machine, Options, Refused};
use crate::peer::Gate;
use crate::pflow::{self, Collector};
use crate::protocol::Load;
use crate::shared::Shared;
pub use crate::shared::{Messages, Stop};
use crate::socket::{self, Listening, SocketError};
use crate::{log, metrics, monitor, notify, overload};

/// How it runs.
pub struct Daemon {
    /// Of the data path.
    pub options: Options,
    /// The ruleset.
    pub load: Load,
    /// Facts of this machine.
    pub machine: Arc<dyn Machine>,
    /// Where packets of `log` rules are written to; `None`: nowhere.
    pub log_file: Option<PathBuf>,
    /// Set by whoever has moved that file away: it is opened anew.
    pub is_log_moved: Arc<AtomicBool>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Where flows of rules with `pflow` are exported to.
    pub collector: Option<Collector>,
    /// Its voice.
    pub messages: Arc<dyn Messages>,
}

/// Why the daemon could not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another one runs in this network namespace.
    #[error(
        "weir fw runs already in this network namespace: load rules with `weir pfctl -f FILE`, or \
         end it with `weir fw stop`"
    )]
    Running,
    /// There is no place for the control socket.
    #[error("cannot listen on the control socket: {0}")]
    Socket(SocketError),
    /// It has to be root.
    #[error(
        "`weir fw run` needs root, because it loads BPF programs and attaches them to interfaces: \
         run it with sudo"
    )]
    Root,
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The data path cannot run so.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// What one of the daemon's threads does.
type Work = Box<dyn FnOnce(&Arc<Shared>) + Send>;

fn system(what: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::System { what, source }
}

impl Daemon {
    /// Runs until it is asked to stop. `ready` is called once packets are filtered; from then on
    /// the programs stay when it ends.
    ///
    /// # Errors
    ///
    /// [`DaemonError`] if it cannot start; nothing is left behind then.
    pub fn run(
        self,
        stop: &Arc<Stop>,
        ready: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<(), DaemonError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(DaemonError::Root);
        }
        let (listening, gate) = open_control()?;
        // Before the first look at routes and interfaces, so that no change is missed.
        let events = weir_net::events::Events::open().map_err(system("listen to netlink"))?;
        let metrics = self.metrics.map(metrics::bind).transpose();
        let metrics = metrics.map_err(system("listen for readers of metrics"))?;
        let log_file = self.log_file.as_deref().map(log::Writer::open).transpose();
        let log_file = log_file.map_err(system("write the log file"))?;
        let sender = self.collector.map(pflow::Sender::open).transpose();
        let sender = sender.map_err(system("export flows"))?;
        let uid = nix::unistd::getuid().as_raw();
        let (mut engine, warnings) = Engine::start(self.options, self.machine, self.load, uid)?;
        if stop.is_requested() {
            // Before anybody was told that packets are filtered: what was not there is not there.
            if !engine.is_adopted() {
                engine.stop();
            }
            return Ok(());
        }
        engine.paths().iter().chain(&warnings).for_each(|text| self.messages.tell(text));
        let status = if engine.is_adopted() {
            "filters packets, with the states of the daemon before"
        } else {
            "filters packets"
        };
        let shared =
            Shared::new(engine, stop, self.messages, [log_file.is_some(), sender.is_some()]);
        let shared = Arc::new(shared);
        serve::warn_of_missing(&shared);
        let mut threads = Vec::new();
        let mut start = |name: &str, work: Work| {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(move || work(&shared)).map_err(system("start a thread"))?;
            threads.push(thread);
            Ok::<(), DaemonError>(())
        };
        start("sweeper", Box::new(sweeper::run))?;
        start("grower", Box::new(grower::run))?;
        let (pending, noted) = monitor::Pending::both_ends();
        let firewall = Arc::clone(shared.engine().firewall());
        let follow = move |shared: &Arc<Shared>| monitor::follow(&firewall, shared, events, &noted);
        start("events", Box::new(follow))?;
        start("monitor", Box::new(move |shared| monitor::run(shared, &pending)))?;
        let is_moved = self.is_log_moved;
        start("log", Box::new(move |shared| log::run(shared, log_file, &is_moved)))?;
        start("pflow", Box::new(move |shared| pflow::run(shared, sender)))?;
        start("overload", Box::new(overload::run))?;
        let listener = Arc::clone(&listening);
        start("control", Box::new(move |shared| serve::run(shared, &listener, &gate)))?;
        if let Some(socket) = metrics {
            start("metrics", Box::new(move |shared| metrics::run(shared, &socket)))?;
        }
        ready(status).map_err(system("say that it is ready"))?;
        notify::ready(status);
        while !stop.wait(Duration::from_secs(3600)) {}
        notify::stopping();
        for thread in threads {
            // A thread that panicked has told so; the others are to end all the same.
            drop(thread.join());
        }
        Ok(())
    }
}

/// The control socket of this network namespace, and who may use it. It is kept to the end: nobody
/// else starts before.
fn open_control() -> Result<(Arc<Listening>, Gate), DaemonError> {
    let listening = socket::listen().map_err(|error| match error {
        SocketError::Taken => DaemonError::Running,
        error => DaemonError::Socket(error),
    })?;
    listening.listener.set_nonblocking(true).map_err(system("listen for commands"))?;
    let gate = Gate::new().map_err(system("see who owns this network namespace"))?;
    Ok((Arc::new(listening), gate))
}
