//! Where a DUT spends its time: `perf` on Linux, `pmcstat` on FreeBSD.
//!
//! A profile is taken in a run of its own that is not counted, because sampling takes time itself.
//! The profiler runs for a fixed time on the machine; its samples become folded stacks (one stack a
//! line, outermost first, with the number of samples) and a flame graph, both by the inferno crate,
//! whose folding of pmcstat's call graphs is here because inferno has none. This module never
//! decides when a profile is taken.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{io, thread};

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};
use inferno::flamegraph;
use weir_results::dut::System;

use super::script::quote;
use crate::host::{Command, Host, HostError, Process, Program};

/// Artefacts of a profile.
pub const FOLDED: &str = "profile.folded";
/// As [`FOLDED`].
pub const FLAME_GRAPH: &str = "flamegraph.svg";
/// What the profiler itself said.
pub const LOG: &str = "profile.log";

/// Samples a second and CPU: enough for a graph, few enough for the output to stay small, and no
/// multiple of the timer's frequency.
const FREQUENCY_HZ: u32 = 99;
/// How long the profiler may take to end after its time.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// How long making text of the samples may take.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// A profiler of a machine.
pub struct Profiler {
    system: System,
    options: Option<String>,
    duration: Duration,
    process: Option<Box<dyn Process>>,
}

impl Profiler {
    /// A profiler for a system. `options` are the tool's own words for what is sampled: perf's
    /// (`-e cycles`) or pmcstat's (`-S unhalted-cycles`); absent: the cycles that are spent.
    ///
    /// # Errors
    /// When there is none for that system.
    pub fn new(system: System, options: Option<&str>) -> Result<Self, String> {
        match system {
            System::Linux | System::Freebsd => Ok(Self {
                system,
                options: options.map(str::to_owned),
                duration: Duration::ZERO,
                process: None,
            }),
            System::Openbsd | System::Generic => Err(format!(
                "there is no profiler for `{}`: only `linux` (perf) and `freebsd` (pmcstat) can be \
                 profiled; leave `profile` out",
                system.name()
            )),
        }
    }

    /// The command that samples.
    fn command(&self) -> String {
        let seconds = self.duration.as_secs().max(1);
        match self.system {
            System::Freebsd => {
                let what = self.options.as_deref().unwrap_or("-S unhalted-cycles");
                format!("kldload -n hwpmc && exec pmcstat -z 50 {what} -l {seconds} -O profile.pmc")
            }
            _ => {
                let what = self.options.as_deref().unwrap_or_default();
                format!(
                    "exec perf record -a -g -F {FREQUENCY_HZ} {what} -o profile.perf -- sleep \
                     {seconds}"
                )
            }
        }
    }

    /// Starts to sample, for `duration`; traffic has to be under way.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, host: &dyn Host, duration: Duration) -> Result<(), HostError> {
        self.duration = duration;
        self.process = Some(host.spawn(&self.command(), LOG)?);
        Ok(())
    }

    /// Waits for the end of the sampling and makes the artefacts: name and content. `title` stands
    /// over the graph.
    ///
    /// # Errors
    /// When the profiler is not there, may not sample, or has seen nothing; what it said is in its
    /// log among the machine's artefacts.
    pub fn collect(
        &mut self,
        host: &dyn Host,
        title: &str,
    ) -> Result<Vec<(String, Vec<u8>)>, HostError> {
        let fail = |what: String| HostError::new(host.name(), format!("profiling: {what}"));
        let Some(mut process) = self.process.take() else {
            return Err(fail("it was not started".to_owned()));
        };
        let deadline = Instant::now() + self.duration + END_PATIENCE;
        let ended = loop {
            if let Some(ended) = process.ended()? {
                break ended;
            }
            if Instant::now() >= deadline {
                process.stop(Duration::from_secs(2))?;
                return Err(fail(format!("`{}` does not end", self.command())));
            }
            thread::sleep(POLL);
        };
        process.stop(Duration::from_secs(2))?;
        if !ended.success {
            return Err(fail(format!(
                "`{}`: {}; see {LOG}, and whether the profiler is installed (Debian: linux-perf) \
                 and may sample",
                self.command(),
                ended.how
            )));
        }
        let text = self.text(host)?;
        let folded = match self.system {
            System::Freebsd => fold_pmc(&text),
            _ => fold_perf(&text).map_err(|e| fail(format!("its samples cannot be read: {e}")))?,
        };
        if folded.is_empty() {
            return Err(fail("it has no samples: nothing ran, or it may not sample".to_owned()));
        }
        let graph = flame_graph(&folded, title)
            .map_err(|e| fail(format!("the flame graph cannot be drawn: {e}")))?;
        Ok(vec![(FOLDED.to_owned(), folded.into_bytes()), (FLAME_GRAPH.to_owned(), graph)])
    }

    /// The samples as text.
    fn text(&self, host: &dyn Host) -> Result<String, HostError> {
        let line = match self.system {
            System::Freebsd => {
                "pmcstat -R profile.pmc -z 50 -G profile.graph >/dev/null && cat profile.graph"
            }
            _ => "perf script --force -i profile.perf",
        };
        let command = Command {
            program: Program::Shell(line),
            stdin: "",
            timeout: SCRIPT_TIMEOUT,
            cancellable: true,
        };
        let output = host.run(&command)?;
        if output.success() {
            return Ok(output.stdout);
        }
        let what = format!("profiling: {} fails there; it says: {}", quote(line), output.said());
        Err(HostError::new(host.name(), what))
    }
}

