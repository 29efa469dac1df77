//! What the lines of a traffic send, which is what its specification has to say.

use weir_wire::frame::Protocol;
use weir_wire::range::AddrRange;
use weir_wire::stream::size_bytes_min;

use super::BenchLabError;
use super::line::{self, Note};
use super::sets::TrafficSet;

/// What pkt-gen sends without `-l`, bytes without FCS.
const SIZE_BYTES_DEFAULT: u32 = 60;

/// What the lines of a traffic send.
pub(super) struct Sent<'a> {
    set: &'a TrafficSet,
    src: &'a str,
    dst: &'a str,
    /// The size of the frames, and the first line that sends them.
    size: Option<(u32, &'static str)>,
    notes: Vec<Note>,
}

impl<'a> Sent<'a> {
    /// Nothing yet, between these ranges.
    pub(super) fn new(set: &'a TrafficSet, src: &'a str, dst: &'a str) -> Self {
        Self { set, src, dst, size: None, notes: Vec::new() }
    }

    /// Adds the finished line of a sender.
    pub(super) fn read(&mut self, name: &'static str, line: &str) -> Result<(), BenchLabError> {
        let values = &self.set.values;
        let size = match &line::values(line, 'l')[..] {
            [] => {
                if values.get("PKT_SIZE").is_some_and(|size| size != "60") {
                    let why = format!(
                        "{name} has no `-l`, and pkt-gen sends frames of {SIZE_BYTES_DEFAULT} \
                         bytes then: write `-l ${{PKT_SIZE}}` into it"
                    );
                    return Err(values.refuse("PKT_SIZE", why));
                }
                self.fixed(name, SIZE_BYTES_DEFAULT)?
            }
            [given] if given == "${size}" => self.asked()?,
            [given] if given.parse::<u32>().is_ok() => {
                if let Some(size) = values.get("PKT_SIZE").filter(|size| size != given) {
                    self.notes.push(format!(
                        "PKT_SIZE=\"{size}\" is not used by {name}, which has `-l {given}`"
                    ));
                }
                self.fixed(name, given.parse().unwrap_or(SIZE_BYTES_DEFAULT))?
            }
            _ => {
                let why = "weir cannot tell the size of its frames: write one `-l ${PKT_SIZE}`, \
                           or one `-l` with a number, into it";
                return Err(values.refuse(name, why));
            }
        };
        match self.size {
            Some((other, first)) if other != size => {
                let why = format!(
                    "its frames have {size} bytes, and those of {first} {other}: a traffic of \
                     weir's has one size; write `-l ${{PKT_SIZE}}` into both"
                );
                return Err(values.refuse(name, why));
            }
            Some(_) => {}
            None => self.size = Some((size, name)),
        }
        self.range(name, line, 's', ("SENDER_LAB_NET", "${src}", self.src));
        self.range(name, line, 'd', ("RECEIVER_LAB_NET", "${dst}", self.dst));
        Ok(())
    }

    /// The size of the frames, and what somebody should know.
    pub(super) fn size(self) -> (u32, Vec<Note>) {
        (self.size.map_or(SIZE_BYTES_DEFAULT, |(size, _)| size), self.notes)
    }

    /// The size where the line takes whatever weir says.
    fn asked(&mut self) -> Result<u32, BenchLabError> {
        let values = &self.set.values;
        let size = values.get("PKT_SIZE").map_or(Ok(SIZE_BYTES_DEFAULT), str::parse);
        let size: u32 = size
            .map_err(|_| values.refuse("PKT_SIZE", "it is a number of bytes, without the FCS"))?;
        let smallest = smallest_bytes(self.src);
        if size < smallest {
            let note = format!(
                "{}: PKT_SIZE=\"{size}\" becomes {smallest}, the smallest frame that weir has for \
                 such ranges, because its own generator could send no smaller one",
                self.set.name
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(size.max(smallest))
    }

    /// The size that a line has, whatever weir says.
    fn fixed(&self, name: &str, size: u32) -> Result<u32, BenchLabError> {
        let smallest = smallest_bytes(self.src);
        if size < smallest {
            let why = format!(
                "its frames have {size} bytes, and the smallest that weir has for such ranges have \
                 {smallest}: write `-l ${{PKT_SIZE}}` into it, and before it \
                 `: ${{PKT_SIZE:=\"{smallest}\"}}`"
            );
            return Err(self.set.values.refuse(name, why));
        }
        Ok(size)
    }

    /// Notes a line that has ranges of its own, or pkt-gen's.
    fn range(&mut self, name: &str, line: &str, letter: char, range: (&str, &str, &str)) {
        let (variable, reference, set) = range;
        let given = line::values(line, letter).pop();
        if given.as_ref().is_some_and(|given| given.contains(reference) || given == set) {
            return;
        }
        let given = given.map_or(format!("no `-{letter}`"), |given| format!("`-{letter} {given}`"));
        self.notes.push(format!(
            "{name} has {given}: its packets are not those of {variable}=\"{set}\", which the \
             specification says; write `-{letter} ${{{variable}}}` into it"
        ));
    }
}

/// The smallest frame of a range of addresses, bytes without FCS.
fn smallest_bytes(range: &str) -> u32 {
    // One that is none is refused with the specification.
    let over_ipv6 = AddrRange::parse(range, 1).is_ok_and(|(range, _)| range.is_ipv6());
    u32::from(size_bytes_min(0, over_ipv6, Protocol::Udp))
}
