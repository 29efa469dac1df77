//! `weir http serve`: with curl, with clients that break the rules, and at its limits. No test
//! looks at how long anything took, but that a delay is not shorter than it should be.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weir_net::{Netlink, NetnsGuard};
use weir_wire::flow::Flow;
use weir_wire::rss::{Fields, FlowKind, Key, Settings, Symmetry, Table};

use crate::common::{PATIENCE, assert_exit, can_run_lab, stderr, stdout, wait_until};
use crate::turns::{Turn, beside, namespace};

/// A namespace with nothing but its loopback interface.
struct Place {
    netns: NetnsGuard,
    _turn: Turn,
}

impl Place {
    fn new() -> Self {
        let turn = beside();
        let netns = namespace("http");
        netns.run(|| Netlink::open().expect("netlink").set_up("lo").expect("up")).expect("entered");
        Self { netns, _turn: turn }
    }

    fn inside(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.netns.name(), "setpriv", "--pdeathsig", "KILL"]);
        command.args(words).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// `weir http serve` at a free port of 127.0.0.1 and one of ::1.
    fn serve(&self, options: &[&str]) -> Serving<'_> {
        self.serve_behind(&[], options)
    }

    /// The same, started by another command.
    fn serve_behind(&self, before: &[&str], options: &[&str]) -> Serving<'_> {
        self.serve_at(&["127.0.0.1:0", "[::1]:0"], before, options)
    }

    /// The same at other addresses.
    fn serve_at(&self, at: &[&str], before: &[&str], options: &[&str]) -> Serving<'_> {
        let weir = [env!("CARGO_BIN_EXE_weir"), "http", "serve", "--json"];
        let listen: Vec<&str> = at.iter().flat_map(|address| ["--listen", address]).collect();
        let mut command = self.inside(&[before, &weir, &listen, options].concat());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut addresses = Vec::new();
        while addresses.len() < at.len() {
            let line = lines.next().expect("it says where it serves").expect("text");
            let (_, rest) = line.split_once("://").unwrap_or_else(|| panic!("{line}"));
            let (address, _) = rest.split_once('/').expect("an address");
            addresses.push(address.parse().expect("an address"));
        }
        Serving { place: self, child: Some(child), addresses }
    }

    /// curl's result, which has to be good.
    #[track_caller]
    fn curl(&self, words: &[&str]) -> String {
        let curl = ["curl", "--silent", "--show-error", "--max-time", "60"];
        let output = self.inside(&[&curl[..], words].concat()).output().expect("ip runs");
        assert_exit(&output, 0);
        stdout(&output)
    }
}

struct Serving<'a> {
    place: &'a Place,
    child: Option<Child>,
    addresses: Vec<SocketAddr>,
}

