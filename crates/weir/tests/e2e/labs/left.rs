//! What a process of these tests leaves behind when it is killed, and its removal by the next one:
//! network namespaces with all that runs in them, and files.
//!
//! Records are in the tests' registry (`weir_oracle::netns`). What weir itself left goes as well:
//! its commands end with the thread that started them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use weir_net::Netns;
use weir_net::process::processes_in_netns;
use weir_net::registry::{self, Record};
use weir_oracle::netns;

use super::pxe::{self, Rack};
use super::ssh_hosts::SshHosts;
use crate::common::weir;

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Puts namespaces on record that this process is about to make, and makes a directory that goes
/// with the record.
pub(crate) fn record(namespaces: impl Iterator<Item = String>) -> (Record, PathBuf) {
    sweep_once();
    let names: Vec<String> = namespaces.collect();
    let record = netns::registry().record(&names).expect("a record can be written");
    let directory = record.directory().expect("a directory");
    (record, directory)
}

/// Removes what killed processes left, before this one makes anything.
pub(crate) fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(sweep);
}

fn sweep() {
    netns::sweep();
    drop(registry::clean_leftovers());
}

/// Set for a process that is to be killed.
const VICTIM: &str = "WEIR_TEST_VICTIM";
const NAME: &str = "labs::left::what_a_killed_process_of_these_tests_left_is_removed_by_the_next";
/// What the victim says when all of it is there, with the number of its process of weir.
const READY: &str = "ready: ";

/// Makes whatever these tests make, and waits to be killed.
#[expect(clippy::print_stdout, reason = "the process that kills this one reads it")]
fn wait_to_be_killed() {
    let _hosts = SshHosts::start(NAME).expect("the other process could");
    let rack = Rack::new("left", pxe::CONFIG);
    let (_service, _events) = rack.serve();
    let _machine = rack.machine();
    let mut queues = weir();
    queues.args(["queues", "lo", "--json"]).stdout(Stdio::piped());
    let mut queues = queues.spawn().expect("the binary starts");
    let mut lines = BufReader::new(queues.stdout.take().expect("a pipe")).lines();
    lines.next().expect("it shows something").expect("readable");
    println!("\n{READY}{}", queues.id());
    thread::sleep(PATIENCE);
    // Nobody killed this process.
    drop(queues.kill());
    drop(queues.wait());
}

/// The namespaces of a process of these tests.
fn namespaces_of(pid: u32) -> Vec<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let (hosts, rack) = (format!("wssh{pid}-"), format!("-{pid}"));
    names
        .filter(|name| {
            name.starts_with(&hosts) || (name.starts_with("weir-pxe-") && name.ends_with(&rack))
        })
        .collect()
}

/// The command lines of processes that run in one of these namespaces.
fn running_in(namespaces: &[String]) -> Vec<(i32, String)> {
    let inside = |name: &String| processes_in_netns(Netns::open(name).ok()?.inode()).ok();
    let line = |pid: i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&line).replace('\0', " "))
    };
    namespaces.iter().filter_map(inside).flatten().map(line).collect()
}

/// Whether there is a process of that number which has not ended.
pub(super) fn runs(pid: impl std::fmt::Display) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

#[test]
fn what_a_killed_process_of_these_tests_left_is_removed_by_the_next() {
    if std::env::var_os(VICTIM).is_some() {
        return wait_to_be_killed();
    }
    if !pxe::can_run(NAME) || !SshHosts::can_start(NAME) {
        return;
    }
    let mut victim = Command::new(std::env::current_exe().expect("this executable"));
    victim.args(["--exact", NAME, "--nocapture"]).env(VICTIM, "1");
    let mut victim = victim.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let mut said = lines.map_while(Result::ok);
    let ready = said.find_map(|line| line.strip_prefix(READY).map(str::to_owned));
    let namespaces = namespaces_of(victim.id());
    let running = running_in(&namespaces);
    victim.kill().expect("SIGKILL");
    victim.wait().expect("it ended");
    let queues = ready.expect("it was ready");

    assert_eq!(namespaces.len(), 5, "a manager, three machines and a rack: {namespaces:?}");
    for program in ["sshd", "dnsmasq", "qemu-system-x86_64", "pxe serve"] {
        assert!(running.iter().any(|(_, line)| line.contains(program)), "{program}: {running:?}");
    }
    assert_eq!(namespaces_of(victim.id()).len(), 5, "there is nothing to remove");
    let records = || {
        let names = fs::read_dir(netns::RECORDS).expect("records").flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&format!("{}-", victim.id()))).count()
    };
    // Two records, and a directory of each.
    assert_eq!(records(), 4);
    sweep();
    assert_eq!(namespaces_of(victim.id()), Vec::<String>::new());
    assert_eq!(records(), 0);
    let deadline = Instant::now() + PATIENCE;
    let alive = || {
        let left = running.iter().filter(|(pid, _)| runs(pid));
        left.map(|(_, line)| line.as_str()).chain(runs(&queues).then_some("queues")).count()
    };
    while alive() > 0 {
        assert!(Instant::now() < deadline, "of {running:?} and {queues} some live on");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(Path::new(netns::RECORDS).exists(), "other processes may have records");
}
