//! Receive side scaling in BPF: `bpf/rss.bpf.c`.
//!
//! [`Wire`] makes a veth with several queues receive as a card with receive side scaling does,
//! for tests and testbeds without such a card. [`Watch`] counts the packets of each bucket where
//! they come in; [`Arrivals`] notes where packets with weir's signature came in, flow by flow.
//!
//! Programs belong to no namespace; attaching takes an interface index of the calling thread's.
//! What a card does is not known here: [`crate::ethtool::rss`] reads what it says.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::MapHandle;
use libbpf_rs::query::MapInfoIter;
use weir_wire::rss::table::TableError;
use weir_wire::rss::{Fields, Key, Settings, Symmetry, Table, Toeplitz};

use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{self, LoadError, Loaded};
use crate::sys;
use crate::words::{RSS_KEY_WORDS, rss, rss_arrival, rss_bucket, rss_symmetries};

#[cfg(test)]
mod tests;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rss.bpf.o"));
const OBJECT_NAME: &str = "rss";

/// Name of the map that has the settings; the kernel shows 15 bytes of a name.
const SETTINGS_MAP: &str = "weir_rss_set";

/// Most flows whose arrivals are noted.
pub const FLOW_COUNT_MAX: u32 = 1 << 20;

/// Why a program for receive side scaling cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RssError {
    /// The kernel does not take the program.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It cannot be put at the interface.
    #[error(
        "cannot attach a program for traffic control to the interface with index {ifindex}: \
         {source} (Linux 6.6 or later can)"
    )]
    Attach {
        /// Index of the interface.
        ifindex: u32,
        /// What the kernel returned.
        source: io::Error,
    },
    /// A map cannot be read or written.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The maps of this host cannot be listed, or one of them is not what it seems to be.
    #[error("cannot look for a wire with receive side scaling: {0}")]
    Find(io::Error),
    /// Other settings than the wire was made for.
    #[error("the table of this wire has {has} entries, as a card's has: it cannot have {asked}")]
    TableSize {
        /// Entries of its table.
        has: usize,
        /// Entries of the new one.
        asked: usize,
    },
}

/// A program at an interface; dropping it takes it away.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

/// The device that packets arrive at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receiver {
    /// Inode of its network namespace.
    pub netns: u64,
    /// Its index there.
    pub ifindex: u32,
}

/// How the queue of a packet that comes in is written in it, which depends on the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueMark {
    /// As its number: a veth.
    Number,
    /// One more than its number: all others.
    NumberAndOne,
}

impl QueueMark {
    /// That of a driver.
    #[must_use]
    pub fn of_driver(driver: &str) -> Self {
        if driver == "veth" { Self::Number } else { Self::NumberAndOne }
    }

    const fn offset(self) -> u64 {
        match self {
            Self::Number => 0,
            Self::NumberAndOne => 1,
        }
    }
}

/// A wire that spreads packets as a card would: the sending end of a veth pair.
#[derive(Debug)]
pub struct Wire {
    program: OwnedFd,
    _settings: MapHandle,
}

impl Wire {
    /// Loads the program for packets to that device; it is attached nowhere.
    ///
    /// # Errors
    /// [`RssError`] without privileges or kernel support.
    pub fn load(settings: &Settings, receiver: Receiver) -> Result<Self, RssError> {
        Self::load_as(settings, &settings.key, receiver)
    }

    /// As [`Wire::load`], but it says that its key is another one than that by which it hashes:
    /// what some cards do.
    ///
    /// # Errors
    /// As [`Wire::load`].
    pub fn load_as(
        settings: &Settings,
        shown_key: &Key,
        receiver: Receiver,
    ) -> Result<Self, RssError> {
        let object = load(settings.table.bucket_count(), 1)?;
        let map = settings_map(&object)?;
        let shown = Shown { key: shown_key, receiver: Some(receiver) };
        map::write(&map, 0, &value(settings, &shown, QueueMark::Number))?;
        Ok(Self { program: object.program("weir_rss_spread")?, _settings: map })
    }

    /// Puts it where packets leave by an interface, until the link is dropped.
    ///
    /// # Errors
    /// [`RssError::Attach`] if the kernel refuses.
    pub fn attach(&self, ifindex: u32) -> Result<Link, RssError> {
        attach(&self.program, ifindex, true)
    }
}

/// The settings of a wire that somebody on this host has loaded.
#[derive(Debug)]
pub struct WireSettings {
    map: MapHandle,
    receiver: Receiver,
}

