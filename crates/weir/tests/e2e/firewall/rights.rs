//! Who may command the firewall, and who may not keep it from starting.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use super::network::{Killed, Network, wait_until};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// User 0 as in a container: without any capability, nor a way to get one.
const POWERLESS: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

/// What a command says that is refused.
#[track_caller]
fn refusal(net: &Network, words: &[&str]) -> String {
    let output = net.program(words).output().expect("ip runs");
    assert_ne!(output.status.code(), Some(0), "{words:?}");
    stderr(&output)
}

#[test]
fn user_0_without_capabilities_commands_nothing() {
    let test = "user_0_without_capabilities_commands_nothing";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("power");
    net.start("pass\n");
    let path = net.file("next.conf", "block\n");
    for words in [&["fw", "stop"][..], &["fw", "status"], &["pfctl", "-d"], &["pfctl", "-f", &path]]
    {
        let message = refusal(&net, &[&POWERLESS[..], &[WEIR], words].concat());
        assert!(message.contains("does not have CAP_NET_ADMIN"), "{words:?}: {message}");
    }
    // In a user namespace of its own it has all capabilities, but not over this network.
    let apart = ["unshare", "--user", "--map-root-user", WEIR, "fw", "stop"];
    let message = refusal(&net, &apart);
    assert!(message.contains("does not have CAP_NET_ADMIN"), "{message}");
    // Another user does not even reach it.
    let other = ["setpriv", "--reuid=65534", "--clear-groups"];
    let message = refusal(&net, &[&other[..], &[WEIR, "fw", "stop"]].concat());
    assert!(message.contains("only root"), "{message}");
    assert_eq!(net.json("status")["enabled"], true, "it goes on");
    assert_eq!(net.pfctl("-sr"), "pass all flags S/SA keep state\n");

    // The capability alone is enough for who reaches the socket.
    let able = ["setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all"];
    let output = net.program(&[&able[..], &[WEIR, "pfctl", "-d"]].concat()).output();
    assert_exit(&output.expect("ip runs"), 0);
    assert_eq!(net.json("status")["enabled"], false);
}

#[test]
fn who_takes_a_name_first_does_not_stop_it() {
    let test = "who_takes_a_name_first_does_not_stop_it";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("name");
    // The name that used to be the firewall's. perl is in every Debian.
    let listens = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; \
                   bind(S, pack('S', AF_UNIX).qq(\\0weir-fw)) or die; listen(S, 9) or die; \
                   $| = 1; print qq(ready\\n); sleep 600";
    let mut command =
        net.program(&["setpriv", "--reuid=65534", "--clear-groups", "perl", "-e", listens]);
    let mut child = Killed(command.stdout(Stdio::piped()).spawn().expect("ip runs"));
    let mut ready = [0; 6];
    let mut printed = child.0.stdout.take().expect("a pipe");
    printed.read_exact(&mut ready).expect("it listens");

    assert_exit(&net.run(&["fw", "status"]), 1);
    net.start("pass\n");
    assert_eq!(net.json("status")["running"], true);
    drop(child);

    let socket = net.socket();
    let above = socket.parent().expect("a directory");
    let mode = above.metadata().expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o700, "nobody but root enters");
    net.kill_daemon();
    // The socket is left, unless a firewall that started meanwhile has removed it.
    net.start("pass\n");
    assert_exit(&net.run(&["fw", "stop"]), 0);
    wait_until("nothing is left", || !socket.exists() && !socket.with_extension("lock").exists());
}
