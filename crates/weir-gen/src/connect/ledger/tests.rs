use super::*;

const FIN: Course = Course { close: CloseName::Fin, hold_ns: 0, request_bytes: 64 };

/// Both ends of connections that go through every step of the course.
fn whole(course: &Course, count: u64) -> (Counts, Counts) {
    let has = |flag: bool| if flag { count } else { 0 };
    let (is_used, is_closed) = (course.has_request(), course.close == CloseName::Fin);
    let client = Counts {
        syn: count,
        syn_ack: count,
        established: count,
        request: has(is_used),
        reply: has(is_used),
        fin: has(is_closed),
        closed: has(is_closed),
        reset: has(course.close == CloseName::Rst),
        ..Default::default()
    };
    (client, Counts { established: has(!course.resets_at_once()), ..client })
}

fn courses() -> impl Iterator<Item = Course> {
    let closes = [CloseName::None, CloseName::Fin, CloseName::Rst];
    closes.into_iter().flat_map(|close| {
        [(0, 0), (0, 64), (9, 0), (9, 64)].map(|(hold_ns, request_bytes)| Course {
            close,
            hold_ns,
            request_bytes,
        })
    })
}

#[test]
fn nothing_is_missing_where_every_connection_goes_through_every_step() {
    for course in courses() {
        let (client, server) = whole(&course, 5);
        assert!(missing(&course, &client, Some(&server)).is_empty(), "{course:?}");
        assert!(missing(&course, &client, None).is_empty(), "{course:?}");
    }
}

#[test]
fn every_loss_is_named_once_with_its_place() {
    let (out, back) = ("client to server", "server to client");
    let cases = [
        ("syn_sent", "syn_seen", out),
        ("syn_ack_sent", "syn_ack_seen", back),
        ("request_sent", "established_server", out),
        ("reply_sent", "reply_seen", back),
        ("fin_sent", "fin_seen", out),
        ("closed_server", "closed_client", back),
    ];
    for (number, (after, before, place)) in cases.into_iter().enumerate() {
        let (mut client, mut server) = whole(&FIN, 5);
        // All steps from the loss on.
        if number == 0 {
            (server.syn, server.syn_ack) = (4, 4);
        }
        if number <= 1 {
            (client.syn_ack, client.established, client.request) = (4, 4, 4);
        }
        if number <= 2 {
            (server.established, server.request, server.reply) = (4, 4, 4);
        }
        if number <= 3 {
            (client.reply, client.fin) = (4, 4);
        }
        if number <= 4 {
            (server.fin, server.closed) = (4, 4);
        }
        client.closed = 4;
        let lost = Missing { after, before, place, count: 1 };
        assert_eq!(missing(&FIN, &client, Some(&server)), [lost]);
        // The client alone sees between which of its steps it was.
        let alone = missing(&FIN, &client, None);
        let [between] = alone.as_slice() else { panic!("{alone:?}") };
        assert_eq!((between.place, between.count), ("beyond the client", 1));
    }
}

#[test]
fn losses_add_up_to_what_did_not_come_through() {
    let (mut client, mut server) = whole(&FIN, 100);
    (server.syn, server.syn_ack) = (97, 97);
    (client.syn_ack, client.established, client.request) = (90, 90, 90);
    (server.established, server.request, server.reply) = (80, 80, 79);
    (client.reply, client.fin, server.fin, server.closed, client.closed) = (70, 70, 60, 60, 55);
    let lost = missing(&FIN, &client, Some(&server));
    assert_eq!(lost.iter().map(|lost| lost.count).sum::<i64>(), 45);
    let places: Vec<&str> = lost.iter().map(|lost| lost.place).collect();
    assert!(places.contains(&"server"), "a request was not answered: {lost:?}");
}

#[test]
fn what_is_refused_is_not_lost_and_what_comes_twice_is_below_zero() {
    let course = Course { close: CloseName::None, hold_ns: 0, request_bytes: 0 };
    let client = Counts { syn: 9, refused: 9, ..Default::default() };
    assert!(missing(&course, &client, None).is_empty());
    let unexpected: Vec<_> = client.unexpected().map(|(name, _, count)| (name, count)).collect();
    assert_eq!(unexpected, [("refused", 9)]);
    let client = Counts { syn: 9, syn_ack: 10, established: 10, ..Default::default() };
    let again = missing(&course, &client, None);
    assert_eq!(again.iter().map(|lost| lost.count).collect::<Vec<_>>(), [-1]);
}

#[test]
fn a_syn_that_was_sent_again_is_no_connection_more() {
    let course = Course { close: CloseName::None, hold_ns: 0, request_bytes: 0 };
    // Of 10 SYNs 2 were lost, and of 8 SYN-ACKs 3; 5 SYNs were sent again. A late SYN-ACK came as
    // well as the one to the second SYN.
    let client = Counts {
        syn: 10,
        retry: 5,
        syn_ack: 10,
        repeated: 1,
        established: 10,
        ..Default::default()
    };
    let server = Counts { syn: 13, syn_ack: 13, established: 10, ..Default::default() };
    let lost = missing(&course, &client, Some(&server));
    let counts: Vec<(&str, i64)> = lost.iter().map(|lost| (lost.after, lost.count)).collect();
    assert_eq!(counts, [("syn_sent", 2), ("syn_ack_sent", 2)]);
    assert!(missing(&course, &client, None).is_empty(), "all came about in the end");
}

#[test]
fn the_ledger_has_eight_counters() {
    let (client, server) = whole(&FIN, 3);
    let ledger = Ledger::new(&client, Some(&server));
    let counts: Vec<Option<u64>> = ledger.rows().iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [Some(3), Some(3), Some(3), Some(3), Some(3), Some(3), Some(3), Some(0)]);
    assert_eq!(Ledger::new(&client, None).rows()[3], ("established at the server", None));
}
