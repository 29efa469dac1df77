//! Whether a rule matches: one function for each kind of list, which say what failed first.
//!
//! The tests and their meaning are those of `pf_test_rule` and `pf_match_rule` of pf.c (FreeBSD
//! and OpenBSD), `pf_match_translation_rule` of pf_lb.c, and `pf_normalize_ip` and
//! `pf_normalize_tcp` of pf_norm.c. The order is chosen so that chance and counters come last:
//! they are asked only where all else holds.

use std::net::IpAddr;

use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP, UDP};

use super::criterion::Criterion;
use super::packet::IcmpRole;
use super::ready::{End, List, Place, Ready, has_bit};
use super::trace::Tracer;
use super::walk::Walk;
use super::{Ip, RuleId};
use crate::dialect::Dialect;
use crate::fingerprint::Fingerprints;
use crate::ir::Action;
use crate::value::{Comparison, Operator};

impl<T: Tracer> Walk<'_, '_, '_, T> {
    /// The first criterion of a filter rule that the packet fails.
    #[inline]
    pub(super) fn filter_mismatch(&mut self, at: u32) -> Option<Criterion> {
        let evaluator = self.evaluator;
        let rule = &evaluator.rules[at as usize];
        if rule.is_rare && self.is_spent(rule, at) {
            return Some(Criterion::Once);
        }
        if let failed @ Some(_) = self.common_mismatch(rule) {
            return failed;
        }
        if !self.end_holds(&rule.from, self.subject.source, true) {
            return Some(Criterion::Source);
        }
        if !self.end_holds(&rule.to, self.subject.destination, false) {
            return Some(Criterion::Destination);
        }
        if let failed @ Some(_) = self.header_mismatch(rule) {
            return failed;
        }
        if rule.is_rare { self.rare_mismatch(rule, at) } else { None }
    }

    fn is_spent(&mut self, rule: &Ready<'_>, at: u32) -> bool {
        rule.rule.options.once && self.moment.states.once_is_spent(RuleId(at))
    }

    /// What all rules have: interface, direction, routing domain, family, protocol.
    fn common_mismatch(&self, rule: &Ready<'_>) -> Option<Criterion> {
        let packet = self.packet;
        if let Some((name, not)) = rule.interface
            && has_bit(self.bits, name) == not
        {
            return Some(Criterion::Interface);
        }
        if rule.direction.is_some_and(|direction| direction != packet.direction) {
            return Some(Criterion::Direction);
        }
        if let Some((not, rdomain)) = rule.rule.rdomain
            && (rdomain == packet.rdomain) == not
        {
            return Some(Criterion::Rdomain);
        }
        if rule.rule.af.is_some_and(|af| af != self.af) {
            return Some(Criterion::Family);
        }
        (rule.protocol != 0 && rule.protocol != packet.protocol).then_some(Criterion::Protocol)
    }

    /// An address (`PF_MISMATCHAW` of pfvar.h). `urpf-failed` is for sources alone.
    #[inline]
    fn end_holds(&self, end: &End, address: Ip, is_source: bool) -> bool {
        let holds = match (&end.place, address) {
            (Place::Any, _) => true,
            (Place::Net4(network, mask), Ip::V4(address)) => address & mask == *network,
            (Place::Net6(network, mask), Ip::V6(address)) => address & mask == *network,
            (Place::Net4(..) | Place::Net6(..) | Place::Nothing, _) => false,
            (Place::Range(first, last), address) => {
                first.is_v4() == address.is_v4() && *first <= address && address <= *last
            }
            (Place::Table(at), address) => self.evaluator.tables.at(*at).holds(address),
            (Place::Typed(name), _) => self.typed_value(name, is_source).is_some(),
            (Place::Prefixes(prefixes), address) => {
                prefixes.iter().any(|(network, bits)| network.prefix_holds(*bits, address))
            }
            (Place::NoRoute | Place::UrpfFailed | Place::RouteLabel(_), address) => {
                self.route_holds(&end.place, address.into(), is_source)
            }
        };
        holds != end.not
    }

    /// Link-local addresses of IPv6 count as routed (`pf_routable` of pf.c).
    fn route_holds(&self, place: &Place, address: IpAddr, is_source: bool) -> bool {
        let (routes, table) = (self.moment.routes, self.routing_table());
        let is_link = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        match place {
            Place::NoRoute => !is_link && !routes.has_route(address, table),
            Place::UrpfFailed => {
                let interface = &self.packet.interface;
                !is_source || (!is_link && !routes.leads_out(address, interface, table))
            }
            Place::RouteLabel(label) => routes.label(address, table).as_ref() == Some(label),
            _ => false,
        }
    }

    /// Criteria of the protocol's header.
    fn header_mismatch(&self, ready: &Ready<'_>) -> Option<Criterion> {
        let (rule, packet) = (ready.rule, self.packet);
        if packet.fragment {
            // The kernel looks at those that must be set, not at the mask.
            let has_flags = rule.options.flags.is_some_and(|flags| flags.set != 0);
            let blind = ready.from.port.is_some()
                || ready.to.port.is_some()
                || (packet.protocol == TCP && has_flags)
                || rule.icmp.is_some()
                || rule.user.is_some()
                || rule.group.is_some();
            return blind.then_some(Criterion::FragmentBlind);
        }
        let dialect = self.evaluator.ruleset.dialect;
        match packet.protocol {
            TCP => {
                if let Some(flags) = rule.options.flags
                    && self.tcp_flags & flags.mask != flags.set
                {
                    return Some(Criterion::Flags);
                }
                self.port_mismatch(ready)
            }
            UDP => self.port_mismatch(ready),
            SCTP if dialect == Dialect::FreeBsd => self.port_mismatch(ready),
            ICMP | ICMP6 => self.icmp_mismatch(ready),
            _ => None,
        }
    }

    fn port_mismatch(&self, rule: &Ready<'_>) -> Option<Criterion> {
        if rule.from.port.is_some_and(|port| !port.holds(self.subject.source_port)) {
            return Some(Criterion::SourcePort);
        }
        let holds = |port: Comparison<u16>| port.holds(self.subject.destination_port);
        rule.to.port.is_some_and(|port| !holds(port)).then_some(Criterion::DestinationPort)
    }

    fn icmp_mismatch(&self, rule: &Ready<'_>) -> Option<Criterion> {
        let icmp = self.packet.icmp;
        if let Some(match_on) = rule.rule.icmp {
            if match_on.kind != icmp.kind {
                return Some(Criterion::IcmpType);
            }
            if match_on.code.is_some_and(|code| code != icmp.code) {
                return Some(Criterion::IcmpCode);
            }
        }
        let is_sloppy = rule.rule.options.state.as_ref().is_some_and(|state| state.sloppy);
        let is_advert = self.packet.protocol == ICMP6 && icmp.kind == 136;
        let refused = self.evaluator.ruleset.dialect == Dialect::OpenBsd
            && self.packet.icmp_role() == IcmpRole::Reply
            && rule.rule.keeps_state()
            && !is_sloppy
            && !is_advert;
        refused.then_some(Criterion::IcmpReply)
    }

    fn rare_mismatch(&mut self, ready: &Ready<'_>, at: u32) -> Option<Criterion> {
        let (rule, packet) = (ready.rule, self.packet);
        let options = &rule.options;
        // OpenBSD looks at fingerprints of TCP alone: elsewhere `os` is no criterion.
        let is_tcp = packet.protocol == TCP && !packet.fragment;
        let is_freebsd = self.evaluator.ruleset.dialect == Dialect::FreeBsd;
        let looks_at_os = is_tcp || is_freebsd;
        if looks_at_os && !self.os_holds(ready) {
            return Some(Criterion::Os);
        }
        // FreeBSD asks for SCTP too, and finds no socket.
        let has_socket = matches!(packet.protocol, TCP | UDP);
        if (has_socket || is_freebsd && packet.protocol == SCTP) && !packet.fragment {
            if rule.user.is_some_and(|user| !id_holds(user, packet.user)) {
                return Some(Criterion::User);
            }
            if rule.group.is_some_and(|group| !id_holds(group, packet.group)) {
                return Some(Criterion::Group);
            }
        }
        if options.fragment && !packet.fragment {
            return Some(Criterion::Fragment);
        }
        // The two bits of ECN are not looked at; a rule's 0 is no criterion in the kernel.
        if options.tos.is_some_and(|tos| tos != 0 && tos != packet.tos & !3) {
            return Some(Criterion::Tos);
        }
        if !self.tag_holds(ready) {
            return Some(Criterion::Tag);
        }
        if let Some((name, not)) = ready.received_on
            && self.received.is_some_and(|bits| has_bit(bits, name)) == not
        {
            return Some(Criterion::ReceivedOn);
        }
        if options.prio.is_some_and(|prio| self.prio() != Some(prio)) {
            return Some(Criterion::Prio);
        }
        self.chance_mismatch(ready, at)
    }

    /// Packets without a tag of 802.1Q have priority 3 in OpenBSD (`IFQ_DEFPRIO`) and match no
    /// priority in FreeBSD.
    fn prio(&self) -> Option<u8> {
        let default = (self.evaluator.ruleset.dialect == Dialect::OpenBsd).then_some(3);
        self.packet.prio.or(default)
    }

    /// What depends on chance, limiters and counters, in this order.
    fn chance_mismatch(&mut self, rule: &Ready<'_>, at: u32) -> Option<Criterion> {
        let options = &rule.rule.options;
        if let Some(probability) = options.probability {
            let drawn = (self.moment.random)();
            if drawn >= probability.max(1) {
                return Some(Criterion::Probability(drawn));
            }
        }
        let now_ns = self.moment.now_ns;
        for (place, limiter) in options.limiters.iter().enumerate() {
            let source = self.packet.source;
            let ruleset = self.evaluator.ruleset;
            let is_there = ruleset.limiter(limiter).is_some();
            if !is_there || self.moment.states.limiter_exceeded(limiter, source, now_ns) {
                // One that is not defined has no room, and nothing to block by.
                if is_there && limiter.blocks(ruleset.dialect) {
                    self.limited = Some(limiter.kind);
                }
                return Some(Criterion::Limiter(u32::try_from(place).unwrap_or(u32::MAX)));
            }
        }
        // The last that is asked: it counts what matches but for it.
        if let Some(rate) = options.max_pkt_rate
            && self.moment.states.packet_rate_exceeded(RuleId(at), rate, now_ns)
        {
            return Some(Criterion::PacketRate);
        }
        None
    }

    fn tag_holds(&self, rule: &Ready<'_>) -> bool {
        rule.rule.options.tagged.as_ref().is_none_or(|(not, tag)| {
            let present = self.tag.as_ref().or(self.packet.tag.as_ref());
            (present == Some(tag)) != *not
        })
    }

    /// Fingerprints are of SYN packets of TCP; what has none is of an unknown system, which only
    /// `os unknown` matches (`pf_osfp_match` of pf_osfp.c). A class (`Linux`) holds for its
    /// versions (`Linux 5.4`). Without fingerprints names are compared as they are written.
    fn os_holds(&self, rule: &Ready<'_>) -> bool {
        let Some(name) = &rule.rule.os else {
            return true;
        };
        if self.packet.protocol != TCP || self.packet.fragment {
            return false;
        }
        if let Some(fingerprints) = &self.evaluator.ruleset.fingerprints {
            // A name that they do not have is no system's.
            return fingerprints.asked(name).is_some_and(|asked| match &self.packet.os {
                Some(os) => fingerprints.is(os, asked),
                None => fingerprints.holds(self.evaluator.fingerprint(self.packet), asked),
            });
        }
        match &self.packet.os {
            None => &**name == Fingerprints::UNKNOWN,
            Some(os) => {
                let rest = os.strip_prefix(&**name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
        }
    }

    /// Translation rules of FreeBSD's: `binat` on packets that come in compares its `to` with
    /// their source, and its outer address with their destination.
    pub(super) fn translation_mismatch(&mut self, at: u32) -> Option<Criterion> {
        let evaluator = self.evaluator;
        let rule = &evaluator.rules[at as usize];
        if let failed @ Some(_) = self.common_mismatch(rule) {
            return failed;
        }
        // Those with `no` are asked as they stand.
        let comes_back = rule.list == List::Binat
            && rule.call.is_none()
            && !matches!(rule.rule.action, Action::Translate { no: true, .. })
            && self.packet.direction == crate::value::Direction::In;
        let first = if comes_back { &rule.to } else { &rule.from };
        if !self.end_holds(first, self.subject.source, true) {
            return Some(Criterion::Source);
        }
        let looks_at_ports = self.packet.has_ports();
        if first.port.is_some_and(|port| !looks_at_ports || !port.holds(self.subject.source_port)) {
            return Some(Criterion::SourcePort);
        }
        if comes_back {
            if !self.binat_address_holds(rule) {
                return Some(Criterion::BinatAddress);
            }
        } else {
            if !self.end_holds(&rule.to, self.subject.destination, false) {
                return Some(Criterion::Destination);
            }
            let port_number = self.subject.destination_port;
            if rule.to.port.is_some_and(|port| !looks_at_ports || !port.holds(port_number)) {
                return Some(Criterion::DestinationPort);
            }
        }
        if !self.tag_holds(rule) {
            return Some(Criterion::Tag);
        }
        (!self.os_holds(rule)).then_some(Criterion::Os)
    }

    fn binat_address_holds(&self, rule: &Ready<'_>) -> bool {
        let Some(pool) = &rule.rule.nat else { return false };
        let targets = self.targets(rule, pool);
        let address = self.subject.destination;
        targets.iter().any(|target| target.base.prefix_holds(target.bits, address))
    }

    /// Old `scrub` rules. Their ports and systems count where TCP is normalised, not where
    /// fragments are.
    pub(super) fn scrub_mismatch(&mut self, at: u32, looks_at_tcp: bool) -> Option<Criterion> {
        let evaluator = self.evaluator;
        let rule = &evaluator.rules[at as usize];
        if let failed @ Some(_) = self.common_mismatch(rule) {
            return failed;
        }
        if !self.end_holds(&rule.from, self.subject.source, true) {
            return Some(Criterion::Source);
        }
        if !self.end_holds(&rule.to, self.subject.destination, false) {
            return Some(Criterion::Destination);
        }
        if looks_at_tcp {
            if let failed @ Some(_) = self.port_mismatch(rule) {
                return failed;
            }
            return (!self.os_holds(rule)).then_some(Criterion::Os);
        }
        (!self.tag_holds(rule)).then_some(Criterion::Tag)
    }
}

/// A user's or group's number. One that is unknown equals `unknown` (the largest number) and is
/// otherwise only unlike others (`pf_match_uid` of pf.c).
fn id_holds(comparison: Comparison<u32>, id: Option<u32>) -> bool {
    let id = id.unwrap_or(u32::MAX);
    let by_equality = matches!(comparison.operator, Operator::Equal | Operator::NotEqual);
    (id != u32::MAX || by_equality) && comparison.holds(id)
}
