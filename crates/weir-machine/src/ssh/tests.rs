//! The host over a local `sh`: what does not depend on SSH itself. The rest is tested with real
//! servers (`crates/weir/tests/e2e/labs`).

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use signal_hook::consts::SIGINT;

use super::feeder::Source;
use super::{Secrets, SshHost};
use crate::access::RemoteSpec;
use crate::cancel::Cancel;
use crate::host::{Command, Host, Output, Program};

const LONG: Duration = Duration::from_secs(60);

fn host() -> SshHost {
    let remote = RemoteSpec { name: "here".to_owned(), ..RemoteSpec::default() };
    SshHost::new(&remote, &Secrets::default(), &Cancel::default())
}

fn shell(line: &str) -> Command<'_> {
    Command { program: Program::Shell(line), stdin: "", timeout: LONG, cancellable: true }
}

fn run(host: &SshHost, line: &str) -> Output {
    host.run(&shell(line)).unwrap()
}

/// Waits until something holds.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come true; what runs:\n{}", processes());
        thread::sleep(Duration::from_millis(10));
    }
}

/// What runs, by group, with the signals that wait, are blocked, ignored and caught.
fn processes() -> String {
    let columns = "pgid,ppid,pid,stat,pending,blocked,ignored,caught,args";
    let list = process::Command::new("ps").args(["-eo", columns]).output();
    list.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stdout).into())
}

fn is_gone(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // A process that ended is there until its parent has asked for its end.
    status.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|s| s.starts_with(" Z")))
}

#[test]
fn a_command_has_its_code_its_outputs_and_its_input() {
    let host = host();
    let output = run(&host, "echo out; echo err >&2; printf 'no end'; exit 3");
    assert_eq!(output.exit_code, Some(3));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\nno end", "err\n"));
    let odd = "it's \"$HOME\" `id` \\ ! é \t %s *";
    let arguments = ["printf", "%s", odd];
    let command = Command { program: Program::Arguments(&arguments), ..shell("") };
    assert_eq!(host.run(&command).unwrap().stdout, odd);
    let command = Command { stdin: "line\n\nlast", ..shell("cat") };
    assert_eq!(host.run(&command).unwrap().stdout, "line\n\nlast");
    assert_eq!(run(&host, "cat").stdout, "", "without input there is none");
    assert_eq!(run(&host, "exit 255").exit_code, Some(255));
    assert_eq!(run(&host, "kill -9 $$").exit_code, Some(137));
}

#[test]
fn files_are_in_the_working_directory_which_is_removed() {
    let host = host();
    let path = host.write_file("rules.nft", "flush ruleset\n").unwrap();
    assert_eq!(
        run(&host, "cat rules.nft; pwd").stdout,
        format!("flush ruleset\n{}\n", host.directory())
    );
    assert!(path.ends_with("/rules.nft") && Path::new(&path).exists());
    let directory = host.directory().to_owned();
    drop(host);
    assert!(!Path::new(&directory).exists());
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
    let host = host();
    let slow =
        Command { timeout: Duration::from_millis(300), ..shell("sleep 1000 & echo $!; wait") };
    let error = host.run(&slow).unwrap_err();
    assert!(error.what.contains("did not end within 300ms"), "{error}");
    let pid = error.what.split("it had said: ").nth(1).unwrap().trim_end_matches(')');
    until("the end of what it started", || is_gone(pid));
}

#[test]
fn a_cancelled_command_ends() {
    let remote = RemoteSpec { name: "here".to_owned(), ..RemoteSpec::default() };
    let cancel = Cancel::default();
    let host = SshHost::new(&remote, &Secrets::default(), &cancel);
    cancel.request(2);
    let error = host.run(&shell("sleep 1000")).unwrap_err();
    for part in ["`sleep 1000` was cancelled", "weir lab resume"] {
        assert!(error.what.contains(part), "{part:?} is not in: {error}");
    }
    let kept = Command { cancellable: false, ..shell("echo done") };
    assert_eq!(host.run(&kept).unwrap().stdout, "done\n");
}

