//! From the arguments of `weir connect` to which connections are opened, over which path.
//!
//! Everything that can be refused is refused here, before anything is loaded or attached, but for
//! what an interface can do only while a program is attached to it ([`check_path`]).

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use weir_bpf::connect::{ClientConfig, Close};
use weir_gen::backend::RunOptions;
use weir_gen::connect::{self, ledger::Course};
use weir_gen::next_hop;
use weir_gen::preflight::{self, Path, PreflightError};
use weir_net::address::Prefix;
use weir_net::{Netlink, OperState};
use weir_wire::mac::MacAddr;
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::traffic::Traffic;
use weir_wire::units::{Rate, format_count, format_duration};

use crate::cli::connect::{ClientArgs, ConnectRate, Ends};
use crate::traffic::sending_cpus;

/// How long a link may take to come up again, and how often it is looked at.
const LINK_PATIENCE: Duration = Duration::from_secs(15);
const LINK_LOOK: Duration = Duration::from_millis(20);

/// What will be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) path: Path,
    pub(super) config: ClientConfig,
    pub(super) course: Course,
    pub(super) cpus: Vec<u32>,
    pub(super) requested: ConnectRate,
    pub(super) options: RunOptions,
    pub(super) duration: Option<Duration>,
    pub(super) flow_count: u128,
    /// Connections that are held at a time.
    pub(super) concurrent: Option<u64>,
    pub(super) notes: Vec<String>,
}

impl Plan {
    pub(super) fn new(args: &ClientArgs) -> anyhow::Result<Self> {
        let Some(ends) = args.ends() else {
            bail!("an interface and addresses are missing: `-i IF --src RANGE --dst RANGE`");
        };
        let hold = args.hold.unwrap_or(Duration::ZERO);
        check_addresses(&ends)?;
        let rate_cps = check_hold(args, hold)?;
        let (cpus, _) = sending_cpus(args.cpus.as_ref(), args.threads)?;
        let payload_bytes = args.request_bytes().max(args.reply_bytes());
        let size_bytes = connect::frame_bytes(ends.src.is_ipv6(), payload_bytes);
        let path = preflight::interface(ends.interface, size_bytes, false)?;
        let link_mac = path.link.mac.map(MacAddr);
        let src_mac = args.src_mac.or(link_mac).with_context(|| {
            format!("`{}` has no MAC address: give one with --src-mac", ends.interface)
        })?;
        let dst_mac = match args.dst_mac {
            Some(mac) => mac,
            None => next_hop::mac(ends.interface, ends.dst.addr(0))?,
        };
        let traffic = Traffic::one(connect::flows(src_mac, dst_mac, ends.src, ends.dst))?;
        let flow_count = traffic.flow_count();
        let concurrent = rate_cps.filter(|_| !hold.is_zero()).map(|rate_cps| {
            let all = connections_within(rate_cps, hold);
            args.count.map_or(all, |count| all.min(count))
        });
        if let Some(held) = concurrent.filter(|held| u128::from(*held) > flow_count) {
            bail!(
                "{} flows are too few to hold {} connections at a time (--rate × --hold): a flow \
                 would be opened again while it is held. Give more addresses or ports, a lower \
                 rate, or hold for a shorter time",
                flow_count,
                format_count(held)
            );
        }
        check_retry(args, rate_cps, hold, flow_count)?;
        let mut notes = Vec::new();
        notes.extend(way_back_note(ends.interface, &ends.src)?);
        notes.extend(again_note(args, rate_cps, flow_count));
        Ok(Self {
            config: ClientConfig {
                set: traffic.set(cpus.len())?,
                close: args.close(),
                hold,
                request_bytes: args.request_bytes(),
                reply_bytes: args.reply_bytes(),
                retries: args.retries(),
                retry_after: connect::RETRY_AFTER,
            },
            course: Course {
                close: args.close().into(),
                hold_ns: u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX),
                request_bytes: args.request_bytes(),
            },
            path,
            cpus,
            requested: args.rate(),
            options: RunOptions {
                rate: args.rate().0,
                ramp: Duration::ZERO,
                packet_limit: args.count,
                first_sequence: args.skip,
                timestamps: true,
            },
            duration: args.duration,
            flow_count,
            concurrent,
            notes,
        })
    }
}

/// Refuses addresses between which there are no connections.
fn check_addresses(ends: &Ends<'_>) -> anyhow::Result<()> {
    for (option, range) in [("--src", &ends.src), ("--dst", &ends.dst)] {
        for address in [range.addr(0), range.addr(range.addr_count() - 1)] {
            let is_broadcast = address == IpAddr::from([255; 4]);
            if address.is_multicast() || address.is_unspecified() || is_broadcast {
                bail!(
                    "{option}: {address} is a multicast, broadcast or unspecified address: \
                     connections are between hosts"
                );
            }
            if address.is_loopback() {
                bail!("{option}: {address} is a loopback address, which never leaves its host");
            }
        }
    }
    Ok(())
}

/// The rate, if there is one; connections that are held need one, and an end.
fn check_hold(args: &ClientArgs, hold: Duration) -> anyhow::Result<Option<f64>> {
    let rate_cps = match args.rate().0 {
        Rate::Pps(rate_cps) => Some(rate_cps),
        _ => None,
    };
    if hold.is_zero() {
        return Ok(rate_cps);
    }
    if args.close() == Close::None {
        bail!(
            "--hold says when a connection is closed, and --close none that it never is: leave \
               one of them out"
        );
    }
    if rate_cps.is_none() {
        bail!("--hold needs a --rate: as many connections as are opened in that time are held");
    }
    Ok(rate_cps)
}

