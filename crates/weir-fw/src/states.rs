//! Reads the states of a running firewall from its memory, without a system call and without
//! holding anything up.
//!
//! Records change while they are read. A bucket's records are read into a buffer and taken as they
//! are if the bucket's first line has not changed meanwhile, and if nobody held its lock; otherwise
//! they are read again, and at last as they were found: one packet's difference is no harm, and a
//! record that just moves within its bucket may be missed or seen twice, as in any list of what
//! comes and goes.
//!
//! The index may grow meanwhile ([`Passed`] keeps what moves to its end from being read twice); it
//! does not shrink as long as somebody goes through all of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::atomic::Ordering;

use weir_bpf::firewall::layout::{
    self, PROFILE_COUNT_MAX, TIMEOUT_COUNT, account, addresses, alias, control, image,
    line_account, phase, profile, state, tcp_phase, timeout,
};
use weir_bpf::firewall::{Arena, Firewall};
use weir_wire::protocol::{ICMP, ICMP6, TCP, UDP};

mod ended;
#[cfg(test)]
mod tests;

pub(crate) use ended::{Change, change, ended};

/// How often a bucket is read until it is taken as it is.
const TRIES: u32 = 8;
/// Buckets that are read before any of their records is used.
const BUCKETS_AT_ONCE: u32 = 1024;
/// Records of one bucket; more is a damaged chain.
const CHAIN_COUNT_MAX: usize = 2048;

/// The slot in an interface's byte.
const INTERFACE_MASK: u8 = layout::STATE_INTERFACE_MASK.to_le_bytes()[0];
/// The tag in an account, where it stands lowest.
const TAG_MASK: u8 = layout::TAG_COUNT_MAX.to_le_bytes()[0];
/// The number of changes in an account, where it stands lowest.
const SCRUB_MASK: u8 = layout::ACCOUNT_SCRUB_MASK.to_le_bytes()[0];
/// A line as 64-bit words.
const LINE_WORDS: usize = (state::SIZE_BYTES / 8) as usize;

/// One state: one flow that the firewall lets through in both directions. End 0 made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its slot in the table.
    pub slot: u32,
    /// Address and port of both ends, as they are inside: where destinations are translated
    /// already, and sources not yet. An ICMP query has its identifier at the end that asks, and its
    /// type at the other; protocols without ports have 0.
    pub ends: [(IpAddr, u16); 2],
    /// The ends as they stand on the wire where half A or half B has its interface, if rules have
    /// translated one of them there: end 1 of half A, end 0 of half B; or, of half B, both, which
    /// are of the other family then ([`Self::other_family`]).
    pub wire: [Option<[(IpAddr, u16); 2]>; 2],
    /// Ids of the rules that did.
    pub translator: [Option<u32>; 2],
    /// Whether those count the state among theirs: not if the rule has made the half as well.
    pub is_translator_counted: [bool; 2],
    /// IP protocol.
    pub protocol: u8,
    /// Phases of both ends: `layout::tcp_phase`, of other protocols `layout::phase`.
    pub phase: [u8; 2],
    /// Sequence windows of both ends, TCP only: first number, and the one behind the last.
    pub seq: [[u32; 2]; 2],
    /// Largest windows that both ends have offered, TCP only, as pf keeps them.
    pub max_win: [u16; 2],
    /// Window scaling of both ends, as pf keeps it.
    pub wscale: [u8; 2],
    /// The sequence numbers of its ends are changed on their way (`modulate state`).
    pub is_modulated: bool,
    /// Packets from end 0 and from end 1.
    pub packets: [u64; 2],
    /// Bytes from end 0 and from end 1, IP headers included.
    pub bytes: [u64; 2],
    /// Ids of the rules that made half A (forward packets in, reverse ones out) and half B.
    pub rules: [Option<u32>; 2],
    /// Numbers of the tags that rules gave with half A and half B; 0: none.
    pub tags: [u8; 2],
    /// Whether the rules of half A and half B say `no-sync`, `log (all)`, and `pflow`.
    pub are_no_sync: [bool; 2],
    pub log_all: [bool; 2],
    pub pflow: [bool; 2],
    /// Whether they say `allow-opts`.
    pub allow_options: [bool; 2],
    /// Numbers of what packets of half A and half B are changed by; 0: nothing.
    pub scrubs: [u8; 2],
    /// Of halves that are counted among their sources' states: which end the source is.
    pub source_end: [usize; 2],
    /// Slots of the interfaces at which the halves were made; 0: unknown.
    pub interfaces: [u8; 2],
    /// `layout::STATE_*`.
    pub flags: u32,
    /// Next hops towards end 1 and towards end 0, and the generation in which they were found.
    pub next_hop: [u16; 2],
    /// Numbers of the gateways towards end 1 and towards end 0; 0: those of the routes.
    pub gateways: [u8; 2],
    /// Generation of both.
    pub generation: u16,
    /// When it was made, in ticks.
    pub created_tick: u32,
    /// When its last packet came that kept it alive, in ticks.
    pub last_tick: u32,
    /// Its timeout table.
    pub profile: u8,
    /// Another firewall has sent it; whether last in an odd bulk.
    pub imported: Option<bool>,
}

