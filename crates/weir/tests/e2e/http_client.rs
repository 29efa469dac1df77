//! The client of `weir http`, against the test server and against servers that misbehave. No test
//! looks at how long anything took, but against a stall that the test itself makes.

mod bed;
mod lab;
mod tls;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{assert_exit, can_run_lab, run, stderr, stdout, unless_starved};
use bed::{Bed, SERVER, signal, url};

/// The sum of what is in an object of counts.
fn sum(counts: &Value) -> u64 {
    let counts = counts.as_object().expect("an object").values();
    counts.map(|count| count.as_u64().expect("a number")).sum()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {value:#}"))
}

/// Every request that was due is in one of the places.
#[track_caller]
fn adds_up(result: &Value) {
    let of = |name: &str| number(result, &format!("/counts/{name}"));
    let places = of("answered") + of("aborted") + of("unsent") + of("unfinished");
    assert_eq!(of("due"), places + sum(&result["counts"]["failures"]), "{result:#}");
}

#[test]
fn both_ends_count_the_same() {
    if !can_run_lab("both_ends_count_the_same") {
        return;
    }
    let bed = Bed::new();
    for (target, options, kept) in [
        ("/b/128", &["--rate", "1k", "--connections", "16"][..], true),
        ("/b/128", &["--rate", "500", "--arrivals", "poisson", "--ramp", "200ms"], true),
        ("/b/100Ki", &["--connections", "3"], true),
        ("/b/10Ki?chunked", &["--connections", "3", "--workers", "2"], true),
        ("/b/128", &["--connections", "3", "--keepalive", "5"], false),
        ("/b/128", &["--connections", "3", "--close", "fin"], false),
        ("/b/128", &["--connections", "3", "--close", "rst"], false),
        ("/b/1Mi", &["--connections", "2", "--method", "HEAD"], true),
        ("/b/0", &["--connections", "2", "--body", "100Ki"], true),
        ("/b/128?status=204", &["--connections", "2", "--think", "5ms"], true),
        ("/b/{size}", &["--sizes", "0:1,40Ki:1", "--connections", "2"], true),
    ] {
        let serving = bed.serve(&["--workers", "2"]);
        let output = bed.client(&url(target), &[&["--duration", "300ms"][..], options].concat());
        let total = serving.end();
        let result = bed::last_object(&output);
        let of = |name: &str| number(&result, &format!("/counts/{name}"));
        assert!(of("answered") > 0, "{options:?}: {result:#}");
        assert_eq!(of("answered"), of("due"), "{options:?}: {result:#}");
        assert_eq!(of("answered"), number(&total, "/requests"), "{options:?}: {total:#}");
        assert_eq!(of("answered"), number(&total, "/responses_2xx"), "{options:?}: {total:#}");
        assert_eq!(of("sent_bytes"), number(&total, "/received_bytes"), "{options:?}: {total:#}");
        assert_eq!(of("established"), number(&total, "/connections"), "{options:?}: {total:#}");
        assert_eq!(of("received_bytes"), number(&total, "/sent_bytes"), "{options:?}: {total:#}");
        assert_eq!(of("answered"), number(&result, "/latency_ns/count"), "{result:#}");
        let connections = number(&result, "/connections");
        assert_eq!(of("established") == connections, kept, "{options:?}: {result:#}");
        assert_eq!(number(&result, "/connections_open_max"), connections, "{result:#}");
        assert_eq!(result["lag_ns"].is_null(), !options.contains(&"--rate"), "{result:#}");
        assert!(result["verdict"]["reason"].is_string(), "{result:#}");
    }
}

#[test]
fn each_second_of_a_run_is_in_its_timeline() {
    if !can_run_lab("each_second_of_a_run_is_in_its_timeline") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    let words = ["--rate", "200", "--connections", "4", "--workers", "2", "--duration", "2500ms"];
    let words = [&words[..], &["--progress", "--interval", "250ms"]].concat();
    let output = bed.client(&url("/b/128"), &words);
    let result = bed::last_object(&output);
    let steps = result["timeline"].as_array().expect("a list");
    let from: Vec<u64> = steps.iter().map(|step| number(step, "/from_ns")).collect();
    assert_eq!(from, [0, 1_000_000_000, 2_000_000_000], "{result:#}");
    // To the end of the run; answers that come behind it are counted elsewhere.
    let of = |step: &Value| {
        let rate_rps = step["answered_rps"].as_f64().expect("a number");
        rate_rps * number(step, "/duration_ns") as f64 / 1e9
    };
    let in_steps: f64 = steps.iter().map(of).sum();
    let answered = number(&result, "/counts/answered") as f64;
    assert!((answered - in_steps).abs() <= 4.5, "{in_steps} of {answered}: {result:#}");
    assert!(steps.iter().all(|step| step["latency_p99_ns"].is_u64()), "{result:#}");
    let lines = stdout(&output);
    let seconds = lines.lines().filter(|line| line.contains("\"second\"")).count();
    assert!(seconds > 3, "{seconds} of ten: {lines}");
    let target = url("/b/128");
    let plain = [&[env!("CARGO_BIN_EXE_weir"), "http", &target][..], &words[..8]].concat();
    let text = stdout(&bed.beside_client(&plain).output().expect("ip runs"));
    for part in ["from", "answered/s", "latency up to", "####"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(serving.end());
}

#[test]
fn failures_are_counted_by_kind() {
    if !can_run_lab("failures_are_counted_by_kind") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    for (target, options, failure) in [
        ("/b/1?status=503", &["--rate", "200"][..], "status_5xx"),
        ("/nothing", &["--rate", "200"], "status_4xx"),
        ("/b/1?delay=2s", &["--rate", "50", "--timeout", "100ms"], "timeout"),
    ] {
        let words = [&["--connections", "4", "--duration", "500ms"][..], options].concat();
        let output = bed.run(&url(target), &words);
        let result = bed::last_object(&output);
        adds_up(&result);
        let failed = number(&result, &format!("/counts/failures/{failure}"));
        assert!(failed > 0, "{result:#}");
        assert_eq!(failed, sum(&result["counts"]["failures"]), "{result:#}");
        assert_eq!(result["verdict"]["kind"], "invalid", "nothing was answered: {result:#}");
        assert_exit(&output, 1);
    }
    let aborts = ["--abort", "50%", "--rate", "400", "--duration", "500ms", "--connections", "4"];
    let result = bed::last_object(&bed.client(&url("/b/1?delay=10ms"), &aborts));
    adds_up(&result);
    let (aborted, answered) =
        (number(&result, "/counts/aborted"), number(&result, "/counts/answered"));
    assert!(aborted > 0 && answered > 0, "{result:#}");
    assert_eq!(sum(&result["counts"]["failures"]), 0, "{result:#}");
    drop(serving.end());
    let nobody = bed.run(&url("/"), &["--rate", "100", "--duration", "500ms"]);
    let result = bed::last_object(&nobody);
    assert_eq!(number(&result, "/counts/not_opened/refused"), 64, "{result:#}");
    assert_exit(&nobody, 1);
}

/// A server in the test, which listens until this is dropped.
struct Listening<'a> {
    bed: &'a Bed,
    has_ended: Arc<AtomicBool>,
}

/// `handle` has each connection, on a thread of its own.
fn serve_by(bed: &Bed, handle: impl Fn(TcpStream) + Send + Sync + 'static) -> Listening<'_> {
    let listener = bed.server.run(|| TcpListener::bind(SERVER).expect("it listens"));
    let listener = listener.expect("entered");
    let (handle, has_ended) = (Arc::new(handle), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&has_ended);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if ended.load(Ordering::SeqCst) {
                return;
            }
            let handle = Arc::clone(&handle);
            std::thread::spawn(move || handle(stream));
        }
    });
    Listening { bed, has_ended }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        // It wakes up, and sees that it is over.
        drop(self.bed.server.run(|| TcpStream::connect(SERVER)));
    }
}

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Reads a request without a body; whether there was one.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// 4 of 2,000 requests are at the server while it stalls; 200 more are due meanwhile.
#[test]
fn a_stall_shows_in_the_latency_and_not_in_the_service_time() {
    let test = "a_stall_shows_in_the_latency_and_not_in_the_service_time";
    if !can_run_lab(test) {
        return;
    }
    const STALL: Duration = Duration::from_millis(200);
    let bed = Bed::new();
    let (served, door) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(())));
    let count = Arc::clone(&served);
    let _server = serve_by(&bed, move |mut stream| {
        while read_request(&mut stream) {
            let _inside = door.lock().expect("nobody panics");
            if count.fetch_add(1, Ordering::SeqCst) == 500 {
                std::thread::sleep(STALL);
            }
            if stream.write_all(REPLY).is_err() {
                return;
            }
        }
    });
    unless_starved(test, || {
        served.store(0, Ordering::SeqCst);
        let words = ["--rate", "1k", "--duration", "2s", "--connections", "4"];
        let result = bed::last_object(&bed.client(&url("/"), &words));
        assert_eq!(number(&result, "/counts/answered"), 2000, "{result:#}");
        let [latency, service, lag] =
            ["latency", "service", "lag"].map(|what| number(&result, &format!("/{what}_ns/p99")));
        assert!(latency > 100_000_000, "{result:#}");
        if service >= 100_000_000 {
            let evidence = format!("send lag {lag} ns, service time {service} ns (p99)");
            assert!(lag > 1_000_000, "{evidence}: {result:#}");
            return Err(evidence);
        }
        Ok(())
    });
}

