//! Goes through a state table that nobody changes: is every record where it belongs, and every slot
//! accounted for?

use super::harness::key;
use crate::firewall::Firewall;
use crate::firewall::layout::{self, addresses, alias, control, state};

/// What an audit found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Audit {
    pub(super) live: u64,
    /// Aliases that belong to a record, and lines that belong to nobody any more.
    pub(super) aliases: u64,
    pub(super) ended: u64,
    pub(super) ipv6: u64,
    pub(super) overflow: u64,
    pub(super) free: u64,
    pub(super) longest_chain: u64,
}

/// `weir_hash_words` of hash.h.
fn words(a: u64, b: u64, key_a: u64, key_b: u64) -> u64 {
    let low = |word: u64| word & 0xffff_ffff;
    let sum = |word: u64, key: u64| (low(low(word) + low(key)), low((word >> 32) + (key >> 32)));
    let ((a0, a1), (b0, b1)) = (sum(a, key_a), sum(b, key_b));
    a0.wrapping_mul(a1).wrapping_add(b0.wrapping_mul(b1))
}

/// The hash of a flow, written a second time.
fn hash(family: u64, protocol: u64, ends: [([u32; 4], u16); 2]) -> u64 {
    let key = key();
    let end = |(addr, port): ([u32; 4], u16)| {
        let addr = addr.map(u64::from);
        if family == 0 {
            u64::from(port) << 32 | addr[0]
        } else {
            words(addr[1] << 32 | addr[0], addr[3] << 32 | addr[2], key[3], key[4])
                .wrapping_add(u64::from(port).wrapping_mul(key[5] | 1))
        }
    };
    let (one, two) = (end(ends[0]), end(ends[1]));
    let mixed = words(one.min(two), one.max(two), key[0], key[1]);
    let mixed = mixed.wrapping_add(protocol << 8 | family);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(key[2] | 1);
    mixed ^ mixed >> 32
}

/// `weir_index_bucket` of table.h, written a second time: the last bits that lead to a bucket.
fn bucket_of(hash: u64, bucket_count: u32) -> u32 {
    let bits = u32::try_from(hash >> 32).unwrap().swap_bytes();
    let reached = (0..=31).rev().map(|shift| u64::from(bits) & ((1_u64 << shift) - 1));
    let reached = reached.map(|bucket| u32::try_from(bucket).unwrap());
    reached.into_iter().find(|bucket| *bucket < bucket_count).unwrap_or(0)
}

struct Walk<'a> {
    firewall: &'a Firewall,
    seen: Vec<bool>,
    audit: Audit,
    /// Aliases that were found, and those that records have, with the record and its half.
    aliases: Vec<u32>,
    owned: Vec<(u32, u32, u32)>,
}

