//! Campaigns built by code, for the tests of the summary and of the reports.

use std::collections::BTreeMap;

use serde_json::json;
use weir_stats::Threshold;

use crate::counters::Place;
use crate::dut::{Dut, DutKind};
use crate::matrix::{Campaign, Order, SweepValue};
use crate::record::{
    Check, Delays, Direction, Drop, Latency, Ledger, Phase, Point, Sample, TRIAL_SCHEMA, Times,
    TrialRecord, TrialResult, Verdict, VerdictKind,
};
use crate::summary::{CampaignData, Profile, Trial};
use crate::traffic::Traffic;

const OFFERED_PPS: f64 = 4.4e6;

/// What a trial of the fixtures is made from.
#[derive(Debug, Clone)]
pub(crate) struct Made<'a> {
    pub(crate) dut: &'a str,
    pub(crate) traffic: &'a str,
    pub(crate) flow_count: u64,
    pub(crate) sweep: Option<(&'a str, &'a str, f64)>,
    pub(crate) iteration: u32,
    pub(crate) rate_pps: f64,
    pub(crate) verdict: (VerdictKind, &'a str),
}

impl Made<'_> {
    /// The trial, with `count` samples that scatter by a hundredth around the rate.
    pub(crate) fn trial(&self, count: u32) -> Trial {
        let samples = samples(self.rate_pps, count, u64::from(self.iteration) + self.flow_count);
        (self.record(count), samples)
    }

    fn record(&self, count: u32) -> TrialRecord {
        let sweep_part = self.sweep.map_or(String::new(), |(n, label, _)| format!(".{n}={label}"));
        let series = format!("{}{sweep_part}.{}", self.dut, self.traffic);
        let is_calibration = self.iteration == 0;
        let ledger = if is_calibration { calibrated() } else { lossy(self.rate_pps, self.dut) };
        let minute = self.iteration % 60;
        TrialRecord {
            schema: TRIAL_SCHEMA,
            cell_id: format!("cell-{series}-{}", self.iteration),
            series_id: format!("id-{series}"),
            series,
            iteration: self.iteration,
            image: None,
            dut: (!is_calibration).then(|| Dut {
                name: self.dut.into(),
                kind: DutKind::Linux { sysctls: BTreeMap::new(), nft: None },
                toggle: None,
            }),
            sweep: self
                .sweep
                .iter()
                .map(|(name, label, number)| {
                    let value = SweepValue { label: (*label).into(), number: Some(*number) };
                    ((*name).to_owned(), value)
                })
                .collect(),
            traffic: traffic(&format!("{}{sweep_part}", self.traffic), self.flow_count),
            times: times(minute, count),
            result: TrialResult {
                rate_pps: self.rate_pps,
                rate_pps_min: self.rate_pps * 0.99,
                rate_pps_max: self.rate_pps * 1.01,
                sample_count: count.try_into().expect("a small count"),
                offered_pps: OFFERED_PPS,
                requested_pps: None,
                trend_ratio: Some(0.004),
                jump_ratio: Some(-0.006),
            },
            latency: None,
            cost: None,
            windows: Vec::new(),
            ledger,
            directions: Vec::new(),
            verdict: Verdict { kind: self.verdict.0, reason: self.verdict.1.into() },
            checks: vec![Check { name: "probe-before".into(), passed: true, detail: "ok".into() }],
            counters: BTreeMap::new(),
            levels: BTreeMap::new(),
            machine: None,
            machines: BTreeMap::new(),
            sysctls_changed: BTreeMap::new(),
        }
    }
}

