//! Layer 2 rules (FreeBSD).

use super::{Expanded, Expander};
use crate::ast::{EtherAction, EtherFilter, EtherRule, MacHost};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{self, AnchorCall, Peer, Rules};
use crate::source::Span;

impl Expander<'_> {
    pub(super) fn ether_rule(
        &mut self,
        rule: &EtherRule,
        span: Span,
        rules: &mut Rules,
    ) -> Expanded<()> {
        self.cannot_run(span, "`ether`");
        self.ether_product(&rule.filter, rule.action, None, span, rules)
    }

    pub(super) fn ether_product(
        &mut self,
        filter: &EtherFilter,
        action: EtherAction,
        anchor: Option<&AnchorCall>,
        span: Span,
        rules: &mut Rules,
    ) -> Expanded<()> {
        let interfaces = self.interfaces(&filter.interfaces);
        let from = self.hosts(&filter.l3_from)?;
        let to = self.hosts(&filter.l3_to)?;
        let protocols = any_or(filter.protocols.iter().copied());
        let (macs_from, macs_to) = (macs(&filter.from), macs(&filter.to));
        let sizes = [interfaces.len(), from.len(), to.len(), protocols.len()];
        let sizes = sizes.into_iter().chain([macs_from.len(), macs_to.len()]);
        let count = sizes.fold(1_usize, usize::saturating_mul);
        let max = self.limits.rule_count_max;
        if self.rule_count.saturating_add(count) > max {
            let message = format!("the lists multiply to more rules than the limit of {max}");
            return self.fail(Code::Limit, span, &message);
        }
        let before = rules.ether.len();
        for interface in &interfaces {
            for protocol in &protocols {
                for (mac_from, mac_to) in
                    macs_from.iter().flat_map(|from| macs_to.iter().map(move |to| (from, to)))
                {
                    for (l3_from, l3_to) in
                        from.iter().flat_map(|from| to.iter().map(move |to| (from, to)))
                    {
                        if l3_from.af.is_some() && l3_to.af.is_some() && l3_from.af != l3_to.af {
                            continue;
                        }
                        let peer = |found: &super::address::Found| Peer {
                            not: found.not,
                            address: found.address.clone(),
                            port: None,
                        };
                        self.rule_count += 1;
                        rules.ether.push(ir::EtherRule {
                            span,
                            action,
                            anchor: anchor.cloned(),
                            direction: filter.direction,
                            quick: filter.quick,
                            interface: interface.clone(),
                            bridge_to: filter.bridge_to.clone(),
                            protocol: *protocol,
                            from: *mac_from,
                            to: *mac_to,
                            af: l3_from.af.or(l3_to.af),
                            l3_from: peer(l3_from),
                            l3_to: peer(l3_to),
                            options: filter.options.clone(),
                        });
                    }
                }
            }
        }
        if rules.ether.len() == before {
            let message = "the rule expands to no valid combination";
            self.diagnostics.push(Diagnostic::error(Code::NoCombination, span, message));
        }
        Ok(())
    }
}

fn macs(list: &[MacHost]) -> Vec<Option<MacHost>> {
    any_or(list.iter().copied())
}

fn any_or<T>(list: impl Iterator<Item = T>) -> Vec<Option<T>> {
    let list: Vec<Option<T>> = list.map(Some).collect();
    if list.is_empty() { vec![None] } else { list }
}
