//! The product of a rule's lists.

use weir_wire::protocol::TCP;

use super::address::Found;
use super::template::Template;
use super::{Expanded, Expander, Reported};
use crate::ast::IcmpType;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Address, IcmpMatch, Interface, Peer, Route, Rule, Rules};
use crate::value::{Af, Comparison, KeepState, Text};

/// One choice from each list.
#[derive(Clone, Copy)]
struct Choice<'a> {
    interface: &'a Option<Interface>,
    protocol: Option<u8>,
    icmp: &'a Option<IcmpType>,
    from: &'a Found,
    to: &'a Found,
    from_port: Option<Comparison<u16>>,
    os: &'a Option<Text>,
    to_port: Option<Comparison<u16>>,
    user: Option<Comparison<u32>>,
    group: Option<Comparison<u32>>,
}

impl Expander<'_> {
    pub(super) fn product(&mut self, template: &Template<'_>, rules: &mut Rules) -> Expanded<()> {
        self.check_size(template)?;
        let lists = &template.lists;
        let mut added = 0_usize;
        for interface in &lists.interfaces {
            for protocol in &lists.protocols {
                for icmp in &lists.icmp {
                    for from in &lists.from {
                        for to in &lists.to {
                            let choice = Choice {
                                interface,
                                protocol: *protocol,
                                icmp,
                                from,
                                to,
                                from_port: None,
                                os: &None,
                                to_port: None,
                                user: None,
                                group: None,
                            };
                            added += self.ports_product(template, choice, rules)?;
                        }
                    }
                }
            }
        }
        if added == 0 {
            self.diagnostics.push(no_combination(template));
            return Err(Reported);
        }
        Ok(())
    }

    /// The inner lists, under one choice of the outer ones.
    fn ports_product(
        &mut self,
        template: &Template<'_>,
        mut choice: Choice<'_>,
        rules: &mut Rules,
    ) -> Expanded<usize> {
        let lists = &template.lists;
        let Some(af) = family(template.base.af, &choice) else {
            return Ok(0);
        };
        let mut added = 0;
        for from_port in &lists.from_ports {
            for os in &lists.os {
                for to_port in &lists.to_ports {
                    for user in &lists.users {
                        for group in &lists.groups {
                            choice.from_port = *from_port;
                            choice.to_port = *to_port;
                            choice.user = *user;
                            choice.group = *group;
                            let choice = Choice { os, ..choice };
                            self.combination(template, choice, af, rules)?;
                            added += 1;
                        }
                    }
                }
            }
        }
        Ok(added)
    }

    /// Refuses a product over the limit before anything is multiplied.
    fn check_size(&mut self, template: &Template<'_>) -> Expanded<()> {
        let lists = &template.lists;
        let sizes = [
            (lists.interfaces.len(), "interfaces"),
            (lists.protocols.len(), "protocols"),
            (lists.icmp.len(), "ICMP types"),
            (lists.from.len(), "sources"),
            (lists.to.len(), "destinations"),
            (lists.from_ports.len(), "source ports"),
            (lists.os.len(), "operating systems"),
            (lists.to_ports.len(), "destination ports"),
            (lists.users.len(), "users"),
            (lists.groups.len(), "groups"),
        ];
        let count = sizes.iter().try_fold(1_usize, |product, (size, _)| product.checked_mul(*size));
        let max = self.limits.rule_count_max;
        let total = count.and_then(|count| count.checked_add(self.rule_count));
        if total.is_some_and(|total| total <= max) {
            return Ok(());
        }
        let factors: Vec<String> = sizes
            .iter()
            .filter(|(size, _)| *size > 1)
            .map(|(size, name)| format!("{size} {name}"))
            .collect();
        let product = match count {
            Some(count) => format!("{} = {count} rules", factors.join(" × ")),
            None => factors.join(" × "),
        };
        let message = format!(
            "the lists multiply to more rules than the limit of {max}: {product}, after {} before",
            self.rule_count
        );
        let problem = Diagnostic::error(Code::Limit, template.base.span, message);
        self.diagnostics.push(problem.help("put the addresses into a table"));
        Err(Reported)
    }

    fn combination(
        &mut self,
        template: &Template<'_>,
        choice: Choice<'_>,
        af: Option<Af>,
        rules: &mut Rules,
    ) -> Expanded<()> {
        let mut rule = template.base.clone();
        rule.af = af;
        // As with pfctl, a link-local address without an interface is that of its own; `on rdomain`
        // takes the interface's place.
        let scope = choice.from.scope.as_ref().or(choice.to.scope.as_ref());
        let scope = scope.filter(|_| rule.rdomain.is_none());
        let of_scope = scope.map(|name| Interface { not: false, name: name.clone() });
        rule.interface = choice.interface.clone().or(of_scope);
        rule.protocol = choice.protocol;
        rule.from = peer(choice.from, choice.from_port, rule.af);
        rule.to = peer(choice.to, choice.to_port, rule.af);
        rule.os.clone_from(choice.os);
        rule.user = choice.user;
        rule.group = choice.group;
        if let Some(icmp) = choice.icmp {
            rule.icmp = Some(IcmpMatch { kind: icmp.kind, code: icmp.code });
        }
        if rule.protocol.is_some_and(|protocol| protocol != TCP) {
            rule.options.flags = None;
            if matches!(rule.options.keep_state, Some(KeepState::Modulate | KeepState::Synproxy)) {
                rule.options.keep_state = Some(KeepState::Keep);
            }
        }
        self.pools(template, &mut rule)?;
        self.check(&rule, template.filter, choice.icmp.as_ref())?;
        let list = template.list.of(rules);
        let number = list.len();
        self.expand_labels(&mut rule, number)?;
        self.rule_count += 1;
        template.list.of(rules).push(rule);
        Ok(())
    }

    fn pools(&mut self, template: &Template<'_>, rule: &mut Rule) -> Expanded<()> {
        let translated = rule.af_to.or(rule.af);
        let redirected = rule.to.port;
        let mut af = translated;
        if let Some(nat) = &template.nat {
            let (pool, family) = self.pool_of(nat, af, None)?;
            af = af.or(family);
            rule.nat = Some(Box::new(pool));
        }
        if let Some(rdr) = &template.rdr {
            let (pool, family) = self.pool_of(rdr, af, redirected)?;
            af = af.or(family);
            rule.rdr = Some(Box::new(pool));
        }
        if let Some((kind, route)) = &template.route {
            let (pool, family) = self.pool_of(route, af, None)?;
            af = af.or(family);
            rule.route = Some(Box::new(Route { kind: *kind, pool }));
        }
        if rule.af_to.is_none() {
            rule.af = af;
        }
        Ok(())
    }
}

