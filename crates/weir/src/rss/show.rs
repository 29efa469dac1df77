//! `weir rss show`: what an interface says of its receive side scaling, and where its queues are
//! worked on.

use std::fmt::Write as _;

use serde::Serialize;
use weir_bpf::ethtool;
use weir_bpf::ethtool::rss::{HashFields, HashFunction, HashInput};
use weir_machine::rss::places::{Places, QueuePlace, Roots, with_threads};
use weir_machine::rss::{CardError, State, open};
use weir_results::document::{Column, Row, Table, Terminal};
use weir_results::number::counted;
use weir_wire::rss::FlowKind;

use super::answer;
use crate::cli::rss::ShowArgs;
use crate::exit::Outcome;

/// All that is known of an interface.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) interface: String,
    /// `None` if it has no receive side scaling.
    pub(super) state: Option<State>,
    pub(super) places: Places,
    pub(super) driver: Option<String>,
    /// The feature `rx-hashing`.
    pub(super) hashes: Option<bool>,
}

/// Looks at an interface of this network namespace.
pub(super) fn look(interface: &str) -> anyhow::Result<Seen> {
    let state = match open(interface).and_then(|card| card.read()) {
        Ok(state) => Some(state),
        Err(CardError::None { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let mut places = Roots::default().places(interface);
    with_threads(&mut places, interface);
    let features = ethtool::features(interface)?;
    let hashes = features.iter().find(|(name, _)| name == "rx-hashing").map(|(_, on)| *on);
    let driver = ethtool::driver(interface).ok();
    Ok(Seen { interface: interface.to_owned(), state, places, driver, hashes })
}

/// The answer as JSON has it.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    interface: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss: Option<Rss<'a>>,
    #[serde(flatten)]
    places: &'a Places,
}

#[derive(Debug, Serialize)]
struct Rss<'a> {
    /// Absent if the driver does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    transform: String,
    /// Absent if the driver does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    table: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_count: Option<u32>,
    /// By kind of flow; those that the driver does not tell are absent.
    fields: std::collections::BTreeMap<String, String>,
    contexts: &'a [u32],
    /// Whether it is a wire of weir's and no card.
    is_wire: bool,
}

pub(super) fn command(args: &ShowArgs) -> anyhow::Result<Outcome> {
    let seen = look(&args.interface)?;
    let shown = Shown {
        interface: &seen.interface,
        driver: seen.driver.as_deref(),
        rss: seen.state.as_ref().map(Rss::of),
        places: &seen.places,
    };
    answer(args.json.json, &shown, || shown.text())?;
    Ok(Outcome::Done)
}

impl<'a> Rss<'a> {
    fn of(state: &'a State) -> Self {
        let fields = FlowKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind.to_string(), fields(state.fields[kind as usize]?))));
        Self {
            function: state.function.map(function),
            transform: transform(state.input),
            key: (!state.key.is_empty()).then(|| key(&state.key)),
            table: &state.table,
            queue_count: state.queue_count,
            fields: fields.collect(),
            contexts: &state.contexts,
            is_wire: state.is_wire,
        }
    }
}

