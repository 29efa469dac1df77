//! Queues, ALTQ disciplines and limiters.

use std::fmt::Write as _;

use super::bare;
use crate::ast::{Bandwidth, Limiter, Queue, QueueRate, Scheduler};
use crate::dialect::Dialect;
use crate::ir::AltqOn;
use crate::value::{LimiterKind, Spanned, Text};

pub(super) fn altq(out: &mut String, altq: &AltqOn) {
    let _ = write!(out, "altq on {} ", bare(&altq.interface));
    if let Some(kind) = &altq.altq.scheduler {
        scheduler(out, kind);
    }
    if let Some(rate) = altq.bandwidth {
        let _ = write!(out, "bandwidth {} ", bandwidth(rate));
    }
    if let Some(limit) = altq.altq.queue_limit.filter(|limit| *limit != 50) {
        let _ = write!(out, "qlimit {limit} ");
    }
    if let Some(size) = altq.token_bucket_size_bytes {
        let _ = write!(out, "tbrsize {size} ");
    }
    if !altq.altq.queues.is_empty() {
        out.push_str("queue ");
        names(out, &altq.altq.queues);
    }
    out.push('\n');
}

pub(super) fn queue(out: &mut String, queue: &Queue, dialect: Dialect) {
    if dialect == Dialect::OpenBsd {
        return openbsd_queue(out, queue);
    }
    let on: Vec<String> =
        queue.interfaces.iter().map(|interface| bare(&interface.name.value)).collect();
    let on = if on.is_empty() { vec![None] } else { on.into_iter().map(Some).collect() };
    for interface in on {
        let _ = write!(out, "queue {} ", bare(&queue.name.value));
        if let Some(interface) = interface {
            let _ = write!(out, "on {interface} ");
        }
        if let Some(rate) =
            queue.bandwidth.filter(|bandwidth| bandwidth.rate != Bandwidth::Percent(100))
        {
            let _ = write!(out, "bandwidth {} ", bandwidth(rate.rate));
        }
        if let Some(priority) = queue.priority.filter(|priority| *priority != 1) {
            let _ = write!(out, "priority {priority} ");
        }
        if let Some(limit) = queue.queue_limit.filter(|limit| *limit != 50) {
            let _ = write!(out, "qlimit {limit} ");
        }
        if let Some(kind) = &queue.scheduler {
            scheduler(out, kind);
        }
        if !queue.queues.is_empty() {
            names(out, &queue.queues);
        }
        out.push('\n');
    }
}

fn names(out: &mut String, list: &[Spanned<Text>]) {
    let names: Vec<String> = list.iter().map(|name| bare(&name.value)).collect();
    let _ = write!(out, "{{ {} }}", names.join(" "));
}

/// `cbq( codel default ) `, or the name alone.
fn scheduler(out: &mut String, scheduler: &Scheduler) {
    let Scheduler { name, flags, curves, numbers } = scheduler;
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
fn bandwidth(bandwidth: Bandwidth) -> String {
    let rate = match bandwidth {
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

fn openbsd_queue(out: &mut String, queue: &Queue) {
    let interfaces: Vec<Option<String>> = if queue.interfaces.is_empty() {
        vec![None]
    } else {
        queue.interfaces.iter().map(|interface| Some(bare(&interface.name.value))).collect()
    };
    for interface in interfaces {
        let _ = write!(out, "queue {}", bare(&queue.name.value));
        if let Some(interface) = interface {
            let _ = write!(out, " on {interface}");
        }
        if let Some(parent) = &queue.parent {
            let _ = write!(out, " parent {}", bare(&parent.value));
        }
        if let Some(count) = queue.flow_count {
            let _ = write!(out, " flows {count}");
        }
        if let Some(bytes) = queue.quantum_bytes {
            let _ = write!(out, " quantum {bytes}");
        }
        if let Some(time) = queue.interval_ms {
            let _ = write!(out, " interval {time}ms");
        }
        if let Some(time) = queue.target_ms {
            let _ = write!(out, " target {time}ms");
        }
        let rates =
            [(" bandwidth ", queue.bandwidth), (", min ", queue.min), (", max ", queue.max)];
        for (index, (word, rate)) in rates.into_iter().enumerate() {
            let Some(rate) = rate else { continue };
            let word = if queue.bandwidth.is_none() && index > 0 { &word[1..] } else { word };
            out.push_str(word);
            out.push_str(&openbsd_rate(rate));
        }
        if queue.is_default {
            out.push_str(" default");
        }
        if let Some(limit) = queue.queue_limit {
            let _ = write!(out, " qlimit {limit}");
        }
        out.push('\n');
    }
}

fn openbsd_rate(queue_rate: QueueRate) -> String {
    let rate = |bandwidth: Bandwidth| match bandwidth {
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
    match queue_rate.burst {
        None => rate(queue_rate.rate),
        Some((burst, time)) => {
            format!("{} burst {} for {time}ms", rate(queue_rate.rate), rate(burst))
        }
    }
}

pub(super) fn limiter(out: &mut String, limiter: &Limiter) {
    let is_source = limiter.kind == LimiterKind::Source;
    out.push_str(if is_source { "source" } else { "state" });
    let _ = write!(out, " limiter {} id {}", bare(&limiter.name.value), limiter.id);
    if let Some(entries) = limiter.entries {
        let _ = write!(out, " entries {entries}");
    }
    if let Some(limit) = limiter.limit {
        let _ = write!(out, " limit {limit}");
    }
    if let Some(rate) = limiter.rate {
        let _ = write!(out, " rate {}/{}", rate.limit, rate.seconds);
    }
    if let Some(bits) = limiter.inet_bits {
        let _ = write!(out, " inet mask {bits}");
    }
    if let Some(bits) = limiter.inet6_bits {
        let _ = write!(out, " inet6 mask {bits}");
    }
    if let Some(table) = &limiter.table {
        let _ = write!(out, " table <{}> above {}", bare(&table.name), table.above);
        if let Some(below) = table.below {
            let _ = write!(out, " below {below}");
        }
    }
    out.push('\n');
}
