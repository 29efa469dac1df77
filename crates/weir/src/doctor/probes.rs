//! Trying what the kernel can do, in a network namespace of our own that is removed again.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_bpf::{ethtool, probe};
use weir_net::registry::Registry;
use weir_net::{Netlink, Netns, VethEnd, napi};

/// One end of the veth pair in the namespace.
const VETH: &str = "weir-doc0";
/// The other end.
const PEER: &str = "weir-doc1";

/// Features that are tried. Each error says why it did not work.
pub(super) trait Probes {
    /// Makes and removes a network namespace.
    fn namespaces(&self) -> Result<(), String>;
    /// Runs a program on live frames.
    fn live_frames(&self) -> Result<(), String>;
    /// Attaches a native XDP program to a veth in a namespace of its own.
    fn xdp_native(&self) -> Result<(), String>;
    /// Switches threaded NAPI on for such a veth.
    fn threaded_napi(&self) -> Result<(), String>;
    /// Makes a BPF arena.
    fn arena(&self) -> Result<(), String>;
    /// The version that `nft --version` prints.
    fn nft_version(&self) -> Result<String, String>;
}

/// The kernel that this process runs on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel;

impl Probes for Kernel {
    fn namespaces(&self) -> Result<(), String> {
        in_namespace(|| Ok(()))
    }

    fn live_frames(&self) -> Result<(), String> {
        probe::live_frames().map_err(describe)
    }

    fn xdp_native(&self) -> Result<(), String> {
        on_veth(|netlink| {
            let ifindex = netlink.ifindex(VETH).map_err(describe)?;
            probe::xdp_native(ifindex).map_err(describe)
        })
    }

    fn threaded_napi(&self) -> Result<(), String> {
        on_veth(|_| {
            // A veth has NAPI only while GRO is on or a program is attached.
            ethtool::set_gro(VETH, true).map_err(describe)?;
            napi::set_threaded(VETH, true).map_err(describe)
        })
    }

    fn arena(&self) -> Result<(), String> {
        probe::arena().map_err(describe)
    }

    fn nft_version(&self) -> Result<String, String> {
        // The lookup of a lab, so that both find the same program.
        let path = weir_net::process::search_path();
        let output =
            Command::new("nft").arg("--version").env("PATH", path).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot run nft: {error}"))?;
        if !output.status.success() {
            return Err(format!("nft --version failed ({})", output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Runs `work` in a new namespace, which is on record before it exists (so that `weir lab clean`
/// finds it, should this process be killed) and gone when this function returns.
fn in_namespace(work: impl FnOnce() -> Result<(), String> + Send) -> Result<(), String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("weir-doctor-{}-{count}", std::process::id());
    let record = Registry::default().record(&[&name]).map_err(describe)?;
    let result = Netns::create(&name).map_err(describe).and_then(|namespace| {
        let namespace = namespace.guard();
        let result = namespace.run(work).map_err(describe).flatten();
        let deleted = namespace.delete().map_err(describe);
        result.and(deleted)
    });
    let closed = record.close().map_err(describe);
    result.and(closed)
}

/// Runs a probe inside a new namespace that has a veth pair, up at both ends.
fn on_veth(probe: impl FnOnce(&Netlink) -> Result<(), String> + Send) -> Result<(), String> {
    in_namespace(|| {
        let netlink = Netlink::open().map_err(describe)?;
        netlink.create_veth(&VethEnd::new(VETH), &VethEnd::new(PEER), 1).map_err(describe)?;
        netlink.set_up(VETH).map_err(describe)?;
        netlink.set_up(PEER).map_err(describe)?;
        probe(&netlink)
    })
}

/// An error with its causes, on one line.
fn describe(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        // Some errors name their cause themselves.
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
