//! The measurement of a DUT with a toggle: its two settings in turns, in windows of a live DUT.
//!
//! The order comes from a seed alone, and so does which windows make a pair; nothing that is
//! measured changes it. The traffic runs all the time. A window begins when the command that
//! switches has ended and the DUT has settled.

use std::time::Duration;

use weir_machine::host::{Command, Program};
use weir_results::record::Cost;
use weir_results::toggle::{Role, Toggle, Window};
use weir_results::unit::Unit;
use weir_stats::shuffle::SplitMix64;

use super::{Runner, TrialError, figure, host_of};
use crate::dut::DutError;
use crate::testbed::{Burst, DutMoment, Reading, Rig};

/// How long the DUT settles after a switch.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a window is: the kernel adds up a thread's run time at ticks, 4 ms apart.
const WINDOW: Duration = Duration::from_millis(450);
/// How long a command that switches may take.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Pairs of `on` and `off` in a block; there is one control besides.
const PAIRS: u32 = 2;
/// How long a block takes, without its commands.
pub(crate) const BLOCK: Duration = Duration::from_secs(3);
/// Blocks of a trial at the least.
pub(crate) const BLOCKS_MIN: u32 = 2;

/// The two settings of a DUT, and what decides their order.
#[derive(Debug, Clone, Copy)]
pub struct Turns<'a> {
    /// The DUT's name, for messages.
    pub dut: &'a str,
    /// The lines that switch.
    pub toggle: &'a Toggle,
    /// Seed of the order.
    pub seed: u64,
}

/// A window, and the sink's and the generator's counts at its two ends.
pub(super) type Measured = (Window, [Reading; 2]);

/// The windows of so many blocks, in their order: the numbers of their pairs, and their roles.
fn order(block_count: u32, seed: u64) -> Vec<(u32, Role)> {
    let mut random = SplitMix64::new(seed);
    let mut windows = Vec::new();
    for block in 0..block_count {
        let first = block * (PAIRS + 1);
        let mut pairs: Vec<[Role; 2]> = vec![[Role::On, Role::Off]; PAIRS as usize];
        pairs.push([Role::ControlOn, Role::ControlOff]);
        random.shuffle(&mut pairs);
        for (pair, mut roles) in (first..).zip(pairs) {
            random.shuffle(&mut roles);
            windows.extend(roles.map(|role| (pair, role)));
        }
    }
    windows
}

/// Blocks of a measurement of this length.
fn block_count(duration: Duration) -> u32 {
    let blocks = duration.as_nanos() / BLOCK.as_nanos();
    u32::try_from(blocks).unwrap_or(u32::MAX).max(BLOCKS_MIN)
}

impl Runner<'_> {
    /// The generator's run: warm-up with `off`, then window after window. `off` applies at the end.
    pub(super) fn take_turns(&mut self, rig: &mut dyn Rig) -> Result<Vec<Measured>, TrialError> {
        let Some(turns) = self.trial.turns else { return Ok(Vec::new()) };
        self.phase("warmup");
        self.switch(rig, turns, false)?;
        rig.start(Burst::of(self.trial.traffic))?;
        let measured = self.pause(self.trial.times.warmup).and_then(|()| {
            self.phase("measure");
            rig.measuring(self.trial.times.duration)?;
            self.windows(rig, turns)
        });
        rig.stop()?;
        let measured = measured?;
        self.switch(rig, turns, false)?;
        Ok(measured)
    }

    fn windows(&mut self, rig: &dyn Rig, turns: Turns<'_>) -> Result<Vec<Measured>, TrialError> {
        let mut measured: Vec<Measured> = Vec::new();
        let mut start_ns = None;
        for (pair, role) in order(block_count(self.trial.times.duration), turns.seed) {
            self.switch(rig, turns, role.is_on())?;
            self.pause(SETTLE)?;
            let before = rig.dut_moment()?;
            self.pause(WINDOW)?;
            let after = rig.dut_moment()?;
            let start_ns = *start_ns.get_or_insert(before.reading.t_ns);
            let window = window((pair, role), start_ns, &before, &after);
            let readings = (&before.reading, &after.reading);
            self.trial.observer.event(&figure::live(readings, Unit::Pps));
            measured.push((window, [before.reading, after.reading]));
        }
        Ok(measured)
    }

    /// Runs the line of a setting.
    fn switch(&self, rig: &dyn Rig, turns: Turns<'_>, on: bool) -> Result<(), TrialError> {
        let (name, line) = if on { ("on", &turns.toggle.on) } else { ("off", &turns.toggle.off) };
        let output = host_of(rig)?.run(&Command {
            program: Program::Shell(line),
            stdin: "",
            timeout: SWITCH_TIMEOUT,
            cancellable: true,
        })?;
        if output.success() {
            return Ok(());
        }
        let ended = output.exit_code.map_or_else(
            || "was ended by a signal".to_owned(),
            |code| format!("ended with exit code {code}"),
        );
        let what = format!("`{name}` of its toggle, `{line}`, {ended}: {}", output.said());
        Err(DutError::Configuration { dut: turns.dut.to_owned(), what }.into())
    }
}

