//! One series of an archive: its files are read, each run is reduced, judged and written, and the
//! medians that the archive publishes are held against them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use weir_machine::cancel::Cancel;
use weir_results::collection::{DUT, FLOWS, IMAGE, Level, SIZE_BYTES, TRAFFIC, Unit};
use weir_results::label;
use weir_results::record::VerdictKind;

use super::info::{self, Info};
use super::job::{BITS_PER_MEGABIT, Job, source_of};
use super::judge::{self, Answer, Run};
use super::log::Log;
use super::name::{Role, ls_order};
use super::publish::Read;
use super::published::{self, Noted, OnLine, RUNS_MAX};
use super::scan::{self, Place, RANK_PROFILED, RunFile};
use super::write::Writer;
use super::{
    ARCHIVE_SCHEMA, ArchiveError, Basis, Figure, Flag, ImportedTrial, Problem, ProblemKind, Source,
    command,
};

/// First line of an imported `samples.csv`.
const SAMPLES_HEADER: &str = "file,line,time_s,rate_pps,packets,interval_us,counts\n";

/// Imports a series.
///
/// # Errors
/// When a run cannot be written, or somebody asked to stop.
pub(super) fn import(
    source: &Path,
    job: &Job<'_>,
    writer: &Writer,
    cancel: &Cancel,
    bytes: &mut Vec<u8>,
) -> Result<Read, ArchiveError> {
    let mut reader = Reader { source, bytes, read: Read::new(job) };
    let info = reader.info(job.files.info.as_ref());
    let mut sent = command::Sent::default();
    for (&iteration, files) in &job.files.runs {
        if let Some(signal) = cancel.signal() {
            return Err(ArchiveError::Cancelled { signal });
        }
        let Some(run) = reader.run(files) else { continue };
        if let Some(command) = run.commands.iter().find(|(ending, _)| ending.starts_with("sender"))
        {
            sent = command::parse(command.1);
        }
        reader.keep(job, iteration, run, writer)?;
    }
    reader.published(job, writer)?;
    let Read { series, .. } = &mut reader.read;
    series.levels = levels(job, &info, sent);
    series.uname = info.uname;
    series.started = info.started;
    series.ended = info.ended;
    series.iterations.sort_unstable();
    Ok(reader.read)
}

/// A run as its files have it.
#[derive(Debug, Default)]
struct RawRun {
    run: Run,
    commands: BTreeMap<String, String>,
    flags: BTreeSet<Flag>,
    sources: Vec<Source>,
    samples: String,
}

/// Reads the files of one series.
struct Reader<'a> {
    source: &'a Path,
    /// The file that is being read.
    bytes: &'a mut Vec<u8>,
    read: Read,
}