impl Walk<'_> {
    fn read(&self, slot: u32, field: u32) -> u32 {
        let at = self.firewall.regions().states.at + slot * state::SIZE_BYTES + field;
        self.firewall.arena().read32(at)
    }

    fn mark(&mut self, slot: u32, what: &str) {
        let seen = &mut self.seen[slot as usize];
        assert!(!*seen, "slot {slot} ({what}) is reached twice");
        *seen = true;
    }

    fn record(&mut self, bucket: u32, slot: u32) {
        let flags = self.read(slot, state::CONTROL);
        assert!(flags & layout::STATE_LIVE != 0, "slot {slot} of bucket {bucket} is live");
        if slot != bucket {
            assert!(flags & layout::STATE_LOCK == 0, "only a bucket has a lock");
        }
        self.mark(slot, "record");
        let is_alias = flags & layout::STATE_ALIAS != 0;
        let halves = flags & (layout::STATE_HALF_A | layout::STATE_HALF_B);
        match (is_alias, halves) {
            (false, _) => self.audit.live += 1,
            (true, 0) if slot == bucket => {
                assert_ne!(
                    self.read(slot, state::NEXT),
                    0,
                    "bucket {bucket} begins with something"
                );
                return;
            }
            (true, 0) => self.audit.ended += 1,
            (true, _) => {
                assert_ne!(slot, bucket, "an alias has a slot of its own");
                self.audit.aliases += 1;
                self.aliases.push(slot);
            }
        }
        if flags & layout::STATE_TRANSLATED != 0 && !is_alias {
            for half in 0..2 {
                let alias = self.read(slot, state::COUNT + half * 4);
                if alias != 0 {
                    self.owned.push((alias, slot, half));
                }
            }
        }
        let ports = self.read(slot, state::PORT);
        let [one, two] = [ports & 0xffff, ports >> 16].map(|port| u16::try_from(port).unwrap());
        let mut ends = [([0; 4], one), ([0; 4], two)];
        let is_ipv6 = flags & layout::STATE_IPV6 != 0;
        if is_ipv6 {
            let second = self.read(slot, state::ADDR + 4);
            self.mark(second, "addresses");
            self.audit.ipv6 += u64::from(!is_alias);
            assert_eq!(self.read(second, addresses::CONTROL), layout::STATE_ADDRESSES);
            assert_eq!(self.read(second, addresses::OWNER), slot, "addresses know their record");
            for index in 0..8 {
                let word = self.read(second, addresses::ADDR + index * 4);
                ends[(index / 4) as usize].0[(index % 4) as usize] = word;
            }
        } else {
            ends[0].0[0] = self.read(slot, state::ADDR);
            ends[1].0[0] = self.read(slot, state::ADDR + 4);
        }
        let protocol = u64::from(flags >> layout::STATE_PROTOCOL_SHIFT & 0xff);
        let hash = hash(u64::from(is_ipv6), protocol, ends);
        if is_ipv6 {
            let tag = self.read(slot, state::ADDR);
            assert_eq!(u64::from(tag), hash & 0xffff_ffff, "the tag of slot {slot}");
        }
        let count = self.firewall.bucket_count();
        assert_eq!(bucket_of(hash, count), bucket, "slot {slot} is in its bucket");
    }

    /// Every alias belongs to one record, whose half it is of, and whose end stands in it.
    fn pairs(&mut self) {
        self.owned.sort_unstable();
        self.aliases.sort_unstable();
        let owned: Vec<u32> = self.owned.iter().map(|(alias, ..)| *alias).collect();
        assert_eq!(owned, self.aliases, "aliases and their records");
        for (alias, record, half) in self.owned.clone() {
            let flag = if half == 0 { layout::STATE_HALF_A } else { layout::STATE_HALF_B };
            assert!(self.read(alias, alias::CONTROL) & flag != 0, "alias {alias} is of its half");
            assert!(self.read(record, state::CONTROL) & flag != 0, "record {record} has it");
            let end = 1 - half;
            let port = self.read(record, state::PORT) >> (16 * end) & 0xffff;
            let inside = self.read(alias, alias::INSIDE_PORT) & 0xffff;
            assert_eq!(inside, port, "the port inside of alias {alias}");
            if self.read(record, state::CONTROL) & layout::STATE_IPV6 == 0 {
                let address = self.read(record, state::ADDR + 4 * end);
                assert_eq!(self.read(alias, alias::INSIDE), address, "its address inside");
            }
        }
    }

    fn bucket(&mut self, bucket: u32) {
        let flags = self.read(bucket, state::CONTROL);
        assert!(flags & layout::STATE_LOCK == 0, "bucket {bucket} is locked");
        if flags & layout::STATE_LIVE == 0 {
            self.mark(bucket, "empty bucket");
            return;
        }
        let (mut slot, mut length) = (bucket, 0);
        loop {
            length += 1;
            self.record(bucket, slot);
            slot = self.read(slot, state::NEXT);
            if slot == 0 {
                break;
            }
            self.audit.overflow += 1;
        }
        self.audit.longest_chain = self.audit.longest_chain.max(length);
    }
}

/// Audits a table; fails if anything is not as it has to be.
pub(super) fn audit(firewall: &Firewall) -> Audit {
    let (behind, ready) = (firewall.regions().sizes.bucket_count, firewall.ready());
    let arena = firewall.arena();
    let slot_count = (behind + ready.overflow_count) as usize;
    let mut walk = Walk {
        firewall,
        seen: vec![false; slot_count],
        audit: Audit::default(),
        aliases: Vec::new(),
        owned: Vec::new(),
    };
    let (bucket_count, mask) = (firewall.bucket_count(), arena.read64(control::INDEX) >> 32);
    assert_eq!(mask, u64::from(bucket_count.next_power_of_two()) - 1);
    assert!(bucket_count <= ready.bucket_count, "buckets without memory");
    for bucket in 0..bucket_count {
        walk.bucket(bucket);
    }
    for bucket in bucket_count..ready.bucket_count {
        assert_eq!(walk.read(bucket, state::CONTROL), 0, "bucket {bucket} is not used");
    }
    for bucket in bucket_count..behind {
        walk.mark(bucket, "not in the index");
    }
    walk.pairs();
    assert_eq!(arena.read64(control::ALIAS_COUNT), walk.audit.aliases, "the count of aliases");
    let head = arena.read64(control::FREE_HEAD) & 0xffff_ffff;
    let mut slot = u32::try_from(head).unwrap();
    while slot != 0 {
        assert!(slot >= behind, "bucket {slot} is in the list of free slots");
        walk.mark(slot, "free");
        assert_eq!(walk.read(slot, state::CONTROL), 0, "free slot {slot} is clear");
        walk.audit.free += 1;
        slot = walk.read(slot, state::NEXT);
    }
    let fresh = arena.read32(control::FRESH_COUNT);
    for slot in behind + fresh..behind + ready.overflow_count {
        walk.mark(slot, "never used");
    }
    let lost = walk.seen.iter().filter(|seen| !**seen).count();
    assert_eq!(lost, 0, "slots that nothing leads to");
    assert_eq!(u64::from(arena.read32(control::FREE_COUNT)), walk.audit.free);
    assert_eq!(arena.read64(control::STATE_COUNT), walk.audit.live, "the count of states");
    walk.audit
}
