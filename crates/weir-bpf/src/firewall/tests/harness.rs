//! Calls the state table's functions by the program of `bpf/states.bpf.c`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};

use crate::firewall::layout::{self, BLANK_AT, BLANK_PROFILE_AT, Sizes, control, image};
use crate::firewall::{Firewall, FirewallError, Options};

pub(super) static STATES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/states.bpf.o"));

/// Small numbers: the loader spreads them.
const SEED: [u64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// The key that the programs hash with.
pub(super) fn key() -> [u64; 8] {
    crate::firewall::load::hash_key(SEED)
}

/// A firewall of an object file; `None`, and the reason is printed, without privileges.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
pub(super) fn load(object: &[u8], bucket_count: u32, overflow_count: u32) -> Option<Firewall> {
    let options =
        Options { hash_seed: SEED, fragment_count_max: 100, source_count_max: 64, log_bytes: 4096 };
    let cpu_count = u32::try_from(libbpf_rs::num_possible_cpus().unwrap()).unwrap();
    let sizes = Sizes { bucket_count, overflow_count, heap_bytes: 1 << 20, cpu_count };
    match Firewall::load_object(object, &options, sizes) {
        Ok(firewall) => Some(firewall),
        Err(FirewallError::Load(error)) if error.is_permission() => {
            eprintln!("skipped: BPF programs need privileges: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// pf's defaults in seconds, in the order of a timeout table.
const TIMEOUTS_S: [u32; 16] = [120, 30, 86400, 900, 45, 90, 60, 30, 60, 20, 10, 60, 30, 60, 30, 0];

/// Ticks of some seconds.
pub(super) fn ticks(seconds: u32) -> u32 {
    u32::try_from((u64::from(seconds) * 1_000_000_000) >> layout::TICK_SHIFT).unwrap()
}

/// A table for states alone, with a limit and pf's timeouts.
pub(super) fn table(bucket_count: u32, overflow_count: u32, limit: u32) -> Option<Table> {
    let firewall = load(STATES, bucket_count, overflow_count)?;
    let arena = firewall.arena();
    arena.write32(BLANK_AT + image::STATE_LIMIT, limit);
    arena.write32(control::FLAGS, layout::CONTROL_ENABLED);
    for (index, seconds) in (0_u32..).zip(TIMEOUTS_S) {
        arena.write32(BLANK_PROFILE_AT + index * 4, ticks(seconds));
    }
    Some(Table { firewall, fields: Fields::new() })
}

/// Where the fields of a request stand, bytes: (offset, size).
#[derive(Debug)]
pub(super) struct Fields(HashMap<String, (usize, usize)>);

impl Fields {
    fn new() -> Self {
        let btf = Btf::from_path(concat!(env!("OUT_DIR"), "/states.bpf.o")).unwrap();
        let mut fields = HashMap::new();
        let mut add = |prefix: &str, base: usize, name: &str| -> usize {
            use libbpf_rs::HasSize as _;
            let structure: Struct<'_> = btf.type_by_name(name).unwrap();
            let members: Vec<(String, usize)> = structure
                .iter()
                .map(|member| {
                    let MemberAttr::Normal { offset } = member.attr else { panic!("bit field") };
                    (member.name.unwrap().to_string_lossy().into_owned(), offset as usize / 8)
                })
                .collect();
            for (index, (name, at)) in members.iter().enumerate() {
                let end = members.get(index + 1).map_or(structure.size(), |(_, at)| *at);
                fields.insert(format!("{prefix}{name}"), (base + at, end - at));
            }
            base
        };
        add("", 0, "weir_test_request");
        add("packet.", 16, "weir_fw_packet");
        let decision = 16 + {
            use libbpf_rs::HasSize as _;
            let packet: Struct<'_> = btf.type_by_name("weir_fw_packet").unwrap();
            packet.size()
        };
        add("decision.", decision, "weir_fw_decision");
        let request: Struct<'_> = btf.type_by_name("weir_test_request").unwrap();
        let hit = request.iter().find(|member| member.name.unwrap() == "hit").unwrap();
        let MemberAttr::Normal { offset } = hit.attr else { panic!("bit field") };
        add("hit.", offset as usize / 8, "weir_fw_hit");
        Self(fields)
    }

    fn at(&self, name: &str) -> (usize, usize) {
        *self.0.get(name).unwrap_or_else(|| panic!("there is no field {name}"))
    }
}

/// A state table and the way to call it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) firewall: Firewall,
    fields: Fields,
}

/// A request, or its answer.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    fields: &'a Fields,
    bytes: Vec<u8>,
}

/// Operations of the program; 0 looks up, and inserts where nothing is found.
pub(super) const LOOK: u32 = 1;
pub(super) const ERROR: u32 = 2;
pub(super) const NEXT_HOP: u32 = 3;
pub(super) const REUSE_FRAGMENT: u32 = 4;
pub(super) const REUSE_SOURCE: u32 = 5;

/// What `result` is.
pub(super) const MISS: u32 = 0;
pub(super) const HIT: u32 = 1;
pub(super) const DROP: u32 = 2;
pub(super) const REFUSED: u32 = 16;

pub(super) const KEEP_STATE: u32 = 1 << 1;

const HEADER_BYTES: usize = 16;

impl Request<'_> {
    /// Sets a field of up to eight bytes.
    pub(super) fn set(mut self, name: &str, value: u64) -> Self {
        let (at, size) = self.fields.at(name);
        let size = size.min(8);
        let at = HEADER_BYTES + at;
        self.bytes[at..at + size].copy_from_slice(&value.to_ne_bytes()[..size]);
        self
    }

    fn set_bytes(&mut self, name: &str, value: &[u8]) {
        let at = HEADER_BYTES + self.fields.at(name).0;
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Sets both ends of the packet.
    pub(super) fn ends(mut self, src: (IpAddr, u16), dst: (IpAddr, u16)) -> Self {
        for (end, (addr, port)) in [("src", src), ("dst", dst)] {
            let mut bytes = [0; 16];
            match addr {
                IpAddr::V4(addr) => bytes[..4].copy_from_slice(&addr.octets()),
                IpAddr::V6(addr) => bytes = addr.octets(),
            }
            self.set_bytes(&format!("packet.{end}"), &bytes);
            self.set_bytes(&format!("packet.{end}_port"), &port.to_be_bytes());
        }
        let family = u64::from(matches!(src.0, IpAddr::V6(_)));
        self.set("packet.family", family)
    }

    /// A field of up to eight bytes.
    pub(super) fn get(&self, name: &str) -> u64 {
        self.word(name, 0, usize::MAX)
    }

    /// An element of an array of `size` bytes each.
    pub(super) fn word(&self, name: &str, index: usize, size: usize) -> u64 {
        let (at, bytes) = self.fields.at(name);
        let size = size.min(bytes).min(8);
        let at = HEADER_BYTES + at + index * size;
        let mut value = [0; 8];
        value[..size].copy_from_slice(&self.bytes[at..at + size]);
        u64::from_ne_bytes(value)
    }

    /// The slot of the packet's record.
    pub(super) fn slot(&self) -> u32 {
        u32::try_from(self.get("hit.slot")).unwrap()
    }

    pub(super) fn result(&self) -> u32 {
        u32::try_from(self.get("result")).unwrap()
    }

    /// How many packets were dropped for a reason.
    pub(super) fn drops(&self, reason: &str) -> u64 {
        let all = crate::firewall::reasons::REASONS;
        let index = all.iter().position(|known| known.name == reason).unwrap();
        self.word("drops", index, 4)
    }
}

impl Table {
    /// A request for a UDP packet that comes in by interface 1 under a rule with `keep state`.
    pub(super) fn request(&self) -> Request<'_> {
        let (_, bytes) = self.fields.at("drops");
        let size = self.fields.at("drops").0 + bytes;
        let request = Request { fields: &self.fields, bytes: vec![0; HEADER_BYTES + size] };
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 1));
        request
            .set("count", 1)
            .set("packet.protocol", 17)
            .set("packet.interface", 1)
            .set("packet.ip_bytes", 46)
            .set("packet.tick", 1000)
            .set("packet.ruleset", u64::from(BLANK_AT))
            .set("decision.flags", u64::from(KEEP_STATE))
            .set("decision.rule", 7)
            .ends((src.into(), 1000), (dst.into(), 53))
    }

    /// The packet goes out by interface 2, and is the box's own.
    pub(super) fn leaving(request: Request<'_>) -> Request<'_> {
        request.set("packet.direction", 1).set("packet.interface", 0).set("packet.out_interface", 2)
    }

    /// Calls the program.
    pub(super) fn call<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        let mut output = request.bytes.clone();
        let (action, _, _) = crate::sys::test_run_from(
            std::os::fd::AsFd::as_fd(&self.firewall.ingress),
            None,
            &request.bytes,
            &mut output,
            1,
        )
        .unwrap();
        assert_eq!(action, 2, "the program understood the request");
        Request { fields: &self.fields, bytes: output }
    }

    /// Number of records by the table's own count.
    pub(super) fn state_count(&self) -> u64 {
        self.firewall.arena().read64(control::STATE_COUNT)
    }

    /// A counter of the state table, over all CPUs.
    pub(super) fn counted(&self, field: u32) -> u64 {
        let regions = self.firewall.regions();
        (0..regions.sizes.cpu_count)
            .map(|cpu| regions.counters.at + cpu * layout::cpu::SIZE_BYTES + field)
            .map(|at| self.firewall.arena().read64(at))
            .sum()
    }

    /// Sets the clock of the data path: the tick that programs see now.
    pub(super) fn set_tick(&self, tick: u32) {
        let arena = self.firewall.arena();
        arena.write32(control::CLOCK_OFFSET, 0);
        let now = nix_free_clock() >> layout::TICK_SHIFT;
        let now = u32::try_from(now & u64::from(u32::MAX)).unwrap();
        arena.write32(control::CLOCK_OFFSET, tick.wrapping_sub(now));
    }
}

/// `CLOCK_MONOTONIC`, ns, as /proc tells it to those who have no system call for it.
fn nix_free_clock() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
    let ns = (seconds * 1e9) as u64;
    ns
}
