//! A capture file that is sent: read, checked, readdressed, and given to a backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_gen::backend::{Backend, RunOptions};
use weir_gen::packet::PacketGenerator;
use weir_gen::pcap::PcapGenerator;
use weir_gen::replay::{Replay, ReplayTiming};
use weir_results::number;
use weir_wire::mac::MacAddr;
use weir_wire::units::{format_count, whole_ns};

use crate::cli::traffic::{BackendName, GenArgs, RateArg};

/// A file that will be sent.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) file: PathBuf,
    pub(super) replay: Arc<Replay>,
    pub(super) timing: ReplayTiming,
    /// How often; 0 is without end.
    pub(super) loops: u64,
}

impl Recording {
    /// Reads and checks the file, and rewrites its addresses.
    pub(super) fn read(args: &GenArgs, file: &Path) -> anyhow::Result<Self> {
        let name = file.display();
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
        let mut replay = Replay::parse(bytes).with_context(|| name.to_string())?;
        let (src, dst) = args.one.macs();
        let src = mac("--src-mac", src)?;
        if let Some(src) = src.filter(MacAddr::is_multicast) {
            bail!("--src-mac: {src} cannot be a source: it is a multicast or broadcast address");
        }
        replay.rewrite(src, mac("--dst-mac", dst)?);
        let timing = match args.rate() {
            RateArg::Recorded => ReplayTiming::Recorded,
            RateArg::Rate(_) => ReplayTiming::Rate,
        };
        let loops = args.replay.loops.unwrap_or(1);
        if timing == ReplayTiming::Recorded && loops != 1 && replay.duration().is_zero() {
            bail!(
                "all packets in {name} were recorded at the same time, so it cannot be looped at \
                 its recorded speed: give a --rate, such as `max`"
            );
        }
        Ok(Self { file: file.to_owned(), replay: Arc::new(replay), timing, loops })
    }

    /// The backend, ready to start.
    pub(super) fn backend(
        &self,
        backend: &BackendName,
        ifindex: Option<u32>,
        cpus: &[u32],
    ) -> anyhow::Result<Box<dyn Backend>> {
        let replay = Arc::clone(&self.replay);
        Ok(match (backend, ifindex, cpus) {
            (BackendName::Pcap(file), ..) => {
                Box::new(PcapGenerator::replay(replay, self.timing, file))
            }
            (BackendName::Packet, Some(ifindex), [cpu]) => {
                Box::new(PacketGenerator::replay(replay, self.timing, ifindex, *cpu)?)
            }
            _ => bail!("a file is sent from one interface, by one thread"),
        })
    }

    /// The file, for people.
    pub(super) fn describe(&self) -> String {
        let loops = match self.loops {
            0 => ", repeated forever".to_owned(),
            1 => String::new(),
            count => format!(", {} times", format_count(count)),
        };
        format!(
            "{}: {} packets, {} bytes, recorded over {}{loops}",
            self.file.display(),
            format_count(self.replay.packet_count()),
            format_count(self.replay.byte_count()),
            number::duration(whole_ns(self.replay.duration())),
        )
    }

    /// How many packets are due within a time, at a rate or as recorded; `None` at `max`.
    pub(super) fn due(&self, options: &RunOptions, duration: Duration) -> Option<f64> {
        match self.timing {
            // Without time in the file, all packets are due at once, and no rate was asked for.
            ReplayTiming::Recorded => Some(self.replay.count_within(duration))
                .filter(|count| *count != u64::MAX)
                .map(|count| count as f64),
            ReplayTiming::Rate => {
                let schedule = options.schedule().ok().flatten();
                schedule.map(|schedule| schedule.packets_by(duration))
            }
        }
    }
}

fn mac(option: &str, text: Option<&str>) -> anyhow::Result<Option<MacAddr>> {
    text.map(|text| text.parse().with_context(|| option.to_owned())).transpose()
}