impl Record {
    /// Whether half A (0) or B (1) only covers its interface.
    #[must_use]
    pub const fn is_bound(&self, half: usize) -> bool {
        let flag = if half == 0 { layout::STATE_IF_BOUND_A } else { layout::STATE_IF_BOUND_B };
        self.flags & flag != 0
    }

    /// Whether half A (0) or B (1) is there.
    #[must_use]
    pub const fn has_half(&self, half: usize) -> bool {
        let flag = if half == 0 { layout::STATE_HALF_A } else { layout::STATE_HALF_B };
        self.flags & flag != 0
    }

    /// Its ends as they leave and come back, where `af-to` has given them the other family.
    #[must_use]
    pub fn other_family(&self) -> Option<[(IpAddr, u16); 2]> {
        self.wire[1].filter(|wire| wire[0].0.is_ipv4() != self.ends[0].0.is_ipv4())
    }

    /// The timeout that it is under, as an index of a timeout table.
    #[must_use]
    pub fn timeout(&self) -> u32 {
        timeout_of(self.protocol, self.flags & layout::STATE_FIRST != 0, self.phase)
    }

    /// What names it: made of the slot and the time of its making, so that another record in the
    /// same slot has another name.
    #[must_use]
    pub const fn id(&self) -> u64 {
        (self.created_tick as u64) << 32 | self.slot as u64
    }
}

/// The timeout of a state, as an index of a timeout table: pf's rules.
#[must_use]
pub(crate) fn timeout_of(protocol: u8, is_first: bool, phases: [u8; 2]) -> u32 {
    let (least, most) = (phases[0].min(phases[1]), phases[0].max(phases[1]));
    match protocol {
        TCP if is_first => timeout::TCP_FIRST,
        TCP if least >= tcp_phase::FIN_WAIT_2 => timeout::TCP_CLOSED,
        TCP if least >= tcp_phase::CLOSING => timeout::TCP_FINWAIT,
        TCP if least < tcp_phase::ESTABLISHED => timeout::TCP_OPENING,
        TCP if most >= tcp_phase::CLOSING => timeout::TCP_CLOSING,
        TCP => timeout::TCP_ESTABLISHED,
        ICMP | ICMP6 => timeout::ICMP_FIRST + u32::from(!is_first),
        protocol => {
            let first = if protocol == UDP { timeout::UDP_FIRST } else { timeout::OTHER_FIRST };
            match (is_first, least) {
                (true, _) => first,
                (false, phase::MULTIPLE) => first + 2,
                (false, _) => first + 1,
            }
        }
    }
}

