//! Counters of interfaces: `netstat` and `sysctl dev` of the BSDs, sysfs and `ethtool -S` of Linux.
//!
//! Columns of netstat(1) are found by their headings, from the right, because addresses to their
//! left may be missing. Only text in, numbers out.

use std::collections::BTreeMap;

use weir_results::dut::System;

use super::{quote, subject};

/// Column headings of netstat(1), FreeBSD's and OpenBSD's, and the common names.
const COLUMNS: [(&str, &str); 16] = [
    ("Ipkts", "rx_packets"),
    ("Ierrs", "rx_errors"),
    // OpenBSD's sum of errors and drops, where it does not tell them apart.
    ("Ifail", "rx_failed"),
    ("Idrop", "rx_dropped"),
    ("Iqdrops", "rx_dropped"),
    ("Iqdrop", "rx_dropped"),
    ("Ibytes", "rx_bytes"),
    ("Opkts", "tx_packets"),
    ("Oerrs", "tx_errors"),
    ("Ofail", "tx_failed"),
    ("Drop", "tx_dropped"),
    ("Odrop", "tx_dropped"),
    ("Oqdrops", "tx_dropped"),
    ("Oqdrop", "tx_dropped"),
    ("Obytes", "tx_bytes"),
    ("Coll", "tx_collisions"),
];

/// Parts of the names of what a driver counts; what moves both ways has other names.
const COUNTS: [&str; 17] = [
    "packet", "pkt", "byte", "octet", "drop", "err", "miss", "discard", "overrun", "frames",
    "nombuf", "no_buf", "no_desc", "xon", "xoff", "pause", "fail",
];

/// Parts of the names of what is set, or is a position in a ring.
const NO_COUNTS: [&str; 11] =
    ["head", "tail", "rate", "limit", "max", "min", "size", "thresh", "cidx", "pidx", "per_"];

/// Names of FreeBSD's settings of an interface that move a packet rate: queues, descriptors,
/// moderation, flow control; and what it is.
const SETTINGS: &str = "%desc|%driver|%parent|fw_version|iflib.(override|core|separate|\
     use_|tx_abdicate|rx_budget|disable)|[.]fc[=]|flow|queues|itr|advertise|link_|aim";

/// Losses of one side of an interface, `rx` or `tx`: counter, and the counting point before it.
pub(super) fn losses(system: System, side: &str) -> &'static [(&'static str, &'static str)] {
    match (system, side) {
        // The kernel's `rx_dropped` were received before: those are the stack's.
        (System::Linux, "rx") => &[
            ("rx_missed_errors", "accepted"),
            ("rx_errors", "accepted"),
            ("rx_dropped", "dut_received"),
        ],
        (System::Linux, _) => &[("tx_dropped", "dut_received"), ("tx_errors", "dut_received")],
        (System::Freebsd, "rx") => &[("rx_dropped", "accepted"), ("rx_errors", "accepted")],
        (System::Openbsd, "rx") => {
            &[("rx_dropped", "accepted"), ("rx_errors", "accepted"), ("rx_failed", "accepted")]
        }
        (System::Freebsd, _) => &[("tx_dropped", "dut_received"), ("tx_errors", "dut_received")],
        (System::Openbsd, _) => &[
            ("tx_dropped", "dut_received"),
            ("tx_errors", "dut_received"),
            ("tx_failed", "dut_received"),
        ],
        (System::Generic, _) => &[],
    }
}

/// The command that prints the counters of these interfaces, each under `== <name>`, and what
/// their drivers count under `== nic <name>`.
pub(super) fn question(system: System, names: &[String]) -> String {
    let mut question = String::new();
    for name in names {
        let quoted = quote(name);
        let line = match system {
            System::Linux => format!(
                "echo \"== {name}\"; grep -s '' /sys/class/net/{quoted}/statistics/*; \
                 echo \"== nic {name}\"; ethtool -S {quoted} 2>/dev/null\n"
            ),
            System::Freebsd => format!(
                "echo \"== {name}\"; netstat -I {quoted} -bdnW; \
                 echo \"== nic {name}\"; sysctl -e {} 2>/dev/null\n",
                quote(&device(name))
            ),
            System::Openbsd => format!(
                "echo \"== {name}\"; netstat -I {quoted} -n -e; netstat -I {quoted} -n -d; \
                 netstat -I {quoted} -n -b\n"
            ),
            System::Generic => String::new(),
        };
        question.push_str(&line);
    }
    question.push(':');
    question
}

