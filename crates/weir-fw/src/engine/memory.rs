//! Whether limits fit: into memory before anything is allocated, and into what is there on a
//! reload.

use std::fs;
use std::path::Path;

use weir_bpf::firewall::layout::Slots;
use weir_rules::ir::Ruleset;

use super::source::{Size, Source, limit_of};
use super::{Engine, Refused};
use crate::compile::translation;
use crate::limits::{self, Followed, LimitError, Plan};

/// A version of control groups (cgroups(7)): where they are, and what their files are called.
struct Groups {
    root: &'static str,
    /// What the line of `/proc/PID/cgroup` has before the path.
    line: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Of `memory.stat`: what the kernel can take back.
    caches: &'static str,
}

/// Both may be there at once.
const VERSIONS: [Groups; 2] = [
    Groups {
        root: "/sys/fs/cgroup",
        line: "0::",
        limit: "memory.max",
        used: "memory.current",
        caches: "inactive_file ",
    },
    Groups {
        root: "/sys/fs/cgroup/memory",
        line: ":memory:",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        caches: "total_inactive_file ",
    },
];

/// What a ruleset's tables take on this machine.
///
/// # Errors
///
/// The arithmetic, if it has no memory for them.
pub(super) fn plan(main: &Source) -> Result<Plan, Refused> {
    let plan = sizes_of(&main.ruleset);
    let plan = plan.map_err(|(sizes, message)| main.refused(&sizes, message))?;
    if let Some(available_bytes) = available() {
        plan.check(None, available_bytes).map_err(|error| main.refused(&largest(&plan), error))?;
    }
    Ok(plan)
}

/// Sizes that cannot be: which settings ask for them, the one to blame first, and why not.
type Impossible = (Vec<Size>, String);

/// The same arithmetic, whatever memory there is.
///
/// # Errors
///
/// What the tables cannot have.
pub(super) fn sizes_of(ruleset: &Ruleset) -> Result<Plan, Impossible> {
    let cpu_count =
        possible_cpu_count(&read("/sys/devices/system/cpu/possible")).ok_or_else(|| {
            (Vec::new(), "/sys/devices/system/cpu/possible cannot be read".to_owned())
        })?;
    for (limit, what, most) in [
        ("src-nodes", "sources", limits::SOURCE_LIMIT_MAX),
        ("frags", "fragments", limits::FRAGMENT_LIMIT_MAX),
    ] {
        let place_count = limit_of(ruleset, limit);
        if place_count > most {
            let message = format!(
                "set limit {limit} {place_count}: the table of {what} has at most {most} places"
            );
            return Err((vec![Size::Limit(limit)], message));
        }
    }
    let (sources, most) = (source_count(ruleset), limits::SOURCE_LIMIT_MAX);
    if sources > most {
        let message = format!(
            "set limit src-nodes and `entries` of source limiters come to {sources}: the table of \
             sources has at most {most} places"
        );
        return Err((vec![Size::Limit("src-nodes")], message));
    }
    let states = limit_of(ruleset, "states");
    let (hash_size, translated) = (ruleset.settings.hash_size, translated_count(ruleset, states));
    let plan = limits::plan(states, hash_size, cpu_count, translated);
    let followed = Followed {
        fragment_limit: limit_of(ruleset, "frags").max(1),
        source_limit: source_count(ruleset),
    };
    let plan = plan.map_err(|error| (blamed(&error).to_vec(), error.to_string()))?;
    Ok(plan.with(followed))
}

/// Sources that rules may track, and limiters count.
pub(super) fn source_count(ruleset: &Ruleset) -> u32 {
    let entries = ruleset.limiters().filter_map(|limiter| limiter.entries);
    entries.fold(limit_of(ruleset, "src-nodes"), u32::saturating_add)
}

/// How many of its states a ruleset may translate: all of them, or none.
fn translated_count(ruleset: &Ruleset, state_limit: u32) -> u32 {
    if translation::is_in(ruleset) { state_limit } else { 0 }
}

/// What the machine, and this process's control group, still have for us.
fn available() -> Option<u64> {
    let limits = [available_bytes(&read("/proc/meminfo")), available_to_group()];
    limits.into_iter().flatten().min()
}

