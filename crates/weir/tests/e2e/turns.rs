//! Turns at the machine: what measures has it alone, what only uses it is side by side.
//!
//! A read–write lock on a file of this host, so that it holds between processes too (`make test`
//! runs this binary's tests in several). A campaign uses CPUs 0 and 1, counts what the whole host
//! does, or looks for what stayed behind on it: it is `alone`. A firewall between namespaces of its
//! own, a generator that is counted and not timed, a machine that boots: `beside`. Never held
//! longer than its test, also when that is killed: the kernel lets go of a process's locks.

use std::fs::File;
use std::io;
use std::sync::Once;

use weir_net::NetnsGuard;

const LOCK: &str = "/run/weir-tests.lock";
/// Whoever wants the lock passes here one by one, so that nobody who is `alone` waits for ever.
const DOOR: &str = "/run/weir-tests.door";

/// A turn, until it is dropped.
#[must_use = "a turn ends when it is dropped"]
pub(crate) struct Turn(#[expect(dead_code, reason = "it is locked as long as it is open")] File);

/// Waits until nobody else has a turn; nobody gets one before this one ends. What labs left that
/// were killed with the tests that ran before these is gone.
pub(crate) fn alone() -> Turn {
    static CLEAN: Once = Once::new();
    let turn = take(File::lock);
    CLEAN.call_once(|| crate::common::assert_exit(&crate::common::run(&["lab", "clean"]), 0));
    turn
}

/// Waits until nobody is `alone`; others may be beside.
pub(crate) fn beside() -> Turn {
    take(File::lock_shared)
}

fn take(lock: fn(&File) -> io::Result<()>) -> Turn {
    // What killed tests left runs beside nobody.
    weir_oracle::netns::registry();
    let open = |path| File::create(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let door = open(DOOR);
    door.lock().expect("a lock can be had");
    let file = open(LOCK);
    lock(&file).expect("a lock can be had");
    Turn(file)
}

/// An empty namespace that goes when it is dropped, or at the next run of tests if this is killed.
pub(crate) fn namespace(what: &str) -> NetnsGuard {
    weir_oracle::netns::namespace(what).expect("tests of the machine run as root")
}

mod tests {
    //! The turns themselves, and what a binary that is killed leaves behind.

    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use weir_oracle::netns::{prefix, sweep};

    use super::{LOCK, alone, beside, namespace};
    use crate::common::can_run_lab;

    /// Says that the test runs as the process that is to be killed.
    const VICTIM: &str = "WEIR_TEST_VICTIM";

    /// This binary once more, in a turn, with a namespace in which something runs.
    fn victim(test: &str) -> (Child, u32) {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", test, "--nocapture"]).env(VICTIM, "1");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut lines = lines.map(|line| line.expect("text"));
        let said = lines.find_map(|line| line.split_once("inside: ")?.1.parse().ok());
        (child, said.expect("it says what runs inside"))
    }

    #[expect(clippy::print_stdout, reason = "the process that kills this one reads it")]
    fn be_killed() -> ! {
        let _turn = beside();
        let net = namespace("victim");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", net.name(), "sleep", "600"]);
        let mut child = command.spawn().expect("ip runs");
        // `ip` becomes the program once it is inside.
        let inside = format!("net:[{}]", net.inode());
        let link = format!("/proc/{}/ns/net", child.id());
        while std::fs::read_link(&link).is_ok_and(|netns| netns.as_os_str() != inside.as_str()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("inside: {}", child.id());
        drop(child.wait());
        panic!("the process inside ended before this one was killed");
    }

    #[test]
    fn what_a_killed_binary_left_is_swept_and_its_turn_is_over() {
        let test = "turns::tests::what_a_killed_binary_left_is_swept_and_its_turn_is_over";
        if !can_run_lab(test) {
            return;
        }
        if std::env::var_os(VICTIM).is_some() {
            be_killed();
        }
        let (mut child, inside) = victim(test);
        let left = prefix(child.id());
        let is_there = || {
            let mut names = weir_net::netns::list().expect("listed").into_iter();
            names.any(|name| name.starts_with(&left))
        };
        sweep();
        assert!(is_there(), "who lives keeps its namespace");
        child.kill().expect("killed");
        child.wait().expect("it ended");
        // What it left cannot be asserted: other tests that begin just now sweep, too. It was there
        // above, and nothing but a sweep removes it.
        sweep();
        assert!(!is_there(), "it is swept");
        let process = std::path::PathBuf::from(format!("/proc/{inside}/stat"));
        let until = Instant::now() + Duration::from_secs(60);
        let runs = || {
            let stat = std::fs::read_to_string(&process).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while runs() {
            assert!(Instant::now() < until, "the process inside goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(alone());
    }

    /// Whether a lock can be had at once, by a handle of its own, as another process would.
    fn is_free(lock: fn(&std::fs::File) -> Result<(), std::fs::TryLockError>) -> bool {
        lock(&std::fs::File::open(LOCK).expect("it is there")).is_ok()
    }

    #[test]
    fn alone_is_alone_and_beside_is_not() {
        use std::fs::File;
        if !can_run_lab("alone_is_alone_and_beside_is_not") {
            return;
        }
        let turn = alone();
        assert!(!is_free(File::try_lock_shared) && !is_free(File::try_lock));
        drop(turn);
        let turn = beside();
        assert!(!is_free(File::try_lock), "nobody is alone beside this");
        // Others may be waiting to be alone; the door is theirs, the lock is still shared.
        assert!(is_free(File::try_lock_shared));
        drop(turn);
    }
}
