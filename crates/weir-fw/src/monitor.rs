//! Follows the kernel: what it says of routes, neighbours, interfaces and addresses makes the next
//! hops of all flows stale at once, and a change of interfaces or addresses compiles the rules
//! anew.
//!
//! Two threads: `follow` reads what the kernel tells and makes next hops stale. It never waits
//! for the engine, which a large ruleset keeps busy for seconds. `run` does what needs the
//! engine.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_bpf::firewall::Firewall;
use weir_net::events::{Change, Events};

use crate::engine;
use crate::shared::Shared;

/// How often they look whether they should stop.
const POLL: Duration = Duration::from_millis(200);
/// Between two generations of next hops, at least: what a routing daemon changes by the thousands
/// counts together. See `sweeper.rs`, which looks at all states before a number comes again.
const RENEW_INTERVAL: Duration = Duration::from_millis(1);
/// Between two looks at which interfaces take redirected frames: the kernel does not tell.
const REDIRECT_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks at default routes, of which a routing daemon may change thousands a second;
/// and before another attempt at what failed.
const ROUTE_INTERVAL: Duration = Duration::from_secs(2);

/// Changes that nobody has looked at yet, each kind once.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    changes: Mutex<BTreeSet<Change>>,
    wake: Condvar,
}

impl Pending {
    /// For who adds, and for who takes.
    pub(crate) fn both_ends() -> (Arc<Self>, Arc<Self>) {
        let pending = Arc::new(Self::default());
        (Arc::clone(&pending), pending)
    }

    /// Adds some, and wakes whoever waits for them.
    fn add(&self, changes: Vec<Change>) {
        let mut pending = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        pending.extend(changes);
        self.wake.notify_all();
    }

