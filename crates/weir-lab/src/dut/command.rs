//! The DUT kind `command`: any program, started, asked whether it is ready, and stopped.
//!
//! Its packets are counted by the devices of the testbed alone, because weir knows nothing of
//! its inside. The start command may stay in the foreground, or exit with 0 once it has set
//! everything up; any other end means that the DUT is gone. It is never taken for ready because
//! its command returned: the ready command and the connectivity probe decide.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, Process, Program, STOP_PATIENCE};
use weir_results::counters::{Counters, DropRule};
use weir_results::dut::{Dut, DutFile, DutKind};
use weir_results::record::Check;
use weir_wire::stream::StreamSpec;

use super::{DutDriver, DutError, apply_sysctls, check_sysctls};

/// Pause between two questions whether the DUT is ready.
const READY_POLL: Duration = Duration::from_millis(100);
/// How long a stop command may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the command may take that prints what the DUT counts.
const LEVELS_TIMEOUT: Duration = Duration::from_secs(10);
/// Without a ready command, a DUT that lives this long after its start counts as started; the
/// connectivity probe decides whether it forwards.
const SETTLE: Duration = Duration::from_millis(200);

/// A driver for any program.
pub(super) struct CommandDut {
    name: String,
    sysctls: BTreeMap<String, String>,
    files: Vec<DutFile>,
    start: String,
    ready: Option<String>,
    ready_timeout: Duration,
    stop: Option<String>,
    levels: Option<String>,
    /// What that has printed.
    counts: BTreeMap<String, u64>,
    process: Option<Box<dyn Process>>,
}

impl CommandDut {
    /// # Panics
    /// When `dut` is of another kind.
    pub(super) fn new(dut: &Dut) -> Self {
        let DutKind::Command { sysctls, files, start, ready, ready_timeout, stop, levels } =
            dut.kind.clone()
        else {
            panic!("`{}` is not of the kind `command`", dut.name);
        };
        Self {
            name: dut.name.clone(),
            sysctls,
            files,
            start,
            ready,
            ready_timeout,
            stop,
            levels,
            counts: BTreeMap::new(),
            process: None,
        }
    }

    /// Whether the program lives, or has ended as it may, and what is to be said of it.
    fn alive(&mut self) -> Result<(bool, String), DutError> {
        let Some(process) = &mut self.process else {
            return Ok((false, "it was never started".to_owned()));
        };
        Ok(match process.ended().map_err(DutError::host(&self.name))? {
            None => (true, "it runs".to_owned()),
            Some(ended) => {
                (ended.success, format!("its start command `{}` ended: {}", self.start, ended.how))
            }
        })
    }

    /// Fails if the program has ended in a way that it may not.
    fn still_alive(&mut self) -> Result<(), DutError> {
        match self.alive()? {
            (true, _) => Ok(()),
            (false, how) => Err(self.not_ready(how)),
        }
    }

    /// What the program counts itself, or what is wrong with its answer.
    fn ask(
        &self,
        host: &dyn Host,
        line: &str,
    ) -> Result<Result<BTreeMap<String, u64>, String>, DutError> {
        let command = Command {
            program: Program::Shell(line),
            stdin: "",
            timeout: LEVELS_TIMEOUT,
            cancellable: true,
        };
        let output = host.run(&command).map_err(DutError::host(&self.name))?;
        Ok(match output.success() {
            true => levels(&output.stdout)
                .map_err(|line| format!("printed `{line}`, not a name and a whole number")),
            false => Err(format!("failed: {}", output.said())),
        })
    }

    fn not_ready(&self, what: String) -> DutError {
        DutError::NotReady { dut: self.name.clone(), what }
    }
}

/// A name and a number in each line; the first line that is not so.
fn levels(text: &str) -> Result<BTreeMap<String, u64>, &str> {
    let level = |line| {
        let (name, number) = str::split_once(line, ' ').ok_or(line)?;
        let number = number.trim().parse().map_err(|_| line)?;
        Ok((name.to_owned(), number))
    };
    text.lines().map(level).collect()
}

