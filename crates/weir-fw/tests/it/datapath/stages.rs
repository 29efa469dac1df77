//! Packets judged in two stages, by real frames: the second one runs when a device sends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_bpf::attach::{Link, Mode};
use weir_bpf::ethtool;
use weir_bpf::firewall::Stages;
use weir_bpf::firewall::layout::{control, stage_note, table};
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd, sysctl};
use weir_oracle::bench::DropCounter;
use weir_oracle::netns::namespace;

use super::frames::{Ends, Segment};
use super::live::{PATIENCE, send};
use super::rig::{PASS, REDIRECT, Rig, SLOT};

const IN: u32 = 0;
/// Slot of a third interface.
const THIRD_SLOT: u32 = 3;

/// No answers: those are for one stage.
pub(super) const RULES: &str = "block all\npass proto udp to port 53 keep state\n\
                     pass proto tcp to port 80 keep state\n";

impl Rig {
    /// Goes to one stage or two.
    pub(super) fn set_stages(&self, stages: Stages) {
        self.firewall.set_stages(stages, || true).expect("the kernel is waited for");
    }

    /// A rig that judges in two stages.
    pub(super) fn in_two_stages(what: &str, rules: &str) -> Option<Self> {
        let rig = Self::with_rules(what, rules)?;
        rig.firewall.load_second_program().expect("the second stage's program");
        let open = || {
            // What arrives is counted, and the kernel speaks of its own accord there.
            sysctl::write("net.ipv6.conf.all.disable_ipv6", "1").expect("a sysctl");
            for (slot, ifindex) in SLOT.into_iter().zip(rig.ifindex) {
                rig.firewall.open_exit(slot, ifindex).expect("an exit");
                assert_eq!(rig.firewall.exit(slot).expect("asked"), Some(ifindex));
            }
            // Else each frame that a socket sends is a poll of its own.
            for name in ["b0", "b1"] {
                weir_net::napi::set_threaded(name, true).expect("threads");
            }
        };
        rig.inside.run(open).expect("the namespace is entered");
        rig.set_stages(Stages::Two);
        assert_eq!(rig.firewall.stages(), Stages::Two);
        Some(rig)
    }

    fn arrivals(&self, side: usize) -> (DropCounter, Link) {
        arrivals(&self.peers[side])
    }

    /// A third interface of the box, with a neighbour behind it.
    fn add_third(&self) -> NetnsGuard {
        let peer = namespace("third-").expect("as the others");
        let mac = [2, 0, 0, 0, 3, 1];
        let add = || {
            let netlink = Netlink::open().expect("netlink opens");
            let there = VethEnd::new("p").mac([2, 0, 0, 0, 3, 2]).in_netns(&peer);
            netlink.create_veth(&VethEnd::new("b2").mac(mac), &there, 1).expect("a veth pair");
            netlink.set_up("b2").expect("it goes up");
            netlink.add_address("b2", "10.0.3.1/24".parse().expect("a prefix")).expect("added");
            let neighbour = "10.0.3.2".parse().expect("an address");
            netlink.add_neighbour("b2", neighbour, [2, 0, 0, 0, 3, 2]).expect("a neighbour");
            peer.run(|| {
                sysctl::write("net.ipv6.conf.all.disable_ipv6", "1").expect("a sysctl");
                Netlink::open().expect("netlink opens").set_up("p").expect("it goes up");
                ethtool::set_gro("p", true).expect("GRO");
            })
            .expect("the namespace is entered");
            let ifindex = netlink.ifindex("b2").expect("it exists");
            self.describe_interface(THIRD_SLOT, ifindex, mac);
            self.firewall.attach(ifindex, Mode::Native).expect("the program attaches");
            self.firewall.open_exit(THIRD_SLOT, ifindex).expect("an exit");
        };
        self.inside.run(add).expect("the namespace is entered");
        peer
    }

    /// Packets that came to an end at the box, one way or another.
    fn judged(&self) -> u64 {
        let dropped = |side| {
            ["match", "no-route"].map(|reason| self.dropped(side, IN, reason)).iter().sum::<u64>()
        };
        self.forwarded() + self.table_counter(table::PASSED_PACKETS) + dropped(0) + dropped(1)
    }

