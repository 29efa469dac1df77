//! Runs of every kind, and what their files show.

use super::*;

/// A log of 15 opening lines, samples of these rates, and 10 closing lines.
fn log(rates: &[u64]) -> Log {
    let mut text = "opening\n".repeat(15);
    for rate in rates {
        text += &format!("1.0 main_thread [9] {rate} pps ({rate} pkts in 1000000 usec)\n");
    }
    text += &"closing\n".repeat(10);
    Log::parse(text.as_bytes())
}

fn run(received: &[u64], sent: &[u64], after: Option<Answer>) -> Run {
    let named = |name: &str, rates| (name.to_owned(), log(rates));
    Run { receiver: Some(named("r", received)), senders: vec![named("s", sent)], after }
}

fn kind(run: &Run) -> Option<VerdictKind> {
    let figure = run.receiver.as_ref().and_then(|(_, log)| figure(log));
    run.judge(figure.as_ref()).map(|verdict| verdict.kind)
}

#[test]
fn the_ends_of_a_log_and_zeros_do_not_count() {
    let mut text = String::new();
    for line in 1..=40 {
        text += &format!("1.0 main_thread [9] {line} pps (1 pkts in 1 usec)\n");
    }
    let read = Log::parse(text.as_bytes());
    let expected = Figure { median: 23.0, minimum: 16.0, maximum: 30.0, sample_count: 15 };
    assert_eq!(figure(&read), Some(expected));
    // A line without its end is none of the forty.
    let more = Log::parse(format!("{text}1.0 main_thread [9] 41 pps (1 pkts").as_bytes());
    assert_eq!(figure(&more), Some(expected));
    assert_eq!(figure(&log(&[0, 5, 0, 7, 9])).unwrap().median, 7.0);
    assert_eq!(figure(&log(&[5, 7, 9, 11])).unwrap().median, 8.0);
    assert_eq!(figure(&log(&[5, 7])), None);
    assert_eq!(figure(&Log::parse(b"")), None);
}

#[test]
fn what_was_offered_and_came_is_the_generators() {
    assert_eq!(kind(&run(&[990; 5], &[1000; 5], None)), Some(VerdictKind::GeneratorBound));
    assert_eq!(kind(&run(&[989; 5], &[1000; 5], None)), None);
    let mut two = run(&[990; 5], &[500; 5], None);
    two.senders.push(("s2".to_owned(), log(&[500; 5])));
    assert_eq!(two.offered_pps(), Some(1000.0));
    two.senders.push(("s3".to_owned(), log(&[])));
    assert_eq!((two.offered_pps(), kind(&two)), (None, None));
}

#[test]
fn nothing_delivered_is_overloaded_only_if_the_dut_lives() {
    for (after, expected) in [
        (Some(Answer::Given), VerdictKind::Overloaded),
        (Some(Answer::Missing), VerdictKind::Invalid),
        (None, VerdictKind::Invalid),
    ] {
        assert_eq!(kind(&run(&[0; 5], &[1000; 5], after)), Some(expected), "{after:?}");
    }
    let alive = Some(Answer::Given);
    let trickle = run(&[1; 5], &[10_000; 5], alive);
    assert_eq!(kind(&trickle), Some(VerdictKind::Overloaded));
    assert_eq!(kind(&run(&[1; 5], &[10_000; 5], None)), None);
    assert_eq!(kind(&run(&[0; 5], &[0; 5], alive)), Some(VerdictKind::Invalid));
    assert_eq!(kind(&run(&[0, 0], &[1000; 5], alive)), Some(VerdictKind::Invalid));
    let alone = Run { senders: Vec::new(), ..run(&[0; 5], &[], alive) };
    assert_eq!(kind(&alone), Some(VerdictKind::Invalid));
}

#[test]
fn a_program_that_died_makes_the_run_void() {
    let mut run = run(&[900; 5], &[1000; 5], None);
    run.senders[0].1.crash = Some((3, "ouch, thread 0 exited with error".to_owned()));
    let figure = figure(&run.receiver.as_ref().unwrap().1);
    let verdict = run.judge(figure.as_ref()).unwrap();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    assert_eq!(verdict.reason, "a program died: s:3: ouch, thread 0 exited with error");
}

#[test]
fn an_answer_is_more_than_the_word_of_ssh() {
    assert_eq!(Answer::of(b"CMD: vmstat -i\ninterrupt total\n"), Answer::Given);
    for missing in ["", "CMD: x\n+ ssh\n", "ssh: connect to host dut: Operation timed out\n"] {
        assert_eq!(Answer::of(missing.as_bytes()), Answer::Missing, "{missing}");
    }
}

#[test]
fn a_machine_that_cannot_be_reached_gives_no_answer() {
    for line in [
        "ssh: connect to host 10.0.0.1 port 22: Network is unreachable",
        "ssh: Could not resolve hostname dut: Name or service not known",
        "ssh: connect to host dut port 22: whatever a later ssh says",
        "ssh_exchange_identification: read: gone",
        "kex_exchange_identification: banner line too long",
        "Connection closed by 10.0.0.1 port 22",
        "client_loop: send disconnect: Broken pipe",
        "packet_write_wait: Connection to 10.0.0.1 port 22: Broken pipe",
        "Timeout, server 10.0.0.1 not responding.",
        "ping: sendto: Network is down",
    ] {
        assert_eq!(Answer::of(format!("{line}\r\n").as_bytes()), Answer::Missing, "{line}");
    }
    let answered = b"Connection closed by 10.0.0.1 port 22\ninterrupt total\n";
    assert_eq!(Answer::of(answered), Answer::Given);
    assert_eq!(Answer::of(b"Timeout, retransmitted 4\n"), Answer::Given);
}
