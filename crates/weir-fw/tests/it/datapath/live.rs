//! Frames and sockets on real interfaces.

use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use weir_bpf::firewall::layout::{self, control};
use weir_bpf::firewall::{self, Attachment, Firewall, Framing};
use weir_bpf::packet::{PacketRing, Path};
use weir_net::{Netlink, Netns};
use weir_oracle::bench::DropCounter;

use super::frames::Ends;
use super::rig::Rig;

/// Long enough for a busy machine; nothing waits for it to pass.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Sends frames out of a neighbour's interface, all of them at once.
pub(super) fn send(peer: &Netns, frames: &[Vec<u8>]) {
    peer.run(|| {
        let ifindex = Netlink::open().unwrap().ifindex("p").unwrap();
        let mut sender = PacketRing::open(ifindex, 200, Path::Direct).expect("a socket");
        for frame in frames {
            sender.frame(frame.len()).expect("there is room").copy_from_slice(frame);
            sender.push(frame.len());
        }
        let mut sent = 0;
        let begun = Instant::now();
        while sent < frames.len() as u64 && begun.elapsed() < PATIENCE {
            sent += sender.flush().expect("the socket sends").0;
        }
    })
    .unwrap();
}

#[test]
fn frames_cross_the_box_between_namespaces() {
    let Some(rig) = Rig::with_rules("live", "block all\npass proto udp to port 53 keep state\n")
    else {
        return;
    };
    let counters = [0, 1].map(|side| {
        let counter = DropCounter::load().expect("it loads");
        let link = rig.peers[side].run(|| {
            let ifindex = Netlink::open().unwrap().ifindex("p").unwrap();
            counter.attach(ifindex).expect("it attaches")
        });
        (counter, link.unwrap())
    });
    let send = |side: usize, frames: &[Vec<u8>]| send(&rig.peers[side], frames);
    let flows = [Ends::new("10.0.1.2", "10.0.2.2"), Ends::new("fd00:1::2", "fd00:2::2")];
    let asked: Vec<_> = flows.iter().map(|ends| ends.udp((1000, 53), b"asked")).collect();
    let blocked: Vec<_> = flows.iter().map(|ends| ends.udp((1000, 54), b"blocked")).collect();
    let answers: Vec<_> = flows.iter().map(|ends| ends.back().udp((53, 1000), b"answer")).collect();
    let wait = |forwarded: u64| {
        let begun = Instant::now();
        while rig.forwarded() < forwarded && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(rig.forwarded(), forwarded);
    };
    send(1, &answers);
    send(0, &blocked);
    for _ in 0..50 {
        send(0, &asked);
    }
    wait(100);
    send(1, &answers);
    wait(102);
    assert!(counters[1].0.packets().unwrap() >= 100, "they have arrived on the right");
    assert!(counters[0].0.packets().unwrap() >= 2, "and on the left");
    assert_eq!(rig.dropped(0, 0, "match"), 2, "what no rule passes");
    assert_eq!(rig.dropped(1, 0, "match"), 2, "answers that nobody has asked for yet");
}

#[test]
fn a_blocked_socket_of_the_box_is_told() {
    let Some(rig) = Rig::with_rules("told", "pass all\nblock return out proto { tcp udp }\n")
    else {
        return;
    };
    rig.inside
        .run(|| {
            for ifindex in rig.ifindex {
                rig.firewall
                    .attach_egress(ifindex, Framing::Ethernet)
                    .expect("the program attaches");
            }
            for (local, other) in
                [("10.0.2.1:0", "10.0.2.2:53"), ("[fd00:2::1]:0", "[fd00:2::2]:53")]
            {
                let socket = UdpSocket::bind(local).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket.connect(other).unwrap();
                socket.send(&[7; 700]).unwrap();
                let answer = socket.recv(&mut [0; 10]).unwrap_err();
                assert_eq!(answer.kind(), ErrorKind::ConnectionRefused, "{other}");
                let address = other.parse().unwrap();
                let refused = TcpStream::connect_timeout(&address, PATIENCE).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{other}");
            }
        })
        .unwrap();
}