impl WireSettings {
    /// The wire that ends at a device, if there is one.
    ///
    /// # Errors
    /// [`RssError::Find`] without privileges.
    pub fn find(receiver: Receiver) -> Result<Option<Self>, RssError> {
        let value_bytes = rss::WORDS * WORD_BYTES;
        for info in MapInfoIter::default() {
            let is_one = info.name == SETTINGS_MAP && info.value_size as usize == value_bytes;
            if !is_one {
                continue;
            }
            // It may go at any time.
            let Ok(map) = MapHandle::from_map_id(info.id) else { continue };
            let Ok(words) = map::read(&map, 0) else { continue };
            let ends_at = Receiver {
                netns: words[rss::RECEIVER_NETNS],
                ifindex: u32::try_from(words[rss::RECEIVER_IFINDEX]).unwrap_or(0),
            };
            if ends_at == receiver {
                return Ok(Some(Self { map, receiver }));
            }
        }
        Ok(None)
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// [`RssError`] if it cannot be read, or holds no settings.
    pub fn read(&self) -> Result<Settings, RssError> {
        let words = map::read(&self.map, 0)?;
        settings_of(&words).map_err(|error| RssError::Find(io::Error::other(error)))
    }

    /// Changes it; packets that come meanwhile may go by parts of either.
    ///
    /// # Errors
    /// [`RssError`] if the table has another size, or the kernel refuses.
    pub fn write(&self, settings: &Settings) -> Result<(), RssError> {
        let (has, asked) = (self.read()?.table.bucket_count(), settings.table.bucket_count());
        if has != asked {
            return Err(RssError::TableSize { has, asked });
        }
        let shown = Shown { key: &settings.key, receiver: Some(self.receiver) };
        Ok(map::write(&self.map, 0, &value(settings, &shown, QueueMark::Number))?)
    }
}

/// Packets of a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BucketCount {
    pub packets: u64,
    /// Of those: on another queue than the table has for the bucket.
    pub misplaced_packets: u64,
    /// Of those: to be returned by a program, which does not ([`crate::echo`]).
    pub refused_packets: u64,
}

/// Counts the packets of each bucket where they come in.
#[derive(Debug)]
pub struct Watch {
    program: OwnedFd,
    settings: MapHandle,
    buckets: MapHandle,
    bucket_count: usize,
    mark: QueueMark,
}

impl Watch {
    /// Loads the program, which believes these settings; it is attached nowhere.
    ///
    /// # Errors
    /// [`RssError`] without privileges or kernel support.
    pub fn load(settings: &Settings, mark: QueueMark) -> Result<Self, RssError> {
        let bucket_count = settings.table.bucket_count();
        let object = load(bucket_count, 1)?;
        let watch = Self {
            program: object.program("weir_rss_watch")?,
            settings: settings_map(&object)?,
            buckets: object.map("weir_rss_buckets", rss_bucket::WORDS * WORD_BYTES)?,
            bucket_count,
            mark,
        };
        watch.believe(settings)?;
        Ok(watch)
    }

    /// Goes on with other settings, whose table has the same size.
    ///
    /// # Errors
    /// [`RssError`] if it has not, or the kernel refuses.
    pub fn believe(&self, settings: &Settings) -> Result<(), RssError> {
        let asked = settings.table.bucket_count();
        if asked != self.bucket_count {
            return Err(RssError::TableSize { has: self.bucket_count, asked });
        }
        let shown = Shown { key: &settings.key, receiver: None };
        Ok(map::write(&self.settings, 0, &value(settings, &shown, self.mark))?)
    }

    /// Puts it where packets come in by an interface, until the link is dropped.
    ///
    /// # Errors
    /// [`RssError::Attach`] if the kernel refuses.
    pub fn attach(&self, ifindex: u32) -> Result<Link, RssError> {
        attach(&self.program, ifindex, false)
    }

    /// The packets of each bucket since it was loaded. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counts(&self) -> Result<Vec<BucketCount>, MapError> {
        bucket_counts(&self.buckets, self.bucket_count)
    }
}

/// Where a flow's packets came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub packets: u64,
    /// The queue of the last one.
    pub queue: u32,
    /// The hash that the card or the wire left in the last one; 0 if none did.
    pub hash: u32,
    /// The CPU that received the last one.
    pub cpu: u32,
    /// Packets on another queue than the one before.
    pub change_count: u64,
}

