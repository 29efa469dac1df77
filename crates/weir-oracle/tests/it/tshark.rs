//! Wireshark's dissectors as an independent witness: every combination of the stream model, written
//! as a pcap file, is well-formed to `tshark`, with every checksum right.
//!
//! Frames with a changed byte must be found faulty, or the witness would be asleep.

use std::path::PathBuf;
use std::process::Command;

use weir_wire::encap::Encap;
use weir_wire::frame::Protocol;
use weir_wire::pcap::Writer;
use weir_wire::print::Frame;
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamFrames, StreamSpec, size_bytes_min};
use weir_wire::vlan::{Tag, TagKind};
use weir_wire::walk::Walk;
use weir_wire::{AddrRange, MacAddr};

const TSHARK: &str = "/usr/bin/tshark";

/// Wireshark's severities: chats and notes lie below, errors above.
const SEVERITY_WARNING: u32 = 0x0060_0000;

/// What Wireshark says of a checksum that is right.
const GOOD: &str = "1";

/// A directory that goes away with the test, also when it fails.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-tshark-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// True if tshark is there; says so if not, in the form that the test driver counts.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn installed() -> bool {
    let there = std::path::Path::new(TSHARK).exists();
    if !there {
        eprintln!("skipped: {TSHARK} is not installed");
    }
    there
}

/// What tshark says of one frame.
#[derive(Debug)]
#[expect(dead_code, reason = "the remarks are for the message of a failed assertion")]
struct Verdict {
    size_bytes: usize,
    malformed: bool,
    remarks: String,
    severity_max: u32,
    /// Of IPv4, UDP, TCP, ICMP and ICMPv6, in this order; empty where there is none.
    checksums: Vec<String>,
}

impl Verdict {
    fn is_clean(&self) -> bool {
        let good = |status: &String| status.is_empty() || status == GOOD;
        !self.malformed && self.severity_max < SEVERITY_WARNING && self.checksums.iter().all(good)
    }
}

const FIELDS: [&str; 9] = [
    "frame.len",
    "_ws.malformed",
    "_ws.expert.severity",
    "_ws.expert.message",
    "ip.checksum.status",
    "udp.checksum.status",
    "tcp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
];

/// Lets tshark dissect frames, with checksum checking on and no configuration but its own.
fn dissect(name: &str, frames: &[Vec<u8>]) -> Vec<Verdict> {
    lines(name, frames, &FIELDS).iter().map(|line| verdict(line)).collect()
}

/// What tshark has in these fields, a line for each frame.
fn lines(name: &str, frames: &[Vec<u8>], fields: &[&str]) -> Vec<String> {
    let scratch = Scratch::new(name);
    let mut file = Vec::new();
    let writer = Writer::default();
    writer.header(&mut file);
    for (time_ms, frame) in (0..).zip(frames) {
        writer.record(&mut file, time_ms * 1_000_000, frame).unwrap();
    }
    let path = scratch.0.join("frames.pcap");
    std::fs::write(&path, file).unwrap();

    let mut command = Command::new(TSHARK);
    command.env("WIRESHARK_CONFIG_DIR", &scratch.0).arg("-n").arg("-r").arg(&path);
    for check in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{check}.check_checksum:TRUE")]);
    }
    command.args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), frames.len(), "{errors}");
    lines
}

fn verdict(line: &str) -> Verdict {
    let fields: Vec<&str> = line.split('|').collect();
    assert_eq!(fields.len(), FIELDS.len(), "{line}");
    let severities = fields[2].split(',').filter_map(|word| word.parse().ok());
    Verdict {
        size_bytes: fields[0].parse().unwrap(),
        malformed: !fields[1].is_empty(),
        remarks: format!("{} {}", fields[2], fields[3]),
        severity_max: severities.max().unwrap_or(0),
        checksums: fields[4..].iter().map(|&status| status.into()).collect(),
    }
}

/// Every family, protocol, number of tags and kind of size, each on flows of its own.
fn specs() -> Vec<StreamSpec> {
    let service = Tag { kind: TagKind::Service, pcp: 5, dei: true, id: 100 };
    let customer = Tag { kind: TagKind::Customer, pcp: 1, dei: false, id: 4094 };
    let tags = [vec![], vec![customer], vec![service, customer]];
    // A reset is remarked upon whatever its bytes, so it is not among them.
    let flags = ["S", "S.", ".", "P.", "F.", "SEW"];
    let mut protocols = vec![Protocol::Udp, Protocol::IcmpEcho];
    protocols.extend(flags.map(|flags| Protocol::Tcp { flags: flags.parse().unwrap() }));
    let mut specs = Vec::new();
    for (over_ipv6, protocol) in
        [false, true].into_iter().flat_map(|six| protocols.iter().map(move |p| (six, *p)))
    {
        for tags in &tags {
            let smallest_bytes = size_bytes_min(tags.len(), over_ipv6, protocol);
            let sizes = [
                Sizes::Fixed(smallest_bytes),
                Sizes::Fixed(smallest_bytes + 1),
                Sizes::List(vec![1514, 3408, 9014]),
                Sizes::Uniform { first_bytes: smallest_bytes, last_bytes: 1514 },
                Sizes::Imix,
            ];
            for sizes in sizes {
                let base = base(over_ipv6, 50_000 + specs.len());
                specs.push(StreamSpec { tags: tags.clone(), protocol, sizes, ..base });
            }
        }
    }
    let walk = Walk::Random { seed: 1 };
    specs.push(StreamSpec { dont_fragment: false, walk, dscp: 46, ..base(false, 49_000) });
    specs.push(StreamSpec { walk, dscp: 46, ttl: 7, ..base(true, 49_000) });
    specs
}

