//! Running, capturing, timing out and stopping, with the shell as the program.

use super::namespace::current_netns_inode;
use super::*;
use crate::testing::namespace;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn output_status_and_input() {
    let line = "read word; echo \"got $word\"; echo problem >&2; exit 3";
    let output = run(&Invocation::shell(line).stdin("something\n"), LONG).unwrap();
    assert_eq!(output.text(), "got something\n");
    assert_eq!(output.stderr, b"problem\n");
    assert_eq!(output.status.code(), Some(3));
    assert!(!output.is_truncated);
    let message = output.check().unwrap_err().to_string();
    assert!(message.ends_with("failed (exit status: 3): problem"), "{message}");
}

#[test]
fn environment_directory_and_arguments() {
    let invocation = Invocation::program(["sh", "-c", "echo $WEIR_TEST $1; pwd", "sh", "a b"])
        .env("WEIR_TEST", "value")
        .directory("/");
    let output = run(&invocation, LONG).unwrap().check().unwrap();
    assert_eq!(output.text(), "value a b\n/\n");
    assert!(matches!(run(&Invocation::program([""; 0]), LONG), Err(ProcessError::Empty)));
    let error = run(&Invocation::program(["weir-no-such-program"]), LONG).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("cannot start `weir-no-such-program`: "), "{message}");
    assert!(message.ends_with("is it installed, and in PATH?"), "{message}");
}

#[test]
fn large_input_and_output_do_not_block_each_other() {
    let input = vec![b'x'; 3_000_000];
    let invocation =
        Invocation::program(["cat"]).stdin(input.clone()).output_size_bytes_max(4_000_000);
    let output = run(&invocation, LONG).unwrap();
    assert_eq!(output.stdout.len(), input.len());
    assert!(!output.is_truncated);
    // A program that does not read its input is no error.
    let output = run(&Invocation::program(["true"]).stdin(input), LONG).unwrap();
    assert!(output.status.success());
}

#[test]
fn output_beyond_the_limit_is_dropped_and_said_so() {
    let invocation = Invocation::shell("head -c 100000 /dev/zero").output_size_bytes_max(10);
    let output = run(&invocation, LONG).unwrap();
    assert_eq!((output.stdout.len(), output.is_truncated), (10, true));
    assert!(output.status.success());
}

#[test]
fn a_time_out_kills_the_whole_group() {
    let line = "echo started; sleep 1000 & echo $!; wait";
    let timeout = Duration::from_millis(300);
    let error = run(&Invocation::shell(line), timeout).unwrap_err();
    let ProcessError::TimedOut { output, .. } = error else { panic!("{error}") };
    let text = output.text();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("started"));
    let background: i32 = lines.next().unwrap().parse().unwrap();
    wait_until_ended(background);
}

fn wait_until_ended(pid: i32) {
    let deadline = Instant::now() + LONG;
    while procfs::stat(pid).is_some_and(|stat| !stat.has_ended()) {
        assert!(Instant::now() < deadline, "process {pid} still runs");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_stays_in_the_background_is_not_waited_for() {
    let netns = namespace("background");
    let output = netns
        .run(|| run(&Invocation::shell("sleep 1000 & echo $!"), LONG).unwrap())
        .unwrap()
        .check()
        .unwrap();
    let pid: i32 = output.text().trim().parse().unwrap();
    assert_eq!(processes_in_netns(netns.inode()).unwrap(), [pid]);
    assert_eq!(end_processes_in(netns.inode(), LONG).unwrap(), 1);
    assert!(processes_in_netns(netns.inode()).unwrap().is_empty());
}

fn start(line: &str) -> (tempfile::NamedTempFile, Process) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let stdout = file.reopen().unwrap();
    let stderr = stdout.try_clone().unwrap();
    let process = spawn(&Invocation::shell(line), stdout, stderr).unwrap();
    (file, process)
}

fn wait_for_line(file: &tempfile::NamedTempFile) -> String {
    let deadline = Instant::now() + LONG;
    loop {
        let text = std::fs::read_to_string(file.path()).unwrap();
        if text.ends_with('\n') {
            return text;
        }
        assert!(Instant::now() < deadline, "nothing was written");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn stop_asks_first_and_waits_for_the_answer() {
    let (file, process) =
        start("trap 'echo bye; exit 4' TERM; echo up; while :; do sleep .05; done");
    assert_eq!(wait_for_line(&file), "up\n");
    assert_eq!(process.try_wait().unwrap(), None);
    let stopped = process.stop(LONG).unwrap();
    assert_eq!((stopped.status.code(), stopped.was_killed), (Some(4), false));
    assert!(std::fs::read_to_string(file.path()).unwrap().ends_with("bye\n"));
}

#[test]
fn stop_kills_what_does_not_listen() {
    let (file, process) = start("trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000");
    let background: i32 = wait_for_line(&file).trim().parse().unwrap();
    let leader = process.pid();
    let stopped = process.stop(Duration::from_millis(100)).unwrap();
    assert!(stopped.was_killed);
    assert_eq!(stopped.status.signal(), Some(9));
    wait_until_ended(background);
    assert!(procfs::stat(leader).is_none(), "the leader has been reaped");
}

#[test]
fn a_program_that_ended_by_itself_is_seen_and_its_rest_is_stopped() {
    let (file, process) = start("sleep 1000 & echo $!; exit 5");
    let background: i32 = wait_for_line(&file).trim().parse().unwrap();
    let deadline = Instant::now() + LONG;
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!(status.code(), Some(5));
    assert_eq!(process.try_wait().unwrap(), Some(status), "looking does not consume it");
    let stopped = process.stop(LONG).unwrap();
    assert_eq!((stopped.status.code(), stopped.was_killed), (Some(5), false));
    wait_until_ended(background);
}

#[test]
fn a_dropped_process_is_killed() {
    let (_file, process) = start("sleep 1000");
    let pid = process.pid();
    drop(process);
    assert!(procfs::stat(pid).is_none());
}

#[test]
fn processes_that_ignore_sigterm_are_killed() {
    let netns = namespace("stubborn");
    let (file, process) =
        netns.run(|| start("trap '' TERM; echo up; while :; do sleep .05; done")).unwrap();
    assert_eq!(wait_for_line(&file), "up\n");
    assert!(processes_in_netns(netns.inode()).unwrap().contains(&process.pid()));
    assert!(end_processes_in(netns.inode(), Duration::from_millis(100)).unwrap() >= 1);
    assert_eq!(process.try_wait().unwrap().unwrap().signal(), Some(9));
}

#[test]
fn the_hosts_namespace_is_protected() {
    let our_inode = current_netns_inode().unwrap();
    assert_eq!(crate::netns::current_inode().unwrap(), our_inode);
    let error = end_processes_in(our_inode, LONG).unwrap_err();
    assert!(matches!(error, ProcessError::Protected { .. }), "{error}");
    let pid = i32::try_from(std::process::id()).unwrap();
    assert!(!processes_in_netns(our_inode).unwrap().contains(&pid), "never this process");
}