#[test]
fn the_lines_of_a_process_come_as_they_are_written() {
    let host = host();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let lines = Box::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
    let line = "echo one; echo; echo two; echo error >&2; read x < go; exit 4";
    run(&host, "mkfifo go");
    let mut process = host.spawn_lines(line, "p.log", lines).unwrap();
    until("the lines", || seen.lock().unwrap().len() == 4);
    assert_eq!(process.ended().unwrap(), None);
    run(&host, "echo >go");
    until("the end", || process.ended().unwrap().is_some());
    let ended = process.ended().unwrap().unwrap();
    assert_eq!((ended.success, ended.how.as_str()), (false, "exit code 4"));
    process.stop(Duration::from_secs(1)).unwrap();
    // Each output keeps its order; which of the two comes first is nobody's to say.
    let of_output = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| *line != "error").cloned().collect()
    };
    assert_eq!(of_output(&seen.lock().unwrap()), ["one", "", "two"]);
    let (name, artefact) = host.take_artefacts().remove(0);
    let artefact = String::from_utf8(artefact).unwrap();
    let kept: Vec<String> = artefact.lines().map(str::to_owned).collect();
    assert_eq!((name.as_str(), kept.len()), ("p.log", 4), "{artefact}");
    assert_eq!(of_output(&kept), ["one", "", "two"]);
}

#[test]
fn a_process_is_signalled_and_ended_with_its_group() {
    // As weir does. What is caught is not caught in what a program starts; but what somebody who
    // ran the tests in the background made it ignore, a shell ignores for good.
    let is_default = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_default(SIGINT, is_default).unwrap();
    let host = host();
    let line = "trap 'echo told >told; exit 5' INT; sleep 1000 & echo $! >pid; \
                while :; do sleep 0.05; done";
    let mut process = host.spawn(line, "p.log").unwrap();
    until("its start", || run(&host, "cat pid").success());
    process.signal("INT").unwrap();
    until("its end", || process.ended().unwrap().is_some());
    assert_eq!(process.ended().unwrap().unwrap().how, "exit code 5");
    assert_eq!(run(&host, "cat told").stdout, "told\n");
    // What it left behind is there until it is stopped.
    let pid = run(&host, "cat pid").stdout;
    assert!(!is_gone(&pid) || pid.is_empty());
    process.stop(Duration::from_secs(1)).unwrap();
    until("the end of what it left", || is_gone(&pid));

    let stubborn = "trap '' TERM INT; echo $$ >pid2; while :; do sleep 0.05; done";
    let mut process = host.spawn(stubborn, "q.log").unwrap();
    until("its start", || run(&host, "cat pid2").success());
    let pid = run(&host, "cat pid2").stdout;
    process.stop(Duration::from_millis(200)).unwrap();
    until("its end", || is_gone(&pid));
    assert!(process.signal("no; rm").is_err());
}

#[test]
fn a_process_that_nobody_holds_ends() {
    let host = host();
    let process = host.spawn("echo $$ >pid; sleep 1000", "p.log").unwrap();
    until("its start", || run(&host, "cat pid").success());
    let pid = run(&host, "cat pid").stdout;
    drop(process);
    until("its end", || is_gone(&pid));
}

#[test]
fn secrets_are_in_the_managers_environment_and_nowhere_else() {
    let secrets = Secrets::new(vec![("PDU".to_owned(), "hunter'2".to_owned())]).unwrap();
    let host = SshHost::manager(&secrets, &Cancel::default());
    let output = run(&host, "printf %s \"$PDU\" | wc -c; echo \"$PDU\"; echo \"$PDU\" >&2");
    assert!(output.stdout.starts_with('8'), "{output:?}");
    assert!(output.stdout.ends_with("***PDU***\n") && output.stderr == "***PDU***\n", "{output:?}");
    let mut process = host.spawn("echo \"it is $PDU\"; echo \"$PDU\" >&2", "p.log").unwrap();
    until("the end", || process.ended().unwrap().is_some());
    process.stop(LONG).unwrap();
    let log = host.take_log();
    // It has the last line, and which of the two outputs comes first is nobody's to say.
    assert!(log.ends_with("***PDU***\n"), "{log}");
    assert!(!log.contains("hunter"), "{log}");
    let artefact = String::from_utf8(host.take_artefacts().remove(0).1).unwrap();
    let mut lines: Vec<&str> = artefact.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["***PDU***", "it is ***PDU***"]);
}

#[test]
fn another_machine_gets_no_secret() {
    let secrets = Secrets::new(vec![("PDU".to_owned(), "hunter'2".to_owned())]).unwrap();
    let ssh = Some("dut.invalid".to_owned());
    let remote = RemoteSpec { name: "dut".to_owned(), ssh, ..RemoteSpec::default() };
    let host = SshHost::new(&remote, &secrets, &Cancel::default());
    assert!(host.script("mark", "/dev/null", "true").environment.is_empty());
}

