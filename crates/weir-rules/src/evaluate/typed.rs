//! Typed tables, weir's own: what the entry that covers a packet says.

use weir_wire::protocol::{SCTP, TCP, UDP};

use super::ready::{Place, Ready};
use super::table::TypedTable;
use super::trace::Tracer;
use super::walk::Walk;
use super::{Evaluator, Ip};
use crate::ir::{Action, Address, Pool, Rule};
use crate::typed::{Components, Flow, Key, KeyType, NextHop, Value, ValueKind};
use crate::value::Text;

/// The word that stands for the tag of a typed table's entry.
const VALUE: &str = "value";

/// The end of a rule whose entry's tag is given: `tag value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueEnd {
    Source,
    Destination,
}

impl<'a> Evaluator<'a> {
    /// The typed table that a rule of an anchor means by an address, with its name.
    pub fn typed_of<'r>(
        &self,
        address: &'r Address,
        anchor: &str,
    ) -> Option<(&'r Text, &TypedTable)> {
        let Address::Table(name) = address else { return None };
        Some((name, self.tables.typed(anchor, name)?))
    }

    /// Whether the tag of a rule of an anchor is that of a table's entry, and at which end: the
    /// destination comes first.
    pub fn value_end<'r>(
        &self,
        rule: &'r Rule,
        anchor: &str,
    ) -> Option<(ValueEnd, &'r Text, &TypedTable)> {
        rule.options.tag.as_ref().filter(|tag| ***tag == *VALUE)?;
        let ends = [(ValueEnd::Destination, &rule.to), (ValueEnd::Source, &rule.from)];
        ends.into_iter().find_map(|(end, peer)| {
            let (name, table) = self.typed_of(&peer.address, anchor).filter(|_| !peer.not)?;
            table.shape.values.has(ValueKind::Tag).then_some((end, name, table))
        })
    }

    /// The typed table of the next hops of a rule's pool.
    pub fn typed_pool<'r>(&self, pool: &'r Pool, anchor: &str) -> Option<(&'r Text, &TypedTable)> {
        let [host] = &pool.hosts[..] else { return None };
        self.typed_of(host.address.as_ref().filter(|_| host.interface.is_none())?, anchor)
    }
}

impl<'w, T: Tracer> Walk<'w, '_, '_, T> {
    /// The key that a packet has in a typed table: an end's address, or its flow.
    fn typed_key(&self, table: &TypedTable, is_source: bool) -> Option<Key> {
        let (source, destination) = (self.subject.source, self.subject.destination);
        match table.shape.key {
            KeyType::Addr => {
                let address: Ip = if is_source { source } else { destination };
                Some(Key::net(address.into(), address.af().bits()))
            }
            KeyType::Flow(components) => {
                let asks_ports =
                    components.has(Components::SRC_PORT) || components.has(Components::DST_PORT);
                if self.packet.fragment && asks_ports {
                    return None;
                }
                let has_ports = matches!(self.packet.protocol, TCP | UDP | SCTP);
                let port = |port: u16| if has_ports { port } else { 0 };
                let ends = [
                    (source.into(), port(self.subject.source_port)),
                    (destination.into(), port(self.subject.destination_port)),
                ];
                Some(Key::Flow(Flow::new(components, ends, self.packet.protocol)))
            }
            // No packet has such a key.
            KeyType::Number | KeyType::Iface => None,
        }
    }

