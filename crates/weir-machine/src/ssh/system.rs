//! What a machine's system counts and shows: interfaces, firewall, interrupts, environment.
//!
//! A system is asked by its own tools, with one command for each subject, and what they print is
//! read by the modules below, which are text in and numbers out. Names of interface counters are
//! the same for all systems (`rx_packets`, `rx_bytes`, `rx_errors`, `rx_dropped`, and so for `tx`);
//! what a driver counts besides stands beside them with `nic.` before its name. This module says
//! which of them are losses and after which counting point; it never judges.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use weir_results::counters::{Counters, DropRule, Place, Selection};
use weir_results::dut::System;

use super::script::quote;
use super::sections::sections;
use crate::host::{Command, Host, HostError, Program};

pub mod activity;
mod interface;
mod interrupts;
mod ipfw;
mod pf;
mod sensors;
#[cfg(test)]
mod tests;

/// How long a question may take. A machine under load answers late.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Counters of these interfaces, each a source of its own.
///
/// # Errors
/// When the machine cannot be asked, or has no such interface.
pub fn interfaces(
    host: &dyn Host,
    system: System,
    names: &[String],
) -> Result<Counters, HostError> {
    let mut counters = Counters::new();
    if system == System::Generic || names.is_empty() {
        return Ok(counters);
    }
    if let Some(name) = names.iter().find(|name| !interface::is_name(name)) {
        return Err(HostError::new(host.name(), format!("`{name}` cannot be an interface")));
    }
    let text = ask(host, &interface::question(system, names))?;
    let answers = sections(&text);
    for name in names {
        let found = interface::read(system, name, &answers);
        let values = found.ok_or_else(|| {
            HostError::new(
                host.name(),
                format!(
                    "reading the counters of {name}: there is no such interface on this {} \
                     machine, or its counters are not understood; correct `receives` and `sends` \
                     of the DUT",
                    system.name()
                ),
            )
        })?;
        counters.insert(name.clone(), values);
    }
    Ok(counters)
}

/// Counters of these interfaces that say what came in, and what went out.
#[must_use]
pub fn received(names: &[String]) -> Vec<Selection> {
    names.iter().map(|name| Selection::new(name, &["rx_packets"])).collect()
}

/// As [`received`], for what was sent.
#[must_use]
pub fn sent(names: &[String]) -> Vec<Selection> {
    names.iter().map(|name| Selection::new(name, &["tx_packets"])).collect()
}

/// Losses that the interfaces count. What a card has no room for comes before the DUT has received
/// it, what its queues have no room for on the way out comes after.
#[must_use]
pub fn interface_drops(system: System, receives: &[String], sends: &[String]) -> Vec<DropRule> {
    if system == System::Generic {
        return Vec::new();
    }
    let mut rules = Vec::new();
    for (side, list) in [("rx", receives), ("tx", sends)] {
        for name in list {
            for (counter, after) in interface::losses(system, side) {
                let selection = Selection::new(name, &[counter]);
                let label = format!("{name}_{counter}");
                rules.push(DropRule::new(&label, after, Place::Dut, selection));
            }
        }
    }
    rules
}

/// Counters of frames that an interface received and its machine never saw, by this system's
/// names: no program can have counted them.
#[must_use]
pub fn missed_counters(system: System) -> Vec<&'static str> {
    let losses = interface::losses(system, "rx").iter();
    losses.filter(|(_, after)| *after == "accepted").map(|(counter, _)| *counter).collect()
}

/// The [`missed_counters`] of an interface.
///
/// # Errors
/// When the machine cannot be asked, or has no such interface.
pub fn missed(
    host: &dyn Host,
    system: System,
    name: &str,
) -> Result<BTreeMap<String, u64>, HostError> {
    let mut counters = interfaces(host, system, &[name.to_owned()])?;
    let mut counted = counters.remove(name).unwrap_or_default();
    let missed = missed_counters(system);
    counted.retain(|counter, _| missed.contains(&counter.as_str()));
    Ok(counted)
}

/// What the machine's firewalls count, each a source of its own: `pf`, `ipfw`. None that does not
/// run is asked.
///
/// # Errors
/// When the machine cannot be asked.
pub fn firewalls(host: &dyn Host, system: System) -> Result<Counters, HostError> {
    let mut counters = Counters::new();
    if !matches!(system, System::Freebsd | System::Openbsd) {
        return Ok(counters);
    }
    let text = ask(
        host,
        "echo '== pf'; pfctl -si 2>/dev/null; echo '== pf rules'; pfctl -vvsr 2>/dev/null; \
         echo '== ipfw'; ipfw -a list 2>/dev/null; :",
    )?;
    for (name, body) in sections(&text) {
        match name.as_str() {
            "pf" if pf::is_enabled(&body) => {
                counters.entry("pf".to_owned()).or_default().extend(pf::info(&body));
            }
            // The rules follow.
            "pf rules" => {
                if let Some(pf) = counters.get_mut("pf") {
                    pf.extend(pf::rules(&body));
                }
            }
            "ipfw" => {
                let rules = ipfw::rules(&body);
                if !rules.is_empty() {
                    counters.insert("ipfw".to_owned(), rules);
                }
            }
            _ => {}
        }
    }
    Ok(counters)
}

