//! Interfaces as they are really set: queues, offloads, NAPI, read back from the kernel.
//!
//! A testbed says what it meant to set; this says what came of it. Looks at the network namespace
//! of the calling thread, whose `/sys` must show that namespace (inside [`weir_net::Netns::run`] it
//! does). Never changes a setting. Per-queue files:
//! `Documentation/ABI/testing/sysfs-class-net-queues` in the kernel tree.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use serde_json::{Map, Value, json};
use weir_bpf::ethtool;
use weir_net::{LinkInfo, Netlink, OperState, cpu, napi};

use super::{MACHINE, entries, number, text};

/// Reads back the settings of these interfaces of the calling thread's network namespace: an
/// object by interface.
///
/// What cannot be read is `null`, and why stands in the interface's `errors`, by what was asked
/// for; the object is empty if all went well. Numbers that are new each time an interface is made
/// (index, NAPI id, process ids) are left out, so that two readings can be compared.
#[must_use]
pub fn devices(names: &[&str]) -> Value {
    let netlink = Netlink::open();
    let read = |name: &str| {
        let link = match &netlink {
            Ok(netlink) => netlink.link(name).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        device(Path::new(MACHINE), name, link)
    };
    let devices: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), read(name))).collect();
    Value::Object(devices)
}

/// Errors by what was asked for.
#[derive(Default)]
struct Errors(BTreeMap<&'static str, String>);

impl Errors {
    /// The value, or `None` and a note of the error.
    fn note<T, E: Display>(&mut self, what: &'static str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.0.insert(what, error.to_string())).ok()
    }
}

fn device(root: &Path, name: &str, link: Result<LinkInfo, String>) -> Value {
    let mut errors = Errors::default();
    let link = errors.note("link", link);
    let Some(link) = link else {
        // All other requests would say the same again.
        return json!({ "errors": errors.0 });
    };
    let features = errors.note("features", ethtool::features(name));
    let features: Option<BTreeMap<String, bool>> = features.map(|f| f.into_iter().collect());
    let mut value = json!({
        "driver": errors.note("driver", ethtool::driver(name)),
        "is_up": link.is_up,
        "operational_state": operational_state(link.operstate),
        "mtu_bytes": link.mtu,
        "rx_queue_count_allocated": link.rx_queue_count,
        "tx_queue_count_allocated": link.tx_queue_count,
        "gro": errors.note("gro", ethtool::gro(name)),
        "napi_thread_cpus": errors.note("napi_thread_cpus", napi_thread_cpus(name)),
        "features": features,
        "flow_control": errors.note("flow_control", flow_control(name)),
    });
    let settings = errors.note("sysfs", sysfs_settings(root, name, link.ifindex));
    if let Some(object) = value.as_object_mut() {
        object.extend(settings.unwrap_or_default());
        object.insert("errors".to_owned(), json!(errors.0));
    }
    value
}

/// Whether the link pauses a sender that is too fast, which hides where packets would be lost;
/// `None` if the driver has no such thing.
fn flow_control(name: &str) -> Result<Option<Value>, ethtool::EthtoolError> {
    Ok(ethtool::pause(name)?.map(
        |pause| json!({ "autonegotiated": pause.autonegotiated, "rx": pause.rx, "tx": pause.tx }),
    ))
}

fn operational_state(state: OperState) -> &'static str {
    match state {
        OperState::Unknown => "unknown",
        OperState::NotPresent => "not present",
        OperState::Down => "down",
        OperState::LowerLayerDown => "lower layer down",
        OperState::Testing => "testing",
        OperState::Dormant => "dormant",
        OperState::Up => "up",
    }
}

/// The CPUs that each NAPI thread may run on, by ascending NAPI id; none if NAPI is not threaded.
fn napi_thread_cpus(name: &str) -> Result<Vec<Option<String>>, String> {
    let threads = napi::threads(name).map_err(|error| error.to_string())?;
    threads
        .iter()
        .filter(|thread| thread.pid > 0)
        .map(|thread| match cpu::affinity(thread.pid) {
            Ok(cpus) => Ok(cpus.map(|cpus| cpus.to_string())),
            Err(error) => Err(format!("cannot ask where a NAPI thread may run: {error}")),
        })
        .collect()
}

/// What only sysfs shows, if it shows the interface of that index.
pub(super) fn sysfs_settings(
    root: &Path,
    name: &str,
    ifindex: u32,
) -> Result<Map<String, Value>, String> {
    let dir = root.join("sys/class/net").join(name);
    if number(&dir.join("ifindex")) != Some(ifindex.into()) {
        return Err(format!(
            "{} is not interface {ifindex} of this network namespace: /sys shows another one",
            dir.display()
        ));
    }
    let queues = |prefix: &str, settings: &[&str]| -> BTreeMap<String, Value> {
        entries(&dir.join("queues"))
            .into_iter()
            .filter(|(queue, _)| queue.starts_with(prefix))
            .map(|(queue, path)| {
                let values: BTreeMap<&str, Option<String>> =
                    settings.iter().map(|setting| (*setting, text(&path.join(setting)))).collect();
                (queue, json!(values))
            })
            .collect()
    };
    // Queues that the driver does not use have no directory.
    let rx_queues = queues("rx-", &["rps_cpus", "rps_flow_cnt"]);
    let tx_queues = queues("tx-", &["xps_cpus", "xps_rxqs"]);
    // "Not known" is -1, or an error.
    let speed_bps = number(&dir.join("speed")).and_then(|mbit| mbit.checked_mul(1_000_000));
    let settings = [
        ("speed_bps", json!(speed_bps)),
        ("duplex", json!(text(&dir.join("duplex")))),
        ("rx_queue_count", json!(rx_queues.len())),
        ("tx_queue_count", json!(tx_queues.len())),
        ("rx_queues", json!(rx_queues)),
        ("tx_queues", json!(tx_queues)),
        ("tx_queue_length", json!(number(&dir.join("tx_queue_len")))),
        ("napi_threaded", json!(number(&dir.join("threaded")).map(|mode| mode != 0))),
        ("gro_flush_timeout_ns", json!(number(&dir.join("gro_flush_timeout")))),
        ("napi_defer_hard_irqs", json!(number(&dir.join("napi_defer_hard_irqs")))),
    ];
    Ok(settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
