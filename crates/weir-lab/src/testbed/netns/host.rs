//! The DUT's namespace as a host: commands, files, settings and counters inside it.
//!
//! Each command runs in the DUT's working directory, in a process group of its own. Nothing here
//! reaches outside the namespace, except that files of the DUT lie in that directory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::capped_log::CappedLog;
use weir_machine::host::{Command, Ended, Host, HostError, Output, Process, Program};
use weir_net::{CpuList, Netns, counters, cpu, process, sysctl};
use weir_results::counters::Counters;

/// How much a command may print: the listing of a ruleset of several 100,000 rules.
const OUTPUT_SIZE_BYTES_MAX: usize = 64 << 20;

/// The DUT's namespace.
#[derive(Debug)]
pub(super) struct NetnsHost {
    netns: Netns,
    directory: PathBuf,
    /// CPUs of the DUT: its processes run where its packets are received.
    cpus: CpuList,
    cancel: Cancel,
    log: RefCell<String>,
    logs: RefCell<Vec<(String, CappedLog)>>,
    /// Where the DUT is two firewalls: whether this is the first of them, or only what is between
    /// them and the rest; and the others.
    boxes: (bool, Vec<NetnsHost>),
}

impl NetnsHost {
    /// A host in `netns`, with `directory` as the working directory, and processes on `cpus`.
    pub(super) fn new(netns: Netns, directory: &Path, cpus: CpuList, cancel: Cancel) -> Self {
        Self {
            netns,
            directory: directory.to_owned(),
            cpus,
            cancel,
            log: RefCell::default(),
            logs: RefCell::default(),
            boxes: (false, Vec::new()),
        }
    }

    /// The same with further firewalls; `is_first`: this is one as well.
    pub(super) fn with_boxes(self, is_first: bool, others: Vec<Self>) -> Self {
        Self { boxes: (is_first, others), ..self }
    }

    /// Runs a closure inside the namespace.
    fn inside<R: Send>(
        &self,
        what: impl FnOnce() -> Result<R, String> + Send,
    ) -> Result<R, HostError> {
        match self.netns.run(what) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(HostError::new(self.name(), error)),
            Err(error) => Err(HostError::new(self.name(), error)),
        }
    }

    fn note(&self, started: Instant, command: &str, end: &str) {
        let line = format!(
            "{}\t{}\t{:.3}s\t{end}\t{}\n",
            jiff::Timestamp::now(),
            self.name(),
            started.elapsed().as_secs_f64(),
            command.replace('\n', "\\n")
        );
        self.log.borrow_mut().push_str(&line);
    }
}

impl Host for NetnsHost {
    fn name(&self) -> &str {
        self.netns.name()
    }

