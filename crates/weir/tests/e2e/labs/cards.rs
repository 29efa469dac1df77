//! `weir rss` at the drivers of cards, in a virtual machine: virtio and igb, with one boot.
//!
//! A second card of the machine, in another namespace there, sends what is probed with. What both
//! cards do is QEMU's own receive side scaling, which knows nothing of weir.

use std::any::Any;
use std::panic;
use std::sync::OnceLock;

use serde_json::Value;

use super::guest::{Card, Step, Steps, can_run, has_device, kernel, run};
use super::slots::EMULATOR;
use crate::common::skipped;

const IGB: &str = "igb";
const FLOW_COUNT: u64 = 400;

/// `v0` and, where QEMU has one, `i0` are probed, `p0` sends.
const BEGIN: &str = r#"
name 52:54:00:77:01:01 v0
name 52:54:00:77:01:02 p0
name 52:54:00:77:01:03 i0
ip netns add peer
for which in all default; do
    ip netns exec peer sh -c "echo 1 >/proc/sys/net/ipv6/conf/$which/disable_ipv6"
done
ip link set p0 netns peer
# Without the list of flows, which is long for a serial port.
without_flows() {
    "$@" >/tmp/whole
    code=$?
    sed -e '/^  "flows": \[$/,/^  \]$/{' -e 's/^  "flows": \[$/  "flows": []/' -e t -e d -e '}' \
        /tmp/whole
    return $code
}
probe() {
    name="$1"
    card="$2"
    shift 2
    step "$name" without_flows weir rss probe "$card" --from peer:p0 --flows 400 --rate 2kpps \
        --json "$@"
}
udp4="--src 10.0.0.1:1024-10.0.0.9:1073 --dst 10.0.1.1:7"
udp6="--src [2001:db8::1]:1024-[2001:db8::9]:1073 --dst [2001:db8:1::1]:7"
"#;

const VIRTIO: &str = r#"
ethtool -L v0 combined 4
ip link set v0 up
# Last: QEMU keeps what comes for a ring that has no buffers yet, and stops reading that queue.
ip -n peer link set p0 up
step v-show weir rss show v0 --json
step v-text weir rss show v0
step v-doctor weir rss doctor v0 --json
probe v-probe v0 $udp4
probe v-probe-udp6 v0 $udp6
probe v-probe-tcp v0 $udp4 --proto tcp
step v-set weir rss set v0 --key random --table weights:1,0,0,3 --json
step v-set-show weir rss show v0 --json
probe v-set-probe v0 $udp4
# The driver takes other fields and shows them; the device has them only with rxhash on.
step v-fields weir rss set v0 --fields udp4=2-tuple --json
probe v-fields-probe v0 $udp4
step v-fields-doctor weir rss doctor v0 --json
step v-rxhash ethtool -K v0 rxhash on
probe v-rxhash-probe v0 $udp4
step v-no-queue weir rss set v0 --table equal:5
step v-no-length weir rss set v0 --key 6d5a
step v-undo weir rss undo v0
step v-undo-show weir rss show v0 --json
probe v-undo-probe v0 $udp4
step v-undo-again weir rss undo v0
# What was there before cannot be there again.
step v-two weir rss set v0 --table equal:2 --json
step v-fewer ethtool -L v0 combined 2
step v-lost weir rss undo v0
step v-more ethtool -L v0 combined 4
step v-found weir rss undo v0
# The queue that a packet says it came in on is one more than its number here.
ip address add 10.9.0.1/24 dev v0
ip -n peer address add 10.9.0.2/24 dev p0
weir echo serve --listen 10.9.0.1:7 -i v0 --steer queue --backend mmsg --announce --json \
    >/tmp/served 2>/tmp/serving &
server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do
    ! grep -q 10.9.0.1:7 /tmp/serving || break
    sleep 1
done
step v-echo ip netns exec peer weir echo client 10.9.0.1:7 --buckets all --rate 500pps \
    --count 512 --json
kill -TERM $server
wait $server
step v-served tail -n 1 /tmp/served
"#;

const IGB_STEPS: &str = r#"
ethtool -L i0 combined 4
ip link set i0 up
step i-show weir rss show i0 --json
step i-doctor weir rss doctor i0 --json
probe i-probe i0 $udp4
probe i-probe-tcp i0 $udp4 --proto tcp
step i-predict weir rss predict -i i0 $udp4
step i-key weir rss set i0 --key random
step i-set weir rss set i0 --table weights:1,0,0,3 --fields udp4=4-tuple,udp6=4-tuple --json
probe i-set-probe i0 $udp4
probe i-set-probe-udp6 i0 $udp6
step i-set-doctor weir rss doctor i0 --json
step i-undo weir rss undo i0
step i-undo-show weir rss show i0 --json
probe i-undo-probe i0 $udp4
# Last: a driver that takes an XDP program sets its rings up anew.
step i-tags weir rerss run -i i0 --from 0 --duration 1s
ethtool -K i0 rxvlan off
step i-rerss weir rerss run -i i0 --from 0 --duration 1s --json
"#;

