//! The firewall's shared memory as byte offsets: what `bpf/include/weir/fw/layout.h` defines.
//!
//! A module for each structure: `SIZE_BYTES` is its size, the other constants are offsets of fields
//! from its start. A test holds them against the BTF of `bpf/layout.bpf.c`, and flags against the
//! text of the header. [`Regions`] says where in the arena things stand.

/// Defines a module of offsets for each structure, and the list that the test goes through.
macro_rules! structures {
    ($(
        $(#[$doc:meta])*
        $module:ident = $c_name:literal, $bytes:literal {
            $($constant:ident = $offset:literal, $field:literal;)*
        }
    )*) => {
        $(
            $(#[$doc])*
            pub mod $module {
                /// Size of the structure, bytes.
                pub const SIZE_BYTES: u32 = $bytes;
                $(
                    #[doc = concat!("Offset of `", $field, "`, bytes.")]
                    pub const $constant: u32 = $offset;
                )*
            }
        )*

        #[cfg(test)]
        type Structure = (&'static str, u32, &'static [(&'static str, u32)]);
        #[cfg(test)]
        const STRUCTURES: &[Structure] = &[
            $(($c_name, $bytes, &[$(($field, $offset)),*]),)*
        ];
    };
}

structures! {
    /// The first page: configuration, where the regions are, and what is shared.
    control = "weir_fw_control", 512 {
        MAGIC = 0, "magic";
        VERSION = 4, "version";
        ACTIVE = 8, "active";
        FLAGS = 12, "flags";
        GENERATION = 16, "generation";
        CLOCK_OFFSET = 20, "clock_offset";
        ZERO = 40, "zero";
        SECOND_TICKS = 44, "second_ticks";
        COUNTERS_AT = 64, "counters_at";
        INTERFACES_AT = 68, "interfaces_at";
        IFSLOTS_AT = 72, "ifslots_at";
        NEXT_HOPS_AT = 76, "next_hops_at";
        KEPT_AT = 80, "kept_at";
        STATES_AT = 84, "states_at";
        ACCOUNTS_AT = 88, "accounts_at";
        HEAP_AT = 92, "heap_at";
        HEAP_BYTES = 96, "heap_bytes";
        BUCKET_COUNT = 100, "bucket_count";
        OVERFLOW_COUNT = 104, "overflow_count";
        CPU_COUNT = 108, "cpu_count";
        STATE_COUNT = 128, "state_count";
        FREE_HEAD = 192, "free_head";
        FRESH_COUNT = 256, "fresh_count";
        FREE_COUNT = 260, "free_count";
        SOURCE_COUNT = 268, "source_count";
        NEXT_HOP_LOCK = 320, "next_hop_lock";
        NEXT_HOP_COUNT = 328, "next_hop_count";
        STARTED_NS = 384, "started_ns";
        ENABLED_NS = 392, "enabled_ns";
        HOST_ID = 400, "host_id";
        NEXT_RULE_ID = 404, "next_rule_id";
        HEAP_INDEX_AT = 408, "heap_index_at";
        DOCUMENT_AT = 412, "document_at";
        DOCUMENT_BYTES = 416, "document_bytes";
    }
    /// What a ruleset's image begins with: its rules, and all that is set beside them.
    image = "weir_fw_image", 128 {
        MAGIC = 0, "magic";
        VERSION = 4, "version";
        FLAGS = 8, "flags";
        RULE_COUNT = 12, "rule_count";
        JUDGED = 16, "judged";
        SKIPPED = 32, "skipped";
        TABLES_AT = 40, "tables_at";
        TABLE_COUNT = 44, "table_count";
        COUNTERS_AT = 48, "counters_at";
        ID_COUNT = 52, "id_count";
        CLASSES_AT = 56, "classes_at";
        CRITERIA_AT = 60, "criteria_at";
        RULES_AT = 64, "rules_at";
        BYTES = 68, "bytes";
        PROFILES_AT = 72, "profiles_at";
        PROFILE_COUNT = 76, "profile_count";
        STATE_LIMIT = 80, "state_limit";
        RESERVED_COUNT = 84, "reserved_count";
        SOURCE_LIMIT = 88, "source_limit";
        ADAPTIVE_START = 92, "adaptive_start";
        ADAPTIVE_END = 96, "adaptive_end";
    }
    /// A timeout table.
    profile = "weir_fw_profile", 64 {
        TICKS = 0, "ticks";
    }
    /// One flow, one line.
    state = "weir_state", 64 {
        CONTROL = 0, "control";
        NEXT = 4, "next";
        ADDR = 8, "addr";
        PORT = 16, "port";
        LAST_TICK = 20, "last_tick";
        SEQ = 24, "seq";
        MAX_WIN = 40, "max_win";
        PHASE = 44, "phase";
        WSCALE = 46, "wscale";
        NEXT_HOP = 48, "next_hop";
        GENERATION = 52, "generation";
        INTERFACE = 54, "interface";
        COUNT = 56, "count";
    }
    /// The addresses of an IPv6 record.
    addresses = "weir_state_v6", 64 {
        CONTROL = 0, "control";
        OWNER = 4, "owner";
        ADDR = 32, "addr";
    }
    /// What a hit does not need of a state.
    account = "weir_account", 32 {
        PACKETS_RULE = 0, "packets_rule";
        BYTES_CREATED = 16, "bytes_created";
    }
    /// What a record that is not TCP's has in the place of `state::SEQ`, instead of an account.
    own = "weir_own", 16 {
        HALF = 0, "half";
        CREATED_TICK = 8, "created_tick";
        HAS_ACCOUNT = 12, "has_account";
    }
    /// Where a packet goes.
    next_hop = "weir_fw_next_hop", 32 {
        IFINDEX = 0, "ifindex";
        GENERATION = 4, "generation";
        INTERFACE = 6, "interface";
        FLAGS = 7, "flags";
        DST_MAC = 8, "dst_mac";
        SRC_MAC = 14, "src_mac";
        MTU_BYTES = 20, "mtu_bytes";
    }
    /// Flows whose routes one CPU keeps where nothing is filtered.
    kept_set = "weir_fw_kept_set", 64 {
        GENERATION = 0, "generation";
        OLDEST = 4, "oldest";
        WAY = 16, "way";
    }
    /// One of them.
    kept = "weir_fw_kept", 16 {
        SRC = 0, "src";
        DST = 4, "dst";
        PORTS = 8, "ports";
        WHAT = 12, "what";
    }
    /// What is known of an interface.
    interface = "weir_fw_interface", 64 {
        IFINDEX = 0, "ifindex";
        FLAGS = 4, "flags";
        MTU_BYTES = 8, "mtu_bytes";
        VLAN_ID = 12, "vlan_id";
        VLAN_FIRST = 14, "vlan_first";
        VLAN_NEXT = 15, "vlan_next";
        MAC = 16, "mac";
        READ_AS = 22, "read_as";
        NAME = 24, "name";
    }
    /// What one CPU has counted.
    cpu = "weir_fw_cpu", 41152 {
        TABLE = 0, "table";
        INTERFACE = 192, "interface";
    }
    /// What one CPU has counted of the state table; begins a [`cpu`].
    table = "weir_fw_table_counters", 192 {
        SEARCHES = 0, "searches";
        INSERTS = 8, "inserts";
        REMOVALS = 16, "removals";
        OVERFLOW_STEPS = 24, "overflow_steps";
        LOCK_WAITS = 32, "lock_waits";
        EVALUATIONS = 40, "evaluations";
        FIB_LOOKUPS = 48, "fib_lookups";
        FORWARDED_PACKETS = 56, "forwarded_packets";
        PASSED_PACKETS = 64, "passed_packets";
        REPLIES = 72, "replies";
        LOG_LOST = 80, "log_lost";
        UNANSWERED = 88, "unanswered";
        SOURCE_SEARCHES = 96, "source_searches";
        SOURCE_INSERTS = 104, "source_inserts";
        SOURCE_REMOVALS = 112, "source_removals";
        LIMITS = 120, "limits";
    }
    /// What one CPU has counted on one interface.
    interface_counters = "weir_fw_interface_counters", 640 {
        PACKETS = 0, "packets";
        BYTES = 64, "bytes";
        DROPPED_PACKETS = 128, "dropped_packets";
    }
    /// What one CPU has counted of one rule.
    rule_counters = "weir_fw_rule_counters", 64 {
        EVALUATIONS = 0, "evaluations";
        PACKETS = 8, "packets";
        BYTES = 24, "bytes";
        STATES_CREATED = 40, "states_created";
        STATES_ENDED = 48, "states_ended";
        STATES_LIVE = 56, "states_live";
    }
}

/// Defines constants of the header, and the list that the test goes through.
macro_rules! constants {
    ($($(#[$doc:meta])* $constant:ident = $c_name:literal, $value:expr;)*) => {
        $($(#[$doc])* pub const $constant: u32 = $value;)*

        #[cfg(test)]
        const CONSTANTS: &[(&str, u32)] = &[$(($c_name, $value)),*];
    };
}

constants! {
    /// What the control page begins with.
    MAGIC = "WEIR_FW_MAGIC", 0x7765_6972;
    /// Version of this layout.
    VERSION = "WEIR_FW_LAYOUT_VERSION", 6;
    /// Where the image stands that is active until there is another.
    BLANK_AT = "WEIR_FW_BLANK_AT", 512;
    /// Number of slots for interfaces, slot 0 ("unknown") included.
    INTERFACE_COUNT_MAX = "WEIR_FW_INTERFACE_COUNT_MAX", 64;
    /// Interface indices must be below this.
    IFINDEX_COUNT_MAX = "WEIR_FW_IFINDEX_COUNT_MAX", 65536;
    /// Number of entries of the next-hop table.
    NEXT_HOP_COUNT_MAX = "WEIR_FW_NEXT_HOP_COUNT_MAX", 4096;
    /// This power of two is the number of sets of kept routes for each CPU.
    KEPT_SET_BITS = "WEIR_FW_KEPT_SET_BITS", 12;
    /// Number of timeout tables of an image, at most.
    PROFILE_COUNT_MAX = "WEIR_FW_PROFILE_COUNT_MAX", 256;
    /// A tick is this power of two of nanoseconds.
    TICK_SHIFT = "WEIR_FW_TICK_SHIFT", 24;
    /// Control flag: packets are filtered.
    CONTROL_ENABLED = "WEIR_FW_CONTROL_ENABLED", 1 << 0;
    /// State flag: the bucket is locked.
    STATE_LOCK = "WEIR_STATE_LOCK", 1 << 0;
    /// State flag: there is a record in this slot.
    STATE_LIVE = "WEIR_STATE_LIVE", 1 << 1;
    /// State flag: the addresses stand in another slot.
    STATE_IPV6 = "WEIR_STATE_IPV6", 1 << 2;
    /// State flag: covers forward packets `in` and reverse ones `out`.
    STATE_HALF_A = "WEIR_STATE_HALF_A", 1 << 3;
    /// State flag: covers forward packets `out` and reverse ones `in`.
    STATE_HALF_B = "WEIR_STATE_HALF_B", 1 << 4;
    /// State flag: half A is bound to its interface.
    STATE_IF_BOUND_A = "WEIR_STATE_IF_BOUND_A", 1 << 5;
    /// State flag: tracked without sequence numbers.
    STATE_SLOPPY = "WEIR_STATE_SLOPPY", 1 << 6;
    /// State flag: one packet only so far.
    STATE_FIRST = "WEIR_STATE_FIRST", 1 << 7;
    /// State flag: a half is counted in its source's node.
    STATE_TRACKED = "WEIR_STATE_TRACKED", 1 << 8;
    /// State flag: half A's rule logs every packet.
    STATE_LOG_ALL_A = "WEIR_STATE_LOG_ALL_A", 1 << 9;
    /// State flag: packets of some half may have IP options.
    STATE_ALLOW_OPTIONS = "WEIR_STATE_ALLOW_OPTIONS", 1 << 10;
    /// State flag: not to be synchronised.
    STATE_NO_SYNC = "WEIR_STATE_NO_SYNC", 1 << 11;
    /// State flag: half B's rule logs every packet.
    STATE_LOG_ALL_B = "WEIR_STATE_LOG_ALL_B", 1 << 12;
    /// State flag: the slot holds addresses of another record.
    STATE_ADDRESSES = "WEIR_STATE_ADDRESSES", 1 << 13;
    /// State flag: half B is bound to its interface.
    STATE_IF_BOUND_B = "WEIR_STATE_IF_BOUND_B", 1 << 14;
    /// State flag: half A's source is end 1, not end 0.
    STATE_SOURCE_A_IS_1 = "WEIR_STATE_SOURCE_A_IS_1", 1 << 13;
    /// State flag: half B's source is end 1, not end 0.
    STATE_SOURCE_B_IS_1 = "WEIR_STATE_SOURCE_B_IS_1", 1 << 15;
    /// The slot in a state's interface.
    STATE_INTERFACE_MASK = "WEIR_STATE_INTERFACE_MASK", 0x3f;
    /// Flag in a state's interface: `source-track global`.
    STATE_SOURCE_GLOBAL = "WEIR_STATE_SOURCE_GLOBAL", 0x40;
    /// Flag in a state's interface: the half is counted in its source's node.
    STATE_SOURCE_TRACKED = "WEIR_STATE_SOURCE_TRACKED", 0x80;
    /// The IP protocol in a state's control word: eight bits.
    STATE_PROTOCOL_SHIFT = "WEIR_STATE_PROTOCOL_SHIFT", 16;
    /// The timeout table in a state's control word: eight bits.
    STATE_PROFILE_SHIFT = "WEIR_STATE_PROFILE_SHIFT", 24;
    /// Where packets begin in a state's counter; bytes are below.
    STATE_COUNT_PACKETS_SHIFT = "WEIR_STATE_COUNT_PACKETS_SHIFT", 24;
    /// Where the rule begins in an account's word; packets are below.
    ACCOUNT_RULE_SHIFT = "WEIR_ACCOUNT_RULE_SHIFT", 40;
    /// Where the tag begins in an account's word; the rule is below.
    ACCOUNT_TAG_SHIFT = "WEIR_ACCOUNT_TAG_SHIFT", 60;
    /// Number of tags that states can keep.
    TAG_COUNT_MAX = "WEIR_FW_TAG_COUNT_MAX", 15;
    /// The bit of an account's word that says whether packets of its half may have IP options.
    ACCOUNT_OPTIONS_SHIFT = "WEIR_ACCOUNT_OPTIONS_SHIFT", 47;
    /// Where half a tick begins in an account's word; bytes are below.
    ACCOUNT_CREATED_SHIFT = "WEIR_ACCOUNT_CREATED_SHIFT", 48;
    /// Where the tag begins in a half of [`own`]; the rule is below.
    HALF_TAG_SHIFT = "WEIR_HALF_TAG_SHIFT", 20;
    /// The bit of a half of [`own`] that says whether its packets may have IP options.
    HALF_OPTIONS_SHIFT = "WEIR_HALF_OPTIONS_SHIFT", 24;
    /// The default rule's id.
    RULE_NONE = "WEIR_FW_RULE_NONE", 0x000f_ffff;
    /// Interface flag: it exists.
    INTERFACE_PRESENT = "WEIR_FW_INTERFACE_PRESENT", 1 << 0;
    /// Interface flag: the ingress program runs there.
    INTERFACE_ATTACHED = "WEIR_FW_INTERFACE_ATTACHED", 1 << 2;
    /// Interface flag: in generic mode.
    INTERFACE_GENERIC = "WEIR_FW_INTERFACE_GENERIC", 1 << 3;
    /// Interface flag: frames can be redirected to it.
    INTERFACE_XMIT = "WEIR_FW_INTERFACE_XMIT", 1 << 4;
}

/// Number of timeouts in a [`profile`], in the order of `enum weir_fw_timeout`: TCP first, opening,
/// established, closing, finwait, closed; UDP first, single, multiple; ICMP first, error; other
/// first, single, multiple; fragments; source tracking.
pub const TIMEOUT_COUNT: u32 = profile::SIZE_BYTES / 4;

/// Number of sets of kept routes for each CPU.
pub const KEPT_SET_COUNT: u32 = 1 << KEPT_SET_BITS;

/// Where the timeout table of the image at [`BLANK_AT`] stands.
pub const BLANK_PROFILE_AT: u32 = BLANK_AT + image::SIZE_BYTES;

const _: () = assert!(BLANK_AT >= control::SIZE_BYTES, "one stands behind the other");

/// Size of a page, which regions begin on.
pub const PAGE_BYTES: u32 = 4096;

/// What the arena can hold, bytes: offsets have 32 bits.
pub const ARENA_BYTES: u64 = 1 << 32;

/// How many of what the arena is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Buckets of the state table: a power of two.
    pub bucket_count: u32,
    /// Slots for records that are not the first of their bucket, and for IPv6 addresses.
    pub overflow_count: u32,
    /// Room for rulesets and tables.
    pub heap_bytes: u32,
    /// Possible CPUs of the machine.
    pub cpu_count: u32,
}

/// One region of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// What it holds, in words for a user.
    pub name: &'static str,
    /// Offset from the arena's start.
    pub at: u32,
    /// Size without the rest of its last page.
    pub bytes: u64,
}

/// Where the regions stand in the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regions {
    /// What they were planned for.
    pub sizes: Sizes,
    /// Counters: a [`cpu`] for each CPU.
    pub counters: Region,
    /// Interfaces: an [`interface`] for each slot.
    pub interfaces: Region,
    /// Slots of interfaces: a byte for each interface index.
    pub ifslots: Region,
    /// Next hops.
    pub next_hops: Region,
    /// Kept routes: so many times [`KEPT_SET_COUNT`] of [`kept_set`] as there are CPUs.
    pub kept: Region,
    /// States: a [`state`] for each slot.
    pub states: Region,
    /// Accounts of states, as many.
    pub accounts: Region,
    /// Rulesets and tables.
    pub heap: Region,
    /// Bytes from the arena's start to the end of the last region.
    pub total_bytes: u64,
}

impl Regions {
    /// Lays out regions in the order of the fields, each on a page of its own; `None` if they do
    /// not fit into [`ARENA_BYTES`].
    #[must_use]
    pub fn plan(sizes: Sizes) -> Option<Self> {
        let mut end = u64::from(PAGE_BYTES);
        let mut place = |name, count: u64, each: u32| {
            let (at, bytes) = (u32::try_from(end).ok()?, count.checked_mul(u64::from(each))?);
            end = end.checked_add(bytes)?.next_multiple_of(u64::from(PAGE_BYTES));
            (end <= ARENA_BYTES).then_some(Region { name, at, bytes })
        };
        let slot_count = u64::from(sizes.bucket_count) + u64::from(sizes.overflow_count);
        let interface_count = u64::from(INTERFACE_COUNT_MAX);
        let counters = place("counters", u64::from(sizes.cpu_count), cpu::SIZE_BYTES)?;
        let interfaces = place("interfaces", interface_count, interface::SIZE_BYTES)?;
        let ifslots = place("interface slots", u64::from(IFINDEX_COUNT_MAX), 1)?;
        let next_hops = place("next hops", u64::from(NEXT_HOP_COUNT_MAX), next_hop::SIZE_BYTES)?;
        let kept_count = u64::from(sizes.cpu_count) * u64::from(KEPT_SET_COUNT);
        let kept = place("kept routes", kept_count, kept_set::SIZE_BYTES)?;
        let states = place("states", slot_count, state::SIZE_BYTES)?;
        let accounts = place("accounts of states", slot_count, account::SIZE_BYTES)?;
        let heap = place("rules and tables", u64::from(sizes.heap_bytes), 1)?;
        Some(Self {
            sizes,
            counters,
            interfaces,
            ifslots,
            next_hops,
            kept,
            states,
            accounts,
            heap,
            total_bytes: end,
        })
    }

    /// All regions, in their order.
    #[must_use]
    pub fn all(&self) -> [&Region; 8] {
        [
            &self.counters,
            &self.interfaces,
            &self.ifslots,
            &self.next_hops,
            &self.kept,
            &self.states,
            &self.accounts,
            &self.heap,
        ]
    }
}

#[cfg(test)]
mod tests;