/// Losses that the machine's network stack and firewalls count.
#[must_use]
pub fn stack_drops(system: System) -> Vec<DropRule> {
    let rules_of = |list: &[(&str, &str, &str)]| -> Vec<DropRule> {
        let rule = |&(name, source, counter): &(&str, &str, &str)| {
            DropRule::new(name, "dut_received", Place::Dut, Selection::new(source, &[counter]))
        };
        list.iter().map(rule).collect()
    };
    match system {
        System::Freebsd => {
            let mut rules = rules_of(&[&BSD_STACK_DROPS[..], &pf::DROPS, &ipfw::DROPS].concat());
            // What it forwards and has no route for counts as not forwardable as well
            // (ip_findroute() of ip_fastfwd.c, ip6_findroute() of ip6_fastfwd.c): one packet, one
            // loss.
            let is_twice = |name: &str| matches!(name, "ip_no_route_out" | "ip6_no_route_out");
            rules.retain(|rule| !is_twice(&rule.name));
            rules
        }
        System::Openbsd => rules_of(&[&BSD_STACK_DROPS[..], &pf::DROPS].concat()),
        System::Linux | System::Generic => Vec::new(),
    }
}

/// Phrases of `netstat -s` for packets that end here (`super::bsd` names them).
const BSD_STACK_DROPS: [(&str, &str, &str); 24] = [
    ("ip_bad_header_checksums", "ip", "ip.bad headers checksums"),
    ("ip_too_small", "ip", "ip.with size smaller than minimum"),
    ("ip_data_shorter_than_length", "ip", "ip.with data size < data length"),
    ("ip_too_long", "ip", "ip.with ip length > max ip packets size"),
    ("ip_header_too_short", "ip", "ip.with headers length < data size"),
    ("ip_data_shorter_than_header", "ip", "ip.with data length < headers length"),
    ("ip_bad_options", "ip", "ip.with bad options"),
    ("ip_bad_version", "ip", "ip.with incorrect version number"),
    ("ip_delivered_locally", "ip", "ip.packets for this host"),
    ("ip_unknown_protocol", "ip", "ip.packets for unknown/unsupported protocol"),
    ("ip_not_forwardable", "ip", "ip.packets not forwardable"),
    ("ip_no_buffers_out", "ip", "ip.output packets dropped due to no bufs, etc."),
    ("ip_no_route_out", "ip", "ip.output packets discarded due to no routes"),
    ("ip_not_fragmentable", "ip", "ip.datagrams that can't be fragmented"),
    ("ip_bad_address", "ip", "ip.datagrams with bad address in headers"),
    ("ip6_too_small", "ip", "ip6.with size smaller than minimum"),
    ("ip6_data_shorter_than_length", "ip", "ip6.with data size < data length"),
    ("ip6_bad_options", "ip", "ip6.with bad options"),
    ("ip6_bad_version", "ip", "ip6.with incorrect version number"),
    ("ip6_delivered_locally", "ip", "ip6.packets for this host"),
    ("ip6_not_forwardable", "ip", "ip6.packets not forwardable"),
    ("ip6_no_buffers_out", "ip", "ip6.output packets dropped due to no bufs, etc."),
    ("ip6_no_route_out", "ip", "ip6.output packets discarded due to no routes"),
    ("ip6_not_fragmentable", "ip", "ip6.datagrams that can't be fragmented"),
];

/// How often each source of interrupts has interrupted: under `irq`. Tells whether the queues that
/// a card has were used; never part of the ledger.
///
/// # Errors
/// When the machine cannot be asked.
pub fn interrupts(host: &dyn Host, system: System) -> Result<Counters, HostError> {
    let values = match system {
        System::Linux => interrupts::proc(&ask(host, "cat /proc/interrupts")?),
        System::Freebsd | System::Openbsd => interrupts::vmstat(&ask(host, "vmstat -i")?),
        System::Generic => return Ok(Counters::new()),
    };
    Ok(Counters::from([("irq".to_owned(), values)]))
}

/// What can move a packet rate and can be read: system, processor, temperatures, fans, and the
/// interfaces as they are set. What the machine does not show is absent.
///
/// # Errors
/// When the machine cannot be asked.
pub fn environment(
    host: &dyn Host,
    system: System,
    interfaces: &[String],
) -> Result<Value, HostError> {
    let text = ask(host, &environment_question(system, interfaces))?;
    let mut answers: BTreeMap<String, String> = sections(&text).into_iter().collect();
    let sensors = answers.remove("sensors").unwrap_or_default();
    let (temperatures, fans) = sensors::read(system, &sensors);
    let lines = |text: String| -> Vec<String> {
        text.lines().map(|line| line.trim_end().to_owned()).filter(|l| !l.is_empty()).collect()
    };
    let shown: BTreeMap<String, Vec<String>> =
        answers.into_iter().map(|(name, text)| (name, lines(text))).collect();
    Ok(json!({
        "system": system.name(),
        "temperatures_celsius": temperatures,
        "fans_rpm": fans,
        "shown": shown,
    }))
}

