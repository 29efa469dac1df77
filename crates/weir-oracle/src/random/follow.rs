//! Packets that go where translation has put their flow: who answers, answers whom it sees, and an
//! ICMP error quotes the packet as it came there. Without this hardly an answer would reach a
//! port that was chosen at random. So it is with sequence numbers that are modulated: what an end
//! acknowledges, and what an error quotes, are those of packets that left.

use std::net::IpAddr;

use crate::device::Network;
use crate::frame::FrameSpec;
use crate::outcome::StateInfo;
use crate::reference::{Key, Reference};
use weir_rules::evaluate::{Packet, Quoted, end_text};
use weir_wire::protocol::{ICMP, ICMP6, TCP};

type End = (IpAddr, u16);

/// The words of a packet with the ends that it has if one of these states translates its flow.
pub(super) fn translated(words: &str, network: &Network, states: &[StateInfo]) -> String {
    let before = words;
    let Ok(spec) = FrameSpec::parse(words, &network.facts) else {
        return words.to_owned();
    };
    let mut text = Text { words: words.split(' ').map(str::to_owned).collect() };
    match spec.packet.quoted {
        Some(quoted) => error(&mut text, &spec, quoted, network, states),
        None => {
            acknowledge(&mut text, &spec.packet, states);
            answer(&mut text, &spec.packet, network, states);
        }
    }
    let after = text.words.join(" ");
    // What it has besides may not be there in another family.
    let is_packet = FrameSpec::parse(&after, &network.facts).is_ok();
    if is_packet { after } else { before.to_owned() }
}

/// A segment acknowledges what has come to its sender.
fn acknowledge(text: &mut Text, packet: &Packet, states: &[StateInfo]) {
    if packet.protocol != TCP || packet.fragment {
        return;
    }
    let key = Key::of(packet);
    let ends = [key.source, key.destination];
    for state in states.iter().filter(|state| state.protocol == TCP) {
        let Some([source, destination]) = state.modulation else { continue };
        let [from, to] = original(state);
        let other = if ends == [from, to] {
            destination
        } else if ends == [to, from] {
            source
        } else {
            continue;
        };
        text.add("ack", other);
        text.add("sack", other);
    }
}

/// An answer in the direction against the state's.
fn answer(text: &mut Text, packet: &Packet, network: &Network, states: &[StateInfo]) {
    let key = Key::of(packet).reversed();
    let is_its = |state: &&StateInfo| {
        let [source, destination] = original(state);
        if packet.fragment {
            let addresses = (source.0, destination.0);
            return (state.protocol, addresses)
                == (key.protocol, (key.source.0, key.destination.0));
        }
        (state.protocol, source, destination) == (key.protocol, key.source, key.destination)
    };
    let Some(state) = states.iter().find(is_its) else { return };
    let [opener, server] = far(state);
    if [opener, server] == original(state) {
        return;
    }
    text.put_end(1, packet.has_ports(), server);
    text.put_end(2, packet.has_ports(), opener);
    text.put_family(packet.source, server.0);
    text.put_number("id", opener.1);
    text.put_place(network, server.0, opener.0);
}

/// An error about a packet in the direction of the state.
fn error(
    text: &mut Text,
    spec: &FrameSpec,
    quoted: Quoted,
    network: &Network,
    states: &[StateInfo],
) {
    let is_icmp = matches!(quoted.protocol, ICMP | ICMP6);
    let id = if is_icmp { spec.inner_id } else { quoted.source_port };
    let is_its = |state: &&StateInfo| {
        let [source, destination] = original(state);
        let has_port = is_icmp || destination.1 == quoted.destination_port;
        state.protocol == quoted.protocol
            && source == (quoted.source, id)
            && destination.0 == quoted.destination
            && has_port
    };
    let Some(state) = states.iter().find(is_its) else { return };
    if let Some([source, _]) = state.modulation {
        text.add("inner-seq", source);
    }
    let ends = far(state);
    if ends == original(state) {
        return;
    }
    let has_ports = quoted.source_port != 0;
    let reporter = spec.packet.source;
    let is_end = reporter == quoted.destination;
    let reporter = match (is_end, reporter, ends[1].0) {
        (true, _, end) => end,
        // A router of the other family.
        (_, IpAddr::V6(_), IpAddr::V4(_)) => [203, 0, 113, 250].into(),
        (_, IpAddr::V4(_), IpAddr::V6(_)) => [0x2001, 0xdb8, 9, 0, 0, 0, 0, 1].into(),
        _ => reporter,
    };
    text.put_end(1, false, (reporter, 0));
    text.put_end(2, false, ends[0]);
    text.put_end(3, has_ports, ends[0]);
    text.put_end(4, has_ports, ends[1]);
    text.put_family(spec.packet.source, reporter);
    text.put_number("inner-id", ends[0].1);
    if is_end {
        text.put_place(network, reporter, ends[0].0);
    }
}

/// The ends of a state's first packet.
fn original(state: &StateInfo) -> [End; 2] {
    let inside = [(state.source, state.source_port), (state.destination, state.destination_port)];
    state.outside[0].unwrap_or(inside)
}

/// The ends as they are on the far side of the box.
fn far(state: &StateInfo) -> [End; 2] {
    let inside = [(state.source, state.source_port), (state.destination, state.destination_port)];
    state.outside[1].unwrap_or(inside)
}

/// The words of a packet.
struct Text {
    words: Vec<String>,
}

impl Text {
    /// Puts an end into its place: source and destination, and the same of what is quoted.
    fn put_end(&mut self, number: usize, has_ports: bool, end: End) {
        let mut arrows = (0..self.words.len()).filter(|at| self.words[*at] == ">");
        let Some(arrow) = arrows.nth((number - 1) / 2) else { return };
        let at = if number % 2 == 1 { arrow - 1 } else { arrow + 1 };
        self.words[at] = end_text(has_ports, end.0, end.1);
    }

    /// Words that are other ones in another family.
    fn put_family(&mut self, before: IpAddr, after: IpAddr) {
        const WORDS: [[&str; 2]; 2] = [["icmp", "icmp6"], ["unreach/needfrag", "toobig"]];
        let (from, to) = match (before, after) {
            (IpAddr::V4(_), IpAddr::V6(_)) => (0, 1),
            (IpAddr::V6(_), IpAddr::V4(_)) => (1, 0),
            _ => return,
        };
        for word in &mut self.words {
            if let Some(pair) = WORDS.iter().find(|pair| pair[from] == word) {
                pair[to].clone_into(word);
            }
        }
    }

    fn put_number(&mut self, word: &str, number: u16) {
        if let Some(at) = self.words.iter().position(|known| known == word) {
            self.words[at + 1] = number.to_string();
        }
    }

    /// Adds to a number, but to one that says nothing.
    fn add(&mut self, word: &str, difference: u32) {
        let Some(at) = self.words.iter().position(|known| known == word) else { return };
        if let Some(number) = self.words[at + 1].parse::<u32>().ok().filter(|number| *number != 0) {
            self.words[at + 1] = number.wrapping_add(difference).to_string();
        }
    }

    /// Has it come from where its sender is.
    fn put_place(&mut self, network: &Network, source: IpAddr, destination: IpAddr) {
        let routes = Reference::routes(network);
        let mut addresses = network.interfaces.iter().flat_map(|known| &known.addresses);
        let is_box = addresses.any(|entry| entry.address == source);
        let towards = if is_box { destination } else { source };
        if let Some(interface) = routes.interface(towards) {
            self.words[0] = if is_box { "out" } else { "in" }.to_owned();
            self.words[2] = interface.to_string();
        }
    }
}