/// Of connections that nobody has answered, or completed, yet: they are scaled twice.
const HALF_OPEN: [u32; 5] = [
    timeout::TCP_FIRST,
    timeout::TCP_OPENING,
    timeout::UDP_FIRST,
    timeout::ICMP_FIRST,
    timeout::OTHER_FIRST,
];

/// Ticks as seconds, rounded down.
#[must_use]
pub const fn seconds(ticks: u64) -> u64 {
    (ticks << layout::TICK_SHIFT) / 1_000_000_000
}

/// What timeouts are scaled by at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Adaptive {
    start: u64,
    end: u64,
    state_count: u64,
}

impl Adaptive {
    fn scale(self, ticks: u32, class: u32) -> u64 {
        let ticks = u64::from(ticks);
        if self.end == 0 || self.state_count <= self.start || self.start >= self.end {
            return ticks;
        }
        if self.state_count >= self.end {
            return 0;
        }
        let (left, span) = (self.end - self.state_count, self.end - self.start);
        let once = ticks * left / span;
        if HALF_OPEN.contains(&class) { once * left / span } else { once }
    }
}

/// The states of a firewall.
#[derive(Debug)]
pub struct View<'a> {
    firewall: &'a Firewall,
    adaptive: Adaptive,
    /// Timeout tables, in ticks.
    profiles: Vec<[u32; TIMEOUT_COUNT]>,
}

/// A line as it was read.
type Line = [u64; LINE_WORDS];

/// A record that was read, before it is taken apart.
#[derive(Debug, Clone, Copy, Default)]
struct Raw {
    slot: u32,
    line: Line,
    account: [u64; 4],
    addresses: [u64; 4],
    /// The aliases of half A and half B with their addresses: [`layout::alias`].
    aliases: [Option<(Line, [u64; 4])>; 2],
}

const fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl<'a> View<'a> {
    /// A view on a firewall. Timeouts, also adaptive ones, are those of this moment: the ruleset
    /// that says them may be gone before all states were seen.
    #[must_use]
    pub fn new(firewall: &'a Firewall) -> Self {
        let arena = firewall.arena();
        let at = arena.read32(control::ACTIVE);
        let adaptive = Adaptive {
            start: arena.read32(at + image::ADAPTIVE_START).into(),
            end: arena.read32(at + image::ADAPTIVE_END).into(),
            state_count: arena.read64(control::STATE_COUNT),
        };
        let count = arena.read32(at + image::PROFILE_COUNT).min(PROFILE_COUNT_MAX);
        let tables_at = at + arena.read32(at + image::PROFILES_AT);
        let table = |number: u32| {
            let mut at = tables_at + number * profile::SIZE_BYTES;
            [(); TIMEOUT_COUNT].map(|()| {
                let ticks = arena.read32(at);
                at += 4;
                ticks
            })
        };
        Self { firewall, adaptive, profiles: (0..count).map(table).collect() }
    }

    /// How many states there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.arena().read64(control::STATE_COUNT)
    }

    fn arena(&self) -> &Arena {
        self.firewall.arena()
    }

    fn line_at(&self, slot: u32) -> u32 {
        self.firewall.regions().states.at + slot * state::SIZE_BYTES
    }

    /// Whether a slot can be one; what is read may be anything.
    fn is_slot(&self, slot: u32) -> bool {
        let (ready, behind) = (self.firewall.ready(), self.firewall.regions().sizes.bucket_count);
        slot < ready.bucket_count || slot.wrapping_sub(behind) < ready.overflow_count
    }

    /// Calls a function for every state, until it fails.
    ///
    /// # Errors
    /// What the function returned.
    pub fn try_for_all<E>(&self, mut each: impl FnMut(&Record) -> Result<(), E>) -> Result<(), E> {
        let _still = self.firewall.hold_still();
        let mut passed = Passed::default();
        let (mut from, mut records) = (0, Vec::new());
        // There may be more of them with every look.
        while from < self.firewall.bucket_count() {
            let to = self.firewall.bucket_count().min(from + BUCKETS_AT_ONCE);
            let bucket_count = self.read_range(from..to, &passed, &mut records);
            passed.note(from, bucket_count);
            for raw in &records {
                each(&take_apart(raw))?;
            }
            from = to;
        }
        Ok(())
    }

    /// Calls a function for every state.
    pub fn for_all(&self, mut each: impl FnMut(&Record)) {
        let result: Result<(), std::convert::Infallible> = self.try_for_all(|record| {
            each(record);
            Ok(())
        });
        let Ok(()) = result;
    }

    /// Reads the records of some buckets, but for those that were read in another bucket; gives the
    /// number of buckets by which they were in these.
    fn read_range(&self, buckets: Range<u32>, passed: &Passed, records: &mut Vec<Raw>) -> u32 {
        let mut bucket_count = self.firewall.bucket_count();
        for _ in 0..TRIES {
            let before = bucket_count;
            self.ask_for(&buckets);
            records.clear();
            for bucket in buckets.clone().filter(|bucket| !passed.has(*bucket)) {
                self.read_chain(bucket, records);
            }
            bucket_count = self.firewall.bucket_count();
            if !splits(before..bucket_count, &buckets) {
                break;
            }
        }
        bucket_count
    }

    /// Asks for the second lines of some buckets, all at once: none of them is waited for alone.
    fn ask_for(&self, buckets: &Range<u32>) {
        let mut touched = 0;
        for bucket in buckets.clone() {
            let first = self.arena().word64(self.line_at(bucket)).load(Ordering::Relaxed);
            if low(first) & layout::STATE_LIVE != 0 && self.is_slot(high(first)) {
                let second = self.arena().word64(self.line_at(high(first)));
                touched |= second.load(Ordering::Relaxed);
            }
        }
        std::hint::black_box(touched);
    }

    /// Appends the records of a bucket to others.
    fn read_chain(&self, bucket: u32, records: &mut Vec<Raw>) {
        let first = self.arena().word32(self.line_at(bucket) + state::CONTROL);
        // Most buckets are looked at once: there is nothing in them.
        if first.load(Ordering::Relaxed) & layout::STATE_LIVE == 0 {
            return;
        }
        let start = records.len();
        for _ in 0..TRIES {
            records.truncate(start);
            if self.read_bucket(bucket, records) {
                break;
            }
            std::hint::spin_loop();
        }
    }

    /// The tags that states have: a bit for each number.
    #[must_use]
    pub fn tags(&self) -> u32 {
        let mut tags = 0;
        self.for_all(|record| tags |= record.tags.iter().fold(0, |all, tag| all | 1 << tag));
        tags
    }

    /// The numbers of what states' packets are changed by: a bit for each.
    #[must_use]
    pub(crate) fn scrubs(&self) -> u32 {
        let mut scrubs = 0;
        self.for_all(|record| scrubs |= record.scrubs.iter().fold(0, |all, n| all | 1 << n));
        scrubs
    }

    /// The numbers of the gateways that states have: a bit for each.
    #[must_use]
    pub(crate) fn gateways(&self) -> u32 {
        let mut gateways = 0;
        self.for_all(|record| gateways |= record.gateways.iter().fold(0, |all, n| all | 1 << n));
        gateways
    }

    /// Reads the records of a bucket. False if they changed meanwhile.
    fn read_bucket(&self, bucket: u32, records: &mut Vec<Raw>) -> bool {
        let mut slot = bucket;
        let mut is_stable = true;
        let (mut first, mut length) = (None, 0);
        while length < CHAIN_COUNT_MAX {
            let (raw, is_whole) = self.read_record(slot);
            let flags = low(raw.line[0]);
            is_stable &= is_whole;
            if flags & layout::STATE_LIVE == 0 {
                is_stable &= slot == bucket;
                break;
            }
            first.get_or_insert(raw.line[0]);
            length += 1;
            if flags & layout::STATE_ALIAS == 0 {
                records.push(raw);
            }
            slot = high(raw.line[0]);
            if slot == 0 || !self.is_slot(slot) {
                is_stable &= slot == 0;
                break;
            }
        }
        // Whoever changes anything in a bucket has its lock meanwhile.
        let Some(first) = first else { return is_stable };
        let now = self.arena().read64(self.line_at(bucket));
        is_stable && low(first) & layout::STATE_LOCK == 0 && now == first
    }

    /// Reads a record; false if it is certainly not whole.
    fn read_record(&self, slot: u32) -> (Raw, bool) {
        let arena = self.arena();
        let at = self.line_at(slot);
        let mut line: Line = read_words(arena, at);
        let flags = low(line[0]);
        if flags & layout::STATE_ALIAS != 0 {
            return (Raw { slot, line, ..Raw::default() }, true);
        }
        let account = self.account_of(slot, &mut line);
        let mut raw = Raw { slot, line, account, ..Raw::default() };
        let mut is_whole = true;
        if flags & layout::STATE_IPV6 != 0 {
            (raw.addresses, is_whole) = self.addresses_at(slot, high(line[1]));
        }
        if flags & layout::STATE_LIVE != 0 && flags & layout::STATE_TRANSLATED != 0 {
            is_whole &= self.read_aliases(&mut raw);
        }
        (raw, is_whole)
    }

    /// The IPv6 addresses of the record or alias in a slot; false if they are another one's.
    fn addresses_at(&self, owner: u32, slot: u32) -> ([u64; 4], bool) {
        if !self.is_slot(slot) {
            return ([0; 4], false);
        }
        let at = self.line_at(slot);
        let first = self.arena().read64(at);
        let is_whole = low(first) & layout::STATE_ADDRESSES != 0 && high(first) == owner;
        (read_words(self.arena(), at + addresses::ADDR), is_whole)
    }

    /// The aliases of a record, the first of which has counted for it.
    fn read_aliases(&self, raw: &mut Raw) -> bool {
        let mut is_whole = true;
        let mut counted = None;
        let slots = [0, 4].map(|offset| word(&raw.line, state::COUNT + offset));
        for (alias, slot) in raw.aliases.iter_mut().zip(slots).filter(|(_, slot)| *slot != 0) {
            if !self.is_slot(slot) {
                is_whole = false;
                continue;
            }
            let line: Line = read_words(self.arena(), self.line_at(slot));
            let mut addresses = [0; 4];
            is_whole &= low(line[0]) & layout::STATE_ALIAS != 0;
            if low(line[0]) & layout::STATE_IPV6 != 0 {
                let found = self.addresses_at(slot, high(line[1]));
                addresses = found.0;
                is_whole &= found.1;
            }
            counted.get_or_insert(line[COUNT_WORD]);
            *alias = Some((line, addresses));
        }
        raw.line[COUNT_WORD] = counted.unwrap_or(0);
        is_whole
    }

    fn account_of(&self, slot: u32, line: &mut Line) -> [u64; 4] {
        let at = self.firewall.regions().accounts.at + slot * account::SIZE_BYTES;
        account_of(line, || read_words(self.arena(), at))
    }

    /// Seconds until a record ends if no packet comes, at a tick; 0 if it is due.
    #[must_use]
    pub(crate) fn expires_in_s(&self, record: &Record, now_tick: u32) -> u64 {
        seconds(self.expires_in_ticks(record, now_tick))
    }

    /// The same in ticks.
    #[must_use]
    pub(crate) fn expires_in_ticks(&self, record: &Record, now_tick: u32) -> u64 {
        let ticks = self.timeout_ticks(record.timeout(), record.profile);
        let idle = now_tick.wrapping_sub(record.last_tick).cast_signed().max(0);
        ticks.saturating_sub(u64::from(idle.cast_unsigned()))
    }

    /// How long a timeout is at the moment, in ticks.
    #[must_use]
    pub(crate) fn timeout_ticks(&self, class: u32, profile: u8) -> u64 {
        let table = self.profiles.get(usize::from(profile)).or(self.profiles.first());
        let index = usize::try_from(class).unwrap_or(0);
        let ticks = table.and_then(|profile| profile.get(index)).copied().unwrap_or(0);
        self.adaptive.scale(ticks, class)
    }
}

