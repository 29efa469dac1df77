//! Looks at a path before anything is sent over it, and refuses one that would lose everything
//! silently: the kernel does not say when a redirected frame is lost.
//!
//! It never changes a setting. What it refuses it says how to mend; what it cannot see (the far end
//! of a veth in another network namespace) it says too, and [`check_accepted`] looks at what became
//! of the first packets. Everything is looked up in the calling thread's network namespace.

use std::io;

use weir_bpf::ethtool::{self, EthtoolError};
use weir_net::{LinkInfo, Netlink, NetlinkError, OperState, napi, xdp};

/// Drivers that transmit redirected frames only while an XDP program is attached to the interface
/// itself, because that is when they set up the queues for it.
const NEED_PROGRAM: [&str; 13] = [
    "bnxt_en",
    "ena",
    "gve",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "mlx5_core",
    "octeontx2",
    "rvu_nicpf",
    "stmmac",
    "bonding",
];

/// Drivers of interfaces without a line: what they give as their speed limits nothing.
const VIRTUAL: [&str; 7] = ["veth", "tun", "bridge", "dummy", "macvlan", "ipvlan", "virtio_net"];

/// Ethernet header, which the MTU does not count.
const HEADER_BYTES: u32 = 14;

/// One VLAN tag.
const TAG_BYTES: u32 = 4;

/// Why nothing should be sent over an interface.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// There is no such interface, or the kernel does not say what it is.
    #[error("{0}; `ip link` lists the interfaces")]
    Link(#[from] NetlinkError),
    /// The driver does not answer.
    #[error(transparent)]
    Ethtool(#[from] EthtoolError),
    /// The kernel does not say what the interface can do.
    #[error("cannot find out what interface `{interface}` can do with XDP frames: {source}")]
    Features {
        interface: String,
        /// What the kernel returned.
        source: io::Error,
    },
    /// The interface is the loopback.
    #[error(
        "interface `{0}` is the loopback interface: packets sent there would come back to this \
         host; choose an interface that leads to the device under test"
    )]
    Loopback(String),
    /// The interface is down.
    #[error("interface `{0}` is down: `ip link set {0} up`")]
    Down(String),
    /// The interface is up, but has no carrier.
    #[error("interface `{0}` has no carrier: {1}")]
    NoCarrier(String, &'static str),
    /// The frames do not fit the interface's MTU.
    #[error(
        "frames of {size_bytes} bytes do not fit interface `{interface}`, whose MTU of {mtu} bytes \
         makes frames of at most {size_bytes_max} bytes, without FCS: choose a smaller size, or \
         `ip link set {interface} mtu {mtu_needed}` (and at the far end)"
    )]
    Mtu {
        interface: String,
        /// What is to be sent.
        size_bytes: u16,
        mtu: u32,
        /// What the MTU allows.
        size_bytes_max: u32,
        /// What would be needed.
        mtu_needed: u32,
    },
    /// There are more threads than queues.
    #[error(
        "{threads} threads need as many transmit queues, but interface `{interface}` has {queues}: \
         each thread fills its own queue. Use {queues} threads, or give it more queues \
         ({advice})"
    )]
    Queues {
        interface: String,
        /// How many threads are to send.
        threads: usize,
        /// How many queues there are.
        queues: u32,
        /// How to get more.
        advice: String,
    },
    /// The far end of a veth has neither XDP nor GRO.
    #[error(
        "everything sent to interface `{interface}` would be lost silently, because the far end of \
         this veth pair ({peer}) takes XDP frames only with an XDP program or GRO: \
         `ethtool -K {peer_name} gro on` there, or attach a program there, or use \
         `--backend packet`"
    )]
    PeerNotReady {
        interface: String,
        /// The far end, with where it is.
        peer: String,
        /// Its name, or a placeholder.
        peer_name: String,
    },
    /// The driver needs a program attached first.
    #[error(
        "everything sent to interface `{interface}` would be lost silently, because its driver \
         {driver} transmits XDP frames only while an XDP program is attached to it: attach one \
         that passes everything (`xdp-loader load -m native {interface} PROGRAM`), or use \
         `--backend packet`"
    )]
    NeedsProgram { interface: String, driver: String },
    /// The driver does not transmit XDP frames.
    #[error(
        "everything sent to interface `{interface}` would be lost silently, because its driver \
         {driver} does not transmit XDP frames: use `--backend packet`"
    )]
    NoTransmit { interface: String, driver: String },
    /// Nothing of what was offered was accepted.
    #[error(
        "interface `{interface}` accepted none of the first {offered} packets ({counter} did not \
         move): {advice}"
    )]
    AllLost {
        interface: String,
        /// How many were offered.
        offered: u64,
        /// The counter that did not move.
        counter: &'static str,
        /// What to do.
        advice: String,
    },
}