#[test]
fn a_connection_that_was_never_used_may_be_closed_meanwhile_too() {
    if !can_run_lab("a_connection_that_was_never_used_may_be_closed_meanwhile_too") {
        return;
    }
    let bed = Bed::new();
    let count = AtomicU64::new(0);
    let _server = serve_by(&bed, move |mut stream| {
        // The first four have waited for long enough when their requests come.
        let is_over = count.fetch_add(1, Ordering::Relaxed) < 4;
        while read_request(&mut stream) && !is_over && stream.write_all(REPLY).is_ok() {}
    });
    let words = ["--rate", "100", "--duration", "500ms", "--connections", "4"];
    let result = bed::last_object(&bed.client(&url("/"), &words));
    assert_eq!(number(&result, "/counts/answered"), 50, "{result:#}");
    assert_eq!(number(&result, "/counts/retried"), 4, "{result:#}");
}

#[test]
fn a_connection_that_the_server_closes_while_idle_costs_no_request() {
    if !can_run_lab("a_connection_that_the_server_closes_while_idle_costs_no_request") {
        return;
    }
    let bed = Bed::new();
    let _server = serve_by(&bed, |mut stream| {
        // Answers one request, says nothing of closing, and closes.
        if read_request(&mut stream) && stream.write_all(REPLY).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let words = ["--rate", "50", "--duration", "2s", "--connections", "2"];
    let result = bed::last_object(&bed.client(&url("/"), &words));
    assert_eq!(number(&result, "/counts/answered"), 100, "{result:#}");
    let closed = number(&result, "/counts/closed_idle") + number(&result, "/counts/retried");
    assert!(closed > 50, "{result:#}");
}

#[test]
fn nonsense_is_a_protocol_error_and_half_an_answer_is_short() {
    if !can_run_lab("nonsense_is_a_protocol_error_and_half_an_answer_is_short") {
        return;
    }
    let bed = Bed::new();
    let turn = AtomicU64::new(0);
    let _server = serve_by(&bed, move |mut stream| {
        if read_request(&mut stream) {
            let is_odd = turn.fetch_add(1, Ordering::SeqCst) % 2 == 1;
            let answer = if is_odd { &b"220 smtp ready\r\n\r\n"[..] } else { &REPLY[..39] };
            drop(stream.write_all(answer));
        }
    });
    let words = ["--rate", "50", "--duration", "1s", "--connections", "20"];
    let result = bed::last_object(&bed.run(&url("/"), &words));
    adds_up(&result);
    let [protocol, short] =
        ["protocol", "short"].map(|kind| number(&result, &format!("/counts/failures/{kind}")));
    assert!(protocol > 0 && short > 0, "{result:#}");
    assert_eq!(protocol + short, sum(&result["counts"]["failures"]), "{result:#}");
}

/// The rest of the body is never read, so that a reset follows the answer.
#[test]
fn an_answer_before_the_body_is_sent_counts_as_the_answer() {
    if !can_run_lab("an_answer_before_the_body_is_sent_counts_as_the_answer") {
        return;
    }
    const TOO_LARGE: &[u8] =
        b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let bed = Bed::new();
    let _server = serve_by(&bed, |mut stream| {
        if read_request(&mut stream) {
            drop(stream.write_all(TOO_LARGE));
        }
    });
    let words = ["--rate", "40", "--duration", "1s", "--connections", "4", "--body", "8Mi"];
    let result = bed::last_object(&bed.run(&url("/"), &words));
    adds_up(&result);
    assert_eq!(number(&result, "/counts/due"), 40, "{result:#}");
    assert_eq!(number(&result, "/counts/failures/status_4xx"), 40, "{result:#}");
}

#[test]
fn a_connection_that_is_closed_at_once_is_not_waited_for() {
    if !can_run_lab("a_connection_that_is_closed_at_once_is_not_waited_for") {
        return;
    }
    let bed = Bed::new();
    let _server = serve_by(&bed, drop);
    let words = ["--rate", "200", "--duration", "1s", "--close", "fin", "--timeout", "30s"];
    let result = bed::last_object(&bed.run(&url("/"), &words));
    adds_up(&result);
    let of = |kind: &str| number(&result, &format!("/counts/failures/{kind}"));
    assert_eq!(of("short") + of("reset"), number(&result, "/counts/due"), "{result:#}");
}

/// 200 a second are answered of 400, or fewer, and all of them in the end: each has a connection.
#[test]
fn an_overload_is_not_hidden_by_late_answers() {
    if !can_run_lab("an_overload_is_not_hidden_by_late_answers") {
        return;
    }
    let bed = Bed::new();
    let door = Mutex::new(());
    let _server = serve_by(&bed, move |mut stream| {
        while read_request(&mut stream) {
            let _inside = door.lock().expect("nobody panics");
            std::thread::sleep(Duration::from_millis(5));
            if stream.write_all(REPLY).is_err() {
                return;
            }
        }
    });
    let words = ["--rate", "400", "--duration", "2s", "--connections", "800", "--timeout", "1m"];
    let result = bed::last_object(&bed.client(&url("/"), &words));
    assert_eq!(number(&result, "/counts/answered"), 800, "{result:#}");
    assert_eq!(result["verdict"]["kind"], "dut-bound", "{result:#}");
    let reason = result["verdict"]["reason"].as_str().expect("a text");
    assert!(reason.contains("behind at the end"), "{reason}");
    let answered_rps = result["answered_rps"].as_f64().expect("a number");
    assert!(answered_rps < 300.0, "{result:#}");
}

/// The second would take the network away from the first when it ends.
#[test]
fn two_runs_do_not_share_a_network() {
    if !can_run_lab("two_runs_do_not_share_a_network") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    let words = ["--source", "198.18.0.0/16", "--connections", "4", "--rate", "10", "--progress"];
    let mut first = bed.start(&url("/b/1"), &words);
    let mut said = BufReader::new(first.stderr.take().expect("a pipe"));
    bed::wait_for(&mut said, "answered,");
    let second = bed.run(&url("/b/1"), &["--source", "198.18.0.0/16", "--duration", "300ms"]);
    assert_exit(&second, 2);
    assert!(stderr(&second).contains("in use by another run"), "{}", stderr(&second));
    assert!(bed.is_local("198.18.0.0/16"), "the first still has it");
    signal(first.id(), Signal::SIGINT);
    let output = first.wait_with_output().expect("it ended");
    assert_exit(&output, 130);
    drop(said);
    assert!(!bed.is_local("198.18.0.0/16"), "the route is gone");
    drop(serving.end());
}

#[test]
fn a_stopped_worker_saturates_the_generator() {
    if !can_run_lab("a_stopped_worker_saturates_the_generator") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    let open = ["--rate", "500", "--duration", "3s", "--progress"];
    // Without a rate nothing was due while it stood still.
    let closed = ["--connections", "4", "--duration", "3s", "--progress"];
    for (words, due) in [(open, Some(1500)), (closed, None)] {
        let mut child = bed.start(&url("/b/1"), &words);
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        bed::wait_for(&mut said, "answered,");
        let worker = *bed::children(child.id()).first().expect("a worker");
        signal(worker, Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(800));
        signal(worker, Signal::SIGCONT);
        // It must not wait for somebody to read what it says.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let output = child.wait_with_output().expect("it ended");
        assert_exit(&output, 0);
        let result = bed::last_object(&output);
        adds_up(&result);
        assert!(due.is_none_or(|due| number(&result, "/counts/due") == due), "{result:#}");
        assert_eq!(result["verdict"]["kind"], "generator-saturated", "{result:#}");
        let still_ratio = result["workers"][0]["still_ratio"].as_f64().expect("a number");
        assert!(still_ratio > 0.1, "{result:#}");
    }
    drop(serving.end());
}

#[test]
fn the_server_that_was_asked_to_close_keeps_the_ports() {
    if !can_run_lab("the_server_that_was_asked_to_close_keeps_the_ports") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    let words = ["--connections", "4", "--close", "fin", "--rate", "500", "--duration", "1s"];
    let result = bed::last_object(&bed.client(&url("/b/1"), &words));
    assert_eq!(number(&result, "/counts/answered"), 500, "{result:#}");
    // State 06 is TIME-WAIT.
    let waiting = |mut command: std::process::Command| {
        let text = stdout(&command.output().expect("ip runs"));
        text.lines().filter(|line| line.split_whitespace().nth(3) == Some("06")).count()
    };
    let list = ["cat", "/proc/net/tcp"];
    let (here, there) = (waiting(bed.beside_client(&list)), waiting(bed.beside_server(&list)));
    // A run of another test may take the CPU for longer than a server may take to close.
    assert!(here < 25 && there > 475, "{here} at the client, {there} at the server");
    drop(serving.end());
}

#[test]
fn more_connections_than_a_process_has_descriptors() {
    if !can_run_lab("more_connections_than_a_process_has_descriptors") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "4"]);
    let words = [
        &["--connections", "30k", "--source", "198.18.0.0/24", "--connect-rate", "10k"][..],
        &["--rate", "1k", "--duration", "1s", "--close", "rst", "--keepalive", "1M"],
    ]
    .concat();
    let output = bed.limited(20_000, &url("/b/1"), &words);
    assert_exit(&output, 0);
    let result = bed::last_object(&output);
    assert_eq!(number(&result, "/connections_open_max"), 30_000, "{result:#}");
    assert_eq!(number(&result, "/counts/answered"), 1000, "{result:#}");
    assert_eq!(result["workers"].as_array().map(Vec::len), Some(2), "{result:#}");
    assert_eq!(number(&serving.end(), "/connections"), 30_000);
    assert!(!bed.is_local("198.18.0.0/24"), "the route is gone");
}

