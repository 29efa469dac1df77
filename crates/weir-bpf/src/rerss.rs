//! Hands packets to CPUs by their innermost flow, before the stack sees them: `bpf/rerss.bpf.c`.
//!
//! [`Rerss`] is the program at an interface with its queues; it begins switched off, when packets
//! are counted and nothing else. [`Rerss::change`] gives buckets to CPUs so that the packets of a
//! flow stay in order. [`InnerHash`] only hashes, for tests and benchmarks. Whether handing packets
//! on is worth it is not decided here.
//!
//! Source: kernel/bpf/cpumap.c; include/trace/events/xdp.h.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use weir_wire::rss::inner::{End, Hashed};
use weir_wire::rss::table::TableError;
use weir_wire::rss::{Settings, Table};

use crate::attach::{self, AttachError, Link};
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{self, LoadError, Loaded};
use crate::words::{
    RERSS_LOCAL, RERSS_SLOT_COUNT, inner_ends, inner_hashed, rerss_control, rerss_counters,
    rerss_queue, rerss_seen, rerss_states, rss as rss_words,
};
use crate::{rss, sys};

#[cfg(test)]
mod tests;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rerss.bpf.o"));
const OBJECT_NAME: &str = "rerss";

/// Name of the program at an interface.
pub const PROGRAM_NAME: &str = "weir_rerss";

/// Most packets that a CPU's queue can hold: the kernel's limit.
pub const QUEUE_SIZE_MAX: u32 = 16_384;
/// First fragments that are remembered; the oldest one goes when there is no room.
pub const FRAGMENT_COUNT_MAX: u32 = 16_384;

/// How long a change waits for GRO to give what it holds to the stack: for one tick where a second
/// has a thousand (`gro_flush_normal`), and in the thread of a queue until it has taken 64 packets
/// or the queue is empty (`cpu_map_kthread_run`).
const HELD: Duration = Duration::from_millis(3);
/// How long it waits for the queues to have been worked off.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Why packets cannot be handed to CPUs.
#[derive(Debug, thiserror::Error)]
pub enum RerssError {
    /// The kernel does not take the programs.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A map cannot be read or written.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A CPU cannot get a queue.
    #[error("CPU {cpu} cannot get a queue of {size} packets: {source}; is it online?")]
    Queue {
        cpu: u16,
        size: u32,
        /// What the kernel returned.
        source: libbpf_rs::Error,
    },
    /// The kernel does not say when all polls that have begun have ended.
    #[error(
        "cannot wait for polls of devices to end (membarrier): {0}; CPUs without ticks (nohz_full) \
         cannot be waited for"
    )]
    Barrier(io::Error),
    /// A table with another size, or none that can be.
    #[error("the table has {has} buckets: it cannot be changed to one of {asked}")]
    TableSize { has: usize, asked: usize },
    #[error(transparent)]
    Table(#[from] TableError),
}

/// What is counted, over all CPUs, since the program was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RerssCounts {
    /// All packets, also while it is off.
    pub received_packets: u64,
    /// Packets that came while it was off, and stayed on their CPU.
    pub passed_packets: u64,
    /// Packets that were on their CPU already.
    pub local_packets: u64,
    /// Packets without an IP header, which stay on their CPU.
    pub unhashed_packets: u64,
    /// Dropped while their bucket changed its CPU.
    pub drained_packets: u64,
    /// For a CPU without a queue; they stay.
    pub unplaced_packets: u64,
    /// First fragments.
    pub first_packets: u64,
    /// Later fragments that followed their first one.
    pub followed_packets: u64,
    /// Later fragments whose first one was not known.
    pub early_packets: u64,
    /// Packets of which something was left unread, in the order of [`End::UNREAD`].
    pub unread_packets: [u64; End::UNREAD.len()],
    /// Of each CPU with a queue.
    pub queues: BTreeMap<u16, QueueCounts>,
}

/// What is counted of the queue to a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Handed to it by other CPUs.
    pub sent_packets: u64,
    /// Of those: got into it. The kernel could not hand on what is neither here nor dropped.
    pub queued_packets: u64,
    /// Of those: dropped, because it was full.
    pub dropped_packets: u64,
    /// Of the queued ones: taken by the CPU.
    pub taken_packets: u64,
    /// Of those: dropped, because there was no memory.
    pub failed_packets: u64,
}

