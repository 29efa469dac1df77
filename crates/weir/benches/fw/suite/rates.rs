//! Packets per second: one sample of each device in each round.

use weir_results::number;

use super::bed::{Bed, Sample, Sink};
use super::boxes::{Box as Device, Rules};
use super::rows::{self, FEW, MANY, MOST, ROOMY, SOME};
use super::{AllSeries, Result, Settings, flows};

/// What a device is sent.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// So many flows, which it knows.
    Walk(u64),
    /// The same with room for far more.
    WalkInRoom(u64),
    /// Flows that it does not know.
    New,
}

/// A device, what it is sent, and the series that it gives.
struct Figure {
    series: &'static str,
    device: Device,
    load: Load,
    sink: Sink,
}

const fn figure(series: &'static str, device: Device, load: Load) -> Figure {
    Figure { series, device, load, sink: Sink::Woken }
}

impl Figure {
    const fn polled(mut self) -> Self {
        self.sink = Sink::Polled;
        self
    }
}

/// In the order of a round: what is compared stands side by side.
const FIGURES: [Figure; 31] = [
    figure(rows::LINUX, Device::Linux, Load::Walk(SOME)),
    figure(rows::ROUTE, Device::Weir(Rules::None), Load::Walk(SOME)),
    figure(rows::MINIMAL, Device::Minimal, Load::Walk(SOME)),
    figure(rows::STATEFUL_4900, Device::Weir(Rules::Stateful), Load::Walk(SOME)),
    figure(rows::BEFORE_4900, Device::Weir(Rules::Stateful), Load::Walk(SOME)),
    figure(rows::CONTROL_4900, Device::Weir(Rules::Stateful), Load::Walk(SOME)),
    figure(rows::NAT_4900, Device::Weir(Rules::Translated), Load::Walk(SOME)),
    figure(rows::SCRUB_4900, Device::Weir(Rules::Scrubbed), Load::Walk(SOME)),
    figure(rows::NFT_NAT_4900, Device::Nftables(Rules::Translated), Load::Walk(SOME)),
    figure(rows::STATEFUL_4900_ROOMY, Device::Weir(Rules::Stateful), Load::WalkInRoom(SOME)),
    figure(rows::NFT_4900, Device::Nftables(Rules::Stateful), Load::Walk(SOME)),
    figure(rows::STATEFUL_4900_POLLED, Device::Weir(Rules::Stateful), Load::Walk(SOME)).polled(),
    figure(rows::NFT_4900_POLLED, Device::Nftables(Rules::Stateful), Load::Walk(SOME)).polled(),
    figure(rows::STATEFUL_128, Device::Weir(Rules::Stateful), Load::Walk(FEW)),
    figure(rows::BEFORE_128, Device::Weir(Rules::Stateful), Load::Walk(FEW)),
    figure(rows::CONTROL_128, Device::Weir(Rules::Stateful), Load::Walk(FEW)),
    figure(rows::ONE_STAGE_5M, Device::Weir(Rules::OneStage), Load::Walk(MANY)),
    figure(rows::STATEFUL_5M, Device::Weir(Rules::Stateful), Load::Walk(MANY)),
    figure(rows::STATEFUL_10M, Device::Weir(Rules::Stateful), Load::Walk(MOST)),
    figure(rows::CONTROL_5M, Device::Weir(Rules::Stateful), Load::Walk(MANY)),
    figure(rows::NFT_5M, Device::Nftables(Rules::Stateful), Load::Walk(MANY)),
    figure(rows::STATEFUL_5M_POLLED, Device::Weir(Rules::Stateful), Load::Walk(MANY)).polled(),
    figure(rows::NFT_5M_POLLED, Device::Nftables(Rules::Stateful), Load::Walk(MANY)).polled(),
    figure(rows::NEW, Device::Weir(Rules::Stateful), Load::New),
    figure(rows::NFT_NEW, Device::Nftables(Rules::Stateful), Load::New),
    figure(rows::NEW_POLLED, Device::Weir(Rules::Stateful), Load::New).polled(),
    figure(rows::NFT_NEW_POLLED, Device::Nftables(Rules::Stateful), Load::New).polled(),
    figure(rows::NAT_NEW, Device::Weir(Rules::Pool), Load::New),
    figure(rows::NFT_NAT_NEW, Device::Nftables(Rules::Pool), Load::New),
    figure(rows::RULES, Device::Weir(Rules::Many), Load::New),
    figure(rows::NFT_RULES, Device::Nftables(Rules::Many), Load::New),
];

