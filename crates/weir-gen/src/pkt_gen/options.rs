//! The table of pkt-gen's options: what each means, where it counts, and what was decided about it.
//!
//! The parser, the help and the notes on standard error read this table, and a test compares it
//! with `docs/pkt-gen.md`. The letters are those of netmap's `pkt-gen.c` (its call of `getopt(3)`),
//! and `-U`, which FreeBSD-based labs add.

use super::Function::{self, Ping, Pong, Rx, Tx};

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PktGenOption {
    /// The letter after the hyphen.
    pub letter: char,
    /// What to call its argument; `None` if it has none.
    pub value: Option<&'static str>,
    /// What it does, for the help.
    pub meaning: &'static str,
    /// What was decided.
    pub decision: Decision,
    /// Where it counts. Elsewhere it is accepted, and a note says that it changes nothing.
    pub functions: &'static [Function],
    /// Why it changes nothing elsewhere.
    pub elsewhere: &'static str,
}

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It does what it does in pkt-gen.
    Same,
    /// It does what it is meant to do; this says where pkt-gen does something else.
    Differs(&'static str),
    /// It is accepted, and changes nothing, because of this.
    NoEffect(&'static str),
    /// It is refused, because of this.
    Refused(&'static str),
}

const ALL: &[Function] = &[Rx, Tx, Ping, Pong];
const SENDING: &[Function] = &[Tx, Ping];
const NEITHER: &str = "it has no meaning there, in pkt-gen either";
const NO_THREADS: &str = "the kernel works on whichever CPU a packet arrives";

const fn flag(letter: char, meaning: &'static str, decision: Decision) -> PktGenOption {
    PktGenOption { letter, value: None, meaning, decision, functions: ALL, elsewhere: NEITHER }
}

const fn valued(
    letter: char,
    value: &'static str,
    meaning: &'static str,
    decision: Decision,
) -> PktGenOption {
    let value = Some(value);
    PktGenOption { letter, value, meaning, decision, functions: ALL, elsewhere: NEITHER }
}

impl PktGenOption {
    const fn only(self, functions: &'static [Function]) -> Self {
        Self { functions, ..self }
    }

    const fn only_since(self, functions: &'static [Function], elsewhere: &'static str) -> Self {
        Self { functions, elsewhere, ..self }
    }
}

/// All options, in the order of the help.
pub const OPTIONS: &[PktGenOption] = &[
    flag('h', "show this help", Decision::Same),
    valued(
        'i',
        "INTERFACE",
        "the network interface; `netmap:NAME` means NAME",
        Decision::Differs(
            "it is an ordinary network interface, which the kernel keeps; VALE switches, netmap \
             pipes, single rings, `pcap:`, `tap` and `null` are refused",
        ),
    ),
    valued(
        'f',
        "FUNCTION",
        "rx (the default), tx, ping or pong",
        Decision::Differs(
            "txseq and rxseq are refused: every frame that tx sends carries a sequence number, \
             which `weir sink` follows; an unknown function is refused, pkt-gen continues with rx",
        ),
    ),
    valued(
        'n',
        "COUNT",
        "stop after this many packets in all; 0, the default, means never",
        Decision::Differs(
            "all of them are sent; pkt-gen loses the remainder of the division by the number of \
             threads, and never ends with fewer packets than threads",
        ),
    ),
    valued(
        'l',
        "BYTES",
        "frame size without FCS, 60 by default; twice: the largest, then the smallest",
        Decision::Differs(
            "sizes are drawn per packet, both ends included, with correct headers; pkt-gen draws \
             one per batch, never the largest, with headers of the largest, and divides by zero if \
             the two are equal. A size too small for Ethernet or for weir's signature becomes the \
             smallest that is not. The size is compared with the MTU as an IP packet, not as a \
             frame",
        ),
    )
    .only(SENDING),
    valued(
        's',
        "RANGE",
        "source `ADDR[:PORT][-ADDR[:PORT]]`, 10.0.0.1:1234 by default",
        Decision::Differs("anything that is not a range is refused, and so is port 0"),
    )
    .only(SENDING),
    valued(
        'd',
        "RANGE",
        "destination, 10.1.0.1:1234 by default",
        Decision::Differs("anything that is not a range is refused, and so is port 0"),
    )
    .only(SENDING),
    valued('S', "MAC", "source MAC address, the interface's by default", Decision::Same)
        .only(SENDING),
    valued('D', "MAC", "destination MAC address, ff:ff:ff:ff:ff:ff by default", Decision::Same)
        .only(SENDING),
    flag('4', "IPv4, the default", Decision::Same).only(SENDING),
    flag(
        '6',
        "IPv6",
        Decision::Differs(
            "it needs -s and -d, and is implied by IPv6 addresses there; ping and pong work too",
        ),
    )
    .only(SENDING),
    flag(
        'z',
        "random source address and port",
        Decision::Differs(
            "every packet is drawn again from the range of -s, and from the /16 around its address \
             (IPv6: the last group) and all ports if it is a single one; pkt-gen draws addresses \
             that may be invalid, and without a range draws each slot of the ring once",
        ),
    )
    .only(SENDING),
    flag('Z', "random destination address and port", Decision::Differs("as -z, with -d"))
        .only(SENDING),
    valued(
        'R',
        "RATE",
        "packets per second of each thread; 0, the default, means no limit",
        Decision::Differs(
            "packets are spread evenly instead of sent in bursts, from now instead of from a whole \
             second one or two seconds ahead, and at most 10 ms of a stall are made up for; \
             pkt-gen makes up for all of it. ping sends no burst before the last one was answered, \
             and makes up for nothing",
        ),
    )
    .only(SENDING),
    valued(
        'b',
        "COUNT",
        "packets per burst; of ping: packets sent at a time, 1 by default",
        Decision::Differs("it matters only for ping: generator and receiver choose their batches"),
    )
    .only_since(&[Ping], "generator and receiver choose their batches"),
    valued(
        'p',
        "COUNT",
        "threads, 1 by default",
        Decision::Differs(
            "the threads share the flows out among themselves; pkt-gen's all start with the first \
             flow and repeat one another. rx needs no threads: the kernel counts on all queues at \
             once",
        ),
    ),
    valued(
        'a',
        "CPU",
        "run the first thread on this CPU, the others on those after it",
        Decision::Differs(
            "thread I runs on CPU A + (I modulo C); pkt-gen takes (A + I) modulo C, which is \
             always CPU 0 as long as -c is not given",
        ),
    )
    .only_since(SENDING, NO_THREADS),
    valued(
        'c',
        "COUNT",
        "number of CPUs that -a spreads the threads over; 0 means all",
        Decision::Differs("with -a it defaults to all CPUs, not to 1"),
    )
    .only_since(SENDING, NO_THREADS),
    valued('w', "SECONDS", "wait this long before the start, 2 s by default", Decision::Same),
    valued(
        'T',
        "MS",
        "report this often, every 1000 ms by default",
        Decision::Differs(
            "less than 10 ms is refused: \
             pkt-gen then reports nothing and never ends",
        ),
    ),
    flag(
        'W',
        "stop after a second without packets",
        Decision::Differs(
            "the second also ends the wait for the first packet; pkt-gen's never ends",
        ),
    )
    .only(&[Rx]),
    flag('N', "print plain numbers: `pps`, not `Kpps` or `Mpps`", Decision::Same),
    flag('A', "print mean and standard deviation of the last 15 reports", Decision::Same),
    flag('B', "count 24 bytes of framing per packet as bits, too", Decision::Same),
    flag('v', "say more about the ranges and addresses", Decision::Same),
    flag(
        'U',
        "update checksums in software",
        Decision::NoEffect("every packet has correct checksums anyway"),
    )
    .only(SENDING),
    valued(
        'F',
        "COUNT",
        "slots per packet",
        Decision::NoEffect(
            "slots are netmap's; the frames on the wire are whole, and the same without it",
        ),
    )
    .only(SENDING),
    valued(
        'M',
        "BYTES",
        "bytes per slot",
        Decision::NoEffect(
            "slots are netmap's; the frames on the wire are whole, and the same without it",
        ),
    )
    .only(SENDING),
    flag(
        'I',
        "indirect buffers",
        Decision::NoEffect("it is a way to copy into a VALE switch; the frames are the same"),
    )
    .only(SENDING),
    valued(
        'C',
        "RINGS",
        "sizes of netmap's rings",
        Decision::NoEffect("there are no such rings; `ethtool -G` and `-L` set the device's own"),
    ),
    valued(
        'o',
        "BITS",
        "1, 2, 4, 8: ways to fill a slot; 16, 4096: stamps and checksums; 32: -I; 512: -z; 1024: \
         -Z; 2048: -A",
        Decision::Differs(
            "1, 2, 4, 8, 16, 32 and 4096 change nothing: every packet is written whole, with \
             correct checksums and the time of sending; 64 (-X), 256 (-r) and unknown bits are \
             refused",
        ),
    ),
    valued(
        'H',
        "BYTES",
        "size of a virtio-net header; only 0",
        Decision::Refused("frames are sent without a virtio-net header: only `-H 0` is possible"),
    ),
    valued(
        'P',
        "FILE",
        "send the first packet of a capture file",
        Decision::Refused(
            "pkt-gen would send only its first packet, unchanged, forever; `weir gen --pcap FILE` \
             replays the whole file",
        ),
    ),
    flag(
        'r',
        "send whatever the buffers hold",
        Decision::Refused("packets without headers are neither counted nor told from others"),
    ),
    flag(
        'X',
        "dump packets",
        Decision::Refused("packets never leave the kernel: `tcpdump -i INTERFACE -XX` shows them"),
    ),
];

/// The option with this letter.
#[must_use]
pub fn option(letter: char) -> Option<&'static PktGenOption> {
    OPTIONS.iter().find(|option| option.letter == letter)
}
