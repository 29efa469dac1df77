//! Queues of what leaves an interface: a tree of classes with rates, which share what is left, and
//! a queue at each leaf. Classes are those of the kernel's hierarchical token bucket (tc-htb(8)),
//! or, if one of them has a curve of two slopes, of tc-hfsc(8).
//!
//! Packets find their class by their priority (`skb->priority`): the tree's number and the class's
//! own. Which packet gets which is for others to say. Trees of other programs are named, and never
//! touched.

use futures_util::StreamExt as _;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcStats2};
use rtnetlink::packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkMessage, NetlinkPayload,
};

mod hfsc;
mod leaf;

pub use hfsc::{Curve, Curves};
pub use leaf::Queue;

use crate::netlink::{Netlink, NetlinkError};

/// The kernel's name of a tree of classes with rates.
const HTB_KIND: &str = "htb";

/// Of linux/rtnetlink.h and linux/pkt_sched.h.
const TCA_OPTIONS: u16 = 2;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TC_HTB_PROTOVER: u32 = 3;
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// Where the kernel says how long its ticks are: microseconds, then ticks, in nanoseconds.
const CLOCK: &str = "/proc/net/psched";
/// A class may send so much at once, at its rate, beside one long packet.
const BURST_MS: u64 = 1;
const PACKET_BYTES: u64 = 1_600;

/// A class of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its number in the tree, from 1 on.
    pub number: u16,
    /// The class above it; 0: none.
    pub parent: u16,
    /// What it gets in any case, bits per second.
    pub rate_bps: u64,
    /// What it gets at most, bits per second.
    pub ceil_bps: u64,
    /// What it may send at once above its rate, bytes; 0: as much as its rate needs.
    pub burst_bytes: u32,
    /// Which class gets what is left first: 0 (before all others) to 7.
    pub priority: u8,
    /// What it sends in its turn where classes of one priority share what is left, bytes.
    pub quantum_bytes: u32,
    /// How fast it is over time, in place of all of the above: all classes of a tree have curves,
    /// or none.
    pub curves: Option<Curves>,
    /// `None`: there are classes below it.
    pub queue: Option<Queue>,
}

/// The classes of an interface, parents before their children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pub interface: String,
    /// The class of packets that have none.
    pub default: u16,
    pub classes: Vec<Class>,
}

/// What a class has sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassCounters {
    pub number: u16,
    pub packet_count: u64,
    /// With link headers.
    pub size_bytes: u64,
    pub dropped_count: u64,
    /// Packets that wait.
    pub waiting_count: u64,
}

/// The root of an interface's queues, if somebody has put one there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// As `tc qdisc show` has it.
    pub kind: String,
    /// Its number.
    pub major: u16,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// `struct tc_ratespec`: bytes per second, as far as 32 bits hold them.
fn rate_spec(rate_bps: u64) -> Vec<u8> {
    let rate_bytes = u32::try_from(rate_bps / 8).unwrap_or(u32::MAX);
    let mut spec = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
    spec.extend(rate_bytes.to_ne_bytes());
    spec
}

/// How long so many bytes take at a rate, in the kernel's ticks.
fn ticks(size_bytes: u64, rate_bps: u64, tick_ns: u64) -> u32 {
    let ns = u128::from(size_bytes) * 8 * 1_000_000_000 / u128::from(rate_bps.max(1));
    u32::try_from(ns / u128::from(tick_ns.max(1))).unwrap_or(u32::MAX)
}

/// Nanoseconds of a tick, by what the kernel says of its clock.
fn tick_ns(clock: &str) -> Option<u64> {
    u64::from_str_radix(clock.split_whitespace().nth(1)?, 16).ok()
}

