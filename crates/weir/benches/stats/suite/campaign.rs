//! A finished campaign of any size, and how long its report takes.
//!
//! The store is made through the lab's own writer, from a specification that is planned as any
//! other: two DUTs, five iterations, and as many values of a sweep as it takes. A trial has the
//! samples of three seconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::json;
use weir_lab::model::Plan;
use weir_lab::plan::{self, Overrides};
use weir_lab::spec::files::MemoryFiles;
use weir_lab::store::{PlanRecord, STORE_SCHEMA, Store};
use weir_machine::cancel::Cancel;
use weir_results::matrix::Series;
use weir_results::record::{
    Ledger, Point, Sample, TRIAL_SCHEMA, Times, TrialRecord, TrialResult, Verdict, VerdictKind,
};

use super::command::{self, Taken};
use super::rows::REPORT_TIME;
use super::{Result, Samples, Settings};

/// What the row's name promises.
const CELL_COUNT: f64 = 1000.0;
/// Iterations, and DUTs, of the campaign.
const ITERATIONS: u32 = 5;
const DUTS: u32 = 2;
/// Samples of a trial, a tenth of a second apart.
const SAMPLE_COUNT: u32 = 30;
const SAMPLE_NS: u64 = 100_000_000;

/// Makes a store and reports it, once a round.
pub(super) fn measure(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
    samples: &mut Samples,
) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("weir-bench-stats-").tempdir()?;
    let store = dir.path().join("store");
    let values = super::scaled(CELL_COUNT * settings.scale / f64::from(ITERATIONS * DUTS));
    say(&format!("making a campaign of {} cells", values * ITERATIONS * DUTS));
    make(&store, values, cancel)?;
    for round in 1..=settings.repeats {
        let arguments = ["lab", "report", &store.to_string_lossy(), "--json"];
        let Taken { time_s, .. } = command::run(&settings.weir, &arguments, cancel)?;
        say(&format!("report {round} of {}: {time_s:.2} s", settings.repeats));
        samples.entry(REPORT_TIME).or_default().push(time_s);
    }
    Ok(())
}

/// A specification with so many values of its sweep.
fn specification(values: u32) -> String {
    let mut labels = String::new();
    for value in 1..=values {
        // Writing to a String cannot fail.
        let _ = write!(labels, "{}, ", value * 8);
    }
    format!(
        "[campaign]\nname = \"bench\"\niterations = {ITERATIONS}\n[testbed]\nkind = \"netns\"\n\
         [[dut]]\nname = \"linux\"\nkind = \"linux\"\n\
         [[dut]]\nname = \"other\"\nkind = \"linux\"\n\
         sysctls = {{ \"net.ipv4.ip_forward\" = \"1\" }}\n\
         [[sweep]]\nname = \"flows\"\nvalues = [{labels}]\n\
         [[traffic]]\nname = \"udp\"\nsrc = \"198.18.10.1:1-198.18.10.1:${{flows}}\"\n\
         dst = \"198.19.10.1\"\n"
    )
}

/// Makes a finished campaign.
pub(crate) fn make(root: &Path, values: u32, cancel: &Cancel) -> Result<()> {
    let text = specification(values);
    let files = MemoryFiles::default();
    let plan = plan::from_text(Path::new("lab.toml"), &text, &files, &Overrides::default());
    let (plan, _) = plan.map_err(|refused| format!("the specification is refused: {refused:?}"))?;
    let record = PlanRecord {
        schema: STORE_SCHEMA,
        spec_path: "lab.toml".into(),
        iterations: None,
        only: None,
        weir: "bench".into(),
    };
    let store = Store::create(root, &plan.source, &record)?;
    store.write_json("env.json", &json!({ "host": { "kernel_release": "0" } }))?;
    for cell in &plan.cells {
        if cancel.signal().is_some() {
            return Err("interrupted".into());
        }
        let series = &plan.series[cell.series_index];
        let place = u32::try_from(cell.series_index)?;
        let rate_pps = 400_000.0 + f64::from(place * 1000 + cell.iteration * 97);
        let trial = trial(series, &cell.id, cell.iteration, rate_pps);
        // Through plain files: the writer's syncs would take longer than all the rest.
        let dir = store.cell_dir(&series.name, cell.iteration);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("trial.json"), serde_json::to_vec_pretty(&trial)?)?;
        fs::write(dir.join("samples.csv"), csv(rate_pps))?;
    }
    check(&store, &plan)
}

