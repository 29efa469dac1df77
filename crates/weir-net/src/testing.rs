//! Helpers of the tests: namespaces with unique names, and tools that may not be installed.

use std::sync::Mutex;
use std::time::Duration;

use crate::netlink::Netlink;
use crate::netns::{Netns, NetnsGuard};
use crate::process::{Invocation, Output, run};
use crate::registry::{Record, Registry};

/// A name that no other test, also of another process, uses. It is on record: the namespace goes
/// at the next run of tests if this process is killed.
pub(crate) fn unique(what: &str) -> String {
    static RECORD: Mutex<Option<Record>> = Mutex::new(None);
    let mut record = RECORD.lock().unwrap();
    let record = record.get_or_insert_with(|| {
        // Shared with the tests of other crates (`weir_oracle::netns`).
        let registry = Registry::at("/run/weir/tests");
        registry.clean_leftovers().unwrap();
        registry.record::<String>(&[]).unwrap()
    });
    let name = format!("weir-test-{}-{}-{what}", std::process::id(), record.namespaces().len());
    record.add(&[&name]).unwrap();
    name
}

/// A new namespace that goes with the guard.
pub(crate) fn namespace(what: &str) -> NetnsGuard {
    Netns::create(&unique(what)).expect("tests of namespaces run as root").guard()
}

/// Deletes an interface, and its peer if it is a veth.
pub(crate) fn delete_link(netlink: &Netlink, name: &str) {
    let index = netlink.ifindex(name).unwrap();
    let deletion = netlink.handle().link().del(index).execute();
    netlink.perform(|| format!("delete interface `{name}`"), deletion).unwrap();
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