impl Reader<'_> {
    fn problem(&mut self, kind: ProblemKind, file: &str, line: Option<u64>, text: String) {
        self.read.problems.push(Problem { file: file.to_owned(), line, kind, text });
    }

    fn skip(&mut self, file: &str, line: Option<u64>, text: String) {
        self.problem(ProblemKind::Skipped, file, line, text);
    }

    /// Reads a file into memory; one that cannot be read is named.
    fn load(&mut self, path: &str) -> Option<Source> {
        if let Err(reason) = scan::read(self.source, path, self.bytes) {
            self.skip(path, None, reason);
            return None;
        }
        self.read.files_read += 1;
        self.read.size_bytes += self.bytes.len() as u64;
        Some(source_of(path, self.bytes))
    }

    fn info(&mut self, place: Option<&Place>) -> Info {
        let Some(place) = place else { return Info::default() };
        if self.load(&place.path).is_none() {
            return Info::default();
        }
        info::parse(self.bytes).unwrap_or_else(|(line, text)| {
            self.skip(&place.path, line, text);
            Info::default()
        })
    }

    /// Reads the files of a run; `None` if there is no log among them.
    fn run(&mut self, files: &BTreeMap<&'static str, RunFile>) -> Option<RawRun> {
        let mut raw = RawRun::default();
        for (ending, RunFile { place, role }) in files {
            let Some(source) = self.load(&place.path) else { continue };
            raw.sources.push(source);
            match role {
                Role::Receiver | Role::Sender => self.log(&mut raw, ending, place, *role),
                Role::After => raw.run.after = Some(Answer::of(self.bytes)),
                // Profiles and other answers are known by their digests.
                _ => {}
            }
        }
        if raw.run.receiver.is_some() || !raw.run.senders.is_empty() {
            return Some(raw);
        }
        for RunFile { place, .. } in files.values() {
            self.skip(&place.path, None, "no log of a receiver or a generator beside it".into());
        }
        None
    }

    fn log(&mut self, raw: &mut RawRun, ending: &str, place: &Place, role: Role) {
        let log = Log::parse(self.bytes);
        let path = &place.path;
        for (line, reason) in &log.skipped {
            self.skip(path, Some(*line), reason.clone());
        }
        if log.skipped_more > 0 {
            self.skip(path, None, format!("{} more lines are not read", log.skipped_more));
        }
        if self.bytes.is_empty() {
            self.skip(path, None, "the file is empty".to_owned());
        }
        if log.flags.contains(&Flag::CutShort) {
            let line = Some(log.line_count + 1);
            self.skip(path, line, "the file is cut short: its last line is incomplete".to_owned());
        }
        if log.flags.contains(&Flag::ScaledUnits) {
            let text = "rates in thousands or millions were scaled up; the archive's own scripts \
                        take `1.067 Mpps` for 1.067";
            self.problem(ProblemKind::Note, path, None, text.to_owned());
        }
        raw.flags.extend(&log.flags);
        if place.rank == RANK_PROFILED {
            raw.flags.insert(Flag::Profiled);
        }
        if let Some(command) = &log.command {
            raw.commands.insert(ending.to_owned(), command.clone());
        }
        add_samples(&mut raw.samples, ending, &log);
        match role {
            Role::Receiver => raw.run.receiver = Some((path.clone(), log)),
            _ => raw.run.senders.push((path.clone(), log)),
        }
    }

    /// Reduces a run, judges it and writes it.
    fn keep(
        &mut self,
        job: &Job<'_>,
        iteration: u32,
        raw: RawRun,
        writer: &Writer,
    ) -> Result<(), ArchiveError> {
        let RawRun { run, commands, mut flags, sources, samples } = raw;
        if run.senders.len() > 1 {
            flags.insert(Flag::SeveralGenerators);
        }
        let estimate = match &run.receiver {
            Some(_) => None,
            None => run.senders.iter().find_map(|(path, log)| Some((path, log.estimate?))),
        };
        let (unit, basis, figure, verdict) = match estimate {
            Some((_, ref found)) => {
                let (median, maximum) = (found.rate, found.rate_max.unwrap_or(found.rate));
                let figure = Figure { median, minimum: median, maximum, sample_count: 0 };
                if found.rate_max.is_none() {
                    flags.insert(Flag::NoMaximum);
                }
                let unit = if found.is_bits { Unit::Bps } else { Unit::Pps };
                (unit, Basis::Equilibrium, Some(figure), None)
            }
            None => {
                let figure = run.receiver.as_ref().and_then(|(_, log)| judge::figure(log));
                (Unit::Pps, Basis::Samples, figure, run.judge(figure.as_ref()))
            }
        };
        let file = sources.first().map_or_else(String::new, |source| source.path.clone());
        if !self.read.series.iterations.is_empty() && self.read.series.unit != unit {
            let other = self.read.series.unit.name();
            let text = format!("mixed units: it is in {}, the series in {other}", unit.name());
            self.skip(&file, estimate.map(|(_, estimate)| estimate.line), text);
            return Ok(());
        }
        self.read.series.unit = unit;
        if let Some(void) = verdict.as_ref().filter(|v| v.kind == VerdictKind::Invalid) {
            self.problem(ProblemKind::Invalid, &file, None, void.reason.clone());
        }
        let trial = ImportedTrial {
            schema: ARCHIVE_SCHEMA,
            series: job.name.clone(),
            iteration,
            unit,
            basis,
            figure,
            offered: run.offered_pps().filter(|_| basis == Basis::Samples),
            verdict,
            flags: flags.into_iter().collect(),
            commands,
            sources,
        };
        self.write(&trial, &samples, writer)
    }

    fn write(
        &mut self,
        trial: &ImportedTrial,
        samples: &str,
        writer: &Writer,
    ) -> Result<(), ArchiveError> {
        writer.cell(trial, samples)?;
        self.read.series.iterations.push(trial.iteration);
        if let Some(figure) = trial.figure {
            self.read.figures.insert(trial.iteration, figure);
        }
        Ok(())
    }

    /// Holds what the archive publishes of the series against its runs, or takes the medians from
    /// there if there are no runs.
    fn published(&mut self, job: &Job<'_>, writer: &Writer) -> Result<(), ArchiveError> {
        let files = job.files;
        let sets =
            [(&files.pps, Unit::Pps, 1.0), (&files.equilibrium, Unit::Bps, BITS_PER_MEGABIT)];
        let mut maxima = self.maxima(files.equilibrium_max.as_ref());
        for (place, unit, scale) in sets {
            let Some(place) = place else { continue };
            let Some(source) = self.load(&place.path) else { continue };
            let (medians, problems) = published::medians(self.bytes);
            for (line, reason) in problems.listed() {
                self.skip(&place.path, line, reason);
            }
            if medians.len() > RUNS_MAX {
                let count = medians.len();
                let text = format!("it has {count} medians, more than {RUNS_MAX}: it is left out");
                self.skip(&place.path, None, text);
                continue;
            }
            let is_empty = self.read.series.iterations.is_empty();
            if !is_empty && self.read.series.unit != unit {
                let other = self.read.series.unit.name();
                let text = format!("mixed units: it is in {}, the series in {other}", unit.name());
                self.skip(&place.path, None, text);
            } else if is_empty {
                self.read.series.unit = unit;
                self.adopt(job, &source, &medians, (unit, scale), &mut maxima, writer)?;
            } else {
                self.compare(&place.path, &medians, scale, |figure| figure.median);
            }
        }
        if let (Some(place), Unit::Bps) = (&files.equilibrium_max, self.read.series.unit) {
            self.compare(&place.path, &maxima, BITS_PER_MEGABIT, |figure| figure.maximum);
        }
        Ok(())
    }

    fn maxima(&mut self, place: Option<&Place>) -> Vec<OnLine<f64>> {
        let Some(place) = place else { return Vec::new() };
        if self.load(&place.path).is_none() {
            return Vec::new();
        }
        let (values, problems) = published::medians(self.bytes);
        for (line, reason) in problems.listed() {
            self.skip(&place.path, line, reason);
        }
        values
    }

    /// Runs of which the archive has nothing but their medians, in the order of `ls`.
    fn adopt(
        &mut self,
        job: &Job<'_>,
        source: &Source,
        medians: &[OnLine<f64>],
        (unit, scale): (Unit, f64),
        maxima: &mut [OnLine<f64>],
        writer: &Writer,
    ) -> Result<(), ArchiveError> {
        let mut iterations: Vec<u32> = (1..).take(medians.len()).collect();
        ls_order(&mut iterations);
        let basis = if unit == Unit::Bps { Basis::Equilibrium } else { Basis::Median };
        let has_maxima = maxima.len() == medians.len();
        let lacks_maximum = basis == Basis::Equilibrium && !has_maxima;
        let flags: Vec<Flag> = lacks_maximum.then_some(Flag::NoMaximum).into_iter().collect();
        for (index, (&iteration, (_, value))) in iterations.iter().zip(medians).enumerate() {
            let median = value * scale;
            let maximum = if has_maxima { maxima[index].1 * scale } else { median };
            let trial = ImportedTrial {
                schema: ARCHIVE_SCHEMA,
                series: job.name.clone(),
                iteration,
                unit,
                basis,
                figure: Some(Figure { median, minimum: median, maximum, sample_count: 0 }),
                offered: None,
                verdict: None,
                flags: flags.clone(),
                commands: BTreeMap::new(),
                sources: vec![source.clone()],
            };
            self.write(&trial, SAMPLES_HEADER, writer)?;
        }
        let text = format!("{} medians without the samples they come from", medians.len());
        self.problem(ProblemKind::Note, &source.path, None, text);
        Ok(())
    }

    /// Names where the archive publishes something else than its own files give.
    fn compare(
        &mut self,
        path: &str,
        values: &[OnLine<f64>],
        scale: f64,
        of: impl Fn(&Figure) -> f64,
    ) {
        let mut iterations: Vec<u32> = self.read.figures.keys().copied().collect();
        ls_order(&mut iterations);
        let ours: Vec<f64> = iterations
            .iter()
            .map(|i| published::as_written(of(&self.read.figures[i]) / scale))
            .collect();
        if ours.len() != values.len() {
            let text = format!(
                "{} medians are published, and the logs that are there give {}",
                values.len(),
                ours.len()
            );
            self.problem(ProblemKind::Differs, path, None, text);
            return;
        }
        let mut differing = Noted::default();
        for ((line, theirs), ours) in values.iter().zip(ours) {
            if *theirs != ours {
                differing.add(*line, format!("{theirs} is published, and the log gives {ours}"));
            }
        }
        for (line, text) in differing.listed() {
            self.problem(ProblemKind::Differs, path, line, text);
        }
    }
}

