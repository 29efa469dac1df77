//! Sockets that share an address, one for each bucket or queue, and the program that steers to
//! them.
//!
//! The kernel keeps the program until the last socket of the group is closed. Closing a single one
//! leaves its buckets to the kernel's choice among the others.
//!
//! Source: socket(7), options `SO_REUSEPORT` and `SO_ATTACH_REUSEPORT_EBPF`.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
    sockopt,
};
use weir_bpf::ethtool::{self, EthtoolError};
use weir_bpf::rss::QueueMark;
use weir_bpf::steer::{self, SocketSteering, SteerError};
use weir_wire::ethernet::{self, EtherType};
use weir_wire::flow::Flow;
use weir_wire::rss::steering::Place;
use weir_wire::rss::table::TableError;
use weir_wire::rss::{FlowKind, Settings, Table};
use weir_wire::{ipv4, ipv6};

use crate::card::{self, CardError};

/// Most sockets of a group.
pub const SOCKET_COUNT_MAX: usize = 1024;

/// What there is a socket for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Each {
    /// Each receive queue that the table names.
    #[default]
    Queue,
    /// Each bucket of the table.
    Bucket,
}

/// How the kernel chooses the socket of a packet, or for TCP of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steer {
    /// By the Toeplitz hash of its flow, computed anew, with the interface's key and table.
    Hash,
    /// By the receive queue that it came in on, modulo the number of sockets.
    Queue(QueueMark),
    /// By the CPU that received it: the socket of each CPU, that of CPU 0 first.
    Cpu(Vec<u16>),
    /// By a hash of the kernel's own, which knows of no queues.
    Kernel,
}

/// What a group is opened for.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address that all sockets share.
    pub address: SocketAddr,
    /// How the interface spreads packets.
    pub settings: Settings,
    /// The interface whose settings these are, to follow them; `None`: they stay.
    pub interface: Option<String>,
    /// What there is a socket for.
    pub each: Each,
    /// How its socket is chosen.
    pub steer: Steer,
    /// Bytes of each socket's receive buffer, as far as privileges go; `None`: the kernel decides.
    pub receive_buffer_bytes: Option<usize>,
}

impl Options {
    /// For the packets that an interface receives, by what it says of itself now.
    ///
    /// # Errors
    /// [`CardError`] if it has no receive side scaling, or one that cannot be computed with.
    pub fn of_interface(
        interface: &str,
        address: SocketAddr,
        each: Each,
        steer: Steer,
    ) -> Result<Self, CardError> {
        settings(interface, address, false)?;
        let settings = settings(interface, address, true)?;
        let interface = Some(interface.to_owned());
        Ok(Self { address, settings, interface, each, steer, receive_buffer_bytes: None })
    }
}

/// What an interface says now of how it spreads UDP or TCP packets to an address, of which only the
/// family counts.
///
/// # Errors
/// [`CardError`] if it has no receive side scaling, or one that cannot be computed with.
pub fn settings(interface: &str, address: SocketAddr, is_udp: bool) -> Result<Settings, CardError> {
    card::open(interface)?.read()?.settings(interface, FlowKind::of(is_udp, address.is_ipv6()))
}

/// How the packets that come in by an interface have their queue written in them, for
/// [`Steer::Queue`].
///
/// # Errors
/// [`EthtoolError`] if there is no such interface.
pub fn queue_mark(interface: &str) -> Result<QueueMark, EthtoolError> {
    Ok(QueueMark::of_driver(&ethtool::driver(interface)?))
}

