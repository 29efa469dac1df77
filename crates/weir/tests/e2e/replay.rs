//! `weir gen --pcap`: what it refuses, and that what it sends is the file.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use weir_wire::pcap::{Reader, Writer};

use crate::common::{assert_exit, can_run_lab, run, skipped, stderr, stdout};
use crate::generator::Wire;
use crate::turns::alone;

/// Records that a test can tell apart: sizes of 60 to 1,459 bytes, in gaps that differ.
fn records(count: u64) -> Vec<(u64, Vec<u8>)> {
    let start_ns = 1_700_000_000_123_456_789;
    let record = |number: u64| {
        let mut frame =
            vec![number.to_le_bytes()[0]; 60 + usize::try_from(number * 131 % 1_400).unwrap_or(0)];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
        (start_ns + number * 1_000_000 + number % 7 * 1_001, frame)
    };
    (0..count).map(record).collect()
}

fn write(path: &Path, records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let (writer, mut file) = (Writer::default(), Vec::new());
    writer.header(&mut file);
    for (time_ns, frame) in records {
        writer.record(&mut file, *time_ns, frame).expect("it fits");
    }
    std::fs::write(path, &file).expect("writable");
    file
}

fn read(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = std::fs::read(path).expect("readable");
    let records = Reader::new(&file).expect("a pcap file");
    records.map(|record| record.expect("whole")).map(|r| (r.time_ns, r.frame.to_vec())).collect()
}

#[test]
fn bad_files_and_options_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    let refused = |name: &str, more: &[&str], needle: &str| {
        let (file, backend) = (text(name), format!("pcap:{}", text("never")));
        let output = run(&[&["gen", "--pcap", &file, "--backend", &backend][..], more].concat());
        assert_exit(&output, 2);
        let error = stderr(&output);
        assert!(error.contains(needle), "{name} {more:?}:\n{error}");
        assert!(!path("never").exists(), "nothing is written for {name} {more:?}");
    };
    let file = write(&path("good"), &records(3));
    let damaged = |name: &str, bytes: &[u8]| std::fs::write(path(name), bytes).expect("writable");
    damaged("truncated", &file[..file.len() - 1]);
    damaged("empty", &file[..24]);
    damaged("ng", &[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0]);
    damaged("text", b"this is no capture file");
    let mut wifi = file.clone();
    wifi[20] = 105;
    damaged("wifi", &wifi);
    let mut cut = file;
    cut[24 + 12..24 + 16].copy_from_slice(&1_000_u32.to_le_bytes());
    damaged("cut", &cut);
    write(&path("single"), &records(1));
    refused("missing", &[], "cannot read");
    refused("truncated", &[], "truncated");
    refused("empty", &[], "no packets");
    refused("ng", &[], "editcap -F pcap");
    refused("text", &[], "not a pcap file");
    refused("wifi", &[], "link type 105 is not Ethernet");
    refused("cut", &[], "packet 1 was recorded only in part, 60 of its 1000 bytes");
    refused("single", &["--loops", "2"], "--rate");
    refused("good", &["--loops", "0"], "needs an end");
    refused("good", &["--rate", "0"], "above zero");
    refused("good", &["--rate", "80%"], "no line");
    refused("good", &["--ramp", "1s"], "--ramp");
    refused("good", &["--threads", "2"], "one thread");
    refused("good", &["--src-mac", "01:00:00:00:00:00"], "multicast");
    refused("good", &["--dst-mac", "x"], "--dst-mac");
    refused("good", &["--rate", "max", "--duration", "1s"], "--duration");
    for option in [
        &["--src", "198.18.0.1", "--dst", "198.19.0.1"][..],
        &["--stream", "x.toml"],
        &["--size", "60"],
        &["--random"],
        &["--no-stamps"],
        &["--announce", "x"],
    ] {
        refused("good", option, "cannot be used with");
    }
    let good = text("good");
    let live = run(&["gen", "-i", "lo", "--pcap", &good, "--backend", "live"]);
    assert_exit(&live, 2);
    assert!(stderr(&live).contains("--backend packet"), "{}", stderr(&live));
    let stream = ["gen", "-i", "lo", "--src", "198.18.0.1", "--dst", "198.19.0.1"];
    let recorded = run(&[&stream[..], &["--rate", "recorded"]].concat());
    assert_exit(&recorded, 2);
    assert!(stderr(&recorded).contains("--pcap FILE"), "{}", stderr(&recorded));
}

