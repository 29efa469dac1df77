//! Every verdict, at its threshold and beside it.

use super::*;
use crate::machine_use::{CpuUse, ForeignInterrupt, ForeignTask, Pressure, Span};
use crate::record::{Drop, Point};

const CALIBRATED_PPS: f64 = 5.0e6;

fn result(rate_pps: f64, requested_pps: Option<f64>) -> TrialResult {
    TrialResult {
        rate_pps,
        rate_pps_min: rate_pps,
        rate_pps_max: rate_pps,
        sample_count: 30,
        offered_pps: 5.0e6,
        requested_pps,
        trend_ratio: Some(0.0),
        jump_ratio: Some(0.0),
    }
}

fn ledger(offered: u64, delivered: u64, place: Place) -> Ledger {
    let point = |name: &str, packets| Point { name: name.into(), packets, source: "s".into() };
    let lost = offered.saturating_sub(delivered);
    Ledger {
        points: vec![point("offered", offered), point("delivered", delivered)],
        drops: vec![Drop {
            name: "dut_rx_ring_full".into(),
            packets: lost,
            after: "offered".into(),
            place,
            source: "s".into(),
        }],
        residual_packets: 0,
        residual_ratio: 0.0,
        faults: Vec::new(),
        notes: Vec::new(),
    }
}

fn kind(result: &TrialResult, ledger: &Ledger, checks: &[Check]) -> VerdictKind {
    judge(&Evidence {
        result,
        ledger,
        checks,
        path: Path::Calibrated(CALIBRATED_PPS),
        machines: &[],
        unit: Unit::Pps,
    })
    .kind
}

#[test]
fn a_dut_that_loses_packets_far_below_the_path_is_dut_bound() {
    let r = result(0.5e6, None);
    let l = ledger(1_000_000, 100_000, Place::Dut);
    let v = judge(&Evidence {
        result: &r,
        ledger: &l,
        checks: &[],
        path: Path::Calibrated(CALIBRATED_PPS),
        machines: &[],
        unit: Unit::Pps,
    });
    assert_eq!(v.kind, VerdictKind::DutBound);
    assert_eq!(
        v.reason,
        "the DUT lost 90 % of the packets, most of them as `dut_rx_ring_full`; it delivered 10 % \
         of what the path delivers without it"
    );
}

/// It offers no more than is answered, so that it never loses anything.
#[test]
fn a_closed_loop_is_limited_by_who_answers_it() {
    let l = ledger(500_000, 500_000, Place::Dut);
    let kind_with = |rate_rps, requested, unit, machines: &[(&str, &MachineUse)]| {
        let (result, path) = (result(rate_rps, requested), Path::Calibrated(CALIBRATED_PPS));
        judge(&Evidence { result: &result, ledger: &l, checks: &[], path, machines, unit }).kind
    };
    let kind = |rate_rps, requested, unit| kind_with(rate_rps, requested, unit, &[]);
    let low = CALIBRATED_PPS * 0.6;
    assert_eq!(kind(low, None, Unit::Rps), VerdictKind::DutBound);
    assert_eq!(kind(CALIBRATED_PPS, None, Unit::Rps), VerdictKind::LinkBound);
    assert_eq!(kind(low, Some(low), Unit::Rps), VerdictKind::GeneratorBound);
    assert_eq!(kind(low, None, Unit::Pps), VerdictKind::GeneratorBound);
    for (busy_ratio, expected) in
        [(0.95, VerdictKind::DutBound), (0.85, VerdictKind::GeneratorBound)]
    {
        let cpus = [(1, CpuUse { busy_ratio, ..CpuUse::default() })].into();
        let machine = MachineUse { cpus, dut_cpus: vec![1], ..MachineUse::default() };
        assert_eq!(kind_with(low, None, Unit::Rps, &[("", &machine)]), expected, "{busy_ratio}");
    }
}