/// Why sockets are not opened, or no longer steered to as the interface spreads packets.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// More sockets than a group may have.
    #[error("{count} sockets are more than {SOCKET_COUNT_MAX}: {}", fewer(*each))]
    TooMany { count: usize, each: Each },
    /// Sockets of buckets, of which the queue of a packet says nothing.
    #[error(
        "a queue has several buckets, so that it does not say the socket of each: steer by the \
         hash, or open a socket for each queue"
    )]
    QueueOfBuckets,
    /// A socket cannot be opened.
    #[error("cannot open a socket at {address}: cannot {step}: {source}")]
    Open { address: SocketAddr, step: &'static str, source: io::Error },
    /// The kernel takes no program for them.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The interface cannot be read.
    #[error(transparent)]
    Card(#[from] CardError),
    /// The table cannot be one of sockets.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The interface has changed so that there are not the sockets for it.
    #[error(
        "interface `{interface}` now has {now} {what}, and {has} sockets were opened: open them \
         anew"
    )]
    Outgrown { interface: String, what: &'static str, now: usize, has: usize },
}

const fn fewer(each: Each) -> &'static str {
    match each {
        Each::Queue => "give a table that names fewer queues",
        Each::Bucket => "open one for each queue instead of each bucket",
    }
}

/// The sockets, in the order of their queues or buckets, and what steers to them.
#[derive(Debug)]
pub struct Group<S> {
    sockets: Vec<S>,
    steering: Steering,
}

impl<S> Group<S> {
    /// The sockets, in the order of their queues or buckets.
    #[must_use]
    pub fn sockets(&self) -> &[S] {
        &self.sockets
    }

    /// What steers to them.
    #[must_use]
    pub const fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Both, so that each socket can go to a thread.
    #[must_use]
    pub fn into_parts(self) -> (Vec<S>, Steering) {
        (self.sockets, self.steering)
    }
}

/// What is known of a group's steering.
#[derive(Debug)]
pub struct Steering {
    program: Option<SocketSteering>,
    options: Options,
    socket_count: usize,
    is_udp: bool,
    /// By kind of flow, in the order of [`FlowKind::ALL`].
    hashes: [weir_wire::rss::Steering; 4],
}

impl Steering {
    /// The settings that are followed.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.options.settings
    }

    /// The bucket and the queue of a flow's packets, by the settings.
    #[must_use]
    pub fn place(&self, flow: Flow<IpAddr>) -> Place {
        let kind = FlowKind::of(self.is_udp, flow.src.is_ipv6());
        let steering = &self.hashes[kind as usize];
        steering.place(steering.hash(flow))
    }

    /// The same of what a peer sends to a local address.
    #[must_use]
    pub fn place_from(&self, peer: SocketAddr, local: SocketAddr) -> Place {
        let [peer_ip, local_ip] = [peer, local].map(|address| address.ip().to_canonical());
        self.place(Flow {
            src: peer_ip,
            dst: local_ip,
            src_port: peer.port(),
            dst_port: local.port(),
        })
    }

    /// The same of a packet: an Ethernet frame. `None` if it is not whole, or not of the group's
    /// protocol; also with a VLAN tag, if it is a fragment, or has IPv6 extension headers.
    #[must_use]
    pub fn place_of_frame(&self, frame: &[u8]) -> Option<Place> {
        flow_of(frame, self.is_udp).map(|flow| self.place(flow))
    }

    /// The number of the socket that a place's packets are steered to, if that is by their hash.
    #[must_use]
    pub fn socket_of(&self, place: Place) -> Option<usize> {
        (self.options.steer == Steer::Hash).then(|| match self.options.each {
            Each::Queue => usize::from(place.queue),
            Each::Bucket => place.bucket,
        })
    }

    /// Reads the interface's settings anew, and goes by them if they have changed; says whether
    /// they have. Packets of flows that move may change places.
    ///
    /// # Errors
    /// [`GroupError`] if they cannot be read, or there are not the sockets for them: the group
    /// goes by the former ones then.
    pub fn follow(&mut self) -> Result<bool, GroupError> {
        let Some(new) = self.changed()? else { return Ok(false) };
        self.go_by(new)?;
        Ok(true)
    }

    /// The interface's settings, if they are others than those that are followed, which stay:
    /// [`Steering::go_by`] has them followed.
    ///
    /// # Errors
    /// As [`Steering::follow`].
    pub fn changed(&self) -> Result<Option<Settings>, GroupError> {
        let Some(interface) = &self.options.interface else { return Ok(None) };
        let new = settings(interface, self.options.address, self.is_udp)?;
        if new == self.options.settings {
            return Ok(None);
        }
        self.check(interface, &new)?;
        Ok(Some(new))
    }

    /// Whether there are the sockets for these settings.
    fn check(&self, interface: &str, new: &Settings) -> Result<(), GroupError> {
        let (what, now) = match self.options.each {
            Each::Queue => ("queues in its table", new.table.queue_count()),
            Each::Bucket => ("buckets", new.table.bucket_count()),
        };
        let has = self.socket_count;
        let fits = if self.options.each == Each::Queue { now <= has } else { now == has };
        if !fits {
            let interface = interface.to_owned();
            return Err(GroupError::Outgrown { interface, what, now, has });
        }
        Ok(())
    }

    /// Goes by settings that [`Steering::changed`] has returned.
    ///
    /// # Errors
    /// [`GroupError`] if the kernel refuses.
    pub fn go_by(&mut self, new: Settings) -> Result<(), GroupError> {
        if let (Some(program), Steer::Hash) = (&self.program, &self.options.steer) {
            program.set(&of_sockets(&new, self.options.each)?).map_err(SteerError::from)?;
        }
        self.hashes = hashes(&new);
        self.options.settings = new;
        Ok(())
    }
}

