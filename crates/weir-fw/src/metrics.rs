//! The counters as OpenMetrics text (OpenMetrics 1.0), and a small HTTP server for them, on
//! request.
//!
//! The server answers `GET` and `HEAD` of `/metrics`, whatever query follows, to a few readers at a
//! time, so that a slow one holds up nobody. It listens where it is told: on the loopback address
//! if that is a port alone ([`address`]).

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::protocol::SyncStatus;
use crate::shared::Shared;

/// A request's head may be this long.
const HEAD_SIZE_BYTES_MAX: usize = 8192;
/// How long a reader may take for all of it.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// Readers at a time; the next one is told to come again.
const READER_COUNT_MAX: usize = 8;
/// How often it looks whether it should stop.
const POLL: Duration = Duration::from_millis(100);

/// `uncounted_packets`
const UNCOUNTED: &str = "Packets of table entries without room for counters.";

/// Reads where to listen: `ADDRESS:PORT`, or a port alone, which is one of the loopback address.
///
/// # Errors
///
/// What it should look like.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| {
        "it is neither ADDRESS:PORT (`127.0.0.1:9100`, `[::1]:9100`) nor just a port".to_owned()
    })
}

/// Listens for readers.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers until the daemon stops.
pub(crate) fn run(shared: &Arc<Shared>, listener: &TcpListener) {
    let text = || {
        let stats = shared.engine().stats(None);
        text(&stats, &shared.sessions.status())
    };
    let is_stopped = || shared.stop.is_requested();
    let pause = || {
        shared.stop.wait(POLL);
    };
    serve(listener, &is_stopped, &pause, &text);
}

/// Answers readers side by side until `is_stopped`; `pause` waits where nobody comes.
fn serve(
    listener: &TcpListener,
    is_stopped: &(dyn Fn() -> bool + Sync),
    pause: &dyn Fn(),
    text: &(dyn Fn() -> String + Sync),
) {
    let reader_count = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !is_stopped() {
            let Ok((stream, _)) = listener.accept() else {
                pause();
                continue;
            };
            let place = Place::take(&reader_count);
            // A reader that goes away, or finds no thread, is its own affair.
            let reader = thread::Builder::new().name("reader".to_owned());
            drop(reader.spawn_scoped(scope, move || {
                let is_crowded = place.number > READER_COUNT_MAX;
                drop(answer(&stream, is_stopped, is_crowded, text));
                drop(place);
            }));
        }
    });
}

/// A reader's place, until it is dropped.
struct Place<'a> {
    count: &'a AtomicUsize,
    /// How many there are with it.
    number: usize,
}

