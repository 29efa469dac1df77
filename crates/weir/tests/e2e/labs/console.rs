//! `weir console` against machines that the test plays: over TCP, a socket and a false ipmitool.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{OpenptyResult, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::tcgetattr;
use nix::unistd::{Pid, ttyname};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("console").args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_exit(output: &Output, code: i32) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "standard output:\n{out}\nstandard error:\n{err}");
}

#[test]
fn keys_go_to_the_machine_until_the_escape_sequence() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = format!("tcp:{}", listener.local_addr().expect("an address"));
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let log_text = log.to_str().expect("text");
    let mut child =
        weir(&[&target, "--log", log_text]).stdin(Stdio::piped()).spawn().expect("it starts");
    let (mut machine, _) = listener.accept().expect("it connects");
    machine.set_read_timeout(Some(PATIENCE)).expect("settable");
    machine.write_all(b"login: ").expect("sent");
    let mut screen = child.stdout.take().expect("a pipe");
    let mut shown = [0; 7];
    screen.read_exact(&mut shown).expect("it is shown");
    assert_eq!(&shown, b"login: ");
    let mut keys = child.stdin.take().expect("a pipe");
    keys.write_all(b"root ~.\r~~x\r~.").expect("taken");
    let mut heard = [0; 11];
    machine.read_exact(&mut heard).expect("keys come");
    assert_eq!(&heard, b"root ~.\r~x\r");
    let output = child.wait_with_output().expect("it ends");
    assert_exit(&output, 0);
    assert_eq!(fs::read(&log).expect("a log"), b"login: ");
    // The machine sees the line go.
    assert_eq!(machine.read(&mut heard).expect("readable"), 0);
}

/// Plays a machine with a prompt and a password, once; its last words are `last`.
fn play(listener: &UnixListener, last: &str) {
    let (mut machine, _) = listener.accept().expect("it connects");
    machine.set_read_timeout(Some(PATIENCE)).expect("settable");
    machine.write_all(b"\x1b[1mok> ").expect("sent");
    let mut lines = BufReader::new(machine.try_clone().expect("cloned"));
    let mut heard = |expected: &[u8]| {
        let mut line = Vec::new();
        lines.read_until(b'\r', &mut line).expect("a line");
        assert_eq!(line, expected);
    };
    heard(b"go\r");
    machine.write_all(b"Password:").expect("sent");
    heard(b"open sesame\r");
    machine.write_all(format!("got open sesame, {last}\r\n").as_bytes()).expect("sent");
    // Until the console leaves.
    let _ = machine.read(&mut [0]);
}