fn fold_perf(text: &str) -> io::Result<String> {
    let mut folded = Vec::new();
    Folder::from(Options::default()).collapse(text.as_bytes(), &mut folded)?;
    Ok(String::from_utf8_lossy(&folded).into_owned())
}

/// Folds the call graphs of `pmcstat -G`. They stand on their heads: a function with the number of
/// its samples, and below it, a blank further in, the functions that called it. What of a
/// function's samples its callers do not account for began there.
fn fold_pmc(text: &str) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    // Function, samples, and those that callers have accounted for.
    let mut path: Vec<(String, u64, u64)> = Vec::new();
    let mut close = |path: &mut Vec<(String, u64, u64)>, depth: usize| {
        while path.len() > depth {
            let names: Vec<&str> = path.iter().rev().map(|(name, ..)| name.as_str()).collect();
            let stack = names.join(";");
            let Some((_, samples, accounted)) = path.pop() else { break };
            if samples > accounted {
                *stacks.entry(stack).or_insert(0) += samples - accounted;
            }
        }
    };
    for line in text.lines() {
        let Some((depth, name, samples)) = read_node(line) else { continue };
        close(&mut path, depth);
        if let Some((_, _, accounted)) = path.last_mut() {
            *accounted += samples;
        }
        path.push((name, samples, 0));
    }
    close(&mut path, 0);
    stacks.iter().map(|(stack, samples)| format!("{stack} {samples}\n")).collect()
}

/// `<blanks><percent>%  [<samples>]  <function> [@ <image>]`.
fn read_node(line: &str) -> Option<(usize, String, u64)> {
    let body = line.trim_start_matches(' ');
    let depth = line.len() - body.len();
    let (percent, rest) = body.split_once('%')?;
    percent.parse::<f64>().ok()?;
    let (samples, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    let name = rest.split_whitespace().next()?;
    Some((depth, name.replace(';', ":"), samples.trim().parse().ok()?))
}

fn flame_graph(folded: &str, title: &str) -> io::Result<Vec<u8>> {
    let mut options = flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = "samples".to_owned();
    // The same samples give the same file.
    options.deterministic = true;
    let mut graph = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut graph)
        .map_err(|e| io::Error::other(e.to_string()))?;
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `pmcstat -G` writes it.
    const PMC: &str = "\
@ unhalted-cycles [1000 samples]

60.00%  [600]      bcmp @ /boot/kernel/kernel
 90.00%  [540]      ether_nh_input
  100.0%  [540]      netisr_dispatch_src
   100.0%  [500]      ether_input @ /boot/kernel/kernel
 10.00%  [60]       in_lltable_lookup

40.00%  [400]      pf_test @ /boot/kernel/pf.ko
 100.0%  [400]      pf_check_in
";

    /// As `perf script` writes it.
    const PERF: &str = "\
ksoftirqd/1    21 [001]  1234.567890:     250000 cpu-clock:pppH:\x20
\tffffffff81a00010 nft_do_chain+0x10 ([kernel.kallsyms])
\tffffffff81a00020 nf_hook_slow+0x20 ([kernel.kallsyms])
\tffffffff81a00030 ip_forward+0x30 ([kernel.kallsyms])

ksoftirqd/1    21 [001]  1234.577890:     250000 cpu-clock:pppH:\x20
\tffffffff81a00010 nft_do_chain+0x10 ([kernel.kallsyms])
\tffffffff81a00020 nf_hook_slow+0x20 ([kernel.kallsyms])
\tffffffff81a00030 ip_forward+0x30 ([kernel.kallsyms])

swapper     0 [000]  1234.577890:     250000 cpu-clock:pppH:\x20
\tffffffff81b00010 default_idle+0x10 ([kernel.kallsyms])

";

    #[test]
    fn pmcstats_graphs_are_turned_upright() {
        let folded = fold_pmc(PMC);
        assert_eq!(
            folded,
            "ether_input;netisr_dispatch_src;ether_nh_input;bcmp 500\n\
             in_lltable_lookup;bcmp 60\n\
             netisr_dispatch_src;ether_nh_input;bcmp 40\n\
             pf_check_in;pf_test 400\n"
        );
        let sum: u64 =
            folded.lines().map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(sum, 1000, "no sample is lost or counted twice");
        assert_eq!(fold_pmc("nothing\n"), "");
    }

    #[test]
    fn perfs_samples_become_a_graph() {
        let folded = fold_perf(PERF).unwrap();
        assert!(folded.contains("ip_forward;nf_hook_slow;nft_do_chain 500000\n"), "{folded}");
        let graph = flame_graph(&folded, "dut under load").unwrap();
        let text = String::from_utf8(graph.clone()).unwrap();
        assert!(
            text.contains("dut under load") && text.contains("nft_do_chain (500,000 samples"),
            "{text}"
        );
        assert_eq!(flame_graph(&folded, "dut under load").unwrap(), graph, "it is repeatable");
    }

    #[test]
    fn what_cannot_be_profiled_is_refused() {
        let refused = Profiler::new(System::Openbsd, None).err().unwrap();
        assert!(refused.contains("no profiler for `openbsd`"), "{refused}");
        let mut linux = Profiler::new(System::Linux, Some("-e cpu-clock")).unwrap();
        linux.duration = Duration::from_secs(7);
        assert!(linux.command().contains("-e cpu-clock") && linux.command().ends_with("sleep 7"));
        let freebsd = Profiler::new(System::Freebsd, None).unwrap();
        assert!(freebsd.command().contains("pmcstat -z 50 -S unhalted-cycles -l 1 "));
    }
}