/// SYNs are sent again by a schedule, and of flows that can be told apart.
fn check_retry(
    args: &ClientArgs,
    rate_cps: Option<f64>,
    hold: Duration,
    flow_count: u128,
) -> anyhow::Result<()> {
    if args.retries() == 0 {
        return Ok(());
    }
    let Some(rate_cps) = rate_cps else {
        bail!("--retry needs a --rate: SYNs are sent again at the rate at which they were sent");
    };
    if flow_count > connect::RETRY_FLOWS_MAX.into() {
        bail!(
            "--retry keeps a bit for each flow, and has room for {} of them; {flow_count} flows \
             are too many: give fewer addresses or ports",
            format_count(connect::RETRY_FLOWS_MAX)
        );
    }
    let last = connect::RETRY_AFTER * ((1 << args.retries()) - 1);
    let all = opened_at_most(args, rate_cps).unwrap_or(u64::MAX);
    let waiting = connections_within(rate_cps, last).min(all);
    if u128::from(waiting) > flow_count {
        bail!(
            "{flow_count} flows are too few for --retry: {} connections are opened (--rate) before \
             a SYN is sent again for the last time, after {}, so that a flow would be opened again \
             while its SYN may still be sent. Give more addresses or ports, a lower rate, or a \
             lower --retry",
            format_count(waiting),
            format_duration(last)
        );
    }
    if !hold.is_zero() && hold <= last {
        bail!(
            "--hold {} is over before a SYN is sent again for the last time, after {}: hold for a \
             longer time, or give a lower --retry",
            format_duration(hold),
            format_duration(last)
        );
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates, and the number is not negative"
)]
fn connections_within(rate_cps: f64, time: Duration) -> u64 {
    (rate_cps * time.as_secs_f64()).ceil() as u64
}

/// How many connections are opened by --count and --duration; `None` if neither is there.
fn opened_at_most(args: &ClientArgs, rate_cps: f64) -> Option<u64> {
    let by_time = args.duration.map(|time| connections_within(rate_cps, time));
    args.count.into_iter().chain(by_time).min()
}

/// What the user should know of sources that are neighbours: somebody has to answer for them.
fn way_back_note(interface: &str, src: &AddrRange) -> anyhow::Result<Option<String>> {
    let addresses = Netlink::open()?.addresses(interface)?;
    let mut ends = [src.addr(0), src.addr(src.addr_count() - 1)].into_iter();
    let unanswered = |address: &IpAddr| {
        let is_on_link = addresses.iter().any(|prefix| {
            Prefix::new(*address, prefix.length()).is_ok_and(|whole| {
                whole.address().is_ipv4() == prefix.address().is_ipv4()
                    && whole.network() == prefix.network()
            })
        });
        is_on_link && !addresses.iter().any(|prefix| prefix.address() == *address)
    };
    Ok(ends.find(unanswered).map(|address| {
        format!(
            "{address} is in a network of `{interface}` but none of its addresses: nobody answers \
             when the next hop asks for its MAC address. Add it to the interface, or use sources \
             that are routed by way of one of its addresses"
        )
    }))
}

/// When a flow is used again, which the server and the device between have to be done with.
fn again_note(args: &ClientArgs, rate_cps: Option<f64>, flow_count: u128) -> Option<String> {
    let all = rate_cps.map_or(args.count, |rate_cps| opened_at_most(args, rate_cps));
    let skipped = u128::from(args.skip) % flow_count;
    let repeats = all.is_none_or(|all| skipped + u128::from(all) > flow_count);
    let Some(rate_cps) = rate_cps else {
        return repeats.then(|| {
            format!(
                "each of the {flow_count} flows is opened again as soon as all have been: who \
                 remembers the connection before (TIME-WAIT) may refuse it; more sources or ports \
                 take longer"
            )
        });
    };
    let within_s = flow_count as f64 / rate_cps;
    // Longer than anything remembers a connection that was closed (RFC 9293 section 3.4.1).
    const REMEMBERED_S: f64 = 120.0;
    (repeats && within_s < REMEMBERED_S).then(|| {
        let within = Duration::try_from_secs_f64(within_s.max(1e-3).ceil()).unwrap_or_default();
        format!(
            "each of the {flow_count} flows is opened again after {}: who remembers the connection \
             before (TIME-WAIT) may refuse it; more sources or ports take longer",
            format_duration(within)
        )
    })
}

/// Looks at what the interface can do now that a program is attached to it.
///
/// # Errors
/// If nothing that is sent there arrives.
pub(super) fn check_path(interface: &str, cpus: &[u32]) -> anyhow::Result<Vec<String>> {
    const SMALLEST_BYTES: u16 = 60;
    // Some drivers start the link anew for a program.
    let (netlink, deadline) = (Netlink::open()?, Instant::now() + LINK_PATIENCE);
    let is_down = |state| matches!(state, OperState::Down | OperState::LowerLayerDown);
    while is_down(netlink.link(interface)?.operstate) && Instant::now() < deadline {
        thread::sleep(LINK_LOOK);
    }
    let mut path = preflight::interface(interface, SMALLEST_BYTES, false)?;
    match preflight::live(&mut path, cpus) {
        Ok(()) => Ok(path.notes),
        Err(PreflightError::PeerNotReady { interface, peer, peer_name }) => bail!(
            "everything sent to interface `{interface}` would be lost silently, because the far \
             end of this veth pair ({peer}) takes XDP frames only with an XDP program or GRO: \
             `ethtool -K {peer_name} gro on` there, or attach a program there"
        ),
        Err(PreflightError::NoTransmit { interface, driver }) => bail!(
            "everything sent to interface `{interface}` would be lost silently, because its driver \
             {driver} does not transmit XDP frames: use another interface"
        ),
        Err(other) => Err(other.into()),
    }
}