fn hashes(settings: &Settings) -> [weir_wire::rss::Steering; 4] {
    FlowKind::ALL.map(|kind| settings.steering(kind))
}

/// The settings with a table of sockets: one for each queue, or each bucket.
///
/// # Errors
///
/// If there are more buckets than a table has room for.
pub fn of_sockets(settings: &Settings, each: Each) -> Result<Settings, TableError> {
    let table = match each {
        Each::Queue => settings.table.clone(),
        Each::Bucket => {
            let count = u16::try_from(settings.table.bucket_count()).unwrap_or(u16::MAX);
            Table::new((0..count).collect())?
        }
    };
    Ok(Settings { table, ..settings.clone() })
}

/// The flow of a frame, if it carries UDP or TCP as asked for.
fn flow_of(frame: &[u8], is_udp: bool) -> Option<Flow<IpAddr>> {
    let frame = ethernet::Packet::new_checked(frame).ok()?;
    let protocol = if is_udp { 17 } else { 6 };
    match frame.ethertype() {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
            let is_whole = !packet.more_fragments() && packet.fragment_offset_bytes() == 0;
            let has_ports = packet.protocol() == protocol && is_whole;
            with_ports(has_ports, [packet.src().into(), packet.dst().into()], packet.payload())
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new_checked(frame.payload()).ok()?;
            let has_ports = packet.next_header() == protocol;
            with_ports(has_ports, [packet.src().into(), packet.dst().into()], packet.payload())
        }
        _ => None,
    }
}

fn with_ports(has_ports: bool, [src, dst]: [IpAddr; 2], message: &[u8]) -> Option<Flow<IpAddr>> {
    let port = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    let (src_port, dst_port) = (port(0)?, port(2)?);
    has_ports.then_some(Flow { src, dst, src_port, dst_port })
}

/// Opens UDP sockets.
///
/// # Errors
/// [`GroupError`] if the address is taken, or the kernel refuses; nothing stays open then.
pub fn open_udp(options: &Options) -> Result<Group<UdpSocket>, GroupError> {
    let (sockets, steering) = open(options, true)?;
    Ok(Group { sockets: sockets.into_iter().map(UdpSocket::from).collect(), steering })
}