pub(super) fn key(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn function(function: HashFunction) -> String {
    match function {
        HashFunction::Toeplitz => "toeplitz".into(),
        HashFunction::Xor => "xor".into(),
        HashFunction::Crc32 => "crc32".into(),
        HashFunction::Other(number) => format!("number {number}"),
    }
}

fn transform(input: HashInput) -> String {
    match input {
        HashInput::AsIs => "none".into(),
        HashInput::SymmetricXor => "symmetric-xor".into(),
        HashInput::SymmetricOrXor => "symmetric-or-xor".into(),
        HashInput::Other(number) => format!("number {number}"),
    }
}

/// `4-tuple`, `2-tuple`, or the fields one by one.
pub(super) fn fields(bits: u64) -> String {
    if let Some(fields) = weir_machine::rss::card::fields_of(bits) {
        return fields.to_string();
    }
    let HashFields { src, dst, src_port, dst_port, others } = HashFields::of(bits);
    let names = [
        (src, "source"),
        (dst, "destination"),
        (src_port, "source port"),
        (dst_port, "destination port"),
        (others, "others"),
    ];
    let names: Vec<&str> = names.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

impl Shown<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |head: &str, value: &str| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{head:<14}{value}");
        };
        line("interface", self.interface);
        line("driver", self.driver.unwrap_or("does not say"));
        match &self.rss {
            None => line("hash", "none: the driver shows no receive side scaling"),
            Some(rss) => {
                let function = rss.function.as_deref().unwrap_or("not named");
                let source = if rss.is_wire { ", of a wire of weir's" } else { "" };
                line("hash", &format!("{function}, transform {}{source}", rss.transform));
                line("key", rss.key.as_deref().unwrap_or("not shown"));
                line("table", &table(rss.table));
                let fields = rss.fields.iter().map(|(kind, fields)| format!("{kind} {fields}"));
                line("fields", &fields.collect::<Vec<_>>().join("; "));
                if !rss.contexts.is_empty() {
                    line("contexts", &format!("{:?}", rss.contexts));
                }
            }
        }
        if let Some(node) = self.places.numa_node {
            line("NUMA node", &node.to_string());
        }
        if self.places.rfs_entry_count > 0 {
            line("RFS", &format!("{} entries on this host", self.places.rfs_entry_count));
        }
        if !self.places.xps_cpus.is_empty() {
            let queues = self.places.xps_cpus.iter();
            let queues: Vec<String> = queues.map(|(q, cpus)| format!("{q}: {cpus}")).collect();
            line("XPS", &queues.join("; "));
        }
        text + "\n" + &self.queues()
    }

    fn queues(&self) -> String {
        let columns = ["queue", "buckets", "IRQ", "IRQ's CPUs", "thread", "its CPUs", "RPS"];
        let columns = columns.map(Column::numbers).to_vec();
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let rows = self.places.queues.iter().map(|place: &QueuePlace| {
            let buckets = self.rss.as_ref().map(|rss| {
                rss.table.iter().filter(|queue| **queue == place.queue).count().to_string()
            });
            Row::from_iter([
                place.queue.to_string(),
                or_none(buckets),
                or_none(place.irq.map(|irq| irq.to_string())),
                or_none(place.irq_cpus.clone()),
                or_none(place.napi_thread.map(|pid| pid.to_string())),
                or_none(place.napi_cpus.clone()),
                or_none(place.rps_cpus.clone()),
            ])
        });
        Table::new(columns, rows).text(Terminal::default())
    }
}

/// A table in a line: what `--table` would set it by, where it is short.
fn table(queues: &[u32]) -> String {
    let bucket_count = queues.len();
    if bucket_count == 0 {
        return "none".into();
    }
    let queue_count = queues.iter().max().map_or(0, |queue| queue + 1);
    let is_even = queues.iter().zip((0..queue_count).cycle()).all(|(queue, turn)| *queue == turn);
    let what = if is_even {
        format!("equal:{queue_count}")
    } else if bucket_count <= 16 {
        queues.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    } else {
        "uneven, see below".into()
    };
    format!("{}: {what}", counted(bucket_count as u64, "bucket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_in_a_line() {
        assert_eq!(table(&[]), "none");
        assert_eq!(table(&[0, 1, 2, 0, 1]), "5 buckets: equal:3");
        assert_eq!(table(&[0, 1, 1]), "3 buckets: 0,1,1");
        assert_eq!(table(&[1; 17]), "17 buckets: uneven, see below");
    }

    #[test]
    fn odd_fields_are_told_one_by_one() {
        assert_eq!(fields(0xf0), "4-tuple");
        assert_eq!(fields(0x30), "2-tuple");
        assert_eq!(fields(0x50), "source, source port");
        assert_eq!(fields(0), "nothing");
    }
}