/// A record's account, as one of TCP has it: `read` reads it. Others have most of it where TCP has
/// its sequence numbers, which then are none.
fn account_of(line: &mut Line, read: impl Fn() -> [u64; 4]) -> [u64; 4] {
    if protocol_of(line) == TCP {
        return read();
    }
    let inline = |field: u32| word(line, state::SEQ + field);
    let (half, created) = (
        [inline(line_account::HALF), inline(line_account::HALF + 4)],
        inline(line_account::CREATED_TICK),
    );
    let counted: [u64; 4] = match inline(line_account::HAS_ACCOUNT) {
        0 => [0; 4],
        _ => read(),
    };
    let first_piece = (1 << layout::HALF_SCRUB_SHIFT) - 1;
    let rule = |end: usize| {
        counted[end] | u64::from(half[end] & first_piece) << layout::ACCOUNT_RULE_SHIFT
    };
    let rest = |end: usize, created: u32| {
        let second_piece = half[end] >> layout::HALF_SCRUB_SHIFT & layout::ACCOUNT_SCRUB_MASK;
        counted[end + 2]
            | u64::from(second_piece) << layout::ACCOUNT_SCRUB_SHIFT
            | u64::from(created) << layout::ACCOUNT_CREATED_SHIFT
    };
    let account = [rule(0), rule(1), rest(0, created & 0xffff), rest(1, created >> 16)];
    line[SEQ_WORDS].fill(0);
    account
}