#[test]
fn a_ring_that_overran_beside_an_idle_cpu_is_no_limit_of_the_dut() {
    let r = result(0.5e6, Some(0.5e6));
    let verdict = |delivered, busy_ratio, dut_cpus: &[usize], after: &str| {
        let cpu = |busy_ratio| CpuUse { busy_ratio, ..CpuUse::default() };
        // CPU 0 is the generator's.
        let cpus = std::collections::BTreeMap::from([(0, cpu(1.0)), (1, cpu(busy_ratio))]);
        let machine = MachineUse { cpus, dut_cpus: dut_cpus.to_vec(), ..MachineUse::default() };
        let mut ledger = ledger(1_000_000, delivered, Place::Dut);
        after.clone_into(&mut ledger.drops[0].after);
        let (path, machines) = (Path::Calibrated(CALIBRATED_PPS), &[("", &machine)][..]);
        judge(&Evidence {
            result: &r,
            ledger: &ledger,
            checks: &[],
            path,
            machines,
            unit: Unit::Pps,
        })
    };
    let idle = verdict(997_000, 0.22, &[1], "offered");
    assert_eq!(idle.kind, VerdictKind::RingBound);
    assert_eq!(
        idle.reason,
        "the DUT lost 0.30 % of the packets, most of them as `dut_rx_ring_full`, although its \
         busiest CPU was idle for 78 % of the time, long enough for all of them: they came, or \
         were fetched, in bursts that the ring does not hold"
    );
    assert!(!VerdictKind::RingBound.is_dut_limited(), "bursts limit it, whoever makes them");
    let kind = |delivered, busy_ratio, after| verdict(delivered, busy_ratio, &[1], after).kind;
    assert_eq!(kind(997_000, 0.89, "offered"), VerdictKind::RingBound);
    assert_eq!(kind(997_000, 0.90, "offered"), VerdictKind::DutBound, "it hardly paused");
    assert_eq!(kind(500_000, 0.5, "offered"), VerdictKind::DutBound, "no time for the rest");
    assert_eq!(kind(997_000, 0.22, "dut_received"), VerdictKind::DutBound, "it dropped them");
    // Which CPUs are the DUT's is not known of old records: the busiest of all counts.
    assert_eq!(verdict(997_000, 0.22, &[], "offered").kind, VerdictKind::DutBound);
}

#[test]
fn between_the_two_bounds_the_reason_says_so() {
    let r = result(0.95 * CALIBRATED_PPS, None);
    let l = ledger(1_000_000, 900_000, Place::Dut);
    let v = judge(&Evidence {
        result: &r,
        ledger: &l,
        checks: &[],
        path: Path::Calibrated(CALIBRATED_PPS),
        machines: &[],
        unit: Unit::Pps,
    });
    assert_eq!(v.kind, VerdictKind::DutBound);
    assert!(v.reason.contains("close to being the limit"), "{}", v.reason);
}

#[test]
fn no_loss_at_a_fixed_rate_is_generator_bound_and_at_maximum_link_bound() {
    let l = ledger(1_000_000, 999_000, Place::Dut);
    assert_eq!(kind(&result(50e3, Some(50e3)), &l, &[]), VerdictKind::GeneratorBound);
    assert_eq!(kind(&result(0.99 * CALIBRATED_PPS, None), &l, &[]), VerdictKind::LinkBound);
    assert_eq!(kind(&result(0.98 * CALIBRATED_PPS, None), &l, &[]), VerdictKind::GeneratorBound);
    let over = ledger(1_000_000, 998_999, Place::Dut);
    assert_eq!(kind(&result(50e3, Some(50e3)), &over, &[]), VerdictKind::DutBound);
}

#[test]
fn a_loss_at_a_fixed_rate_is_never_link_bound() {
    let l = ledger(1_000_000, 995_000, Place::Dut);
    let paced = result(CALIBRATED_PPS, Some(CALIBRATED_PPS));
    assert_eq!(kind(&paced, &l, &[]), VerdictKind::DutBound);
    assert_eq!(kind(&result(CALIBRATED_PPS, None), &l, &[]), VerdictKind::LinkBound);
}

#[test]
fn a_loss_goes_to_the_place_that_lost_it() {
    let r = result(1e6, None);
    assert_eq!(kind(&r, &ledger(1_000_000, 500_000, Place::Sink), &[]), VerdictKind::SinkBound);
    assert_eq!(
        kind(&r, &ledger(1_000_000, 500_000, Place::Generator), &[]),
        VerdictKind::GeneratorBound
    );
}

#[test]
fn nearly_nothing_delivered_by_a_living_dut_is_overloaded() {
    let r = result(1e3, None);
    assert_eq!(kind(&r, &ledger(1_000_000, 1_000, Place::Dut), &[]), VerdictKind::Overloaded);
    assert_eq!(kind(&r, &ledger(1_000_000, 1_001, Place::Dut), &[]), VerdictKind::DutBound);
    let dead = [Check { name: "probe-after".into(), passed: false, detail: "silence".into() }];
    assert_eq!(kind(&r, &ledger(1_000_000, 0, Place::Dut), &dead), VerdictKind::Invalid);
}

#[test]
fn a_rate_that_was_not_kept_is_said() {
    let l = ledger(1_000_000, 1_000_000, Place::Dut);
    let mut r = result(40e3, Some(50e3));
    r.offered_pps = 40e3;
    let reason = |r: &TrialResult| {
        judge(&Evidence {
            result: r,
            ledger: &l,
            checks: &[],
            path: Path::Calibrated(50e3),
            machines: &[],
            unit: Unit::Pps,
        })
        .reason
    };
    assert!(reason(&r).contains("did not keep its rate: asked 50"), "{}", reason(&r));
    r.offered_pps = 49.6e3;
    assert!(!reason(&r).contains("did not keep"), "{}", reason(&r));
}

