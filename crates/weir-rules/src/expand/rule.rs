//! Rules, anchors and `antispoof`: what is the same in every combination of their lists.

use weir_wire::protocol::TCP;

use super::address::{Found, interface_addresses};
use super::pool::{PoolTemplate, PoolUse};
use super::template::{Lists, RuleList, Template};
use super::{Expanded, Expander, Reported, keeps};
use crate::ast::{self, TranslateToKind, Translation};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{self, Action, AnchorCall, Rules};
use crate::source::Span;
use crate::value::{Af, BlockReturn, Divert, KeepState, Modifiers, RuleOptions, TcpFlags, Text};

impl Expander<'_> {
    pub(super) fn rule(&mut self, rule: &ast::Rule, span: Span, rules: &mut Rules) -> Expanded<()> {
        let (action, list) = match rule.action.value {
            ast::Action::Pass => (Action::Pass, RuleList::Filter),
            ast::Action::Block(policy) => {
                let policy = policy.unwrap_or(self.ruleset.settings.block_policy);
                (Action::Block(policy), RuleList::Filter)
            }
            ast::Action::Match => (Action::Match, RuleList::Filter),
            ast::Action::Scrub { no: false } => (Action::Scrub, RuleList::Scrub),
            ast::Action::Scrub { no: true } => (Action::NoScrub, RuleList::Scrub),
            ast::Action::Translate { kind, no, pass } => {
                (Action::Translate { kind, no, pass }, RuleList::Translate(kind))
            }
        };
        let mut base = ir::Rule::new(action, span);
        self.common(&mut base, &rule.filter);
        base.options = self.options(&rule.filter, action)?;
        self.divert(&rule.filter, &mut base.options)?;
        let mut template = Template::new(base, list, &rule.filter);
        template.lists = self.lists(&rule.filter)?;
        self.check_flags(&rule.filter, &template.lists)?;
        if let Some(target) = &rule.target {
            let kind = match rule.action.value {
                ast::Action::Translate { kind, .. } => kind,
                _ => Translation::Nat,
            };
            let pool = self.pool(target, PoolUse::of(kind))?;
            // As pfctl, the first address after `->` gives the rule its family.
            let first = target.hosts.first().and_then(|host| host.host.as_ref());
            if let Some(ast::HostKind::Address(address, _)) = first.map(|host| &host.kind) {
                let af = if address.is_ipv4() { Af::Inet } else { Af::Inet6 };
                template.base.af = template.base.af.or(Some(af));
            }
            if kind == Translation::Binat {
                self.check_binat(rule, target, &template, &pool)?;
            }
            match kind {
                Translation::Rdr => template.rdr = Some(pool),
                Translation::Nat | Translation::Binat => template.nat = Some(pool),
            }
        }
        if let Some(route) = &rule.filter.route {
            let pool = self.pool(&route.pool, PoolUse::Route)?;
            template.route = Some((route.kind.value, pool));
        }
        self.translations(&rule.filter, template, rules)
    }

    /// Flags need a rule that TCP can match: in a list with other protocols, they hold for TCP.
    fn check_flags(&mut self, filter: &ast::Filter, lists: &Lists) -> Expanded<()> {
        let is_tcp = |protocol: &Option<u8>| protocol.is_none_or(|protocol| protocol == TCP);
        let flags = filter.options.flags.filter(|flags| *flags != TcpFlags::ANY);
        if flags.is_some() && !lists.protocols.iter().any(is_tcp) {
            let span = filter.option_span("flags").unwrap_or_default();
            return self.fail(Code::Inconsistent, span, "flags only apply to tcp");
        }
        Ok(())
    }

    /// `nat-to` and its like; `binat-to` makes two rules of one.
    fn translations(
        &mut self,
        filter: &ast::Filter,
        mut template: Template<'_>,
        rules: &mut Rules,
    ) -> Expanded<()> {
        let mut binat = None;
        for translation in &filter.translations {
            let span = translation.kind.span;
            let free = template.nat.is_none() && template.rdr.is_none() && binat.is_none();
            match translation.kind.value {
                TranslateToKind::Nat if template.nat.is_none() && binat.is_none() => {
                    template.nat = Some(self.pool(&translation.pool, PoolUse::Nat)?);
                }
                TranslateToKind::Rdr if template.rdr.is_none() && binat.is_none() => {
                    template.rdr = Some(self.pool(&translation.pool, PoolUse::Rdr)?);
                }
                TranslateToKind::Af(af) if free => {
                    template.base.af_to = Some(af);
                    template.nat = Some(self.pool(&translation.pool, PoolUse::AfToSource)?);
                    if let Some(to) = &translation.to {
                        template.rdr = Some(self.pool(to, PoolUse::AfToDestination)?);
                    }
                }
                TranslateToKind::Binat if free => {
                    binat = Some(self.pool(&translation.pool, PoolUse::Binat)?);
                }
                _ => {
                    let message = "these translations do not go together";
                    return self.fail(Code::Inconsistent, span, message);
                }
            }
        }
        match binat {
            Some(pool) => self.binat_to(filter, template, pool, rules),
            None => self.product(&template, rules),
        }
    }

    /// `binat-to`: out, the source becomes the address; in, the address becomes the source again.
    fn binat_to(
        &mut self,
        filter: &ast::Filter,
        mut template: Template<'_>,
        mut pool: PoolTemplate,
        rules: &mut Rules,
    ) -> Expanded<()> {
        let span = filter
            .translations
            .first()
            .map_or(template.base.span, |translation| translation.kind.span);
        // An interface has addresses of both families.
        let af = template.base.af.or(template.lists.from.first().and_then(|source| source.af));
        let fits = |found: &Found| found.af.is_none() || af.is_none() || found.af == af;
        pool.hosts.retain(|(_, host)| host.as_ref().is_none_or(fits));
        let [(None, Some(outside))] = &pool.hosts[..] else {
            return self.fail(Code::BadPool, span, "`binat-to` takes one address");
        };
        let [inside] = &template.lists.from[..] else {
            return self.fail(Code::BadPool, span, "`binat-to` takes one source");
        };
        let (outside, inside) = (outside.clone(), inside.clone());
        let is_network = |address: &ir::Address| match address {
            ir::Address::Network(_, bits) => Some(Some(*bits)),
            ir::Address::Dynamic(_) => Some(None),
            _ => None,
        };
        let bits = (is_network(&inside.address), is_network(&outside.address));
        let fits = match bits {
            (Some(Some(inside)), Some(Some(outside))) => inside == outside,
            (Some(_), Some(_)) => true,
            _ => false,
        };
        if inside.not || !fits {
            let message = "`binat-to` needs two addresses or two networks of one size";
            return self.fail(Code::BadPool, span, message);
        }
        let direction = template.base.direction;
        if direction != Some(crate::value::Direction::In) {
            let mut out = template.clone();
            out.base.direction = Some(crate::value::Direction::Out);
            let purpose = PoolUse::Nat;
            out.nat = Some(PoolTemplate { static_port: true, purpose, ..pool.clone() });
            self.product(&out, rules)?;
        }
        if direction != Some(crate::value::Direction::Out) {
            let purpose = PoolUse::Rdr;
            let back = PoolTemplate { hosts: vec![(None, Some(inside))], purpose, ..pool };
            template.base.direction = Some(crate::value::Direction::In);
            template.rdr = Some(back);
            std::mem::swap(&mut template.lists.from, &mut template.lists.to);
            std::mem::swap(&mut template.lists.from_ports, &mut template.lists.to_ports);
            template.lists.to = vec![outside];
            self.product(&template, rules)?;
        }
        Ok(())
    }

    fn check_binat(
        &mut self,
        rule: &ast::Rule,
        target: &ast::Pool,
        template: &Template<'_>,
        pool: &PoolTemplate,
    ) -> Expanded<()> {
        let filter = &rule.filter;
        let sources = &template.lists.from;
        let af = template.base.af.or(sources.first().and_then(|source| source.af));
        let fits = |found: &&Found| found.af.is_none() || af.is_none() || found.af == af;
        let outside: Vec<&Found> =
            pool.hosts.iter().filter_map(|host| host.1.as_ref()).filter(fits).collect();
        let is_many = |found: &Found| match &found.address {
            ir::Address::Table(_) => true,
            ir::Address::Dynamic(dynamic) => dynamic.may_be_several(),
            _ => false,
        };
        let bits = |found: &Found| match found.address {
            ir::Address::Network(_, bits) => Some(bits),
            _ => None,
        };
        let source = sources.first().filter(|source| source.address != ir::Address::Any);
        let (inside_bits, outside_bits) =
            (source.and_then(bits), outside.first().and_then(|outside| bits(outside)));
        let differ = inside_bits.is_some() && outside_bits.is_some() && inside_bits != outside_bits;
        let problem = if filter.interfaces.len() > 1 || filter.protocols.len() > 1 {
            "`binat` takes one interface and one protocol"
        } else if sources.len() > 1 || outside.len() > 1 {
            "`binat` takes one source and one address"
        } else if sources.iter().chain(outside.iter().copied()).any(is_many) {
            "`binat` takes no table, and no `(interface)` that may have several addresses"
        } else if !filter.from.ports.is_empty() || target.ports.is_some() {
            "`binat` takes no ports"
        } else if differ {
            "the source and the address of `binat` must have one prefix length"
        } else {
            return Ok(());
        };
        self.fail(Code::BadPool, rule.action.span, problem)
    }

    /// Everything that is no list and no option.
    fn common(&mut self, base: &mut ir::Rule, filter: &ast::Filter) {
        base.direction = filter.direction;
        base.log = filter.log;
        base.quick = filter.quick;
        base.rdomain = filter.rdomain;
        base.af = filter.af.as_ref().map(|af| af.value);
        if let Some(received_on) = &filter.received_on {
            self.interface_known(&received_on.name.value, received_on.name.span);
            base.received_on =
                Some(ir::Interface { not: received_on.not, name: received_on.name.value.clone() });
        }
    }

    pub(super) fn lists(&mut self, filter: &ast::Filter) -> Expanded<Lists> {
        let icmp = filter.icmp.iter().cloned().map(Some).collect::<Vec<_>>();
        let os = self.systems(&filter.os)?;
        let from = self.hosts(&filter.from.hosts);
        let to = self.hosts(&filter.to.hosts);
        let from_ports = self.ports(&filter.from.ports);
        let to_ports = self.ports(&filter.to.ports);
        Ok(Lists {
            interfaces: self.interfaces(&filter.interfaces),
            protocols: self.protocols(&filter.protocols)?,
            icmp: if icmp.is_empty() { vec![None] } else { icmp },
            from: from?,
            to: to?,
            from_ports: from_ports?,
            os,
            to_ports: to_ports?,
            users: self.identities(&filter.users, false)?,
            groups: self.identities(&filter.groups, true)?,
        })
    }

    /// The options with the defaults that the action has.
    fn options(&mut self, filter: &ast::Filter, action: Action) -> Expanded<RuleOptions> {
        let mut options = filter.options.clone();
        let implied = options.keep_state.is_none() && action == Action::Pass;
        if implied {
            options.keep_state = Some(KeepState::Keep);
            options.state = self.state_defaults.clone().map(Box::new);
        }
        if options.keep_state == Some(KeepState::No) && action != Action::Pass {
            options.keep_state = None;
        }
        self.state_options(&mut options, filter)?;
        let is_stateful = keeps(options.keep_state);
        if options.flags.is_none() && is_stateful && !options.fragment {
            options.flags = Some(TcpFlags::SYN);
        }
        if options.flags == Some(TcpFlags::ANY) && !is_stateful {
            options.flags = None;
        }
        for limiter in &mut options.limiters {
            if let crate::value::LimiterName::Name(name) = &limiter.limiter {
                let Some(id) = self.limiters.get(&(limiter.kind, name.clone())) else {
                    let span = filter.option_span("limiter").unwrap_or_default();
                    let message = format!("limiter `{name}` is not defined");
                    let known = self.limiters.keys().map(|(_, limiter)| &**limiter);
                    let problem = Diagnostic::error(Code::BadValue, span, message);
                    let problem = problem.nearest(name, known);
                    self.diagnostics.push(Diagnostic { suggestion: None, ..problem });
                    return Err(Reported);
                };
                limiter.limiter = crate::value::LimiterName::Id(*id);
            }
        }
        if let Some((_, seconds)) = options.max_pkt_rate.map(|rate| (rate.limit, rate.seconds)) {
            debug_assert!(seconds > 0, "the parser takes no rate over no time");
        }
        options.scrub = options.scrub.filter(|scrub| !scrub.is_empty());
        Ok(options)
    }

    fn divert(&mut self, filter: &ast::Filter, options: &mut RuleOptions) -> Expanded<()> {
        if let Some(name) = &filter.divert_port {
            let port = self.port(&name.value, name.span)?;
            options.divert = match options.divert {
                Some(Divert::To(host, _)) => Some(Divert::To(host, port)),
                Some(Divert::Packet(_)) => Some(Divert::Packet(port)),
                other => other,
            };
        }
        let Some(host) = &filter.divert_host else {
            return Ok(());
        };
        let mut found = Vec::new();
        self.host(host, &mut found)?;
        let af = filter.af.as_ref().map(|af| af.value);
        let address = found.iter().find_map(|found| match found.address {
            ir::Address::Network(address, _) if af.is_none() || found.af == af => Some(address),
            _ => None,
        });
        let (Some(address), Some(Divert::To(_, port))) = (address, options.divert) else {
            let message = "`divert-to` needs an address of the rule's family";
            return self.fail(Code::BadAddress, host.span, message);
        };
        options.divert = Some(Divert::To(Some(address), port));
        Ok(())
    }

    pub(super) fn anchor(
        &mut self,
        anchor: &ast::Anchor,
        span: Span,
        rules: &mut Rules,
    ) -> Expanded<()> {
        let name = anchor.name.as_ref().map(|name| name.value.clone());
        let mut body = None;
        if let Some(statements) = &anchor.body {
            let path = name.clone().unwrap_or_else(|| "_".into());
            self.anchor_path.push(path);
            body = Some(Box::new(self.statements(statements)));
            self.anchor_path.pop();
        }
        let call = AnchorCall { kind: anchor.kind, name, body };
        let list = match anchor.kind {
            ast::AnchorKind::Filter => RuleList::Filter,
            ast::AnchorKind::Translate(kind) => RuleList::Translate(kind),
            ast::AnchorKind::Ether => {
                let filter = anchor.ether.clone().unwrap_or_default();
                return self.ether_product(
                    &filter,
                    ast::EtherAction::Pass,
                    Some(&call),
                    span,
                    rules,
                );
            }
        };
        let mut base = ir::Rule::new(Action::Pass, span);
        base.anchor = Some(call);
        self.common(&mut base, &anchor.filter);
        let filter = &anchor.filter;
        let refused = filter.option_spans.iter().find(|(name, _)| {
            matches!(*name, "state" | "translation" | "route" | "scrub" | "set" | "once")
        });
        if let Some((name, at)) = refused {
            let message = format!("an anchor takes no `{name}`");
            return self.fail(Code::Inconsistent, *at, &message);
        }
        base.options = filter.options.clone();
        if base.options.flags == Some(TcpFlags::ANY) {
            base.options.flags = None;
        }
        let mut template = Template::new(base, list, filter);
        template.lists = self.lists(filter)?;
        self.product(&template, rules)
    }

    /// Two rules for each interface: its network elsewhere, and its own address. As with pfctl,
    /// none where it has no address.
    pub(super) fn antispoof(
        &mut self,
        antispoof: &ast::Antispoof,
        span: Span,
        rules: &mut Rules,
    ) -> Expanded<()> {
        let filter = ast::Filter::default();
        let mut base = ir::Rule::new(Action::Block(BlockReturn::Drop), span);
        base.direction = Some(crate::value::Direction::In);
        base.log = antispoof.log;
        base.quick = antispoof.quick;
        base.af = antispoof.af;
        base.options.labels.clone_from(&antispoof.labels);
        base.options.ridentifier = antispoof.ridentifier;
        base.options.rtable = antispoof.rtable;
        for interface in &antispoof.interfaces {
            let name: Text = interface.name.value.clone();
            let network = Modifiers { network: true, ..Modifiers::default() };
            let facts = self.resolver.interfaces().iter().find(|interface| interface.name == *name);
            let is_loopback = facts.is_some_and(|facts| facts.is_loopback);
            let elsewhere = ir::Interface { not: true, name: name.clone() };
            let mut parts = vec![(Some(elsewhere), network)];
            if !is_loopback {
                parts.push((None, Modifiers::default()));
            }
            for (on, modifiers) in parts {
                let kind = if interface.is_dynamic {
                    ast::HostKind::Dynamic(name.clone(), modifiers)
                } else if interface_addresses(self.resolver, &name, modifiers).is_empty() {
                    self.unspoofed(&name, interface.name.span);
                    continue;
                } else {
                    ast::HostKind::Name(name.clone(), modifiers)
                };
                let host = ast::Host {
                    span: interface.name.span,
                    not: false,
                    kind,
                    bits: None,
                    weight: None,
                };
                let mut template = Template::new(base.clone(), RuleList::Filter, &filter);
                template.lists.interfaces = vec![on];
                template.lists.from = self.hosts(&[host])?;
                self.product(&template, rules)?;
            }
        }
        Ok(())
    }
}
