//! A layer 2 rule's line (FreeBSD).

use std::fmt::Write as _;

use super::{Printer, address, anchor_words, bare, rule};
use crate::ast::{EtherAction, MacHost};
use crate::ir::{Action, EtherRule, Rule};

pub(super) fn print(out: &mut String, printer: &Printer<'_>, ether_rule: &EtherRule) {
    match &ether_rule.anchor {
        Some(anchor) => out.push_str(&anchor_words(anchor)),
        None => out.push_str(match ether_rule.action {
            EtherAction::Pass => "ether pass",
            EtherAction::Block => "ether block",
            EtherAction::Match => "ether match",
        }),
    }
    rule::direction(out, ether_rule.direction);
    out.push_str(if ether_rule.quick { " quick" } else { "" });
    if let Some(interface) = &ether_rule.interface {
        rule::on(out, " on", interface);
    }
    if let Some(bridge) = &ether_rule.bridge_to {
        let _ = write!(out, " bridge-to {}", bare(bridge));
    }
    if let Some(protocol) = ether_rule.protocol {
        let _ = write!(out, " proto 0x{protocol:04x}");
    }
    for (word, mac) in [(" from ", ether_rule.from), (" to ", ether_rule.to)] {
        if let Some(mac) = mac {
            out.push_str(word);
            print_mac(out, mac);
        }
    }
    out.push_str(" l3");
    let mut hosts = Rule::new(Action::Match, ether_rule.span);
    hosts.af = ether_rule.af;
    hosts.from = ether_rule.l3_from.clone();
    hosts.to = ether_rule.l3_to.clone();
    address::from_to(out, printer, &hosts);
    rule::labels(out, &ether_rule.options);
    if let Some(id) = ether_rule.options.ridentifier {
        let _ = write!(out, " ridentifier {id}");
    }
    rule::queue_and_dummynet(out, &ether_rule.options);
    rule::tags(out, &ether_rule.options);
}

fn print_mac(out: &mut String, mac: MacHost) {
    let MacHost { not, address, mask } = mac;
    let text = |octets: [u8; 6]| {
        let octets: Vec<String> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        octets.join(":")
    };
    out.push_str(if not { "! " } else { "" });
    out.push_str(&text(address));
    let [a, b, c, d, e, f] = mask;
    let whole = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    let bits = whole.count_ones();
    let prefix = ((1_u64 << 48) - 1) & !((1_u64 << (48 - bits)) - 1);
    if bits == 48 {
        return;
    }
    let _ = if whole == prefix { write!(out, "/{bits}") } else { write!(out, " & {}", text(mask)) };
}
