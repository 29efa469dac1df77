//! A comparison as data: keys carry their units.

use serde_json::{Value, json};
use weir_stats::comparison::{Comparison, p_text};
use weir_stats::warning::Warning;

use super::{CostMatched, Matched, Report, ToggleMatched, figured};
use crate::collection::CollectedSeries;
use crate::proof::Claim;

/// Version of the format.
const SCHEMA: u32 = 1;

pub(super) fn value(report: &Report<'_>) -> Value {
    let collections = report
        .collections
        .iter()
        .map(|c| json!({ "name": c.name, "origin": c.origin, "series": c.series.len() }));
    let name = |index: usize| report.collections.get(index).map(|c| c.name.as_str());
    let changed = report.changed.iter().map(|c| {
        json!({
            "dimension": c.dimension, "baseline": c.baseline,
            "other_collection": name(c.other_index), "other": c.other,
        })
    });
    let unmatched = report.unmatched.iter().map(|u| {
        json!({
            "collection": name(u.owner_index), "lacking": name(u.lacking_index),
            "series": u.series, "reason": u.reason,
        })
    });
    let warned = report.warnings();
    let warnings = warned.iter().map(|w| {
        json!({
            "collection": name(w.owner_index), "series": w.series, "kind": w.warning.kind(),
            "text": w.warning.to_string(), "advice": w.warning.advice(),
        })
    });
    let environment = report
        .environment
        .iter()
        .map(|d| json!({ "path": d.path, "values": d.values, "matters": d.matters }));
    let hosts = report.hosts.iter().map(|host| {
        json!({
            "collection": name(host.other_index), "slower": host.change,
            "differs": host.change.is_another_machine(),
        })
    });
    json!({
        "schema": SCHEMA,
        "confidence_percent": report.asked.level.percent(),
        "margin_percent": report.asked.margin_ratio * 100.0,
        "fail_on_regression_percent": report.asked.regression_ratio.map(|r| r * 100.0),
        "fail_on_cost_percent": report.asked.cost_ratio.map(|r| r * 100.0),
        "fail_on_missing": report.asked.missing_fails,
        "fails": report.fails(),
        "answer": report.answer(),
        "words": report.counts().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "collections": collections.collect::<Vec<_>>(),
        "changed": changed.collect::<Vec<_>>(),
        "series": report.matched.iter().map(|m| series(report, m)).collect::<Vec<_>>(),
        "toggles": report.toggled.iter().map(|t| toggle(report, t)).collect::<Vec<_>>(),
        "warnings": warnings.collect::<Vec<_>>(),
        "unmatched": unmatched.collect::<Vec<_>>(),
        "environment": environment.collect::<Vec<_>>(),
        "hosts": hosts.collect::<Vec<_>>(),
    })
}

fn series(report: &Report<'_>, m: &Matched<'_>) -> Value {
    let side = |series: &CollectedSeries| {
        let figured = figured(series, report.asked.level);
        let points = series.points.iter().map(|p| {
            json!({
                "iteration": p.iteration, "value": p.figure(), "cell": p.cell,
                "verdict": p.verdict.as_ref().map(|v| v.kind.name()),
            })
        });
        json!({
            "name": series.name,
            "median": figured.map(|f| f.median),
            "median_low": figured.and_then(|f| f.interval).map(|i| i.low),
            "median_high": figured.and_then(|f| f.interval).map(|i| i.high),
            "values": figured.map_or(0, |f| f.count),
            "iterations": points.collect::<Vec<_>>(),
        })
    };
    let levels: serde_json::Map<String, Value> =
        m.baseline.levels.iter().map(|l| (l.dimension.clone(), l.label.clone().into())).collect();
    json!({
        "unit": m.baseline.unit,
        "levels": levels,
        "collection": report.collections.get(m.other_index).map(|c| c.name.as_str()),
        "baseline": side(m.baseline),
        "other": side(m.other),
        "word": m.word(),
        "regressed": m.regressed,
        "claim": m.claim.as_ref().map(ToString::to_string),
        "comparison": m.result.as_ref().ok().map(comparison),
        "problem": m.result.as_ref().err().map(ToString::to_string),
        "cost": m.cost.as_ref().map(cost),
    })
}

fn cost(cost: &CostMatched) -> Value {
    json!({
        "unit": "ns",
        "baseline": cost.baseline,
        "other": cost.other,
        "word": cost.claim.as_ref().map_or("none", Claim::name),
        "regressed": cost.regressed,
        "claim": cost.claim.as_ref().map(ToString::to_string),
        "contradiction": cost.contradiction,
        "comparison": cost.result.as_ref().ok().map(comparison),
        "problem": cost.result.as_ref().err().map(ToString::to_string),
    })
}

fn toggle(report: &Report<'_>, t: &ToggleMatched<'_>) -> Value {
    json!({
        "series": t.series,
        "collection": report.collections.get(t.other_index).map(|c| c.name.as_str()),
        "baseline": t.baseline.summary,
        "other": t.other.summary,
        "word": t.claim.name(),
        "regressed": t.regressed,
        "cost": t.change,
    })
}

/// A number; one that is not finite has no form in JSON.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn comparison(c: &Comparison) -> Value {
    let warnings = |list: &[Warning]| {
        let one = |w: &Warning| {
            let (kind, text) = (w.kind(), w.to_string());
            json!({ "kind": kind, "text": text, "advice": w.advice() })
        };
        list.iter().map(one).collect::<Vec<_>>()
    };
    json!({
        "difference": c.difference.value,
        "difference_low": c.difference.interval.low,
        "difference_high": c.difference.interval.high,
        "difference_percent": finite(c.relative.value * 100.0),
        "difference_low_percent": finite(c.relative.interval.low * 100.0),
        "difference_high_percent": finite(c.relative.interval.high * 100.0),
        "p_value": c.p_value,
        "p_value_adjusted": c.adjusted_p_value,
        "p_value_adjusted_text": p_text(c.adjusted_p_value),
        "mann_whitney_p_value": c.rank.p_value,
        "hodges_lehmann_shift": c.shift.shift,
        "equivalence_p_value_adjusted": c.equivalence.map(|e| e.adjusted_p_value),
        "no_loss_p_value_adjusted": c.equivalence.map(|e| e.adjusted_p_loss),
        "detectable_percent": finite(c.detectable_ratio * 100.0),
        "baseline_warnings": warnings(&c.baseline_warnings),
        "other_warnings": warnings(&c.other_warnings),
    })
}
