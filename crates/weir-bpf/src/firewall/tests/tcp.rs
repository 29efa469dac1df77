//! TCP connections, segment by segment.

use std::net::{IpAddr, Ipv4Addr};

use super::harness::*;
use crate::firewall::layout::{decision_flags, reason, state};
use crate::firewall::sweep::Mode;

const FIN: u64 = 1;
const SYN: u64 = 2;
const RST: u64 = 4;
const ACK: u64 = 16;

/// A connection between two ends, and what its segments say.
struct Connection<'a> {
    table: &'a Table,
    flags: u64,
}

struct Segment {
    from_server: bool,
    flags: u64,
    seq: u32,
    ack: u32,
    bytes: u32,
    window: u16,
    wscale: Option<u8>,
}

const fn client(flags: u64, seq: u32, ack: u32) -> Segment {
    Segment { from_server: false, flags, seq, ack, bytes: 0, window: 1000, wscale: None }
}

const fn server(flags: u64, seq: u32, ack: u32) -> Segment {
    Segment { from_server: true, ..client(flags, seq, ack) }
}

impl Segment {
    const fn data(mut self, bytes: u32) -> Self {
        self.bytes = bytes;
        self
    }

    const fn window(mut self, window: u16) -> Self {
        self.window = window;
        self
    }

    const fn wscale(mut self, shift: u8) -> Self {
        self.wscale = Some(shift);
        self
    }
}

impl<'a> Connection<'a> {
    const fn new(table: &'a Table) -> Self {
        Self { table, flags: decision_flags::KEEP_STATE as u64 }
    }

    fn send(&self, segment: &Segment) -> Request<'a> {
        let client: (IpAddr, u16) = (Ipv4Addr::new(10, 0, 0, 1).into(), 40_000);
        let server: (IpAddr, u16) = (Ipv4Addr::new(192, 0, 2, 1).into(), 80);
        let (src, dst) = if segment.from_server { (server, client) } else { (client, server) };
        let request = self
            .table
            .request()
            .ends(src, dst)
            .set("packet.protocol", 6)
            .set("packet.tcp_flags", segment.flags)
            .set("packet.seq", segment.seq.into())
            .set("packet.ack", segment.ack.into())
            .set("packet.payload_bytes", segment.bytes.into())
            .set("packet.window", segment.window.into())
            .set("packet.wscale", segment.wscale.map_or(0, |shift| u64::from(shift | 0x80)))
            // Answers leave by the interface that the client is at.
            .set("packet.direction", segment.from_server.into())
            .set("packet.interface", u64::from(!segment.from_server))
            .set("decision.flags", self.flags);
        self.table.call(&request)
    }

    fn passes(&self, segment: &Segment) {
        let answer = self.send(segment);
        assert!(
            answer.result() == HIT || answer.get("inserts") == 1,
            "seq {} ack {} is dropped",
            segment.seq,
            segment.ack
        );
    }

    fn is_dropped(&self, segment: &Segment) -> Request<'a> {
        let answer = self.send(segment);
        assert_eq!(
            (answer.result(), answer.get("hit.reason")),
            (DROP, u64::from(reason::STATE_MISMATCH))
        );
        answer
    }

    /// Phases of both ends.
    fn phases(&self, slot: u32) -> (u32, u32) {
        let at = self.table.firewall.regions().states.at + slot * 64;
        let word = self.table.firewall.arena().read32(at + state::PHASE);
        (word & 0xff, (word >> 8) & 0xff)
    }

    fn established(&self) -> u32 {
        self.passes(&client(SYN, 1000, 0).window(1000));
        self.passes(&server(SYN | ACK, 9000, 1001).window(2000));
        self.passes(&client(ACK, 1001, 9001));
        let slot = self.send(&client(ACK, 1001, 9001)).slot();
        assert_eq!(self.phases(slot), (4, 4));
        slot
    }
}

#[test]
fn a_connection_opens_carries_data_and_closes() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    let slot = tcp.established();
    tcp.passes(&client(ACK, 1001, 9001).data(500));
    tcp.passes(&server(ACK, 9001, 1501).data(800).window(2000));
    tcp.passes(&client(FIN | ACK, 1501, 9801));
    assert_eq!(tcp.phases(slot), (7, 4), "closing");
    tcp.passes(&server(ACK, 9801, 1502));
    assert_eq!(tcp.phases(slot), (9, 4), "its FIN is acknowledged");
    // Half closed: the other end may go on.
    tcp.passes(&server(ACK, 9801, 1502).data(100));
    tcp.passes(&client(ACK, 1502, 9901));
    tcp.passes(&server(FIN | ACK, 9901, 1502));
    tcp.passes(&client(ACK, 1502, 9902));
    assert_eq!(tcp.phases(slot), (9, 9));
}

#[test]
fn segments_outside_the_windows_are_dropped() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    tcp.established();
    tcp.is_dropped(&client(ACK, 1001 + 2001, 9001).data(100));
    tcp.is_dropped(&client(ACK, 500_000_000, 9001).data(100));
    tcp.is_dropped(&server(ACK, 9001 + 1001, 1001).data(1));
    // Up to the window's edge it is fine.
    tcp.passes(&server(ACK, 9001, 1001).data(1000));
    // An acknowledgement of what nobody sent, far ahead.
    tcp.is_dropped(&client(ACK, 1001, 9001 + 100_000).data(1));
}