#[test]
fn programs_are_removed_without_a_look_at_their_memory() {
    let Some(rig) = Rig::with_rules("remove", "pass\n") else { return };
    // As another version of weir, or a damage, would have left it.
    rig.firewall.arena().write32(control::VERSION, layout::LAYOUT_VERSION + 1);
    rig.firewall.arena().write32(control::MAGIC, 0);
    rig.inside
        .run(|| {
            let at = |ifindex| rig.firewall.attachment(ifindex).expect("it is there");
            rig.firewall.attach_egress(rig.ifindex[1], Framing::Ethernet).expect("it attaches");
            let both = Attachment { ingress: Some(firewall::Path::Native), egress: true };
            assert_eq!(at(rig.ifindex[1]), both);
            assert!(Firewall::remove(&rig.ifindex).expect("removed"));
            assert_eq!(rig.ifindex.map(at), [Attachment::default(); 2]);
            assert!(!Firewall::remove(&rig.ifindex).expect("nothing is left"));
        })
        .expect("the namespace is entered");
}

#[test]
fn one_program_goes_and_the_other_one_stays() {
    let Some(rig) = Rig::with_rules("apart", "pass\n") else { return };
    rig.inside
        .run(|| {
            let at = |ifindex| rig.firewall.attachment(ifindex).expect("it is there");
            let (ingress, egress) = (Some(firewall::Path::Native), true);
            for ifindex in rig.ifindex {
                rig.firewall.attach_egress(ifindex, Framing::Ethernet).expect("it attaches");
            }
            rig.firewall.detach_egress(rig.ifindex[0]).expect("detached");
            rig.firewall.detach_ingress(rig.ifindex[1]).expect("detached");
            let left =
                [Attachment { ingress, egress: false }, Attachment { ingress: None, egress }];
            assert_eq!(rig.ifindex.map(at), left);
            // What is not there need not go.
            rig.firewall.detach_egress(rig.ifindex[0]).expect("nothing to do");
            rig.firewall.detach_ingress(rig.ifindex[1]).expect("nothing to do");
            assert_eq!(rig.ifindex.map(at), left);
        })
        .expect("the namespace is entered");
}

#[test]
fn what_takes_the_place_of_xdp_is_attached_and_removed_as_well() {
    let Some(rig) = Rig::with_rules("place", "pass\n") else { return };
    rig.inside
        .run(|| {
            let ifindex = rig.ifindex[0];
            let at = |ifindex| rig.firewall.attachment(ifindex).expect("it is there");
            rig.firewall.detach_ingress(ifindex).expect("detached");
            for framing in [Framing::Ethernet, Framing::Bare] {
                rig.firewall.attach_entry(ifindex, framing).expect("it attaches");
                rig.firewall.attach_egress(ifindex, framing).expect("it attaches");
                let both = Attachment { ingress: Some(firewall::Path::Tcx), egress: true };
                assert_eq!(at(ifindex), both, "{framing:?}");
                assert_eq!(Firewall::filtered(&[ifindex]).expect("asked"), [ifindex]);
                rig.firewall.detach_ingress(ifindex).expect("detached");
                assert_eq!(at(ifindex), Attachment { ingress: None, egress: true });
                assert!(Firewall::remove(&[ifindex]).expect("removed"));
                assert_eq!(at(ifindex), Attachment::default());
            }
        })
        .expect("the namespace is entered");
}

#[test]
fn a_box_that_does_not_forward_lets_sources_be() {
    const DROP: i32 = 1;
    const PASS: i32 = 2;
    let rules = "pass\nblock in quick from urpf-failed\n";
    let Some(rig) = Rig::with_rules("urpf", rules) else { return };
    let action =
        |src: &str, port| rig.receive(0, &Ends::new(src, "10.0.1.1").udp((port, 53), b"")).action;
    assert_eq!((action("10.0.1.2", 1), action("10.0.2.2", 1)), (PASS, DROP));
    // The kernel then says of no route where it leads: all would be blocked.
    rig.inside
        .run(|| weir_net::sysctl::write("net.ipv4.ip_forward", "0").expect("a sysctl"))
        .expect("the namespace is entered");
    assert_eq!((action("10.0.1.2", 2), action("10.0.2.2", 2)), (PASS, PASS));
}
