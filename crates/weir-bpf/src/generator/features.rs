//! What a set of streams has: the constants for which the program is loaded, `struct weir_set` of
//! `bpf/include/weir/set.h`. The verifier takes out the code for everything else.

use weir_wire::stream::{StreamFrames, StreamSet};
use weir_wire::walk::Walk;

use super::lane;
use crate::words::{layout, set, set_walks};

/// The section, and so the map, of the constants.
pub(super) const SECTION: &str = ".rodata.set";

/// The constants of a set, as bytes of their section.
pub(super) fn encode(set: &StreamSet) -> Vec<u8> {
    let streams = set.streams();
    let union = |bits: fn(&StreamFrames) -> u64| streams.iter().map(bits).fold(0, |all, b| all | b);
    let (min_bytes, max_bytes) = set.size_bytes_range();
    let mut words = [0; set::WORDS];
    words[set::STREAM_COUNT] = streams.len() as u64;
    words[set::LAYOUTS] = union(|stream| 1 << lane::layout(stream));
    words[set::WALKS] = union(|stream| match stream.spec().walk {
        Walk::Odometer => set_walks::ODOMETER,
        Walk::Random { .. } => set_walks::RANDOM,
    });
    words[set::TAGGED] = union(|stream| u64::from(!stream.spec().tags.is_empty()));
    words[set::TUNNELLED] = union(|stream| u64::from(stream.spec().encap.is_some()));
    words[set::RESIZED] = u64::from(min_bytes != max_bytes);
    words[set::SIZE_BYTES_MAX] = u64::from(max_bytes);
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The program that sends the set.
pub(super) fn program(set: &StreamSet) -> &'static str {
    if is_plain(set) { "weir_gen_plain" } else { "weir_gen" }
}

/// Whether the set is one that has a program of its own.
pub(super) fn is_plain(set: &StreamSet) -> bool {
    let [stream] = set.streams() else { return false };
    let (spec, (min_bytes, max_bytes)) = (stream.spec(), set.size_bytes_range());
    lane::layout(stream) == layout::UDP
        && spec.tags.is_empty()
        && spec.encap.is_none()
        && spec.walk == Walk::Odometer
        && spec.dont_fragment
        && min_bytes == max_bytes
}
