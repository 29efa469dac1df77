//! The rules alone (`bpf/rules.bpf.c`): a description of a packet in, a decision out. For tests and
//! benchmarks of the evaluation; no command uses it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use super::layout::{decision, subject};
use super::load::{LOADING, free_address};
use super::{ARENA_MAP, Arena, FirewallError};
use crate::object::Loaded;
use crate::sys;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rules.bpf.o"));
const OBJECT_NAME: &str = "rules";
const PROGRAM: &str = "weir_rules_judge";

const SUBJECT_BYTES: usize = subject::SIZE_BYTES as usize;
const DECISION_BYTES: usize = decision::SIZE_BYTES as usize;

/// The program with an arena of its own.
#[derive(Debug)]
pub struct Judge {
    program: OwnedFd,
    arena: Arena,
}

/// A packet as far as rules look at it, as `struct weir_fw_packet` has it. Addresses are in network
/// order, IPv4 in the first four bytes; ports in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subject {
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub src_port: u16,
    pub dst_port: u16,
    pub family: u8,
    pub protocol: u8,
    pub tcp_flags: u8,
    pub icmp_type: u8,
    pub icmp_code: u8,
    pub tos: u8,
    pub direction: u8,
    pub flags: u32,
    pub vlan_bytes: u16,
    pub ip_bytes: u32,
    pub interface: u8,
    pub out_interface: u8,
    pub priority: u8,
    pub tag: u16,
    pub ruleset: u32,
    /// Who has made its socket; `u32::MAX` if that is not known.
    pub user: u32,
    pub group: u32,
}

impl Subject {
    fn to_bytes(self) -> [u8; SUBJECT_BYTES] {
        let mut out = [0; SUBJECT_BYTES];
        let mut put = |at: u32, bytes: &[u8]| {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(subject::SRC, &self.src);
        put(subject::DST, &self.dst);
        put(subject::SRC_PORT, &self.src_port.to_be_bytes());
        put(subject::DST_PORT, &self.dst_port.to_be_bytes());
        put(subject::FAMILY, &[self.family]);
        put(subject::PROTOCOL, &[self.protocol]);
        put(subject::TCP_FLAGS, &[self.tcp_flags]);
        put(subject::ICMP_TYPE, &[self.icmp_type]);
        put(subject::ICMP_CODE, &[self.icmp_code]);
        put(subject::TOS, &[self.tos]);
        put(subject::DIRECTION, &[self.direction]);
        put(subject::INTERFACE, &[self.interface]);
        put(subject::OUT_INTERFACE, &[self.out_interface]);
        put(subject::PRIORITY, &[self.priority]);
        put(subject::VLAN_BYTES, &self.vlan_bytes.to_ne_bytes());
        put(subject::TAG, &self.tag.to_ne_bytes());
        put(subject::FLAGS, &self.flags.to_ne_bytes());
        put(subject::IP_BYTES, &self.ip_bytes.to_ne_bytes());
        put(subject::RULESET, &self.ruleset.to_ne_bytes());
        put(subject::USER, &self.user.to_ne_bytes());
        put(subject::GROUP, &self.group.to_ne_bytes());
        out
    }
}

/// `struct weir_fw_decision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    pub flags: u32,
    pub rule: u32,
    pub rule_at: u32,
    pub log_rule: u32,
    pub reason: u8,
    pub rst_ttl: u8,
    pub icmp_type: u8,
    pub icmp_code: u8,
    pub profile: u8,
    pub state_max: u32,
    pub routing_table: u32,
    pub tag: u16,
    /// `weir_fw_scrub` of layout.h.
    pub scrub: u64,
}

impl Decision {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; DECISION_BYTES] = bytes.try_into().ok()?;
        let byte = |at: u32| bytes[at as usize];
        let half = |at: u32| u16::from_ne_bytes([byte(at), byte(at + 1)]);
        let word =
            |at: u32| u32::from_ne_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
        Some(Self {
            flags: word(decision::FLAGS),
            rule: word(decision::RULE),
            rule_at: word(decision::RULE_AT),
            log_rule: word(decision::LOG_RULE),
            reason: byte(decision::REASON),
            rst_ttl: byte(decision::RST_TTL),
            icmp_type: byte(decision::ICMP_TYPE),
            icmp_code: byte(decision::ICMP_CODE),
            profile: byte(decision::PROFILE),
            state_max: word(decision::STATE_MAX),
            routing_table: word(decision::ROUTING_TABLE),
            tag: half(decision::TAG),
            scrub: u64::from_ne_bytes(std::array::from_fn(|index| {
                bytes[decision::SCRUB as usize + index]
            })),
        })
    }
}

impl Judge {
    /// Loads the program; its arena is empty.
    ///
    /// # Errors
    /// [`FirewallError`] without privileges or kernel support (Linux 6.12).
    pub fn load() -> Result<Self, FirewallError> {
        let _alone = LOADING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let address = free_address();
        let object = Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
            for mut map in opened.maps_mut() {
                if map.name() == ARENA_MAP {
                    map.set_map_extra(address)?;
                }
            }
            Ok(())
        })?;
        let (program, map) = (object.program(PROGRAM)?, object.map(ARENA_MAP, 0)?);
        // libbpf's own mapping goes with the object, and makes room for ours.
        drop(object);
        Ok(Self { program, arena: Arena::new(&map)? })
    }

    /// Where the ruleset is to be.
    #[must_use]
    pub const fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Judges a packet `repeat` times; also gives the mean duration
    /// of one run, in nanoseconds.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn run(&self, subject: &Subject, repeat: u32) -> io::Result<(Decision, u32)> {
        let mut frame = [0; SUBJECT_BYTES + DECISION_BYTES];
        frame[..SUBJECT_BYTES].copy_from_slice(&subject.to_bytes());
        let mut output = vec![0; frame.len() + 512];
        let (action, bytes, duration_ns) =
            sys::test_run_from(self.program.as_fd(), None, &frame, &mut output, repeat)?;
        let decision = output.get(SUBJECT_BYTES..bytes).and_then(Decision::from_bytes);
        match decision {
            Some(decision) if action == 2 => Ok((decision, duration_ns)),
            _ => Err(io::Error::other("the program did not judge the packet")),
        }
    }
}