#[test]
fn a_small_loss_of_a_rate_that_was_not_kept_is_the_generators() {
    let mut r = result(40e3, Some(50e3));
    r.offered_pps = 40e3;
    let lost = |packets: u64| ledger(1_000_000, 1_000_000 - packets, Place::Dut);
    assert_eq!(kind(&r, &lost(10_000), &[]), VerdictKind::GeneratorBound);
    assert_eq!(kind(&r, &lost(10_001), &[]), VerdictKind::DutBound);
    r.offered_pps = 50e3;
    assert_eq!(kind(&r, &lost(10_000), &[]), VerdictKind::DutBound);
}

#[test]
fn mostly_nothing_and_sometimes_something_is_unstable() {
    let l = ledger(1_000_000, 100_000, Place::Dut);
    let mut r = result(0.0, None);
    r.rate_pps_max = 1e5;
    (r.trend_ratio, r.jump_ratio) = (None, None);
    assert_eq!(kind(&r, &l, &[]), VerdictKind::Unstable);
}

#[test]
fn a_trend_or_a_jump_is_unstable() {
    let l = ledger(1_000_000, 100_000, Place::Dut);
    let mut r = result(0.5e6, None);
    r.trend_ratio = Some(-0.51);
    assert_eq!(kind(&r, &l, &[]), VerdictKind::Unstable);
    r.trend_ratio = Some(0.0);
    r.jump_ratio = Some(0.51);
    assert_eq!(kind(&r, &l, &[]), VerdictKind::Unstable);
    r.jump_ratio = Some(0.50);
    assert_eq!(kind(&r, &l, &[]), VerdictKind::DutBound);
}

#[test]
fn faults_residuals_and_failed_checks_void_the_figure() {
    let r = result(0.5e6, None);
    let mut l = ledger(1_000_000, 100_000, Place::Dut);
    l.residual_packets = 1_001;
    l.residual_ratio = 0.001_001;
    assert_eq!(kind(&r, &l, &[]), VerdictKind::Invalid);
    l.residual_ratio = 0.001;
    assert_eq!(kind(&r, &l, &[]), VerdictKind::DutBound);
    l.faults.push("negative loss".into());
    assert_eq!(kind(&r, &l, &[]), VerdictKind::Invalid);
    assert_eq!(kind(&r, &ledger(0, 0, Place::Dut), &[]), VerdictKind::Invalid);
    let mut unplaced = ledger(1_000_000, 100_000, Place::Dut);
    unplaced.drops.clear();
    assert_eq!(kind(&r, &unplaced, &[]), VerdictKind::Invalid);
}

#[test]
fn every_threshold_is_in_the_table_once() {
    let mut names: Vec<_> = THRESHOLDS.iter().map(|t| t.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), THRESHOLDS.len());
}

#[test]
fn cpus_that_were_nearer_before_disturb_a_trial_that_was_to_wait_for_that() {
    let with = |max, nearest_ns| {
        let distance = Some(Distance { ns: Span { min: 27.0, max }, nearest_ns });
        verdict_beside(&MachineUse { distance, ..machine(Some(0.0), 0.0) })
    };
    assert_eq!(with(60.0, Some(27.0)).kind, VerdictKind::DutBound, "they share a cache");
    assert_eq!(with(90.0, Some(80.0)).kind, VerdictKind::DutBound, "they never come nearer");
    assert_eq!(with(165.0, None).kind, VerdictKind::DutBound, "nobody was to wait");
    let far = with(165.0, Some(27.0));
    assert_eq!(far.kind, VerdictKind::Disturbed);
    assert_eq!(
        far.reason,
        "the DUT's CPU was too far from the generator's: a cache line took 165 ns, and 27 ns at \
         another time; at most 150 % of that is near"
    );
}

/// A machine whose CPU 1 was busy with a trial, and with something else for a part of its time.
fn machine(foreign_ratio: Option<f64>, memory_ratio: f64) -> MachineUse {
    let used = CpuUse { busy_ratio: 1.0, system_ratio: 1.0, foreign_ratio, ..CpuUse::default() };
    MachineUse {
        cpus: std::collections::BTreeMap::from([(1, used)]),
        pressure: Some(Pressure { cpu_ratio: 0.9, memory_ratio }),
        ..MachineUse::default()
    }
}

fn verdict_beside(machine: &MachineUse) -> Verdict {
    let (result, ledger) = (result(0.5e6, None), ledger(1_000_000, 100_000, Place::Dut));
    let path = Path::Calibrated(CALIBRATED_PPS);
    judge(&Evidence {
        result: &result,
        ledger: &ledger,
        checks: &[],
        path,
        machines: &[("", machine)],
        unit: Unit::Pps,
    })
}

