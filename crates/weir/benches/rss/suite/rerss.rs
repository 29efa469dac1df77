//! Packets that are handed to CPUs by what they carry, against receive packet steering and nothing.
//!
//! The router between generator and sink is Linux. The thread of its device's NAPI is on one CPU;
//! the generator has another one, which takes its part of what is handed on.

use std::fs;
use std::time::{Duration, Instant};

use weir_bpf::attach::Link;
use weir_bpf::ethtool;
use weir_bpf::rerss::{InnerHash, Rerss};
use weir_bpf::sink::SinkProgram;
use weir_gen::backend::{Backend as _, RunOptions};
use weir_gen::live::LiveGenerator;
use weir_machine::cancel::Cancel;
use weir_net::address::Prefix;
use weir_net::{CpuList, Netlink, Netns, NetnsGuard, VethEnd, napi, steering, sysctl};
use weir_wire::encap::{Encap, Tunnel};
use weir_wire::mac::MacAddr;
use weir_wire::rss::inner::FRAGMENT_TIMEOUT_NS;
use weir_wire::rss::{Fields, Key, Settings as Card, Symmetry, Table};
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamFrames, StreamSpec};
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

use super::echo::{wait, wait_for};
use super::rows::{DISPATCH, INNER, TUNNEL_GRE, TUNNEL_NONE, TUNNEL_RPS};
use super::{Place, Result, Samples, Settings, add, check};
use crate::closing::Closing;
use crate::schedstat::run_time_ns;

/// The flows of a tunnel.
const FLOWS: &str = "198.18.10.1:2000-198.18.10.1:2063";
const SERVER: &str = "198.19.10.1:53";
const SIZE_BYTES: u16 = 150;
const QUEUE_SIZE: u32 = 2048;
const SETTLE: Duration = Duration::from_millis(30);
const NAPI_PATIENCE: Duration = Duration::from_secs(5);

/// A router between a generator and a sink, which share a namespace.
#[derive(Debug)]
pub(crate) struct Bed {
    router: NetnsGuard,
    ends: NetnsGuard,
    /// Closed behind the namespaces.
    _record: Closing,
    into: u32,
    out: u32,
    end: u32,
    macs: [MacAddr; 2],
    napi_thread: i32,
    cpus: [usize; 2],
}

/// What hands packets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Nothing,
    /// Receive packet steering, to these CPUs.
    Steering([usize; 2]),
    /// By what they carry, to these CPUs in turn.
    Inner([usize; 2]),
}

impl Bed {
    pub(crate) fn new(cpus: [usize; 2]) -> Result<Self> {
        let id = std::process::id();
        let names = [format!("weirbench{id}r"), format!("weirbench{id}e")];
        let _record = Closing::record(&names)?;
        let [router, ends] = [Netns::create(&names[0])?.guard(), Netns::create(&names[1])?.guard()];
        let (into, in_mac, napi_thread) = router.run(|| -> Result<_> {
            sysctl::write("net.ipv4.ip_forward", "1")?;
            let netlink = Netlink::open()?;
            for (here, there, second) in [("in", "out", 18), ("exit", "end", 19)] {
                let ends = (VethEnd::new(here), VethEnd::new(there).in_netns(&ends));
                netlink.create_veth(&ends.0, &ends.1, 1)?;
                netlink.add_address(here, Prefix::new([198, second, 0, 1].into(), 16)?)?;
                netlink.set_up(here)?;
            }
            ethtool::set_gro("in", true)?;
            napi::set_threaded("in", true)?;
            let threads = napi::threads_expecting("in", 1, NAPI_PATIENCE)?;
            let thread = threads.first().ok_or("there is a thread")?.pid;
            napi::pin(&[thread], &CpuList::new([cpus[1]]).ok_or("there is a CPU")?)?;
            let link = netlink.link("in")?;
            Ok((link.ifindex, link.mac.ok_or("a veth has a MAC address")?, thread))
        })??;
        let (out, out_mac, end, end_mac) = ends.run(|| -> Result<_> {
            let netlink = Netlink::open()?;
            netlink.set_up("out")?;
            netlink.set_up("end")?;
            let (out, end) = (netlink.link("out")?, netlink.link("end")?);
            let [out_mac, end_mac] = [out.mac, end.mac].map(|mac| mac.ok_or("it has one"));
            Ok((out.ifindex, out_mac?, end.ifindex, end_mac?))
        })??;
        router.run(|| -> Result<()> {
            Ok(Netlink::open()?.add_neighbour("exit", [198, 19, 10, 1].into(), end_mac)?)
        })??;
        let macs = [out_mac, in_mac].map(MacAddr);
        Ok(Self { router, ends, _record, into, out, end, macs, napi_thread, cpus })
    }