fn traffic(name: &str, flow_count: u64) -> Traffic {
    let fields = |src: &str, size: &str, more: &str| {
        format!(r#"{{"src":"198.18.10.1:{src}","dst":"198.19.10.1","size":"{size}"{more}}}"#)
    };
    // As many source ports, and what is left as source addresses.
    let (addrs, ports) = match flow_count {
        0..=50_000 => (1, flow_count),
        65_536 => (2, 32_768),
        _ => (flow_count.div_ceil(50_000), 50_000),
    };
    let one = fields(&format!("1-198.18.10.{addrs}:{ports}"), "60", "");
    let text = format!(
        r#"{{"name":"{name}","id":"traffic-{name}","rate":"max","flow_count":0,"streams":[{one}]}}"#
    );
    let traffic: Traffic = serde_json::from_str(&text).expect("a traffic");
    assert_eq!(traffic.flow_count(), flow_count);
    traffic
}

/// Gives every cell a latency, that of each DUT its own, and scattered over the iterations.
pub(crate) fn with_latency(mut data: CampaignData) -> CampaignData {
    for (record, _) in &mut data.cells {
        let Some(dut) = &record.dut else { continue };
        let base = if dut.name == "linux" { 9_000 } else { 14_000 };
        let p50_ns = base + u64::from(record.iteration) * 100;
        record.latency = (record.result.rate_pps > 0.0).then_some(Latency {
            rate_pps: record.result.rate_pps / 2.0,
            offered_packets: 200_000,
            delivered_packets: 200_000 - u64::from(record.iteration),
            delays: Delays {
                sample_count: 150_000,
                min_ns: 950,
                p50_ns,
                p90_ns: p50_ns * 2,
                p99_ns: p50_ns * 9,
                p999_ns: p50_ns * 90,
                max_ns: 3_412_345,
            },
        });
    }
    data
}

/// Makes every trial one of two directions, of which the second carries a third of all.
pub(crate) fn with_directions(mut data: CampaignData) -> CampaignData {
    let part = |result: &TrialResult, share: f64| TrialResult {
        rate_pps: result.rate_pps * share,
        offered_pps: result.offered_pps * share,
        ..*result
    };
    for (record, _) in data.cells.iter_mut().chain(&mut data.calibrations) {
        let direction = |name: &str, share| Direction {
            name: name.to_owned(),
            result: part(&record.result, share),
            ledger: record.ledger.clone(),
            latency: record.latency,
        };
        record.directions =
            vec![direction("dut0 → dut1", 2.0 / 3.0), direction("dut1 → dut0", 1.0 / 3.0)];
    }
    data
}

fn times(minute: u32, count: u32) -> Times {
    Times {
        started_utc: format!("2026-03-01T10:{minute:02}:00Z"),
        finished_utc: format!("2026-03-01T10:{minute:02}:06Z"),
        warmup_ns: 500_000_000,
        duration_ns: u64::from(count) * 100_000_000,
        measured_ns: u64::from(count) * 100_000_000,
        drain_ns: 200_000_000,
        sample_ns: 100_000_000,
        phases: vec![Phase { name: "measure".into(), duration_ns: 3_000_000_000 }],
    }
}

/// Cumulative counts every 100 ms; the scatter is that of a fixed linear congruence.
fn samples(rate_pps: f64, count: u32, seed: u64) -> Vec<Sample> {
    let mut state = seed;
    let mut received = 0.0_f64;
    let mut samples = vec![Sample { t_ns: 0, rx_packets: 0, rx_bytes: 0, tx_packets: 0 }];
    for index in 1..=count {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = f64::from(u32::try_from(state >> 40).expect("24 bits")) / f64::from(1_u32 << 24);
        received += rate_pps / 10.0 * (0.99 + 0.02 * unit);
        let rx_packets = whole(received);
        samples.push(Sample {
            t_ns: u64::from(index) * 100_000_000,
            rx_packets,
            rx_bytes: rx_packets * 60,
            tx_packets: u64::from(index) * 440_000,
        });
    }
    samples
}

fn whole(value: f64) -> u64 {
    format!("{value:.0}").parse().expect("a count")
}

fn point(name: &str, packets: u64, source: &str) -> Point {
    Point { name: name.into(), packets, source: source.into() }
}

fn calibrated() -> Ledger {
    Ledger {
        points: vec![
            point("offered", 15_400_000, "generator: offered_packets"),
            point("accepted", 15_400_000, "gen0: tx_queue_0_xdp_xmit"),
            point("delivered", 15_400_000, "sink: packets"),
        ],
        drops: Vec::new(),
        residual_packets: 0,
        residual_ratio: 0.0,
        faults: Vec::new(),
        notes: Vec::new(),
    }
}

/// The ledger of a DUT that loses most of what it is offered.
fn lossy(rate_pps: f64, dut: &str) -> Ledger {
    let offered = 15_400_000;
    let delivered = whole(rate_pps * 3.5);
    let queue = if delivered == 0 { 0 } else { delivered / 50 };
    let residual = 120;
    let received = delivered + queue;
    let ring = offered - received - residual;
    let drop = |name: &str, packets, after: &str, source: &str| Drop {
        name: name.into(),
        packets,
        after: after.into(),
        place: Place::Dut,
        source: source.into(),
    };
    let mut drops = vec![drop("ring_full", ring, "accepted", "dut-in: rx_queue_*_drops")];
    if queue > 0 {
        let name = if dut == "nft" { "conntrack_drop" } else { "qdisc_drop" };
        drops.push(drop(name, queue, "dut_received", "dut: backlog"));
    }
    Ledger {
        points: vec![
            point("offered", offered, "generator: offered_packets"),
            point("accepted", offered, "gen0: tx_queue_0_xdp_xmit"),
            point("dut_received", received, "dut-in: rx_packets"),
            point("dut_forwarded", delivered, "ip: ForwDatagrams"),
            point("delivered", delivered, "sink: packets"),
        ],
        drops,
        residual_packets: residual,
        residual_ratio: 120.0 / 15_400_000.0,
        faults: Vec::new(),
        notes: Vec::new(),
    }
}

fn thresholds() -> Vec<Threshold> {
    vec![
        Threshold::new(
            "residual_max",
            0.001,
            "of offered",
            "more packets than this that no counter explains make a trial invalid",
        ),
        Threshold::new(
            "dut_bound_max",
            0.90,
            "of calibrated",
            "delivering at most this much of what the path delivers without a DUT is dut-bound",
        ),
    ]
}

fn environment() -> serde_json::Value {
    json!({
        "schema": 1,
        "weir": "weir 0.1.0 (0123456789ab)",
        "specification_revision": null,
        "host": {
            "os": "Debian GNU/Linux 12 (bookworm)",
            "kernel_release": "6.12.30-amd64",
            "memory_bytes": 8_589_934_592_u64,
            "product": null,
        },
        "cpu": {
            "model": "Example CPU @ 2.50GHz",
            "count": 2,
            "turbo": null,
            "virtual_machine": true,
            "frequency": [{"cpu": 0, "governor": null}],
        },
        "mitigations": {"meltdown": "Mitigation: PTI", "mds": "Vulnerable: no microcode"},
        "tools": {"nft": "nftables v1.0.6 (Lester Gooch #5)"},
    })
}

fn campaign(name: &str, iterations: u32) -> Campaign {
    Campaign { name: name.into(), iterations, auto: None, order: Order::Interleaved, seed: 42 }
}

const BOUND: (VerdictKind, &str) = (
    VerdictKind::DutBound,
    "the DUT lost 87 % of the packets, most of them as `ring_full`; it delivered 12 % of what the \
     path delivers without it",
);
const CALIBRATED: (VerdictKind, &str) =
    (VerdictKind::GeneratorBound, "all that was offered was delivered (loss 0 %)");

fn calibration(traffic: &str, flow_count: u64, rate_pps: f64) -> Trial {
    let made = Made {
        dut: "calibration",
        traffic,
        flow_count,
        sweep: None,
        iteration: 0,
        rate_pps,
        verdict: CALIBRATED,
    };
    made.trial(4)
}

/// A DUT's name in which every language of the reports has something to escape.
pub(crate) const ODD: &str = "a<b>&\"c|d_ e";

/// A small campaign with everything that is awkward: an iteration that is void, a series of one
/// iteration, a DUT that delivers nothing under an odd name, cells that are missing.
pub(crate) fn awkward() -> CampaignData {
    let mut cells = Vec::new();
    let mut add = |dut, traffic, flow_count, rates: &[f64], verdict| {
        for (&rate_pps, iteration) in rates.iter().zip(1..) {
            let made = Made { dut, traffic, flow_count, sweep: None, iteration, rate_pps, verdict };
            cells.push(made.trial(4));
        }
    };
    // The store lists them by name; the specification has `linux` first.
    let overloaded = (VerdictKind::Overloaded, "the DUT answered and delivered 0 % of the offer");
    add(ODD, "few", 128, &[0.0, 0.0, 0.0], overloaded);
    add("linux", "few", 128, &[561_000.0, 564_500.25, 559_000.0], BOUND);
    add("linux", "many", 4_900, &[520_000.0, 524_000.0], BOUND);
    add("nft", "few", 128, &[348_000.0, 351_000.0, 346_000.0], BOUND);
    add("nft", "many", 4_900, &[331_000.0], BOUND);
    let void = Made {
        dut: "nft",
        traffic: "few",
        flow_count: 128,
        sweep: None,
        iteration: 4,
        rate_pps: 700_000.0,
        verdict: (VerdictKind::Invalid, "check `flows` failed: 12 states for 128 flows <&>"),
    };
    cells.push(void.trial(4));
    let names = "[[dut]]\nname = \"linux\"\n\n[[dut]]\nname = \"nft\"\n";
    CampaignData {
        campaign: campaign("awkward", 4),
        spec_text: format!("# <tags> & \"quotes\"\n[campaign]\nname = \"awkward\"\n\n{names}"),
        command: command(),
        store: "/srv/results/quick".to_owned(),
        environment: environment(),
        yardsticks: Vec::new(),
        calibrations: vec![
            calibration("few", 128, 4_400_000.0),
            calibration("many", 4_900, 4_310_000.0),
        ],
        cells,
        dut_cpus: BTreeMap::new(),
        planned_cells: 24,
        thresholds: thresholds(),
        profiles: Vec::new(),
        rejected: Vec::new(),
    }
}

fn command() -> String {
    "weir lab run /srv/labs/quick/lab.toml -n 5 --only 'linux.*'".to_owned()
}

/// A campaign as a reader expects it: two DUTs, three traffics, five iterations.
pub(crate) fn usual() -> CampaignData {
    let plan: [(&str, u64, f64, f64); 3] = [
        ("flows-128", 128, 0.561e6, 0.352e6),
        ("flows-4900", 4_900, 0.524e6, 0.331e6),
        ("flows-100k", 100_000, 0.447e6, 0.262e6),
    ];
    let scatter = [0.0, 0.011, -0.008, 0.004, -0.013];
    let mut cells = Vec::new();
    for (traffic, flow_count, linux, nft) in plan {
        for (dut, rate) in [("linux", linux), ("nft", nft)] {
            for (shift, iteration) in scatter.into_iter().zip(1..) {
                let rate_pps = rate * (1.0 + shift);
                let made = Made {
                    dut,
                    traffic,
                    flow_count,
                    sweep: None,
                    iteration,
                    rate_pps,
                    verdict: BOUND,
                };
                cells.push(made.trial(30));
            }
        }
    }
    let spec = "[campaign]\nname = \"quick\"\niterations = 5\nseed = 42\n\n\
                [[dut]]\nname = \"linux\"\nkind = \"linux\"\n\n\
                [[dut]]\nname = \"nft\"\nkind = \"linux\"\nnft = \"stateful.nft\"\n";
    CampaignData {
        campaign: campaign("quick", 5),
        spec_text: spec.to_owned(),
        command: command(),
        store: "/srv/results/quick".to_owned(),
        environment: environment(),
        yardsticks: Vec::new(),
        calibrations: plan.iter().map(|(t, flows, _, _)| calibration(t, *flows, 4.4e6)).collect(),
        cells,
        dut_cpus: BTreeMap::new(),
        planned_cells: 30,
        thresholds: thresholds(),
        profiles: Vec::new(),
        rejected: Vec::new(),
    }
}

/// The same with a profile of one series, and one that failed.
pub(crate) fn profiled(mut data: CampaignData) -> CampaignData {
    let stacks = [
        ("swapper;cpu_startup_entry;do_idle;default_idle", 700),
        ("ksoftirqd;net_rx_action;veth_poll;ip_rcv;ip_forward;nf_hook_slow;nft_do_chain", 420),
        ("ksoftirqd;net_rx_action;veth_poll;ip_rcv;ip_forward;ip_output;veth_xmit", 260),
        ("ksoftirqd;net_rx_action;veth_poll;ip_rcv;fib_table_lookup", 180),
        ("ksoftirqd;net_rx_action;veth_poll;<[unknown & \"odd\"]>", 40),
    ];
    let folded = stacks.map(|(stack, count)| format!("{stack} {count}\n")).concat();
    let file = |series: &str, name: &str| format!("profiles/{series}/artefacts/{name}");
    let [good, bad] = ["linux.flows-128", "nft.flows-128"];
    data.profiles = vec![
        Profile {
            series: good.to_owned(),
            folded: Some(folded),
            files: vec![file(good, "flamegraph.svg"), file(good, "profile.folded")],
            why_not: None,
        },
        Profile {
            series: bad.to_owned(),
            folded: None,
            files: vec![file(bad, "profile.log")],
            why_not: Some("check `profile` failed: perf may not sample".to_owned()),
        },
    ];
    data
}

/// A sweep over flow counts, written out of order, as a store lists it.
pub(crate) fn swept() -> CampaignData {
    let values = [("128", 128.0, 128), ("4Ki", 4096.0, 4096), ("64Ki", 65_536.0, 65_536)];
    let mut cells = Vec::new();
    for (dut, base) in [("nft", 0.35e6), ("linux", 0.56e6)] {
        for (label, number, flow_count) in [values[2], values[0], values[1]] {
            for iteration in 1..=3 {
                let made = Made {
                    dut,
                    traffic: "udp",
                    flow_count,
                    sweep: Some(("flows", label, number)),
                    iteration,
                    rate_pps: (base + f64::from(iteration) * 1_000.0) / number.powf(0.03),
                    verdict: BOUND,
                };
                cells.push(made.trial(10));
            }
        }
    }
    CampaignData {
        campaign: campaign("sweep", 3),
        spec_text: "[[dut]]\nname = \"linux\"\n[[dut]]\nname = \"nft\"\n".to_owned(),
        command: command(),
        store: "/srv/results/quick".to_owned(),
        environment: environment(),
        yardsticks: Vec::new(),
        calibrations: Vec::new(),
        cells,
        dut_cpus: BTreeMap::new(),
        planned_cells: 18,
        thresholds: thresholds(),
        profiles: Vec::new(),
        rejected: Vec::new(),
    }
}
