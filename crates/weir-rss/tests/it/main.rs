//! Sockets that packets are steered to, behind a veth that receives as a card would.

#![forbid(unsafe_code)]

mod card;
mod tap;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use weir_bpf::ethtool;
use weir_bpf::rss::{Link, QueueMark, Receiver, Wire, WireSettings};
use weir_net::address::Prefix;
use weir_net::{CpuList, Netlink, NetnsGuard, VethEnd, cpu};
use weir_oracle::netns::namespace;
use weir_rss::group::queue_mark;
use weir_rss::{Each, Flow, GroupError, Options, Steer, open_tcp, open_udp};
use weir_wire::rss::{Fields, Key, Settings, Symmetry};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), 7777);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with `in` and a client with `out`, of four queues.
struct Bed {
    server: NetnsGuard,
    client: NetnsGuard,
    receiver: Receiver,
    _wire: (Wire, Link),
}

impl Bed {
    /// `None`, and it is said, without privileges.
    fn new(test: &str, table: &str) -> Option<Self> {
        let server = namespace(&format!("{test}-s"))?;
        let client = namespace(&format!("{test}-c"))?;
        let settings = Settings {
            key: Key::random(3, 40, 64).expect("a length that keys have").0,
            table: table.parse().expect("a table"),
            symmetry: Symmetry::None,
            fields: [Fields::FourTuple; 4],
        };
        let address = |last| Prefix::new([10, 9, 0, last].into(), 24).expect("a prefix");
        let ifindex = server.run(|| {
            let netlink = Netlink::open().expect("netlink");
            let ends = (VethEnd::new("in"), VethEnd::new("out").in_netns(&client));
            netlink.create_veth(&ends.0, &ends.1, 4).expect("a pair");
            netlink.add_address("in", address(1)).expect("an address");
            netlink.set_up("in").expect("it goes up");
            ethtool::set_gro("in", true).expect("GRO goes on");
            netlink.ifindex("in").expect("it is there")
        });
        let receiver =
            Receiver { netns: server.inode(), ifindex: ifindex.expect("it can be entered") };
        let wire = Wire::load(&settings, receiver).expect("it loads");
        let link = client.run(|| {
            let netlink = Netlink::open().expect("netlink");
            netlink.add_address("out", address(2)).expect("an address");
            netlink.set_up("out").expect("it goes up");
            ethtool::set_tso("out", false).expect("TSO goes off");
            wire.attach(netlink.ifindex("out").expect("it is there")).expect("it attaches")
        });
        let link = link.expect("it can be entered");
        Some(Self { server, client, receiver, _wire: (wire, link) })
    }

    fn at_server<R: Send>(&self, closure: impl FnOnce() -> R + Send) -> R {
        self.server.run(closure).expect("it can be entered")
    }

    fn at_client<R: Send>(&self, closure: impl FnOnce() -> R + Send) -> R {
        self.client.run(closure).expect("it can be entered")
    }

    fn options(&self, each: Each, steer: Steer) -> Options {
        let options =
            self.at_server(|| Options::of_interface("in", SERVER, each, steer)).expect("a wire");
        Options { receive_buffer_bytes: Some(1 << 20), ..options }
    }

    /// A datagram from each of these ports.
    fn send(&self, ports: std::ops::Range<u16>) {
        self.at_client(|| {
            for port in ports {
                let socket = UdpSocket::bind((CLIENT, port)).expect("a free port");
                socket.send_to(b"hello", SERVER).expect("there is a route");
            }
        });
    }
}

