//! The sections that exist once: `[campaign]`, `[trial]`, `[testbed]`.

use std::time::Duration;

use weir_results::matrix::{Campaign, Order};
use weir_results::traffic::LINKS_MAX;
use weir_wire::units::format_duration;

use crate::diagnostic::{Report, quote};
use crate::model::{MTU_BYTES_DEFAULT, NetnsSpec, TestbedSpec, TrialTimes};
use crate::spec::cpus;
use crate::spec::fields::{Fields, Value};
use crate::spec::suggest::nearest;
use crate::spec::{check_name, iterations, rss};

/// The seed of a specification that names none.
const SEED_DEFAULT: u64 = 1;

/// The most queues of a veth device: what one receive queue per CPU of a large host needs.
const QUEUES_MAX: u64 = 64;

/// Fields of network cards.
const RINGS: [&str; 2] = ["rx_ring", "tx_ring"];

/// MTUs: the least that IPv6 needs, and that of jumbo frames.
const MTU_BYTES: std::ops::RangeInclusive<u64> = 1_280..=9_000;

/// How many connections a host may be asked to track: at 320 bytes each, the most take 32 GB.
const CONNTRACK_MAX: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;

/// No part of a trial is longer.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Samples closer together measure the scheduler.
const SAMPLE_MIN: Duration = Duration::from_millis(10);

/// Packets need this long to leave every queue of a path.
const DRAIN_MIN: Duration = Duration::from_millis(50);

/// A shorter phase is about over when its generator is up to its rate.
const LATENCY_MIN: Duration = Duration::from_millis(100);

/// How often a disturbed trial is repeated, unless the specification says otherwise, and at most.
const RETRIES_DEFAULT: u32 = 1;
const RETRIES_MAX: u64 = 10;

/// Fewer samples have no median worth the name.
const SAMPLES_MIN: u32 = 5;

/// The `[campaign]` section.
pub(crate) fn campaign(value: &Value<'_>, report: &mut Report) -> Option<Campaign> {
    let fields = Fields::of("[campaign]", value, report)?;
    let known = ["name", "iterations", "order", "seed"];
    fields.refuse_unknown(&[&known[..], &iterations::AUTO_FIELDS].concat(), report);
    let name = fields.required_text("name", report);
    if let Some(name) = &name {
        check_name(&name.text, &name.span, report);
    }
    let iterations = iterations::iterations(&fields, report);
    let order = match fields.text("order", report) {
        None => Order::Interleaved,
        Some(text) => match text.text.as_str() {
            "interleaved" => Order::Interleaved,
            "sequential" => Order::Sequential,
            other => {
                let message = format!("`order` cannot be {}", quote(other));
                report.error_help(&text.span, message, "use \"interleaved\" or \"sequential\"");
                Order::Interleaved
            }
        },
    };
    // TOML's integers end at 2^63 - 1.
    let seed_max = u64::MAX >> 1;
    let seed = fields.integer("seed", 0..=seed_max, report).unwrap_or(SEED_DEFAULT);
    let (iterations, auto) = iterations?;
    Some(Campaign { name: name?.text, iterations, auto, order, seed })
}

/// The `[trial]` section, or its defaults: the times, and how often a disturbed trial is repeated.
pub(crate) fn trial(value: Option<&Value<'_>>, report: &mut Report) -> (TrialTimes, u32) {
    let mut times = TrialTimes {
        warmup: Duration::from_millis(500),
        duration: Duration::from_secs(3),
        drain: Duration::from_millis(200),
        sample: Duration::from_millis(100),
        latency: None,
    };
    let Some(fields) = value.and_then(|value| Fields::of("[trial]", value, report)) else {
        return (times, RETRIES_DEFAULT);
    };
    fields.refuse_unknown(&["warmup", "duration", "drain", "sample", "latency", "retries"], report);
    let retries = fields.integer("retries", 0..=RETRIES_MAX, report);
    let retries =
        retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(RETRIES_DEFAULT);
    let mut latency = Duration::ZERO;
    for (name, time, time_min) in [
        ("warmup", &mut times.warmup, Duration::ZERO),
        ("duration", &mut times.duration, Duration::from_nanos(1)),
        ("drain", &mut times.drain, DRAIN_MIN),
        ("sample", &mut times.sample, SAMPLE_MIN),
        ("latency", &mut latency, LATENCY_MIN),
    ] {
        let Some(given) = fields.duration(name, report) else {
            continue;
        };
        let span = fields.span_of(name);
        if given.is_zero() && !time_min.is_zero() {
            report.error(&span, format!("`{name}` must not be zero"));
        } else if given < time_min {
            let (given, least) = (format_duration(given), format_duration(time_min));
            report.error(&span, format!("`{name}` must be at least {least}, not {given}"));
        } else if given > TIME_MAX {
            report.error(&span, format!("`{name}` must be at most {}", format_duration(TIME_MAX)));
        } else {
            *time = given;
        }
    }
    times.latency = (!latency.is_zero()).then_some(latency);
    if times.duration < times.sample * SAMPLES_MIN {
        let shown = (format_duration(times.duration), format_duration(times.sample));
        let message = format!("{} has fewer than {SAMPLES_MIN} samples of {}", shown.0, shown.1);
        let place = if fields.get("duration").is_some() { "duration" } else { "sample" };
        let help = "the figure of a trial is the median of its samples";
        report.error_help(&fields.span_of(place), message, help);
    }
    (times, retries)
}

