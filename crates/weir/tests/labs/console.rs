//! `weir console` against machines that the test plays: over TCP, a socket and a false ipmitool.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

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
    let arguments = "-I lanplus -E -H bmc1 -U admin -e \u{1} sol";
    assert_eq!(calls, [format!("{arguments} activate"), format!("{arguments} deactivate")]);
}

#[test]
fn what_is_no_console_is_refused() {
    let refused = |arguments: &[&str], part: &str| {
        let output = weir(arguments).output().expect("it ends");
        assert_exit(&output, 2);
        let said = text(&output.stderr);
        assert!(said.contains(part), "{arguments:?}: {said}");
    };
    refused(&["dut1"], "tcp:HOST:PORT");
    refused(&["tcp:127.0.0.1:1", "--speed", "9600"], "no serial device");
    refused(&["/dev/null", "--json"], "--script");
    refused(&["/dev/null", "--script", "/nonexistent.toml"], "/nonexistent.toml");
    refused(&["unix:/nonexistent"], "unix:/nonexistent");
    refused(&["/dev/null", "--escape", "ab"], "one visible");
    // It is a character device, but no terminal.
    refused(&["/dev/null"], "/dev/null");
}
