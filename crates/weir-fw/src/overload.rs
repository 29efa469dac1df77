//! Sources that met a limit of a rule with `overload`: into the rule's table, and their states end.
//!
//! The data path has a ring buffer for them alone (`bpf/include/weir/fw/source.h`), and this thread
//! reads nothing else: neither packets that are logged nor a slow disk hold it up.

use std::sync::Arc;
use std::time::Duration;

use crate::engine;
use crate::shared::Shared;

/// How long it waits for sources before it looks whether it should stop.
const POLL: Duration = Duration::from_millis(200);

/// Runs until the daemon stops.
pub(crate) fn run(shared: &Arc<Shared>) {
    let firewall = Arc::clone(shared.engine().firewall());
    let failed = |error: std::io::Error| {
        shared.messages.tell(&format!("sources over their limits cannot be read: {error}"));
    };
    let mut reader = match firewall.overload_reader() {
        Ok(reader) => reader,
        Err(error) => return failed(error),
    };
    while !shared.stop.is_requested() {
        let list = match reader.read(POLL) {
            Ok(list) => list,
            Err(error) => {
                failed(error);
                shared.stop.wait(Duration::from_secs(1));
                continue;
            }
        };
        if list.is_empty() {
            continue;
        }
        let filters = shared.engine().overloaded(&list);
        let ended = filters.and_then(|filters| engine::kill(&firewall, &filters));
        if let Err(error) = ended {
            shared
                .messages
                .tell(&format!("cannot act on a source that went over its limit: {error}"));
        }
    }
}