/// Opens listening TCP sockets.
///
/// # Errors
/// As [`open_udp`].
pub fn open_tcp(options: &Options) -> Result<Group<TcpListener>, GroupError> {
    let (sockets, steering) = open(options, false)?;
    Ok(Group { sockets: sockets.into_iter().map(TcpListener::from).collect(), steering })
}

fn open(options: &Options, is_udp: bool) -> Result<(Vec<OwnedFd>, Steering), GroupError> {
    let count = match options.each {
        Each::Queue => options.settings.table.queue_count(),
        Each::Bucket => options.settings.table.bucket_count(),
    };
    if count > SOCKET_COUNT_MAX {
        return Err(GroupError::TooMany { count, each: options.each });
    }
    if options.each == Each::Bucket && matches!(options.steer, Steer::Queue(_)) {
        return Err(GroupError::QueueOfBuckets);
    }
    if options.address.port() != 0 {
        // Another group of the same user's would share the address: here it is in the way.
        drop(open_one(options, is_udp, false)?);
    }
    // In their order, from one thread: it is the order of their places.
    let mut options = options.clone();
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = open_one(&options, is_udp, true)?;
        if options.address.port() == 0 {
            // The others share the port that the kernel has chosen for the first.
            options.address = local_address(&socket, options.address)?;
        }
        sockets.push(socket);
    }
    let program = steer(&options, &sockets)?;
    let hashes = hashes(&options.settings);
    let socket_count = sockets.len();
    Ok((sockets, Steering { program, options, socket_count, is_udp, hashes }))
}

/// A socket that shares its address with others, or is bound and no more if nobody has it.
fn open_one(options: &Options, is_udp: bool, shares: bool) -> Result<OwnedFd, GroupError> {
    let address = options.address;
    let failed =
        |step| move |error: nix::Error| GroupError::Open { address, step, source: error.into() };
    let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let kind = if is_udp { SockType::Datagram } else { SockType::Stream };
    let fd = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).map_err(failed("make it"))?;
    if !is_udp {
        setsockopt(&fd, sockopt::ReuseAddr, &true).map_err(failed("set SO_REUSEADDR"))?;
    }
    if shares {
        setsockopt(&fd, sockopt::ReusePort, &true).map_err(failed("set SO_REUSEPORT"))?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        // Without privileges the kernel's limit holds.
        setsockopt(&fd, sockopt::RcvBufForce, &bytes)
            .or_else(|_| setsockopt(&fd, sockopt::RcvBuf, &bytes))
            .map_err(failed("set its receive buffer"))?;
    }
    let at = SockaddrStorage::from(address);
    bind(fd.as_raw_fd(), &at).map_err(failed("bind it"))?;
    if !is_udp && shares {
        listen(&fd, Backlog::MAXCONN).map_err(failed("listen"))?;
    }
    Ok(fd)
}

fn local_address(socket: &OwnedFd, address: SocketAddr) -> Result<SocketAddr, GroupError> {
    let failed = |source| GroupError::Open { address, step: "read its address", source };
    // A standard socket of either protocol can say it; this one is a duplicate.
    let copy = socket.try_clone().map_err(failed)?;
    UdpSocket::from(copy).local_addr().map_err(failed)
}

fn steer(options: &Options, sockets: &[OwnedFd]) -> Result<Option<SocketSteering>, GroupError> {
    let Some(first) = sockets.first() else { return Ok(None) };
    let count = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
    let program = match &options.steer {
        Steer::Kernel => return Ok(None),
        Steer::Queue(mark) => {
            steer::attach_by_queue(first.as_fd(), count, *mark)?;
            return Ok(None);
        }
        Steer::Cpu(places) => SocketSteering::by_cpu(places.clone(), count)?,
        Steer::Hash => {
            SocketSteering::by_bucket(&of_sockets(&options.settings, options.each)?, count)?
        }
    };
    for (place, socket) in (0..).zip(sockets) {
        program.add(place, socket.as_fd())?;
    }
    program.attach(first.as_fd())?;
    Ok(Some(program))
}
