//! Connections, whoever opens them: what their client and their server count, and how that accounts
//! for every connection. It reads nothing, and decides nothing about a figure.

use std::collections::BTreeMap;

use weir_gen::connect::Close;
use weir_gen::connect::ledger::{Counts, Course, End, steps};
use weir_results::accounting::{Accounting, Gap, NamedLoss};
use weir_results::counters::{DropRule, Place, PointRule, Selection};
use weir_results::traffic::{Connect, connect as traffic};

use super::Topology;
use super::requests::{CLIENT, SERVER};

/// What was lost on its way to the server, and on its way back.
pub(super) const THERE: &str = "client_to_server";
pub(super) const BACK: &str = "server_to_client";

/// What becomes of connections.
pub(super) fn close(close: traffic::Close) -> Close {
    match close {
        traffic::Close::Fin => Close::Fin,
        traffic::Close::Rst => Close::Rst,
        traffic::Close::None => Close::None,
    }
}

/// The steps that they go through; a lab holds none.
pub(super) fn course(connect: &Connect) -> Course {
    let close = close(connect.close).into();
    Course { close, hold_ns: 0, request_bytes: connect.request_bytes }
}

/// Who counts the last step of a connection, and the name of the count.
pub(super) fn last_step(course: &Course) -> (End, &'static str) {
    let last = steps(course).last().copied();
    let (end, step) = last.expect("every course has steps");
    (end, counter(step))
}

/// The counts of an end by name.
pub(super) fn named(counts: &Counts) -> BTreeMap<String, u64> {
    // It is a table of numbers, each with a name.
    let value = serde_json::to_value(counts).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

/// The name of the count of a step.
fn counter(step: &str) -> &str {
    step.rsplit_once('_').map_or(step, |(counter, _)| counter)
}

fn source(end: End) -> &'static str {
    match end {
        End::Client => CLIENT,
        End::Server => SERVER,
    }
}

/// How the counters account for a connection; `on_devices` is lost on the way beside what the DUT
/// drops.
pub(super) fn accounting(
    course: &Course,
    topology: Topology,
    on_devices: Vec<NamedLoss>,
) -> Accounting {
    let steps = steps(course);
    let point = |&(end, name): &(End, &'static str)| PointRule {
        name,
        counters: Selection::new(source(end), &[counter(name)]),
    };
    let has_dut = topology == Topology::Dut;
    // Without a DUT each end stands where it would, and its ring is all that there is on the way.
    let on_way = |end_place: Place| if has_dut { Place::Dut } else { end_place };
    let gap = |pair: &[(End, &'static str)]| {
        let [(from, after), (to, _)] = pair else { return None };
        let (name, place) = match (from, to) {
            (End::Client, End::Server) => (THERE, on_way(Place::Sink)),
            (End::Server, End::Client) => (BACK, on_way(Place::Generator)),
            (End::Client, End::Client) => ("inside_the_client", Place::Generator),
            (End::Server, End::Server) => ("inside_the_server", Place::Sink),
        };
        Some(Gap::new(after, name, place))
    };
    let refused = Selection::new(CLIENT, &["refused"]);
    Accounting {
        points: steps.iter().map(point).collect(),
        drops: vec![DropRule::new("refused_with_rst", "syn_sent", on_way(Place::Sink), refused)],
        gaps: steps.windows(2).filter_map(gap).collect(),
        connections: Some(on_devices),
        ..Accounting::default()
    }
}
