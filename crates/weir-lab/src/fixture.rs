//! For the tests of this crate: a trial record written by hand, and the published archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_results::dut::{Dut, DutKind};
use weir_results::record::{
    Check, Ledger, Phase, Point, TRIAL_SCHEMA, Times, TrialRecord, TrialResult, Verdict,
    VerdictKind,
};
use weir_results::traffic::Traffic;

/// A finished trial in which every packet arrived.
pub(crate) fn trial(dut: &str, traffic: &str, iteration: u32) -> TrialRecord {
    let kind = DutKind::Linux { sysctls: BTreeMap::new(), nft: None };
    let probe = Check { name: "probe-before".into(), passed: true, detail: "10 of 10".into() };
    TrialRecord {
        schema: TRIAL_SCHEMA,
        cell_id: format!("cell-{dut}-{traffic}-{iteration}"),
        series_id: format!("series-{dut}-{traffic}"),
        series: format!("{dut}.{traffic}"),
        iteration,
        image: None,
        dut: Some(Dut { name: dut.into(), kind, toggle: None }),
        sweep: Vec::new(),
        traffic: flows_128(traffic),
        times: times(),
        result: result(),
        latency: None,
        cost: None,
        windows: Vec::new(),
        ledger: ledger(),
        directions: Vec::new(),
        verdict: Verdict { kind: VerdictKind::GeneratorBound, reason: "test".into() },
        checks: vec![probe],
        counters: BTreeMap::new(),
        levels: BTreeMap::new(),
        machine: None,
        machines: BTreeMap::new(),
        sysctls_changed: BTreeMap::new(),
    }
}

fn flows_128(name: &str) -> Traffic {
    // As the oldest stores have it.
    let text = format!(
        r#"{{"name":"{name}","id":"traffic-{name}","src":"198.18.10.1:2000-198.18.10.8",
        "dst":"198.19.10.1:2000-198.19.10.16","size_bytes":60,"rate":"max","flow_count":128}}"#
    );
    serde_json::from_str(&text).expect("a traffic")
}

fn times() -> Times {
    Times {
        started_utc: "2026-01-01T00:00:00Z".into(),
        finished_utc: "2026-01-01T00:00:05Z".into(),
        warmup_ns: 500_000_000,
        duration_ns: 3_000_000_000,
        measured_ns: 3_000_000_000,
        drain_ns: 200_000_000,
        sample_ns: 100_000_000,
        phases: vec![Phase { name: "measure".into(), duration_ns: 3_000_000_000 }],
    }
}

fn result() -> TrialResult {
    TrialResult {
        rate_pps: 333.0,
        rate_pps_min: 330.0,
        rate_pps_max: 335.0,
        sample_count: 30,
        offered_pps: 333.0,
        requested_pps: None,
        trend_ratio: Some(0.0),
        jump_ratio: Some(0.0),
    }
}

fn ledger() -> Ledger {
    let point = |name: &str| Point { name: name.into(), packets: 1_000, source: "test".into() };
    Ledger {
        points: vec![point("offered"), point("delivered")],
        drops: Vec::new(),
        residual_packets: 0,
        residual_ratio: 0.0,
        faults: Vec::new(),
        notes: Vec::new(),
    }
}

/// The published archive; says that the test is skipped where it is not there.
pub(crate) fn netbenches() -> Option<PathBuf> {
    let data = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let source = data.join("netbenches");
    if !source.is_dir() {
        #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
        {
            eprintln!("skipped: there are no netbenches in ../shared/data or $WEIR_TEST_DATA");
        }
        return None;
    }
    Some(source)
}