fn window(
    (pair, role): (u32, Role),
    start_ns: u64,
    before: &DutMoment,
    after: &DutMoment,
) -> Window {
    let (first, last) = (&before.reading, &after.reading);
    Window {
        pair,
        role,
        t_ns: first.t_ns.saturating_sub(start_ns),
        elapsed_ns: last.t_ns.saturating_sub(first.t_ns),
        run_ns: after.run_ns.saturating_sub(before.run_ns),
        received_packets: after.received_packets.saturating_sub(before.received_packets),
        delivered_packets: last.rx_packets.saturating_sub(first.rx_packets),
    }
}

/// The windows with `off` as one run without the rest: what the figure of such a trial is of.
pub(super) fn readings_of_off(measured: &[Measured]) -> Vec<Reading> {
    let mut sum = Reading { t_ns: 0, rx_packets: 0, rx_bytes: 0, tx_packets: 0 };
    let mut readings = vec![sum];
    for (_, [first, last]) in measured.iter().filter(|(window, _)| !window.role.is_on()) {
        sum.t_ns += last.t_ns - first.t_ns;
        sum.rx_packets += last.rx_packets - first.rx_packets;
        sum.rx_bytes += last.rx_bytes - first.rx_bytes;
        sum.tx_packets += last.tx_packets - first.tx_packets;
        readings.push(sum);
    }
    readings
}

/// What a packet costs with `off`; the sink's part is that of the whole run.
#[expect(clippy::cast_precision_loss, reason = "packets and times of a run are below 2^53")]
pub(super) fn cost_of_off(windows: &[Window], whole: Option<Cost>) -> Option<Cost> {
    let off = || windows.iter().filter(|window| !window.role.is_on());
    let run_ns: u64 = off().map(|window| window.run_ns).sum();
    let packets: u64 = off().map(|window| window.received_packets).sum();
    let elapsed_ns: u64 = off().map(|window| window.elapsed_ns).sum();
    (packets > 0 && elapsed_ns > 0).then(|| Cost {
        cost_ns: run_ns as f64 / packets as f64,
        apparatus_ratio: whole.and_then(|cost| cost.apparatus_ratio),
        run_ns,
        packets,
        busy_cpus: Some(run_ns as f64 / elapsed_ns as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_its_pairs_and_a_control_in_an_order_of_its_seed() {
        let windows = order(50, 7);
        assert_eq!(windows, order(50, 7));
        assert_ne!(windows, order(50, 8));
        let mut first_is_on = 0;
        for (pair, two) in (0_u32..).zip(windows.chunks(2)) {
            assert!(two.iter().all(|(number, _)| *number == pair), "{two:?}");
            let roles = [two[0].1, two[1].1];
            let is_pair = roles.contains(&Role::On) && roles.contains(&Role::Off);
            let is_control = roles.contains(&Role::ControlOn) && roles.contains(&Role::ControlOff);
            assert!(is_pair || is_control, "{roles:?}");
            first_is_on += u32::from(roles[0] == Role::On);
        }
        let count = |role| windows.iter().filter(|(_, r)| *r == role).count();
        assert_eq!((count(Role::On), count(Role::ControlOn)), (100, 50));
        assert!((30..70).contains(&first_is_on), "{first_is_on}");
        assert_eq!(block_count(Duration::from_secs(20)), 6);
        assert_eq!(BLOCK, (SETTLE + WINDOW) * 2 * (PAIRS + 1));
    }

    #[test]
    fn figure_and_cost_are_those_of_off() {
        let moment = |t_ns: u64, run_ns: u64, packets: u64| DutMoment {
            run_ns,
            received_packets: packets * 2,
            reading: Reading {
                t_ns,
                rx_packets: packets,
                rx_bytes: packets * 60,
                tx_packets: packets * 3,
            },
        };
        let measured = |role, at: u64, run_ns: u64, packets: u64| {
            let (before, after) =
                (moment(at, 5, 100), moment(at + 1_000, 5 + run_ns, 100 + packets));
            (window((0, role), 500, &before, &after), [before.reading, after.reading])
        };
        let all = [
            measured(Role::Off, 500, 800, 10),
            measured(Role::On, 2_000, 100, 10),
            measured(Role::ControlOff, 4_000, 700, 5),
        ];
        assert_eq!((all[1].0.t_ns, all[1].0.elapsed_ns, all[1].0.run_ns), (1_500, 1_000, 100));
        let readings = readings_of_off(&all);
        let last = readings.last().unwrap();
        assert_eq!(
            (readings.len(), last.t_ns, last.rx_packets, last.tx_packets),
            (3, 2_000, 15, 45)
        );
        let windows: Vec<Window> = all.iter().map(|(window, _)| *window).collect();
        let cost = cost_of_off(&windows, None).unwrap();
        assert_eq!((cost.cost_ns, cost.packets, cost.busy_cpus), (50.0, 30, Some(0.75)));
    }
}