    pub(super) fn typed_value(&self, name: &Text, is_source: bool) -> Option<&'w Value> {
        let table = self.evaluator.tables.typed("", name)?;
        let key = self.typed_key(table, is_source)?;
        table.contents.find(&key).map(|(_, value)| value)
    }

    /// What a rule that matches does with the packet's tag.
    pub(super) fn give_tag(&mut self, rule: &Ready<'w>) {
        let Some(tag) = &rule.rule.options.tag else { return };
        let anchor = &self.evaluator.blocks[rule.block as usize].path;
        let is_filter = !matches!(rule.rule.action, Action::Translate { .. });
        let ends = [(&rule.to.place, false), (&rule.from.place, true)];
        let of_entry = self.evaluator.value_end(rule.rule, anchor).filter(|_| is_filter);
        if let Some((_, name, _)) = of_entry {
            let is_it = |place: &Place| matches!(place, Place::Typed(found) if found == name);
            let end = ends.into_iter().find(|(place, _)| is_it(place));
            let value = end.and_then(|(_, is_source)| self.typed_value(name, is_source));
            // An entry without a tag changes none.
            if let Some(tag) = value.and_then(|value| value.tag.clone()) {
                self.tag = Some(tag);
            }
            return;
        }
        self.tag = Some(tag.clone());
    }

    /// The next hop that a typed table has for the packet; `None`: the pool is none.
    pub(super) fn typed_next_hop(&self, at: u32, pool: &Pool) -> Option<Option<NextHop>> {
        let block = self.evaluator.rules[at as usize].block;
        let anchor = &self.evaluator.blocks[block as usize].path;
        let (name, _) = self.evaluator.typed_pool(pool, anchor)?;
        let value = self.typed_value(name, false);
        Some(value.and_then(|value| value.next_hop.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AllRouted, Moment, NoStates, Packet};
    use super::*;
    use crate::facts::Facts;
    use crate::limits::Limits;
    use crate::parse::ParseInput;
    use crate::source::MemorySources;
    use crate::{Compiled, Dialect};

    const FACTS: &str = "interface em0 10.0.0.1/24\ninterface em1 192.0.2.9/24\n";

    fn read(text: &str, facts: &Facts) -> Compiled {
        let provider = MemorySources::default()
            .with("hops", "0.0.0.0/0 nexthop 192.0.2.1\n203.0.113.0/24 nexthop 192.0.2.2%em1\n")
            .with("flows", "10.0.0.5,tcp,1000,203.0.113.9,80 tag bad\n# none\n")
            .with("wrong", "10.0.0.0/8 tag x\n10.0.0.0/8 mark x\n");
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(Dialect::FreeBsd),
            macros: &[],
            provider: &provider,
            limits: Limits::default(),
        };
        crate::compile(input, facts)
    }

    #[test]
    fn the_entry_of_the_destination_is_the_next_hop_and_a_flow_has_its_tag() {
        let facts = Facts::parse(FACTS).unwrap();
        let text = "table <hops> type addr values nexthop, tag limit 5 file \"hops\"\n\
                    table <flows> type flow:src-ip,proto,src-port,dst-ip,dst-port values tag \
                    file \"flows\"\npass in route-to <hops>\nmatch in to <flows> tag value\n\
                    block in tagged bad\n";
        let compiled = read(text, &facts);
        assert_eq!(compiled.error_count, 0, "{:?}", compiled.diagnostics);
        let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts).unwrap();
        let judged = |words: &str| {
            let packet = Packet::parse(words, &facts).unwrap();
            let mut states = NoStates;
            let mut moment =
                Moment { now_ns: 0, random: &mut || 0, states: &mut states, routes: &AllRouted };
            let verdict = evaluator.evaluate(&packet, &mut moment);
            let hop = verdict.route.map(|route| (route.gateway, route.interface));
            (
                hop.map(|(address, interface)| (address.unwrap().to_string(), interface)),
                verdict.actions.tag,
            )
        };
        let to = |address: &str, interface: Option<&str>| {
            Some((address.to_owned(), interface.map(Text::from)))
        };
        let from = "in on em0 tcp 10.0.0.5:1001 >";
        assert_eq!(judged(&format!("{from} 9.9.9.9:80 S")), (to("192.0.2.1", None), None));
        let near = judged(&format!("{from} 203.0.113.9:80 S"));
        assert_eq!(near, (to("192.0.2.2", Some("em1")), None));
        let bad = judged("in on em0 tcp 10.0.0.5:1000 > 203.0.113.9:80 S");
        assert_eq!(bad, (None, Some("bad".into())));
        let six = judged("in on em0 tcp [2001:db8::5]:1 > [2001:db8::6]:80 S");
        assert_eq!(six, (None, None), "no entry covers it");
    }

    #[test]
    fn what_is_wrong_with_a_typed_table_is_said_where_it_stands() {
        let facts = Facts::parse(FACTS).unwrap();
        let long = "l".repeat(63);
        for (text, why) in [
            ("table <x> type mac\n", "`mac` is not a key type"),
            ("table <x> type addr values colour\n", "`colour` is not a value"),
            ("table <x> type addr { 10.0.0.1 }\n", "in a `file`, or come by `weir fw table`"),
            ("table <x> persist type addr\n", "neither const nor persist"),
            ("table <x> type addr values tag file \"wrong\"\n", "wrong:2: the table has no value"),
            ("table <x> type addr\ntable <x> type addr\n", "the table <x> is declared twice"),
            ("anchor a {\ntable <x> type addr\n}\n", "stands in the main ruleset"),
            (&format!("table <{long}l> type addr\n"), "at most 63 bytes, and this one has 64"),
            (&format!("table <{long}>\n"), "at most 31 characters"),
            (&format!("block from <{long}>\n"), "at most 31 characters"),
        ] {
            let found = read(text, &facts).diagnostics;
            assert!(found.iter().any(|one| one.message.contains(why)), "{text}: {found:?}");
        }
        let text = format!("table <{long}> type addr\nblock drop from <{long}> to any\n");
        let compiled = read(&text, &facts);
        assert_eq!(compiled.error_count, 0, "{:?}", compiled.diagnostics);
    }
}