    /// Takes all that are there, and waits for the first one for at most this long.
    fn take(&self, timeout: Duration) -> BTreeSet<Change> {
        let pending = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_empty = |pending: &mut BTreeSet<Change>| pending.is_empty();
        let waited = self.wake.wait_timeout_while(pending, timeout, is_empty);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Makes next hops stale as the kernel tells of changes, and notes these for [`run`]. Runs until
/// the daemon stops.
pub(crate) fn follow(
    firewall: &Firewall,
    shared: &Arc<Shared>,
    mut events: Events,
    pending: &Pending,
) {
    // All but the engine.
    let (stop, messages) = (&shared.stop, &shared.messages);
    let mut renewed_at = Instant::now();
    while !stop.is_requested() {
        let changes = match events.wait(POLL) {
            Ok(changes) => changes,
            Err(error) => {
                messages.tell(&format!("cannot read changes from netlink: {error}"));
                stop.wait(ROUTE_INTERVAL);
                vec![Change::Lost]
            }
        };
        if changes.is_empty() {
            continue;
        }
        // What has come meanwhile is told the next time, and counts again.
        std::thread::sleep(RENEW_INTERVAL.saturating_sub(renewed_at.elapsed()));
        // Before next hops are found anew, by destination alone.
        if changes.iter().any(|change| matches!(change, Change::Ways | Change::Lost)) {
            shared.ways.forget(firewall);
        }
        engine::renew_next_hops(firewall);
        renewed_at = Instant::now();
        pending.add(changes);
    }
}

/// Has the rules follow interfaces, addresses and default routes. Runs until the daemon stops.
pub(crate) fn run(shared: &Arc<Shared>, pending: &Pending) {
    let (mut redirects_at, mut routes_at) = (Instant::now(), Instant::now());
    let mut have_routes_changed = false;
    // When what could not be followed is tried again, and what was told of it.
    let mut again_at: Option<Instant> = None;
    let mut last_refusal = String::new();
    let mut stages = StagesLook::default();
    while !shared.stop.is_requested() {
        let changes = pending.take(POLL);
        let is_lost = changes.contains(&Change::Lost);
        let have_ways_changed = changes.contains(&Change::Ways);
        have_routes_changed |= is_lost || have_ways_changed || changes.contains(&Change::Route);
        stages.look(shared, have_routes_changed);
        let mut is_due =
            is_lost || changes.contains(&Change::Link) || changes.contains(&Change::Address);
        is_due |= again_at.is_some_and(|at| Instant::now() >= at);
        if have_routes_changed && routes_at.elapsed() >= ROUTE_INTERVAL {
            (routes_at, have_routes_changed) = (Instant::now(), false);
            is_due |= shared.engine().depends_on_routes();
        }
        if is_due {
            again_at = match refresh(shared) {
                Ok(()) => None,
                Err(refused) => {
                    if last_refusal != refused {
                        shared.messages.tell(&refused);
                    }
                    last_refusal = refused;
                    Some(Instant::now() + ROUTE_INTERVAL)
                }
            };
            if again_at.is_none() {
                last_refusal.clear();
            }
        } else if redirects_at.elapsed() >= REDIRECT_INTERVAL {
            redirects_at = Instant::now();
            shared.engine().refresh_redirects();
        }
    }
}

/// Has the number of stages follow the routes and the states.
#[derive(Debug, Default)]
struct StagesLook {
    chosen_at: Option<Instant>,
    /// When all routes were looked at, and how long that took.
    looked: Option<(Instant, Duration)>,
    /// Routes may be simple again, or could not be read.
    is_worth_it: bool,
    last_problem: String,
}

impl StagesLook {
    /// Looks at the routes where they may have changed in a way that matters, and chooses.
    fn look(&mut self, shared: &Arc<Shared>, have_routes_changed: bool) {
        self.is_worth_it |= have_routes_changed;
        let is_known = shared.ways.are_known();
        let rest = |(at, took): (Instant, Duration)| at.elapsed() > ROUTE_INTERVAL.max(took * 20);
        let may_look = self.looked.is_none_or(rest);
        let mut has_failed = false;
        let is_looked = may_look && (!is_known || self.is_worth_it && shared.engine().has_forks());
        if is_looked {
            let began_at = Instant::now();
            let fork = shared.ways.look();
            self.looked = Some((Instant::now(), began_at.elapsed()));
            has_failed = fork.is_err();
            shared.engine().note_ways(fork);
        }
        if may_look {
            self.is_worth_it = has_failed;
        }
        if !is_looked && self.chosen_at.is_some_and(|at| at.elapsed() < REDIRECT_INTERVAL) {
            return;
        }
        self.chosen_at = Some(Instant::now());
        let problem = choose(shared).err().unwrap_or_default();
        if !problem.is_empty() && problem != self.last_problem {
            shared.messages.tell(&format!("packets cannot be judged in two stages: {problem}"));
        }
        self.last_problem = problem;
    }
}

/// Goes to the number of stages that is right now; where a program is missing for that, loads it
/// for the next look, while others have the engine.
fn choose(shared: &Arc<Shared>) -> Result<(), String> {
    shared.engine().choose_stages(&shared.ways)?;
    if !shared.engine().take_program_due() {
        return Ok(());
    }
    let firewall = Arc::clone(shared.engine().firewall());
    if firewall.load_second_program().is_err() {
        shared.engine().note_program_refused();
    }
    Ok(())
}

/// One look at interfaces and addresses.
fn refresh(shared: &Arc<Shared>) -> Result<(), String> {
    let lines = shared.engine().refresh();
    let lines = lines.map_err(|refused| {
        format!("interfaces have changed, and the rules cannot follow: {refused}")
    })?;
    lines.iter().for_each(|line| shared.messages.tell(line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_wait_each_kind_once() {
        let pending = Pending::default();
        pending.add(vec![Change::Route, Change::Link]);
        pending.add(vec![Change::Route]);
        let all = pending.take(Duration::ZERO);
        assert_eq!(all, BTreeSet::from([Change::Link, Change::Route]));
        assert!(pending.take(Duration::ZERO).is_empty(), "they are taken once");
    }
}