    fn wait_for_judged(&self, count: u64) {
        let begun = Instant::now();
        while self.judged() < count && begun.elapsed() < PATIENCE {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(self.judged(), count);
    }
}

/// Counts what arrives at a neighbour, and takes it.
fn arrivals(peer: &Netns) -> (DropCounter, Link) {
    let counter = DropCounter::load().expect("it loads");
    let attach = || {
        let ifindex = Netlink::open().unwrap().ifindex("p").unwrap();
        counter.attach(ifindex).expect("it attaches")
    };
    let link = peer.run(attach).expect("the namespace is entered");
    (counter, link)
}

/// Waits until so many packets have arrived, and fails if there are more.
fn wait_for_arrivals(arrived: &DropCounter, count: u64, what: &str) {
    let begun = Instant::now();
    while arrived.packets().expect("read") < count && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!(arrived.packets().expect("read"), count, "{what}");
}

/// Of each round: UDP that passes, UDP and ICMP that is blocked, and a SYN that passes, in turns,
/// so that each poll has some of all.
fn mixed(flows: std::ops::Range<u16>) -> Vec<Vec<u8>> {
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let mut frames = Vec::new();
    for flow in flows {
        let port = 1000 + flow;
        let syn = Segment { ports: (port, 80), sequence: 1, acknowledgement: 0, flags: 2 };
        frames.push(ends.tcp(&syn, b""));
        frames.push(ends.udp((port, 54), b"blocked"));
        frames.push(ends.udp((port, 53), b"passes"));
        frames.push(ends.echo(port));
    }
    frames
}

#[test]
fn nothing_blocked_leaves_beside_what_passes() {
    let Some(rig) = Rig::in_two_stages("mixed", RULES) else { return };
    let (arrived, _link) = rig.arrivals(1);
    const FLOWS: u16 = 48;
    const ROUNDS: u64 = 20;
    let frames = mixed(0..FLOWS);
    for round in 1..=ROUNDS {
        send(&rig.peers[0], &frames);
        rig.wait_for_judged(round * frames.len() as u64);
    }
    let passed = ROUNDS * u64::from(FLOWS) * 2;
    assert_eq!(rig.forwarded(), passed);
    assert_eq!(rig.dropped(0, IN, "match"), passed);
    assert_eq!(rig.table_counter(table::SEARCHES), 2 * passed, "each is looked for once");
    assert_eq!(rig.table_counter(table::STAGED_PACKETS), passed, "UDP, both kinds");
    assert!(rig.table_counter(table::STAGE_GROUPS) < passed, "several at a time");
    wait_for_arrivals(&arrived, passed, "and nothing else");
    assert_eq!(rig.firewall.arena().read64(control::STATE_COUNT), u64::from(FLOWS) * 2);
}

#[test]
fn each_of_three_ways_out_gets_its_packets_alone() {
    let Some(rig) = Rig::in_two_stages("three", RULES) else { return };
    let third = rig.add_third();
    // The first way leads back to where packets come from.
    let (back, right) = (rig.arrivals(0), rig.arrivals(1));
    let counters = [back, right, arrivals(&third)];
    const FLOWS: u16 = 24;
    const ROUNDS: u64 = 20;
    let mut frames = Vec::new();
    for flow in 0..FLOWS {
        for dst in ["10.0.2.2", "10.0.3.2", "10.0.1.2", "10.0.3.2"] {
            let ends = Ends::new("10.0.1.7", dst);
            frames.push(ends.udp((1000 + flow, 53), b"passes"));
            frames.push(ends.udp((1000 + flow, 54), b"blocked"));
        }
    }
    for round in 1..=ROUNDS {
        send(&rig.peers[0], &frames);
        rig.wait_for_judged(round * frames.len() as u64);
    }
    let of_one = ROUNDS * u64::from(FLOWS);
    assert_eq!(rig.forwarded(), of_one * 4);
    assert_eq!(rig.dropped(0, IN, "match"), of_one * 4);
    assert_eq!(rig.table_counter(table::STAGED_PACKETS), of_one * 8);
    assert_eq!(rig.table_counter(table::SEARCHES), of_one * 8, "each is looked for once");
    for ((counter, _link), ways) in counters.iter().zip([1, 1, 2]) {
        wait_for_arrivals(counter, of_one * ways, "what passes to this neighbour");
    }
}

#[test]
fn what_has_no_way_out_any_more_is_dropped_and_counted() {
    let Some(rig) = Rig::in_two_stages("no-exit", RULES) else { return };
    let (arrived, _link) = rig.arrivals(1);
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let frames: Vec<_> = (0..40).map(|flow| ends.udp((1000 + flow, 53), b"passes")).collect();
    send(&rig.peers[0], &frames);
    rig.wait_for_judged(40);
    rig.firewall.close_exit(SLOT[1]).expect("it was open");
    send(&rig.peers[0], &frames);
    rig.wait_for_judged(80);
    assert_eq!((rig.forwarded(), rig.dropped(0, IN, "no-route")), (40, 40));
    assert_eq!(rig.table_counter(table::STAGED_PACKETS), 40, "nothing of it is noted");
    let open = || rig.firewall.open_exit(SLOT[1], rig.ifindex[1]);
    rig.inside.run(open).expect("entered").expect("an exit");
    send(&rig.peers[0], &frames);
    rig.wait_for_judged(120);
    assert_eq!(rig.forwarded(), 80);
    assert_eq!(rig.table_counter(table::STAGED_PACKETS), 80);
    wait_for_arrivals(&arrived, 80, "what had a way out, alone");
}

#[test]
fn known_flows_go_both_ways() {
    let Some(rig) = Rig::in_two_stages("ways", RULES) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let there: Vec<_> = (0..100).map(|flow| ends.udp((1000 + flow, 53), b"asked")).collect();
    let back: Vec<_> = (0..100).map(|flow| ends.back().udp((53, 1000 + flow), b"told")).collect();
    send(&rig.peers[1], &back);
    rig.wait_for_judged(100);
    assert_eq!((rig.forwarded(), rig.dropped(1, IN, "match")), (0, 100), "nobody has asked");
    for round in 1..4 {
        send(&rig.peers[0], &there);
        rig.wait_for_judged(200 * round);
        send(&rig.peers[1], &back);
        rig.wait_for_judged(200 * round + 100);
    }
    assert_eq!(rig.forwarded(), 600);
    assert_eq!(rig.table_counter(table::INSERTS), 100);
}

#[test]
fn stages_change_under_load_and_nothing_leaks() {
    let Some(rig) = Rig::in_two_stages("flips", RULES) else { return };
    let (arrived, _link) = rig.arrivals(1);
    let frames = mixed(0..48);
    let is_done = AtomicBool::new(false);
    let (mut sent, mut flip_count) = (0, 0);
    std::thread::scope(|scope| {
        let flips = scope.spawn(|| {
            let mut count = 0_u32;
            while !is_done.load(Ordering::Relaxed) || count < 50 {
                let stages = if count.is_multiple_of(2) { Stages::One } else { Stages::Two };
                rig.set_stages(stages);
                if count.is_multiple_of(5) {
                    weir_fw::engine::renew_next_hops(&rig.firewall);
                }
                count += 1;
            }
            count
        });
        for round in 1..=200 {
            send(&rig.peers[0], &frames);
            sent = round * frames.len() as u64;
            rig.wait_for_judged(sent);
        }
        is_done.store(true, Ordering::Relaxed);
        flip_count = flips.join().expect("it flips");
    });
    assert!(flip_count >= 50, "{flip_count}");
    // Where routes changed meanwhile: dropped between the stages, or forwarded by the kernel.
    let lost = rig.dropped(0, IN, "no-route");
    let through = rig.forwarded() + rig.table_counter(table::PASSED_PACKETS);
    assert!(rig.dropped(0, IN, "match") + lost >= sent / 2, "all that is blocked was dropped");
    assert!(through <= sent / 2 && through + lost >= sent / 2, "{through} of {sent}, {lost} lost");
    wait_for_arrivals(&arrived, through, "what was let through, alone");
    let searches = rig.table_counter(table::SEARCHES);
    assert_eq!(searches + lost, sent, "each is looked for once, or lost before that");
    let staged = rig.table_counter(table::STAGED_PACKETS);
    assert!(staged > 0 && staged < sent / 2, "some were staged, and some were not: {staged}");
}

#[test]
fn what_others_write_before_a_frame_is_taken_away() {
    let Some(rig) = Rig::in_two_stages("foreign", RULES) else { return };
    let ends = Ends::new("10.0.1.2", "10.0.2.2");
    let receive = |metadata: &[u8], frame: &[u8]| {
        let run = || rig.firewall.run_ingress_behind(rig.ifindex[0], metadata, frame);
        rig.inside.run(run).expect("entered").expect("the program runs")
    };
    let foreign = [0x5a; 16];
    let syn = Segment { ports: (1000, 80), sequence: 1, acknowledgement: 0, flags: 2 };
    let syn = ends.tcp(&syn, b"");
    let judged = receive(&foreign, &syn);
    assert_eq!((judged.action, judged.frame.len()), (REDIRECT, syn.len()), "nothing before it");
    let udp = ends.udp((1000, 53), b"");
    for metadata in [&[][..], &foreign, &[0x5a; 32]] {
        let staged = receive(metadata, &udp);
        let note_bytes = stage_note::SIZE_BYTES as usize;
        assert_eq!((staged.action, staged.frame.len()), (REDIRECT, note_bytes + udp.len()));
        assert_eq!(staged.frame[note_bytes..], udp, "the frame as it came");
        let word = |at: u32| {
            let at = at as usize;
            u32::from_ne_bytes(staged.frame[at..at + 4].try_into().expect("four bytes"))
        };
        assert!(word(stage_note::HOME) < 1024, "a bucket");
        assert_eq!(word(stage_note::GENERATION), rig.firewall.arena().read32(control::GENERATION));
    }
    assert_eq!(rig.table_counter(table::SEARCHES), 1, "what is staged is not judged yet");
    rig.set_stages(Stages::One);
    let one = receive(&foreign, &udp);
    assert_eq!((one.action, one.frame.len()), (REDIRECT, foreign.len() + udp.len()), "left alone");
}

#[test]
fn what_only_the_kernel_can_do_is_not_staged() {
    let Some(rig) = Rig::in_two_stages("kernel", RULES) else { return };
    let plain = Ends::new("10.0.1.2", "10.0.2.2");
    let to_box = Ends::new("10.0.1.2", "10.0.1.1").udp((1000, 53), b"");
    let large = plain.udp((1001, 53), &[0; 1300]);
    let set_mtu = || {
        let netlink = Netlink::open().expect("netlink opens");
        netlink.set_mtu("b1", 1280).expect("an MTU");
        sysctl::write("net.ipv4.conf.all.rp_filter", "0").expect("a sysctl");
    };
    rig.inside.run(set_mtu).expect("entered");
    weir_fw::engine::renew_next_hops(&rig.firewall);
    for (frame, what) in [
        (&to_box, "for the box"),
        (&large, "over the MTU"),
        (&plain.clone().ttl(1).udp((1002, 53), b""), "at its end"),
        (&Ends::new("10.0.1.2", "10.0.9.9").udp((1003, 53), b""), "without a route"),
    ] {
        assert_eq!(rig.receive(0, frame).action, PASS, "{what}");
    }
    let martian = Ends::new("127.0.0.1", "10.0.2.2").udp((1004, 53), b"");
    rig.receive(0, &martian);
    assert_eq!(rig.forwarded(), 0);
    let small = plain.udp((1005, 53), b"");
    let note_bytes = stage_note::SIZE_BYTES as usize;
    assert_eq!(rig.receive(0, &small).frame.len(), note_bytes + small.len(), "but this is");
    assert_ne!(rig.receive(0, &martian).frame.len(), note_bytes + martian.len());
}

#[test]
fn a_ruleset_that_answers_is_judged_in_one_stage() {
    let Some(rig) = Rig::in_two_stages("answers", "block return\npass proto udp to port 53\n")
    else {
        return;
    };
    let frame = Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 53), b"");
    let judged = rig.receive(0, &frame);
    assert_eq!((judged.action, judged.frame.len()), (REDIRECT, frame.len()));
    assert_eq!(rig.forwarded(), 1);
}