/// `struct tc_htb_opt`, and the rates that it has no room for.
fn class_options(class: &Class, tick_ns: u64) -> Vec<TcOption> {
    let burst = |rate_bps: u64| PACKET_BYTES + rate_bps / 8 * BURST_MS / 1000;
    let at_rate = burst(class.rate_bps).max(class.burst_bytes.into());
    let mut parameters = rate_spec(class.rate_bps);
    parameters.extend(rate_spec(class.ceil_bps));
    parameters.extend(words(&[
        ticks(at_rate, class.rate_bps, tick_ns),
        ticks(burst(class.ceil_bps), class.ceil_bps, tick_ns),
        class.quantum_bytes,
        0,
        class.priority.into(),
    ]));
    let long = |rate_bps: u64| (rate_bps / 8).to_ne_bytes().to_vec();
    [
        (TCA_HTB_PARMS, parameters),
        (TCA_HTB_RATE64, long(class.rate_bps)),
        (TCA_HTB_CEIL64, long(class.ceil_bps)),
    ]
    .into_iter()
    .map(|(kind, bytes)| TcOption::Other(DefaultNla::new(kind, bytes)))
    .collect()
}

fn message(index: u32, handle: TcHandle, parent: TcHandle) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = index.cast_signed();
    (message.header.handle, message.header.parent) = (handle, parent);
    message
}

/// What is said where a kernel does not have a kind of queue: it answers as if a file were not
/// there.
fn without(kind: &str, link: &str, error: NetlinkError) -> NetlinkError {
    match &error {
        NetlinkError::Refused { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let option = kind.to_uppercase();
            let reason = format!("this kernel has no {kind} (CONFIG_NET_SCH_{option})");
            NetlinkError::Refused {
                action: format!("make a queue of interface `{link}`"),
                source: std::io::Error::new(source.kind(), reason),
            }
        }
        _ => error,
    }
}

impl Tree {
    /// The kernel's name of it.
    fn kind(&self) -> &'static str {
        let has_curves = self.classes.iter().any(|class| class.curves.is_some());
        if has_curves { hfsc::KIND } else { HTB_KIND }
    }

    /// What is said of it as a whole.
    fn options(&self) -> TcAttribute {
        if self.kind() == hfsc::KIND {
            return hfsc::tree_options(self.default);
        }
        let head = words(&[TC_HTB_PROTOVER, 10, self.default.into(), 0, 0]);
        TcAttribute::Options(vec![TcOption::Other(DefaultNla::new(TCA_HTB_INIT, head))])
    }
}