/// An interface that can be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// What the kernel says of it.
    pub link: LinkInfo,
    /// Its driver; empty if it has none that says its name.
    pub driver: String,
    /// Transmit queues that are in use.
    pub queue_count: u32,
    /// Speed of the line in bits per second; `None` without a line, or if it is not known.
    pub line_bps: Option<u64>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Path {
    fn name(&self) -> &str {
        &self.link.name
    }

    fn is_veth(&self) -> bool {
        self.driver == "veth"
    }
}

/// Looks at what every backend needs: an interface that exists, is up, is not the loopback, and
/// takes frames of this size, with a VLAN tag or without.
///
/// # Errors
/// [`PreflightError`] says what is in the way, and what to do.
pub fn interface(name: &str, size_bytes: u16, tagged: bool) -> Result<Path, PreflightError> {
    let link = Netlink::open()?.link(name)?;
    let owned = || name.to_owned();
    if link.is_loopback {
        return Err(PreflightError::Loopback(owned()));
    }
    if !link.is_up {
        return Err(PreflightError::Down(owned()));
    }
    match link.operstate {
        OperState::Up | OperState::Unknown | OperState::Testing | OperState::Dormant => {}
        OperState::LowerLayerDown => {
            let advice = "its other end is down: set that up";
            return Err(PreflightError::NoCarrier(owned(), advice));
        }
        OperState::Down | OperState::NotPresent => {
            return Err(PreflightError::NoCarrier(owned(), "is the cable in, the far end up?"));
        }
    }
    let size_bytes_max = frame_bytes_max(link.mtu, tagged);
    if u32::from(size_bytes) > size_bytes_max {
        return Err(PreflightError::Mtu {
            interface: owned(),
            size_bytes,
            mtu: link.mtu,
            size_bytes_max,
            mtu_needed: link.mtu + u32::from(size_bytes) - size_bytes_max,
        });
    }
    let driver = ethtool::driver(name).unwrap_or_default();
    let channels = ethtool::channels(name)?;
    let queue_count = channels.map_or(link.tx_queue_count, |channels| channels.tx_count);
    let speed = if is_virtual(&driver) { None } else { ethtool::speed_mbps(name)? };
    let line_bps = speed.map(|mbps| u64::from(mbps) * 1_000_000);
    Ok(Path { link, driver, queue_count: queue_count.max(1), line_bps, notes: Vec::new() })
}

/// The largest frame of an interface, bytes without FCS: the MTU does not count the link header,
/// nor the first VLAN tag if there is one.
pub(crate) fn frame_bytes_max(mtu: u32, tagged: bool) -> u32 {
    mtu + HEADER_BYTES + if tagged { TAG_BYTES } else { 0 }
}

/// Looks at what live frames need beyond [`interface`], for a thread on each of `cpus`.
///
/// # Errors
/// [`PreflightError`] says what is in the way, and what to do.
pub fn live(path: &mut Path, cpus: &[u32]) -> Result<(), PreflightError> {
    queues(path, cpus.len())?;
    let takes = xdp::takes_redirected(path.link.ifindex)
        .map_err(|source| PreflightError::Features { interface: path.name().to_owned(), source })?;
    if path.is_veth() {
        return far_end(path, cpus, takes);
    }
    let needs_program = NEED_PROGRAM.contains(&path.driver.as_str()) && !path.link.has_xdp;
    let (interface, driver) = (path.name().to_owned(), path.driver.clone());
    match takes {
        Some(true) => Ok(()),
        _ if needs_program => Err(PreflightError::NeedsProgram { interface, driver }),
        Some(false) => Err(PreflightError::NoTransmit { interface, driver }),
        None => {
            path.notes.push(format!(
                "this kernel does not say whether driver {driver} transmits XDP frames; the first \
                 packets will show it"
            ));
            Ok(())
        }
    }
}

/// Refuses more threads than there are transmit queues.
///
/// # Errors
/// [`PreflightError::Queues`] if so.
pub fn queues(path: &Path, threads: usize) -> Result<(), PreflightError> {
    if threads <= path.queue_count as usize {
        return Ok(());
    }
    let interface = path.name().to_owned();
    let advice = if path.is_veth() {
        format!("`ip link add … numtxqueues {threads} numrxqueues {threads}` at both ends")
    } else {
        format!("`ethtool -L {interface} combined {threads}`")
    };
    Err(PreflightError::Queues { interface, threads, queues: path.queue_count, advice })
}