    /// A sample of every row that is asked for.
    pub(crate) fn measure(
        &self,
        settings: &Settings,
        (near, cancel): Place<'_>,
        samples: &mut Samples,
    ) -> Result<()> {
        let [first, second] = self.cpus;
        if settings.wants(DISPATCH) {
            // One after the other, and back, so that what drifts takes part in both.
            let (rps, inner) = (How::Steering([first; 2]), How::Inner([first; 2]));
            let ratio = near.sample(cancel, || -> Result<f64> {
                let costs = [rps, inner, inner, rps].map(|how| self.cost_ns(how, settings, cancel));
                let [a, b, c, d] = costs;
                Ok((b? + c?) / (a? + d?))
            })?;
            add(samples, DISPATCH, ratio);
        }
        let both = How::Inner([first, second]);
        let pps =
            |tunnel, how| near.sample(cancel, || self.delivered_pps(tunnel, how, settings, cancel));
        if settings.wants(TUNNEL_GRE) || settings.wants(TUNNEL_NONE) {
            let none = pps(Tunnel::Gre, How::Nothing)?;
            add(samples, TUNNEL_NONE, none);
            add(samples, TUNNEL_GRE, pps(Tunnel::Gre, both)? / none);
        }
        if settings.wants(TUNNEL_RPS) {
            let rps = pps(Tunnel::Vxlan, How::Steering([first, second]))?;
            add(samples, TUNNEL_RPS, pps(Tunnel::Vxlan, both)? / rps);
        }
        Ok(())
    }

    /// CPU time of the thread that receives, for each packet, ns.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn cost_ns(&self, how: How, settings: &Settings, cancel: &Cancel) -> Result<f64> {
        self.under_load(None, Rate::Max, how, cancel, || {
            let (packets, time_ns) = (self.received()?, run_time_ns(self.napi_thread)?);
            wait(settings.sample, cancel)?;
            wait_for(|| Ok(self.received()? > packets))?;
            let time_ns = run_time_ns(self.napi_thread)? - time_ns;
            Ok(time_ns.max(1) as f64 / (self.received()? - packets) as f64)
        })
    }

    /// What arrives at the sink of a tunnel's packets that are sent as fast as can be.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn delivered_pps(
        &self,
        tunnel: Tunnel,
        how: How,
        settings: &Settings,
        cancel: &Cancel,
    ) -> Result<f64> {
        let sink = SinkProgram::load()?;
        let _link = self.ends.run(|| sink.attach(self.end))??;
        let count = || -> Result<u64> { Ok(sink.counters()?.total().packets) };
        self.under_load(Some(tunnel), Rate::Max, how, cancel, || {
            wait_for(|| Ok(count()? > 0))?;
            wait(SETTLE, cancel)?;
            let (before, begin) = (count()?, Instant::now());
            wait(settings.sample, cancel)?;
            wait_for(|| Ok(count()? > before))?;
            Ok((count()? - before) as f64 / begin.elapsed().as_secs_f64())
        })
    }

    fn received(&self) -> Result<u64> {
        self.router.run(|| -> Result<u64> { Ok(Netlink::open()?.stats64("in")?.rx_packets) })?
    }

    /// Does something while packets are sent and handed on.
    fn under_load(
        &self,
        encap: Option<Tunnel>,
        rate: Rate,
        how: How,
        cancel: &Cancel,
        measure: impl FnOnce() -> Result<f64>,
    ) -> Result<f64> {
        check(cancel)?;
        let _handing = self.hand_on(how)?;
        let spec = StreamSpec::new(self.macs[0], self.macs[1], FLOWS.parse()?, SERVER.parse()?);
        let spec = StreamSpec { encap, sizes: Sizes::Fixed(SIZE_BYTES), ..spec };
        let traffic = Traffic::one(spec)?;
        let cpu = u32::try_from(self.cpus[0])?;
        let generator = || LiveGenerator::with_private_park(&traffic, self.out, &[cpu]);
        let mut generator = self.ends.run(generator)??;
        let before = self.received()?;
        generator.start(RunOptions {
            rate,
            ramp: Duration::ZERO,
            packet_limit: None,
            first_sequence: 0,
            timestamps: false,
        })?;
        let measured = wait_for(|| Ok(self.received()? > before))
            .and_then(|()| wait(SETTLE, cancel))
            .and_then(|()| measure());
        generator.stop()?;
        measured
    }

    fn hand_on(&self, how: How) -> Result<Handing<'_>> {
        let mut handing = Handing { bed: self, steers: false, _inner: None };
        match how {
            How::Nothing => {}
            How::Steering(cpus) => {
                let cpus = CpuList::new(cpus).ok_or("there is a CPU")?;
                handing.steers = true;
                self.router.run(|| steering::set_rps("in", 1, &cpus))??;
            }
            How::Inner(cpus) => {
                let numbers = cpus.map(u16::try_from);
                let cpus = [numbers[0]?, numbers[1]?].repeat(64);
                let card = card(Table::new(cpus)?);
                let timeout = Duration::from_nanos(FRAGMENT_TIMEOUT_NS);
                let mut rerss = Rerss::load(&card, QUEUE_SIZE, timeout)?;
                let link = self.router.run(|| rerss.attach(self.into))??;
                rerss.change(Some(&card.table))?;
                handing._inner = Some((link, rerss));
            }
        }
        Ok(handing)
    }
}