/// Whether the store reads back what the benchmark needs of it.
fn check(store: &Store, plan: &Plan) -> Result<()> {
    let cells = store.read_cells()?;
    let (read, damaged) = (cells.trials.len(), cells.damaged.first());
    match damaged {
        Some(damaged) => Err(format!("a cell cannot be read: {damaged}").into()),
        None if read == plan.cells.len() => Ok(()),
        None => Err(format!("{read} cells of {} are there", plan.cells.len()).into()),
    }
}

/// The samples of a trial: they go up and down around the rate.
fn samples(rate_pps: f64) -> Vec<Sample> {
    let mut received = 0.0;
    (0..=SAMPLE_COUNT)
        .map(|index| {
            let t_ns = u64::from(index) * SAMPLE_NS;
            if index > 0 {
                received += rate_pps / 10.0 * (0.99 + 0.02 * f64::from(index * 7 % 11) / 11.0);
            }
            let rx_packets = whole(received);
            Sample { t_ns, rx_packets, rx_bytes: rx_packets * 60, tx_packets: t_ns / 1000 }
        })
        .collect()
}

fn csv(rate_pps: f64) -> String {
    let mut text = "t_ns,rx_packets,rx_bytes,tx_packets\n".to_owned();
    for s in samples(rate_pps) {
        let _ = writeln!(text, "{},{},{},{}", s.t_ns, s.rx_packets, s.rx_bytes, s.tx_packets);
    }
    text
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive count of packets"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn trial(series: &Series, cell_id: &str, iteration: u32, rate_pps: f64) -> TrialRecord {
    let measured_ns = u64::from(SAMPLE_COUNT) * SAMPLE_NS;
    let delivered = whole(rate_pps * 3.5);
    let point = |name: &str, packets| Point { name: name.into(), packets, source: "bench".into() };
    TrialRecord {
        schema: TRIAL_SCHEMA,
        cell_id: cell_id.into(),
        series_id: series.id.clone(),
        series: series.name.clone(),
        iteration,
        image: series.image.clone(),
        dut: Some(series.dut.clone()),
        sweep: series.sweep.clone(),
        traffic: series.traffic.clone(),
        times: Times {
            started_utc: "2026-03-01T10:00:00Z".into(),
            finished_utc: "2026-03-01T10:00:04Z".into(),
            warmup_ns: 500_000_000,
            duration_ns: measured_ns,
            measured_ns,
            drain_ns: 200_000_000,
            sample_ns: SAMPLE_NS,
            phases: Vec::new(),
        },
        result: TrialResult {
            rate_pps,
            rate_pps_min: rate_pps * 0.99,
            rate_pps_max: rate_pps * 1.01,
            sample_count: SAMPLE_COUNT as usize,
            offered_pps: 4.4e6,
            requested_pps: None,
            trend_ratio: Some(0.001),
            jump_ratio: Some(0.001),
        },
        latency: None,
        cost: None,
        directions: Vec::new(),
        windows: Vec::new(),
        ledger: Ledger {
            points: vec![point("offered", delivered * 4), point("delivered", delivered)],
            drops: Vec::new(),
            residual_packets: delivered * 3,
            residual_ratio: 0.75,
            faults: Vec::new(),
            notes: Vec::new(),
        },
        verdict: Verdict { kind: VerdictKind::DutBound, reason: "made for a benchmark".into() },
        checks: Vec::new(),
        counters: BTreeMap::new(),
        levels: BTreeMap::new(),
        machine: None,
        machines: BTreeMap::new(),
        sysctls_changed: BTreeMap::new(),
    }
}