#[test]
fn every_command_is_in_the_log_with_what_it_said() {
    let host = host();
    run(&host, "echo one; exit 2");
    host.write_file("f", "x").unwrap();
    let log = host.take_log();
    let lines: Vec<Vec<&str>> = log.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines.iter().all(|fields| fields.len() == 6 && fields[1] == "here"), "{log}");
    assert_eq!(lines[0][3..], ["exit code 2", "echo one; exit 2", "one"]);
    assert!(lines[0][0].parse::<jiff::Timestamp>().is_ok(), "{log}");
}

#[test]
fn a_file_is_fed_to_a_command_and_a_full_disk_is_told() {
    let host = host();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("image");
    fs::write(&file, vec![b'x'; 300_000]).unwrap();
    assert_eq!(host.feed("wc -c", &file, LONG).unwrap().stdout.trim(), "300000");
    let error = host.feed("wc -c", &dir.path().join("none"), LONG).unwrap_err();
    assert!(error.what.contains("cannot read") && error.what.contains("none"), "{error}");
    let error = host.feed("wc -c", dir.path(), LONG).unwrap_err();
    assert!(error.what.contains("not a regular file"), "{error}");
    let output = host.feed("head -c 1 >/dev/null", &file, LONG).unwrap();
    assert!(output.success(), "a command may leave input unread: {output:?}");
    let output = host.feed("cat >/dev/full", &file, LONG).unwrap();
    let error = host.failed("installing the image", &output);
    assert!(error.what.contains("installing the image: the disk is full"), "{error}");
    assert!(error.what.contains("resume") && error.what.contains("/dev"), "{error}");
}

#[test]
fn a_large_file_has_no_more_time_than_was_given() {
    let host = host();
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
    let error = host.feed("sleep 1000", &image, Duration::from_millis(300)).unwrap_err();
    assert!(error.what.contains("`sleep 1000` did not end within 300ms"), "{error}");
}

/// Content that ends with an error.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the disk has a hole"));
        }
        let count = self.0.min(buffer.len());
        self.0 -= count;
        Ok(count)
    }
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_never_taken_for_a_whole_one() {
    let host = host();
    let line = "cat >got; echo whole >whole";
    let source = Source::new("v1.img", Box::new(Broken(100_000)), 300_000);
    let error = host.feed_from(line, source, LONG).unwrap_err();
    let parts = ["feeding `cat >got", "cannot read v1.img here after 100000 of 300000 bytes"];
    for part in parts.into_iter().chain(["the disk has a hole", "was killed", "resume"]) {
        assert!(error.what.contains(part), "{part:?} is not in: {error}");
    }
    // One that is cut off, or that is still being written.
    for size_bytes in [200_000, 50_000] {
        let source = Source::new("v1.img", Box::new(io::repeat(1).take(100_000)), size_bytes);
        let error = host.feed_from(line, source, LONG).unwrap_err();
        assert!(error.what.contains("100000 when it was read"), "{error}");
    }
    assert!(!run(&host, "cat whole").success(), "it was not to see the end of its input");
    let source = Source::new("v1.img", Box::new(io::repeat(1).take(100_000)), 100_000);
    assert!(host.feed_from(line, source, LONG).unwrap().success());
    assert!(run(&host, "cat whole").success());
    assert_eq!(run(&host, "ls").stdout, "got\nwhole\n");
    // A file of the kernel's that can be opened, and not read.
    let error = host.feed("cat", Path::new("/proc/self/mem"), LONG).unwrap_err();
    assert!(error.what.contains("cannot read /proc/self/mem here after 0"), "{error}");
}

#[test]
fn a_command_that_is_given_up_does_not_see_the_end_of_its_input() {
    let host = host();
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    fs::write(&image, vec![b'x'; 4 << 20]).unwrap();
    let line = "echo $$ >pid; sleep 1000; cat >/dev/null; echo whole >whole";
    host.feed(line, &image, Duration::from_millis(300)).unwrap_err();
    let pid = run(&host, "cat pid").stdout;
    until("its end", || is_gone(&pid));
    assert!(!run(&host, "cat whole").success());
}

#[test]
fn settings_and_counters_of_linux_are_read_and_written() {
    let host = host();
    assert_eq!(host.sysctl("kernel.ostype").unwrap(), "Linux");
    let error = host.sysctl("net.no.such").unwrap_err();
    assert!(error.what.contains("reading the setting net.no.such"), "{error}");
    let counters = host.stack_counters().unwrap();
    assert!(counters["ip"].contains_key("Ip.InHdrErrors"), "{counters:?}");
    assert!(host.sysctls().unwrap().contains_key("net.ipv4.ip_forward"));
}