/// The bucket that another one was split off, or would be.
const fn parent(bucket: u32) -> u32 {
    match bucket.checked_ilog2() {
        Some(highest) => bucket & !(1 << highest),
        None => 0,
    }
}

/// Whether one of the buckets that came in the meantime was split off one of some others.
fn splits(new: Range<u32>, buckets: &Range<u32>) -> bool {
    let mut from = new.start;
    while from < new.end {
        // Up to the next power of two, parents are in a row.
        let to = new.end.min((from + 1).next_power_of_two());
        if parent(from) < buckets.end && parent(to - 1) >= buckets.start {
            return true;
        }
        from = to;
    }
    false
}

/// How many buckets there were as others were read.
///
/// A bucket that has come since has the records of one that was read before: whoever has read that
/// one when they were there does not read them again. As long as no buckets are joined, their
/// number only grows.
#[derive(Debug, Default)]
struct Passed {
    /// From which bucket on there were how many.
    counts: Vec<(u32, u32)>,
}

impl Passed {
    /// Notes that so many buckets were there as those from `from` on were read.
    fn note(&mut self, from: u32, bucket_count: u32) {
        if self.counts.last().is_none_or(|(_, last)| *last != bucket_count) {
            self.counts.push((from, bucket_count));
        }
    }

    /// Whether the records of a bucket were read in another one.
    fn has(&self, bucket: u32) -> bool {
        let Some((_, first)) = self.counts.first() else { return false };
        let mut before = bucket;
        while before >= *first {
            before = parent(before);
            let behind = self.counts.partition_point(|(from, _)| *from <= before);
            let count = self.counts[..behind].last().map_or(*first, |(_, count)| *count);
            // The bucket was split off later, and so was what lies between the two.
            if bucket_of(bucket, count) == before {
                return true;
            }
        }
        false
    }
}

/// Where the records of a bucket were when there were so many: `weir_index_bucket()` of `table.h`.
const fn bucket_of(bucket: u32, bucket_count: u32) -> u32 {
    let mut bucket = bucket;
    while bucket >= bucket_count {
        bucket = parent(bucket);
    }
    bucket
}