/// What has arrived at each socket: the ports that it came from; all, or what there is in time.
fn received(sockets: &[UdpSocket], count: usize) -> Vec<Vec<u16>> {
    let mut ports = vec![Vec::new(); sockets.len()];
    let deadline = Instant::now() + PATIENCE;
    while ports.iter().map(Vec::len).sum::<usize>() < count && Instant::now() < deadline {
        for (socket, ports) in sockets.iter().zip(&mut ports) {
            socket.set_nonblocking(true).expect("it can be set");
            while let Ok((_, peer)) = socket.recv_from(&mut [0; 64]) {
                ports.push(peer.port());
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    ports
}

fn peer(port: u16) -> SocketAddr {
    SocketAddr::new(CLIENT.into(), port)
}

#[test]
fn datagrams_are_at_the_socket_of_their_queue_or_bucket() {
    let Some(bed) = Bed::new("rss-udp", "weights:1,0,2,1/32") else { return };
    // An address of IPv6 that is none in particular is all of IPv4's, too.
    let all = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), SERVER.port());
    for (each, socket_count, address) in
        [(Each::Queue, 4, SERVER), (Each::Bucket, 32, SERVER), (Each::Queue, 4, all)]
    {
        let options = Options { address, ..bed.options(each, Steer::Hash) };
        let group = bed.at_server(|| open_udp(&options)).expect("they open");
        assert_eq!(group.sockets().len(), socket_count);
        bed.send(3000..3400);
        let (sockets, steering) = group.into_parts();
        let ports = received(&sockets, 400);
        assert_eq!(ports.iter().map(Vec::len).sum::<usize>(), 400);
        for (index, ports) in ports.iter().enumerate() {
            for port in ports {
                let place = steering.place_from(peer(*port), SERVER);
                let socket = steering.socket_of(place);
                assert_eq!(socket, Some(index), "{each:?}, {address}, port {port}");
            }
        }
        assert!(ports.iter().filter(|ports| !ports.is_empty()).count() > 2);
    }
}

#[test]
fn connections_are_at_the_socket_of_their_queue() {
    let Some(bed) = Bed::new("rss-tcp", "equal:4/64") else { return };
    let options = bed.options(Each::Queue, Steer::Hash);
    let group = bed.at_server(|| open_tcp(&options)).expect("they open");
    let connections: Vec<TcpStream> = bed.at_client(|| {
        let connect = |_| TcpStream::connect(SERVER).expect("somebody listens");
        (0..60).map(connect).collect()
    });
    let (listeners, steering) = group.into_parts();
    let accepted: Vec<Vec<SocketAddr>> = listeners.iter().map(accepted).collect();
    assert_eq!(accepted.iter().map(Vec::len).sum::<usize>(), connections.len());
    for (index, peers) in accepted.iter().enumerate() {
        for peer in peers {
            let place = steering.place_from(*peer, SERVER);
            assert_eq!(steering.socket_of(place), Some(index), "{peer}");
        }
    }
}

fn accepted(listener: &TcpListener) -> Vec<SocketAddr> {
    // Connections that a client has made wait here already.
    listener.set_nonblocking(true).expect("it can be set");
    std::iter::from_fn(|| listener.accept().ok()).map(|(_, peer)| peer).collect()
}

#[test]
fn a_group_follows_its_interface() {
    let Some(bed) = Bed::new("rss-follow", "equal:4/64") else { return };
    let options = bed.options(Each::Queue, Steer::Hash);
    let group = bed.at_server(|| open_udp(&options)).expect("they open");
    let (sockets, mut steering) = group.into_parts();
    assert!(!bed.at_server(|| steering.follow()).expect("it can be read"));
    let wire = WireSettings::find(bed.receiver).expect("root may look").expect("it is there");
    let set = |table: &str| {
        let old = wire.read().expect("it can be read");
        wire.write(&Settings { table: table.parse().expect("a table"), ..old }).expect("it is set");
    };
    set("weights:0,0,1,0/64");
    assert!(bed.at_server(|| steering.follow()).expect("it can be read"));
    bed.send(4000..4050);
    assert_eq!(received(&sockets, 50).iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 50, 0]);
    // A queue for which there is no socket: what was there before stays.
    set("equal:5/64");
    let error = bed.at_server(|| steering.follow()).expect_err("there are four sockets");
    assert!(matches!(error, GroupError::Outgrown { now: 5, has: 4, .. }), "{error}");
    assert_eq!(steering.settings().table.queue_count(), 3);
}

