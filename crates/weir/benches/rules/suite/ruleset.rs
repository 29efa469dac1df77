//! Rulesets of any size, as large ones are: addresses and ports that all differ, both families,
//! tables, and few rules that are alike.

use std::fmt::Write as _;

/// The machine that the rules are for.
pub(crate) const FACTS: &str = "\
interface em0 198.51.100.2/24 2001:db8:1::2/64 group egress
interface em1 192.168.1.1/24 2001:db8:2::1/64
interface lo0 loopback 127.0.0.1/8 ::1/128
";

/// Name of the table's file, beside the ruleset.
pub(crate) const TABLE_FILE: &str = "clients.table";

const HEAD: &str = "\
set skip on lo0
table <clients> persist file \"clients.table\"
block drop log all
";

/// Rules of [`HEAD`].
const HEAD_RULE_COUNT: u32 = 1;

/// The ruleset with each of `rule_count` rules written out. With `quick`, some rules have it.
pub(crate) fn written(rule_count: u32, quick: bool) -> String {
    let mut text = HEAD.to_owned();
    for number in HEAD_RULE_COUNT..rule_count {
        let (a, b, c) = (number >> 16 & 255, number >> 8 & 255, number & 255);
        let port = 1024 + number % 60_000;
        let quick = if quick { "quick " } else { "" };
        // Writing to a string cannot fail.
        let _ = match number % 5 {
            0 => writeln!(
                text,
                "pass in {quick}on em0 inet proto tcp from 10.{b}.{c}.0/24 \
                 to 192.0.2.{c} port {port} flags S/SA keep state"
            ),
            1 => writeln!(text, "block drop in log on em0 inet from 172.{a}.{b}.{c} to any"),
            2 => writeln!(
                text,
                "pass out on em1 inet proto udp from any to 10.{b}.{c}.53 port {port}"
            ),
            3 => writeln!(
                text,
                "pass in {quick}on em0 inet proto tcp from <clients> \
                 to 192.168.{b}.{c} port {port} label \"service {number}\""
            ),
            _ => writeln!(
                text,
                "pass in on em1 inet6 proto tcp from any to 2001:db8:{b:x}::{c:x} port {port}"
            ),
        };
    }
    text
}

/// About as many rules from a hundredth of the lines: ten addresses with ten ports each.
pub(crate) fn lists(rule_count: u32) -> String {
    let mut text = HEAD.to_owned();
    for number in 0..rule_count.div_ceil(100) {
        let (b, c) = (number >> 8 & 255, number & 255);
        let hosts: Vec<String> = (0..10).map(|d| format!("10.{b}.{c}.{d}")).collect();
        let ports: Vec<String> =
            (0..10).map(|offset| format!("{}", 2000 + 10 * number + offset)).collect();
        let (hosts, ports) = (hosts.join(", "), ports.join(" "));
        let _ = writeln!(
            text,
            "pass in on em0 inet proto tcp from <clients> to {{ {hosts} }} port {{ {ports} }}"
        );
    }
    text
}

/// The table's file: addresses and networks that all differ, one in sixteen IPv6.
pub(crate) fn table(entry_count: u32) -> String {
    let mut text = String::from("# address or network\n");
    for number in 0..entry_count {
        // A walk over the addresses that meets each once: the factor is odd.
        let address = number.wrapping_mul(2_654_435_761);
        let [a, b, c, d] = address.to_be_bytes();
        let _ = match number % 16 {
            0 => writeln!(text, "2001:db8:{:x}:{:x}::/64", address >> 16, address & 0xffff),
            1 => writeln!(text, "{a}.{b}.{c}.0/24"),
            _ => writeln!(text, "{a}.{b}.{c}.{d}"),
        };
    }
    text
}