/// FreeBSD's sysctl tree of an interface: `ix0` is `dev.ix.0`.
fn device(name: &str) -> String {
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("dev.{driver}.{}", &name[driver.len()..])
}

/// Whether this can be an interface: nothing that a shell or awk would read as something else.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// How an interface is set: each subject with the command that shows it.
pub(super) fn environment(system: System, name: &str) -> Vec<String> {
    let shown = |what: &str, command: &str| subject(&format!("{what} {name}"), command);
    match system {
        System::Linux => {
            let mut all: Vec<String> = ["-i", "-k", "-l", "-g", "-c", "-a", "-x"]
                .iter()
                .map(|option| {
                    shown(&format!("ethtool {option}"), &format!("ethtool {option} {name}"))
                })
                .collect();
            all.push(shown(
                "irq affinity",
                &format!(
                    "for irq in $(grep {name} /proc/interrupts | cut -d: -f1); do \
                     echo $irq: $(cat /proc/irq/$irq/smp_affinity_list); done"
                ),
            ));
            all.push(shown(
                "queues",
                &format!("grep -s '' /sys/class/net/{name}/queues/*/?ps_cpus"),
            ));
            all
        }
        System::Freebsd => vec![
            shown("ifconfig", &format!("ifconfig {name}")),
            shown("nic", &format!("sysctl -e {} | grep -E {}", device(name), quote(SETTINGS))),
            // The counts would differ each time.
            shown("irq", &format!("vmstat -ai | awk '/{name}/ {{ print $1, $2 }}'")),
        ],
        System::Openbsd => vec![shown("ifconfig", &format!("ifconfig {name}"))],
        System::Generic => Vec::new(),
    }
}

/// The counters of an interface; `None` if there are none.
pub(super) fn read(
    system: System,
    name: &str,
    answers: &[(String, String)],
) -> Option<BTreeMap<String, u64>> {
    let body =
        |name: &str| answers.iter().find(|(n, _)| n == name).map_or("", |(_, body)| body.as_str());
    let answer = body(name);
    let mut values = match system {
        System::Linux => sysfs(answer),
        System::Freebsd | System::Openbsd => netstat(name, answer),
        System::Generic => BTreeMap::new(),
    };
    // OpenBSD's sum would be counted twice beside its parts.
    for (side, parts) in [("rx", ["rx_errors", "rx_dropped"]), ("tx", ["tx_errors", "tx_dropped"])]
    {
        if parts.iter().any(|part| values.contains_key(*part)) {
            values.remove(&format!("{side}_failed"));
        }
    }
    if !values.contains_key("rx_packets") {
        return None;
    }
    let nic = body(&format!("nic {name}"));
    let separator = if system == System::Freebsd { '=' } else { ':' };
    let prefix =
        if system == System::Freebsd { format!("{}.", device(name)) } else { String::new() };
    for line in nic.lines() {
        let Some((key, value)) = line.trim().split_once(separator) else { continue };
        let Some(key) = key.trim().strip_prefix(prefix.as_str()) else { continue };
        if let (true, Ok(value)) = (is_counter(key), value.trim().parse()) {
            values.insert(format!("nic.{key}"), value);
        }
    }
    Some(values)
}

fn is_counter(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    !last.contains("override")
        && COUNTS.iter().any(|part| last.contains(part))
        && !NO_COUNTS.iter().any(|part| last.contains(part))
}

/// `<path>:<value>` of `/sys/class/net/<name>/statistics`.
fn sysfs(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (path, value) = line.rsplit_once(':')?;
            let name = path.rsplit('/').next()?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        })
        .collect()
}

/// The link's row of one or more tables, by their headings.
fn netstat(name: &str, text: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    let mut headings: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Name") {
            let from = words.iter().position(|w| *w == "Address").map_or(0, |i| i + 1);
            headings = words[from..].to_vec();
            continue;
        }
        // A name that does not fit is cut, or marked with a star when the interface is down.
        let is_named = words.first().is_some_and(|w| w.trim_end_matches('*') == name);
        let is_link = words.iter().any(|w| w.starts_with("<Link"));
        if !is_named || !is_link || words.len() < headings.len() {
            continue;
        }
        for (heading, value) in headings.iter().zip(&words[words.len() - headings.len()..]) {
            let column = COLUMNS.iter().find(|(h, _)| h == heading);
            if let (Some((_, counter)), Ok(value)) = (column, value.parse()) {
                values.insert((*counter).to_owned(), value);
            }
        }
    }
    values
}
