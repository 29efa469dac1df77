use weir_gen::connect::ledger::CloseName;
use weir_results::accounting::DutLosses;
use weir_results::ledger::MissingPoint;
use weir_results::record::Ledger;

use super::*;

fn course(close: CloseName, request_bytes: u16) -> Course {
    Course { close, hold_ns: 0, request_bytes }
}

fn counters(client: &Counts, server: &Counts, more: &[(&str, &str, u64)]) -> Counters {
    let mut counters: Counters =
        [(CLIENT, client), (SERVER, server)].map(|(end, c)| (end.to_owned(), named(c))).into();
    for Port { device, dut_device, .. } in [Port::of(0, 1), Port::of(1, 1)] {
        for device in [device, dut_device] {
            let none = ["tx_queue_0_xdp_xmit_errors", "rx_queue_0_drops"];
            counters.insert(device.to_owned(), none.map(|name| (name.to_owned(), 0)).into());
        }
    }
    for (source, name, value) in more {
        counters.entry((*source).to_owned()).or_default().insert((*name).to_owned(), *value);
    }
    counters
}

/// The ledger of a run that begins with nothing.
fn ledger(course: &Course, topology: Topology, run: &Counters, dut: Option<&DutLosses>) -> Ledger {
    account(course, topology, run, dut).expect("every step has a counter")
}

fn account(
    course: &Course,
    topology: Topology,
    run: &Counters,
    dut: Option<&DutLosses>,
) -> Result<Ledger, MissingPoint> {
    let (left, right) = (Port::of(0, 1), Port::of(1, 1));
    let before = run.iter().map(|(source, values)| {
        (source.clone(), values.keys().map(|name| (name.clone(), 0)).collect())
    });
    let before: Counters = before.collect();
    let accounting = accounting(course, topology, (&left, &right));
    accounting.account(dut, &before, run).map(|accounted| accounted.ledger)
}

#[test]
fn every_step_of_every_course_has_a_counter() {
    for close in [CloseName::Fin, CloseName::Rst, CloseName::None] {
        for request_bytes in [0, 64] {
            let course = course(close, request_bytes);
            for topology in [Topology::Dut, Topology::Direct] {
                let run = counters(&Counts::default(), &Counts::default(), &[]);
                let ledger = ledger(&course, topology, &run, None);
                assert_eq!(ledger.points.first().map(|p| p.name.as_str()), Some("syn_sent"));
                assert!(ledger.drops.is_empty() && ledger.faults.is_empty());
            }
        }
    }
}

/// Ten connections: a SYN met a full ring, the DUT dropped a SYN-ACK and a reply, one SYN was
/// refused, and nobody knows where the last reply went.
fn lossy() -> Counters {
    let client = Counts {
        syn: 10,
        syn_ack: 7,
        established: 7,
        request: 7,
        reply: 5,
        fin: 5,
        closed: 5,
        refused: 1,
        ..Counts::default()
    };
    let server = Counts {
        syn: 8,
        syn_ack: 8,
        established: 7,
        request: 7,
        reply: 7,
        fin: 5,
        closed: 5,
        ..Counts::default()
    };
    let devices = [
        ("gen0", "tx_queue_0_xdp_xmit_errors", 1),
        ("dut0", "tx_dropped", 0),
        ("nft", "forward handle 7", 2),
    ];
    counters(&client, &server, &devices)
}

/// A DUT with one rule that drops.
fn dropping() -> DutLosses {
    let counters = Selection::new("nft", &["forward handle 7"]);
    let rule = DropRule::new("nft forward", "dut_received", Place::Dut, counters);
    DutLosses { drops: vec![rule], ..DutLosses::default() }
}

#[test]
fn what_is_lost_has_a_place_and_the_name_of_the_counter_that_saw_it() {
    let dut = dropping();
    let ledger = ledger(&course(CloseName::Fin, 64), Topology::Dut, &lossy(), Some(&dut));
    assert_eq!(ledger.notes, [""; 0]);
    let mut drops: Vec<(&str, &str, u64)> =
        ledger.drops.iter().map(|d| (d.after.as_str(), d.name.as_str(), d.packets)).collect();
    drops.sort_unstable();
    assert_eq!(
        drops,
        [
            ("reply_sent", "nft forward", 1),
            ("reply_sent", "server_to_client", 1),
            ("syn_ack_sent", "nft forward", 1),
            ("syn_sent", "dut_rx_ring_full", 1),
            ("syn_sent", "refused_with_rst", 1),
        ]
    );
    assert_eq!((ledger.residual_packets, ledger.lost_packets()), (0, 5));
    assert!(ledger.faults.is_empty() && ledger.drops.iter().all(|d| d.place == Place::Dut));
}

#[test]
fn a_counter_of_more_than_is_missing_is_noted_with_both_numbers() {
    let mut run = lossy();
    run.get_mut("nft").expect("a rule").insert("forward handle 7".to_owned(), 9);
    let fin = course(CloseName::Fin, 64);
    let lossy = ledger(&fin, Topology::Dut, &run, Some(&dropping()));
    let named = lossy.drops.iter().filter(|drop| drop.name == "nft forward");
    assert_eq!(named.map(|drop| drop.packets).sum::<u64>(), 3);
    let [note] = &lossy.notes[..] else { panic!("{:?}", lossy.notes) };
    assert!(note.starts_with("`nft forward` counted 9 packets, and at most 3 of"), "{note}");
    // Where nothing is lost, it has no part in it.
    let all = Counts { syn: 5, syn_ack: 5, established: 5, reset: 5, ..Counts::default() };
    let mut run = counters(&all, &all, &[("nft", "forward handle 7", 9)]);
    let whole = ledger(&course(CloseName::Rst, 0), Topology::Dut, &run, Some(&dropping()));
    assert!(whole.notes.is_empty() && whole.drops.is_empty(), "{whole:?}");
    // A device without its counter would leave its losses to others.
    run.remove("gen0");
    let error = account(&course(CloseName::Rst, 0), Topology::Dut, &run, None);
    let error = error.expect_err("no counter").to_string();
    assert!(error.contains("no counter gives `dut_rx_ring_full` (looked for gen0"), "{error}");
}

#[test]
fn without_a_dut_what_is_lost_is_lost_at_the_ends() {
    let ledger = ledger(&course(CloseName::Fin, 64), Topology::Direct, &lossy(), None);
    let of = |place| {
        let here = ledger.drops.iter().filter(|d| d.place == place);
        here.map(|drop| drop.packets).sum::<u64>()
    };
    assert_eq!([Place::Sink, Place::Generator, Place::Dut].map(of), [2, 3, 0]);
}

#[test]
fn a_step_that_is_counted_more_often_than_the_one_before_is_a_fault() {
    let client = Counts { syn: 5, syn_ack: 5, established: 5, reset: 5, ..Counts::default() };
    let server = Counts { syn: 6, syn_ack: 6, reset: 5, ..Counts::default() };
    let run = counters(&client, &server, &[]);
    let ledger = ledger(&course(CloseName::Rst, 0), Topology::Dut, &run, None);
    assert!(ledger.faults[0].contains("6 packets syn_seen"), "{:?}", ledger.faults);
}
