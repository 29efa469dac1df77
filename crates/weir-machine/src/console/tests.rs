//! Consoles against a machine that the test plays itself, over a socket.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A console, and the machine's end of it.
struct Wire {
    console: Console,
    machine: UnixStream,
    dir: TempDir,
}

impl Wire {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console");
        let listener = UnixListener::bind(&path).unwrap();
        let options = Options { log: Some(dir.path().join("log")), ..Options::default() };
        let console = Console::open(&Target::Unix(path), options).unwrap();
        let (machine, _) = listener.accept().unwrap();
        machine.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { console, machine, dir }
    }

    fn say(&mut self, text: &str) {
        self.machine.write_all(text.as_bytes()).unwrap();
    }

    /// What the console has sent, up to the last of these bytes.
    fn heard(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.machine.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The log, when the machine is gone and the console is closed.
    fn log(self) -> String {
        let Self { console, machine, dir } = self;
        drop(machine);
        while console.ended().is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        drop(console);
        fs::read_to_string(dir.path().join("log")).unwrap()
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

#[test]
fn words_are_found_between_escape_sequences_and_only_once() {
    let mut wire = Wire::new();
    wire.say("\x1b[2J\x1b[1;1Hboot\x1b[0;37m> boot");
    let cancel = Cancel::default();
    let found = wire.console.expect(&regex("boot>"), PATIENCE, &cancel).unwrap();
    assert_eq!(found, "boot>");
    wire.say(" again>");
    assert_eq!(wire.console.expect(&regex("[a-z ]+>"), PATIENCE, &cancel).unwrap(), " boot again>");
    let error = wire.console.expect(&regex("boot"), Duration::ZERO, &cancel).unwrap_err();
    assert!(error.to_string().contains("boot> boot again>"), "{error}");
    assert!(error.is_answer());
    assert_eq!(wire.log(), "\x1b[2J\x1b[1;1Hboot\x1b[0;37m> boot again>");
}

#[test]
fn a_script_answers_waits_and_keeps_its_secret() {
    let mut wire = Wire::new();
    let script = Script::parse(
        "install.toml",
        r#"
        timeout = "60s"
        fail = ["panic"]
        [[step]]
        expect = 'login: $'
        answer = [{ expect = "press any key", send = " " }]
        send_line = "root"
        [[step]]
        expect = 'Password:'
        secret = "PASSWORD"
        [[step]]
        name = "the prompt"
        expect = '# $'
        "#,
    )
    .unwrap();
    assert_eq!(script.secrets().collect::<Vec<_>>(), ["PASSWORD"]);
    let mut progress = Vec::new();
    let (console, machine) = (&wire.console, &mut wire.machine);
    let result = thread::scope(|scope| {
        let play = scope.spawn(move || {
            let mut heard = |expected: &str, say: &str| {
                let mut bytes = vec![0; expected.len()];
                machine.read_exact(&mut bytes).unwrap();
                assert_eq!(String::from_utf8_lossy(&bytes), expected);
                machine.write_all(say.as_bytes()).unwrap();
            };
            heard("", "press any key to");
            heard(" ", " continue\r\nlogin: ");
            heard("root\r", "root\r\nPassword:");
            // A machine that shows what it should not.
            heard("swordfish\r", "sword");
            heard("", "fish\r\n# ");
        });
        let environment = |name: &str| (name == "PASSWORD").then(|| "swordfish".to_owned());
        let watch =
            &mut |t: &Progress<'_>| progress.push((t.step, t.name.to_owned(), t.matched.clone()));
        let result = console.run(&script, &environment, &Cancel::default(), watch);
        play.join().unwrap();
        result
    });
    result.unwrap();
    let last = progress.last().unwrap();
    assert_eq!(last, &(3, "the prompt".to_owned(), Some("# ".to_owned())));
    assert_eq!(progress.len(), 3);
    let log = wire.log();
    assert!(log.ends_with("Password:********\r\n# "), "{log}");
}

#[test]
fn a_script_that_fails_names_its_step_and_shows_the_console() {
    let mut wire = Wire::new();
    let text = "fail = ['panic: .*']\n[[step]]\nexpect = 'login:'\ntimeout = '60s'\n";
    let script = Script::parse("s.toml", text).unwrap();
    wire.say("booting\r\npanic: no init\r\n");
    let cancel = Cancel::default();
    let error = wire.console.run(&script, &|_| None, &cancel, &mut |_| {}).unwrap_err();
    let shown = error.to_string();
    assert!(shown.starts_with("s.toml, step 1 (login:): `panic: .*` came"), "{shown}");
    assert!(shown.ends_with("booting\npanic: no init"), "{shown}");
    assert!(error.is_answer());
    // A secret that is not there is told before anything is sent.
    let script =
        Script::parse("s.toml", "[[step]]\nsend = 'x'\n[[step]]\nsecret = 'NONE'").unwrap();
    let error = wire.console.run(&script, &|_| None, &cancel, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("`NONE` is not in the environment"), "{error}");
    assert!(!error.is_answer());
    wire.console.send(b"!").unwrap();
    assert_eq!(wire.heard(1), "!");
    // The end of the line is told too, and a cancelled wait is over.
    cancel.request(2);
    let cancelled = wire.console.expect(&regex("x"), PATIENCE, &cancel).unwrap_err();
    assert!(cancelled.is_cancelled());
    drop(wire.machine);
    let error = wire.console.expect(&regex("x"), PATIENCE, &Cancel::default()).unwrap_err();
    assert!(error.to_string().contains("the other end closed it"), "{error}");
}

#[test]
fn a_silent_machine_is_nudged() {
    let mut wire = Wire::new();
    let text = "character_delay = '1ms'\n[[step]]\nexpect = 'ok> '\ntimeout = '60s'\n\
                nudge = \"hi\\r\"\nnudge_every = '50ms'\n";
    let script = Script::parse("s.toml", text).unwrap();
    let (console, machine) = (&wire.console, &mut wire.machine);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut bytes = [0; 6];
            machine.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hi\rhi\r");
            machine.write_all(b"ok> ").unwrap();
        });
        console.run(&script, &|_| None, &Cancel::default(), &mut |_| {}).unwrap();
    });
}