/// The far end of a veth pair: whether it takes frames, and on which CPU it does so.
fn far_end(path: &mut Path, cpus: &[u32], takes: Option<bool>) -> Result<(), PreflightError> {
    let name = path.name().to_owned();
    if path.link.peer_is_elsewhere {
        if takes == Some(false) {
            return Err(PreflightError::PeerNotReady {
                interface: name,
                peer: "in another network namespace".to_owned(),
                peer_name: "PEER".to_owned(),
            });
        }
        let unseen = if takes.is_none() { "whether it takes XDP frames, and " } else { "" };
        path.notes.push(format!(
            "the far end of `{name}` is in another network namespace: {unseen}whether its NAPI is \
             threaded cannot be seen from here (if it is not, receiving runs on the sending CPU)"
        ));
        return Ok(());
    }
    let links = Netlink::open()?.links()?;
    let Some(peer) = links.iter().find(|link| Some(link.ifindex) == path.link.peer_ifindex) else {
        return Ok(());
    };
    if !peer.has_xdp && !ethtool::gro(&peer.name)? {
        return Err(PreflightError::PeerNotReady {
            interface: name,
            peer: format!("`{}`", peer.name),
            peer_name: peer.name.clone(),
        });
    }
    path.notes.push(receiving_cpus(&peer.name, cpus));
    let queues = ethtool::channels(&peer.name)?.map_or(1, |channels| channels.rx_count);
    path.notes.extend(shared_queue(&peer.name, cpus, queues));
    Ok(())
}

/// A veth hands a frame to the receive queue that its sending CPU's number is modulo their number:
/// says so if two threads meet there.
fn shared_queue(peer: &str, cpus: &[u32], queue_count: u32) -> Option<String> {
    let queue = |cpu: &u32| cpu % queue_count.max(1);
    let twice = |(index, cpu): (usize, &u32)| {
        cpus[..index].iter().find(|other| queue(other) == queue(cpu)).map(|other| (*other, *cpu))
    };
    let (first, second) = cpus.iter().enumerate().find_map(twice)?;
    Some(format!(
        "CPUs {first} and {second} send to the same receive queue of `{peer}`, number {} of \
         {queue_count}: choose CPUs whose numbers differ modulo {queue_count}, or give both ends \
         more queues",
        queue(&first)
    ))
}

/// Where the far end receives.
fn receiving_cpus(peer: &str, cpus: &[u32]) -> String {
    let sending: Vec<String> = cpus.iter().map(u32::to_string).collect();
    if !napi::is_threaded(peer).unwrap_or(false) {
        return format!(
            "`{peer}` receives on the sending CPU ({}), because its NAPI is not threaded: \
             `echo 1 > /sys/class/net/{peer}/threaded` moves it to its own threads",
            sending.join(",")
        );
    }
    let places: Vec<String> = napi::threads(peer)
        .unwrap_or_default()
        .iter()
        .filter_map(|thread| weir_net::cpu::affinity(thread.pid).ok().flatten())
        .map(|cpus| cpus.to_string())
        .collect();
    let shared = cpus.iter().any(|cpu| places.contains(&cpu.to_string()));
    let warning = if shared { "; it shares a CPU with a sending thread" } else { "" };
    format!(
        "`{peer}` receives in NAPI threads that may run on CPU {}{warning}",
        places.join(" and ")
    )
}

/// Looks at what became of the first packets: none accepted of some offered is a path that loses
/// everything.
///
/// # Errors
/// [`PreflightError::AllLost`] if so.
pub fn check_accepted(
    path: &Path,
    offered: u64,
    accepted: u64,
    counter: &'static str,
) -> Result<(), PreflightError> {
    if offered == 0 || accepted > 0 {
        return Ok(());
    }
    let advice = if path.is_veth() {
        "the far end of the veth pair must be up and have an XDP program or GRO \
         (`ethtool -K PEER gro on` there), or use `--backend packet`"
            .to_owned()
    } else {
        format!(
            "driver {} may need an XDP program attached to the interface first \
             (`xdp-loader load -m native {} PROGRAM`), or use `--backend packet`",
            path.driver,
            path.name()
        )
    };
    Err(PreflightError::AllLost { interface: path.name().to_owned(), offered, counter, advice })
}

fn is_virtual(driver: &str) -> bool {
    driver.is_empty() || VIRTUAL.contains(&driver)
}
