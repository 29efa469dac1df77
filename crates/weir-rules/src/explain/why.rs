//! What a rule failed at, in words, with the packet's value and the rule's.

use weir_wire::protocol::{self, ICMP6};

use crate::evaluate::{Criterion, Evaluator, Packet, RuleRef, Seen, flag_letters};
use crate::ir::{Address, Interface, Peer};
use crate::names;
use crate::print::{address as address_text, ip};
use crate::value::{Comparison, Direction, Operator};

pub(super) struct Narrator<'a> {
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(super) packet: &'a Packet,
}

impl Narrator<'_> {
    pub(super) fn why(&self, found: &RuleRef<'_>, criterion: Criterion, seen: &Seen<'_>) -> String {
        let (rule, packet, options) = (found.rule, self.packet, &found.rule.options);
        match criterion {
            Criterion::Once => "it is a `once` rule, and has had its match".into(),
            Criterion::Interface => interface("is on", &packet.interface, rule.interface.as_ref()),
            Criterion::Direction => format!("{}, the rule is for {}", self.goes(), self.other()),
            Criterion::Rdomain => {
                let (not, expected) = rule.rdomain.unwrap_or_default();
                let but = if not { "all but " } else { "" };
                format!("routing domain is {}, the rule is for {but}{expected}", packet.rdomain)
            }
            Criterion::Family => {
                let expected = rule.af.map_or("any", |af| af.as_str());
                format!("the packet is {}, the rule is for {expected}", packet.af().as_str())
            }
            Criterion::Protocol => {
                let expected = rule.protocol.unwrap_or(0);
                let (is, expected) = (self.protocol(packet.protocol), self.protocol(expected));
                format!("protocol is {is}, not {expected}")
            }
            Criterion::Source => {
                // `binat` compares its `to` with the source of what comes in.
                let comes_back = found.list == crate::evaluate::List::Binat
                    && packet.direction == Direction::In
                    && rule.anchor.is_none();
                let peer = if comes_back { &rule.to } else { &rule.from };
                self.address("source", seen.subject.source.into(), peer, found)
            }
            Criterion::Destination => {
                self.address("destination", seen.subject.destination.into(), &rule.to, found)
            }
            Criterion::BinatAddress => {
                let outside = rule.nat.as_ref().and_then(|pool| pool.hosts.first());
                let outside = outside.and_then(|host| host.address.as_ref());
                let outside =
                    outside.map_or("nothing".into(), |outside| address_text(outside, rule.af));
                let is = ip(seen.subject.destination.into());
                format!("destination {is} is not in {outside}, the outer address")
            }
            Criterion::FragmentBlind => {
                "a fragment does not show the ports, flags or types that the rule looks at".into()
            }
            Criterion::Flags => {
                let flags = options.flags.unwrap_or(crate::value::TcpFlags::ANY);
                let (set, mask) = (flag_letters(flags.set), flag_letters(flags.mask));
                let set = if flags.set == 0 { String::new() } else { set };
                format!("TCP flags {} are not {set}/{mask}", flag_letters(seen.tcp_flags))
            }
            Criterion::SourcePort => port("source port", seen.subject.source_port, rule.from.port),
            Criterion::DestinationPort => {
                port("destination port", seen.subject.destination_port, rule.to.port)
            }
            other => self.rare(found, other, seen),
        }
    }

    fn rare(&self, found: &RuleRef<'_>, criterion: Criterion, seen: &Seen<'_>) -> String {
        let (rule, packet, options) = (found.rule, self.packet, &found.rule.options);
        match criterion {
            Criterion::User => identity("user", packet.user, rule.user),
            Criterion::Group => identity("group", packet.group, rule.group),
            Criterion::IcmpType => {
                let expected = rule.icmp.map_or(0, |icmp| icmp.kind);
                let (is, expected) = (self.icmp_type(packet.icmp.kind), self.icmp_type(expected));
                format!("ICMP type is {is}, not {expected}")
            }
            Criterion::IcmpCode => {
                let expected = rule.icmp.and_then(|icmp| icmp.code).unwrap_or(0);
                let kind = packet.icmp.kind;
                let is = self.icmp_code(kind, packet.icmp.code);
                format!("ICMP code is {is}, not {}", self.icmp_code(kind, expected))
            }
            Criterion::IcmpReply => {
                let kind = self.icmp_type(packet.icmp.kind);
                format!("ICMP {kind} is a reply, and the rule keeps state, which replies need")
            }
            Criterion::Fragment => {
                "the packet is not a fragment, and the rule is for fragments".into()
            }
            Criterion::Tos => {
                let expected = options.tos.unwrap_or(0);
                format!("tos is {:#04x} without ECN, not {expected:#04x}", packet.tos & !3)
            }
            Criterion::Tag => {
                let is = seen.tag.map_or("no tag".to_owned(), |tag| format!("the tag {tag}"));
                let expected = options.tagged.as_ref();
                let (not, tag) = expected.map_or((false, ""), |(not, tag)| (*not, &**tag));
                let but = if not { "any but " } else { "" };
                format!("the packet has {is}, the rule is for {but}{tag}")
            }
            Criterion::ReceivedOn => {
                let is = packet.received_on.as_deref().unwrap_or("none");
                interface("came in on", is, rule.received_on.as_ref())
            }
            Criterion::Prio => {
                let is = packet.prio.map_or("none".to_owned(), |prio| prio.to_string());
                format!("priority is {is}, not {}", options.prio.unwrap_or(0))
            }
            Criterion::Os => {
                let is = self.evaluator.os_of(packet);
                let expected = rule.os.as_deref().unwrap_or("any");
                format!("operating system is {is}, not {expected}")
            }
            Criterion::Probability(drawn) => {
                let chance = f64::from(options.probability.unwrap_or(0)) / f64::from(u32::MAX);
                let drawn = f64::from(drawn) / f64::from(u32::MAX);
                format!("chance: {:.1} % was drawn, not under {:.1} %", drawn * 1e2, chance * 1e2)
            }
            Criterion::PacketRate => match options.max_pkt_rate {
                Some(rate) => {
                    format!("more than {} packets in {} s", rate.limit, rate.seconds)
                }
                None => "too many packets".into(),
            },
            Criterion::Limiter(_) => "a limiter of the rule has no room".into(),
            other => format!("{} does not hold", other.as_str()),
        }
    }

    fn goes(&self) -> &'static str {
        match self.packet.direction {
            Direction::In => "the packet goes in",
            Direction::Out => "the packet goes out",
        }
    }

    fn other(&self) -> &'static str {
        if self.packet.direction == Direction::In { "out" } else { "in" }
    }

    fn protocol(&self, number: u8) -> String {
        protocol::word(number).map_or_else(|| self.named(number), Into::into)
    }

    fn named(&self, number: u8) -> String {
        let name = self.evaluator.protocol_name(number);
        name.map_or_else(|| number.to_string(), |name| name.to_string())
    }

    fn icmp_type(&self, kind: u8) -> String {
        let name = names::icmp_type_name(kind, self.packet.protocol == ICMP6);
        name.map_or_else(|| kind.to_string(), |name| format!("{name} ({kind})"))
    }

    fn icmp_code(&self, kind: u8, code: u8) -> String {
        let name = names::icmp_code_name(kind, code, self.packet.protocol == ICMP6);
        name.map_or_else(|| code.to_string(), |name| format!("{name} ({code})"))
    }

    fn address(&self, what: &str, is: std::net::IpAddr, peer: &Peer, rule: &RuleRef<'_>) -> String {
        let text = address_text(&peer.address, rule.rule.af);
        let shown = ip(is);
        match (&peer.address, peer.not) {
            (Address::Any, true) => format!("{what} {shown} is an address, which `! any` excludes"),
            (Address::NoRoute, false) => format!("{what} {shown} has a route"),
            (Address::NoRoute, true) => format!("{what} {shown} has no route"),
            (Address::UrpfFailed, not) => {
                let leads = if not { "does not lead" } else { "leads" };
                format!("the route to {shown} {leads} out of {}", self.packet.interface)
            }
            (Address::RouteLabel(label), not) => {
                let has = if not { "has" } else { "does not have" };
                format!("the route to {shown} {has} the label {label}")
            }
            (Address::Unresolved(name), _) => {
                format!("the rule's {name} could not be looked up, and holds nothing")
            }
            (Address::Table(name), not) => {
                let entry = self.evaluator.table_entry(rule.anchor, name, is);
                let entry = match entry {
                    None => "no entry covers it".to_owned(),
                    Some((network, bits, true)) => format!("its entry is !{}/{bits}", ip(network)),
                    Some((network, bits, false)) => format!("its entry is {}/{bits}", ip(network)),
                };
                let is_in = if not { "is in" } else { "is not in" };
                format!("{what} {shown} {is_in} <{name}>: {entry}")
            }
            (Address::Dynamic(dynamic), not) => {
                let found = self.evaluator.networks_of(dynamic);
                let found: Vec<_> = found
                    .iter()
                    .map(|(network, bits)| match (network.is_ipv4(), bits) {
                        (true, 32) | (false, 128) => ip(*network),
                        _ => format!("{}/{bits}", ip(*network)),
                    })
                    .collect();
                let found = if found.is_empty() { "no address".into() } else { found.join(", ") };
                let is_in = if not { "is in" } else { "is not in" };
                format!("{what} {shown} {is_in} {text}, which is {found}")
            }
            (_, true) => format!("{what} {shown} is in {text}, which the rule excludes"),
            (_, false) => format!("{what} {shown} is not in {text}"),
        }
    }
}

