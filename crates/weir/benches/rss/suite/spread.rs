//! Flows that are sent, against where they are predicted to arrive.

use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use weir_bpf::ethtool;
use weir_bpf::rss::{Arrival, Arrivals, QueueMark, Receiver, Wire};
use weir_gen::backend::{Backend as _, RunOptions};
use weir_gen::packet::PacketGenerator;
use weir_machine::cancel::Cancel;
use weir_net::private::PrivateNetns;
use weir_net::{Netlink, VethEnd, cpu};
use weir_rss::{Each, Options, Steer, open_udp};
use weir_wire::flow::{Flow, FlowSpace};
use weir_wire::mac::MacAddr;
use weir_wire::rss::{Fields, FlowKind, Key, Settings as Card, Symmetry};
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

use super::rows::{PLACED_V4, PLACED_V6};
use super::{Result, Samples, Settings, add, check};

/// Tables of all kinds: small, of no power of two, of usual and of large cards, uneven.
const TABLES: [&str; 6] = [
    "equal:4/4",
    "equal:3/48",
    "equal:4/128",
    "weights:1,0,2,5/512",
    "equal:4/2048",
    "equal:4/65536",
];
const QUEUE_COUNT: u32 = 4;
/// Slow enough for rings of 256 packets, whoever empties them.
const RATE: Rate = Rate::Pps(20_000.0);
const PATIENCE: Duration = Duration::from_secs(10);

/// A veth pair of four queues.
pub(crate) struct Bed {
    netns: PrivateNetns,
    out: u32,
    receiver: Receiver,
    cpu: u32,
}

impl Bed {
    pub(crate) fn new() -> Result<Self> {
        let netns = PrivateNetns::create()?;
        let (out, receiver) = netns.run(|| -> Result<(u32, Receiver)> {
            let netlink = Netlink::open()?;
            netlink.create_veth(&VethEnd::new("out"), &VethEnd::new("in"), QUEUE_COUNT)?;
            netlink.set_up("lo")?;
            netlink.set_up("in")?;
            netlink.set_up("out")?;
            ethtool::set_gro("in", true)?;
            ethtool::set_tso("out", false)?;
            let inode = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
            Ok((
                netlink.ifindex("out")?,
                Receiver { netns: inode, ifindex: netlink.ifindex("in")? },
            ))
        })??;
        Ok(Self { netns, out, receiver, cpu: u32::try_from(cpu::online()?.first())? })
    }

    /// A sample of each family: flows over all tables.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub(crate) fn measure(
        &self,
        settings: &Settings,
        cancel: &Cancel,
        samples: &mut Samples,
    ) -> Result<()> {
        let families = [
            (
                (PLACED_V4, FlowKind::Udp4),
                ("198.18.10.1:2000-198.18.10.100:2099", "198.19.10.1:53"),
                ("127.0.0.1:20000-127.0.0.100:20099", "127.0.0.1:7000"),
            ),
            (
                (PLACED_V6, FlowKind::Udp6),
                ("[2001:2::1]:2000-[2001:2::64]:2099", "[2001:2::ffff]:53"),
                ("[::1]:20000-[::1]:29999", "[::1]:7000"),
            ),
        ];
        for ((name, kind), (src, dst), (local, listener)) in families {
            if !settings.wants(name) {
                continue;
            }
            let (mut placed, mut all) = (0, 0);
            for (seed, table) in (1..).zip(TABLES) {
                check(cancel)?;
                let card = Card {
                    key: Key::random(seed, 40, 128)?.0,
                    table: table.parse()?,
                    symmetry: Symmetry::None,
                    fields: [Fields::FourTuple; 4],
                };
                let macs = [9, 1].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
                let spec = StreamSpec::new(macs[0], macs[1], src.parse()?, dst.parse()?);
                let seen = self.send(&card, &spec, settings.flow_count)?;
                let steering = card.steering(kind);
                let space = FlowSpace::new(spec.src, spec.dst)?;
                all += seen.len();
                placed += steering
                    .places(&space)
                    .zip(&seen)
                    .filter(|((_, place), arrival)| {
                        arrival.is_some_and(|one| {
                            (one.queue, one.hash) == (place.queue.into(), place.hash)
                        })
                    })
                    .count();
                let local = StreamSpec::new(macs[0], macs[1], local.parse()?, listener.parse()?);
                let space = FlowSpace::new(local.src, local.dst)?;
                let places = steering.places(&space).take(settings.flow_count as usize);
                let places: Vec<_> = places.map(|(flow, place)| (flow, place.queue)).collect();
                all += places.len();
                let options = Options {
                    address: listener.parse()?,
                    settings: card,
                    interface: None,
                    each: Each::Queue,
                    steer: Steer::Hash,
                    receive_buffer_bytes: Some(1 << 20),
                };
                placed += self.netns.run(|| at_their_sockets(&options, &places))??;
            }
            add(samples, name, placed as f64 / all.max(1) as f64);
        }
        Ok(())
    }

    /// Queues that frames of the first flows came in on, and the hash of each.
    fn send(
        &self,
        card: &Card,
        spec: &StreamSpec,
        flow_count: u32,
    ) -> Result<Vec<Option<Arrival>>> {
        let wire = Wire::load(card, self.receiver)?;
        let arrivals = Arrivals::load(flow_count, QueueMark::Number)?;
        self.netns.run(|| -> Result<Vec<Option<Arrival>>> {
            let _links = (wire.attach(self.out)?, arrivals.attach(self.receiver.ifindex)?);
            let traffic = Traffic::one(spec.clone())?;
            let mut sender = PacketGenerator::through_stack(&traffic, self.out, &[self.cpu])?;
            sender.start(RunOptions {
                rate: RATE,
                ramp: Duration::ZERO,
                packet_limit: Some(flow_count.into()),
                first_sequence: 0,
                timestamps: false,
            })?;
            sender.wait()?;
            let deadline = Instant::now() + PATIENCE;
            loop {
                let seen = arrivals.read()?;
                if seen.iter().all(Option::is_some) || Instant::now() > deadline {
                    return Ok(seen);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        })?
    }
}

/// Flows whose datagram came to the socket of their queue, of all of them, sent one after the other
/// from a socket of each.
fn at_their_sockets<A: Into<IpAddr> + Copy>(
    options: &Options,
    flows: &[(Flow<A>, u16)],
) -> Result<usize> {
    let (sockets, _steering) = open_udp(options)?.into_parts();
    for socket in &sockets {
        socket.set_nonblocking(true)?;
    }
    let mut placed = 0;
    for (flow, queue) in flows {
        let sender = UdpSocket::bind((flow.src.into(), flow.src_port))?;
        sender.send_to(b"here", options.address)?;
        let has_read = |index: &usize| sockets[*index].recv_from(&mut [0; 16]).is_ok();
        let read = (0..sockets.len()).filter(has_read);
        placed += usize::from(read.eq([usize::from(*queue)]));
    }
    Ok(placed)
}
