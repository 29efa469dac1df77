//! What determines a result, as a SHA-256.
//!
//! Two series have the same id if and only if they ask for the same measurement: the same testbed,
//! trial times, image, DUT configuration (with the *content* of its files), sweep values and
//! traffic. A store that finds a cell's id need not run it again.
//!
//! Names are labels and no determinants: renaming a DUT, a traffic or a sweep invalidates nothing.
//! (A store keeps its cells under their series' *names*, so a renamed series is not found there;
//! the id then tells that the figures are comparable.) It follows that ids are not unique inside a
//! plan: two DUTs that are configured alike, for an A/A test, have the same ids. Neither the
//! number of iterations nor their order and seed, nor the campaign's name, is part of an id.
//!
//! The hashed text is JSON without spaces, keys sorted, values as texts or whole numbers. What came
//! later than the first stores (the whole stream model, the latency phase) is in it only where it
//! is used, so that the ids of everything else stay what they were.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weir_results::dut::{Dut, DutFile, DutKind};
use weir_results::toggle::Toggle;
use weir_results::traffic::{Connect, Http, Reverse, Senders, Streams, TrafficKind};
use weir_wire::units::Rate;

use crate::model::{Image, NetnsSpec, RssSpec, TestbedSpec, TrialTimes};

mod hosts;
mod qemu;

#[cfg(test)]
mod tests;

/// Version of what is hashed; any change of it makes every older cell a stranger.
pub(crate) const IDENTITY_VERSION: u32 = 1;

/// What a calibration depends on: everything about the traffic but its names.
#[derive(Debug, Clone, Copy)]
pub struct TrafficIdentity<'a> {
    /// What is sent.
    pub streams: &'a Streams,
    pub rate: Rate,
    /// By whom.
    pub senders: &'a Senders,
    /// What it is of.
    pub kind: TrafficKind,
}

/// What every trial of a campaign shares.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Where it runs.
    pub testbed: &'a TestbedSpec,
    /// How long it takes.
    pub trial: &'a TrialTimes,
}

impl Setting<'_> {
    fn json(&self) -> Value {
        let TrialTimes { warmup, duration, drain, sample, latency } = *self.trial;
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut setting = json!({
            "testbed": match self.testbed {
                TestbedSpec::Netns(netns) => netns_json(netns),
                TestbedSpec::Hosts(hosts) => hosts::json(hosts),
                TestbedSpec::Qemu(qemu) => qemu::json(qemu),
            },
            "trial": {
                "warmup_ns": ns(warmup),
                "duration_ns": ns(duration),
                "drain_ns": ns(drain),
                "sample_ns": ns(sample),
            },
        });
        if let Some(latency) = latency {
            setting["trial"]["latency_ns"] = ns(latency).into();
        }
        setting
    }
}

fn netns_json(netns: &NetnsSpec) -> Value {
    // Taken apart, so that a new field does not compile until it is decided upon.
    let NetnsSpec {
        generator_cpus,
        dut_cpus,
        sink_cpus,
        napi_cpus,
        rps_cpus,
        queues,
        rss,
        links,
        mtu_bytes,
        conntrack_max,
    } = netns;
    let mut testbed = json!({
        "kind": "netns",
        "generator_cpus": generator_cpus,
        "dut_cpus": dut_cpus,
        "sink_cpus": sink_cpus,
        "queues": queues,
    });
    if let Some(RssSpec { key, table, fields }) = rss.as_deref() {
        testbed["rss"] = json!({ "key": key, "table": table, "fields": fields });
    }
    if *links != 1 {
        testbed["links"] = (*links).into();
    }
    if let Some(conntrack_max) = conntrack_max {
        testbed["conntrack_max"] = (*conntrack_max).into();
    }
    if let Some(mtu_bytes) = mtu_bytes {
        testbed["mtu_bytes"] = (*mtu_bytes).into();
    }
    for (name, cpus) in [("napi_cpus", napi_cpus), ("rps_cpus", rps_cpus)] {
        if let Some(cpus) = cpus {
            testbed[name] = cpus.as_str().into();
        }
    }
    testbed
}

impl TrafficIdentity<'_> {
    fn json(&self) -> Value {
        let Self { streams, rate, senders, kind } = *self;
        let mut traffic = match streams.plain() {
            // Stores of before there was more than this go on.
            Some((src, dst, size_bytes)) => json!({
                "src": src,
                "dst": dst,
                "size_bytes": size_bytes,
                "rate": rate.to_string(),
            }),
            None => json!({ "streams": streams.fields(), "rate": rate.to_string() }),
        };
        // Taken apart, so that a new field does not compile until it is decided upon.
        let Senders { reverse, threads, links: _, is_mesh, first_port: _ } = senders;
        if let Some(Reverse { streams, rate }) = reverse {
            traffic["reverse"] = json!({ "streams": streams.fields(), "rate": rate.to_string() });
        }
        if *threads != 1 {
            traffic["threads"] = (*threads).into();
        }
        if *is_mesh {
            traffic["ports"] = "mesh".into();
        }
        match kind {
            TrafficKind::Packets => {}
            TrafficKind::Connect(Connect { close, request_bytes, reply_bytes, count }) => {
                traffic["connect"] = json!({
                    "close": close,
                    "request_bytes": request_bytes,
                    "reply_bytes": reply_bytes,
                    "count": count,
                });
            }
            TrafficKind::Http(Http { connections, keepalive, close, reply_bytes, proxy }) => {
                traffic["http"] = json!({
                    "connections": connections,
                    "keepalive": keepalive,
                    "close": close,
                    "reply_bytes": reply_bytes,
                    "proxy": proxy,
                });
            }
        }
        traffic
    }
}