#[test]
fn queues_cpus_and_the_kernel_choose_sockets_too() {
    let Some(bed) = Bed::new("rss-steer", "weights:0,1,0,1/64") else { return };
    let mark = bed.at_server(|| queue_mark("in")).expect("it is there");
    assert_eq!(mark, QueueMark::Number);
    let every_cpu = vec![2; 1024];
    // What a veth's end is sent, the CPU that sends it receives.
    let last = cpu::online().expect("it has some").iter().max().expect("it has some");
    let pin = || cpu::pin_current_thread(&CpuList::new([last]).expect("one"));
    for (steer, allowed) in [
        (Steer::Queue(mark), &[1, 3][..]),
        (Steer::Cpu(every_cpu), &[2]),
        // A CPU behind the end of the list: the kernel chooses.
        (Steer::Cpu(vec![2]), if last > 0 { &[0, 1, 2, 3] } else { &[2] }),
        (Steer::Kernel, &[0, 1, 2, 3]),
    ] {
        let options = bed.options(Each::Queue, steer);
        let group = bed.at_server(|| open_udp(&options)).expect("they open");
        pin().expect("it stays there");
        bed.send(5000..5200);
        let (sockets, steering) = group.into_parts();
        let ports = received(&sockets, 200);
        for (index, ports) in ports.iter().enumerate() {
            assert_eq!(!ports.is_empty(), allowed.contains(&index), "{:?}", options.steer);
            for port in ports {
                let place = steering.place_from(peer(*port), SERVER);
                assert_eq!(steering.socket_of(place), None);
                if matches!(options.steer, Steer::Queue(_)) {
                    assert_eq!(usize::from(place.queue), index);
                }
            }
        }
    }
}

fn few() -> weir_wire::rss::Table {
    "equal:4/8".parse().expect("a table")
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let error = Options::of_interface("lo", SERVER, Each::Queue, Steer::Hash);
    let error = error.expect_err("loopback has none").to_string();
    assert!(error.contains("`lo` has no receive side scaling"), "{error}");
    let Some(bed) = Bed::new("rss-refuse", "equal:4/2048") else { return };
    let options = bed.options(Each::Bucket, Steer::Hash);
    let error = bed.at_server(|| open_udp(&options)).expect_err("too many").to_string();
    assert!(error.contains("one for each queue instead"), "{error}");
    let options = bed.options(Each::Bucket, Steer::Queue(QueueMark::Number));
    let options = Options { settings: Settings { table: few(), ..options.settings }, ..options };
    let error = bed.at_server(|| open_udp(&options)).expect_err("queues and buckets");
    assert!(matches!(error, GroupError::QueueOfBuckets), "{error}");
    let options = bed.options(Each::Queue, Steer::Kernel);
    let first = bed.at_server(|| (open_udp(&options), open_tcp(&options)));
    let first = (first.0.expect("they open"), first.1.expect("they open"));
    let error = bed.at_server(|| open_udp(&options)).expect_err("it is taken").to_string();
    assert!(error.contains("cannot bind it: Address already in use"), "{error}");
    let error = bed.at_server(|| open_tcp(&options)).expect_err("it is taken").to_string();
    assert!(error.contains("cannot bind it: Address already in use"), "{error}");
    drop(first);
    let elsewhere = Options { address: "192.0.2.1:7".parse().expect("an address"), ..options };
    let error = bed.at_server(|| open_udp(&elsewhere)).expect_err("not ours").to_string();
    assert!(error.contains("192.0.2.1:7: cannot bind it"), "{error}");
}

#[test]
fn a_frame_has_the_place_of_its_flow() {
    let Some(bed) = Bed::new("rss-frame", "equal:4/64") else { return };
    let options = bed.options(Each::Queue, Steer::Hash);
    let group = bed.at_server(|| open_udp(&options)).expect("they open");
    let steering = group.steering();
    // Ethernet, IPv4 without options, UDP from 10.9.0.2:4660 to 10.9.0.1:7777, no payload.
    let mut frame = vec![0; 42];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[17] = 28;
    frame[23] = 17;
    frame[26..34].copy_from_slice(&[10, 9, 0, 2, 10, 9, 0, 1]);
    frame[34..38].copy_from_slice(&[0x12, 0x34, 0x1e, 0x61]);
    frame[39] = 8;
    let flow = Flow { src: CLIENT.into(), dst: SERVER.ip(), src_port: 0x1234, dst_port: 7777 };
    assert_eq!(steering.place_of_frame(&frame), Some(steering.place(flow)));
    frame[23] = 6;
    assert_eq!(steering.place_of_frame(&frame), None, "it is no UDP");
    assert_eq!(steering.place_of_frame(&frame[..30]), None, "it is cut");
}