    fn run(&self, command: &Command<'_>) -> Result<Output, HostError> {
        let invocation = match command.program {
            Program::Arguments(argv) => process::Invocation::program(argv.iter().copied()),
            Program::Shell(line) => process::Invocation::shell(line),
        };
        let invocation = invocation
            .directory(&self.directory)
            .stdin(command.stdin)
            .output_size_bytes_max(OUTPUT_SIZE_BYTES_MAX);
        let started = Instant::now();
        let shown = invocation.to_string();
        let (cpus, cancel) = (self.cpus.clone(), self.cancel.clone());
        let cancellable = command.cancellable;
        let result = self.inside(move || {
            cpu::pin_current_thread(&cpus).map_err(|e| e.to_string())?;
            let go_on = || !cancellable || cancel.signal().is_none();
            process::run_while(&invocation, command.timeout, &go_on).map_err(|e| e.to_string())
        });
        let end = match &result {
            Ok(output) => describe(output.status),
            Err(error) => error.what.clone(),
        };
        self.note(started, &shown, &end);
        let output = result?;
        if output.is_truncated {
            return Err(HostError::new(
                self.name(),
                format!("`{shown}` printed more than {} MiB", OUTPUT_SIZE_BYTES_MAX >> 20),
            ));
        }
        Ok(Output {
            exit_code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn spawn(&self, shell: &str, log: &str) -> Result<Box<dyn Process>, HostError> {
        let started = Instant::now();
        let (output, stdout, stderr) = CappedLog::open()
            .map_err(|e| HostError::new(self.name(), format!("cannot open the log {log}: {e}")))?;
        self.logs.borrow_mut().push((log.to_owned(), output));
        let invocation = process::Invocation::shell(shell).directory(&self.directory);
        let cpus = self.cpus.clone();
        let child = self.inside(move || {
            cpu::pin_current_thread(&cpus).map_err(|e| e.to_string())?;
            process::spawn(&invocation, stdout, stderr).map_err(|e| e.to_string())
        });
        let end = child.as_ref().map_or_else(|e| e.what.clone(), |_| "started".to_owned());
        self.note(started, shell, &end);
        Ok(Box::new(NetnsProcess { host: self.name().to_owned(), process: Some(child?) }))
    }

    fn write_file(&self, name: &str, content: &str) -> Result<String, HostError> {
        let path = self.directory.join(name);
        fs::write(&path, content).map_err(|e| {
            HostError::new(self.name(), format!("cannot write {}: {e}", path.display()))
        })?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn set_sysctl(&self, name: &str, value: &str) -> Result<String, HostError> {
        let started = Instant::now();
        let result = self.inside(|| {
            let before = sysctl::read(name).map_err(|e| e.to_string())?;
            sysctl::write(name, value).map_err(|e| e.to_string())?;
            Ok(before)
        });
        let end = result.as_ref().map_or_else(|e| e.what.clone(), |old| format!("was {old}"));
        self.note(started, &format!("sysctl -w {name}={value}"), &end);
        result
    }

    fn sysctl(&self, name: &str) -> Result<String, HostError> {
        self.inside(|| sysctl::read(name).map_err(|e| e.to_string()))
    }

    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError> {
        self.inside(|| {
            sysctl::snapshot(&["net.ipv4", "net.ipv6", "net.netfilter"]).map_err(|e| e.to_string())
        })
    }

    fn stack_counters(&self) -> Result<Counters, HostError> {
        self.inside(|| {
            let text = |e: counters::CountersError| e.to_string();
            let mut ip = counters::snmp().map_err(text)?;
            ip.extend(counters::netstat().map_err(text)?);
            ip.extend(counters::snmp6().map_err(text)?.unwrap_or_default());
            // A level may fall, and says nothing of losses.
            ip.retain(|name, _| !counters::LEVELS.contains(&name.as_str()));
            let mut all = Counters::from([("ip".to_owned(), ip)]);
            if let Some(conntrack) = counters::conntrack().map_err(text)? {
                let counted = conntrack
                    .into_iter()
                    .filter(|(name, _)| !counters::LEVELS.contains(&name.as_str()))
                    .filter_map(|(name, value)| {
                        Some((name.strip_prefix(counters::CONNTRACK_PREFIX)?.to_owned(), value))
                    })
                    .collect();
                all.insert("conntrack".to_owned(), counted);
            }
            Ok(all)
        })
    }

    fn boxes(&self) -> Vec<&dyn Host> {
        let (is_first, others) = &self.boxes;
        let first = is_first.then_some(self as &dyn Host);
        first.into_iter().chain(others.iter().map(|other| other as &dyn Host)).collect()
    }

    fn take_log(&self) -> String {
        let others = self.boxes.1.iter().map(Host::take_log);
        std::iter::once(self.log.take()).chain(others).collect()
    }

    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        let here = self.logs.take().into_iter().map(|(name, log)| (name, log.take()));
        here.chain(self.boxes.1.iter().flat_map(Host::take_artefacts)).collect()
    }
}

/// A process of the DUT.
#[derive(Debug)]
struct NetnsProcess {
    host: String,
    process: Option<process::Process>,
}

impl Process for NetnsProcess {
    fn ended(&mut self) -> Result<Option<Ended>, HostError> {
        let Some(process) = &self.process else {
            return Ok(Some(Ended { success: true, how: "stopped".to_owned() }));
        };
        let status = process.try_wait().map_err(|e| HostError::new(&self.host, e))?;
        Ok(status.map(|s| Ended { success: s.success(), how: describe(s) }))
    }

    fn stop(&mut self, patience: Duration) -> Result<(), HostError> {
        match self.process.take() {
            Some(process) => {
                process.stop(patience).map(drop).map_err(|e| HostError::new(&self.host, e))
            }
            None => Ok(()),
        }
    }
}

/// How a process ended, in words.
fn describe(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}
