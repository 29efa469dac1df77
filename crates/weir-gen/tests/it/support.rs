//! Network namespaces for tests, made with `ip` and removed whatever happens.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use weir_net::NetnsGuard;
use weir_oracle::netns::namespace;

/// How long a test waits for what happens within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace without neighbour discovery, deleted when dropped.
pub(crate) struct Namespace(NetnsGuard);

/// True if the test may make namespaces; says that the test is skipped otherwise.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
pub(crate) fn privileged() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: network namespaces need root");
    }
    root
}

/// Waits until so many packets have arrived.
#[track_caller]
pub(crate) fn wait_for_packets(count: u64, arrived: impl Fn() -> u64) {
    let deadline = Instant::now() + PATIENCE;
    while arrived() < count {
        assert!(Instant::now() < deadline, "{} of {count} packets have arrived", arrived());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `ip` with the words of a line.
pub(crate) fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output().expect("ip runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {line}: {error}");
}

impl Namespace {
    /// Makes a namespace; tests that run at the same time get different ones.
    pub(crate) fn new() -> Self {
        let namespace = Self(namespace("gen").expect("the test is privileged"));
        // No neighbour discovery: only the packets of the test are to be seen.
        namespace.inside(|| {
            for which in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                std::fs::write(path, "1").expect("the sysctl is written");
            }
        });
        namespace
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    /// The number by which the kernel knows it.
    pub(crate) fn inode(&self) -> u64 {
        self.0.inode()
    }

    /// Runs `ip -n <this namespace>`.
    pub(crate) fn ip(&self, line: &str) {
        ip(&format!("-n {} {line}", self.name()));
    }

    /// Index of an interface.
    pub(crate) fn ifindex(&self, name: &str) -> u32 {
        self.inside(|| if_nametoindex(name).expect("the interface exists"))
    }

    /// Runs a closure on a thread inside the namespace.
    pub(crate) fn inside<R: Send>(&self, job: impl FnOnce() -> R + Send) -> R {
        self.0.run(job).expect("the namespace can be entered")
    }
}