#[test]
fn a_script_drives_and_its_failure_is_the_answer_no() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (socket, file, log) = (path("vm.sock"), path("s.toml"), path("log"));
    let listener = UnixListener::bind(&socket).expect("a socket");
    let script = "timeout = '60s'\n[[step]]\nname = 'prompt'\nexpect = 'ok> $'\nsend_line = 'go'\n\
                  [[step]]\nexpect = 'Password:'\nsecret = 'WEIR_TEST_SECRET'\n\
                  [[step]]\nexpect = 'done'\nfail = ['refused']\n";
    fs::write(&file, script).expect("written");
    let arguments = [socket.as_str(), "--script", &file, "--log", &log, "--json"];
    // Without its secret nothing is done at all.
    let output = weir(&arguments).env_remove("WEIR_TEST_SECRET").output().expect("it ends");
    assert_exit(&output, 2);
    assert!(text(&output.stderr).contains("WEIR_TEST_SECRET"));
    let run = |last: &str| {
        thread::scope(|scope| {
            let machine = scope.spawn(|| play(&listener, last));
            let output = weir(&arguments).env("WEIR_TEST_SECRET", "open sesame").output();
            machine.join().expect("the machine was treated well");
            output.expect("it ends")
        })
    };
    let lines = |output: &Output| -> Vec<Value> {
        let text = text(&output.stdout);
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let output = run("done");
    assert_exit(&output, 0);
    let steps = lines(&output);
    assert_eq!(steps.len(), 3, "{steps:?}");
    assert_eq!((&steps[0]["name"], &steps[0]["matched"]), (&"prompt".into(), &"ok> ".into()));
    let output = run("refused");
    assert_exit(&output, 1);
    let last = lines(&output).pop().expect("a line");
    assert_eq!(last["kind"], "failure");
    let message = last["message"].as_str().expect("text");
    assert!(message.contains("step 3 (done): `refused` came"), "{message}");
    for shown in [message, &text(&output.stderr), &fs::read_to_string(&log).expect("a log")] {
        assert!(shown.contains("got ********, refused"), "{shown}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}

/// Says what it is called with, then echoes; a stand-in for a controller.
const IPMITOOL: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>"$WEIR_TEST_CALLS"
[ "$IPMI_PASSWORD" = "open sesame" ] || exit 3
case "$*" in
*" activate") printf '[SOL Session operational]\r\nlogin: '; exec cat ;;
esac
"#;

#[test]
fn serial_over_lan_is_ended_on_the_controller_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let tool = dir.path().join("ipmitool");
    fs::write(&tool, IPMITOOL).expect("written");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("settable");
    let calls = dir.path().join("calls");
    let file = dir.path().join("s.toml");
    let script = "timeout = '60s'\n[[step]]\nexpect = 'login: '\nsend_line = 'root'\n\
                  [[step]]\nexpect = 'root'\n";
    fs::write(&file, script).expect("written");
    let script = file.to_str().expect("text");
    let search = format!("{}:{}", dir.path().display(), std::env::var("PATH").expect("a PATH"));
    let mut command = weir(&["ipmi:admin@bmc1", "--script", script]);
    command.env("PATH", search).env("WEIR_TEST_CALLS", &calls);
    let output = command.env_remove("IPMI_PASSWORD").output().expect("it ends");
    assert_exit(&output, 2);
    assert!(text(&output.stderr).contains("IPMI_PASSWORD"));
    let output = command.env("IPMI_PASSWORD", "open sesame").output().expect("it ends");
    assert_exit(&output, 0);
    assert!(text(&output.stdout).contains("operational]"));
    let calls = fs::read_to_string(&calls).expect("it was called");
    let calls: Vec<&str> = calls.lines().collect();
    let arguments = "-I lanplus -E -H bmc1 -U admin -e \u{1d} sol";
    assert_eq!(calls, [format!("{arguments} activate"), format!("{arguments} deactivate")]);
}

/// Asks a child to end until it does: the first signal is a request, the next one an order.
fn end_by_signals(child: &mut Child) -> ExitStatus {
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        kill(pid, Signal::SIGTERM).expect("it can be signalled");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A terminal that no program gets but the one that it is given to.
fn pty() -> OpenptyResult {
    let pty = openpty(None, None).expect("a pty");
    for end in [&pty.master, &pty.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("settable");
    }
    pty
}

#[test]
fn a_second_signal_puts_terminal_and_serial_line_back() {
    let (screen, line) = (pty(), pty());
    let device = ttyname(&line.slave).expect("a name");
    let mode = |pty: &OpenptyResult| tcgetattr(&pty.slave).expect("a mode");
    let before = (mode(&screen), mode(&line));
    let mut command = weir(&[device.to_str().expect("text")]);
    command.stdin(screen.slave.try_clone().expect("cloned"));
    let mut child = command.spawn().expect("it starts");
    while mode(&screen) == before.0 || mode(&line) == before.1 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended");
        thread::sleep(Duration::from_millis(10));
    }
    // A machine that takes nothing: the command hangs on these keys, and a request reaches nobody.
    fcntl(&screen.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("settable");
    let mut refusals = 0;
    while refusals < 20 {
        match nix::unistd::write(&screen.master, &[b'x'; 1024]) {
            Ok(_) => refusals = 0,
            Err(_) => {
                refusals += 1;
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    let status = end_by_signals(&mut child);
    assert_eq!(status.signal(), Some(15), "it was to end by the second signal: {status}");
    assert!(mode(&screen) == before.0, "the terminal stays raw");
    assert!(mode(&line) == before.1, "the serial line stays as it was set");
    let said = child.wait_with_output().expect("it ended").stderr;
    assert!(!text(&said).contains("weir lab clean"), "{}", text(&said));
}

#[test]
fn a_second_signal_waits_for_the_end_of_the_session_on_the_controller() {
    let dir = tempfile::tempdir().expect("a directory");
    let tool = dir.path().join("ipmitool");
    // A controller that takes its time: the second signal comes meanwhile.
    let ended = r#"#!/bin/sh
case "$*" in
*" activate") printf 'login: '; exec cat ;;
*" deactivate") echo begun >>"$WEIR_TEST_CALLS"; sleep 1; echo ended >>"$WEIR_TEST_CALLS" ;;
esac
"#;
    fs::write(&tool, ended).expect("written");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("settable");
    let calls = dir.path().join("calls");
    let search = format!("{}:{}", dir.path().display(), std::env::var("PATH").expect("a PATH"));
    let mut command = weir(&["ipmi:bmc1"]);
    command.env("PATH", search).env("WEIR_TEST_CALLS", &calls).env("IPMI_PASSWORD", "open sesame");
    let mut child = command.spawn().expect("it starts");
    let mut shown = [0; 7];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut shown).expect("it is shown");
    end_by_signals(&mut child);
    assert_eq!(fs::read_to_string(&calls).expect("it was called"), "begun\nended\n");
}

#[test]
fn a_screen_that_stands_still_stops_neither_log_nor_script() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (socket, file, log) = (path("vm.sock"), path("s.toml"), path("log"));
    let listener = UnixListener::bind(&socket).expect("a socket");
    fs::write(&file, "timeout = '5m'\n[[step]]\nexpect = 'ok> '\nsend_line = 'go'\n")
        .expect("written");
    // Nobody reads its standard output.
    let mut child = weir(&[&socket, "--script", &file, "--log", &log]).spawn().expect("it starts");
    let (mut machine, _) = listener.accept().expect("it connects");
    // More than the screen's queue holds, in pieces of any size.
    let words = vec![b'.'; 20 << 20];
    machine.write_all(&words).expect("the machine is never kept waiting");
    machine.write_all(b"ok> ").expect("sent");
    machine.set_read_timeout(Some(PATIENCE)).expect("settable");
    let mut heard = [0; 3];
    machine.read_exact(&mut heard).expect("the script goes on");
    assert_eq!(&heard, b"go\r");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(fs::metadata(&log).expect("a log").len(), words.len() as u64 + 4);
    let said = text(&child.wait_with_output().expect("it ended").stderr);
    assert!(said.contains("the screen was stalled"), "{said}");
}

#[test]
fn a_secret_that_cannot_be_hidden_is_refused_and_the_others_are_hidden_from_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (socket, file, log) = (path("vm.sock"), path("s.toml"), path("log"));
    let script = "timeout = '60s'\n[[step]]\nexpect = 'ok> $'\nsend_line = 'go'\n\
                  [[step]]\nexpect = 'Password:'\nsecret = 'WEIR_TEST_SECRET'\n";
    fs::write(&file, script).expect("written");
    let arguments = [socket.as_str(), "--script", &file, "--log", &log];
    let listener = UnixListener::bind(&socket).expect("a socket");
    let output = weir(&arguments).env("WEIR_TEST_SECRET", "abc").output().expect("it ends");
    assert_exit(&output, 2);
    assert!(text(&output.stderr).contains("fewer than 4 bytes"), "{}", text(&output.stderr));
    let child = weir(&arguments).env("WEIR_TEST_SECRET", "open sesame").spawn().expect("it starts");
    let (mut machine, _) = listener.accept().expect("it connects");
    machine.set_read_timeout(Some(PATIENCE)).expect("settable");
    // Before the script has come to it.
    machine.write_all(b"last login with open sesame\r\nok> ").expect("sent");
    let mut heard = [0; 3];
    machine.read_exact(&mut heard).expect("the first step");
    machine.write_all(b"Password:").expect("sent");
    machine.read_exact(&mut [0; 12]).expect("the second step");
    let output = child.wait_with_output().expect("it ends");
    assert_exit(&output, 0);
    for shown in [text(&output.stdout), fs::read_to_string(&log).expect("a log")] {
        assert!(shown.contains("login with ********\r\nok> "), "{shown}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}

#[test]
fn what_is_not_a_console_is_refused() {
    let refused = |arguments: &[&str], part: &str| {
        let output = weir(arguments).output().expect("it ends");
        assert_exit(&output, 2);
        let said = text(&output.stderr);
        assert!(said.contains(part), "{arguments:?}: {said}");
    };
    refused(&["dut1"], "tcp:HOST:PORT");
    refused(&["tcp:127.0.0.1:1", "--speed", "9600"], "not a serial device");
    refused(&["/dev/null", "--json"], "--script");
    refused(&["/dev/null", "--script", "/nonexistent.toml"], "/nonexistent.toml");
    refused(&["unix:/nonexistent"], "unix:/nonexistent");
    refused(&["/dev/null", "--escape", "ab"], "one visible");
    // It is a character device, but no terminal.
    refused(&["/dev/null"], "/dev/null");
}
