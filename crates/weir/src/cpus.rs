//! The CPUs of this machine, whichever this process may run on.

use std::fs;

use anyhow::Context as _;
use weir_net::CpuList;

const PATH: &str = "/sys/devices/system/cpu/online";

/// Those that are online.
pub(crate) fn of_machine() -> anyhow::Result<CpuList> {
    let text = fs::read_to_string(PATH).with_context(|| format!("cannot read {PATH}"))?;
    text.trim().parse().with_context(|| format!("{PATH}: {text}"))
}