/// Adds the samples of a log.
fn add_samples(text: &mut String, ending: &str, log: &Log) {
    if text.is_empty() {
        text.push_str(SAMPLES_HEADER);
    }
    for sample in &log.samples {
        // Writing to a String cannot fail.
        let _ = write!(text, "{ending},{},", sample.line);
        let _ = sample.time_s.map(|time_s| write!(text, "{time_s:.6}"));
        let _ = write!(text, ",{},", sample.rate_pps);
        let _ = sample.packets.map(|packets| write!(text, "{packets}"));
        text.push(',');
        let _ = sample.interval_us.map(|interval_us| write!(text, "{interval_us}"));
        let _ = writeln!(text, ",{}", u8::from(judge::counts(log, sample)));
    }
}

/// The place of a series in every dimension: those that the `.info` names, the numbers in their
/// names, and what pkt-gen was told. Without an `.info`, the whole name is the configuration.
#[expect(clippy::cast_precision_loss, reason = "flow counts stay far below 2^53")]
fn levels(job: &Job<'_>, info: &Info, sent: command::Sent) -> Vec<Level> {
    let has_names =
        [&info.image, &info.configuration, &info.traffic].iter().any(|name| name.is_some());
    let configuration = match has_names {
        true => info.configuration.as_deref(),
        false => Some(job.file_name),
    };
    let named = |dimension: &str, name: &str| Level {
        dimension: dimension.to_owned(),
        label: name.to_owned(),
        number: label::number(name),
    };
    let mut levels = Vec::new();
    levels.extend((!job.results.is_empty()).then(|| Level {
        dimension: "results".to_owned(),
        label: job.results.to_owned(),
        number: None,
    }));
    levels.extend(info.image.as_deref().map(|image| named(IMAGE, image)));
    levels.extend(configuration.map(|name| named(DUT, name)));
    levels.extend(info.traffic.as_deref().map(|name| named(TRAFFIC, name)));
    let counted = |dimension: &str, value: u64| Level {
        dimension: dimension.to_owned(),
        label: value.to_string(),
        number: Some(value as f64),
    };
    levels.extend(sent.flow_count.map(|count| counted(FLOWS, count)));
    levels.extend(sent.size_bytes.map(|size| counted(SIZE_BYTES, u64::from(size))));
    for name in configuration.into_iter().chain(info.traffic.as_deref()) {
        for found in label::in_name(name) {
            if levels.iter().all(|level| level.dimension != found.dimension) {
                levels.push(found);
            }
        }
    }
    levels
}