/// The family of a combination; `None` if there is none.
#[expect(clippy::option_option, reason = "no family is a family: any")]
fn family(af: Option<Af>, choice: &Choice<'_>) -> Option<Option<Af>> {
    let mut families = [af, choice.from.af, choice.to.af].into_iter().flatten();
    let first = families.next();
    if families.any(|other| Some(other) != first) {
        return None;
    }
    let scopes = [&choice.from.scope, &choice.to.scope];
    let mut scopes = scopes.into_iter().flatten();
    if let Some(scope) = scopes.next() {
        let on = choice.interface.as_ref().map(|interface| &interface.name);
        if scopes.any(|other| other != scope) || on.is_some_and(|on| on != scope) {
            return None;
        }
    }
    Some(first)
}

/// Why no combination of a rule's lists is valid: the words that exclude each other.
fn no_combination(template: &Template<'_>) -> Diagnostic {
    let (filter, lists) = (template.filter, &template.lists);
    let (from, to) = (only_family(&lists.from), only_family(&lists.to));
    let error = |span, this: Af, other: Af, what| {
        let (this, other) = (this.as_str(), other.as_str());
        let message =
            format!("the rule expands to no valid combination: this is {this}, and {what} {other}");
        Diagnostic::error(Code::NoCombination, span, message)
    };
    for (family, hosts) in [(from, &filter.from.hosts), (to, &filter.to.hosts)] {
        if let (Some(family), Some(host), Some(af)) = (family, hosts.first(), &filter.af)
            && family != af.value
        {
            let problem = error(host.span, family, af.value, "the rule is");
            return problem.related(af.span, "the rule's address family");
        }
    }
    if let (Some(from), Some(to)) = (from, to)
        && let (Some(first), Some(second)) = (filter.from.hosts.first(), filter.to.hosts.first())
        && from != to
    {
        return error(second.span, to, from, "`from` is").related(first.span, "the other address");
    }
    let message = "the rule expands to no valid combination";
    let help = "the address families of its addresses, or the interface of a link-local one, \
                exclude each other";
    Diagnostic::error(Code::NoCombination, template.base.span, message).help(help)
}

/// The family of all of a list.
fn only_family(found: &[Found]) -> Option<Af> {
    let first = found.first()?.af?;
    found.iter().all(|found| found.af == Some(first)).then_some(first)
}

fn peer(found: &Found, port: Option<Comparison<u16>>, af: Option<Af>) -> Peer {
    let mut address = found.address.clone();
    match &mut address {
        Address::Dynamic(dynamic) if af == Some(Af::Inet) && dynamic.bits > 32 => {
            dynamic.bits = 128;
        }
        // The whole family is any address: the rule's family says which.
        Address::Network(_, 0) => address = Address::Any,
        _ => {}
    }
    Peer { not: found.not, address, port }
}