/// The `[testbed]` section.
pub(crate) fn testbed(value: &Value<'_>, report: &mut Report) -> Option<TestbedSpec> {
    const KINDS: [&str; 3] = ["netns", "hosts", "qemu"];
    let fields = Fields::of("[testbed]", value, report)?;
    let kind = fields.required_text("kind", report)?;
    match kind.text.as_str() {
        "netns" => Some(TestbedSpec::Netns(netns(&fields, report))),
        "hosts" => Some(TestbedSpec::Hosts(Box::new(crate::spec::hosts::hosts(&fields, report)?))),
        "qemu" => Some(TestbedSpec::Qemu(Box::new(crate::spec::qemu::qemu(&fields, report)?))),
        other => {
            let message = format!("{} is not a kind of testbed", quote(other));
            let help = match nearest(other, KINDS) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "there are: netns, hosts, qemu".into(),
            };
            report.error_help(&kind.span, message, help);
            None
        }
    }
}

fn netns(fields: &Fields<'_, '_>, report: &mut Report) -> NetnsSpec {
    /// Those that nobody shares, and those that are among the DUT's.
    const APART: [&str; 3] = ["generator_cpus", "dut_cpus", "sink_cpus"];
    const OF_DUT: [&str; 2] = ["napi_cpus", "rps_cpus"];
    let lists = [&APART[..], &OF_DUT].concat();
    let known =
        [&["kind"], &lists[..], &["queues", "rss", "links", "mtu", "conntrack_max"]].concat();
    refuse_rings(fields, report);
    fields.refuse_unknown(&[&known[..], &RINGS].concat(), report);
    let links = fields.integer("links", 1..=LINKS_MAX.into(), report);
    let conntrack_max = fields.integer("conntrack_max", CONNTRACK_MAX, report);
    let queues = fields.count("queues", 1..=QUEUES_MAX, report).unwrap_or(1);
    let sets = cpus::sets(fields, &lists, report);
    let apart: Vec<_> = sets.iter().filter(|(name, _)| APART.contains(name)).cloned().collect();
    cpus::refuse_overlaps(fields, &apart, report);
    for name in OF_DUT {
        cpus::refuse_outside(fields, &sets, name, "dut_cpus", report);
    }
    let list =
        |name: &str| sets.iter().find(|(list, _)| *list == name).map(|(_, set)| cpus::display(set));
    let queues = u32::try_from(queues).unwrap_or(1);
    NetnsSpec {
        generator_cpus: list("generator_cpus"),
        dut_cpus: list("dut_cpus"),
        sink_cpus: list("sink_cpus"),
        napi_cpus: list("napi_cpus"),
        rps_cpus: list("rps_cpus"),
        queues,
        rss: rss::rss(fields, queues, report),
        links: links.and_then(|links| u16::try_from(links).ok()).unwrap_or(1),
        mtu_bytes: mtu(fields, report),
        conntrack_max,
    }
}

/// The MTU, if it is given; Ethernet's is none.
fn mtu(fields: &Fields<'_, '_>, report: &mut Report) -> Option<u32> {
    let mtu_bytes = fields.count("mtu", MTU_BYTES, report)?;
    u32::try_from(mtu_bytes).ok().filter(|mtu_bytes| *mtu_bytes != MTU_BYTES_DEFAULT)
}

/// Refuses what a veth has not, but a network card has.
fn refuse_rings(fields: &Fields<'_, '_>, report: &mut Report) {
    for name in RINGS {
        if let Some(span) = fields.key_span(name) {
            let message = format!("`{name}`: a veth has no ring whose size can be set");
            let help = "it holds 256 frames for each queue, in every kernel: change `queues`";
            report.error_help(&span, message, help);
        }
    }
}
