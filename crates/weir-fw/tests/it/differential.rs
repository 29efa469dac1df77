//! The data path against the reference: packet tests, random rulesets with random packets, and
//! frames that nobody sends, on both; they have to agree.

mod device;
mod minimise;
mod modulation;
mod observed;
mod oracle;
mod wires;

mod fuzz;
mod packets;
mod random;

use device::DataPath;
use weir_oracle::netns::namespace;

/// Runs a test with the data path in a namespace of its own; without privileges it is skipped, and
/// the reason printed.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
pub(crate) fn with_data_path(what: &str, test: impl FnOnce(&mut DataPath) + Send) {
    let Some(inside) = namespace(what) else { return };
    let run = || match DataPath::new().expect("the programs load") {
        Some(mut device) => test(&mut device),
        None => eprintln!("skipped: BPF programs need privileges"),
    };
    inside.run(run).expect("the namespace is entered");
}
