//! Encodes a stream, at the place where a thread stands, as `struct weir_lane` of
//! `bpf/include/weir/lane.h`.
//!
//! Everything that is the same in all packets is taken from the stream's reference frame, once: the
//! constant header words, and the sums over all words that never change, to which the program adds
//! the others.

use std::net::{IpAddr, Ipv6Addr};

use weir_wire::frame::Protocol;
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::sizes::SizePattern;
use weir_wire::stream::StreamFrames;
use weir_wire::walk::Walk;
use weir_wire::{checksum, ethernet, ipv4, ipv6, vlan};

/// Words of a lane.
pub(super) const WORDS: usize = 51;

pub(super) const LAYOUT_UDP: u64 = 0;
const LAYOUT_TCP: u64 = 1;
const LAYOUT_ECHO: u64 = 2;
const LAYOUT_IPV6: u64 = 3;

const SIZES_FIXED: u64 = 0;
const SIZES_CYCLE: u64 = 1;
const SIZES_UNIFORM: u64 = 2;

const LINK_WORDS: usize = 3;

/// The number of a stream's layout: `enum weir_layout`.
pub(super) fn layout(stream: &StreamFrames) -> u64 {
    let transport = match stream.spec().protocol {
        Protocol::Udp => LAYOUT_UDP,
        Protocol::Tcp { .. } => LAYOUT_TCP,
        Protocol::IcmpEcho => LAYOUT_ECHO,
    };
    transport + if stream.spec().src.is_ipv6() { LAYOUT_IPV6 } else { 0 }
}

/// The sizes of a stream that go into the map of cycles.
pub(super) fn cycle(stream: &StreamFrames) -> &[u16] {
    match stream.sizes() {
        SizePattern::Cycle(sizes) if sizes.len() > 1 => sizes,
        _ => &[],
    }
}

/// The lane of the thread that sends packet number `sequence` of the stream next. Its sizes, if
/// they are a cycle, begin at `cycle_base`.
pub(super) fn encode(
    stream: &StreamFrames,
    sequence: u64,
    cycle_base: u64,
    plain: bool,
) -> Vec<u64> {
    let spec = stream.spec();
    let step = u64::from(spec.thread_count);
    let stream_thread = u64::from(spec.stream) << 8 | u64::from(stream.thread(sequence));
    let mut constant = Constant::new(stream, stream_thread);
    let (plain_length, plain_signature) =
        if plain { constant.make_plain(stream, stream_thread) } else { (0, 0) };

    let mut words = Vec::with_capacity(WORDS);
    words.extend([sequence, step, layout(stream), stream_thread, constant.link_bytes]);
    words.extend(constant.link);
    words.extend([
        constant.ip_head,
        constant.ip_tail,
        if spec.dont_fragment { 0 } else { u64::from(u16::MAX) },
        constant.ip_sum,
        constant.transport_sum,
        constant.transport_word,
        plain_length,
        plain_signature,
    ]);
    words.extend(address6(&spec.src));
    words.extend(address6(&spec.dst));
    words.extend(match spec.walk {
        Walk::Odometer => [0, 0],
        Walk::Random { seed } => [1, seed],
    });
    words.extend(odometer(stream, sequence));
    words.extend(sizes(stream.sizes(), sequence, step, cycle_base));
    assert_eq!(words.len(), WORDS, "the lane's layout is that of lane.h");
    words
}

/// What all packets of a stream have in common.
struct Constant {
    link_bytes: u64,
    link: [u64; LINK_WORDS],
    ip_head: u64,
    ip_tail: u64,
    ip_sum: u64,
    transport_sum: u64,
    transport_word: u64,
}

impl Constant {
    fn new(stream: &StreamFrames, stream_thread: u64) -> Self {
        let spec = stream.spec();
        let frame = stream.build(0);
        let link_bytes = ethernet::HEADER_BYTES + vlan::TAG_BYTES * spec.tags.len();
        let (link, packet) = frame.split_at(link_bytes);
        let mut link_words = [0; LINK_WORDS * 8];
        link_words[..link_bytes].copy_from_slice(link);
        let over_ipv6 = spec.src.is_ipv6();
        let (ip_head, ip_tail, ip_sum, ip_bytes) = if over_ipv6 {
            let mut head = packet[..8].to_vec();
            head[4..6].fill(0);
            (word(&head), 0, 0, ipv6::HEADER_BYTES)
        } else {
            // Without length, identification and checksum; addresses are not taken at all.
            let mut head = packet[..12].to_vec();
            head[2..4].fill(0);
            head[4..6].fill(0);
            head[10..12].fill(0);
            let tail = u64::from(head[8]) << 56 | u64::from(head[9]) << 48;
            (word(&head[..8]), tail, u64::from(checksum::sum(&head)), ipv4::HEADER_BYTES)
        };
        let transport = &packet[ip_bytes..];
        let magic = u64::from(weir_wire::signature::MAGIC);
        let (transport_word, header_sum) = transport_constants(spec.protocol, transport);
        let pseudo_sum = match spec.protocol {
            // Its checksum covers no pseudo-header (RFC 792).
            Protocol::IcmpEcho if !over_ipv6 => 0,
            _ => {
                u64::from(spec.protocol.number(over_ipv6))
                    + address6_sum(&spec.src)
                    + address6_sum(&spec.dst)
            }
        };
        Self {
            link_bytes: link_bytes as u64,
            link: words_of(&link_words),
            ip_head,
            ip_tail,
            ip_sum,
            transport_sum: pseudo_sum + header_sum + magic + stream_thread,
            transport_word,
        }
    }
}