/// Id of a traffic: equal for traffics that need one calibration only.
#[must_use]
pub fn traffic_id(setting: Setting<'_>, traffic: TrafficIdentity<'_>) -> String {
    hash(&json!({
        "of": "traffic",
        "version": IDENTITY_VERSION,
        "setting": setting.json(),
        "traffic": traffic.json(),
    }))
}

/// Id of a series. `sweep` holds the substituted values, in the order of the sweeps.
#[must_use]
pub fn series_id(
    setting: Setting<'_>,
    image: Option<&Image>,
    dut: &Dut,
    sweep: &[String],
    traffic: TrafficIdentity<'_>,
) -> String {
    let mut configuration = dut_json(&dut.kind);
    if let Some(Toggle { on, off }) = &dut.toggle {
        configuration["toggle"] = json!({ "on": on, "off": off });
    }
    hash(&json!({
        "of": "series",
        "version": IDENTITY_VERSION,
        "setting": setting.json(),
        "image": image.map(hosts::image_json),
        "dut": configuration,
        "sweep": sweep,
        "traffic": traffic.json(),
    }))
}

/// Id of one iteration of a series.
#[must_use]
pub fn cell_id(series_id: &str, iteration: u32) -> String {
    hash(&json!({ "of": "cell", "series": series_id, "iteration": iteration }))
}

/// Id of an item of a search: a series, its traffic at one frame size, and all that is asked for.
#[must_use]
pub fn item_id(series_id: &str, traffic_id: &str, terms: &Value) -> String {
    hash(&json!({ "of": "item", "series": series_id, "traffic": traffic_id, "wanted": terms }))
}

/// Id of one trial of an item.
#[must_use]
pub(crate) fn trial_id(
    item_id: &str,
    test: &str,
    number: u32,
    rate: &str,
    duration_ns: u64,
    latency_ns: Option<u64>,
    packets: Option<u64>,
) -> String {
    hash(&json!({
        "of": "trial",
        "item": item_id,
        "test": test,
        "number": number,
        "rate": rate,
        "duration_ns": duration_ns,
        "latency_ns": latency_ns,
        "packets": packets,
    }))
}

fn dut_json(dut: &DutKind) -> Value {
    match dut {
        DutKind::Linux { sysctls, nft } => json!({
            "kind": "linux",
            "sysctls": sysctls,
            "nft": nft.as_ref().map(|file| &file.text),
        }),
        // What is asked afterwards changes no figure.
        DutKind::Command { sysctls, files, start, ready, ready_timeout, stop, levels: _ } => {
            json!({
                "kind": "command",
                "sysctls": sysctls,
                "files": files.iter().map(file_json).collect::<serde_json::Map<_, _>>(),
                "start": start,
                "ready": ready,
                "ready_timeout_ns": u64::try_from(ready_timeout.as_nanos()).unwrap_or(u64::MAX),
                "stop": stop,
            })
        }
        DutKind::WeirFw { sysctls, rules, files, program, ready_timeout, backup } => {
            let mut all = json!({
                "kind": "weir-fw",
                "sysctls": sysctls,
                "rules": rules.text,
                "files": files.iter().map(file_json).collect::<serde_json::Map<_, _>>(),
                "program": program,
                "ready_timeout_ns": u64::try_from(ready_timeout.as_nanos()).unwrap_or(u64::MAX),
            });
            // Without one, a series is what it was before there were any.
            if let Some(backup) = backup {
                all["backup"] = json!({ "takeover": backup.takeover });
            }
            all
        }
        DutKind::Tree { system, sysctls, tree, check } => json!({
            "kind": system.name(),
            "sysctls": sysctls,
            "tree": tree.as_ref().map(hosts::tree_json),
            "check": check,
        }),
    }
}

/// The DUT sees the last part of a file's path, and nothing of the rest.
fn file_json(file: &DutFile) -> (String, Value) {
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    (name.to_owned(), Value::from(file.text.as_str()))
}

fn hash(value: &Value) -> String {
    let digest = Sha256::digest(canonical(value).as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// JSON with sorted keys and no spaces.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            let fields = fields
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        scalar => scalar.to_string(),
    }
}
