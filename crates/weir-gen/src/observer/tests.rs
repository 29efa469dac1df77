//! What the counters of senders mean for their stream.

use super::*;

fn sender(stream: u8, thread: u8, first: u64, highest: u64, distinct: u64) -> SenderCounters {
    SenderCounters {
        stream,
        thread,
        packets: distinct + 3,
        bytes: 60 * (distinct + 3),
        duplicated: 2,
        too_late: 1,
        reordered: 5,
        first_sequence: first,
        highest_sequence: highest,
        extent_max: 4 + u64::from(thread),
    }
}

fn expected(thread_count: u16, first_sequence: u64, packets: Option<u64>) -> Expectation {
    Expectation {
        streams: vec![ExpectedStream {
            stream: 0,
            src: "198.18.10.1:2000".into(),
            dst: "198.19.10.1:2000-198.19.10.4".into(),
            flow_count: 4,
            thread_count,
            first_sequence,
            packets,
            random: false,
        }],
    }
}

/// Loss and surplus of one stream.
fn loss(senders: &[SenderCounters], expectation: &Expectation, ended: bool) -> (u64, u64) {
    let observations = Observations { senders: senders.to_vec(), ..Default::default() };
    let results = results(&observations, expectation, ended);
    let [result] = results[..] else { panic!("one stream: {results:?}") };
    (result.lost, result.surplus)
}

#[test]
fn loss_is_what_is_missing_between_first_and_last() {
    let none = Expectation::default();
    assert_eq!(loss(&[sender(0, 0, 100, 199, 100)], &none, false), (0, 0));
    assert_eq!(loss(&[sender(0, 0, 100, 199, 93)], &none, true), (7, 0));
    // Two threads take turns: 0, 2, .. 198 and 1, 3, .. 199.
    let two = [sender(0, 0, 0, 198, 100), sender(0, 1, 1, 199, 99)];
    assert_eq!(loss(&two, &none, false), (1, 0));
    assert_eq!(loss(&two[1..], &none, false), (1, 0), "thread 1 is the second of two");
}

#[test]
fn an_announcement_tells_the_beginning_and_the_end() {
    let senders = [sender(0, 0, 100, 199, 100)];
    assert_eq!(loss(&senders, &expected(1, 0, None), true), (100, 0));
    assert_eq!(loss(&senders, &expected(1, 90, None), true), (10, 0));
    assert_eq!(loss(&senders, &expected(1, 150, None), true), (0, 0), "earlier than announced");
    let announced = expected(1, 0, Some(1_000));
    assert_eq!(loss(&senders, &announced, false), (100, 0), "the rest may still come");
    assert_eq!(loss(&senders, &announced, true), (900, 0));
    assert_eq!(loss(&[], &announced, true), (1_000, 0), "nothing came at all");
    assert_eq!(loss(&[], &announced, false), (0, 0));
}

#[test]
fn a_wrong_announcement_is_told_and_not_clipped() {
    let senders = [sender(0, 0, 0, 199, 200)];
    assert_eq!(loss(&senders, &expected(2, 0, None), true), (0, 100));
}

#[test]
fn streams_are_summed_and_kept_apart() {
    let observations = Observations {
        senders: vec![sender(0, 0, 0, 18, 10), sender(0, 1, 1, 19, 10), sender(7, 0, 0, 9, 10)],
        flows_seen: vec![StreamFlows { stream: 0, flow_count: 3 }],
        ..Default::default()
    };
    let results = results(&observations, &expected(2, 0, Some(20)), true);
    assert_eq!(results.len(), 2);
    let first = StreamResult {
        stream: 0,
        thread_count: 2,
        packets: 26,
        bytes: 26 * 60,
        lost: 0,
        surplus: 0,
        duplicated: 4,
        reordered: 10,
        too_late: 2,
        extent_max: 5,
        flows_seen: Some(3),
        flow_count: Some(4),
        expected_packets: Some(20),
    };
    assert_eq!(results[0], first);
    assert_eq!((results[1].stream, results[1].packets, results[1].flows_seen), (7, 13, None));
}
