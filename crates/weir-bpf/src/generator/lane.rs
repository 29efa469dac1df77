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
use weir_wire::{checksum, ethernet, ipv4, ipv6};

use crate::words::{
    self, LINK_WORDS, TUNNEL_WORDS, address6, digit, digits, lane, odometer, sizes, sizes_kind,
    walk,
};

/// The number of a stream's layout: `enum weir_layout`.
pub(super) fn layout(stream: &StreamFrames) -> u64 {
    let transport = match stream.spec().protocol {
        Protocol::Udp => words::layout::UDP,
        Protocol::Tcp { .. } => words::layout::TCP,
        Protocol::IcmpEcho => words::layout::ECHO,
    };
    transport + if stream.spec().src.is_ipv6() { words::layout::IPV6 } else { 0 }
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
pub(crate) fn encode(
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

    let mut words = vec![0; lane::WORDS];
    words[lane::SEQUENCE] = sequence;
    words[lane::SEQUENCE_STEP] = step;
    words[lane::LAYOUT] = layout(stream);
    words[lane::STREAM_THREAD] = stream_thread;
    words[lane::LINK_BYTES] = constant.link_bytes;
    words[lane::LINK..lane::LINK + LINK_WORDS].copy_from_slice(&constant.link);
    words[lane::TUNNEL..lane::TUNNEL + TUNNEL_WORDS].copy_from_slice(&constant.tunnel);
    words[lane::IP_HEAD] = constant.ip_head;
    words[lane::IP_TAIL] = constant.ip_tail;
    words[lane::IDENT_MASK] = if spec.dont_fragment { 0 } else { u64::from(u16::MAX) };
    words[lane::IP_SUM] = constant.ip_sum;
    words[lane::TRANSPORT_SUM] = constant.transport_sum;
    words[lane::TRANSPORT_WORD] = constant.transport_word;
    words[lane::PLAIN_LENGTH] = plain_length;
    words[lane::PLAIN_SIGNATURE] = plain_signature;
    put_address6(&mut words[lane::SRC..], &spec.src);
    put_address6(&mut words[lane::DST..], &spec.dst);
    if let Walk::Random { seed } = spec.walk {
        (words[lane::WALK + walk::RANDOM], words[lane::WALK + walk::SEED]) = (1, seed);
    }
    put_odometer(&mut words[lane::WALK + walk::ODOMETER..], stream, sequence);
    put_sizes(&mut words[lane::SIZES..], stream.sizes(), sequence, step, cycle_base);
    words
}

/// What all packets of a stream have in common.
struct Constant {
    link_bytes: u64,
    link: [u64; LINK_WORDS],
    /// As `link`, with a tunnel's headers.
    tunnel: [u64; TUNNEL_WORDS],
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
        let link_bytes = stream.link_bytes();
        let (link, packet) = frame.split_at(link_bytes);
        let mut tunnel = [0; TUNNEL_WORDS * 8];
        tunnel[..link_bytes].copy_from_slice(link);
        let tunnel: [u64; TUNNEL_WORDS] = words_of(&tunnel);
        let mut link = [0; LINK_WORDS];
        link.copy_from_slice(&tunnel[..LINK_WORDS]);
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
            link,
            tunnel,
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
fn words_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let (words, _) = bytes.as_chunks();
    core::array::from_fn(|index| u64::from_ne_bytes(words[index]))
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
fn put_address6(words: &mut [u64], range: &AddrRange) {
    let halves = |bits: u128| {
        let bytes = bits.to_be_bytes();
        (word(&bytes[..8]), word(&bytes[8..]))
    };
    let unit = match range {
        AddrRange::V4(_) => 0,
        AddrRange::V6(range) => 1 << range.group_shift(),
    };
    (words[address6::HIGH], words[address6::LOW]) = halves(base6(range));
    (words[address6::HIGH_UNIT], words[address6::LOW_UNIT]) = halves(unit);
}

fn address6_sum(range: &AddrRange) -> u64 {
    u64::from(checksum::sum(&base6(range).to_be_bytes()))
}

/// One digit of the odometer: where it stands, its highest value, and how many values it has.
#[derive(Clone, Copy, Default)]
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

/// `struct weir_odometer`: its digits, set to the packet's flow, how many of them take part in a
/// turn, and the first that does.
fn put_odometer(words: &mut [u64], stream: &StreamFrames, sequence: u64) {
    let spec = stream.spec();
    // A random walk draws from the digits' ranges, wherever they stand.
    let flow = stream.flows().flow(sequence);
    let mut all = [Digit::default(); digits::COUNT];
    all[digits::SRC_PORT] = Digit::port(&spec.src, flow.src_port);
    all[digits::SRC_ADDR] = Digit::addr(&spec.src, flow.src);
    all[digits::DST_PORT] = Digit::port(&spec.dst, flow.dst_port);
    all[digits::DST_ADDR] = Digit::addr(&spec.dst, flow.dst);
    let mut rest = u64::from(spec.thread_count);
    let (mut steps, mut first) = (0, None);
    let (each, _) = words[odometer::DIGIT..].as_chunks_mut::<{ digit::WORDS }>();
    for ((digit, words), place) in all.iter().zip(each).zip(0_u64..) {
        let step = rest % digit.count;
        rest /= digit.count;
        if step != 0 {
            steps = place + 1;
            first.get_or_insert(place);
        }
        words[digit::VALUE] = digit.value;
        words[digit::LAST] = digit.last;
        words[digit::COUNT] = digit.count;
        words[digit::STEP] = step;
    }
    words[odometer::STEPS] = steps;
    words[odometer::FIRST] = first.unwrap_or(0);
}

/// `struct weir_sizes`.
fn put_sizes(
    words: &mut [u64],
    pattern: &SizePattern,
    sequence: u64,
    thread_count: u64,
    cycle_base: u64,
) {
    match pattern {
        SizePattern::Cycle(cycle) if cycle.len() > 1 => {
            let count = cycle.len() as u64;
            words[sizes::KIND] = sizes_kind::CYCLE;
            words[sizes::COUNT] = count;
            words[sizes::BASE] = cycle_base;
            words[sizes::PLACE] = sequence % count;
            words[sizes::STEP] = thread_count % count;
        }
        SizePattern::Cycle(_) => {
            words[sizes::KIND] = sizes_kind::FIXED;
            words[sizes::FIRST_BYTES] = u64::from(pattern.min_bytes());
            words[sizes::COUNT] = 1;
        }
        SizePattern::Uniform { first_bytes, last_bytes, seed } => {
            words[sizes::KIND] = sizes_kind::UNIFORM;
            words[sizes::FIRST_BYTES] = u64::from(*first_bytes);
            words[sizes::COUNT] = u64::from(last_bytes - first_bytes) + 1;
            words[sizes::SEED] = *seed;
        }
    }
}