/// How a change went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// How long packets of buckets that moved were dropped.
    pub took: Duration,
    /// Whether nothing was left in the queues; otherwise flows may have been reordered.
    pub is_drained: bool,
}

/// The program, loaded, and the queues.
#[derive(Debug)]
pub struct Rerss {
    program: OwnedFd,
    control: MapHandle,
    sets: MapHandle,
    counters: MapHandle,
    buckets: MapHandle,
    queues: MapHandle,
    /// Keeps the queues and their threads.
    _cpus: MapHandle,
    /// Has a queue.
    cpus: Vec<u16>,
    settings: Settings,
    timeout: Duration,
    map_id: u32,
    state: u64,
    /// Whether buckets have CPUs now.
    is_on: bool,
    _links: [OwnedFd; 2],
}

impl Rerss {
    /// Loads the programs, and gives each CPU that `settings` has in its table, instead of queues,
    /// a queue of `queue_size` packets (1 to [`QUEUE_SIZE_MAX`]); it is attached nowhere, and off.
    /// Later fragments may follow their first one for `timeout`.
    ///
    /// # Errors
    /// [`RerssError`] without privileges or kernel support, or if a CPU cannot have a queue.
    pub fn load(
        settings: &Settings,
        queue_size: u32,
        timeout: Duration,
    ) -> Result<Self, RerssError> {
        sys::wait_for_polls().map_err(RerssError::Barrier)?;
        let object = load(settings.table.bucket_count())?;
        let queues = object.map("weir_rerss_cpus", size_of::<u32>())?;
        let mut cpus = settings.table.queues().to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        for cpu in cpus.iter().copied() {
            let (key, value) = (u32::from(cpu).to_ne_bytes(), queue_size.to_ne_bytes());
            queues.update(&key, &value, MapFlags::ANY).map_err(|source| RerssError::Queue {
                cpu,
                size: queue_size,
                source,
            })?;
        }
        let info = queues.info().map_err(|source| LoadError::Refused {
            object: OBJECT_NAME,
            source,
            hint: "",
            log: String::new(),
        })?;
        let rerss = Self {
            program: object.program(PROGRAM_NAME)?,
            control: control_map(&object)?,
            sets: sets_map(&object)?,
            counters: object.map("weir_rerss_cnt", rerss_counters::WORDS * WORD_BYTES)?,
            buckets: object.map("weir_rerss_bkts", WORD_BYTES)?,
            queues: object.map("weir_rerss_que", rerss_queue::WORDS * WORD_BYTES)?,
            _cpus: queues,
            cpus,
            settings: settings.clone(),
            timeout,
            map_id: info.info.id,
            state: 0,
            is_on: false,
            _links: [object.attach("weir_rerss_enqueue")?, object.attach("weir_rerss_take")?],
        };
        rerss.write_slot(0, &local(settings)?)?;
        rerss.write_state(0)?;
        Ok(rerss)
    }

    /// Attaches the program in native mode until the link is dropped.
    ///
    /// # Errors
    /// [`AttachError`] if the driver does not take it, or has a program already.
    pub fn attach(&self, ifindex: u32) -> Result<Link, AttachError> {
        attach::native(self.program.as_fd(), ifindex)
    }

    /// Whether packets are handed to CPUs.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Gives the buckets to the CPUs of this table, all of which have a queue; `None` switches off,
    /// so that every packet stays on its CPU.
    ///
    /// No flow is reordered: what a bucket that moves gets is dropped until nothing of it is under
    /// way any more, which takes some hundredths of a second. First all polls that have begun end,
    /// then the queues are worked off, then the CPUs that took the last packets are through with
    /// them, what GRO holds included.
    ///
    /// # Errors
    /// [`RerssError`] if the table has another size, or the kernel refuses.
    pub fn change(&mut self, table: Option<&Table>) -> Result<Change, RerssError> {
        let next = match table {
            Some(table) => Settings { table: table.clone(), ..self.settings.clone() },
            None => local(&self.settings)?,
        };
        let (has, asked) = (self.settings.table.bucket_count(), next.table.bucket_count());
        if has != asked {
            return Err(RerssError::TableSize { has, asked });
        }
        let slot = (self.state & rerss_states::SLOT) ^ rerss_states::SLOT;
        self.write_slot(slot, &next)?;
        let begin = Instant::now();
        self.write_state(slot | rerss_states::ON | rerss_states::DRAINS)?;
        let is_drained = self.drain()?;
        self.state = slot;
        self.is_on = table.is_some();
        self.write_state(if self.is_on { slot | rerss_states::ON } else { slot })?;
        Ok(Change { took: begin.elapsed(), is_drained })
    }

