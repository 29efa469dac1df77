//! Every option, and every place where pkt-gen has a fault.

use weir_wire::sizes::Sizes;
use weir_wire::walk::Walk;

use super::*;

const HOST: Host = Host { cpu_count: 4 };
const OTHER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn try_plan(line: &str) -> Result<Plan, PktGenError> {
    match parse(line.split_whitespace().map(OsString::from), HOST)? {
        Parsed::Plan(plan) => Ok(*plan),
        Parsed::Help => panic!("help was asked for"),
    }
}

/// The plan of a line that `-i eth0` is put before.
fn plan(line: &str) -> Plan {
    try_plan(&format!("-i eth0 {line}")).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn stream(line: &str) -> StreamSpec {
    plan(line).packets.unwrap().stream(OTHER_MAC)
}

#[track_caller]
fn refused(line: &str, part: &str) {
    let error = try_plan(&format!("-i eth0 {line}")).expect_err(line).to_string();
    assert!(error.contains(part), "{line}: {error}");
}

/// The notes of a line, of which one has this text in it.
#[track_caller]
fn noted(line: &str, part: &str) {
    let notes = plan(line).notes;
    let count = notes.iter().filter(|note| note.contains(part)).count();
    assert_eq!(count, 1, "{line}: {notes:?}");
}

#[track_caller]
fn silent(line: &str) {
    assert_eq!(plan(line).notes, Vec::<String>::new(), "{line}");
}

#[test]
fn defaults_are_pkt_gens() {
    let rx = plan("");
    assert_eq!((rx.function, rx.packet_count, rx.threads), (Function::Rx, None, 1));
    assert_eq!((rx.wait, rx.report_interval), (Duration::from_secs(2), Duration::from_secs(1)));
    assert_eq!((rx.placement.shown, rx.placement.cpu(0)), (1, None));
    assert_eq!((rx.packets, rx.thread_rate_pps, rx.notes), (None, None, vec![]));
    assert!(!rx.stops_in_silence && !rx.verbose && rx.style == Style::default());

    let tx = plan("-f tx");
    assert_eq!((tx.rate_pps(), tx.notes.len()), (None, 0));
    let packets = tx.packets.unwrap();
    assert_eq!((packets.src_text.as_str(), packets.dst_text.as_str()), ("10.0.0.1", "10.1.0.1"));
    assert_eq!(
        (packets.src_mac_text.clone(), packets.dst_mac_text.as_str()),
        (None, "ff:ff:ff:ff:ff:ff")
    );
    let stream = packets.stream(OTHER_MAC);
    assert_eq!((stream.src_mac, stream.dst_mac), (OTHER_MAC, MacAddr::BROADCAST));
    assert_eq!(stream.src.to_string(), "10.0.0.1:1234");
    assert_eq!(stream.dst.to_string(), "10.1.0.1:1234");
    assert_eq!((stream.ttl, stream.dont_fragment, stream.thread_count), (64, true, 1));
    assert_eq!((stream.walk, stream.sizes.clone()), (Walk::Odometer, Sizes::Fixed(60)));
    // Type of service 0x10, "low delay".
    let frame = StreamFrames::new(stream).unwrap().build(0);
    assert_eq!((frame.len(), frame[15]), (60, 0x10));
    assert_eq!(plan("-f ping").burst, 1);
}

#[test]
fn help_wins() {
    let help = |line: &str| parse(line.split_whitespace().map(OsString::from), HOST);
    assert_eq!(help("-h"), Ok(Parsed::Help));
    assert_eq!(help("--help"), Ok(Parsed::Help));
    assert_eq!(help("-f tx -i eth0 -Nh"), Ok(Parsed::Help));
}

#[test]
fn the_interface_is_needed_and_checked() {
    assert_eq!(try_plan("-f tx").unwrap_err(), PktGenError::InterfaceMissing);
    assert_eq!(try_plan("-i netmap:eth1").unwrap().interface.name, "eth1");
    assert!(try_plan("-i vale0:1").is_err());
    // The last of several counts, as with getopt.
    assert_eq!(try_plan("-i eth0 -i eth1").unwrap().interface.name, "eth1");
}

#[test]
fn functions() {
    for function in Function::ALL {
        assert_eq!(plan(&format!("-f {function}")).function, function);
    }
    refused("-f txseq", "weir sink");
    refused("-f rxseq", "weir sink");
    refused("-f pingpong", "rx, tx, ping and pong");
}

#[test]
fn a_count_is_sent_in_full() {
    assert_eq!(plan("-f tx -n 80000000").packet_count, Some(80_000_000));
    assert_eq!(plan("-f tx -n0").packet_count, None);
    assert_eq!(plan("-f rx -n 7").packet_count, Some(7));
    silent("-f tx -n 80000000");
    // pkt-gen sends 9, and never ends.
    let threads = plan("-f tx -n 10 -p 3");
    assert_eq!(threads.packet_count, Some(10));
    noted("-f tx -n 10 -p 3", "loses the remainder");
    noted("-f tx -n 2 -p 3", "never ends");
    silent("-f tx -n 9 -p 3");
    // pkt-gen reads 1.
    assert_eq!(plan("-f tx -n 1M").packet_count, Some(1_000_000));
    noted("-f tx -n 1M", "first digits only, 1");
    for wrong in ["-1", "1e6", "x", "0x10"] {
        refused(&format!("-f tx -n {wrong}"), "is not a count");
    }
}

#[test]
fn rates_are_per_thread() {
    let tx = plan("-f tx -R 1000 -p 2");
    assert_eq!((tx.thread_rate_pps, tx.rate_pps()), (Some(1000), Some(2000)));
    noted("-f tx -R 1000", "up to 10 ms of a stall");
    assert_eq!(plan("-f tx -R 0").rate_pps(), None);
    assert_eq!(plan("-f ping -R 1k").rate_pps(), Some(1000));
    noted("-f tx -R 1k", "first digits only, 1");
    refused("-f tx -R -5", "is not a count");
    refused("-f tx -R fast", "is not a count");
    noted("-f rx -R 5", "-R changes nothing with -f rx");
    assert_eq!(plan("-f rx -R 5").rate_pps(), None);
}

#[test]
fn sizes() {
    assert_eq!(stream("-f tx -l 1514").sizes, Sizes::Fixed(1514));
    silent("-f tx -l 1514");
    let uniform = Sizes::Uniform { first_bytes: 64, last_bytes: 1500 };
    assert_eq!(stream("-f tx -l 1500 -l 64").sizes, uniform);
    noted("-f tx -l 1500 -l 64", "both ends included");
    // pkt-gen divides by zero.
    assert_eq!(stream("-f tx -l 100 -l 100").sizes, Sizes::Fixed(100));
    refused("-f tx -l 64 -l 1500", "first is the largest");
    refused("-f tx -l 64 -l 64 -l 64", "more than 2 times");
    for wrong in ["15", "65536", "-60", "x", ""] {
        refused(&format!("-f tx -l {wrong}"), "-l");
    }
    // Ethernet pads to 60, and over IPv6 the signature needs 80.
    assert_eq!(stream("-f tx -l 16").sizes, Sizes::Fixed(60));
    noted("-f tx -l 16", "at least 60 bytes");
    assert_eq!(
        stream("-f tx -l 100 -l 20").sizes,
        Sizes::Uniform { first_bytes: 60, last_bytes: 100 }
    );
    noted("-f tx -l 100 -l 20", "at least 60 bytes");
    noted("-f rx -l 60", "-l changes nothing with -f rx");
}

#[test]
fn ranges() {
    let spec = stream("-f tx -s 198.18.10.1:2000-198.18.10.70 -d 198.19.10.1:2000-198.19.10.70");
    assert_eq!(StreamFrames::new(spec).unwrap().flows().flow_count(), 4900);
    let spec = stream("-f tx -d 198.19.10.0:2000-198.19.15.133 -s 198.18.10.1:2000-198.18.15.133");
    assert_eq!(StreamFrames::new(spec).unwrap().flows().flow_count(), 1_997_982);
    let packets = plan("-f tx -s 10.0.0.9-10.0.0.1").packets.unwrap();
    assert_eq!(packets.src_text, "10.0.0.9-10.0.0.1");
    assert_eq!(packets.stream(OTHER_MAC).src.to_string(), "10.0.0.1:1234-10.0.0.9");
    refused("-f tx -s 10.0.0.256", "-s 10.0.0.256: ");
    refused("-f tx -d 10.0.0.1:0", "-d 10.0.0.1:0: ");
    refused("-f tx -d 10.0.0.1:65536", "over 65535");
    noted("-f rx -s 10.0.0.1", "-s changes nothing with -f rx");
    noted("-f pong -d 10.0.0.1", "-d changes nothing with -f pong");
}

#[test]
fn ipv6() {
    let line = "-f tx -6 -s [2001:db8::1]:2000-[2001:db8::64] -d 6@[2001:db8:1::1]:2000";
    let spec = stream(line);
    assert_eq!(StreamFrames::new(spec.clone()).unwrap().flows().flow_count(), 100);
    // No size was asked for: 60 bytes cannot be had.
    assert_eq!((spec.sizes, spec.dscp), (Sizes::Fixed(80), 0));
    noted(line, "at least 80 bytes");
    assert_eq!(stream(&format!("{line} -l 62")).sizes, Sizes::Fixed(80));
    assert_eq!(stream(&format!("{line} -l 90")).sizes, Sizes::Fixed(90));
    silent(&format!("{line} -l 90"));

    noted("-f tx -l 80 -s ::1 -d ::2", "-6 is implied");
    refused("-f tx -6", "give -s and -d");
    refused("-f tx -s ::1", "different address families");
    refused("-f tx -4 -s ::1 -d ::2", "-4 does not go with");
    // The last of both counts.
    assert!(stream("-f tx -4 -6 -s ::1 -d ::2").src.is_ipv6());
    silent("-f tx -6 -4 -s 10.0.0.1");
    noted("-f rx -6", "-6 changes nothing with -f rx");
}

#[test]
fn random_ends_are_drawn_per_packet() {
    let spec = stream("-f tx -z");
    assert_eq!(spec.walk, Walk::Random { seed: 0 });
    assert_eq!(spec.src.to_string(), "10.0.0.1:1-10.0.255.254:65535");
    assert_eq!(spec.dst.to_string(), "10.1.0.1:1234");
    noted("-f tx -z", "once per slot");
    // The flows differ from packet to packet: no slot of a ring is kept.
    let frames = StreamFrames::new(spec).unwrap();
    let flows: std::collections::HashSet<_> = (0..1000).map(|n| frames.flow(n)).collect();
    assert!(flows.len() > 990, "{} flows", flows.len());

    let both = stream("-f tx -zZ");
    assert_eq!(both.dst.to_string(), "10.1.0.1:1-10.1.255.254:65535");
    assert_eq!(stream("-f tx -o 1536"), both);
    let given = stream("-f tx -Z -d 10.9.0.1:7-10.9.0.3");
    assert_eq!(given.dst.to_string(), "10.9.0.1:7-10.9.0.3");
    noted("-f tx -z -d 10.9.0.1:7-10.9.0.3", "the destination is drawn at random");
    let six = stream("-f tx -6 -l 80 -zZ -s 6@[2001:db8::1] -d ::2");
    assert_eq!(six.src.addr_count() * u64::from(six.src.port_count()), 65_535 * 65_535);
    assert!(six.src.contains("2001:db8::ffff:1".parse().unwrap(), 9));
    noted("-f rx -z", "-z changes nothing with -f rx");
}

#[test]
fn mac_addresses() {
    let spec = stream("-f tx -S 2:0:0:0:0:a -D 00:08:a2:09:33:da");
    assert_eq!(spec.src_mac, MacAddr([2, 0, 0, 0, 0, 10]));
    assert_eq!(spec.dst_mac, MacAddr([0, 8, 0xa2, 9, 0x33, 0xda]));
    let packets = plan("-f tx -S 2:0:0:0:0:a").packets.unwrap();
    assert_eq!(packets.src_mac_text.as_deref(), Some("2:0:0:0:0:a"));
    refused("-f tx -D 00:08:a2:09:33", "six octets");
    refused("-f tx -D 02:00:00:00:00:01-02:00:00:00:00:09", "not a range");
    refused("-f tx -S ff:ff:ff:ff:ff:ff", "cannot be a source");
    noted("-f pong -S 2:0:0:0:0:a", "-S changes nothing");
}

#[test]
fn threads_share_the_flows() {
    let line = "-f tx -p 2 -s 10.0.0.1-10.0.0.4";
    let tx = plan(line);
    assert_eq!((tx.threads, stream(line).thread_count), (2, 2));
    noted(line, "share the flows out");
    // A single flow cannot be shared out.
    silent("-f tx -p 2");
    noted("-f rx -p 2", "all queues at once");
    assert_eq!(plan("-f rx -p 2").threads, 2);
    refused("-f ping -p 2", "one thread");
    refused("-f pong -p 2", "one thread");
    refused("-f tx -p 0", "1 to 256");
    refused("-f tx -p 257", "1 to 256");
}

#[test]
fn cpus() {
    // pkt-gen takes CPU 3 modulo 1, which is 0.
    let cpus = |line: &str| {
        let plan = plan(line);
        (0..plan.threads).map(|thread| plan.placement.cpu(thread)).collect::<Vec<_>>()
    };
    assert_eq!(cpus("-f tx -a 3"), [Some(3)]);
    noted("-f tx -a 3", "pkt-gen takes CPU 0");
    assert_eq!(cpus("-f tx -a 3 -p 3"), [Some(3), Some(0), Some(1)]);
    assert_eq!(cpus("-f tx -a 2 -c 2 -p 3"), [Some(2), Some(3), Some(2)]);
    assert_eq!(cpus("-f tx -p 2"), [None, None]);
    silent("-f tx -a 0 -c 2");
    silent("-f tx -a 1 -c 0 -p 4");
    noted("-f tx -c 2", "without -a");
    assert_eq!([plan("-f tx -c 2").placement.shown, plan("-c 0").placement.shown], [2, 4]);
    refused("-f tx -a 4", "4 CPUs");
    refused("-f tx -c 5", "4 CPUs");
    refused("-f tx -c -1", "-c -1");
    noted("-f rx -a 1", "whichever CPU");
    noted("-f rx -c 1", "whichever CPU");
}

#[test]
fn times() {
    let tx = plan("-f tx -w 4 -T 250");
    assert_eq!((tx.wait, tx.report_interval), (Duration::from_secs(4), Duration::from_millis(250)));
    assert_eq!(plan("-w0").wait, Duration::ZERO);
    refused("-T 9", "from 10 to");
    refused("-T 0", "from 10 to");
    refused("-w soon", "-w soon");
}

#[test]
fn bursts_are_pings() {
    assert_eq!(plan("-f ping -b 4").burst, 4);
    noted("-f tx -b 64", "choose their batches");
    noted("-f rx -b 64", "choose their batches");
    refused("-f ping -b 0", "from 1 to");
}

#[test]
fn silence_ends_rx_alone() {
    assert!(plan("-W").stops_in_silence);
    noted("-W", "forever");
    noted("-f tx -W", "-W changes nothing with -f tx");
    assert!(!plan("-f tx -W").stops_in_silence);
}

#[test]
fn formats() {
    let all = Style { plain: true, averages: true, framing: true };
    assert_eq!(plan("-NAB").style, all);
    assert_eq!(plan("-o 2048").style, Style { averages: true, ..Style::default() });
    assert!(plan("-v").verbose);
    silent("-NABv");
}

#[test]
fn ping_says_what_it_mends() {
    noted("-f ping", "correct checksums");
    assert!(plan("-f ping").packets.is_some());
}

#[test]
fn what_has_no_effect_says_so() {
    for (option, part) in [
        ("-U", "correct checksums"),
        ("-F 4", "slots are netmap's"),
        ("-M 512", "slots are netmap's"),
        ("-I", "VALE"),
        ("-C 512,512,1,1", "ethtool"),
        ("-o 4", "the bits 4 change nothing"),
    ] {
        let line = format!("-f tx {option}");
        noted(&line, part);
        assert_eq!(plan(&line).notes.len(), 1, "{line}");
    }
    noted("-f tx -o 4127", "the bits 4127 change nothing");
    silent("-f tx -o 0");
    silent("-f tx -H 0");
    // Said once, however often it is given.
    assert_eq!(plan("-f tx -U -UU").notes.len(), 1);
    noted("-f rx -C 512", "ethtool");
}

#[test]
fn what_cannot_be_had_is_refused() {
    for (option, part) in [
        ("-P file.pcap", "only its first packet"),
        ("-r", "-r is refused"),
        ("-X", "tcpdump"),
        ("-H 10", "-H 10 is refused"),
        ("-H 12", "virtio"),
        ("-o 64", "(-X)"),
        ("-o 256", "(-r)"),
        ("-o 128", "no option bit 128"),
        ("-o 8192", "from 0 to 8191"),
        ("-F 0", "1 to 63"),
        ("-F 64", "1 to 63"),
        ("-M x", "-M x"),
        ("-q", "-q is not an option"),
        ("eth0", "does not belong to an option"),
    ] {
        refused(&format!("-f tx {option}"), part);
    }
}

/// Every option of the table is read; each one that is not the same as pkt-gen's shows in a note,
/// in an error, or in one of the tests above.
#[test]
fn every_option_is_known_to_the_reader() {
    for option in options::OPTIONS {
        let value = match option.letter {
            'i' => "eth1",
            'f' => "tx",
            's' | 'd' => "10.0.0.1",
            'S' | 'D' => "02:00:00:00:00:01",
            'l' => "60",
            'T' => "1000",
            'H' => "0",
            _ if option.value.is_some() => "1",
            _ => "",
        };
        let line = format!("-f tx -i eth0 -{} {value}", option.letter);
        let outcome = parse(line.split_whitespace().map(OsString::from), HOST);
        let refusable = matches!(option.decision, options::Decision::Refused(_));
        match outcome {
            Ok(_) => assert!(!refusable || option.letter == 'H', "{line}"),
            Err(PktGenError::Refused { .. }) => assert!(refusable, "{line}"),
            // IPv6 needs ranges.
            Err(PktGenError::Together(_)) => assert_eq!(option.letter, '6'),
            Err(error) => panic!("{line}: {error}"),
        }
    }
}

/// The command lines of the labs that pkt-gen's users have.
#[test]
fn command_lines_of_labs() {
    let tx = plan(
        "-U -f tx -4 -n 300000000 -l 60 -d 198.19.10.1:2001-198.19.10.100 -D 00:08:a2:09:33:da \
         -s 198.18.10.1:2001-198.18.10.20 -w 4",
    );
    assert_eq!(tx.notes.len(), 1, "only -U has something to say: {:?}", tx.notes);
    silent("-f rx -w 4");
    silent("-N -f tx -n 80000000 -l 60 -d 198.19.10.1-198.19.10.20 -w 4");
}