/// Notes where packets with weir's signature come in, and ends their way.
#[derive(Debug)]
pub struct Arrivals {
    program: OwnedFd,
    map: MapHandle,
    flow_count: u32,
}

impl Arrivals {
    /// Loads the program for packets with the sequence numbers below `flow_count`, at most
    /// [`FLOW_COUNT_MAX`]; it is attached nowhere.
    ///
    /// # Errors
    /// [`RssError`] without privileges or kernel support.
    ///
    /// # Panics
    /// If there are more.
    pub fn load(flow_count: u32, mark: QueueMark) -> Result<Self, RssError> {
        assert!(flow_count <= FLOW_COUNT_MAX, "too many flows");
        let object = load(1, flow_count.max(1))?;
        let settings = settings_map(&object)?;
        let mut words = vec![0; rss::WORDS * WORD_BYTES];
        put(&mut words, rss::QUEUE_OFFSET, mark.offset());
        map::write(&settings, 0, &words)?;
        Ok(Self {
            program: object.program("weir_rss_arrive")?,
            map: object.map("weir_rss_arrivals", rss_arrival::WORDS * WORD_BYTES)?,
            flow_count,
        })
    }

    /// Puts it where packets come in by an interface, until the link is dropped.
    ///
    /// # Errors
    /// [`RssError::Attach`] if the kernel refuses.
    pub fn attach(&self, ifindex: u32) -> Result<Link, RssError> {
        attach(&self.program, ifindex, false)
    }

    /// What was seen of each flow, by sequence number; `None` for those of which nothing was.
    ///
    /// # Errors
    /// [`MapError`] if it cannot be read.
    pub fn read(&self) -> Result<Vec<Option<Arrival>>, MapError> {
        let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        let arrival = |flow: u32| {
            let words = map::read(&self.map, flow)?;
            let packets = words[rss_arrival::PACKETS];
            Ok((packets > 0).then(|| Arrival {
                packets,
                queue: low(words[rss_arrival::QUEUE]),
                hash: low(words[rss_arrival::HASH]),
                cpu: low(words[rss_arrival::CPU]),
                change_count: words[rss_arrival::CHANGES],
            }))
        };
        (0..self.flow_count).map(arrival).collect()
    }

    /// Forgets what was seen.
    ///
    /// # Errors
    /// [`MapError`] if the kernel refuses.
    pub fn clear(&self) -> Result<(), MapError> {
        let zeros = [0; rss_arrival::WORDS * WORD_BYTES];
        (0..self.flow_count).try_for_each(|flow| map::write(&self.map, flow, &zeros))
    }
}

fn load(bucket_count: usize, flow_count: u32) -> Result<Loaded, LoadError> {
    let buckets = u32::try_from(bucket_count).unwrap_or(u32::MAX);
    Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
        object::resize(opened, "weir_rss_buckets", buckets)?;
        object::resize(opened, "weir_rss_arrivals", flow_count)
    })
}

fn settings_map(object: &Loaded) -> Result<MapHandle, LoadError> {
    object.map(SETTINGS_MAP, rss::WORDS * WORD_BYTES)
}

/// The counts of the first buckets of a map, over all CPUs.
pub(crate) fn bucket_counts(map: &MapHandle, count: usize) -> Result<Vec<BucketCount>, MapError> {
    let bucket = |index: usize| {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let mut count = BucketCount::default();
        for words in map::read_per_cpu_at(map, index)? {
            count.packets += words[rss_bucket::PACKETS];
            count.misplaced_packets += words[rss_bucket::MISPLACED_PACKETS];
            count.refused_packets += words[rss_bucket::REFUSED_PACKETS];
        }
        Ok(count)
    };
    (0..count).map(bucket).collect()
}

pub(crate) fn attach(program: &OwnedFd, ifindex: u32, is_egress: bool) -> Result<Link, RssError> {
    sys::tcx_link_create(program.as_fd(), ifindex, is_egress)
        .map(|fd| Link { _fd: fd })
        .map_err(|source| RssError::Attach { ifindex, source })
}

/// What settings say beside what is done.
struct Shown<'a> {
    key: &'a Key,
    receiver: Option<Receiver>,
}

/// The value of a map with settings whose table has other places than queues: sockets, or CPUs.
pub(crate) fn value_of_places(settings: &Settings) -> Vec<u8> {
    let shown = Shown { key: &settings.key, receiver: None };
    value(settings, &shown, QueueMark::Number)
}

