//! The program against the reference, on frames of every tunnel; and what it does with buckets.
//! What needs packets that arrive is in weir's end-to-end tests.

use std::net::IpAddr;

use weir_wire::encap::Encap;
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::random::{below, halves, splitmix64};
use weir_wire::rss::inner::{FRAGMENT_TIMEOUT_NS, Follower, walk};
use weir_wire::rss::{Fields, Key, Symmetry};
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamFrames, StreamSpec};

use super::*;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

const TIMEOUT: Duration = Duration::from_nanos(FRAGMENT_TIMEOUT_NS);

fn settings(symmetry: Symmetry, table: &str) -> Settings {
    use Fields::{FourTuple, TwoTuple};
    let key = Key::random(11, 40, 128).expect("a length that keys have").0;
    let table = table.parse().expect("a table");
    Settings { key, table, symmetry, fields: [FourTuple, FourTuple, TwoTuple, FourTuple] }
}

#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

fn unless_forbidden<T>(loaded: Result<T, RerssError>) -> Option<T> {
    match loaded {
        Ok(loaded) => Some(loaded),
        Err(RerssError::Load(error)) if error.is_permission() => {
            skip("loading BPF programs needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Numbers that follow each other from a seed.
struct Draws {
    seed: u64,
    position: u64,
}

impl Draws {
    fn below(&mut self, count: usize) -> usize {
        self.position += 1;
        let (high, _) = halves(splitmix64(self.seed, self.position));
        usize::try_from(below(count as u64, high)).expect("it is below")
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn number(&mut self) -> u16 {
        u16::try_from(self.below(1 << 16)).expect("16 bits")
    }

    /// Few hosts, so that fragments of the same packets meet.
    fn host(&mut self, is_ipv6: bool) -> IpAddr {
        let last = 1 + u8::try_from(self.below(3)).expect("small");
        let octets = [0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        if is_ipv6 { octets.into() } else { [198, 18, 10, last].into() }
    }

    fn packet(&mut self) -> Vec<u8> {
        let is_ipv6 = self.one_in(2);
        let hosts = [self.host(is_ipv6), self.host(is_ipv6)];
        let range = |host: IpAddr, port| match host {
            IpAddr::V4(host) => format!("{host}:{port}").parse().expect("a range"),
            IpAddr::V6(host) => format!("[{host}]:{port}").parse().expect("a range"),
        };
        let ports = [1 + self.below(9), 1 + self.below(9)];
        let macs = [9, 1].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
        let protocols = [Protocol::Udp, Protocol::TCP_SYN, Protocol::IcmpEcho];
        let [src, dst] = [range(hosts[0], ports[0]), range(hosts[1], ports[1])];
        let spec = StreamSpec::new(macs[0], macs[1], src, dst);
        let protocol = protocols[self.below(3)];
        let spec = StreamSpec { protocol, sizes: Sizes::Fixed(110), ..spec };
        StreamFrames::new(spec).expect("it can be sent").build(0)
    }

    fn encap(&mut self) -> Encap {
        let is_ipv6 = self.one_in(2);
        let ends = (self.host(is_ipv6), self.host(is_ipv6));
        let (src_port, id) = (self.number(), self.number().into());
        match self.below(8) {
            0 => Encap::Vlan { id: 5 },
            1 => Encap::Pppoe { session: self.number() },
            2 => Encap::Mpls { label: id },
            3 => Encap::Gre { ends, key: None },
            4 => Encap::Gre { ends, key: Some(id) },
            5 => Encap::Ip { ends },
            6 => Encap::Vxlan { ends, src_port, id },
            _ => Encap::Geneve {
                ends,
                src_port,
                id,
                option_words: u8::try_from(self.below(64)).expect("small"),
            },
        }
    }

    /// Makes a fragment of what begins with an IP header at `at`.
    fn cut(&mut self, frame: &mut Vec<u8>, at: usize) {
        let ident = u8::try_from(self.below(3)).expect("small");
        let (offset, has_more) = (self.below(3), self.one_in(2));
        let offset = u8::try_from(offset).expect("small");
        if frame[at] >> 4 == 4 {
            frame[at + 5] = ident;
            frame[at + 6] = u8::from(has_more) << 5;
            frame[at + 7] = offset;
            return;
        }
        let header = [frame[at + 6], 0, 0, offset << 3 | u8::from(has_more), 0, 0, 0, ident];
        frame[at + 6] = 44;
        // Behind one of options, now and then.
        let options = [44, 0, 0, 0, 0, 0, 0, 0];
        let has_options = self.one_in(3);
        let inserted = if has_options { [options, header].concat() } else { header.to_vec() };
        if has_options {
            frame[at + 6] = 60;
        }
        frame.splice(at + 40..at + 40, inserted);
    }

    /// A packet in up to five tunnels, any of which may be in pieces; damaged now and then.
    fn frame(&mut self) -> Vec<u8> {
        let mut frame = self.packet();
        let is_ip = |frame: &[u8]| [[8, 0], [0x86, 0xdd]].contains(&[frame[12], frame[13]]);
        for _ in 0..self.below(6) {
            if is_ip(&frame) && self.one_in(4) {
                self.cut(&mut frame, 14);
            }
            if let Ok(wrapped) = self.encap().wrap(&frame) {
                frame = wrapped;
            }
        }
        if is_ip(&frame) && self.one_in(3) {
            self.cut(&mut frame, 14);
        }
        if self.one_in(5) {
            let at = 12 + self.below(frame.len() - 12);
            frame[at] = u8::try_from(self.below(256)).expect("a byte");
        }
        if self.one_in(8) {
            let size = 14 + self.below(frame.len() - 14);
            frame.truncate(size);
        }
        frame
    }
}

#[test]
fn the_program_hashes_as_the_reference() {
    let mut seen = BTreeMap::new();
    for (seed, symmetry) in [(1, Symmetry::None), (2, Symmetry::Xor), (3, Symmetry::OrXor)] {
        let settings = settings(symmetry, "equal:2/128");
        let Some(program) = unless_forbidden(InnerHash::load(&settings, TIMEOUT)) else { return };
        let room = usize::try_from(FRAGMENT_COUNT_MAX).expect("it fits");
        let mut reference = Follower::new(settings, FRAGMENT_TIMEOUT_NS, room);
        let mut draws = Draws { seed, position: 0 };
        for number in 0..4_000 {
            let frame = draws.frame();
            let expected = (reference.hash(&frame, 0), walk(&frame).end);
            let found = program.hash(&frame).expect("it runs");
            assert_eq!(found, expected, "seed {seed}, frame {number}: {frame:02x?}");
            let kind = match expected.0 {
                Hashed::Not => "not",
                Hashed::Flow(_) => "flow",
                Hashed::Followed(_) => "followed",
                Hashed::Early(_) => "early",
            };
            *seen.entry(kind.to_owned()).or_insert(0) += 1;
            *seen.entry(expected.1.name().to_owned()).or_insert(0) += 1;
            *seen.entry(format!("{} levels", walk(&frame).level_count)).or_insert(0) += 1;
        }
    }
    // Every way to end, and to be hashed, was gone often.
    assert!(seen.len() == 4 + 5 + 5 && seen.values().all(|count| *count > 20), "{seen:?}");
}

#[test]
fn a_first_fragment_is_forgotten_in_time() {
    let settings = settings(Symmetry::None, "equal:2/128");
    let at_once = Duration::ZERO;
    let Some(program) = unless_forbidden(InnerHash::load(&settings, at_once)) else { return };
    let mut draws = Draws { seed: 4, position: 0 };
    let packet = loop {
        let packet = draws.packet();
        if packet[12..14] == [8, 0] {
            break packet;
        }
    };
    let piece = |field: [u8; 2]| {
        let mut frame = packet.clone();
        frame[20..22].copy_from_slice(&field);
        program.hash(&frame).expect("it runs").0
    };
    assert!(matches!(piece([0x20, 0]), Hashed::Flow(_)));
    assert!(matches!(piece([0, 3]), Hashed::Early(_)));
}

fn run(rerss: &Rerss, frame: &[u8]) -> u32 {
    let mut output = vec![0; frame.len()];
    sys::test_run_once(rerss.program.as_fd(), frame, &mut output).expect("it runs").0
}

#[test]
fn packets_go_to_the_cpus_of_their_buckets() {
    let settings = settings(Symmetry::None, "0,0,0");
    let Some(mut rerss) = unless_forbidden(Rerss::load(&settings, 64, TIMEOUT)) else { return };
    let mut draws = Draws { seed: 5, position: 0 };
    let frames: Vec<Vec<u8>> = (0..30).map(|_| draws.packet()).collect();
    let verdicts = |rerss: &Rerss| frames.iter().map(|frame| run(rerss, frame)).collect::<Vec<_>>();
    assert!(verdicts(&rerss).iter().all(|verdict| *verdict == XDP_PASS), "it begins off");
    let counts = rerss.counts().expect("counts");
    assert_eq!((counts.passed_packets, counts.local_packets), (30, 0));
    let change = rerss.change(Some(&settings.table)).expect("it is switched on");
    assert!(change.is_drained && rerss.is_on());
    let allowed = [XDP_PASS, XDP_REDIRECT];
    assert!(verdicts(&rerss).iter().all(|verdict| allowed.contains(verdict)));
    let counts = rerss.counts().expect("counts");
    // All are CPU 0's, which the test may be on.
    let sent = counts.queues[&0].sent_packets;
    assert_eq!((counts.received_packets, counts.local_packets + sent), (60, 30));
    assert_eq!(counts.passed_packets, 30, "none passes while it is on");
    let mut reference = Follower::new(settings.clone(), FRAGMENT_TIMEOUT_NS, 1);
    let mut expected = vec![0; 3];
    for frame in &frames {
        let hash = reference.hash(frame, 0).hash().expect("they have IP headers");
        expected[settings.table.bucket(hash)] += 1;
    }
    assert_eq!(rerss.buckets().expect("buckets"), expected);
    let larger = "equal:1/4".parse().expect("a table");
    let error = rerss.change(Some(&larger)).expect_err("another size").to_string();
    assert!(error.contains("3 buckets"), "{error}");
}

#[test]
fn what_moves_is_dropped_and_what_stays_is_not() {
    let settings = settings(Symmetry::None, "0,0,0,0");
    let Some(rerss) = unless_forbidden(Rerss::load(&settings, 64, TIMEOUT)) else { return };
    // Off as it is, all buckets are where their packets come in. The others' CPU is not there.
    const FAR: u16 = 60_000;
    let table = Table::new(vec![RERSS_LOCAL, FAR, RERSS_LOCAL, FAR]).expect("a table");
    let next = Settings { table, ..settings.clone() };
    rerss.write_slot(1, &next).expect("written");
    let state = rerss_states::SLOT | rerss_states::ON;
    let mut draws = Draws { seed: 6, position: 0 };
    let mut reference = Follower::new(settings, FRAGMENT_TIMEOUT_NS, 1);
    let mut moved = 0;
    for _ in 0..40 {
        let frame = draws.packet();
        let hash = reference.hash(&frame, 0).hash().expect("they have IP headers");
        let moves = next.table.queue(next.table.bucket(hash)) == FAR;
        rerss.write_state(state | rerss_states::DRAINS).expect("written");
        assert_eq!(run(&rerss, &frame), if moves { XDP_DROP } else { XDP_PASS });
        rerss.write_state(state).expect("written");
        assert_eq!(run(&rerss, &frame), XDP_PASS, "its CPU has no queue");
        moved += u64::from(moves);
    }
    let counts = rerss.counts().expect("counts");
    assert_eq!((counts.drained_packets, counts.unplaced_packets), (moved, moved));
    assert_eq!(counts.local_packets, 80 - 2 * moved);
    assert!((6..35).contains(&moved), "{moved}");
}

/// The kernel may fail to hand on a frame after the program has chosen its CPU.
#[test]
fn what_gets_into_no_queue_holds_up_no_change() {
    let settings = settings(Symmetry::None, "0,1");
    let mut rerss = match Rerss::load(&settings, 64, TIMEOUT) {
        Err(RerssError::Queue { cpu: 1, .. }) => return skip("there is one CPU"),
        loaded => match unless_forbidden(loaded) {
            Some(rerss) => rerss,
            None => return,
        },
    };
    assert!(rerss.change(Some(&settings.table)).expect("it is switched on").is_drained);
    let mut draws = Draws { seed: 7, position: 0 };
    // A test run returns what the program says, and does not hand the frame on.
    let redirected = (0..40).filter(|_| run(&rerss, &draws.packet()) == XDP_REDIRECT).count();
    assert!(redirected > 0, "the frames of one of two CPUs are another one's");
    for table in [None, Some(&settings.table), None] {
        assert!(rerss.change(table).expect("it changes").is_drained, "{table:?}");
    }
    let counts = rerss.counts().expect("counts");
    let sum = |value: fn(&QueueCounts) -> u64| counts.queues.values().map(value).sum::<u64>();
    assert_eq!(sum(|queue| queue.sent_packets), redirected as u64);
    assert_eq!(sum(|queue| queue.queued_packets + queue.dropped_packets), 0);
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    let settings = settings(Symmetry::None, "0,9999");
    let error = match Rerss::load(&settings, 64, TIMEOUT) {
        Err(RerssError::Load(error)) if error.is_permission() => return,
        other => other.expect_err("there is no such CPU").to_string(),
    };
    assert!(error.contains("CPU 9999 cannot get a queue"), "{error}");
}
