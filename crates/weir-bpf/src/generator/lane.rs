//! Encodes a configuration as `struct weir_lane` of `bpf/include/weir/lane.h`.
//!
//! Everything that is the same in all packets is computed here, once: the constant header words,
//! and the sums over all words that never change, to which the program adds the others.

use weir_wire::checksum;
use weir_wire::signature;

use super::{ConfigError, GeneratorConfig, Interval, SIZE_BYTES_MAX, SIZE_BYTES_MIN};
use crate::map::WORD_BYTES;

/// Words of a lane.
pub(super) const WORDS: usize = 35;

/// Which word is the next sequence number.
pub(super) const SEQUENCE_WORD: usize = 2;

/// Which words are the pacer's: interval and fraction, then (after the catch-up limit) when the
/// next packet is due, its fraction, and when the last one went.
const INTERVAL_WORD: usize = 29;
const DUE_WORD: usize = INTERVAL_WORD + 3;
const SENT_WORD: usize = INTERVAL_WORD + 5;

const ENABLED: u64 = 1 << 0;
const PACED: u64 = 1 << 1;
const STAMPED: u64 = 1 << 2;

const ETHERNET_BYTES: u16 = 14;
const IPV4_BYTES: u16 = 20;
const PROTOCOL_UDP: u8 = 17;

/// Bytes of the frame up to the IPv4 checksum.
const CONSTANT_BYTES: usize = 24;

/// One digit of the odometer: where it stands, its highest value, and how many values it has.
struct Digit {
    value: u64,
    last: u64,
    count: u64,
}

/// The value to write into the lane map.
pub(super) fn encode(config: &GeneratorConfig) -> Result<[u8; WORDS * WORD_BYTES], ConfigError> {
    let size_bytes = config.stream.size_bytes;
    if !(SIZE_BYTES_MIN..=SIZE_BYTES_MAX).contains(&size_bytes) {
        return Err(ConfigError::Size(size_bytes));
    }
    if config.sequence_step == 0 {
        return Err(ConfigError::Step);
    }
    let udp_bytes = u64::from(size_bytes - ETHERNET_BYTES - IPV4_BYTES);
    let constant = constant_bytes(config);
    let stream_thread = u64::from(config.stream.stream) << 8 | u64::from(config.stream.thread);

    let mut words = Vec::with_capacity(WORDS);
    words.push(flags(config));
    words.push(u64::from(size_bytes));
    words.push(config.first_sequence);
    words.push(config.end_sequence.unwrap_or(u64::MAX));
    words.push(config.sequence_step);
    words.extend(constant.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)));
    words.push(udp_bytes);
    words.push(stream_thread);
    words.push(u64::from(checksum::sum(&constant[usize::from(ETHERNET_BYTES)..])));
    words.push(udp_sum(udp_bytes, stream_thread));
    words.extend(odometer_words(config));
    let interval = config.interval;
    words.push(interval.map_or(0, |interval| interval.whole_ns));
    words.push(interval.map_or(0, |interval| u64::from(interval.fraction)));
    words.push(config.catch_up_ns);
    words.extend([0; 3]);

    let mut bytes = [0; WORDS * WORD_BYTES];
    assert_eq!(words.len(), WORDS, "the lane's layout is that of lane.h");
    for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *chunk = word.to_ne_bytes();
    }
    Ok(bytes)
}

/// Changes the interval in the words of a lane; see `GeneratorProgram::set_interval`.
pub(super) fn set_interval(words: &mut [u64], interval: Interval) {
    words[INTERVAL_WORD] = interval.whole_ns;
    words[INTERVAL_WORD + 1] = u64::from(interval.fraction);
    let due_max_ns = words[SENT_WORD].saturating_add(interval.whole_ns);
    words[DUE_WORD] = words[DUE_WORD].min(due_max_ns);
}

fn flags(config: &GeneratorConfig) -> u64 {
    let paced = if config.interval.is_some() { PACED } else { 0 };
    let stamped = if config.timestamps { STAMPED } else { 0 };
    ENABLED | paced | stamped
}

/// Ethernet header, and the IPv4 header up to its checksum: DF set, identification zero.
fn constant_bytes(config: &GeneratorConfig) -> [u8; CONSTANT_BYTES] {
    let stream = &config.stream;
    let mut bytes = [0; CONSTANT_BYTES];
    bytes[0..6].copy_from_slice(&stream.dst_mac.0);
    bytes[6..12].copy_from_slice(&stream.src_mac.0);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    bytes[14] = 0x45;
    bytes[15] = stream.tos;
    bytes[16..18].copy_from_slice(&(stream.size_bytes - ETHERNET_BYTES).to_be_bytes());
    bytes[20] = 0x40;
    bytes[22] = stream.ttl;
    bytes[23] = PROTOCOL_UDP;
    bytes
}

/// Pseudo-header (protocol, length), UDP length, magic, stream and thread.
fn udp_sum(udp_bytes: u64, stream_thread: u64) -> u64 {
    u64::from(PROTOCOL_UDP) + 2 * udp_bytes + u64::from(signature::MAGIC) + stream_thread
}

/// The four digits, set to the first packet's flow, and how many of them take part in a turn.
fn odometer_words(config: &GeneratorConfig) -> Vec<u64> {
    let flows = &config.stream.flows;
    let (src, dst) = (flows.src(), flows.dst());
    let flow = flows.flow(config.first_sequence);
    let digits = [
        Digit {
            value: u64::from(flow.src_port),
            last: u64::from(src.port_last),
            count: u64::from(src.port_count()),
        },
        Digit {
            value: u64::from(flow.src.to_bits()),
            last: u64::from(src.addr_last.to_bits()),
            count: src.addr_count(),
        },
        Digit {
            value: u64::from(flow.dst_port),
            last: u64::from(dst.port_last),
            count: u64::from(dst.port_count()),
        },
        Digit {
            value: u64::from(flow.dst.to_bits()),
            last: u64::from(dst.addr_last.to_bits()),
            count: dst.addr_count(),
        },
    ];
    let mut words = Vec::with_capacity(17);
    let mut rest = config.sequence_step;
    let mut steps = 0;
    for (digit, place) in digits.iter().zip(1_u64..) {
        let step = rest % digit.count;
        rest /= digit.count;
        if step != 0 {
            steps = place;
        }
        words.extend([digit.value, digit.last, digit.count, step]);
    }
    words.push(steps);
    words
}
