//! Follows the kernel: what it says of routes, neighbours, interfaces and addresses makes the next
//! hops of all flows stale at once, and a change of interfaces or addresses compiles the rules
//! anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_net::events::{Change, Events};

use crate::daemon::Shared;
use crate::engine;

/// How often it looks whether it should stop.
const POLL: Duration = Duration::from_millis(200);
/// Between two generations of next hops, at least: what a routing daemon changes by the thousands
/// counts together. See `sweeper.rs`, which looks at all states before a number comes again.
const RENEW_INTERVAL: Duration = Duration::from_millis(1);
/// Between two looks at which interfaces take redirected frames: the kernel does not tell.
const REDIRECT_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks at default routes, of which a routing daemon may change thousands a second.
const ROUTE_INTERVAL: Duration = Duration::from_secs(2);

/// Runs until the daemon stops.
pub(crate) fn run(shared: &Arc<Shared>, mut events: Events) {
    let firewall = Arc::clone(shared.engine().firewall());
    let (mut redirects_at, mut routes_at) = (Instant::now(), Instant::now());
    let mut renewed_at = Instant::now();
    let mut have_routes_changed = false;
    while !shared.stop.is_requested() {
        let changes = match events.wait(POLL) {
            Ok(changes) => changes,
            Err(error) => {
                shared.messages.tell(&format!("netlink does not tell of changes: {error}"));
                shared.stop.wait(ROUTE_INTERVAL);
                vec![Change::Lost]
            }
        };
        if !changes.is_empty() {
            // What has come meanwhile is told the next time, and counts again.
            std::thread::sleep(RENEW_INTERVAL.saturating_sub(renewed_at.elapsed()));
            // Without the engine's lock: the very next packets are to see it.
            engine::renew_next_hops(&firewall);
            renewed_at = Instant::now();
        }
        let is_lost = changes.contains(&Change::Lost);
        have_routes_changed |= is_lost || changes.contains(&Change::Route);
        let mut is_due =
            is_lost || changes.contains(&Change::Link) || changes.contains(&Change::Address);
        if have_routes_changed && routes_at.elapsed() >= ROUTE_INTERVAL {
            (routes_at, have_routes_changed) = (Instant::now(), false);
            is_due |= shared.engine().depends_on_routes();
        }
        if is_due {
            refresh(shared);
        } else if redirects_at.elapsed() >= REDIRECT_INTERVAL {
            redirects_at = Instant::now();
            shared.engine().refresh_redirects();
        }
    }
}

fn refresh(shared: &Arc<Shared>) {
    let told = shared.engine().refresh();
    match told {
        Ok(lines) => lines.iter().for_each(|line| shared.messages.tell(line)),
        Err(refused) => shared
            .messages
            .tell(&format!("interfaces have changed, and the rules cannot follow: {refused}")),
    }
}