#[test]
fn what_a_script_cannot_mean_is_refused() {
    let cases = [
        ("", "no [[step]]"),
        ("[[step]]\n", "neither waits"),
        ("[[step]]\nexpect = '('", "is not a regular expression"),
        ("[[step]]\nexpect = 'a*'", "would always match"),
        ("[[step]]\nsend = 'a'\nsecret = 'B'", "more than one"),
        ("[[step]]\nsend = 'a'\ntimeout = '1s'", "need an `expect`"),
        ("[[step]]\nexpect = 'a'\nnudge_every = '1s'", "needs a `nudge`"),
        ("[[step]]\nexpekt = 'a'", "expekt"),
        ("timeout = 'soon'\n[[step]]\nsend = 'a'", "soon"),
        ("fail = ['[']\n[[step]]\nsend = 'a'", "fail: "),
    ];
    for (text, part) in cases {
        let error = Script::parse("s.toml", text).unwrap_err();
        assert!(error.starts_with("s.toml") && error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_serial_line_is_raw_and_one_program_at_a_time_has_it() {
    let pty = nix::pty::openpty(None, None).unwrap();
    let path = nix::unistd::ttyname(&pty.slave).unwrap();
    let target = Target::Serial { device: path.clone(), speed_bps: 9_600 };
    let console = Console::open(&target, Options::default()).unwrap();
    let busy = Console::open(&target, Options::default()).err().unwrap();
    assert!(busy.to_string().contains("used by another program"), "{busy}");
    let mut machine = File::from(pty.master);
    // Raw: a carriage return is not made a line feed, and nothing is echoed.
    console.send(b"root\r").unwrap();
    let mut bytes = [0; 5];
    machine.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"root\r");
    machine.write_all(b"# ").unwrap();
    console.expect(&regex("# "), PATIENCE, &Cancel::default()).unwrap();
    drop(console);
    // It can be had again, at another speed; a speed that is none is refused.
    let target = Target::Serial { device: path.clone(), speed_bps: 115_200 };
    drop(Console::open(&target, Options::default()).unwrap());
    let target = Target::Serial { device: path, speed_bps: 115_201 };
    assert!(
        Console::open(&target, Options::default()).err().unwrap().to_string().contains("115200")
    );
}

#[test]
fn a_log_that_cannot_be_opened_is_told() {
    let options = Options { log: Some("/nonexistent/log".into()), ..Options::default() };
    let error = Console::open(&Target::Unix("/nonexistent".into()), options).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/log"), "{error}");
    let error = Console::open(&Target::Unix("/nonexistent".into()), Options::default());
    assert!(error.err().unwrap().to_string().contains("unix:/nonexistent"));
}

#[test]
fn a_terminal_server_is_answered_and_the_machine_behind_it_heard() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let console = Console::open(&Target::Telnet(address), Options::default()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    // It echoes, wants no go-aheads, and asks for a terminal type.
    server.write_all(b"\xff\xfb\x01\xff\xfd\x03\xff\xfd\x18log\xff\xf1in: \r\0").unwrap();
    let mut heard = |count: usize| {
        let mut bytes = vec![0; count];
        server.read_exact(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(heard(9), b"\xff\xfd\x01\xff\xfb\x03\xff\xfc\x18");
    let found = console.expect(&regex("login: \r"), PATIENCE, &Cancel::default()).unwrap();
    assert_eq!(found, "login: \r");
    console.send(b"root\r\xff").unwrap();
    assert_eq!(heard(8), b"root\r\0\xff\xff");
    console.send_break().unwrap();
    assert_eq!(heard(2), b"\xff\xf3");
}

#[test]
fn a_console_that_is_not_there_yet_is_waited_for_until_somebody_asks_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("console");
    let options = || Options { patience: PATIENCE, ..Options::default() };
    thread::scope(|scope| {
        let opened = scope.spawn(|| Console::open(&Target::Unix(path.clone()), options()));
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(opened.join().unwrap().is_ok());
    });
    let options = options();
    options.cancel.request(15);
    let error = Console::open(&Target::Unix(dir.path().join("never")), options).err().unwrap();
    assert!(error.is_cancelled(), "{error}");
}
