//! `weir rerss stop`: finds the process by the program that it keeps at an interface.
//!
//! The kernel does not say whose a program is, but which descriptors a process has (proc(5),
//! `/proc/PID/fdinfo`): the one who runs it has the link to it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_bpf::attach;
use weir_net::Netlink;

use super::show::is_ours;
use crate::cli::rerss::StopArgs;
use crate::exit::Outcome;
use crate::{lab, progress};

/// How long it may take to end: its queues are worked off before.
const PATIENCE_STEPS: u32 = 100;
const STEP: Duration = Duration::from_millis(100);

pub(super) fn command(args: &StopArgs) -> anyhow::Result<Outcome> {
    lab::require_root("weir rerss stop", "looks for another process's program")?;
    let name = &args.interface;
    let link = Netlink::open()?.link(name);
    let ifindex = link.with_context(|| format!("weir rerss cannot use `{name}`"))?.ifindex;
    let Some(program) = attach::attached(ifindex)? else {
        progress::note(&format!("no XDP program is attached to `{name}`"));
        return Ok(Outcome::No);
    };
    ensure!(
        is_ours(&program.name),
        "the XDP program of `{name}` is not that of `weir rerss`: {}, id {}",
        program.name,
        program.id
    );
    let Some(pid) = holder(program.id) else {
        bail!("no process has the link to the program of `{name}`, id {}", program.id);
    };
    kill(Pid::from_raw(pid), Signal::SIGTERM).with_context(|| format!("kill {pid}"))?;
    for _ in 0..PATIENCE_STEPS {
        if attach::attached(ifindex)?.is_none_or(|now| now.id != program.id) {
            return Ok(Outcome::Done);
        }
        std::thread::sleep(STEP);
    }
    bail!("process {pid} got SIGTERM, but its program is still attached to `{name}`")
}

/// The process that has a link to the program.
fn holder(program_id: u32) -> Option<i32> {
    let processes = fs::read_dir("/proc").ok()?;
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|pid: &i32| {
        // What ended in the meantime has none.
        let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo"));
        descriptors.into_iter().flatten().flatten().any(|descriptor| {
            fs::read_to_string(descriptor.path()).is_ok_and(|text| is_link_to(&text, program_id))
        })
    })
}

/// Whether a descriptor is a link to the program at an interface.
fn is_link_to(text: &str, program_id: u32) -> bool {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim_start_matches(':').trim())
    };
    value("link_type") == Some("xdp") && value("prog_id") == Some(&program_id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_known_by_the_program() {
        let link = "pos:\t0\nflags:\t02000000\nlink_type:\txdp\nlink_id:\t9\nprog_tag:\tab\n\
                    prog_id:\t77\nifindex:\t2\n";
        assert!(is_link_to(link, 77) && !is_link_to(link, 7));
        let program = "pos:\t0\nprog_type:\t6\nprog_id:\t77\n";
        assert!(!is_link_to(program, 77));
    }
}
