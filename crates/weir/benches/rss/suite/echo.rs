//! Echo servers against each other: how much comes back of what a generator sends.
//!
//! The server has one CPU for all that it does: the thread of its device's NAPI, its worker, and
//! what it sends. The generator has another one.

use std::time::{Duration, Instant};

use weir_bpf::ethtool;
use weir_bpf::sink::SinkProgram;
use weir_gen::backend::{Backend as _, RunOptions};
use weir_gen::echo::Backend;
use weir_gen::echo::server::{Server, ServerOptions};
use weir_gen::live::LiveGenerator;
use weir_machine::cancel::Cancel;
use weir_net::address::Prefix;
use weir_net::{CpuList, Netlink, Netns, NetnsGuard, VethEnd, napi};
use weir_rss::{Each, Options, Steer};
use weir_wire::mac::MacAddr;
use weir_wire::rss::{Fields, Key, Settings as Card, Symmetry};
use weir_wire::sizes::Sizes;
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

use super::rows::{
    ECHO_AF_XDP, ECHO_EPOLL, ECHO_FLOOD, ECHO_FLOOD_EPOLL, ECHO_GRO, ECHO_MMSG, ECHO_URING,
    ECHO_XDP, STEER,
};
use super::{Place, Result, Samples, Settings, add, check};
use crate::closing::Closing;
use crate::schedstat::run_time_ns;

/// Most of what can be asked for is far above what can be done; the best of all counts.
const RATES_SOCKETS: [u32; 6] = [60, 90, 120, 160, 220, 320];
const RATES_GRO: [u32; 6] = [60, 120, 200, 300, 420, 600];
const RATES_FRAMES: [u32; 6] = [200, 300, 450, 600, 900, 1300];
const RATES_REFLECT: [u32; 3] = [600, 1300, 2600];
/// Of what a server can do at best, what it is then offered.
const FLOOD: f64 = 4.0;
/// Slow enough for any server that only reads.
const STEER_RATE_KPPS: u32 = 60;

const SERVER: &str = "10.9.0.1:7";
const SERVER_PREFIX: ([u8; 4], u8) = ([10, 9, 0, 1], 24);
const CLIENT: [u8; 4] = [10, 9, 0, 2];
const FLOWS: &str = "10.9.0.2:2000-10.9.0.2:2255";
const ONE_FLOW: &str = "10.9.0.2:2000";

/// How long a server may take until the first answer.
const PATIENCE: Duration = Duration::from_secs(5);
const SETTLE: Duration = Duration::from_millis(30);
const NAPI_PATIENCE: Duration = Duration::from_secs(5);

/// A server at the end of a veth pair.
#[derive(Debug)]
pub(crate) struct Echo {
    here: NetnsGuard,
    peer: NetnsGuard,
    /// Closed behind the namespaces: if one is still there, the record stays, and the next lab
    /// cleans up.
    _record: Closing,
    into: String,
    out_ifindex: u32,
    macs: [MacAddr; 2],
    napi_thread: i32,
    cpus: [usize; 2],
}

/// A server as it is measured.
#[derive(Debug, Clone, Copy)]
struct Kind {
    backend: Backend,
    gro: bool,
}

const fn kind(backend: Backend) -> Kind {
    Kind { backend, gro: false }
}

impl Echo {
    pub(crate) fn new(cpus: [usize; 2]) -> Result<Self> {
        let id = std::process::id();
        let names = [format!("weirbench{id}h"), format!("weirbench{id}p")];
        let _record = Closing::record(&names)?;
        let [here, peer] = [Netns::create(&names[0])?.guard(), Netns::create(&names[1])?.guard()];
        let (into, out) = (format!("ei{id}"), format!("eo{id}"));
        let in_mac = here.run(|| -> Result<[u8; 6]> {
            let netlink = Netlink::open()?;
            netlink.create_veth(&VethEnd::new(&into), &VethEnd::new(&out).in_netns(&peer), 1)?;
            let (address, length) = SERVER_PREFIX;
            netlink.add_address(&into, Prefix::new(address.into(), length)?)?;
            netlink.set_up(&into)?;
            ethtool::set_gro(&into, true)?;
            Ok(netlink.link(&into)?.mac.ok_or("a veth has a MAC address")?)
        })??;
        let (out_ifindex, out_mac) = peer.run(|| -> Result<(u32, [u8; 6])> {
            let netlink = Netlink::open()?;
            netlink.set_up(&out)?;
            let link = netlink.link(&out)?;
            Ok((link.ifindex, link.mac.ok_or("a veth has a MAC address")?))
        })??;
        let napi_thread = here.run(|| -> Result<i32> {
            Netlink::open()?.add_neighbour(&into, CLIENT.into(), out_mac)?;
            napi::set_threaded(&into, true)?;
            let threads = napi::threads_expecting(&into, 1, NAPI_PATIENCE)?;
            let thread = threads.first().ok_or("there is a thread")?.pid;
            napi::pin(&[thread], &CpuList::new([cpus[1]]).ok_or("there is a CPU")?)?;
            Ok(thread)
        })??;
        let macs = [out_mac, in_mac].map(MacAddr);
        Ok(Self { here, peer, _record, into, out_ifindex, macs, napi_thread, cpus })
    }

