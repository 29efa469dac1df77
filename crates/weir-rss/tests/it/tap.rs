//! A tap whose queues get what the table says.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use weir_net::Netlink;
use weir_net::address::Prefix;
use weir_oracle::netns::namespace;
use weir_rss::{Flow, Settings, Tap, TapError};
use weir_wire::rss::{Fields, FlowKind, Key, Symmetry};

const HERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const THERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), 7);

fn settings(table: &str, fields: Fields) -> Settings {
    Settings {
        key: Key::random(3, 40, 64).expect("a length that keys have").0,
        table: table.parse().expect("a table"),
        symmetry: Symmetry::None,
        fields: [fields; 4],
    }
}

/// The source ports of the datagrams that are read from each queue.
fn ports(tap: &Tap) -> Vec<Vec<u16>> {
    let mut frame = [0; 2048];
    let mut read = |mut queue: &std::fs::File| {
        let mut ports = Vec::new();
        while let Ok(bytes) = queue.read(&mut frame) {
            // IPv4 without options, UDP.
            if bytes > 42 && frame[12..15] == [8, 0, 0x45] && frame[23] == 17 {
                ports.push(u16::from_be_bytes([frame[34], frame[35]]));
            }
        }
        ports
    };
    tap.queues().iter().map(&mut read).collect()
}

fn send(range: std::ops::Range<u16>) {
    for port in range {
        let socket = UdpSocket::bind((HERE, port)).expect("a free port");
        socket.send_to(b"hello", THERE).expect("there is a route");
    }
}

#[test]
fn frames_are_read_from_the_queue_of_their_flow() {
    let Some(netns) = namespace("rss-tap") else { return };
    let first = settings("weights:1,0,2,1/32", Fields::FourTuple);
    let run = || {
        let tap = Tap::open("tap0", &first).expect("it opens");
        assert_eq!(tap.queues().len(), 4);
        let netlink = Netlink::open().expect("netlink");
        netlink.add_address("tap0", Prefix::new(HERE.into(), 24).expect("a prefix")).expect("set");
        netlink.set_up("tap0").expect("it goes up");
        netlink.add_neighbour("tap0", THERE.ip(), [2, 0, 0, 0, 0, 2]).expect("it is set");
        for (settings, range) in [
            (first.clone(), 3000..3200),
            (settings("weights:0,3,1/32", Fields::FourTuple), 4000..4200),
            (settings("equal:4/32", Fields::TwoTuple), 5000..5200),
        ] {
            tap.set(&settings).expect("it is set");
            send(range.clone());
            let found = ports(&tap);
            let steering = settings.steering(FlowKind::Udp4);
            for (queue, ports) in found.iter().enumerate() {
                for port in ports {
                    let (src, dst) = (HERE.into(), THERE.ip());
                    let flow = Flow { src, dst, src_port: *port, dst_port: THERE.port() };
                    let place = steering.place(steering.hash(flow));
                    assert_eq!(usize::from(place.queue), queue, "port {port}");
                }
            }
            assert_eq!(found.iter().map(Vec::len).sum::<usize>(), range.len());
            let used = found.iter().filter(|ports| !ports.is_empty()).count();
            assert_eq!(used == 1, settings.fields[0] == Fields::TwoTuple, "{found:?}");
        }
        let error = tap.set(&settings("equal:5/32", Fields::FourTuple)).expect_err("four queues");
        assert!(matches!(error, TapError::Queues { asked: 5, has: 4, .. }), "{error}");
        let error = Tap::open("lo", &first).expect_err("it is no tap").to_string();
        assert!(error.contains("cannot open a queue of the tap `lo`"), "{error}");
        let error = Tap::open("a-name-that-is-too-long", &first).expect_err("too long").to_string();
        assert!(error.contains("Invalid argument"), "{error}");
        let error = Tap::open("tap1", &settings("equal:257/512", Fields::FourTuple));
        assert!(matches!(error, Err(TapError::Queues { has: 256, .. })), "{error:?}");
    };
    netns.run(run).expect("it can be entered");
}