/// What came of the boot.
enum Boot {
    Said(Steps),
    /// It cannot be done here.
    Skipped(String),
    Failed(String),
}

/// What the machine said; boots it for the first who asks. It boots once: if it fails, so do all
/// who ask.
fn said(test: &str) -> Option<&'static Steps> {
    static BOOT: OnceLock<Boot> = OnceLock::new();
    if !can_run(test) {
        return None;
    }
    let boot = || {
        let virtio = |model, mac, queue_count| Card { model, mac, queue_count };
        let mut cards = vec![
            virtio("virtio-net-pci,mq=on,rss=on,hash=on,vectors=10", "52:54:00:77:01:01", 4),
            virtio("virtio-net-pci", "52:54:00:77:01:02", 1),
        ];
        // Kernels for clouds have no drivers of cards.
        let (mut package, mut steps) = ("linux-image-cloud-amd64", format!("{BEGIN}{VIRTIO}"));
        if has_device(IGB) {
            cards.push(Card { model: IGB, mac: "52:54:00:77:01:03", queue_count: 1 });
            (package, steps) = ("linux-image-amd64", steps + IGB_STEPS);
        }
        // Nobody waits for a download.
        let kernel = match kernel(package) {
            Ok(kernel) => kernel,
            Err(why) => return Boot::Skipped(why),
        };
        let _slot = EMULATOR.take();
        Boot::Said(run(&kernel, &cards, &steps))
    };
    // A lock whose initialization panics stays empty, and the next test would boot again.
    let caught = || panic::catch_unwind(boot).unwrap_or_else(|panic| Boot::Failed(words(&*panic)));
    match BOOT.get_or_init(caught) {
        Boot::Said(steps) => Some(steps),
        Boot::Skipped(why) => {
            skipped(test, why);
            None
        }
        Boot::Failed(why) => panic!("{test}: the machine: {why}"),
    }
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Flows that were seen on each of four queues.
fn seen(found: &Value) -> [u64; 4] {
    let queues = found["queues"].as_array().expect("queues");
    let mut seen = [0; 4];
    for queue in queues {
        let number = queue["queue"].as_u64().and_then(|number| usize::try_from(number).ok());
        seen[number.expect("a queue")] = queue["seen_flow_count"].as_u64().expect("a count");
    }
    seen
}

/// What a probe found that found nothing wrong.
#[track_caller]
fn right(step: &Step) -> Value {
    let found = step.json(0);
    let counts = ["flow_count", "lost_flow_count", "misplaced_flow_count"];
    let counts = counts.map(|name| found[name].as_u64());
    assert_eq!(counts, [Some(FLOW_COUNT), Some(0), Some(0)], "{step:?}");
    found
}

fn kinds(step: &Step, code: i32) -> Vec<String> {
    let found = step.json(code);
    let findings = found["findings"].as_array().expect("findings");
    findings.iter().map(|one| one["kind"].as_str().expect("a kind").to_owned()).collect()
}

fn has(kinds: &[String], kind: &str) -> bool {
    kinds.iter().any(|one| one == kind)
}

#[test]
fn virtio_is_shown_judged_probed_set_and_undone() {
    let Some(steps) = said("virtio_is_shown_judged_probed_set_and_undone") else { return };
    let shown = steps["v-show"].json(0);
    assert_eq!(shown["driver"], "virtio_net");
    assert_eq!(
        (&shown["rss"]["queue_count"], &shown["rss"]["is_wire"]),
        (&4.into(), &false.into())
    );
    assert_eq!(shown["rss"]["key"].as_str().map(str::len), Some(3 * 40 - 1), "{shown}");
    assert!(steps["v-text"].stdout.contains("driver        virtio_net"), "{:?}", steps["v-text"]);
    for probe in ["v-probe", "v-probe-udp6", "v-probe-tcp"] {
        let found = right(&steps[probe]);
        assert!(seen(&found).iter().all(|flows| *flows > 0), "{probe}: {found}");
    }
    let set = steps["v-set"].json(0);
    let after = steps["v-set-show"].json(0);
    assert_eq!((&set["key"], &set["table"]), (&after["rss"]["key"], &after["rss"]["table"]));
    assert_ne!(after["rss"]["key"], shown["rss"]["key"]);
    let [first, none, no, most] = seen(&right(&steps["v-set-probe"]));
    assert!(first > 0 && most > first && none + no == 0, "{first} {none} {no} {most}");
    for (step, why) in
        [("v-no-queue", "no queue 4"), ("v-no-length", "a key has 40 to 52 bytes, not 2")]
    {
        steps[step].is_refused(why);
    }
    assert_eq!(steps["v-undo"].code, 0, "{:?}", steps["v-undo"]);
    assert_eq!(steps["v-undo-show"].json(0)["rss"], shown["rss"]);
    right(&steps["v-undo-probe"]);
    assert_eq!(steps["v-undo-again"].code, 1, "{:?}", steps["v-undo-again"]);
}