/// Every subject under a line with its name. What a machine has not is silent.
fn environment_question(system: System, interfaces: &[String]) -> String {
    let mut subjects = vec![subject("uname", "uname -a")];
    match system {
        System::Linux => subjects.extend([
            subject("os", "cat /etc/os-release"),
            subject("command line", "cat /proc/cmdline"),
            // What the clock does just now is no setting.
            subject("cpu", "lscpu | grep -v MHz"),
            subject("governor", "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
            subject(
                "turbo",
                "grep -s '' /sys/devices/system/cpu/cpufreq/boost \
                 /sys/devices/system/cpu/intel_pstate/no_turbo",
            ),
            subject("sensors", sensors::LINUX),
        ]),
        System::Freebsd => subjects.extend([
            subject(
                "cpu",
                "sysctl -e hw.model hw.ncpu hw.physmem machdep.hyperthreading_allowed \
                 dev.cpu.0.freq_levels dev.cpu.0.cx_supported",
            ),
            subject("dispatch", "sysctl -e net.isr net.inet.ip.redirect net.fibs"),
            subject("modules", "kldstat"),
            subject("loader", "cat /boot/loader.conf /boot/loader.conf.local"),
            subject("sensors", sensors::FREEBSD),
        ]),
        System::Openbsd => subjects.extend([
            subject(
                "cpu",
                "sysctl hw.model hw.ncpu hw.ncpuonline hw.smt hw.physmem hw.perfpolicy \
                 hw.setperf kern.version",
            ),
            subject("sensors", sensors::OPENBSD),
        ]),
        System::Generic => {}
    }
    for name in interfaces.iter().filter(|name| interface::is_name(name)) {
        subjects.extend(interface::environment(system, name));
    }
    subjects.push(":".to_owned());
    subjects.join("\n")
}

/// A command under a line with its name.
fn subject(name: &str, command: &str) -> String {
    format!("echo {}; {{ {command}; }} 2>/dev/null", quote(&format!("== {name}")))
}

/// Asks something that does not fail on a machine that is well.
fn ask(host: &dyn Host, shell: &str) -> Result<String, HostError> {
    let command =
        Command { program: Program::Shell(shell), stdin: "", timeout: TIMEOUT, cancellable: false };
    let output = host.run(&command)?;
    if output.success() {
        return Ok(output.stdout);
    }
    let what = format!("`{shell}` fails there; it says: {}", output.said());
    Err(HostError::new(host.name(), what))
}

/// Whether a firewall of the machine keeps a state for each flow.
///
/// # Errors
/// When the machine cannot be asked.
pub fn keeps_states(host: &dyn Host, system: System) -> Result<bool, HostError> {
    Ok(match system {
        System::Freebsd | System::Openbsd => {
            let text = ask(
                host,
                "pfctl -si 2>/dev/null | grep -q '^Status: Enabled' && pfctl -sr 2>/dev/null; \
                 ipfw list 2>/dev/null; :",
            )?;
            let words = ["keep state", "modulate state", "synproxy state", "keep-state"];
            words.iter().any(|word| text.contains(word))
        }
        System::Linux => {
            // The tracker works once a rule of the machine asks for it.
            let rules = ask(host, "nft list ruleset 2>/dev/null; :")?;
            [" ct state", " nat ", "ct mark"].iter().any(|word| rules.contains(word))
        }
        System::Generic => false,
    })
}

/// How many states it has now: pf's, or the dynamic rules of ipfw, or Linux' connections; `None`
/// where it has no such number.
///
/// # Errors
/// When the machine cannot be asked.
pub fn states(host: &dyn Host, system: System) -> Result<Option<u64>, HostError> {
    let question = match system {
        System::Freebsd => {
            "pfctl -si 2>/dev/null | awk '/^Status: Enabled/ { on = 1 } \
             on && /current entries/ { print $3; exit }'; \
             sysctl -n net.inet.ip.fw.dyn_count 2>/dev/null; :"
        }
        System::Openbsd => "pfctl -si 2>/dev/null | awk '/current entries/ { print $3; exit }'; :",
        System::Linux => "cat /proc/sys/net/netfilter/nf_conntrack_count 2>/dev/null; :",
        System::Generic => return Ok(None),
    };
    let text = ask(host, question)?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).max())
}

/// The setting that limits how many states there can be, in words.
///
/// # Errors
/// When the machine cannot be asked.
pub fn state_limit(host: &dyn Host, system: System) -> Result<Option<String>, HostError> {
    let question = match system {
        System::Freebsd | System::Openbsd => "pfctl -sm 2>/dev/null | grep '^states'; :",
        System::Linux => "sysctl net.netfilter.nf_conntrack_max 2>/dev/null; :",
        System::Generic => return Ok(None),
    };
    let text = ask(host, question)?;
    let limit = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok((!limit.is_empty()).then(|| format!("the limit there is `{limit}`")))
}
