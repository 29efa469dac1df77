//! Entries of maps whose memory has become another's between the look-up and the lock.

use super::harness::*;
use crate::firewall::layout::{decision_flags, packet_flags};

const FIRST_FRAGMENT: u32 = packet_flags::FRAGMENT | packet_flags::MORE_FRAGMENTS;

#[test]
fn a_fragment_does_not_join_another_packet() {
    let Some(table) = table(64, 64, 100) else { return };
    let request = table.request().set("operation", REUSE_FRAGMENT.into());
    let request = request.set("packet.flags", FIRST_FRAGMENT.into()).set("packet.fragment_id", 7);
    let answer = table.call(&request.set("packet.ip_bytes", 1000));
    assert_eq!(answer.get("hits"), 1, "the memory is another packet's");
    assert_eq!((answer.result(), answer.get("index")), (0, 1), "which has its own piece alone");
}

#[test]
fn a_state_is_not_counted_off_from_another_source() {
    let Some(table) = table(64, 64, 100) else { return };
    let (arena, at) = (table.firewall.arena(), table.firewall.regions().heap.at);
    arena.populate(at, 4096).unwrap();
    let flags = decision_flags::KEEP_STATE | decision_flags::SOURCE_TRACK;
    let request = table.request().set("operation", REUSE_SOURCE.into());
    let request = request.set("decision.flags", flags.into()).set("decision.rule_at", at.into());
    let answer = table.call(&request);
    assert_eq!(answer.get("hits"), 1, "the memory is another source's");
    assert_eq!((answer.result(), answer.get("index")), (0, 1), "which has its own state");
}