    /// Waits until what was on its way before is through the stack; false if the queues did not
    /// empty.
    fn drain(&self) -> Result<bool, RerssError> {
        let wait = || sys::wait_for_polls().map_err(RerssError::Barrier);
        // Behind this, all that is handed on as before is in the queues.
        wait()?;
        let mut is_drained = true;
        // Off, nothing has been put into the queues since they were empty.
        if self.is_on {
            is_drained = self.wait_for_queues()?;
            // What is taken is counted before it goes through the stack.
            wait()?;
        }
        // What GRO holds is given to the stack in a later poll, which has to end as well.
        std::thread::sleep(HELD);
        wait()?;
        Ok(is_drained)
    }

    /// Waits until the CPUs have taken what is in the queues now; false if that takes too long.
    fn wait_for_queues(&self) -> Result<bool, MapError> {
        let queued = self.queue_counts()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.queue_counts()?;
            let is_through = |cpu: &u16| now[cpu].taken_packets >= queued[cpu].queued_packets;
            if self.cpus.iter().all(is_through) {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// All counts but those of buckets. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counts(&self) -> Result<RerssCounts, MapError> {
        let mut counts = RerssCounts { queues: self.queue_counts()?, ..RerssCounts::default() };
        for words in map::read_per_cpu(&self.counters)? {
            counts.received_packets += words[rerss_counters::RECEIVED_PACKETS];
            counts.passed_packets += words[rerss_counters::PASSED_PACKETS];
            counts.local_packets += words[rerss_counters::LOCAL_PACKETS];
            counts.unhashed_packets += words[rerss_counters::UNHASHED_PACKETS];
            counts.drained_packets += words[rerss_counters::DRAINED_PACKETS];
            counts.unplaced_packets += words[rerss_counters::UNPLACED_PACKETS];
            counts.first_packets += words[rerss_counters::FIRST_PACKETS];
            counts.followed_packets += words[rerss_counters::FOLLOWED_PACKETS];
            counts.early_packets += words[rerss_counters::EARLY_PACKETS];
            for (sum, end) in counts.unread_packets.iter_mut().zip(End::UNREAD) {
                *sum += words[rerss_counters::END_PACKETS + place(end)];
            }
        }
        Ok(counts)
    }

    /// Packets of each bucket since it was loaded, while it was on. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn buckets(&self) -> Result<Vec<u64>, MapError> {
        let count = u32::try_from(self.settings.table.bucket_count()).unwrap_or(u32::MAX);
        let bucket = |index| {
            let words = map::read_per_cpu_at(&self.buckets, index)?;
            Ok(words.iter().map(|words| words[0]).sum())
        };
        (0..count).map(bucket).collect()
    }

    fn queue_counts(&self) -> Result<BTreeMap<u16, QueueCounts>, MapError> {
        let counts = |cpu: u16| {
            let mut counts = QueueCounts::default();
            for words in map::read_per_cpu_at(&self.queues, cpu.into())? {
                counts.sent_packets += words[rerss_queue::SENT_PACKETS];
                counts.queued_packets += words[rerss_queue::QUEUED_PACKETS];
                counts.dropped_packets += words[rerss_queue::DROPPED_PACKETS];
                counts.taken_packets += words[rerss_queue::TAKEN_PACKETS];
                counts.failed_packets += words[rerss_queue::FAILED_PACKETS];
            }
            Ok((cpu, counts))
        };
        self.cpus.iter().copied().map(counts).collect()
    }

    fn write_slot(&self, slot: u64, settings: &Settings) -> Result<(), MapError> {
        let index = u32::try_from(slot).unwrap_or(u32::MAX);
        map::write(&self.sets, index, &rss::value_of_places(settings))
    }

    fn write_state(&self, state: u64) -> Result<(), MapError> {
        map::write(&self.control, 0, &control_value(state, self.timeout, self.map_id))
    }
}

/// The same settings, with every bucket on the CPU where its packets come in.
fn local(settings: &Settings) -> Result<Settings, TableError> {
    let table = Table::new(vec![RERSS_LOCAL; settings.table.bucket_count()])?;
    Ok(Settings { table, ..settings.clone() })
}