/// Room for new states at the least: the first packets come before the first sample.
const NEW_LIMIT_MIN: u64 = 4_000_000;
/// pf's own limit of states.
const DEFAULT_LIMIT: u64 = 100_000;
/// Of the packets of new flows, so many must have made a state: a few flows are drawn twice.
const NEW_SHARE_MIN: f64 = 0.98;
/// One sample of every series that is wanted.
pub(crate) fn round(
    settings: &Settings,
    bed: &Bed,
    say: &mut dyn FnMut(&str),
    all: &mut AllSeries,
) -> Result<()> {
    for figure in FIGURES.iter().filter(|figure| settings.wants(figure.series)) {
        let seed = all.get(figure.series).map_or(0, |series| series.samples.len() as u64);
        let sample = one(settings, bed, figure, seed)
            .map_err(|error| format!("{}: {error}", figure.series))?;
        say(&format!(
            "  {}: {}, {} offered, {} of CPU time per packet",
            figure.series,
            number::pps(sample.pps),
            number::pps(sample.offered_pps),
            number::cost(sample.cost_ns)
        ));
        let series = all.entry(figure.series).or_default();
        series.samples.push(sample.pps);
        series.costs_ns.push(sample.cost_ns);
        series.taken_share_max = series.taken_share_max.max(sample.taken_share);
        let is_first = series.costs_ns.len() == 1;
        let least = if is_first { f64::INFINITY } else { series.busy_share_min };
        series.busy_share_min = least.min(sample.busy_share);
    }
    Ok(())
}

fn one(settings: &Settings, bed: &Bed, figure: &Figure, seed: u64) -> Result<Sample> {
    let other = settings.before.clone().filter(|_| rows::is_before(figure.series));
    let with_other = other.map(|weir| Settings { weir, ..settings.clone() });
    let measured = with_other.as_ref().unwrap_or(settings);
    let dut = figure.device.dut(measured, room(settings, figure));
    let stand = || bed.stand(figure.device, &dut, figure.sink);
    match figure.load {
        Load::Walk(flow_count) | Load::WalkInRoom(flow_count) => {
            let flow_count = settings.scaled(flow_count);
            let mut stand = stand()?;
            stand.load(&flows::walk(flow_count)?)?;
            if keeps_states(figure.device) {
                stand.fill(flow_count)?;
            }
            stand.settle(settings.settle)?;
            bed.near(|| stand.sample(settings.sample))
        }
        // There is room for the states of one sample.
        Load::New => bed.near(|| {
            let mut stand = stand()?;
            stand.settle(settings.settle)?;
            stand.load(&flows::new(seed)?)?;
            let before = stand.states()?;
            let sample = stand.sample(settings.sample)?;
            let made = stand.states()? - before;
            if (made as f64) < sample.packets as f64 * NEW_SHARE_MIN {
                let what = format!("{} packets made only {made} states", sample.packets);
                return Err(what.into());
            }
            Ok(sample)
        }),
    }
}

/// How many states a firewall is to have room for. New states find room for all that a sample can
/// make.
fn room(settings: &Settings, figure: &Figure) -> u64 {
    match figure.load {
        Load::Walk(FEW | SOME) => DEFAULT_LIMIT,
        Load::WalkInRoom(_) => settings.scaled(ROOMY).max(DEFAULT_LIMIT),
        Load::Walk(MOST) => settings.scaled(MOST + MOST / 5).max(DEFAULT_LIMIT),
        Load::Walk(_) => settings.scaled(MANY + MANY / 5).max(DEFAULT_LIMIT),
        Load::New => settings.scaled(MOST).max(NEW_LIMIT_MIN),
    }
}

fn keeps_states(device: Device) -> bool {
    match device {
        Device::Linux | Device::Minimal => false,
        Device::Nftables(rules) | Device::Weir(rules) => rules != Rules::None,
    }
}