impl DutDriver for CommandDut {
    fn prepare(&mut self, host: &dyn Host) -> Result<(), DutError> {
        for file in &self.files {
            let name = file.path.rsplit('/').next().unwrap_or(&file.path);
            host.write_file(name, &file.text).map_err(DutError::host(&self.name))?;
        }
        apply_sysctls(&self.name, host, &self.sysctls)
    }

    fn start(&mut self, host: &dyn Host) -> Result<(), DutError> {
        let log = format!("{}.log", self.name);
        self.process = Some(host.spawn(&self.start, &log).map_err(DutError::host(&self.name))?);
        Ok(())
    }

    fn ready(&mut self, host: &dyn Host, cancel: &Cancel) -> Result<(), DutError> {
        let Some(question) = self.ready.clone() else {
            if !cancel.sleep(SETTLE) {
                return Err(DutError::Cancelled);
            }
            return self.still_alive();
        };
        let deadline = Instant::now() + self.ready_timeout;
        loop {
            self.still_alive()?;
            let left = deadline.saturating_duration_since(Instant::now());
            let command = Command {
                program: Program::Shell(&question),
                stdin: "",
                timeout: left.max(READY_POLL),
                cancellable: true,
            };
            let answer = match host.run(&command) {
                Ok(output) if output.success() => return Ok(()),
                Ok(output) => match output.said() {
                    "" => "it says nothing".to_owned(),
                    said => format!("it says: {said}"),
                },
                Err(error) => error.what,
            };
            if cancel.signal().is_some() {
                return Err(DutError::Cancelled);
            }
            if Instant::now() >= deadline {
                return Err(self.not_ready(format!(
                    "`{question}` still fails after {}; {answer}",
                    weir_wire::units::format_duration(self.ready_timeout)
                )));
            }
            if !cancel.sleep(READY_POLL) {
                return Err(DutError::Cancelled);
            }
        }
    }

    fn keeps_flows(&self) -> bool {
        false
    }

    fn flows(&self, _host: &dyn Host) -> Result<Option<u64>, DutError> {
        Ok(None)
    }

    fn flows_of(&self, _spec: &StreamSpec) -> Result<u64, String> {
        Err("weir knows nothing of the flows inside the program".to_owned())
    }

    fn flow_limit(&self, _host: &dyn Host) -> Result<Option<String>, DutError> {
        Ok(None)
    }

    fn counters(&self, host: &dyn Host) -> Result<Counters, DutError> {
        host.stack_counters().map_err(DutError::host(&self.name))
    }

    fn drops(&self) -> Vec<DropRule> {
        Vec::new()
    }

    fn levels(&self, _host: &dyn Host) -> Result<BTreeMap<String, u64>, DutError> {
        Ok(self.counts.clone())
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn took_effect(&mut self, host: &dyn Host, _run: &Counters) -> Result<Vec<Check>, DutError> {
        let mut checks = check_sysctls(&self.name, host, &self.sysctls)?;
        let (passed, detail) = self.alive()?;
        checks.push(Check { name: "dut-alive".to_owned(), passed, detail });
        if let Some(line) = self.levels.clone() {
            let counts = self.ask(host, &line)?;
            let detail = match &counts {
                Ok(counts) => format!("`{line}` printed {} of them", counts.len()),
                Err(why) => format!("`{line}` {why}"),
            };
            checks.push(Check { name: "levels".to_owned(), passed: counts.is_ok(), detail });
            self.counts = counts.unwrap_or_default();
        }
        Ok(checks)
    }

    fn stop(&mut self, host: &dyn Host) -> Result<(), DutError> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        if let Some(stop) = &self.stop {
            let command = Command {
                program: Program::Shell(stop),
                stdin: "",
                timeout: STOP_TIMEOUT,
                cancellable: false,
            };
            // Whether the command worked shows in the next line: what still runs is ended.
            drop(host.run(&command));
        }
        process.stop(STOP_PATIENCE).map_err(DutError::host(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_names_and_numbers() {
        let read = levels("states 5\nbucket_0_packets  17\n").unwrap();
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            [("bucket_0_packets".to_owned(), 17), ("states".to_owned(), 5),]
        );
        for bad in ["states", "states five", "states -1", ""] {
            assert_eq!(levels(&format!("a 1\n{bad}\n")), Err(bad), "{bad}");
        }
    }
}
