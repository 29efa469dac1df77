use super::*;

fn lines(kind: DriverKind, text: &str) -> Vec<Parsed> {
    let mut lines = Lines::new(kind, None).expect("no pattern");
    let parsed = text.lines().map(|line| lines.read(line));
    parsed.filter(|parsed| *parsed != Parsed::Nothing).collect()
}

fn packets(parsed: &[Parsed]) -> Vec<u64> {
    let one = |parsed: &Parsed| match parsed {
        Parsed::Count(count) | Parsed::Total(count) => count.packets,
        other => panic!("{other:?}"),
    };
    parsed.iter().map(one).collect()
}

#[test]
fn pkt_gens_intervals_add_up_until_its_total_says_how_many_there_were() {
    let parsed = lines(
        DriverKind::PktGen,
        "CMD on 10.0.0.1: pkt-gen -N -f rx -i ix0\n\
         + pkt-gen -N -f rx -i ix0\n\
         463.080150 main_thread [2639] 0 pps (0 pkts 0 bps in 1000130 usec) 0.00 avg_batch 0 \
         min_space\n\
         464.081163 main_thread [2639] 1200 pps (1201 pkts 576480 bps in 1001013 usec) 1.00 \
         avg_batch 1 min_space\n\
         465.082163 main_thread [2553] 1300 pps (1301 pkts in 1001000 usec)\n\
         Received 2600 packets 156000 bytes 2502 events 60 bytes each in 2.00 seconds.\n",
    );
    assert_eq!(packets(&parsed), [0, 1201, 2502, 2600]);
    let Parsed::Count(last) = &parsed[2] else { panic!("{parsed:?}") };
    assert_eq!(last.t_ns, Some(1_000_130_000 + 1_001_013_000 + 1_001_000_000));
    assert!(matches!(parsed[3], Parsed::Total(_)));
}

#[test]
fn pkt_gens_scaled_units_are_refused() {
    let line = "463.08 main_thread [2639] 1.067 Mpps (1.068 Mpkts 512.782 Mbps in 1000130 usec)";
    let [Parsed::Unusable(why)] = &lines(DriverKind::PktGen, line)[..] else { panic!() };
    assert!(why.contains("-N"), "{why}");
}

#[test]
fn clients_and_servers_of_requests_are_read() {
    let counts = "\"counts\":{\"due\":9,\"answered\":7,\"received_bytes\":640}";
    let parsed = lines(
        DriverKind::Weir,
        &format!(
            "{{\"kind\":\"second\",\"t_ns\":5,\"phase\":\"running\",{counts}}}\n\
             {{\"kind\":\"result\",\"duration_ns\":8,{counts}}}\n\
             {{\"kind\":\"interval\",\"t_ns\":3,\"requests\":8,\"responses_2xx\":7}}\n\
             {{\"kind\":\"total\",\"t_ns\":4,\"responses_2xx\":8}}\n"
        ),
    );
    let client = Count { packets: 9, bytes: Some(640), accepted: Some(7), ..Count::default() };
    assert_eq!(parsed[0], Parsed::Count(Count { t_ns: Some(5), ..client }));
    assert_eq!(parsed[1], Parsed::Total(client));
    let served = |t_ns, packets| Count { t_ns: Some(t_ns), packets, ..Count::default() };
    assert_eq!(parsed[2..], [Parsed::Count(served(3, 7)), Parsed::Total(served(4, 8))]);
}

#[test]
fn weirs_own_objects_are_read_and_other_text_is_not() {
    let parsed = lines(
        DriverKind::Weir,
        "warning: something\n\
         {\"kind\":\"second\",\"t_ns\":5,\"offered_packets\":7,\"accepted_packets\":6}\n\
         {\"kind\":\"result\",\"duration_ns\":9,\"offered_packets\":8,\"offered_bytes\":480,\
         \"accepted_packets\":null}\n\
         {\"kind\":\"interval\",\"duration_ns\":3,\"packets\":2,\"bytes\":120,\
         \"foreign_packets\":4}\n",
    );
    let sent = Count { t_ns: Some(5), packets: 7, accepted: Some(6), ..Count::default() };
    assert_eq!(parsed[0], Parsed::Count(sent));
    let result = Count { t_ns: Some(9), packets: 8, bytes: Some(480), ..Count::default() };
    assert_eq!(parsed[1], Parsed::Total(result));
    let received =
        Count { t_ns: Some(3), packets: 2, bytes: Some(120), foreign: 4, ..Count::default() };
    assert_eq!(parsed[2], Parsed::Count(received));
}

#[test]
fn trafgen_counts_at_its_end() {
    let text = "\n      1000 packets outgoing\n     60000 bytes outgoing\n";
    assert_eq!(packets(&lines(DriverKind::Trafgen, text)), [1000]);
}

#[test]
fn a_command_counts_by_its_pattern() {
    let pattern = "rx=([0-9,.]+)";
    let mut lines = Lines::new(DriverKind::Command, Some(pattern)).expect("a pattern");
    assert_eq!(lines.read("nothing here"), Parsed::Nothing);
    assert_eq!(
        lines.read("t=1 rx=1,234,567 lost=0"),
        Parsed::Count(Count { packets: 1_234_567, ..Count::default() })
    );
    let Parsed::Unusable(why) = lines.read("rx=1.5") else { panic!() };
    assert!(why.contains("`1.5`"), "{why}");
}
