//! Queues, ALTQ disciplines and limiters.

use std::fmt::Write as _;

use super::bare;
use crate::ast::{Bandwidth, Limiter, Queue, QueueRate, Scheduler};
use crate::dialect::Dialect;
use crate::ir::AltqOn;
use crate::value::{LimiterKind, Spanned, Text};

pub(super) fn altq(out: &mut String, own: &AltqOn) {
    let _ = write!(out, "altq on {} ", bare(&own.interface));
    if let Some(own) = &own.altq.scheduler {
        scheduler(out, own);
    }
    if let Some(own) = own.bandwidth {
        let _ = write!(out, "bandwidth {} ", bandwidth(own));
    }
    if let Some(limit) = own.altq.queue_limit.filter(|limit| *limit != 50) {
        let _ = write!(out, "qlimit {limit} ");
    }
    if let Some(size) = own.token_bucket_size_bytes {
        let _ = write!(out, "tbrsize {size} ");
    }
    if !own.altq.queues.is_empty() {
        out.push_str("queue ");
        names(out, &own.altq.queues);
    }
    out.push('\n');
}

pub(super) fn queue(out: &mut String, own: &Queue, dialect: Dialect) {
    if dialect == Dialect::OpenBsd {
        return openbsd_queue(out, own);
    }
    let on: Vec<String> = own.interfaces.iter().map(|own| bare(&own.name.value)).collect();
    let on = if on.is_empty() { vec![None] } else { on.into_iter().map(Some).collect() };
    for interface in on {
        let _ = write!(out, "queue {} ", bare(&own.name.value));
        if let Some(interface) = interface {
            let _ = write!(out, "on {interface} ");
        }
        if let Some(rate) = own.bandwidth.filter(|own| own.rate != Bandwidth::Percent(100)) {
            let _ = write!(out, "bandwidth {} ", bandwidth(rate.rate));
        }
        if let Some(priority) = own.priority.filter(|priority| *priority != 1) {
            let _ = write!(out, "priority {priority} ");
        }
        if let Some(limit) = own.queue_limit.filter(|limit| *limit != 50) {
            let _ = write!(out, "qlimit {limit} ");
        }
        if let Some(own) = &own.scheduler {
            scheduler(out, own);
        }
        if !own.queues.is_empty() {
            names(out, &own.queues);
        }
        out.push('\n');
    }
}

fn names(out: &mut String, list: &[Spanned<Text>]) {
    let names: Vec<String> = list.iter().map(|own| bare(&own.value)).collect();
    let _ = write!(out, "{{ {} }}", names.join(" "));
}

/// `cbq( codel default ) `, or the name alone.
fn scheduler(out: &mut String, own: &Scheduler) {
    let Scheduler { name, flags, curves, numbers } = own;
    out.push_str(name);
    if !flags.is_empty() || !curves.is_empty() || !numbers.is_empty() {
        out.push('(');
        for flag in flags {
            let _ = write!(out, " {flag}");
        }
        for (name, curve) in curves {
            let second = bandwidth(curve.second);
            let _ = match curve.first {
                Some((first, time)) => write!(out, " {name}({} {time} {second})", bandwidth(first)),
                None => write!(out, " {name} {second}"),
            };
        }
        for (name, number) in numbers {
            let _ = write!(out, " {name} {number}");
        }
        out.push_str(" )");
    }
    out.push(' ');
}

/// `20Mb`, with at most one digit after the point, as pfctl's rate2str.
fn bandwidth(own: Bandwidth) -> String {
    let rate = match own {
        Bandwidth::Percent(percent) => return format!("{percent}%"),
        Bandwidth::Absolute(rate) => rate,
    };
    for (scale, unit) in [(1_000_000_000, "Gb"), (1_000_000, "Mb"), (1000, "Kb")] {
        if rate >= scale && rate % scale == 0 {
            return format!("{}{unit}", rate / scale);
        }
        if rate >= scale && rate % (scale / 100) == 0 {
            let hundredths = rate % scale / (scale / 100);
            return format!("{}.{hundredths:02}{unit}", rate / scale);
        }
    }
    format!("{rate}b")
}

fn openbsd_queue(out: &mut String, own: &Queue) {
    let interfaces: Vec<Option<String>> = if own.interfaces.is_empty() {
        vec![None]
    } else {
        own.interfaces.iter().map(|own| Some(bare(&own.name.value))).collect()
    };
    for interface in interfaces {
        let _ = write!(out, "queue {}", bare(&own.name.value));
        if let Some(interface) = interface {
            let _ = write!(out, " on {interface}");
        }
        if let Some(parent) = &own.parent {
            let _ = write!(out, " parent {}", bare(&parent.value));
        }
        if let Some(count) = own.flow_count {
            let _ = write!(out, " flows {count}");
        }
        if let Some(bytes) = own.quantum_bytes {
            let _ = write!(out, " quantum {bytes}");
        }
        if let Some(time) = own.interval_ms {
            let _ = write!(out, " interval {time}ms");
        }
        if let Some(time) = own.target_ms {
            let _ = write!(out, " target {time}ms");
        }
        let rates = [(" bandwidth ", own.bandwidth), (", min ", own.min), (", max ", own.max)];
        for (index, (word, rate)) in rates.into_iter().enumerate() {
            let Some(rate) = rate else { continue };
            let word = if own.bandwidth.is_none() && index > 0 { &word[1..] } else { word };
            out.push_str(word);
            out.push_str(&openbsd_rate(rate));
        }
        if own.is_default {
            out.push_str(" default");
        }
        if let Some(limit) = own.queue_limit {
            let _ = write!(out, " qlimit {limit}");
        }
        out.push('\n');
    }
}

fn openbsd_rate(own: QueueRate) -> String {
    let rate = |own: Bandwidth| match own {
        Bandwidth::Percent(percent) => format!("{percent}%"),
        Bandwidth::Absolute(mut rate) => {
            let mut unit = "";
            for next in ["K", "M", "G"] {
                if rate < 1000 || rate % 1000 != 0 {
                    break;
                }
                rate /= 1000;
                unit = next;
            }
            format!("{rate}{unit}")
        }
    };
    match own.burst {
        None => rate(own.rate),
        Some((burst, time)) => format!("{} burst {} for {time}ms", rate(own.rate), rate(burst)),
    }
}

pub(super) fn limiter(out: &mut String, own: &Limiter) {
    let is_source = own.kind == LimiterKind::Source;
    out.push_str(if is_source { "source" } else { "state" });
    let _ = write!(out, " limiter {} id {}", bare(&own.name.value), own.id);
    if let Some(limit) = own.limit {
        let _ = write!(out, " limit {limit}");
    }
    if let Some(states) = own.states {
        let _ = write!(out, " states {states}");
    }
    if let Some(rate) = own.rate {
        let _ = write!(out, " rate {}/{}", rate.limit, rate.seconds);
    }
    if let Some(bits) = own.inet_bits {
        let _ = write!(out, " inet mask {bits}");
    }
    if let Some(bits) = own.inet6_bits {
        let _ = write!(out, " inet6 mask {bits}");
    }
    if let Some(table) = &own.table {
        let _ = write!(out, " table <{}> above {}", bare(&table.name), table.above);
        if let Some(below) = table.below {
            let _ = write!(out, " below {below}");
        }
    }
    out.push('\n');
}
