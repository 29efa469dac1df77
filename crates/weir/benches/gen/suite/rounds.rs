//! The rounds: each takes one sample of every series.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_gen::backend::Backend;
use weir_gen::live::LiveGenerator;
use weir_machine::cancel::Cancel;
use weir_wire::units::Rate;

use super::bed::{self, Bed, End, OTHER_CPU, Output, Receiver, Regime, SENDER_CPU, Sample, wait};
use super::senders::{
    DESTINATION_MAC, Fixed, RANGES_5M, RANGES_4900, Sender, generator, options, stream,
};
use super::taken::Threads;
use super::{AllSeries, Result, Settings, rows, trafgen};

/// A sender sends for this part of a slice before it is measured.
const WARM_UP_PARTS: u32 = 5;

/// How long a program of ours may take to start and to end.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(20);

/// What all rounds share.
struct Rounds<'a> {
    /// With one queue.
    bed: Bed,
    /// With two, for two threads.
    wide: Bed,
    settings: &'a Settings,
    cancel: &'a Cancel,
    series: AllSeries,
}

/// The senders that are made once.
struct Senders {
    fixed: Fixed,
    few: LiveGenerator,
    many: LiveGenerator,
    two: LiveGenerator,
}

/// Which of the senders.
#[derive(Debug, Clone, Copy)]
enum Who {
    Fixed,
    Few,
    Many,
    Two,
}

impl Senders {
    fn get(&mut self, who: Who) -> &mut dyn Sender {
        match who {
            Who::Fixed => &mut self.fixed,
            Who::Few => &mut self.few,
            Who::Many => &mut self.many,
            Who::Two => &mut self.two,
        }
    }
}

/// One sender into one end, and the series that it gives.
#[derive(Debug, Clone, Copy)]
struct Figure {
    who: Who,
    end: End,
    delivered: &'static str,
    offered: Option<&'static str>,
}

const fn figure(who: Who, end: End, delivered: &'static str) -> Figure {
    Figure { who, end, delivered, offered: None }
}

const fn figures(who: Who, end: End, delivered: &'static str, offered: &'static str) -> Figure {
    Figure { who, end, delivered, offered: Some(offered) }
}

/// Where one CPU sends and receives.
const SHARED: [Figure; 6] = [
    figure(Who::Fixed, End::Drop, rows::MINIMAL),
    figure(Who::Few, End::Drop, rows::FLOWS_4900),
    figure(Who::Many, End::Drop, rows::FLOWS_5M),
    figure(Who::Two, End::Drop, rows::THREADS_2),
    figure(Who::Few, End::BareSink, rows::SINK_BARE_SHARED),
    figure(Who::Few, End::FullSink, rows::SINK_FULL_SHARED),
];

/// Where the receiver has a CPU of its own.
const APART: [Figure; 5] = [
    figures(Who::Fixed, End::Drop, rows::MINIMAL_DELIVERED, rows::MINIMAL_OFFERED),
    figures(Who::Few, End::Drop, rows::FLOWS_4900_DELIVERED, rows::FLOWS_4900_OFFERED),
    figures(Who::Many, End::Drop, rows::FLOWS_5M_DELIVERED, rows::FLOWS_5M_OFFERED),
    figures(Who::Few, End::BareSink, rows::SINK_BARE, rows::SINK_BARE_OFFERED),
    figures(Who::Few, End::FullSink, rows::SINK_FULL, rows::SINK_FULL_OFFERED),
];

/// Takes all samples.
pub(crate) fn run(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Result<AllSeries> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let online = weir_net::cpu::online()?;
    if [SENDER_CPU, OTHER_CPU].iter().any(|&cpu| !online.contains(cpu as usize)) {
        return Err(format!(
            "CPUs {SENDER_CPU} and {OTHER_CPU} are needed, but only {online} are online"
        )
        .into());
    }
    let bed = |queues| Bed::new(NEXT.fetch_add(1, Ordering::Relaxed), queues);
    let (bed, wide) = (bed(1)?, bed(2)?);
    let mut rounds = Rounds { bed, wide, settings, cancel, series: AllSeries::new() };
    let (few, many) = (stream(RANGES_4900)?, stream(RANGES_5M)?);
    let mut senders = Senders {
        fixed: Fixed::new(&rounds.bed)?,
        few: generator(&rounds.bed, &few, &[SENDER_CPU])?,
        many: generator(&rounds.bed, &many, &[SENDER_CPU])?,
        two: generator(&rounds.wide, &few, &[SENDER_CPU, OTHER_CPU])?,
    };
    let begin = Instant::now();
    for round in 1..=settings.repeats {
        say(&format!(
            "round {round} of {} after {} s",
            settings.repeats,
            begin.elapsed().as_secs()
        ));
        rounds.figures(Regime::Shared, &SHARED, &mut senders)?;
        rounds.trafgen()?;
        rounds.figures(Regime::Apart, &APART, &mut senders)?;
        rounds.rate(&mut senders.few, rows::RATE_100K, 100_000.0)?;
        rounds.rate(&mut senders.few, rows::RATE_500K, 500_000.0)?;
        rounds.memory()?;
    }
    Ok(rounds.series)
}