#[test]
fn whatever_else_ran_above_its_bound_disturbs_a_trial_and_is_named() {
    let kind = |foreign, memory| verdict_beside(&machine(foreign, memory)).kind;
    assert_eq!(kind(Some(0.05), 0.05), VerdictKind::DutBound);
    assert_eq!(kind(None, 0.0), VerdictKind::DutBound, "nobody knows what else ran");
    assert_eq!(kind(Some(0.051), 0.0), VerdictKind::Disturbed);
    let task = |name: &str, cpu| ForeignTask { name: name.into(), process: 4711, cpu, ratio: 0.61 };
    let foreign = vec![task("idle hands", 0), task("hog", 1)];
    let with_hog = MachineUse { foreign, ..machine(Some(0.62), 0.0) };
    assert_eq!(
        verdict_beside(&with_hog).reason,
        "62 % of CPU 1 went to something else: hog (process 4711) 61 %; at most 5 % may"
    );
    let interrupt = |name: &str, cpu, ratio| ForeignInterrupt { name: name.into(), cpu, ratio };
    let foreign_interrupts =
        vec![interrupt("softirq BLOCK", 1, 0.07), interrupt("interrupt 36 (disk)", 0, 0.04)];
    let with_disk = MachineUse { foreign_interrupts, ..machine(Some(0.07), 0.0) };
    assert_eq!(
        verdict_beside(&with_disk).reason,
        "7.0 % of CPU 1 went to something else: softirq BLOCK 7.0 %; at most 5 % may"
    );
    let elsewhere = disturbance(&[("", &machine(Some(0.0), 0.0)), ("gen", &with_hog)]);
    let reason = elsewhere.expect("one of them was disturbed");
    assert!(reason.starts_with("machine gen: 62 % of CPU 1 went to something else"), "{reason}");
    let waited = verdict_beside(&machine(Some(0.0), 0.2));
    assert_eq!(waited.kind, VerdictKind::Disturbed);
    assert!(waited.reason.contains("waited for memory in 20 % of the time"), "{}", waited.reason);
}

#[test]
fn what_a_hypervisor_took_of_a_cpu_is_judged_where_it_was_never_idle() {
    let verdict = |busy_ratio, stolen_ratio| {
        let mut machine = machine(Some(0.0), 0.0);
        let used = machine.cpus.get_mut(&1).unwrap();
        (used.busy_ratio, used.stolen_ratio) = (busy_ratio, stolen_ratio);
        verdict_beside(&machine)
    };
    assert_eq!(verdict(1.0, 0.10).kind, VerdictKind::DutBound);
    assert_eq!(verdict(0.98, 0.5).kind, VerdictKind::DutBound, "it was idle in between");
    let taken = verdict(0.995, 0.25);
    assert_eq!(taken.kind, VerdictKind::Disturbed);
    assert_eq!(
        taken.reason,
        "the hypervisor took 25 % of CPU 1, which was never idle; at most 10 % may be stolen"
    );
}

#[test]
fn a_frequency_that_falls_under_load_disturbs_a_trial() {
    let verdict = |busy_ratio, min, max| {
        let mut machine = machine(Some(0.0), 0.0);
        let used = machine.cpus.get_mut(&1).unwrap();
        used.busy_ratio = busy_ratio;
        used.frequency_khz = Some(Span { min, max });
        verdict_beside(&machine)
    };
    assert_eq!(verdict(1.0, 3.3e6, 3.6e6).kind, VerdictKind::DutBound);
    assert_eq!(verdict(0.5, 0.8e6, 3.6e6).kind, VerdictKind::DutBound, "it paused");
    let slowed = verdict(1.0, 2.7e6, 3.6e6);
    assert_eq!(slowed.kind, VerdictKind::Disturbed);
    assert!(slowed.reason.contains("of CPU 1, which was never idle, fell by 25 %"), "{slowed:?}");
}

#[test]
fn a_fault_of_the_trial_is_said_before_what_disturbed_it() {
    let (result, mut ledger) = (result(0.5e6, None), ledger(1_000_000, 100_000, Place::Dut));
    ledger.faults.push("more came out than went in".into());
    let (path, machine) = (Path::Calibrated(CALIBRATED_PPS), machine(Some(0.9), 0.0));
    let machines = &[("", &machine)][..];
    let verdict = judge(&Evidence {
        result: &result,
        ledger: &ledger,
        checks: &[],
        path,
        machines,
        unit: Unit::Pps,
    });
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    assert!(verdict.kind.is_void() && VerdictKind::Disturbed.is_void());
    assert!(!VerdictKind::Unstable.is_void());
}