/// Where the sequence numbers are in a line.
const SEQ_WORDS: Range<usize> = 3..5;
const _: () = assert!(state::SEQ == 3 * 8 && line_account::SIZE_BYTES == 2 * 8);
/// Where the counts of both directions are, also in the line of an alias.
const COUNT_WORD: usize = 7;
const _: () = assert!(state::COUNT == 7 * 8 && alias::COUNT == state::COUNT);

#[expect(clippy::cast_possible_truncation, reason = "a byte is cut out of a word")]
const fn protocol_of(line: &Line) -> u8 {
    (low(line[0]) >> layout::STATE_PROTOCOL_SHIFT) as u8
}

/// Words in a row.
fn read_words<const N: usize>(arena: &Arena, at: u32) -> [u64; N] {
    let mut at = at;
    [(); N].map(|()| {
        let word = arena.read64(at);
        at = at.wrapping_add(8);
        word
    })
}

/// Seconds since a record was made, at a tick.
#[must_use]
pub(crate) fn age_s(record: &Record, now_tick: u32) -> u64 {
    let ticks = now_tick.wrapping_sub(record.created_tick).cast_signed();
    seconds(u64::from(ticks.max(0).cast_unsigned()))
}

/// The tick of a moment of `CLOCK_MONOTONIC`, as the programs count.
#[must_use]
pub fn tick(firewall: &Firewall, monotonic_ns: u64) -> u32 {
    let ticks = low(monotonic_ns >> layout::TICK_SHIFT);
    ticks.wrapping_add(firewall.arena().read32(control::CLOCK_OFFSET))
}

/// A 16-bit piece of a line, by its offset.
#[expect(clippy::cast_possible_truncation, reason = "a piece is cut out of a word")]
const fn half_word(line: &Line, at: u32) -> u16 {
    (line[(at / 8) as usize] >> (at % 8 * 8)) as u16
}

/// A byte of a line, by its offset.
#[expect(clippy::cast_possible_truncation, reason = "a piece is cut out of a word")]
const fn byte(line: &Line, at: u32) -> u8 {
    (line[(at / 8) as usize] >> (at % 8 * 8)) as u8
}

/// A 32-bit word of a line, by its offset.
#[expect(clippy::cast_possible_truncation, reason = "a piece is cut out of a word")]
const fn word(line: &Line, at: u32) -> u32 {
    (line[(at / 8) as usize] >> (at % 8 * 8)) as u32
}

/// The addresses of a record's line or of an alias's, and those of IPv6 besides.
fn addresses_of(line: &Line, addresses: &[u64; 4]) -> [IpAddr; 2] {
    if low(line[0]) & layout::STATE_IPV6 == 0 {
        return [0, 4].map(|offset| {
            IpAddr::V4(Ipv4Addr::from(word(line, state::ADDR + offset).to_ne_bytes()))
        });
    }
    [0, 2].map(|index| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&addresses[index].to_ne_bytes());
        bytes[8..].copy_from_slice(&addresses[index + 1].to_ne_bytes());
        IpAddr::V6(Ipv6Addr::from(bytes))
    })
}

/// Addresses and ports of a record's line or of an alias's.
fn ends_of(line: &Line, addresses: &[u64; 4]) -> [(IpAddr, u16); 2] {
    let [one, two] = addresses_of(line, addresses);
    let port = |end: u32| u16::from_be(half_word(line, state::PORT + end * 2));
    [(one, port(0)), (two, port(1))]
}