impl<'a> Place<'a> {
    fn take(count: &'a AtomicUsize) -> Self {
        Self { count, number: count.fetch_add(1, Ordering::AcqRel) + 1 }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer(
    stream: &TcpStream,
    is_stopped: &dyn Fn() -> bool,
    is_crowded: bool,
    text: &dyn Fn() -> String,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let deadline = Instant::now() + READER_TIMEOUT;
    let is_over = || is_stopped() || Instant::now() >= deadline;
    if is_crowded {
        return put(
            stream,
            &reply("503 Service Unavailable", "too many readers\n", true),
            &is_over,
        );
    }
    let head = read_head(stream, &is_over)?;
    let (method, target) = request_line(&head);
    let has_body = method != b"HEAD";
    let answer = if target != b"/metrics" {
        reply("404 Not Found", "only /metrics\n", has_body)
    } else if method != b"GET" && method != b"HEAD" {
        reply("405 Method Not Allowed\r\nAllow: GET, HEAD", "only GET and HEAD\n", true)
    } else {
        reply("200 OK", &text(), has_body)
    };
    put(stream, &answer, &is_over)
}

/// Method and path of a request, without a query (RFC 9112, section 3).
fn request_line(head: &[u8]) -> (&[u8], &[u8]) {
    let mut words = head.split(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    let method = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default();
    (method, target.split(|byte| *byte == b'?').next().unwrap_or_default())
}

/// A reply; a HEAD gets the size of what a GET would.
fn reply(status: &str, body: &str, has_body: bool) -> Vec<u8> {
    let size_bytes = body.len();
    let body = if has_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/openmetrics-text; version=1.0.0; \
         charset=utf-8\r\nContent-Length: {size_bytes}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Whether a call only waited for as long as it may.
pub(crate) fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Reads the head of a request. Neither a reader that sends a byte now and then, nor one that sends
/// nothing, holds it up for longer than until `is_over`.
fn read_head(mut stream: &TcpStream, is_over: &dyn Fn() -> bool) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(POLL))?;
    let (mut head, mut piece) = (Vec::new(), [0; 512]);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") && head.len() < HEAD_SIZE_BYTES_MAX {
        if is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(size) => head.extend_from_slice(&piece[..size]),
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

/// Writes a reply, to a reader that takes it in time.
fn put(mut stream: &TcpStream, mut rest: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<()> {
    stream.set_write_timeout(Some(POLL))?;
    while !rest.is_empty() {
        if is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => rest = &rest[size..],
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `weir fw stats` as OpenMetrics.
#[must_use]
pub fn text(stats: &Value, sync: &SyncStatus) -> String {
    let mut out = String::new();
    let (states, translation) = (&stats["states"], &stats["translation"]);
    let flows = &stats["pflow"];
    for (name, help, key) in [
        ("weir_fw_states", "States that exist now.", "current_count"),
        ("weir_fw_states_limit", "set limit states.", "limit_count"),
        ("weir_fw_state_buckets", "Buckets of the state table.", "bucket_count"),
    ] {
        family(&mut out, name, "gauge", help);
        let _ = writeln!(out, "{name} {}", number(&states[key]));
    }
    for (name, help, value) in [
        ("weir_fw_state_searches", "States looked for.", &states["searches_count"]),
        ("weir_fw_state_inserts", "States made.", &states["inserts_count"]),
        ("weir_fw_state_removals", "States that ended.", &states["removals_count"]),
        ("weir_fw_forwarded_packets", "Packets forwarded by XDP.", &stats["forwarded_packets"]),
        ("weir_fw_kernel_packets", "Packets handed to the kernel.", &stats["to_kernel_packets"]),
        ("weir_fw_log_lost_records", "Log records without room.", &stats["log_lost_count"]),
        ("weir_fw_pflow_records", "Records of flows exported.", &flows["records_count"]),
        ("weir_fw_pflow_packets", "Packets of them sent.", &flows["packets_count"]),
        ("weir_fw_pflow_send_errors", "Packets not sent.", &flows["send_errors_count"]),
        ("weir_fw_pflow_lost_states", "States not exported.", &flows["lost_states_count"]),
        ("weir_fw_uncounted_packets", UNCOUNTED, &stats["uncounted_packets"]),
        ("weir_fw_copied_packets", "Packets that `dup-to` copied.", &stats["copied_packets"]),
        ("weir_fw_copy_lost_packets", "Copies not sent.", &stats["copy_lost_packets"]),
        ("weir_fw_translated_flows", "Flows that were translated.", &translation["flows_count"]),
        ("weir_fw_port_probes", "Ports looked at.", &translation["port_probes_count"]),
    ] {
        family(&mut out, name, "counter", help);
        let _ = writeln!(out, "{name}_total {}", number(value));
    }
    for (_, key, help) in crate::engine::EXCHANGED {
        let name = format!("weir_fw_sync_{}", key.strip_suffix("_count").unwrap_or(key));
        family(&mut out, &name, "counter", help);
        let _ = writeln!(out, "{name}_total {}", number(&stats["sync"][key]));
    }
    sessions(&mut out, sync);
    interfaces(&mut out, &stats["interfaces"], "packets");
    interfaces(&mut out, &stats["interfaces"], "bytes");
    family(&mut out, "weir_fw_dropped_packets", "counter", "Packets dropped, by reason.");
    for drop in list(&stats["drops"]) {
        let label = |key: &str| escaped(drop[key].as_str().unwrap_or_default());
        let _ = writeln!(
            out,
            "weir_fw_dropped_packets_total{{interface=\"{}\",direction=\"{}\",reason=\"{}\"}} {}",
            label("interface"),
            label("direction"),
            label("reason"),
            number(&drop["packets"])
        );
    }
    out.push_str("# EOF\n");
    out
}

/// Both directions of synchronisation, as they are now.
fn sessions(out: &mut String, SyncStatus { out: to, incoming: from }: &SyncStatus) {
    let bulk_percent = to.bulk_percent.unwrap_or(if to.bulk_count > 0 { 100 } else { 0 });
    for (name, help, value) in [
        ("to_session", "Whether states go to another firewall.", u64::from(to.is_live)),
        ("to_lag_milliseconds", "Age of the oldest change not acknowledged.", to.lag_ms),
        ("to_unacknowledged_states", "States sent, not acknowledged.", to.unacknowledged_count),
        ("to_waiting_states", "States changed that wait: unanswered.", to.waiting_count),
        ("to_changes_per_second", "States and ends sent per second.", to.changes_per_second),
        ("to_bytes_per_second", "Bytes sent per second.", to.bytes_per_second),
        ("to_bulk_percent", "How far all states were sent.", bulk_percent.into()),
        ("from_session", "Whether states come from another firewall.", from.is_live.into()),
        ("from_lag_milliseconds", "Age of the last mark when taken in.", from.lag_ms),
        ("from_bulk", "Whether all states are being taken in.", from.is_bulk.into()),
    ] {
        let name = format!("weir_fw_sync_{name}");
        family(out, &name, "gauge", help);
        let _ = writeln!(out, "{name} {value}");
    }
}

fn interfaces(out: &mut String, value: &Value, unit: &str) {
    let name = format!("weir_fw_interface_{unit}");
    family(out, &name, "counter", "By interface, direction and outcome.");
    for entry in list(value) {
        let interface = escaped(entry["name"].as_str().unwrap_or_default());
        for direction in ["in", "out"] {
            for outcome in ["passed", "blocked"] {
                let count = number(&entry[format!("{outcome}_{direction}_{unit}")]);
                let _ = writeln!(
                    out,
                    "{name}_total{{interface=\"{interface}\",direction=\"{direction}\",\
                     outcome=\"{outcome}\"}} {count}"
                );
            }
        }
    }
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}");
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    /// Both ends of a connection.
    fn line() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (reader, listener.accept().unwrap().0)
    }

    #[test]
    fn a_port_alone_is_one_of_the_loopback_address() {
        let text = |text| address(text).map(|address| address.to_string());
        assert_eq!(text("9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(text("192.0.2.1:9100").as_deref(), Ok("192.0.2.1:9100"));
        assert_eq!(text("[::]:9100").as_deref(), Ok("[::]:9100"));
        for wrong in ["", "65536", ":9100", "localhost:9100", "192.0.2.1"] {
            assert!(address(wrong).unwrap_err().contains("nor just a port"), "{wrong}");
        }
    }

    #[test]
    fn requests_are_read() {
        assert_eq!(request_line(b"GET /metrics HTTP/1.1\r\n\r\n"), (&b"GET"[..], &b"/metrics"[..]));
        assert_eq!(
            request_line(b"HEAD /metrics?a=b HTTP/1.1\r\n"),
            (&b"HEAD"[..], &b"/metrics"[..])
        );
        assert_eq!(request_line(b""), (&b""[..], &b""[..]));
        let reply = |has_body| String::from_utf8(reply("200 OK", "text\n", has_body)).unwrap();
        assert!(reply(true).ends_with("Content-Length: 5\r\nConnection: close\r\n\r\ntext\n"));
        assert!(reply(false).ends_with("Content-Length: 5\r\nConnection: close\r\n\r\n"));
    }

    #[test]
    fn readers_do_not_wait_for_slow_ones() {
        use std::sync::atomic::AtomicBool;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let is_stopped = AtomicBool::new(false);
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let is_stopped = || is_stopped.load(Ordering::Acquire);
                serve(&listener, &is_stopped, &|| thread::yield_now(), &|| "all\n".to_owned());
            });
            // They say nothing, and are waited for.
            let slow: Vec<_> =
                (1..READER_COUNT_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
            assert!(ask("GET /metrics?x=1 HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nall\n"));
            assert!(ask("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
            assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
            assert!(ask("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
            let last = TcpStream::connect(address).unwrap();
            assert!(ask("").starts_with("HTTP/1.1 503 "));
            drop((slow, last));
            is_stopped.store(true, Ordering::Release);
        });
    }

    #[test]
    fn a_slow_reader_is_left() {
        let (mut reader, stream) = line();
        // A byte before each look at the time: as slow as somebody likes, and never silent.
        let looks = Cell::new(0);
        let is_over = || {
            reader.try_clone().unwrap().write_all(b"x").unwrap();
            looks.set(looks.get() + 1);
            looks.get() > 20
        };
        let error = read_head(&stream, &is_over).unwrap_err();
        assert_eq!((error.kind(), looks.get()), (io::ErrorKind::TimedOut, 21));
        // Nobody takes the reply.
        let looks = Cell::new(0);
        let is_over = || looks.replace(looks.get() + 1) > 3;
        let error = put(&stream, &vec![0; 64 << 20], &is_over).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        reader.write_all(b"\r\n\r\n").unwrap();
        assert!(read_head(&stream, &|| false).unwrap().ends_with(b"\r\n\r\n"));
    }

    #[test]
    fn counters_are_openmetrics() {
        let stats = json!({
            "states": { "current_count": 5, "searches_count": 9 },
            "interfaces": [{ "name": "em0", "passed_in_packets": 3 }],
            "drops": [
                { "interface": "em\"0", "direction": "in", "reason": "match", "packets": 2 }
            ],
        });
        let mut sync = SyncStatus::default();
        (sync.out.is_live, sync.out.lag_ms, sync.out.bulk_percent) = (true, 120, Some(40));
        let text = text(&stats, &sync);
        for line in [
            "weir_fw_sync_to_session 1",
            "# TYPE weir_fw_sync_to_lag_milliseconds gauge",
            "weir_fw_sync_to_lag_milliseconds 120",
            "weir_fw_sync_to_bulk_percent 40",
            "weir_fw_sync_from_session 0",
            "weir_fw_states 5",
            "# TYPE weir_fw_state_searches counter",
            "weir_fw_state_searches_total 9",
            concat!(
                "weir_fw_interface_packets_total{interface=\"em0\",direction=\"in\",",
                "outcome=\"passed\"} 3"
            ),
            concat!(
                "weir_fw_dropped_packets_total{interface=\"em\\\"0\",direction=\"in\",",
                "reason=\"match\"} 2"
            ),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