/// The settings that memory does not suffice for, the one that asks for most of it first.
fn largest(plan: &Plan) -> Vec<Size> {
    let [fragments, sources] = plan.followed_bytes();
    let mut all = [
        (plan.table_bytes(), vec![Size::Limit("states"), Size::Hash]),
        (fragments, vec![Size::Limit("frags")]),
        (sources, vec![Size::Limit("src-nodes")]),
    ];
    all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    all.into_iter().flat_map(|(_, sizes)| sizes).collect()
}

/// The settings that are to blame for what the arithmetic refuses.
fn blamed(error: &LimitError) -> [Size; 2] {
    let (states, hash) = (Size::Limit("states"), Size::Hash);
    match error {
        LimitError::HashSize(_) | LimitError::Chains { .. } => [hash, states],
        LimitError::NoStates | LimitError::Arena { .. } | LimitError::Memory { .. } => {
            [states, hash]
        }
    }
}

/// What this process's control group and those above it still allow.
fn available_to_group() -> Option<u64> {
    let of_process = read("/proc/self/cgroup");
    VERSIONS.iter().filter_map(|groups| groups.left(Path::new(groups.root), &of_process)).min()
}

impl Groups {
    /// What the group of a process and those above it still allow; `None`: they have no limit. In a
    /// container the path may be one of outside: then its root is what is there.
    fn left(&self, root: &Path, of_process: &str) -> Option<u64> {
        let path = of_process.lines().find_map(|line| {
            let (before, path) = line.split_once(self.line)?;
            before.bytes().all(|byte| byte.is_ascii_digit()).then_some(path)
        })?;
        let above = root.join(path.trim_matches('/'));
        let groups = above.ancestors().take_while(|group| group.starts_with(root));
        groups.filter_map(|group| self.left_of(group)).min()
    }