#[test]
fn a_reset_must_stand_at_the_edge() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    let slot = tcp.established();
    tcp.is_dropped(&server(RST, 9050, 0));
    tcp.is_dropped(&server(RST, 8900, 0));
    assert_eq!(tcp.phases(slot), (4, 4), "nothing has happened");
    tcp.passes(&server(RST, 9001, 0));
    assert_eq!(tcp.phases(slot), (10, 10));
}

#[test]
fn scaled_windows_let_more_through() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    tcp.passes(&client(SYN, 1000, 0).window(1024).wscale(7));
    tcp.passes(&server(SYN | ACK, 9000, 1001).window(1024).wscale(8));
    tcp.passes(&client(ACK, 1001, 9001).window(1000));
    tcp.passes(&server(ACK, 9001, 1001).window(1000));
    // 1000 << 7 bytes towards the client, 1000 << 8 towards the server.
    tcp.passes(&server(ACK, 9001 + 120_000, 1001).data(1000).window(1000));
    tcp.is_dropped(&server(ACK, 9001 + 200_000, 1001).data(1000).window(1000));
    tcp.passes(&client(ACK, 1001 + 250_000, 9001).data(1000).window(1000));
    tcp.is_dropped(&client(ACK, 1001 + 600_000, 9001).data(1000).window(1000));
}

#[test]
fn scaling_of_one_end_alone_is_none() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    tcp.passes(&client(SYN, 1000, 0).window(1024).wscale(7));
    tcp.passes(&server(SYN | ACK, 9000, 1001).window(1024));
    tcp.passes(&client(ACK, 1001, 9001).window(1000));
    tcp.is_dropped(&server(ACK, 9001 + 120_000, 1001).data(1000).window(1000));
}

#[test]
fn a_new_connection_with_the_same_ports_takes_the_place_of_an_old_one() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    tcp.established();
    tcp.passes(&server(RST, 9001, 0));
    let answer = tcp.send(&client(SYN, 700_000_000, 0));
    assert_eq!((answer.get("misses"), answer.get("inserts")), (1, 1));
    assert_eq!(tcp.phases(answer.slot()), (2, 0));
    assert_eq!(super::audit::audit(&table.firewall).live, 1);
}

#[test]
fn a_connection_in_its_middle_is_picked_up() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    tcp.passes(&client(ACK, 1001, 9001).data(100).window(5000));
    tcp.passes(&server(ACK, 9001, 1101).data(1400).window(6000));
    tcp.passes(&client(ACK, 1101, 10_401).window(5000));
    tcp.passes(&server(ACK, 10_401, 1101).data(1400).window(6000));
    let slot = tcp.send(&client(ACK, 1101, 11_801).window(5000)).slot();
    assert_eq!(tcp.phases(slot), (4, 4));
    tcp.is_dropped(&server(ACK, 900_000_000, 1101).data(10));
}

#[test]
fn both_ends_may_open_at_the_same_time() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    tcp.passes(&client(SYN, 1000, 0));
    tcp.passes(&server(SYN, 9000, 0));
    tcp.passes(&client(SYN | ACK, 1000, 9001));
    tcp.passes(&server(SYN | ACK, 9000, 1001));
    tcp.passes(&client(ACK, 1001, 9001));
    let slot = tcp.send(&client(ACK, 1001, 9001)).slot();
    assert_eq!(tcp.phases(slot), (4, 4));
}

#[test]
fn a_wrong_answer_to_a_syn_is_dropped_and_told() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    tcp.passes(&client(SYN, 1000, 0));
    tcp.passes(&server(SYN, 9000, 0));
    let answer = tcp.is_dropped(&server(ACK, 700_000_000, 700_000).data(10));
    assert_eq!(answer.get("hit.flags") & 2, 2, "a RST is asked for");
}

#[test]
fn sloppy_states_follow_what_is_seen_of_one_direction() {
    let Some(table) = table(64, 64, 100) else { return };
    let mut tcp = Connection::new(&table);
    tcp.flags |= u64::from(decision_flags::SLOPPY);
    tcp.passes(&client(SYN, 1000, 0));
    tcp.passes(&client(ACK, 1001, 9001));
    let slot = tcp.send(&client(ACK, 900_000_000, 5).data(1000)).slot();
    assert_eq!(tcp.phases(slot), (4, 4));
    tcp.passes(&client(FIN | ACK, 2001, 9001));
    assert_eq!(tcp.phases(slot).0, 7);
}

#[test]
fn timeouts_follow_the_phases() {
    let Some(table) = table(64, 64, 100) else { return };
    let tcp = Connection::new(&table);
    let survives = |seconds: u32| {
        table.set_tick(1000 + ticks(seconds));
        let mode = Mode::Expire;
        table.firewall.sweep_all(mode).unwrap().live_count == 1
    };
    tcp.passes(&client(SYN, 1000, 0));
    assert!(survives(110), "tcp.first is 120 s");
    tcp.passes(&client(SYN, 1000, 0));
    assert!(!survives(35), "tcp.opening is 30 s");
    tcp.established();
    assert!(survives(80_000), "tcp.established is a day");
    tcp.passes(&client(FIN | ACK, 1001, 9001));
    assert!(survives(800), "tcp.closing is 900 s");
    assert!(!survives(950));
    tcp.established();
    tcp.passes(&server(RST, 9001, 0));
    assert!(survives(80), "tcp.closed is 90 s");
    assert!(!survives(100));
}