#[test]
fn connections_do_not_time_out_because_others_are_due() {
    if !can_run_lab("connections_do_not_time_out_because_others_are_due") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    // All are due at once. Opening them takes longer than one of them may take.
    let words = ["--connections", "15k", "--source", "198.18.0.0/24", "--connect-rate", "10M"];
    let more = ["--workers", "1", "--timeout", "300ms", "--rate", "10", "--duration", "300ms"];
    let result = bed::last_object(&bed.client(&url("/b/1"), &[&words[..], &more].concat()));
    // Whatever holds the client up, no more than what it has opened at once waits for it.
    assert!(number(&result, "/connections_open_max") > 14_000, "{result:#}");
    drop(serving.end());
}

#[test]
fn pools_have_their_parts_of_the_rate() {
    if !can_run_lab("pools_have_their_parts_of_the_rate") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let pools = format!(
        "[[pool]]\nname = \"a\"\nweight = 3\nurl = \"{0}\"\nsource = \"198.18.0.0/24\"\n\
         [[pool]]\nname = \"b\"\nurl = \"{0}\"\nsource = \"198.18.0.0/24\"\nbody = 100\n\
         connections = 2\n",
        url("/b/1")
    );
    std::fs::write(file.path(), pools).expect("writable");
    let path = file.path().to_string_lossy().into_owned();
    let words = ["--pool", &path, "--rate", "400", "--duration", "1s"];
    let output = bed.http(&words);
    assert_exit(&output, 0);
    let result = bed::last_object(&output);
    for (pool, name, due) in [(0, "a", 300), (1, "b", 100)] {
        let of = |path: &str| number(&result, &format!("/pools/{pool}/{path}"));
        assert_eq!(result["pools"][pool]["name"], name, "{result:#}");
        assert_eq!((of("counts/due"), of("counts/answered")), (due, due), "{result:#}");
    }
    let total = serving.end();
    assert_eq!(
        (number(&total, "/requests"), number(&total, "/body_received_bytes")),
        (400, 10_000)
    );
    assert!(!bed.is_local("198.18.0.0/24"), "the route is gone");
}

