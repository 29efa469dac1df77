//! The firewall on Debian 13's kernel, the oldest one it is for, in a virtual machine; and the
//! queues that this host's kernel may not have: hfsc, red, codel.
//!
//! What `weir fw` has made is read back by tc(8). Nothing is measured here: an emulated machine has
//! no time.

use std::sync::OnceLock;

use super::guest::{Steps, can_run, kernel, run};
use super::slots::EMULATOR;
use crate::common::skipped;

const PACKAGE: &str = "linux-image-cloud-amd64";

const STEPS: &str = r"
ip netns add peer
ip link add b0 type veth peer name b1 netns peer
ip link add c0 type veth peer name c1
ip address add 10.9.1.1/24 dev b0
ip -n peer address add 10.9.1.2/24 dev b1
for link in b0 c0 c1; do ip link set $link up; done
ip -n peer link set b1 up
cat >/tmp/hfsc.conf <<END
altq on b0 hfsc bandwidth 10Mb queue { voice web rest }
queue voice bandwidth 1Mb hfsc(realtime (2Mb 10 1Mb) red)
queue web bandwidth 60% qlimit 100 hfsc(linkshare (8Mb 200 4Mb) ecn)
queue rest bandwidth 2Mb hfsc(default upperlimit 5Mb codel)
altq on c0 codel(target 10 interval 200 ecn) bandwidth 1Mb queue
block
pass out proto icmp to 10.9.1.2 queue voice
END
cat >/tmp/burst.conf <<END
queue main on c0 bandwidth 20M max 20M
queue slow parent main bandwidth 4M min 1M burst 2M for 10ms max 6M
queue rest parent main bandwidth 10M flows 64 default
pass
END
step run weir fw run -f /tmp/hfsc.conf
step answered ping -c 1 -w 5 10.9.1.2
step states weir pfctl -ss
step blocked ip netns exec peer ping -c 1 -w 1 10.9.1.1
step classes tc class show dev b0
step queues tc qdisc show dev b0
step codel tc qdisc show dev c0
step shown weir pfctl -vsq
step load weir pfctl --dialect=openbsd -f /tmp/burst.conf
step bent tc class show dev c0
step gone tc qdisc show dev b0
step stop weir fw stop
step left tc qdisc show
";

/// What the machine said; boots it for the first who asks.
fn said(test: &str) -> Option<&'static Steps> {
    static BOOT: OnceLock<Result<Steps, String>> = OnceLock::new();
    if !can_run(test) {
        return None;
    }
    let boot = || {
        let kernel = kernel(PACKAGE)?;
        let _slot = EMULATOR.take();
        Ok(run(&kernel, &[], STEPS))
    };
    let said = BOOT.get_or_init(boot).as_ref();
    said.inspect_err(|why| skipped(test, why)).ok()
}

/// What a step printed that ended well.
#[track_caller]
fn printed<'s>(steps: &'s Steps, name: &str) -> &'s str {
    let step = &steps[name];
    assert_eq!(step.code, 0, "{name}: {step:?}");
    &step.stdout
}

/// Fails unless each of the texts is in what a step printed.
#[track_caller]
fn shows(steps: &Steps, name: &str, texts: &[&str]) {
    let found = printed(steps, name);
    for text in texts {
        assert!(found.contains(text), "{name}: no `{text}` in:\n{found}");
    }
}

#[test]
fn the_kernel_of_debian_13_runs_the_firewall() {
    let Some(steps) = said("the_kernel_of_debian_13_runs_the_firewall") else { return };
    printed(steps, "run");
    printed(steps, "answered");
    shows(steps, "states", &["all icmp 10.9.1.1:", " -> 10.9.1.2:"]);
    assert_eq!(steps["blocked"].code, 1, "{:?}", steps["blocked"]);
    printed(steps, "stop");
}

#[test]
fn curves_of_two_slopes_are_the_kernels() {
    let Some(steps) = said("curves_of_two_slopes_are_the_kernels") else { return };
    // Numbers of queues follow their names: rest, voice, web.
    let classes = [
        "class hfsc 7765:100 parent 7765: ls m1 0bit d 0us m2 10Mbit ul m1 0bit d 0us m2 10Mbit",
        "class hfsc 7765:1 parent 7765:100 leaf",
        "ls m1 0bit d 0us m2 2Mbit ul m1 0bit d 0us m2 5Mbit",
        "rt m1 2Mbit d 10ms m2 1Mbit ls m1 0bit d 0us m2 1Mbit",
        "ls m1 8Mbit d 200ms m2 4Mbit",
    ];
    shows(steps, "classes", &classes);
    printed(steps, "load");
    let bent = [
        "rt m1 2Mbit d 10ms m2 1Mbit ls m1 0bit d 0us m2 4Mbit ul m1 0bit d 0us m2 6Mbit",
        "ls m1 0bit d 0us m2 10Mbit",
    ];
    shows(steps, "bent", &bent);
    for name in ["gone", "left"] {
        assert!(!printed(steps, name).contains("hfsc"), "{name}: {:?}", steps[name]);
    }
}

#[test]
fn queues_that_drop_early_are_the_kernels() {
    let Some(steps) = said("queues_that_drop_early_are_the_kernels") else { return };
    let queues = [
        "qdisc hfsc 7765: root",
        "parent 7765:2 limit 75000b min 7500b max 22500b",
        "parent 7765:3 limit 150000b min 15000b max 45000b ecn",
        "parent 7765:1 limit 50p target 5ms interval 100ms",
    ];
    shows(steps, "queues", &queues);
    shows(steps, "codel", &["parent 7765:100 limit 50p target 10ms interval 200ms ecn"]);
    let shown = printed(steps, "shown");
    let voice = shown.split("queue voice").nth(1).and_then(|rest| rest.lines().nth(1));
    assert!(voice.is_some_and(|line| line.contains("pkts:          1")), "{shown}");
}
