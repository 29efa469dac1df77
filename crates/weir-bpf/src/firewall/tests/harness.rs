//! Calls the state table's functions by the program of `bpf/states.bpf.c`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use weir_wire::protocol::UDP;

use crate::firewall::layout::{
    self, BLANK_AT, BLANK_PROFILE_AT, Sizes, Slots, TIMEOUT_COUNT, control, decision_flags, image,
};
use crate::firewall::{Firewall, FirewallError, OBJECT, Options};

pub(super) static STATES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/states.bpf.o"));

/// Small numbers: the loader spreads them.
const SEED: [u64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// How programs are loaded.
pub(super) const OPTIONS: Options = Options {
    hash_seed: SEED,
    fragment_count_max: 100,
    source_count_max: 2048,
    log_bytes: 4096,
    event_bytes: 4096,
    change_bytes: 4096,
};

/// The key that the programs hash with.
pub(super) fn key() -> [u64; 8] {
    crate::firewall::load::hash_key(SEED)
}

/// Loaded programs and their memory, as new. They go back to their pool when they are dropped: the
/// verifier takes tenths of a second for them, and tests only need memory that nobody has used.
#[derive(Debug)]
pub(super) struct Lent {
    firewall: Option<Firewall>,
    pool: &'static Pool,
}

/// Programs of one object file that no test is using.
#[derive(Debug)]
pub(super) struct Pool {
    object: &'static [u8],
    idle: Mutex<Vec<Firewall>>,
}

/// The data path's programs.
pub(super) static DATA_PATH: Pool = Pool::new(OBJECT);
/// Those that call the state table's functions.
static STATE_TABLE: Pool = Pool::new(STATES);

impl Pool {
    const fn new(object: &'static [u8]) -> Self {
        Self { object, idle: Mutex::new(Vec::new()) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Firewall>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Programs with a table of these sizes; `None`, and the reason is printed, without privileges.
    pub(super) fn lend(&'static self, bucket_count: u32, overflow_count: u32) -> Option<Lent> {
        let sizes = sizes(bucket_count, overflow_count);
        self.lend_part(sizes, sizes.slots())
    }

    /// The same, of which only some slots have memory.
    fn lend_part(&'static self, sizes: Sizes, slots: Slots) -> Option<Lent> {
        let idle = self.idle().pop();
        let firewall = match idle {
            Some(mut firewall) => {
                firewall.renew(sizes, slots).expect("it is as new");
                firewall
            }
            None => load_part(self.object, sizes, slots)?,
        };
        Some(Lent { firewall: Some(firewall), pool: self })
    }
}

impl std::ops::Deref for Lent {
    type Target = Firewall;

    fn deref(&self) -> &Firewall {
        self.firewall.as_ref().expect("it goes back only when it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.idle().extend(self.firewall.take());
    }
}

fn sizes(bucket_count: u32, overflow_count: u32) -> Sizes {
    let cpu_count = u32::try_from(libbpf_rs::num_possible_cpus().unwrap()).unwrap();
    Sizes { bucket_count, overflow_count, heap_bytes: 1 << 20, cpu_count }
}

/// A firewall of an object file; `None`, and the reason is printed, without privileges.
pub(super) fn load(object: &[u8], bucket_count: u32, overflow_count: u32) -> Option<Firewall> {
    let sizes = sizes(bucket_count, overflow_count);
    load_part(object, sizes, sizes.slots())
}

#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn load_part(object: &[u8], sizes: Sizes, slots: Slots) -> Option<Firewall> {
    match Firewall::load_object(object, &OPTIONS, sizes, slots) {
        Ok(firewall) => Some(firewall),
        Err(FirewallError::Load(error)) if error.is_permission() => {
            eprintln!("skipped: BPF programs need privileges: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// pf's defaults in seconds, in the order of a timeout table.
const TIMEOUTS_S: [u32; TIMEOUT_COUNT] =
    [120, 30, 86400, 900, 45, 90, 60, 30, 60, 20, 10, 60, 30, 60, 30, 0];

/// Ticks of some seconds.
pub(super) fn ticks(seconds: u32) -> u32 {
    u32::try_from((u64::from(seconds) * 1_000_000_000) >> layout::TICK_SHIFT).unwrap()
}

/// A table for states alone, with a limit and pf's timeouts.
pub(super) fn table(bucket_count: u32, overflow_count: u32, limit: u32) -> Option<Table> {
    STATE_TABLE.lend(bucket_count, overflow_count).map(|firewall| table_of(firewall, limit))
}

/// The same, of which only some slots have memory, and whose index has only these buckets.
pub(super) fn table_that_grows(most: Slots, first: Slots, limit: u32) -> Option<Table> {
    let sizes = sizes(most.bucket_count, most.overflow_count);
    STATE_TABLE.lend_part(sizes, first).map(|firewall| table_of(firewall, limit))
}

fn table_of(firewall: Lent, limit: u32) -> Table {
    let arena = firewall.arena();
    arena.write32(BLANK_AT + image::STATE_LIMIT, limit);
    arena.write32(control::FLAGS, layout::CONTROL_ENABLED);
    for (index, seconds) in (0_u32..).zip(TIMEOUTS_S) {
        arena.write32(BLANK_PROFILE_AT + index * 4, ticks(seconds));
    }
    Table { firewall, fields: Fields::new() }
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
        let request: Struct<'_> = btf.type_by_name("weir_test_request").unwrap();
        for (name, structure) in
            [("packet", "weir_fw_packet"), ("decision", "weir_fw_decision"), ("hit", "weir_fw_hit")]
        {
            let member = request.iter().find(|member| member.name.unwrap() == name).unwrap();
            let MemberAttr::Normal { offset } = member.attr else { panic!("bit field") };
            add(&format!("{name}."), offset as usize / 8, structure);
        }
        Self(fields)
    }

    fn at(&self, name: &str) -> (usize, usize) {
        *self.0.get(name).unwrap_or_else(|| panic!("there is no field {name}"))
    }
}

/// A state table and the way to call it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) firewall: Lent,
    fields: Fields,
}

/// A request, or its answer.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    fields: &'a Fields,
    bytes: Vec<u8>,
}

// Operations of the program, and what `result` is: of `bpf/include/weir/fw/test.h`.
include!(concat!(env!("OUT_DIR"), "/states.rs"));

const HEADER_BYTES: usize = AT as usize;

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
            .set("operation", KEEP.into())
            .set("count", 1)
            .set("packet.protocol", UDP.into())
            .set("packet.interface", 1)
            .set("packet.ip_bytes", 46)
            .set("packet.tick", 1000)
            .set("packet.ruleset", u64::from(BLANK_AT))
            .set("decision.flags", u64::from(decision_flags::KEEP_STATE))
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