impl Serving<'_> {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addresses[0])
    }

    fn connect(&self) -> TcpStream {
        let address = self.addresses[0];
        let stream = self.place.netns.run(|| TcpStream::connect(address)).expect("entered");
        let stream = stream.expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    /// Sends these bytes on a connection, ends it and reads all that comes back.
    fn talk(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("ended");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    fn stats(&self) -> Value {
        serde_json::from_str(&self.place.curl(&[&self.url("/stats")])).expect("JSON")
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Processes that it has started.
    fn workers(&self) -> Vec<u32> {
        let pid = self.pid();
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = std::fs::read_to_string(path).expect("it runs");
        text.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
    }

    /// Interrupts it; its total.
    #[track_caller]
    fn end(mut self) -> Value {
        let workers = self.workers();
        let child = self.child.take().expect("it is ended once");
        send(child.id(), Signal::SIGINT);
        let output = child.wait_with_output().expect("it ended");
        assert_exit(&output, 130);
        assert!(workers.iter().all(has_ended), "workers are left");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a process")), signal).expect("it is there");
}

/// Whether a process has ended; whoever has to may not have waited for it yet.
fn has_ended(pid: &u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

/// All connections are open or were closed by somebody.
#[track_caller]
fn assert_balanced(stats: &Value) {
    let count = |name: &str| stats[name].as_u64().expect("a counter");
    let ends = ["open", "closed_by_client", "closed_by_server", "closed_early", "reset"];
    let sum: u64 = ends.into_iter().map(count).sum();
    assert_eq!(count("connections"), sum, "{stats:#}");
}

#[test]
fn curl_gets_what_it_asks_for_and_the_counters_say_so() {
    if !can_run_lab("curl_gets_what_it_asks_for_and_the_counters_say_so") {
        return;
    }
    let place = Place::new();
    let server = place.serve(&["--workers", "3"]);
    let form = "%{http_code} %{size_download} ";
    let get = |path: &str, words: &[&str]| {
        let url = server.url(path);
        place.curl(&[&["-o", "/dev/null", "-w", form, &url][..], words].concat())
    };
    for (path, words, expected) in [
        ("/b/0", &[][..], "200 0 "),
        ("/b/128", &[], "200 128 "),
        ("/b/128", &["--http1.0"], "200 128 "),
        ("/b/128", &["-H", "Connection: close"], "200 128 "),
        ("/b/3M", &[], "200 3000000 "),
        ("/b/3M?chunked", &[], "200 3000000 "),
        ("/b/1?chunked", &["--http1.0"], "200 1 "),
        ("/b/128", &["--head"], "200 0 "),
        ("/b/7?status=404", &[], "404 7 "),
        ("/b/7?status=204", &[], "204 0 "),
        ("/b/7:0,9:1?status=503:1,200:0&chunked=yes:1,no:0", &[], "503 9 "),
        ("/b/5", &["--data-binary", "0123456789"], "200 5 "),
        ("/b/5", &["--data-binary", "0123456789", "-H", "Transfer-Encoding: chunked"], "200 5 "),
        ("/b/5", &["--data-binary", "x", "-H", "Expect: 100-continue"], "200 5 "),
        ("/b/5", &["-X", "PUT", "--data-binary", "xyz"], "200 5 "),
    ] {
        assert_eq!(get(path, words), expected, "{path} {words:?}");
    }
    // One connection for all of these.
    let (first, second) = (server.url("/b/1"), server.url("/b/2"));
    let words = ["-w", "%{num_connects} ", "-o", "/dev/null"];
    let both = place.curl(&[&words[..], &[first.as_str(), "-o", "/dev/null", &second]].concat());
    assert_eq!(both, "1 0 ");
    assert!(place.curl(&[&server.url("/")]).contains("/b/SIZE"));
    let v6 = format!("http://{}/b/4", server.addresses[1]);
    assert_eq!(place.curl(&[&v6]), "wwww");
    let stats = server.stats();
    assert_eq!(stats["workers"], 3);
    // Those above, and the four behind them.
    assert_eq!(stats["requests"], 19, "{stats:#}");
    assert_eq!(stats["responses_2xx"], 17, "{stats:#}");
    assert_eq!((&stats["responses_4xx"], &stats["responses_5xx"]), (&1.into(), &1.into()));
    assert_eq!(stats["body_received_bytes"], 10 + 10 + 1 + 3, "{stats:#}");
    assert_eq!((&stats["stats_requests"], &stats["bad_requests"]), (&1.into(), &0.into()));
    assert_balanced(&stats);
    let total = server.end();
    assert_eq!(total["kind"], "total");
    assert_eq!(total["requests"], 19, "{total:#}");
    assert_balanced(&total);
}

#[test]
fn clients_that_break_the_rules_are_answered_and_counted() {
    if !can_run_lab("clients_that_break_the_rules_are_answered_and_counted") {
        return;
    }
    let place = Place::new();
    let server = place.serve(&["--workers", "1"]);
    let host = "HTTP/1.1\r\nHost: x\r\n";
    let long = format!("GET / {host}X: {}\r\n\r\n", "y".repeat(70_000));
    let delete = format!("DELETE / {host}\r\n");
    let chunk = format!("POST / {host}Transfer-Encoding: chunked\r\n\r\nz\r\n");
    for (text, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("nonsense\r\n\r\n", "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
        (delete.as_str(), "501"),
        (long.as_str(), "431"),
        (chunk.as_str(), "400"),
    ] {
        let answer = server.talk(text.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{text:.60}: {answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
    }
    for (target, status, reason) in [
        ("/none", "404", "there is nothing at `/none`"),
        ("/b/x", "400", "size `x`"),
        ("/b/1?colour=red", "400", "`colour` is none of status, delay, chunked"),
    ] {
        let answer = server.talk(format!("GET {target} {host}\r\n").as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains(reason), "{answer}");
    }
    // Before the end of a request, and before any.
    assert_eq!(server.talk(b"GET / HTTP/1.1\r\nHo"), "");
    let partial = format!("POST /b/1 {host}Content-Length: 5\r\n\r\nabc");
    assert_eq!(server.talk(partial.as_bytes()), "");
    assert_eq!(server.talk(b""), "");
    let stats = server.stats();
    // The heads of two that end or break in their bodies were understood.
    assert_eq!((&stats["bad_requests"], &stats["requests"]), (&6.into(), &5.into()), "{stats:#}");
    assert_eq!((&stats["responses_4xx"], &stats["responses_5xx"]), (&7.into(), &2.into()));
    assert_eq!(stats["closed_early"], 2, "{stats:#}");
    assert_eq!((&stats["closed_by_server"], &stats["reset"]), (&6.into(), &0.into()), "{stats:#}");
    assert_balanced(&server.end());
}

/// The bucket of a connection, by Microsoft's key and the 4-tuple.
fn bucket(stream: &TcpStream, table: &Table) -> usize {
    let (from, to) = (stream.local_addr().expect("bound"), stream.peer_addr().expect("connected"));
    let steering = Settings {
        key: Key::microsoft(),
        table: table.clone(),
        symmetry: Symmetry::None,
        fields: [Fields::FourTuple; 4],
    }
    .steering(FlowKind::of(false, from.is_ipv6()));
    let flow = Flow { src: from.ip(), dst: to.ip(), src_port: from.port(), dst_port: to.port() };
    steering.place(steering.hash(flow)).bucket
}

#[test]
fn connections_go_to_the_worker_of_their_bucket_or_queue() {
    if !can_run_lab("connections_go_to_the_worker_of_their_bucket_or_queue") {
        return;
    }
    let place = Place::new();
    let queues = [0_u16, 1, 1, 0];
    let table = Table::new(queues.to_vec()).expect("a table");
    for (address, each) in
        [("127.0.0.1:0", "bucket"), ("127.0.0.1:0", "queue"), ("[::1]:0", "bucket")]
    {
        let options = ["--table", "0,1,1,0", "--each", each];
        let serving = place.serve_at(&[address], &[], &options);
        let streams: Vec<TcpStream> = (0..40).map(|_| serving.connect()).collect();
        let mut expected = vec![0_u64; if each == "bucket" { 4 } else { 2 }];
        for stream in &streams {
            let bucket = bucket(stream, &table);
            let worker = if each == "bucket" { bucket } else { queues[bucket].into() };
            expected[worker] += 1;
        }
        // Those that were accepted are counted; it is not known when that is.
        let counts = |stats: &Value| -> Vec<u64> {
            let list = stats["connections_by_worker"].as_array().expect("a list");
            list.iter().map(|count| count.as_u64().expect("a number")).collect()
        };
        let all = |stats: &Value| counts(stats).iter().sum::<u64>();
        let mut stats = serving.stats();
        let mut asked = 1;
        while all(&stats) < 40 + asked {
            stats = serving.stats();
            asked += 1;
        }
        drop(streams);
        let total = serving.end();
        let found = counts(&total);
        // But for those of curl, wherever they went.
        let others: Vec<u64> =
            found.iter().zip(&expected).map(|(found, expected)| found - expected).collect();
        assert_eq!(others.iter().sum::<u64>(), asked, "{found:?}, {expected:?}");
        assert!(expected.iter().all(|count| *count > 0), "{expected:?}");
        assert_eq!(total["workers"], expected.len());
    }
    for (options, part) in [
        (&["--each", "bucket"][..], "give an interface (-i) or a --table".to_lowercase()),
        (&["--table", "0,1", "--workers", "2"], "cannot be used with".to_owned()),
        (&["--table", "0,1", "--listen", "[::1]:0"], "listen at one address".to_owned()),
        (&["-i", "lo"], "give --table equal:n".to_owned()),
    ] {
        let weir = [env!("CARGO_BIN_EXE_weir"), "http", "serve", "--listen", "127.0.0.1:0"];
        let output = place.inside(&[&weir, options].concat()).output().expect("ip runs");
        assert_exit(&output, 2);
        assert!(stderr(&output).to_lowercase().contains(&part), "{}", stderr(&output));
    }
}

#[test]
fn requests_sent_ahead_are_answered_in_order_and_delays_are_kept() {
    if !can_run_lab("requests_sent_ahead_are_answered_in_order_and_delays_are_kept") {
        return;
    }
    let place = Place::new();
    let server = place.serve(&["--workers", "1"]);
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    let begin = Instant::now();
    let targets = ["/b/3?delay=300ms", "/b/100k", "/stats", "/b/2?chunked", "/b/1?status=404"];
    let answer = server.talk(targets.map(request).concat().as_bytes());
    assert!(begin.elapsed() >= Duration::from_millis(300), "the delay is kept");
    let at = |text: &str| answer.find(text).unwrap_or_else(|| panic!("no {text}: {answer:.300}"));
    let places = [
        at("Content-Length: 3\r\n"),
        at("Content-Length: 100000\r\n"),
        at("\"stats_requests\": 1"),
        at("2\r\nww\r\n0\r\n\r\n"),
        at("404 Not Found"),
    ];
    assert!(places.is_sorted(), "{places:?}");
    // Others are served while one is delayed.
    let mut slow = server.connect();
    slow.write_all(request("/b/1?delay=1h").as_bytes()).expect("sent");
    assert_eq!(place.curl(&[&server.url("/b/1")]), "w");
    // A client that does not read is waited for, and costs nobody else anything.
    let mut lazy = server.connect();
    lazy.write_all(request("/b/1Gi").as_bytes()).expect("sent");
    assert_eq!(place.curl(&[&server.url("/b/1")]), "w");
    let stats = server.stats();
    assert_eq!(stats["requests"], 8, "{stats:#}");
    assert_eq!(stats["responses_2xx"], 5, "{stats:#}");
    drop((slow, lazy));
    wait_until("the server sees both go", || server.stats()["reset"] == 1);
    let total = server.end();
    // Nobody reads from the delayed one, so that its end is seen with its answer.
    assert_eq!(total["open"], 1, "{total:#}");
    assert_balanced(&total);
}

#[test]
fn connections_wait_where_there_are_no_more_descriptors() {
    if !can_run_lab("connections_wait_where_there_are_no_more_descriptors") {
        return;
    }
    let place = Place::new();
    let server = place.serve_behind(&["prlimit", "--nofile=128:128"], &["--workers", "1"]);
    // Half of them are kept for other things.
    let mut streams: Vec<TcpStream> = (0..80).map(|_| server.connect()).collect();
    let request = b"GET /b/1 HTTP/1.1\r\nHost: x\r\n\r\n";
    for stream in &mut streams {
        stream.write_all(request).expect("sent");
    }
    // Whoever goes makes room for another.
    for mut stream in streams {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("it is answered");
    }
    let total = server.end();
    assert_eq!((&total["connections"], &total["requests"]), (&80.into(), &80.into()), "{total:#}");
    assert!(total["accept_stalls"].as_u64().is_some_and(|count| count > 0), "{total:#}");
}

#[test]
fn an_address_has_one_server_and_a_killed_one_leaves_no_worker() {
    if !can_run_lab("an_address_has_one_server_and_a_killed_one_leaves_no_worker") {
        return;
    }
    let place = Place::new();
    let mut server = place.serve(&["--workers", "2"]);
    let weir = env!("CARGO_BIN_EXE_weir");
    let refused = |words: &[&str]| -> Output {
        let output = place.inside(&[&[weir][..], words].concat()).output().expect("ip runs");
        assert_exit(&output, 2);
        output
    };
    let address = server.addresses[0].to_string();
    let output = refused(&["http", "serve", "--listen", &address]);
    assert!(stderr(&output).contains(&format!("cannot listen at {address}")), "{output:?}");
    let output = refused(&["http", "serve", "--listen", "192.0.2.1:80"]);
    assert!(stderr(&output).contains("cannot listen at 192.0.2.1:80"), "{output:?}");
    let output = refused(&["http", "serve", "--listen", "127.0.0.1:1", "--pin", "1000"]);
    assert!(stderr(&output).contains("and not 1000"), "{output:?}");
    refused(&["http-worker", "serve"]);
    refused(&["http-worker"]);
    let workers = server.workers();
    assert_eq!(workers.len(), 2);
    // A worker that dies ends the server, which says so.
    send(workers[0], Signal::SIGKILL);
    let child = server.child.take().expect("it is there");
    let output = child.wait_with_output().expect("it ended");
    assert_exit(&output, 2);
    assert!(workers.iter().all(has_ended), "workers are left");
    let server = place.serve(&["--workers", "2"]);
    let workers = server.workers();
    send(server.pid(), Signal::SIGKILL);
    wait_until("workers of a killed server end", || workers.iter().all(has_ended));
}
