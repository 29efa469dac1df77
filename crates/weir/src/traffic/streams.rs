//! The streams of `weir gen`: from the command line or a file, and the MAC addresses that they do
//! not name.

use std::fs;

use anyhow::{Context as _, bail};
use weir_gen::next_hop;
use weir_gen::preflight::Path;
use weir_gen::stream_file;
use weir_wire::describe::{Described, Description, FieldError, Macs};
use weir_wire::mac::MacAddr;
use weir_wire::range::Span as _;
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;

use crate::cli::traffic::GenArgs;

/// Source of packets that go into a file and name no other.
const FILE_SRC_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// In the place of addresses that are not looked up yet.
const UNKNOWN: Macs = Macs { src: FILE_SRC_MAC, dst: FILE_SRC_MAC };

/// What will be sent.
#[derive(Debug)]
pub(super) struct Streams {
    specs: Vec<(StreamSpec, u32)>,
    /// For each: the MAC addresses that were written.
    macs: Vec<(Option<MacAddr>, Option<MacAddr>)>,
    pub(super) names: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Streams {
    /// Reads all fields. MAC addresses that are not written are not known yet.
    pub(super) fn read(args: &GenArgs) -> anyhow::Result<Self> {
        let mut streams =
            Self { specs: Vec::new(), macs: Vec::new(), names: Vec::new(), notes: Vec::new() };
        // Of a single stream and of all streams of a file.
        let given = args.one.description();
        let Some(file) = &args.stream else {
            streams.add(&given).map_err(|error| option_error(&error))?;
            return Ok(streams);
        };
        let name = file.display();
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read the streams of {name}"))?;
        let tables = stream_file::read(&text).with_context(|| name.to_string())?;
        for mut table in tables {
            for field in ["src_mac", "dst_mac"] {
                if let (Some(mac), None) = (given.get(field), table.description.get(field)) {
                    table.description.set(field, mac);
                }
            }
            let added = streams.add(&table.description);
            added.map_err(|error| table.locate(&error)).with_context(|| name.to_string())?;
        }
        Ok(streams)
    }

    /// Adds a stream, or those that it is spread into.
    fn add(&mut self, description: &Description) -> Result<(), FieldError> {
        let Ok(first_number) = u8::try_from(self.specs.len()) else {
            let message = "a stream before it is spread over all 256 that there may be".to_owned();
            return Err(FieldError { field: "src", message });
        };
        for described in description.specs(first_number, UNKNOWN, None)? {
            let Described { spec, weight, name, notes } = described;
            let number = spec.stream;
            self.specs.push((spec, weight));
            self.macs.push((description.mac("src_mac")?, description.mac("dst_mac")?));
            self.names.push(name.unwrap_or_else(|| format!("stream {number}")));
            self.notes.extend(notes);
        }
        Ok(())
    }

    /// Looks up the MAC addresses that were not written.
    pub(super) fn address(
        &mut self,
        interface: Option<&str>,
        path: Option<&Path>,
    ) -> anyhow::Result<()> {
        let link_mac = path.and_then(|path| path.link.mac).map(MacAddr);
        for ((spec, _), (src, dst)) in self.specs.iter_mut().zip(&self.macs) {
            spec.src_mac = src.or(link_mac).unwrap_or(FILE_SRC_MAC);
            spec.dst_mac = match (dst, interface) {
                (Some(mac), _) => *mac,
                (None, Some(interface)) => next_hop::mac(interface, spec.dst.addr(0))?,
                (None, None) => bail!(
                    "--dst-mac is missing: without an interface there is no next hop to ask for it"
                ),
            };
        }
        Ok(())
    }

    pub(super) fn traffic(&self) -> anyhow::Result<Traffic> {
        Ok(Traffic::new(self.specs.clone())?)
    }
}

/// A field's error, as the option that the user wrote.
fn option_error(error: &FieldError) -> anyhow::Error {
    anyhow::anyhow!("--{}: {}", error.field.replace('_', "-"), error.message)
}