#[test]
fn fields_that_virtio_shows_and_does_not_follow_are_found_out() {
    let Some(steps) = said("fields_that_virtio_shows_and_does_not_follow_are_found_out") else {
        return;
    };
    assert!(has(&kinds(&steps["v-doctor"], 1), "hash-off"), "{:?}", steps["v-doctor"]);
    // It took them, and shows them.
    assert_eq!(steps["v-fields"].code, 0, "{:?}", steps["v-fields"]);
    let found = steps["v-fields-probe"].json(1);
    assert!(found["misplaced_flow_count"].as_u64().is_some_and(|count| count > 0), "{found}");
    assert_eq!(found["explanation"], "the 4-tuple");
    let doctor = steps["v-fields-doctor"].json(1);
    let findings = doctor["findings"].as_array().expect("findings");
    let off = findings.iter().find(|one| one["kind"] == "hash-off").expect("it is found");
    assert_eq!(off["command"], "ethtool -K v0 rxhash on");
    assert_eq!(steps["v-rxhash"].code, 0, "{:?}", steps["v-rxhash"]);
    let found = right(&steps["v-rxhash-probe"]);
    // Only now does it hand up the hash, too.
    assert_eq!(found["right_hash_count"], FLOW_COUNT, "{found}");
}

#[test]
fn what_virtio_cannot_have_again_stays_on_record() {
    let Some(steps) = said("what_virtio_cannot_have_again_stays_on_record") else { return };
    for step in ["v-two", "v-fewer", "v-more", "v-found"] {
        assert_eq!(steps[step].code, 0, "{step}: {:?}", steps[step]);
    }
    steps["v-lost"].is_refused("ethtool -L v0");
}

#[test]
fn workers_of_virtios_queues_get_what_came_in_on_them() {
    let Some(steps) = said("workers_of_virtios_queues_get_what_came_in_on_them") else { return };
    let found = steps["v-echo"].json(0);
    assert!(found["received_packets"].as_u64().is_some_and(|count| count > 0), "{found}");
    assert_eq!(found["server"]["misplaced_packets"], 0, "{found}");
    let served = steps["v-served"].json(0);
    let mut by_queue = [0; 4];
    for bucket in served["buckets"].as_array().expect("buckets") {
        let queue = bucket["queue"].as_u64().and_then(|queue| usize::try_from(queue).ok());
        by_queue[queue.expect("a queue")] += bucket["arrived_packets"].as_u64().expect("a count");
    }
    let got = |worker: &Value| {
        let count = |name: &str| worker[name].as_u64().expect("a count");
        count("read_packets") + count("dropped_packets")
    };
    let got: Vec<u64> = served["workers"].as_array().expect("workers").iter().map(got).collect();
    assert_eq!(got, by_queue, "{served}");
    assert!(got.iter().all(|packets| *packets > 0), "{served}");
}

/// Whether the machine has no igb; notes that the test was skipped then.
fn no_igb(test: &str) -> bool {
    let has_none = can_run(test) && !has_device(IGB);
    if has_none {
        skipped(test, "this QEMU has no igb: 8.0 and later have one");
    }
    has_none
}

#[test]
fn igb_is_probed_by_the_kernels_key_set_and_undone() {
    let test = "igb_is_probed_by_the_kernels_key_set_and_undone";
    if no_igb(test) {
        return;
    }
    let Some(steps) = said(test) else { return };
    let shown = steps["i-show"].json(0);
    assert_eq!((&shown["driver"], &shown["rss"]["key"]), (&"igb".into(), &Value::Null));
    assert_eq!(shown["rss"]["fields"]["udp4"], "2-tuple");
    assert!(has(&kinds(&steps["i-doctor"], 1), "udp-by-addresses"), "{:?}", steps["i-doctor"]);
    for probe in ["i-probe", "i-probe-tcp", "i-set-probe", "i-set-probe-udp6", "i-undo-probe"] {
        assert_eq!(right(&steps[probe])["key_source"], "kernel", "{probe}");
    }
    steps["i-predict"].is_refused("does not show its key");
    steps["i-key"].is_refused("neither shows its key nor takes one");
    let [first, none, no, most] = seen(&right(&steps["i-set-probe"]));
    assert!(first > 0 && most > first && none + no == 0, "{first} {none} {no} {most}");
    assert!(!has(&kinds(&steps["i-set-doctor"], 1), "udp-by-addresses"));
    assert_eq!(steps["i-undo"].code, 0, "{:?}", steps["i-undo"]);
    assert_eq!(steps["i-undo-show"].json(0)["rss"], shown["rss"]);
}

#[test]
fn igb_hands_packets_on_when_it_leaves_their_tags() {
    let test = "igb_hands_packets_on_when_it_leaves_their_tags";
    if no_igb(test) {
        return;
    }
    let Some(steps) = said(test) else { return };
    steps["i-tags"].is_refused("`ethtool -K i0 rxvlan off`");
    let total = steps["i-rerss"].json(0);
    assert_eq!((&total["kind"], &total["is_on"]), (&"total".into(), &false.into()), "{total}");
}
