//! Network namespaces for tests, on record, so that the next tests remove what killed ones left.
//!
//! The record is one of [`weir_net::registry`], in a directory of the tests', and one for each
//! process. It stays when the process ends; the next one removes it, with the namespaces on it and
//! the processes in them. *Never* touches a namespace of a process that lives.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use weir_net::registry::{Record, Registry};
use weir_net::{Netns, NetnsGuard};

/// Where the records of tests are.
pub const RECORDS: &str = "/run/weir/tests";

/// The record of this process, and how many names it gave.
static RECORD: Mutex<(Option<Record>, usize)> = Mutex::new((None, 0));

/// The tests' registry. The first call in a process removes what killed processes left.
pub fn registry() -> Registry {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(sweep);
    Registry::at(RECORDS)
}

/// Removes what killed processes of tests left. What cannot be removed stays on record.
pub fn sweep() {
    drop(Registry::at(RECORDS).clean_leftovers());
}

/// An empty namespace that goes with the guard, or at the next run of tests if this process is
/// killed; its name begins with [`prefix`]. `None`, and the reason is printed, without privileges.
///
/// # Panics
///
/// If the system refuses root a record or a namespace.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
pub fn namespace(what: &str) -> Option<NetnsGuard> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: network namespaces need root");
        return None;
    }
    let name = name(what);
    Some(Netns::create(&name).expect("root may make a namespace").guard())
}

/// How the names of a process's namespaces begin.
#[must_use]
pub fn prefix(pid: u32) -> String {
    format!("weir-test-{pid}-")
}

/// A name that no other test has, on record.
fn name(what: &str) -> String {
    let registry = registry();
    let mut record: MutexGuard<'_, _> = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    let (record, count) = &mut *record;
    let name = format!("{}{what}{count}", prefix(std::process::id()));
    *count += 1;
    let written = match record {
        Some(record) => record.add(&[&name]),
        None => registry.record(&[&name]).map(|new| *record = Some(new)),
    };
    written.expect("root may write a record");
    name
}