/// A copy has the recorded stamps and the new addresses; at a rate, the rate's stamps.
#[test]
fn a_copy_keeps_the_recorded_times() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let recorded = records(50);
    write(&path("in"), &recorded);
    let (file, backend) =
        (path("in").display().to_string(), format!("pcap:{}", path("out").display()));
    let copy = |more: &[&str]| {
        let arguments = ["gen", "--pcap", &file, "--backend", &backend, "--json"];
        let output = run(&[&arguments[..], more].concat());
        assert_exit(&output, 0);
        let last = stdout(&output).lines().last().map(str::to_owned).expect("a result");
        let result: Value = serde_json::from_str(&last).expect("an object");
        (result, read(&path("out")), stderr(&output))
    };
    let (result, copied, said) = copy(&[]);
    assert_eq!(copied, recorded);
    assert_eq!(
        (&result["replay"]["packets"], &result["requested"]),
        (&50.into(), &"recorded".into())
    );
    assert!(said.contains("50 packets") && said.contains("rate recorded"), "{said}");
    let (_, copied, _) =
        copy(&["--loops", "3", "--dst-mac", "02:00:00:00:00:01", "--count", "120"]);
    assert_eq!(copied.len(), 120);
    for (number, (time_ns, frame)) in copied.iter().enumerate() {
        let (expected_ns, expected) = &recorded[number % 50];
        assert_eq!(frame[..6], [2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[6..], expected[6..]);
        assert!(number >= 50 || time_ns == expected_ns);
    }
    assert!(copied.is_sorted_by_key(|(time_ns, _)| *time_ns));
    // The records at 0, 1, … 9 ms are due before 10 ms have passed.
    assert_eq!(copy(&["--duration", "10ms"]).1.len(), 10);
    let (_, copied, _) = copy(&["--rate", "1000", "--duration", "20ms", "--loops", "0"]);
    let times: Vec<u64> = copied.iter().map(|(time_ns, _)| *time_ns).collect();
    assert_eq!(times, (0..20).map(|number| number * 1_000_000).collect::<Vec<_>>());
}

/// What comes out of the far end of a wire is the file.
#[test]
fn what_arrives_is_the_file() {
    if !can_run_lab("weir gen needs namespaces") {
        return;
    }
    let _turn = alone();
    if Command::new("tcpdump").arg("--version").output().is_err() {
        skipped("a replay over a wire", "tcpdump is not installed");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let recorded = records(200);
    write(&directory.path().join("in"), &recorded);
    for (name, rate) in [("recorded", "recorded"), ("paced", "2kpps"), ("max", "max")] {
        let wire = Wire::new();
        let mut capture = Command::new("ip")
            .args(["netns", "exec", wire.name(), "tcpdump", "-i", "in", "-U", "-Z", "root"])
            .args(["-c", "400", "-w", &path(name), "ether", "proto", "0x88b5"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump runs");
        let mut said = String::new();
        let mut stderr = std::io::BufReader::new(capture.stderr.take().expect("piped"));
        while !said.contains("listening on") {
            let read = std::io::BufRead::read_line(&mut stderr, &mut said).expect("readable");
            assert!(read > 0, "tcpdump ended: {said}");
        }
        let input = path("in");
        let output = wire.generate(&["--pcap", &input, "--loops", "2", "--rate", rate, "--json"]);
        if output.status.code() != Some(0) {
            let _ = capture.kill();
        }
        let ended = capture.wait().expect("it ends");
        assert_exit(&output, 0);
        assert!(ended.success(), "{name}");
        let last = stdout(&output).lines().last().map(str::to_owned).expect("a result");
        let result: Value = serde_json::from_str(&last).expect("an object");
        assert_eq!(
            (&result["backend"], &result["offered_packets"]),
            (&"packet".into(), &400.into())
        );
        assert_eq!(result["ended_by"], "count");
        let arrived: Vec<Vec<u8>> =
            read(Path::new(&path(name))).into_iter().map(|(_, frame)| frame).collect();
        let expected: Vec<Vec<u8>> =
            recorded.iter().chain(&recorded).map(|(_, frame)| frame.clone()).collect();
        assert!(arrived == expected, "{name}: the frames that arrived are others");
    }
}
