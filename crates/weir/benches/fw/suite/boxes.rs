//! The devices under test: how each is configured.
//!
//! nftables and `weir fw` are given the same rules in their own languages. Those of "1,000 rules"
//! are 999 that no packet of the benchmark matches, each with another address and port, before the
//! one that lets everything pass.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use weir_results::dut::{Dut, DutFile, DutKind};

use super::Settings;
use super::bed::DUT_OUT;
use super::rows::RULE_COUNT;

/// How long a state lives: none is to end while it is measured.
const STATE_SECONDS: u32 = 7200;

/// How long `weir fw` may take to be ready, which is measured elsewhere.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// What stands between generator and sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Box {
    /// The kernel.
    Linux,
    /// The kernel's routing table, asked by an XDP program.
    Minimal,
    /// The kernel with nftables.
    Nftables(Rules),
    /// weir's own.
    Weir(Rules),
}

/// What a firewall is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Nothing: no rule, no state.
    None,
    /// Let everything pass, with a state.
    Stateful,
    /// The same, in one stage whatever the number of states.
    OneStage,
    /// The same behind rules that do not match.
    Many,
    /// The same, and change the header of every packet.
    Scrubbed,
    /// Let everything pass, with a state and the source of the interface that it leaves by.
    Translated,
    /// The same with four other sources in turn.
    Pool,
}

impl Box {
    /// Its configuration, with room for `state_count` states.
    pub(crate) fn dut(self, settings: &Settings, state_count: u64) -> Dut {
        match self {
            Self::Linux | Self::Minimal => linux("linux", None),
            Self::Nftables(rules) => linux("nftables", Some(nft(rules))),
            Self::Weir(rules) => weir(settings, &pf(rules, state_count)),
        }
    }
}

fn linux(name: &str, nft: Option<String>) -> Dut {
    let mut sysctls = BTreeMap::new();
    if nft.is_some() {
        let lifetime = ("net.netfilter.nf_conntrack_udp_timeout".to_owned(), STATE_SECONDS);
        sysctls.insert(lifetime.0, lifetime.1.to_string());
    }
    let nft = nft.map(|text| DutFile { path: "bench.nft".to_owned(), text });
    Dut { name: name.to_owned(), kind: DutKind::Linux { sysctls, nft }, toggle: None }
}

/// A `weir fw` with this ruleset.
pub(crate) fn weir(settings: &Settings, rules: &str) -> Dut {
    let program = settings.weir.to_str().map(str::to_owned);
    let rules = DutFile { path: "pf.conf".to_owned(), text: rules.to_owned() };
    let kind = DutKind::WeirFw {
        sysctls: BTreeMap::new(),
        rules,
        files: Vec::new(),
        program,
        ready_timeout: READY_TIMEOUT,
        backup: None,
    };
    Dut { name: "weir-fw".to_owned(), kind, toggle: None }
}

/// Four addresses in both languages.
const NFT_POOL: &str = "snat ip to 198.51.100.4-198.51.100.7";
const PF_POOL: &str = "198.51.100.4/30 round-robin";

/// Address and port that the rule with this number blocks, of the networks that nobody uses.
fn blocked(number: u64) -> (String, u64) {
    (format!("198.51.{}.{}", 100 + number / 250, 1 + number % 250), 10_000 + number)
}

/// What sources are translated to in a language, if they are.
fn translation(rules: Rules, interface: &str, pool: &str) -> Option<String> {
    match rules {
        Rules::Translated => Some(interface.to_owned()),
        Rules::Pool => Some(pool.to_owned()),
        Rules::None | Rules::Stateful | Rules::Scrubbed | Rules::OneStage | Rules::Many => None,
    }
}

/// Everything counts, as the lab's proof that a ruleset is in effect wants it.
fn nft(rules: Rules) -> String {
    let mut text = String::from("table inet bench {\n chain forward {\n");
    text.push_str("  type filter hook forward priority filter; policy drop;\n");
    text.push_str("  ct state established counter accept\n");
    if rules == Rules::Many {
        for number in 0..RULE_COUNT - 1 {
            let (address, port) = blocked(number);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  ip saddr {address} udp dport {port} drop");
        }
    }
    text.push_str("  ct state new counter accept\n }\n");
    if let Some(translation) = translation(rules, "masquerade", NFT_POOL) {
        text.push_str(" chain translate {\n  type nat hook postrouting priority srcnat;\n");
        let _ = writeln!(text, "  oifname \"{DUT_OUT}\" counter {translation}\n }}");
    }
    text.push_str("}\n");
    text
}

/// A pf.conf with room for so many states.
pub(crate) fn pf(rules: Rules, state_count: u64) -> String {
    if rules == Rules::None {
        return String::new();
    }
    let mut text = format!(
        "set limit states {state_count}\n\
         set timeout {{ udp.first {STATE_SECONDS}, udp.single {STATE_SECONDS}, \
         udp.multiple {STATE_SECONDS}, adaptive.start 0, adaptive.end 0 }}\n"
    );
    if rules == Rules::Scrubbed {
        text.push_str("scrub all no-df max-mss 1440\n");
    }
    let interface = format!("({DUT_OUT}:0)");
    if let Some(source) = translation(rules, &interface, PF_POOL) {
        let _ = writeln!(text, "nat on {DUT_OUT} inet from any to any -> {source}");
    }
    if rules == Rules::OneStage {
        text.push_str("set weir-stages one\n");
    }
    if rules == Rules::Many {
        for number in 0..RULE_COUNT - 1 {
            let (address, port) = blocked(number);
            let _ =
                writeln!(text, "block drop quick inet proto udp from {address} to any port {port}");
        }
    }
    text.push_str("pass all keep state\n");
    text
}
