//! About how long a plan takes, part by part.
//!
//! Two kinds of terms: what a trial waits for, in the words of the code that waits, and what work
//! takes on an idle machine of today, which is measured and stands here. Repeats of disturbed
//! trials are not among them: on an idle machine there are none.

use std::time::Duration;

use weir_results::dut::DutKind;
use weir_results::matrix::Series;
use weir_stats::priming::prime_time;
use weir_wire::units::Rate;

use crate::model::qemu::{self, Setup};
use crate::model::{Cell, Plan, TestbedSpec};
use crate::testbed::netns::CONNECT_RATE_CPS;
use crate::trial::{PROBE_TIME, walked};

/// The longest look at this host before a run, and after it.
pub(crate) const LOOK_BEFORE_MAX: Duration = Duration::from_secs(5);
pub(crate) const LOOK_AFTER_MAX: Duration = Duration::from_secs(1);
/// The shortest look, enough for half a dozen stretches of work.
const LOOK_MIN: Duration = Duration::from_millis(100);
/// The part of a run's time that a look may take.
const PART_OF_RUN: u32 = 20;

/// Namespaces and devices are made, settle, and are removed; counters are read four times.
const TESTBED_WORK: Duration = Duration::from_millis(260);
/// A ruleset is loaded and read back.
const NFT_WORK: Duration = Duration::from_millis(30);
/// weir's firewall starts: the kernel verifies its programs.
const FIREWALL_WORK: Duration = Duration::from_millis(900);
/// Any other program starts.
const COMMAND_WORK: Duration = Duration::from_millis(300);
/// Programs are started over SSH, several times: probes, traffic, counters.
const SSH_WORK: Duration = Duration::from_secs(4);
/// What a run does once: it reads the environment, and writes its reports.
const RUN_WORK: Duration = Duration::from_millis(800);

/// How long a plan takes, by what it is spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Looks at this host, and what a run does once.
    pub run: Duration,
    /// Trials without a DUT.
    pub calibrations: Duration,
    /// Machines boot.
    pub boots: Duration,
    /// Testbeds and DUTs are set up, probed and taken down.
    pub setup: Duration,
    /// Each flow is sent once to DUTs that keep states.
    pub priming: Duration,
    /// Warm-up, measurement, latency, drain.
    pub traffic: Duration,
    /// Runs with a profile, one of each series.
    pub profiles: Duration,
}

impl Estimate {
    /// That of these cells of a plan, and of all calibrations that it needs.
    #[must_use]
    pub fn of<'c>(plan: &Plan, cells: impl Iterator<Item = &'c Cell>) -> Self {
        let mut estimate = Self::default();
        let mut of_series = vec![None; plan.series.len()];
        for cell in cells {
            let known = &mut of_series[cell.series_index];
            let is_first = known.is_none();
            let one =
                *known.get_or_insert_with(|| Self::trial(plan, &plan.series[cell.series_index]));
            estimate.boots += one.boots;
            estimate.setup += one.setup;
            estimate.priming += one.priming;
            estimate.traffic += one.traffic;
            if plan.testbed.profile() && is_first {
                estimate.profiles += one.total();
            }
        }
        let calibration = |series: &Series| TESTBED_WORK + probes(series) + traffic(plan, series);
        estimate.calibrations = plan.calibrations().into_iter().map(calibration).sum();
        estimate.run = Self::run(plan, estimate.total());
        estimate
    }

    /// What a run does once, for trials that take so long.
    pub(crate) fn run(plan: &Plan, trials: Duration) -> Duration {
        let trials = trials + RUN_WORK;
        let looks = match plan.testbed.has_direct_path() {
            true => look(trials, LOOK_BEFORE_MAX) + look(trials, LOOK_AFTER_MAX),
            false => Duration::ZERO,
        };
        RUN_WORK + looks
    }

    /// One trial of a series.
    pub(crate) fn trial(plan: &Plan, series: &Series) -> Self {
        let testbed = plan.testbed_of(&series.id);
        let (boots, machine) = match testbed {
            TestbedSpec::Netns(_) => (Duration::ZERO, Duration::ZERO),
            TestbedSpec::Qemu(spec) => match spec.setup {
                Setup::Linux => (qemu::BOOT_TIME, SSH_WORK),
                Setup::None => (qemu::BOOT_TIME, Duration::ZERO),
            },
            TestbedSpec::Hosts(hosts) => (hosts.dut.boot_time, SSH_WORK),
        };
        let device = match &series.dut.kind {
            DutKind::Linux { nft: None, .. } | DutKind::Tree { .. } => Duration::ZERO,
            DutKind::Linux { nft: Some(_), .. } => NFT_WORK,
            DutKind::WeirFw { .. } => FIREWALL_WORK,
            DutKind::Command { .. } => COMMAND_WORK,
        };
        let is_primed = series.traffic.kind.is_packets();
        let priming = match is_primed && series.dut.kind.seems_to_keep_flows() {
            true => prime_time(walked(&series.traffic).iter().map(|(_, count)| count).sum()),
            false => Duration::ZERO,
        };
        let setup = TESTBED_WORK + machine + device + probes(series);
        Self { boots, setup, priming, traffic: traffic(plan, series), ..Self::default() }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.parts().iter().map(|(_, time)| *time).sum()
    }

    /// Its parts by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, Duration); 7] {
        let Self { run, calibrations, boots, setup, priming, traffic, profiles } = *self;
        [
            ("run", run),
            ("calibrations", calibrations),
            ("boots", boots),
            ("setup", setup),
            ("priming", priming),
            ("traffic", traffic),
            ("profiles", profiles),
        ]
    }
}

/// How long a look at this host takes for trials that take so long.
#[must_use]
pub(crate) fn look(trials: Duration, most: Duration) -> Duration {
    (trials / PART_OF_RUN).clamp(LOOK_MIN, most)
}

/// What every trial sends for its figures.
fn traffic(plan: &Plan, series: &Series) -> Duration {
    let trial = &plan.trial;
    let held = series.traffic.connect().and_then(|connect| connect.count);
    if let (Some(count), Rate::Pps(rate_cps)) = (held, series.traffic.rate) {
        let opening = Duration::try_from_secs_f64(count as f64 / rate_cps);
        return opening.unwrap_or(Duration::MAX).saturating_add(trial.drain);
    }
    let kept = series.traffic.http().filter(|http| http.keepalive != Some(1));
    let opening = kept.map_or(0.0, |http| http.connections as f64 / CONNECT_RATE_CPS);
    let opening = Duration::try_from_secs_f64(opening).unwrap_or(Duration::MAX);
    let latency = trial.latency.map_or(Duration::ZERO, |latency| opening + latency + trial.drain);
    opening + trial.warmup + trial.duration + trial.drain + latency
}

/// Before the measurement and after it, each generator probes, one after the other.
fn probes(series: &Series) -> Duration {
    let senders = u32::try_from(series.traffic.each_sender().len()).unwrap_or(u32::MAX);
    PROBE_TIME.saturating_mul(senders.saturating_mul(2))
}