fn interface(verb: &str, is: &str, criterion: Option<&Interface>) -> String {
    match criterion {
        Some(interface) if interface.not => {
            format!("the packet {verb} {is}, the rule is for all but {}", interface.name)
        }
        Some(interface) => format!("the packet {verb} {is}, the rule is for {}", interface.name),
        None => format!("the packet {verb} {is}"),
    }
}

fn port(what: &str, is: u16, comparison: Option<Comparison<u16>>) -> String {
    match comparison {
        Some(ports) => format!("{what} {is} is {}", unlike(ports)),
        None => format!("the packet has no {what}"),
    }
}

/// How a number fails a comparison, behind "is".
fn unlike<N: std::fmt::Display>(comparison: Comparison<N>) -> String {
    let (first, second) = (comparison.first, comparison.second);
    match comparison.operator {
        Operator::Equal => format!("not {first}"),
        Operator::NotEqual => format!("{first}, which the rule excludes"),
        Operator::Less => format!("not < {first}"),
        Operator::LessEqual => format!("not <= {first}"),
        Operator::Greater => format!("not > {first}"),
        Operator::GreaterEqual => format!("not >= {first}"),
        Operator::Inside => format!("not in {first} >< {second}"),
        Operator::Outside => format!("not in {first} <> {second}"),
        Operator::Range => format!("not in {first}:{second}"),
    }
}

fn identity(what: &str, is: Option<u32>, comparison: Option<Comparison<u32>>) -> String {
    let mismatch = comparison.map_or("matched".to_owned(), |comparison| {
        let unknown = comparison.first == u32::MAX && comparison.operator == Operator::Equal;
        if unknown { "unknown".to_owned() } else { unlike(comparison) }
    });
    match is {
        Some(is) => format!("{what} {is} is {mismatch}"),
        None => format!("{what} is unknown (no socket of this host), and that is {mismatch}"),
    }
}
