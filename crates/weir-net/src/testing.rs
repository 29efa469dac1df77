//! Helpers of the tests: namespaces with unique names, and tools that may not be installed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::netns::{Netns, NetnsGuard};
use crate::process::{Invocation, Output, run};

/// A name that no other test, also of another process, uses.
pub(crate) fn unique(what: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("weirtest-{}-{counter}-{what}", std::process::id())
}

/// A new namespace that goes with the guard.
pub(crate) fn namespace(what: &str) -> NetnsGuard {
    Netns::create(&unique(what)).expect("tests of namespaces run as root").guard()
}

/// Runs a tool if it is installed, on the calling thread's side of things.
#[expect(clippy::print_stderr, reason = "a test says when it had to leave something out")]
pub(crate) fn tool(argv: &[&str]) -> Option<Output> {
    match run(&Invocation::program(argv.iter().copied()), Duration::from_secs(20)) {
        Ok(output) => Some(output.check().expect("an installed tool works")),
        Err(error) => {
            eprintln!("left out: {error}");
            None
        }
    }
}
