//! Counts the datagrams to a UDP address and port where they come in, bucket by bucket, and takes
//! them past the network stack where that is asked for: `bpf/echo.bpf.c`.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use weir_wire::rss::Settings;

use crate::attach::{self, AttachError};
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{self, LoadError, Loaded};
use crate::rss::{self, BucketCount, QueueMark, RssError};
use crate::words::{rss as rss_words, rss_bucket};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/echo.bpf.o"));
const OBJECT_NAME: &str = "echo";

/// What is done with the datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They go on to the stack, after they were counted.
    Stack,
    /// They go to the AF_XDP sockets of their queues.
    Sockets,
    /// They are sent back with source and destination exchanged, each from the CPU that received
    /// it.
    Back,
}

/// The program, loaded.
#[derive(Debug)]
pub struct EchoProgram {
    program: OwnedFd,
    settings: MapHandle,
    buckets: MapHandle,
    sockets: MapHandle,
    way: Way,
    mark: QueueMark,
    listener: SocketAddr,
    bucket_count: usize,
}

/// A program at an interface; dropping it takes it away.
#[derive(Debug)]
pub enum EchoLink {
    Stack(rss::Link),
    Driver(attach::Link),
}

/// Why it cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum EchoAttachError {
    #[error(transparent)]
    Stack(#[from] RssError),
    #[error(transparent)]
    Driver(#[from] AttachError),
}

impl EchoProgram {
    /// Loads the program for datagrams to that address and port (`[::]`: to any address), at an
    /// interface with these settings and `queue_count` queues; it is attached nowhere.
    ///
    /// # Errors
    /// [`RssError`] without privileges or kernel support.
    pub fn load(
        way: Way,
        listener: SocketAddr,
        settings: &Settings,
        queue_count: u32,
        mark: QueueMark,
    ) -> Result<Self, RssError> {
        let bucket_count = settings.table.bucket_count();
        let object = Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
            let buckets = u32::try_from(bucket_count).unwrap_or(u32::MAX);
            object::resize(opened, "weir_echo_buckets", buckets)?;
            object::resize(opened, "weir_echo_sockets", queue_count.max(1))
        })?;
        let name = match way {
            Way::Stack => "weir_echo_count",
            Way::Sockets => "weir_echo_xsk",
            Way::Back => "weir_echo_reflect",
        };
        let loaded = Self {
            program: object.program(name)?,
            settings: object.map("weir_echo_set", rss_words::WORDS * WORD_BYTES)?,
            buckets: object.map("weir_echo_buckets", rss_bucket::WORDS * WORD_BYTES)?,
            sockets: object.map("weir_echo_sockets", size_of::<u32>())?,
            way,
            mark,
            listener,
            bucket_count,
        };
        loaded.set(settings)?;
        Ok(loaded)
    }

    /// Goes by other settings; packets that come meanwhile may go by parts of either. The table has
    /// to be as large.
    ///
    /// # Errors
    /// [`RssError`] if it is not, or the kernel refuses.
    pub fn set(&self, settings: &Settings) -> Result<(), RssError> {
        let asked = settings.table.bucket_count();
        if asked != self.bucket_count {
            return Err(RssError::TableSize { has: self.bucket_count, asked });
        }
        let value = rss::value_of_listener(settings, self.mark, self.listener);
        Ok(map::write(&self.settings, 0, &value)?)
    }

    /// Has a socket get what comes in on a queue.
    ///
    /// # Errors
    /// [`LoadError`] if it is no AF_XDP socket that is bound to it.
    pub fn add(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), LoadError> {
        let descriptor = socket.as_raw_fd().to_ne_bytes();
        self.sockets.update(&queue.to_ne_bytes(), &descriptor, MapFlags::ANY).map_err(|source| {
            LoadError::Refused { object: OBJECT_NAME, source, hint: "", log: String::new() }
        })
    }

    /// Puts it at an interface of the calling thread's network namespace, until the link is
    /// dropped.
    ///
    /// # Errors
    /// [`EchoAttachError`] if the kernel or the driver refuses.
    pub fn attach(&self, ifindex: u32) -> Result<EchoLink, EchoAttachError> {
        Ok(match self.way {
            Way::Stack => EchoLink::Stack(rss::attach(&self.program, ifindex, false)?),
            Way::Sockets | Way::Back => {
                EchoLink::Driver(attach::native(self.program.as_fd(), ifindex)?)
            }
        })
    }

    /// The datagrams of each bucket since it was loaded. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counts(&self) -> Result<Vec<BucketCount>, MapError> {
        rss::bucket_counts(&self.buckets, self.bucket_count)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weir_wire::flow::FlowSpace;
    use weir_wire::mac::MacAddr;
    use weir_wire::rss::{Fields, FlowKind, Key, Symmetry};
    use weir_wire::stream::{StreamFrames, StreamSpec};

    use super::*;
    use crate::sys;

    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    const XDP_TX: u32 = 3;

    fn settings() -> Settings {
        Settings {
            key: Key::microsoft(),
            table: "0,1,0,0,0,0,0".parse().expect("a table"),
            symmetry: Symmetry::None,
            fields: [Fields::FourTuple; 4],
        }
    }

    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    fn program(way: Way, listener: &str) -> Option<EchoProgram> {
        let listener = listener.parse().expect("an address");
        match EchoProgram::load(way, listener, &settings(), 2, QueueMark::Number) {
            Ok(program) => Some(program),
            Err(RssError::Load(error)) if error.is_permission() => {
                eprintln!("skipped: loading BPF programs needs root");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn frames(src: &str, dst: &str) -> StreamFrames {
        let range = |text: &str| text.parse().expect("a range");
        let macs = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]));
        let spec = StreamSpec::new(macs.0, macs.1, range(src), range(dst));
        StreamFrames::new(StreamSpec { sizes: weir_wire::sizes::Sizes::Fixed(90), ..spec })
            .expect("it can be sent")
    }

    fn run(program: &EchoProgram, frame: &[u8]) -> (u32, Vec<u8>) {
        let mut output = vec![0; 2048];
        let result = sys::test_run_once(program.program.as_fd(), frame, &mut output);
        let (verdict, size) = result.expect("the program runs");
        output.truncate(size);
        (verdict, output)
    }

    /// Test runs come in on queue 0.
    #[test]
    fn datagrams_to_the_port_are_counted_with_their_buckets_and_sent_back() {
        let Some(program) = program(Way::Back, "[::]:53") else { return };
        let flows = [
            (FlowKind::Udp4, "198.18.10.1:2000-198.18.10.1:2039", "198.19.10.1:53"),
            (FlowKind::Udp6, "[2001:2::1]:2000-[2001:2::1]:2039", "[2001:2::9]:53"),
        ];
        let mut expected = vec![BucketCount::default(); 7];
        for (kind, src, dst) in flows {
            let (there, back) = (frames(src, dst), frames(dst, src));
            let range = |text: &str| text.parse().expect("a range");
            let space: FlowSpace<weir_wire::range::AddrRange> =
                FlowSpace::new(range(src), range(dst)).expect("flows");
            let steering = settings().steering(kind);
            for (sequence, (flow, place)) in (0..).zip(steering.places(&space)) {
                let sent = there.build(sequence);
                let (verdict, returned) = run(&program, &sent);
                assert_eq!((verdict, returned.len()), (XDP_TX, sent.len()), "{flow}");
                assert_eq!((&returned[..6], &returned[6..12]), (&sent[6..12], &sent[..6]));
                let is_v6 = IpAddr::is_ipv6(&flow.src);
                let (at, bytes, ports) = if is_v6 { (22, 16, 54) } else { (26, 4, 34) };
                assert_eq!(returned[at..at + bytes], sent[at + bytes..at + 2 * bytes]);
                assert_eq!(returned[ports..ports + 2], sent[ports + 2..ports + 4]);
                assert_eq!(returned[ports + 4..], sent[ports + 4..], "checksum and payload");
                expected[place.bucket].packets += 1;
                expected[place.bucket].misplaced_packets += u64::from(place.queue != 0);
                let (verdict, passed) = run(&program, &back.build(sequence));
                assert_eq!((verdict, passed), (XDP_PASS, back.build(sequence)), "another port");
            }
        }
        assert_eq!(program.counts().expect("they are read"), expected);
    }

    #[test]
    fn only_what_is_to_the_address_and_of_no_server_is_returned() {
        let Some(of_v4) = program(Way::Back, "198.19.10.1:53") else { return };
        let Some(of_v6) = program(Way::Back, "[2001:2::9]:53") else { return };
        let v4 = frames("198.18.10.1:2000", "198.19.10.1:53").build(0);
        let v6 = frames("[2001:2::1]:2000", "[2001:2::9]:53").build(0);
        let sums = |program: &EchoProgram| {
            let counts = program.counts().expect("they are read");
            counts.iter().fold((0, 0), |(packets, refused), count| {
                (packets + count.packets, refused + count.refused_packets)
            })
        };
        for (program, its, other, elsewhere) in [
            (&of_v4, &v4, &v6, frames("198.18.10.1:2000", "198.19.10.2:53")),
            (&of_v6, &v6, &v4, frames("[2001:2::1]:2000", "[2001:2::8]:53")),
        ] {
            assert_eq!(run(program, its).0, XDP_TX);
            assert_eq!(run(program, other).0, XDP_PASS, "the other family");
            assert_eq!(run(program, &elsewhere.build(0)).0, XDP_PASS, "another address");
            let mut to_all = its.clone();
            to_all[0] |= 1;
            assert_eq!(run(program, &to_all).0, XDP_PASS, "to a group of stations");
            assert_eq!(sums(program), (1, 0));
        }
        let of_server = frames("198.18.10.1:53", "198.19.10.1:53").build(0);
        assert_eq!(run(&of_v4, &of_server).0, XDP_DROP);
        assert_eq!(sums(&of_v4), (2, 1));
    }

    #[test]
    fn a_queue_without_a_socket_is_the_stacks() {
        let Some(program) = program(Way::Sockets, "0.0.0.0:53") else { return };
        let sent = frames("198.18.10.1:2000", "198.19.10.1:53").build(0);
        assert_eq!(run(&program, &sent), (XDP_PASS, sent));
        let counted: u64 = program.counts().expect("they are read").iter().map(|c| c.packets).sum();
        assert_eq!(counted, 1);
        let larger = Settings { table: "equal:2/8".parse().expect("a table"), ..settings() };
        let error = program.set(&larger).expect_err("another size").to_string();
        assert!(error.contains("has 7 entries"), "{error}");
    }
}