/// Until it is dropped, packets are handed on.
struct Handing<'a> {
    bed: &'a Bed,
    steers: bool,
    _inner: Option<(Link, Rerss)>,
}

impl Drop for Handing<'_> {
    fn drop(&mut self) {
        if self.steers {
            let path = "/sys/class/net/in/queues/rx-0/rps_cpus";
            // The namespace goes with the bed.
            drop(self.bed.router.run(|| fs::write(path, "0")));
        }
    }
}

fn card(table: Table) -> Card {
    Card { key: Key::microsoft(), table, symmetry: Symmetry::None, fields: [Fields::FourTuple; 4] }
}

/// What it costs to look into the tunnel for which it costs most, ns more than to drop a packet.
pub(crate) fn inner_cost_ns(repeat: u32) -> Result<f64> {
    let timeout = Duration::from_nanos(FRAGMENT_TIMEOUT_NS);
    let program = InnerHash::load(&card(Table::equal(1, 128)?), timeout)?;
    let macs = [9, 1].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
    let spec = StreamSpec::new(macs[0], macs[1], FLOWS.parse()?, SERVER.parse()?);
    let plain = StreamFrames::new(spec)?.build(0);
    let ends = ("198.18.10.1".parse()?, "198.19.10.1".parse()?);
    let (src_port, id) = (49_152, 1);
    let encaps = [
        Encap::Vlan { id: 5 },
        Encap::Pppoe { session: 1 },
        Encap::Mpls { label: 16 },
        Encap::Gre { ends, key: None },
        Encap::Ip { ends },
        Encap::Vxlan { ends, src_port, id },
        Encap::Geneve { ends, src_port, id, option_words: 0 },
    ];
    let mut most_ns = 0.0_f64;
    for encap in encaps {
        let (hash_ns, drop_ns) = program.costs_ns(&encap.wrap(&plain)?, repeat)?;
        most_ns = most_ns.max(hash_ns - drop_ns);
    }
    Ok(most_ns)
}

/// Adds a sample of what needs no bed.
pub(crate) fn measure_inner(settings: &Settings, samples: &mut Samples) -> Result<()> {
    if settings.wants(INNER) {
        // About 50 ns each.
        let repeat = u32::try_from(settings.sample.as_nanos() / 50)?.clamp(1_000, 10_000_000);
        add(samples, INNER, inner_cost_ns(repeat)?);
    }
    Ok(())
}