#[test]
fn ipv6_from_a_network() {
    if !can_run_lab("ipv6_from_a_network") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1", "--listen", "[fd01::3]:80"]);
    let words = ["--source", "2001:2::/120", "--connections", "9", "--duration", "300ms"];
    let result = bed::last_object(&bed.client("http://[fd01::3]/b/1", &words));
    assert_eq!(number(&result, "/connections_open_max"), 9, "{result:#}");
    assert_eq!(number(&result, "/counts/answered"), number(&result, "/counts/due"), "{result:#}");
    drop(serving.end());
}

#[test]
fn an_interrupted_ramp_leaves_nothing() {
    if !can_run_lab("an_interrupted_ramp_leaves_nothing") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1"]);
    let words =
        ["--source", "198.18.0.0/16", "--connections", "5k", "--connect-rate", "50", "--progress"];
    let mut child = bed.start(&url("/b/1"), &words);
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    bed::wait_for(&mut said, "opening:");
    assert!(bed.is_local("198.18.0.0/16"), "the route is there while it runs");
    let (pid, workers) = (child.id(), bed::children(child.id()));
    assert!(!workers.is_empty(), "it has workers");
    signal(pid, Signal::SIGINT);
    let output = child.wait_with_output().expect("it ended");
    assert_exit(&output, 130);
    assert!(!bed.is_local("198.18.0.0/16"), "the route is gone");
    for worker in workers {
        assert!(!std::path::Path::new(&format!("/proc/{worker}")).exists(), "no worker is left");
    }
    let record = format!("/run/weir/lab/{pid}-0.json");
    assert!(!std::path::Path::new(&record).exists(), "no record is left");
    let lines: Vec<String> = said.lines().map_while(Result::ok).collect();
    assert!(lines.iter().any(|line| line.contains("verdict")), "{lines:?}");
    drop(serving.end());
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_sent() {
    if !can_run_lab("what_cannot_work_is_refused_before_anything_is_sent") {
        return;
    }
    let bed = Bed::new();
    for (url, words, why) in [
        ("http://203.0.113.1/", &[][..], "cannot be reached"),
        ("http://10.1.0.3/", &["--source", "10.1.0.0/24"], "the server's address"),
        ("http://10.1.0.3/", &["--source", "2001:2::/64"], "different IP versions"),
        ("http://10.1.0.3/", &["--source", "127.0.0.0/8"], "loopback"),
        ("http://nowhere.invalid/", &[], "`nowhere.invalid` has no address"),
        ("http://10.1.0.3/", &["--insecure"], "--insecure is about TLS"),
        ("http://10.1.0.3/", &["--tls-resume", "off"], "--tls-resume is about TLS"),
        ("https://10.1.0.3/", &["--ca", "/there/is/none"], "/there/is/none"),
        ("https://10.1.0.3/", &["--ca", "/etc/hostname"], "no certificate of an authority"),
        ("http://10.1.0.3/{size}", &[], "--sizes"),
        ("http://10.1.0.3/", &["--sizes", "1"], "`{size}` in the URL"),
        ("http://10.1.0.3/", &["--connections", "1M"], "--source"),
        ("http://10.1.0.3/", &["--connections", "1", "--workers", "2"], "more than there are"),
        ("http://10.1.0.3/", &["--header", "Content-Length: 3"], "Content-Length"),
        ("http://10.1.0.3/", &["--body", "/there/is/none"], "/there/is/none"),
        ("http://10.1.0.3/", &["--connect-rate", "9", "--close", "fin"], "--connect-rate"),
        ("http://10.1.0.3/", &["--connect-rate", "9", "--keepalive", "1"], "--connect-rate"),
        ("http://10.1.0.3/", &["--rate", "9", "--ramp", "11s"], "--ramp"),
        ("http://10.1.0.3/", &["--yes"], "applies only to --source"),
    ] {
        let output = bed.run(url, words);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{words:?}: {}", stdout(&output));
    }
    assert_eq!(bed.sent_packets(), 0, "not a packet was sent");
    let output = run(&["http", "http://127.0.0.1/", "--source", "198.18.0.0/24"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("in a network namespace"), "{}", stderr(&output));
}
