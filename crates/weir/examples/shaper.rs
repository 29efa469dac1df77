//! A device under test whose capacity is known: `shaper IN OUT RATE_PPS DEPTH_NS` sends what
//! arrives at one interface out of another, RATE_PPS packets per second at most, until it is ended.
//!
//! It is for tests of the rate search, which start it inside a DUT's namespace: it writes a file
//! `ready` into its working directory when it is. It is an example, so that cargo builds it with
//! the tests and nobody installs it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use weir_gen::pacing::interval;
use weir_net::Netlink;
use weir_oracle::shaper::ShaperProgram;

fn main() -> ExitCode {
    match shape() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            drop(writeln!(std::io::stderr(), "shaper: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn shape() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [inward, outward, rate_pps, depth_ns] = words.as_slice() else {
        anyhow::bail!("usage: shaper IN OUT RATE_PPS DEPTH_NS");
    };
    let netlink = Netlink::open()?;
    let program = ShaperProgram::load()?;
    let rate_pps: f64 = rate_pps.parse().context("RATE_PPS is not a number")?;
    program.shape(interval(rate_pps, 1), depth_ns.parse().context("DEPTH_NS is not a number")?)?;
    program.connect(netlink.ifindex(outward)?)?;
    let _link = program.attach(netlink.ifindex(inward)?)?;
    std::fs::write("ready", "").context("cannot write `ready`")?;
    loop {
        // Whoever started it ends it.
        std::thread::sleep(Duration::from_secs(3600));
    }
}