/// Where an end stands among the counters.
const fn place(end: End) -> usize {
    match end {
        End::Whole => inner_ends::WHOLE,
        End::NotIp => inner_ends::NOT_IP,
        End::Truncated => inner_ends::TRUNCATED,
        End::Malformed => inner_ends::MALFORMED,
        End::TooDeep => inner_ends::TOO_DEEP,
    }
}

fn load(bucket_count: usize) -> Result<Loaded, LoadError> {
    let buckets = u32::try_from(bucket_count).unwrap_or(u32::MAX);
    Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
        let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
        object::resize(opened, "weir_rerss_bkts", buckets)?;
        object::resize(opened, "weir_rerss_cpus", cpus)?;
        object::resize(opened, "weir_rerss_que", cpus)?;
        object::resize(opened, "weir_inner_firsts", FRAGMENT_COUNT_MAX)
    })
}

fn control_map(object: &Loaded) -> Result<MapHandle, LoadError> {
    object.map("weir_rerss_ctl", rerss_control::WORDS * WORD_BYTES)
}

fn sets_map(object: &Loaded) -> Result<MapHandle, LoadError> {
    object.map("weir_rerss_sets", rss_words::WORDS * WORD_BYTES)
}

fn control_value(state: u64, timeout: Duration, map_id: u32) -> Vec<u8> {
    let mut words = [0_u64; rerss_control::WORDS];
    words[rerss_control::STATE] = state;
    words[rerss_control::TIMEOUT_NS] = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    words[rerss_control::MAP_ID] = map_id.into();
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Hashes single frames as the program does, by `BPF_PROG_TEST_RUN`.
#[derive(Debug)]
pub struct InnerHash {
    hash: OwnedFd,
    drop: OwnedFd,
    seen: MapHandle,
}

impl InnerHash {
    /// Loads the programs; later fragments may follow their first one for `timeout`.
    ///
    /// # Errors
    /// [`RerssError`] without privileges or kernel support.
    pub fn load(settings: &Settings, timeout: Duration) -> Result<Self, RerssError> {
        let object = load(settings.table.bucket_count())?;
        map::write(&sets_map(&object)?, 0, &rss::value_of_places(settings))?;
        map::write(&control_map(&object)?, 0, &control_value(0, timeout, 0))?;
        Ok(Self {
            hash: object.program("weir_rerss_hash")?,
            drop: object.program("weir_rerss_drop")?,
            seen: object.map("weir_rerss_saw", rerss_seen::WORDS * WORD_BYTES)?,
        })
    }

    /// What a frame of at least 14 bytes hashes to, and why the walk through it ended.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn hash(&self, frame: &[u8]) -> io::Result<(Hashed, End)> {
        let mut output = vec![0; frame.len()];
        sys::test_run_once(self.hash.as_fd(), frame, &mut output)?;
        let words = map::read(&self.seen, 0).map_err(io::Error::other)?;
        let hash = u32::try_from(words[rerss_seen::HASH]).map_err(io::Error::other)?;
        let hashed = match words[rerss_seen::HASHED] {
            inner_hashed::HASHED => Hashed::Flow(hash),
            inner_hashed::FOLLOWED => Hashed::Followed(hash),
            inner_hashed::EARLY => Hashed::Early(hash),
            _ => Hashed::Not,
        };
        let is_it = |end: &End| place(*end) as u64 == words[rerss_seen::END];
        let end = End::UNREAD.into_iter().find(is_it).unwrap_or(End::Whole);
        Ok((hashed, end))
    }

    /// What it costs to walk through a frame and hash it, and what a program costs that drops it,
    /// ns: the means of `repeat` runs of each.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn costs_ns(&self, frame: &[u8], repeat: u32) -> io::Result<(f64, f64)> {
        let cost = |program: &OwnedFd| -> io::Result<f64> {
            let mut output = vec![0; frame.len()];
            let (_, _, cost_ns) =
                sys::test_run_from(program.as_fd(), None, frame, &mut output, repeat)?;
            Ok(f64::from(cost_ns))
        };
        Ok((cost(&self.hash)?, cost(&self.drop)?))
    }
}

const _: () = assert!(RERSS_SLOT_COUNT == 2, "a bit says which");