impl Constant {
    /// Makes the size of all frames a part of the constants. Returns the UDP length and the first
    /// bytes of the signature.
    fn make_plain(&mut self, stream: &StreamFrames, stream_thread: u64) -> (u64, u64) {
        let frame = stream.build(0);
        let mut head = [0; LINK_WORDS * 8];
        head.copy_from_slice(&frame[..LINK_WORDS * 8]);
        self.link = words_of(&head);
        let packet_bytes = (frame.len() - ethernet::HEADER_BYTES) as u64;
        let udp_bytes = packet_bytes - ipv4::HEADER_BYTES as u64;
        self.ip_sum += packet_bytes;
        self.transport_sum += 2 * udp_bytes;
        (udp_bytes, u64::from(weir_wire::signature::MAGIC) << 16 | stream_thread)
    }
}

/// Words as they lie in the frame.
fn words_of(bytes: &[u8; LINK_WORDS * 8]) -> [u64; LINK_WORDS] {
    let (words, _) = bytes.as_chunks();
    [0, 1, 2].map(|index: usize| u64::from_ne_bytes(words[index]))
}

/// The transport header's constant word, and the sum of its words that never change.
fn transport_constants(protocol: Protocol, transport: &[u8]) -> (u64, u64) {
    match protocol {
        Protocol::Udp => (0, 0),
        // Acknowledgement number, header length, flags, window: only the ports differ.
        Protocol::Tcp { .. } => {
            let sum = u64::from(checksum::sum(&transport[4..16]));
            (word(&transport[8..16]), sum)
        }
        // Type and code.
        Protocol::IcmpEcho => {
            let kind = u64::from(transport[0]) << 8 | u64::from(transport[1]);
            (kind << 48, kind)
        }
    }
}

/// Eight bytes, as the program composes them before it stores them.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The constant part of an IPv6 address, its lowest one with the group that varies taken out.
fn base6(range: &AddrRange) -> u128 {
    match range {
        AddrRange::V4(_) => 0,
        AddrRange::V6(range) => range.addr_first.to_bits() & !(0xffff << range.group_shift()),
    }
}

/// `struct weir_address6`.
fn address6(range: &AddrRange) -> [u64; 4] {
    let halves = |bits: u128| {
        let bytes = bits.to_be_bytes();
        [word(&bytes[..8]), word(&bytes[8..])]
    };
    let unit = match range {
        AddrRange::V4(_) => 0,
        AddrRange::V6(range) => 1 << range.group_shift(),
    };
    let ([high, low], [high_unit, low_unit]) = (halves(base6(range)), halves(unit));
    [high, low, high_unit, low_unit]
}

fn address6_sum(range: &AddrRange) -> u64 {
    u64::from(checksum::sum(&base6(range).to_be_bytes()))
}

/// One digit of the odometer: where it stands, its highest value, and how many values it has.
struct Digit {
    value: u64,
    last: u64,
    count: u64,
}

impl Digit {
    fn port(range: &AddrRange, port: u16) -> Self {
        let count = u64::from(range.port_count());
        let last = u64::from(range.port_first()) + count - 1;
        Self { value: port.into(), last, count }
    }

    fn addr(range: &AddrRange, addr: IpAddr) -> Self {
        let count = range.addr_count();
        let value_of = |addr: IpAddr| match (addr, range) {
            (IpAddr::V6(addr), AddrRange::V6(range)) => group(addr, range.group_shift()),
            (IpAddr::V4(addr), _) => u64::from(addr.to_bits()),
            (IpAddr::V6(_), AddrRange::V4(_)) => unreachable!("ranges have their own family"),
        };
        Self { value: value_of(addr), last: value_of(range.addr(count - 1)), count }
    }
}

fn group(addr: Ipv6Addr, shift: u32) -> u64 {
    let bits = addr.to_bits() >> shift & 0xffff;
    u64::try_from(bits).unwrap_or_default()
}

/// The four digits, set to the packet's flow, how many of them take part in a turn, and the first
/// that does.
fn odometer(stream: &StreamFrames, sequence: u64) -> Vec<u64> {
    let spec = stream.spec();
    // A random walk draws from the digits' ranges, wherever they stand.
    let flow = stream.flows().flow(sequence);
    let digits = [
        Digit::port(&spec.src, flow.src_port),
        Digit::addr(&spec.src, flow.src),
        Digit::port(&spec.dst, flow.dst_port),
        Digit::addr(&spec.dst, flow.dst),
    ];
    let mut words = Vec::with_capacity(18);
    let mut rest = u64::from(spec.thread_count);
    let (mut steps, mut first) = (0, None);
    for (digit, place) in digits.iter().zip(0_u64..) {
        let step = rest % digit.count;
        rest /= digit.count;
        if step != 0 {
            steps = place + 1;
            first.get_or_insert(place);
        }
        words.extend([digit.value, digit.last, digit.count, step]);
    }
    words.extend([steps, first.unwrap_or(0)]);
    words
}

/// `struct weir_sizes`.
fn sizes(pattern: &SizePattern, sequence: u64, thread_count: u64, base: u64) -> [u64; 7] {
    match pattern {
        SizePattern::Cycle(sizes) if sizes.len() > 1 => {
            let count = sizes.len() as u64;
            [SIZES_CYCLE, 0, count, 0, base, sequence % count, thread_count % count]
        }
        SizePattern::Cycle(_) => [SIZES_FIXED, u64::from(pattern.min_bytes()), 1, 0, 0, 0, 0],
        SizePattern::Uniform { first_bytes, last_bytes, seed } => {
            let count = u64::from(last_bytes - first_bytes) + 1;
            [SIZES_UNIFORM, u64::from(*first_bytes), count, *seed, 0, 0, 0]
        }
    }
}