    /// A sample of every row that is asked for.
    pub(crate) fn measure(
        &self,
        settings: &Settings,
        place: Place<'_>,
        samples: &mut Samples,
    ) -> Result<()> {
        let wants = |rows: &[&str]| rows.iter().any(|row| settings.wants(row));
        if wants(&[
            ECHO_EPOLL,
            ECHO_MMSG,
            ECHO_URING,
            ECHO_AF_XDP,
            ECHO_XDP,
            ECHO_FLOOD,
            ECHO_FLOOD_EPOLL,
        ]) {
            self.measure_many(settings, place, samples)?;
        }
        if settings.wants(ECHO_GRO) {
            let run = |server| self.best(server, (ONE_FLOW, 510), &RATES_GRO, settings, place);
            let plain = run(kind(Backend::Epoll))?;
            let together = run(Kind { backend: Backend::Mmsg, gro: true })?;
            add(samples, ECHO_GRO, together / plain);
        }
        if settings.wants(STEER) {
            // One after the other, and back, so that what drifts takes part in both.
            let (near, cancel) = place;
            let ratio = near.sample(cancel, || -> Result<f64> {
                let costs = [Steer::Kernel, Steer::Hash, Steer::Hash, Steer::Kernel]
                    .map(|steer| self.receive_cost_ns(steer, settings, cancel));
                let [a, b, c, d] = costs;
                Ok((b? + c?) / (a? + d?))
            })?;
            add(samples, STEER, ratio);
        }
        Ok(())
    }

    fn measure_many(
        &self,
        settings: &Settings,
        place: Place<'_>,
        samples: &mut Samples,
    ) -> Result<()> {
        let many = (FLOWS, 60);
        let best = |backend, rates: &[u32]| self.best(kind(backend), many, rates, settings, place);
        let epoll_pps = best(Backend::Epoll, &RATES_SOCKETS)?;
        add(samples, ECHO_EPOLL, epoll_pps);
        if settings.wants(ECHO_MMSG) {
            add(samples, ECHO_MMSG, best(Backend::Mmsg, &RATES_SOCKETS)? / epoll_pps);
        }
        if settings.wants(ECHO_URING) {
            add(samples, ECHO_URING, best(Backend::Uring, &RATES_SOCKETS)? / epoll_pps);
        }
        if settings.wants(ECHO_AF_XDP) || settings.wants(ECHO_FLOOD) {
            let best_pps = best(Backend::AfXdp, &RATES_FRAMES)?;
            add(samples, ECHO_AF_XDP, best_pps / epoll_pps);
            let rate_pps = best_pps * FLOOD;
            let flood = self.run_near(kind(Backend::AfXdp), many, rate_pps, settings, place)?;
            add(samples, ECHO_FLOOD, flood / best_pps);
        }
        if settings.wants(ECHO_FLOOD_EPOLL) {
            let rate_pps = epoll_pps * FLOOD;
            let flood = self.run_near(kind(Backend::Epoll), many, rate_pps, settings, place)?;
            add(samples, ECHO_FLOOD_EPOLL, flood / epoll_pps);
        }
        if settings.wants(ECHO_XDP) {
            add(samples, ECHO_XDP, best(Backend::Xdp, &RATES_REFLECT)? / epoll_pps);
        }
        Ok(())
    }

    /// The most that came back, packets per second, of all rates.
    fn best(
        &self,
        kind: Kind,
        flows: (&str, u16),
        rates_kpps: &[u32],
        settings: &Settings,
        place: Place<'_>,
    ) -> Result<f64> {
        let mut best_pps = 0.0_f64;
        for rate_kpps in rates_kpps {
            let rate_pps = f64::from(*rate_kpps) * 1e3;
            best_pps = best_pps.max(self.run_near(kind, flows, rate_pps, settings, place)?);
        }
        Ok(best_pps)
    }