fn base(over_ipv6: bool, port: usize) -> StreamSpec {
    let range = |text: String| text.parse::<AddrRange>().unwrap();
    let (src, dst) = if over_ipv6 {
        (format!("[2001:2::1]:{port}-[2001:2::9]"), format!("[2001:2:1::1]:{port}-[2001:2:1::9]"))
    } else {
        (format!("198.18.10.1:{port}-198.18.10.9"), format!("198.19.10.1:{port}-198.19.10.9"))
    };
    let (src_mac, dst_mac) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    StreamSpec::new(src_mac, dst_mac, range(src), range(dst))
}

/// Which checksums a packet has, in the order of [`Verdict::checksums`].
fn expected_checksums(spec: &StreamSpec) -> [bool; 5] {
    let six = spec.src.is_ipv6();
    let (udp, icmp) = (spec.protocol == Protocol::Udp, spec.protocol == Protocol::IcmpEcho);
    [!six, udp, !udp && !icmp, icmp && !six, icmp && six]
}

/// What is put into a tunnel is found there, and is still that.
#[test]
fn tunnels_are_looked_into() {
    if !installed() {
        return;
    }
    let v4 = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let v6 = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let plain = [false, true].map(|six| StreamFrames::new(base(six, 2000)).unwrap().build(0));
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for (inside, name) in plain.iter().zip(["ip", "ipv6"]) {
        let mut put = |encap: Encap, between: &str| {
            frames.push(encap.wrap(inside).unwrap());
            expected.push(format!("eth:ethertype:{between}{name}:udp:data"));
        };
        put(Encap::Vlan { id: 5 }, "vlan:ethertype:");
        put(Encap::Pppoe { session: 7 }, "pppoes:ppp:");
        put(Encap::Mpls { label: 16 }, "mpls:");
        for (ends, outer) in [(v4, "ip"), (v6, "ipv6")] {
            let (src_port, id) = (49_152, 1);
            put(Encap::Gre { ends, key: None }, &format!("{outer}:gre:"));
            put(Encap::Gre { ends, key: Some(7) }, &format!("{outer}:gre:"));
            put(Encap::Ip { ends }, &format!("{outer}:"));
            let overlay = |name| format!("{outer}:udp:{name}:eth:ethertype:");
            put(Encap::Vxlan { ends, src_port, id }, &overlay("vxlan"));
            put(Encap::Geneve { ends, src_port, id, option_words: 0 }, &overlay("geneve"));
            put(Encap::Geneve { ends, src_port, id, option_words: 2 }, &overlay("geneve"));
        }
    }
    let found = lines("tunnels", &frames, &["frame.protocols", "_ws.malformed"]);
    for ((line, expected), frame) in found.iter().zip(&expected).zip(&frames) {
        assert_eq!(*line, format!("{expected}|"), "{frame:02x?}");
    }
}

#[test]
fn every_combination_is_dissected_without_a_warning() {
    if !installed() {
        return;
    }
    let mut frames = Vec::new();
    let mut expected = Vec::new();
    for spec in specs() {
        let stream = StreamFrames::new(spec).unwrap();
        for sequence in 0..3 {
            frames.push(stream.build_stamped(sequence, 1_000 * sequence));
            expected.push(expected_checksums(stream.spec()));
        }
    }
    assert!(frames.len() > 700, "only {} frames", frames.len());
    let verdicts = dissect("clean", &frames);
    for ((frame, expected), verdict) in frames.iter().zip(expected).zip(verdicts) {
        let line = Frame(frame);
        assert!(verdict.is_clean(), "{line}\n{verdict:?}");
        assert_eq!(verdict.size_bytes, frame.len());
        // Every checksum was there and was looked at.
        let seen: Vec<bool> = verdict.checksums.iter().map(|status| status == GOOD).collect();
        assert_eq!(seen, expected, "{line}\n{verdict:?}");
    }
}

#[test]
fn changed_frames_are_found_faulty() {
    if !installed() {
        return;
    }
    let mut frames = Vec::new();
    for over_ipv6 in [false, true] {
        for protocol in [Protocol::Udp, Protocol::TCP_SYN, Protocol::IcmpEcho] {
            let base = base(over_ipv6, 50_000 + frames.len());
            let spec = StreamSpec { protocol, sizes: Sizes::Fixed(100), ..base };
            let mut frame = StreamFrames::new(spec).unwrap().build(0);
            frame[99] ^= 1;
            frames.push(frame);
        }
    }
    // The IPv4 header checksum alone.
    let mut frame = StreamFrames::new(base(false, 51_000)).unwrap().build(0);
    frame[22] ^= 1;
    frames.push(frame);
    for (frame, verdict) in frames.iter().zip(dissect("faulty", &frames)) {
        assert!(!verdict.is_clean(), "{}\n{verdict:?}", Frame(frame));
    }
}