impl Netlink {
    fn shape(
        &self,
        action: impl FnOnce() -> String,
        payload: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        let mut request = NetlinkMessage::from(payload);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut handle = self.handle().clone();
        self.perform(action, async move {
            let mut answers = handle.request(request)?;
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::Error(error) = answer.payload
                    && error.code.is_some()
                {
                    return Err(rtnetlink::Error::NetlinkError(error));
                }
            }
            Ok(())
        })
    }

    /// What stands at the root of an interface's queues; `None`: what the kernel puts there itself.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn root_queue(&self, link: &str) -> Result<Option<Root>, NetlinkError> {
        let index = self.ifindex(link)?;
        let request = self.handle().qdisc().get().index(index.cast_signed());
        let all = self.collect(|| format!("list queues of `{link}`"), request.execute())?;
        let found = all.iter().find(|message| {
            message.header.index == index.cast_signed()
                && message.header.parent == TcHandle::ROOT
                && message.header.handle.major != 0
        });
        Ok(found.map(|message| {
            let kind = message.attributes.iter().find_map(|attribute| match attribute {
                TcAttribute::Kind(kind) => Some(kind.clone()),
                _ => None,
            });
            Root { kind: kind.unwrap_or_default(), major: message.header.handle.major }
        }))
    }

    /// Puts a tree of this number in the place of the interface's queues. Packets that wait in an
    /// earlier one are lost.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses; then there is no tree.
    pub fn set_tree(&self, tree: &Tree, major: u16) -> Result<(), NetlinkError> {
        let link = &tree.interface;
        self.remove_tree(link, major)?;
        let made = self.make_tree(tree, major);
        if made.is_err() {
            // What it says is why there is no tree.
            drop(self.remove_tree(link, major));
        }
        made
    }

    fn make_tree(&self, tree: &Tree, major: u16) -> Result<(), NetlinkError> {
        let link = &tree.interface;
        let index = self.ifindex(link)?;
        let clock = std::fs::read_to_string(CLOCK).ok().and_then(|text| tick_ns(&text));
        let tick_ns = clock.ok_or_else(|| NetlinkError::Answer {
            action: format!("make queues of interface `{link}`"),
            detail: format!("{CLOCK} does not say how long ticks are"),
        })?;
        let handle = |minor: u16| TcHandle { major, minor };
        let mut root = message(index, handle(0), TcHandle::ROOT);
        let kind = tree.kind();
        root.attributes = vec![TcAttribute::Kind(kind.to_owned()), tree.options()];
        let make = NLM_F_CREATE | NLM_F_EXCL;
        let what = || format!("make queues of interface `{link}`");
        let root = RouteNetlinkMessage::NewQueueDiscipline(root);
        self.shape(what, root, NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|error| without(kind, link, error))?;
        for class in &tree.classes {
            let mut new = message(index, handle(class.number), handle(class.parent));
            let options = match &class.curves {
                Some(curves) => curves.options(),
                None => class_options(class, tick_ns),
            };
            new.attributes =
                vec![TcAttribute::Kind(kind.to_owned()), TcAttribute::Options(options)];
            self.shape(what, RouteNetlinkMessage::NewTrafficClass(new), make)?;
        }
        for class in &tree.classes {
            let Some(queue) = class.queue else { continue };
            let (kind, options) = queue.options(class.rate_bps);
            let mut new = message(index, TcHandle::UNSPEC, handle(class.number));
            new.attributes = vec![TcAttribute::Kind(kind.to_owned()), options];
            let what = || format!("make a queue of interface `{link}` by {kind}");
            self.shape(what, RouteNetlinkMessage::NewQueueDiscipline(new), make)
                .map_err(|error| without(kind, link, error))?;
        }
        Ok(())
    }

    /// Takes a tree of this number away, if one is there; the kernel puts its own queue there.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn remove_tree(&self, link: &str, major: u16) -> Result<(), NetlinkError> {
        let is_there = self.root_queue(link)?.is_some_and(|root| root.major == major);
        if !is_there {
            return Ok(());
        }
        let index = self.ifindex(link)?;
        let old = message(index, TcHandle { major, minor: 0 }, TcHandle::ROOT);
        let what = || format!("take away the queues of interface `{link}`");
        self.shape(what, RouteNetlinkMessage::DelQueueDiscipline(old), 0)
    }

    /// What the classes of an interface's tree of this number have sent.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn class_counters(
        &self,
        link: &str,
        major: u16,
    ) -> Result<Vec<ClassCounters>, NetlinkError> {
        let index = self.ifindex(link)?;
        let get = message(index, TcHandle::UNSPEC, TcHandle::UNSPEC);
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetTrafficClass(get));
        request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut handle = self.handle().clone();
        let all = self.perform(|| format!("list queues of `{link}`"), async move {
            let mut all = Vec::new();
            let mut answers = handle.request(request)?;
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewTrafficClass(one)) =
                    answer.payload
                {
                    all.push(one);
                }
            }
            Ok(all)
        })?;
        let of_tree = all.iter().filter(|one| one.header.handle.major == major);
        Ok(of_tree.map(counters).collect())
    }
}

