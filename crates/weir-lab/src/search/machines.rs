//! What a search asks of machines: they have no path without the DUT, so nothing is known of it but
//! the stated rate of its links. What rests on more is refused. Arithmetic only.

use std::time::Duration;

use weir_results::search::{Terms, Test};
use weir_wire::units::format_duration;

use super::SAMPLES_MIN;
use crate::model::{HostsSpec, Plan, TestbedSpec};

/// What the lines of a generator call the load.
const RATE: &str = "${rate_pps}";

/// Why a search cannot be made on the testbed of a plan; `None` if it can.
pub(super) fn refusal(plan: &Plan, terms: &Terms) -> Option<String> {
    let TestbedSpec::Hosts(hosts) = &plan.testbed else { return None };
    test_refusal(plan, terms)
        .or_else(|| (terms.max_load_pps.or(link_rate(hosts)).is_none()).then(no_highest_load))
        .or_else(|| deaf_generator(hosts))
        .or_else(|| short_trial(plan.trial.sample, terms))
}

#[expect(clippy::cast_precision_loss, reason = "rates of links stay far below 2^53")]
fn link_rate(hosts: &HostsSpec) -> Option<f64> {
    hosts.link_rate_bps.map(|link_rate_bps| link_rate_bps as f64)
}

fn no_highest_load() -> String {
    "no upper bound for the load is known: set `max_load` in [search], or `link_rate` in [testbed]"
        .into()
}

fn test_refusal(plan: &Plan, terms: &Terms) -> Option<String> {
    // Connections and requests are timed by their client alone.
    let mut searched = plan.cells.iter().map(|cell| &plan.series[cell.series_index]);
    let has_packets = searched.any(|series| series.traffic.kind.is_packets());
    let why = |test: &Test| match test {
        Test::Throughput | Test::LossCurve => None,
        Test::Latency => has_packets.then_some("two machines share no clock"),
        Test::BackToBack => Some(
            "it rests on the rate of the generator without a DUT, and the DUT cannot be left out \
             of the path",
        ),
    };
    let (test, why) = terms.tests.iter().find_map(|test| Some((test, why(test)?)))?;
    Some(format!("`tests` cannot have \"{}\": {why}; leave it out", test.name()))
}

/// A generator whose line does not say how fast it is to send.
fn deaf_generator(hosts: &HostsSpec) -> Option<String> {
    let end = hosts
        .generators
        .iter()
        .find(|end| end.driver.start.as_ref().is_some_and(|start| !start.contains(RATE)))?;
    Some(format!(
        "`start` of generator {} does not use `{RATE}`, so that no load can be asked of it",
        end.remote.name
    ))
}

/// Programs print their counts at the distance of the samples, whatever the length of a trial.
fn short_trial(sample: Duration, terms: &Terms) -> Option<String> {
    let goals = terms
        .goals
        .iter()
        .flat_map(|goal| [Some(goal.final_trial_s), goal.initial_trial_s].into_iter().flatten());
    let has_curve = terms.tests.contains(&Test::LossCurve);
    let shortest_s = goals.chain(has_curve.then_some(terms.curve_trial_s)).reduce(f64::min)?;
    let shortest = Duration::from_secs_f64(shortest_s);
    (shortest < sample * SAMPLES_MIN).then(|| {
        format!(
            "its shortest trial takes {}, and counts come every {}: a trial needs {SAMPLES_MIN} of \
             them; make `trial` and `first_trial` longer, or `sample` in [trial] shorter",
            format_duration(shortest),
            format_duration(sample)
        )
    })
}