/// The value of a map with settings for the datagrams to an address and port. `[::]` is that of
/// both families, as for a socket.
pub(crate) fn value_of_listener(
    settings: &Settings,
    mark: QueueMark,
    listener: SocketAddr,
) -> Vec<u8> {
    let shown = Shown { key: &settings.key, receiver: None };
    let mut bytes = value(settings, &shown, mark);
    put(&mut bytes, rss::PORT, listener.port().to_be().into());
    let octets = match listener.ip().to_canonical() {
        IpAddr::V6(ip) if ip.is_unspecified() => Vec::new(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
        IpAddr::V4(ip) => ip.octets().to_vec(),
    };
    put(&mut bytes, rss::ADDRESS_BYTES, octets.len() as u64);
    bytes[rss::ADDRESS * WORD_BYTES..][..octets.len()].copy_from_slice(&octets);
    bytes
}

/// The value of the map with the settings.
fn value(settings: &Settings, shown: &Shown<'_>, mark: QueueMark) -> Vec<u8> {
    let mut bytes = vec![0; rss::WORDS * WORD_BYTES];
    if let Some(Receiver { netns, ifindex }) = shown.receiver {
        put(&mut bytes, rss::RECEIVER_NETNS, netns);
        put(&mut bytes, rss::RECEIVER_IFINDEX, ifindex.into());
    }
    put(&mut bytes, rss::BUCKET_COUNT, settings.table.bucket_count() as u64);
    let symmetry = match settings.symmetry {
        Symmetry::None => rss_symmetries::AS_IS,
        Symmetry::Xor => rss_symmetries::XOR,
        Symmetry::OrXor => rss_symmetries::OR_XOR,
    };
    put(&mut bytes, rss::SYMMETRY, symmetry);
    for (index, fields) in settings.fields.iter().enumerate() {
        put(&mut bytes, rss::PORTS + index, (*fields == Fields::FourTuple).into());
    }
    put(&mut bytes, rss::QUEUE_OFFSET, mark.offset());
    let key = shown.key.bytes();
    put(&mut bytes, rss::KEY_BYTES, key.len() as u64);
    bytes[rss::KEY * WORD_BYTES..][..key.len()].copy_from_slice(key);
    let toeplitz = Toeplitz::new(&settings.key);
    let tables = toeplitz.tables().iter().flatten().flat_map(|part| part.to_ne_bytes());
    fill(&mut bytes[rss::TABLE * WORD_BYTES..rss::QUEUE * WORD_BYTES], tables);
    let queues = settings.table.queues().iter().flat_map(|queue| queue.to_ne_bytes());
    fill(&mut bytes[rss::QUEUE * WORD_BYTES..], queues);
    bytes
}

fn put(bytes: &mut [u8], word: usize, value: u64) {
    bytes[word * WORD_BYTES..][..WORD_BYTES].copy_from_slice(&value.to_ne_bytes());
}

fn fill(room: &mut [u8], bytes: impl Iterator<Item = u8>) {
    for (place, byte) in room.iter_mut().zip(bytes) {
        *place = byte;
    }
}

/// Why a map's value holds no settings.
#[derive(Debug, thiserror::Error)]
enum NoSettings {
    #[error("its key: {0}")]
    Key(#[from] weir_wire::rss::key::KeyError),
    #[error("its table: {0}")]
    Table(#[from] TableError),
}

/// The settings in a map's value.
fn settings_of(words: &[u64]) -> Result<Settings, NoSettings> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let count = |word: usize| usize::try_from(words[word]).unwrap_or(usize::MAX);
    let key_bytes = count(rss::KEY_BYTES).min(RSS_KEY_WORDS * WORD_BYTES);
    let key = Key::new(&bytes[rss::KEY * WORD_BYTES..][..key_bytes])?;
    let (queues, _) = bytes[rss::QUEUE * WORD_BYTES..].as_chunks::<2>();
    let queues = queues.iter().take(count(rss::BUCKET_COUNT));
    let table = Table::new(queues.map(|queue| u16::from_ne_bytes(*queue)).collect())?;
    let symmetry = match words[rss::SYMMETRY] {
        rss_symmetries::XOR => Symmetry::Xor,
        rss_symmetries::OR_XOR => Symmetry::OrXor,
        _ => Symmetry::None,
    };
    let fields = std::array::from_fn(|index| match words[rss::PORTS + index] {
        0 => Fields::TwoTuple,
        _ => Fields::FourTuple,
    });
    Ok(Settings { key, table, symmetry, fields })
}
