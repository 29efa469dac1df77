//! What the data path tells of itself, in the words of packet tests: drops, answers, states.

use super::modulation::modulation;
use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{
    control, cpu, direction, image, interface_counters, profile, table, timeout,
};
use weir_bpf::firewall::reasons::REASONS;
use weir_fw::show::states::{OTHER_PHASES, TCP_PHASES};
use weir_fw::states::{Record, View};
use weir_oracle::device::DeviceError;
use weir_oracle::outcome::{Answer, DropReason, StateInfo};
use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP};

/// Counters over all CPUs, interfaces and directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Totals {
    /// By reason, in the order of [`REASONS`].
    pub(crate) drops: Vec<u64>,
    pub(crate) inserts: u64,
    pub(crate) removals: u64,
    /// Left to the second stage.
    pub(crate) staged: u64,
    /// Drops whose answer could not be sent.
    pub(crate) unanswered: u64,
    /// Copies of `dup-to`, and those that could not be sent.
    pub(crate) copies: u64,
    /// By slot, what has left.
    pub(crate) left: Vec<u64>,
}

impl Totals {
    /// As they are, for interfaces in slots up to `slot_max`.
    pub(crate) fn read(firewall: &Firewall, slot_max: u32) -> Self {
        let arena = firewall.arena();
        let mut totals = Self {
            drops: vec![0; REASONS.len()],
            inserts: 0,
            removals: 0,
            staged: 0,
            unanswered: 0,
            copies: 0,
            left: vec![0; slot_max as usize + 1],
        };
        for index in 0..arena.read32(control::CPU_COUNT) {
            let at = firewall.regions().counters.at + index * cpu::SIZE_BYTES;
            totals.inserts += arena.read64(at + cpu::TABLE + table::INSERTS);
            totals.removals += arena.read64(at + cpu::TABLE + table::REMOVALS);
            totals.staged += arena.read64(at + cpu::TABLE + table::STAGED_PACKETS);
            totals.unanswered += arena.read64(at + cpu::TABLE + table::UNANSWERED);
            for counter in [table::COPIES, table::COPIES_LOST] {
                totals.copies += arena.read64(at + cpu::TABLE + counter);
            }
            for slot in 0..=slot_max {
                let at = at + cpu::INTERFACE + slot * interface_counters::SIZE_BYTES;
                for family in 0..2 {
                    let word = (u32::from(direction::OUT) * 4 + family) * 8;
                    let count = arena.read64(at + interface_counters::PACKETS + word);
                    totals.left[slot as usize] += count;
                }
                for direction in 0..2 {
                    let row = at + interface_counters::DROPPED_PACKETS + direction * 32 * 8;
                    for (count, word) in totals.drops.iter_mut().zip(0..) {
                        *count += arena.read64(row + word * 8);
                    }
                }
            }
        }
        totals
    }

    /// What has been counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let drops = self.drops.iter().zip(&before.drops).map(|(now, then)| now - then).collect();
        Self {
            drops,
            inserts: self.inserts - before.inserts,
            removals: self.removals - before.removals,
            staged: self.staged - before.staged,
            unanswered: self.unanswered - before.unanswered,
            copies: self.copies - before.copies,
            left: self.left.iter().zip(&before.left).map(|(now, then)| now - then).collect(),
        }
    }

    /// The only reason that has counted, once; `None` if nothing was dropped.
    pub(crate) fn reason(&self) -> Result<Option<DropReason>, DeviceError> {
        let found: Vec<usize> = (0..self.drops.len()).filter(|at| self.drops[*at] != 0).collect();
        match found[..] {
            [] => Ok(None),
            [at] if self.drops[at] == 1 => reason(at).map(Some),
            _ => Err(DeviceError(format!("one packet was dropped more than once: {self:?}"))),
        }
    }
}

/// A reason as packet tests name it.
pub(crate) fn reason(at: usize) -> Result<DropReason, DeviceError> {
    let name = REASONS[at].name;
    DropReason::from_name(name)
        .ok_or_else(|| DeviceError(format!("dropped as `{name}`, which no rule or state does")))
}

/// What the sender of a frame gets, by the frame that goes back.
pub(crate) fn answer(frame: &[u8]) -> Option<Answer> {
    let mut at = 12;
    while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
        at += 4;
    }
    let ip = frame.get(at + 2..)?;
    let (protocol, message) = match ip.first()? >> 4 {
        4 => (*ip.get(9)?, ip.get(usize::from(ip[0] & 15) * 4..)?),
        _ => (*ip.get(6)?, ip.get(40..)?),
    };
    match protocol {
        TCP if message.get(13)? & 4 != 0 => Some(Answer::Rst),
        TCP if *message.get(13)? == 0x10 => Some(Answer::Challenge),
        ICMP | ICMP6 => Some(Answer::Icmp(*message.first()?, *message.get(1)?)),
        SCTP => Some(Answer::Abort),
        _ => None,
    }
}

/// All states. A tick of the data path is a millisecond here.
pub(crate) fn states(firewall: &Firewall, now_tick: u32) -> Vec<StateInfo> {
    let mut list = Vec::new();
    View::new(firewall).for_all(|record| list.push(info(firewall, record, now_tick)));
    list
}

fn info(firewall: &Firewall, record: &Record, now_tick: u32) -> StateInfo {
    let name = |end: usize| -> &str {
        let names: &[&str] = if record.protocol == TCP { TCP_PHASES } else { OTHER_PHASES };
        names.get(usize::from(record.phase[end])).copied().unwrap_or("?")
    };
    let state = match record.protocol {
        ICMP | ICMP6 => "0:0".to_owned(),
        _ => format!("{}:{}", name(0), name(1)),
    };
    StateInfo {
        protocol: record.protocol,
        source: record.ends[0].0,
        source_port: record.ends[0].1,
        destination: record.ends[1].0,
        destination_port: record.ends[1].1,
        outside: record.wire,
        modulation: record.is_modulated.then(|| modulation(record.ends[0], record.ends[1])),
        state,
        has_in: record.has_half(0),
        has_out: record.has_half(1),
        packets: (record.packets[0], record.packets[1]),
        expires_s: expires_ms(firewall, record, now_tick) / 1000,
    }
}

/// As the data path's `weir_state_expired()`; [`View`] has it in ticks of their usual length.
fn expires_ms(firewall: &Firewall, record: &Record, now_tick: u32) -> u64 {
    let arena = firewall.arena();
    let class = record.timeout();
    let image_at = arena.read32(control::ACTIVE);
    let profiles = image_at + arena.read32(image_at + image::PROFILES_AT);
    let at = profiles + u32::from(record.profile) * profile::SIZE_BYTES + class * 4;
    let mut ticks = u64::from(arena.read32(at));
    let start = u64::from(arena.read32(image_at + image::ADAPTIVE_START));
    let end = u64::from(arena.read32(image_at + image::ADAPTIVE_END));
    let count = arena.read64(control::STATE_COUNT);
    let is_half_open = matches!(
        class,
        timeout::TCP_FIRST
            | timeout::TCP_OPENING
            | timeout::UDP_FIRST
            | timeout::ICMP_FIRST
            | timeout::OTHER_FIRST
    );
    if end != 0 && count > start {
        let left = end.saturating_sub(count);
        for _ in 0..=u32::from(is_half_open) {
            ticks = if start < end { ticks * left / (end - start) } else { 0 };
        }
    }
    let idle = now_tick.wrapping_sub(record.last_tick).cast_signed().max(0);
    ticks.saturating_sub(u64::from(idle.cast_unsigned()))
}