impl Rounds<'_> {
    /// One sample of each figure, in slices and in turns.
    fn figures(&mut self, regime: Regime, figures: &[Figure], senders: &mut Senders) -> Result<()> {
        let figures: Vec<&Figure> =
            figures.iter().filter(|figure| self.wants_any(figure)).collect();
        let mut samples = vec![Sample::default(); figures.len()];
        let mut end: Option<(End, bool, Receiver)> = None;
        for _ in 0..self.settings.slices {
            for (figure, sample) in figures.iter().zip(&mut samples) {
                let wide = matches!(figure.who, Who::Two);
                let bed = if wide { &self.wide } else { &self.bed };
                let receiver = match end.take() {
                    Some((same, there, receiver)) if same == figure.end && there == wide => {
                        receiver
                    }
                    other => {
                        drop(other);
                        bed.receive(regime, figure.end)?
                    }
                };
                let slice = self.slice(bed, &receiver, senders.get(figure.who))?;
                sample.offered.add(&slice.offered);
                sample.delivered.add(&slice.delivered);
                end = Some((figure.end, wide, receiver));
            }
        }
        for (figure, sample) in figures.into_iter().zip(&samples) {
            self.add(figure.delivered, &sample.delivered);
            if let Some(offered) = figure.offered {
                self.add(offered, &sample.offered);
            }
        }
        Ok(())
    }

    fn wants_any(&self, figure: &Figure) -> bool {
        self.wants(figure.delivered) || figure.offered.is_some_and(|offered| self.wants(offered))
    }

    /// trafgen, which may have its reasons not to send.
    fn trafgen(&mut self) -> Result<()> {
        if !self.wants(rows::TRAFGEN) {
            return Ok(());
        }
        let receiver = self.bed.receive(Regime::Shared, End::Drop)?;
        let time = self.settings.sample;
        let warm_up = time / WARM_UP_PARTS;
        match trafgen::sample(&self.bed, &receiver, warm_up, time, self.cancel)? {
            Ok(delivered) => self.add(rows::TRAFGEN, &delivered),
            Err(reason) => {
                self.series.entry(rows::TRAFGEN).or_default().missing = Some(reason);
            }
        }
        Ok(())
    }

    /// A part of a sample of a sender at full speed.
    fn slice(&self, bed: &Bed, receiver: &Receiver, sender: &mut dyn Sender) -> Result<Sample> {
        let time = self.settings.sample / self.settings.slices;
        sender.start()?;
        let sample = wait(time / WARM_UP_PARTS, self.cancel)
            .and_then(|()| bed.sample(receiver, &Threads::senders(), time, self.cancel));
        sender.stop()?;
        sample
    }

    /// A rate over a whole run: all that was delivered, over the time from the first call into the
    /// kernel to the return of the last.
    fn rate(&mut self, generator: &mut LiveGenerator, name: &'static str, pps: f64) -> Result<()> {
        if !self.wants(name) {
            return Ok(());
        }
        let receiver = self.bed.receive(Regime::Shared, End::Drop)?;
        Backend::start(generator, options(Rate::Pps(pps)))?;
        let waited = wait(self.settings.rate_sample, self.cancel);
        let report = Backend::stop(generator)?;
        waited?;
        self.add(name, &bed::Figure::new(receiver.settled_packets()?, report.duration));
        Ok(())
    }

    /// The largest resident memory of the command while it sends five million flows.
    fn memory(&mut self) -> Result<()> {
        if !self.wants(rows::MEMORY_5M) {
            return Ok(());
        }
        let _receiver = self.bed.receive(Regime::Shared, End::Drop)?;
        let weir = self.settings.weir.to_str().ok_or("the path of weir is not UTF-8")?;
        let duration = format!("{}ms", self.settings.sample.as_millis().max(200));
        let mac = DESTINATION_MAC.to_string();
        let cpu = SENDER_CPU.to_string();
        let [src, dst] = RANGES_5M;
        let argv = [
            weir,
            "gen",
            "-i",
            self.bed.out(),
            "--src",
            src,
            "--dst",
            dst,
            "--dst-mac",
            &mac,
            "--duration",
            &duration,
            "--cpus",
            &cpu,
        ];
        let output = Output::new()?;
        let process = self.bed.spawn(&argv, &output)?;
        let status = format!("/proc/{}/status", process.pid());
        let deadline = Instant::now() + self.settings.sample + PROGRAM_PATIENCE;
        let mut peak_kib = 0;
        let ended = loop {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            peak_kib = peak_kib.max(peak_resident_kib(&text).unwrap_or(0));
            if let Some(ended) = process.try_wait()? {
                break ended;
            }
            if Instant::now() > deadline {
                return Err(format!("`{}` does not end", argv.join(" ")).into());
            }
            wait(Duration::from_millis(5), self.cancel)?;
        };
        if !ended.success() {
            return Err(format!("`{}` ({ended}): {}", argv.join(" "), output.last_line()).into());
        }
        let series = self.series.entry(rows::MEMORY_5M).or_default();
        series.samples.push(peak_kib as f64 / 1024.0);
        Ok(())
    }

    /// Whether a row needs the series.
    fn wants(&self, series: &str) -> bool {
        self.settings.rows.iter().any(|row| row.series == series)
    }

    fn add(&mut self, name: &'static str, figure: &bed::Figure) {
        let series = self.series.entry(name).or_default();
        series.samples.push(figure.pps());
        series.taken_share_max = series.taken_share_max.max(figure.taken_share());
    }
}

/// `VmHWM` of proc_pid_status(5), KiB. A process that has ended has none.
fn peak_resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