    /// What is left of the limit of one control group; `None` if it has none. What the kernel can
    /// take back of file caches counts as free.
    fn left_of(&self, group: &Path) -> Option<u64> {
        let text = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
        let limit: u64 = text(self.limit).trim().parse().ok()?;
        let used: u64 = text(self.used).trim().parse().ok()?;
        let caches: u64 = text("memory.stat")
            .lines()
            .filter_map(|line| line.strip_prefix(self.caches)?.trim().parse::<u64>().ok())
            .sum();
        Some(limit.saturating_sub(used.saturating_sub(caches)))
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// CPUs that may ever be: the list `0-3,8` ends with the last one (cpulist format).
fn possible_cpu_count(list: &str) -> Option<u32> {
    let last = list.trim().split([',', '-']).next_back()?;
    last.parse::<u32>().ok()?.checked_add(1)
}

/// `MemAvailable` of `/proc/meminfo` (proc_meminfo(5)).
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What no reload changes, and what does.
const MADE_ONCE: &str = "which a reload cannot change: run `weir fw stop`, then `weir fw run`";

/// A limit that asks for another table than there is.
fn has_places(main: &Source, limit: &'static str, what: &str, places: u32) -> Refused {
    let place_count = main.limit(limit);
    let message = format!(
        "set limit {limit} {place_count}: the table of {what} has {places} places, {MADE_ONCE}"
    );
    main.refused(&[Size::Limit(limit)], message)
}

impl Engine {
    /// Refuses a ruleset whose limits the memory that is there, and that there may be, cannot hold.
    /// Gives what its state table may grow to.
    pub(super) fn check_limits(&self, main: &Source) -> Result<Slots, Refused> {
        let (have, is_fixed) = (self.firewall.regions().sizes, self.firewall.is_index_fixed());
        let states = main.limit("states");
        if let Some(bucket_count) = main.ruleset.settings.hash_size
            && (!is_fixed || bucket_count != have.bucket_count)
        {
            let now = if is_fixed {
                format!("the state table has {} buckets", have.bucket_count)
            } else {
                "the index follows the number of states".to_owned()
            };
            let message =
                format!("set hashsize {bucket_count}: {now}, {MADE_ONCE}, without its states");
            return Err(main.refused(&[Size::Hash], message));
        }
        let (fragments, places) = (main.limit("frags"), self.firewall.fragment_count_max());
        if fragments.max(1) != places {
            return Err(has_places(main, "frags", "fragments", places));
        }
        let places = self.firewall.source_count_max();
        if limits::source_places(main.limit("src-nodes")) > places {
            return Err(has_places(main, "src-nodes", "sources", places));
        }
        let sources = source_count(&main.ruleset);
        if limits::source_places(sources) > places {
            let message = format!(
                "set limit src-nodes and `entries` of source limiters come to {sources}: the table \
                 of sources has {places} places, {MADE_ONCE}"
            );
            return Err(main.refused(&[Size::Limit("src-nodes")], message));
        }
        let reserved = main.ruleset.settings.state_reserve;
        if reserved >= states {
            let message = format!(
                "set state-reserve {reserved} with set limit states {states} leaves nothing to \
                 rules without `reserve`"
            );
            return Err(main.refused(&[Size::Reserve, Size::Limit("states")], message));
        }
        let hash_size = is_fixed.then_some(have.bucket_count);
        let translated = translated_count(&main.ruleset, states);
        let plan = limits::plan(states, hash_size, have.cpu_count, translated);
        let plan = plan.map_err(|error| main.refused(&blamed(&error), error))?;
        if plan.slots.overflow_count > have.overflow_count {
            let message = format!(
                "set limit states {states} needs {} slots besides {} buckets, and the state table \
                 was made with addresses for {}, {MADE_ONCE}, without its states",
                plan.slots.overflow_count, plan.slots.bucket_count, have.overflow_count
            );
            return Err(main.refused(&[Size::Limit("states"), Size::Hash], message));
        }
        let had = self.firewall.allowed();
        let is_more = plan.slots.bytes() > had.bytes();
        if is_more && let Some(available_bytes) = available() {
            let checked = plan.check(Some(self.firewall.ready()), available_bytes);
            checked.map_err(|error| main.refused(&[Size::Limit("states"), Size::Hash], error))?;
        }
        Ok(plan.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_files_are_read() {
        assert_eq!(possible_cpu_count("0-3\n"), Some(4));
        assert_eq!(possible_cpu_count("0\n"), Some(1));
        assert_eq!(possible_cpu_count("0-1,8-15"), Some(16));
        assert_eq!(possible_cpu_count(""), None);
        let text = "MemTotal:  8000 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(available_bytes(text), Some(1 << 20));
        assert_eq!(available_bytes("MemTotal: 1 kB"), None);
    }

    #[test]
    fn a_control_group_s_limit_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let left_of = || VERSIONS[0].left_of(dir.path());
        assert_eq!(left_of(), None, "no such group");
        write("memory.max", "max\n");
        write("memory.current", "3000\n");
        assert_eq!(left_of(), None, "no limit");
        write("memory.max", "10000\n");
        assert_eq!(left_of(), Some(7000));
        write("memory.stat", "anon 1\ninactive_file 1000\nactive_file 5\n");
        assert_eq!(left_of(), Some(8000));
        write("memory.max", "1000\n");
        assert_eq!(left_of(), Some(0));
    }

    #[test]
    fn control_groups_of_version_1_count_too() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("docker/one");
        fs::create_dir_all(&inner).unwrap();
        let write = |at: &Path, name: &str, text: &str| fs::write(at.join(name), text).unwrap();
        write(dir.path(), "memory.limit_in_bytes", "9223372036854771712\n");
        write(dir.path(), "memory.usage_in_bytes", "5000\n");
        write(&inner, "memory.limit_in_bytes", "10000\n");
        write(&inner, "memory.usage_in_bytes", "4000\n");
        write(&inner, "memory.stat", "inactive_file 7\ntotal_inactive_file 500\n");
        let left = |of_process: &str| VERSIONS[1].left(dir.path(), of_process);
        assert_eq!(left("12:cpu:/x\n7:memory:/docker/one\n0::/\n"), Some(6500));
        assert!(left("7:memory:/not/here\n") > Some(1 << 60), "what is above it");
        assert_eq!(left("0::/docker/one\n"), None, "of the other version");
        assert_eq!(VERSIONS[0].left(dir.path(), "7:memory:/docker/one\n"), None);
    }
}