    /// As [`Self::run`], while both CPUs are near each other.
    fn run_near(
        &self,
        kind: Kind,
        flows: (&str, u16),
        rate_pps: f64,
        settings: &Settings,
        (near, cancel): Place<'_>,
    ) -> Result<f64> {
        near.sample(cancel, || self.run(kind, flows, rate_pps, settings, cancel))
    }

    /// What comes back at a rate, packets per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn run(
        &self,
        kind: Kind,
        flows: (&str, u16),
        rate_pps: f64,
        settings: &Settings,
        cancel: &Cancel,
    ) -> Result<f64> {
        let server = self.serve(kind, Steer::Kernel, true)?;
        let sink = SinkProgram::load()?;
        let _link = self.peer.run(|| sink.attach(self.out_ifindex))??;
        let count = || -> Result<u64> { Ok(sink.counters()?.total().packets) };
        let pps = self.under_load(flows, rate_pps, || {
            wait_for(|| Ok(count()? > 0))?;
            wait(SETTLE, cancel)?;
            let (before, begin) = (count()?, Instant::now());
            wait(settings.sample, cancel)?;
            wait_for(|| Ok(count()? > before))?;
            Ok((count()? - before) as f64 / begin.elapsed().as_secs_f64())
        })?;
        server.stop()?;
        Ok(pps)
    }

    /// CPU time of the thread that receives, for each datagram that it gives a worker who only
    /// reads, ns.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn receive_cost_ns(&self, steer: Steer, settings: &Settings, cancel: &Cancel) -> Result<f64> {
        let server = self.serve(kind(Backend::Mmsg), steer, false)?;
        let read = || -> Result<u64> {
            let totals = server.counts()?.totals();
            Ok(totals.read_packets + totals.dropped_packets)
        };
        let cost_ns = self.under_load((FLOWS, 60), f64::from(STEER_RATE_KPPS) * 1e3, || {
            wait_for(|| Ok(read()? > 0))?;
            wait(SETTLE, cancel)?;
            let (packets, time_ns) = (read()?, run_time_ns(self.napi_thread)?);
            wait(settings.sample, cancel)?;
            wait_for(|| Ok(read()? > packets))?;
            let time_ns = run_time_ns(self.napi_thread)? - time_ns;
            Ok(time_ns.max(1) as f64 / (read()? - packets) as f64)
        })?;
        server.stop()?;
        Ok(cost_ns)
    }

    fn serve(&self, kind: Kind, steer: Steer, echoes: bool) -> Result<Server> {
        let steers = steer == Steer::Hash;
        let settings = Card {
            key: Key::microsoft(),
            // What is steered to is one of four sockets; otherwise the device has one queue.
            table: if steers || !echoes { "equal:4/128" } else { "equal:1/128" }.parse()?,
            symmetry: Symmetry::None,
            fields: [Fields::FourTuple; 4],
        };
        let options = ServerOptions {
            group: Options {
                address: SERVER.parse()?,
                settings,
                interface: None,
                each: Each::Queue,
                steer,
                receive_buffer_bytes: Some(1 << 20),
            },
            // Only where it is needed: nothing is counted that no plain server would count.
            interface: kind.backend.is_xdp().then(|| self.into.clone()),
            backend: kind.backend,
            cpus: vec![self.cpus[1]],
            echoes,
            gro: kind.gro,
        };
        Ok(self.here.run(|| Server::start(&options))??)
    }

    /// Does something while datagrams of these flows and this size are sent.
    fn under_load<R>(
        &self,
        (src, size_bytes): (&str, u16),
        rate_pps: f64,
        measure: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let spec = StreamSpec::new(self.macs[0], self.macs[1], src.parse()?, SERVER.parse()?);
        let traffic = Traffic::one(StreamSpec { sizes: Sizes::Fixed(size_bytes), ..spec })?;
        let cpu = u32::try_from(self.cpus[0])?;
        let mut generator = self
            .peer
            .run(|| LiveGenerator::with_private_park(&traffic, self.out_ifindex, &[cpu]))??;
        generator.start(RunOptions {
            rate: Rate::Pps(rate_pps),
            ramp: Duration::ZERO,
            packet_limit: None,
            first_sequence: 0,
            timestamps: false,
        })?;
        let measured = measure();
        generator.stop()?;
        measured
    }
}

pub(super) fn wait(time: Duration, cancel: &Cancel) -> Result<()> {
    std::thread::sleep(time);
    check(cancel)
}

pub(super) fn wait_for(mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > deadline {
            return Err("no datagram arrived: does another program hold the CPUs?".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