fn take_apart(raw: &Raw) -> Record {
    let line = &raw.line;
    let flags = low(line[0]);
    let each = |at: u32| [half_word(line, at), half_word(line, at + 2)];
    let bytes = |at: u32| [byte(line, at), byte(line, at + 1)];
    let seq = |end: u32| [word(line, state::SEQ + end * 8), word(line, state::SEQ + end * 8 + 4)];
    let counted = [0, 1].map(|end| u64::from(word(line, state::COUNT + end * 4)));
    let packets_mask = (1 << layout::ACCOUNT_RULE_SHIFT) - 1;
    let bytes_mask = (1 << layout::ACCOUNT_SCRUB_SHIFT) - 1;
    let rule = |half: usize| {
        let id = (raw.account[half] >> layout::ACCOUNT_RULE_SHIFT) as u32 & layout::RULE_NONE;
        (id != layout::RULE_NONE).then_some(id)
    };
    let says = |shift: u32| {
        [0, 1].map(|half| raw.account[half] >> (layout::ACCOUNT_RULE_SHIFT + shift) & 1 != 0)
    };
    let wscale = bytes(state::WSCALE);
    let source_is_1 = [layout::WSCALE_SOURCE_A_IS_1, layout::WSCALE_SOURCE_B_IS_1];
    let created = [2, 3].map(|index| (raw.account[index] >> layout::ACCOUNT_CREATED_SHIFT) as u32);
    let tag = |word: u64| (word >> layout::ACCOUNT_TAG_SHIFT) as u8 & TAG_MASK;
    let scrub = |word: u64| (word >> layout::ACCOUNT_SCRUB_SHIFT).to_le_bytes()[0] & SCRUB_MASK;
    let shift = layout::STATE_COUNT_PACKETS_SHIFT;
    Record {
        slot: raw.slot,
        ends: ends_of(line, &raw.addresses),
        wire: raw.aliases.map(|alias| alias.map(|(line, addresses)| ends_of(&line, &addresses))),
        translator: raw.aliases.map(|alias| alias.map(|(line, _)| word(&line, alias::RULE))),
        is_translator_counted: raw
            .aliases
            .map(|alias| alias.is_some_and(|(line, _)| half_word(&line, alias::IS_COUNTED) != 0)),
        protocol: protocol_of(line),
        phase: bytes(state::PHASE),
        seq: [seq(0), seq(1)],
        max_win: each(state::MAX_WIN),
        wscale,
        packets: [0, 1].map(|end| (raw.account[end] & packets_mask) + (counted[end] >> shift)),
        bytes: [0, 1]
            .map(|end| (raw.account[end + 2] & bytes_mask) + (counted[end] & ((1 << shift) - 1))),
        rules: [rule(0), rule(1)],
        tags: [0, 1].map(|half| tag(raw.account[half])),
        are_no_sync: says(layout::HALF_NO_SYNC_SHIFT),
        log_all: says(layout::HALF_LOG_SHIFT),
        pflow: says(layout::HALF_PFLOW_SHIFT),
        allow_options: says(layout::HALF_OPTIONS_SHIFT),
        scrubs: [0, 1].map(|half| scrub(raw.account[half + 2])),
        is_modulated: wscale[1] & layout::WSCALE_MODULATED != 0,
        source_end: source_is_1.map(|bit| usize::from(wscale[1] & bit != 0)),
        interfaces: bytes(state::INTERFACE).map(|slot| slot & INTERFACE_MASK),
        flags: flags & !layout::STATE_LOCK,
        next_hop: each(state::NEXT_HOP).map(|word| word & ((1 << layout::STATE_GATEWAY_SHIFT) - 1)),
        gateways: each(state::NEXT_HOP).map(|word| (word >> layout::STATE_GATEWAY_SHIFT) as u8),
        generation: half_word(line, state::GENERATION),
        created_tick: created[0] | created[1] << 16,
        last_tick: word(line, state::LAST_TICK),
        profile: (flags >> layout::STATE_PROFILE_SHIFT) as u8,
        imported: imported(bytes(state::INTERFACE)),
    }
}

/// What the interfaces of both halves say of who has sent a record.
fn imported(interfaces: [u8; 2]) -> Option<bool> {
    let [is_imported, is_odd] = interfaces.map(|interface| {
        u32::from(interface) & layout::STATE_IMPORTED_MASK == layout::STATE_IMPORTED
    });
    is_imported.then_some(is_odd)
}