fn counters(class: &TcMessage) -> ClassCounters {
    let mut counters =
        ClassCounters { number: class.header.handle.minor, ..ClassCounters::default() };
    let lists = class.attributes.iter().filter_map(|attribute| match attribute {
        TcAttribute::Stats2(list) => Some(list),
        _ => None,
    });
    for one in lists.flatten() {
        match one {
            TcStats2::Basic(sent) => {
                counters.packet_count = sent.packets.into();
                counters.size_bytes = sent.bytes;
            }
            TcStats2::Queue(queue) => {
                counters.dropped_count = queue.drops.into();
                counters.waiting_count = queue.qlen.into();
            }
            _ => {}
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VethEnd;
    use crate::testing::namespace;

    #[test]
    fn times_are_in_the_kernels_ticks() {
        assert_eq!(tick_ns("000003e8 00000040 000f4240 3b9aca00\n"), Some(64));
        assert_eq!(tick_ns("nothing"), None);
        // 1,000 bytes at 8 Mbit/s: a millisecond.
        assert_eq!(ticks(1_000, 8_000_000, 64), 1_000_000 / 64);
        assert_eq!(ticks(u64::MAX, 1, 64), u32::MAX);
    }

    fn class(number: u16, parent: u16, queue: Option<Queue>) -> Class {
        Class {
            number,
            parent,
            rate_bps: 5_000_000,
            ceil_bps: 10_000_000,
            burst_bytes: 0,
            priority: 3,
            quantum_bytes: 10_000,
            curves: None,
            queue,
        }
    }

    #[test]
    fn a_tree_with_curves_is_made_or_the_kernel_lacks_it() {
        let netns = namespace("curves");
        let inside = || {
            let netlink = Netlink::open().unwrap();
            netlink.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1"), 1).unwrap();
            let curve = Curve { first_bps: 2_000_000, first_us: 10_000, second_bps: 1_000_000 };
            let curves = Curves { realtime: Some(curve), linkshare: curve, upperlimit: None };
            let red = Queue::Red { limit_packets: 50, has_ecn: true };
            let class = Class { curves: Some(curves), ..class(7, 0, Some(red)) };
            let tree = Tree { interface: "v0".to_owned(), default: 7, classes: vec![class] };
            match netlink.set_tree(&tree, 0x7765) {
                Ok(()) => {
                    let root = netlink.root_queue("v0").unwrap().expect("it is there");
                    assert_eq!(root.kind, hfsc::KIND);
                    assert_eq!(netlink.class_counters("v0", 0x7765).unwrap().len(), 1);
                }
                Err(error) => {
                    let error = format!("{error:?}");
                    assert!(error.contains("(CONFIG_NET_SCH_"), "{error}");
                    assert_eq!(netlink.root_queue("v0").unwrap(), None);
                }
            }
        };
        netns.run(inside).unwrap();
    }

    #[test]
    fn a_tree_is_made_found_and_taken_away() {
        let netns = namespace("shaping");
        let inside = || {
            let netlink = Netlink::open().unwrap();
            netlink.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1"), 1).unwrap();
            assert_eq!(netlink.root_queue("v0").unwrap(), None);
            let fifo = Some(Queue::Fifo { limit_packets: 50 });
            let bytes = Some(Queue::FifoBytes { limit_bytes: 10_240 });
            let classes = vec![class(7, 0, None), class(8, 7, bytes), class(9, 7, fifo)];
            let tree = Tree { interface: "v0".to_owned(), default: 9, classes };
            for _ in 0..2 {
                netlink.set_tree(&tree, 0x7765).unwrap();
            }
            let root = netlink.root_queue("v0").unwrap().expect("it is there");
            assert_eq!((root.kind.as_str(), root.major), ("htb", 0x7765));
            let mut numbers: Vec<u16> = netlink
                .class_counters("v0", 0x7765)
                .unwrap()
                .iter()
                .map(|class| class.number)
                .collect();
            numbers.sort_unstable();
            assert_eq!(numbers, [7, 8, 9]);
            // A tree of somebody else stays; one that cannot be leaves nothing behind.
            netlink.remove_tree("v0", 1).unwrap();
            assert!(netlink.root_queue("v0").unwrap().is_some());
            let twice = Tree { classes: vec![class(8, 0, fifo), class(8, 0, fifo)], ..tree };
            netlink.set_tree(&twice, 0x7765).expect_err("class 8 is there");
            assert_eq!(netlink.root_queue("v0").unwrap(), None);
        };
        netns.run(inside).unwrap();
    }
}
