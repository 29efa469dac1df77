//! What is refused before anything is sent, and that the messages say what to do.

use crate::support::{Namespace, privileged};
use weir_bpf::ethtool;
use weir_gen::device::DeviceCounter;
use weir_gen::receiver::Receiver;
use weir_gen::{next_hop, preflight};

/// A pair inside one namespace, both ends up.
fn pair() -> Namespace {
    let namespace = Namespace::new();
    namespace.ip("link add out type veth peer name in");
    namespace.ip("link set in up");
    namespace.ip("link set out up");
    namespace
}

/// Looks at `out` as the live path of threads on these CPUs; the notes, or why not.
fn look(namespace: &Namespace, cpus: &[u32]) -> Result<Vec<String>, String> {
    namespace.inside(|| {
        let mut path = preflight::interface("out", 60, false).map_err(|error| error.to_string())?;
        preflight::live(&mut path, cpus).map_err(|error| error.to_string())?;
        Ok(path.notes)
    })
}

#[test]
fn an_interface_must_be_there_and_up_and_lead_away() {
    if !privileged() {
        return;
    }
    let namespace = pair();
    let refused = |name: &str, size_bytes| {
        let result = namespace.inside(|| preflight::interface(name, size_bytes, false));
        result.expect_err("it is refused").to_string()
    };
    assert!(refused("nowhere", 60).contains("`nowhere`"));
    assert!(refused("lo", 60).contains("loopback"));
    assert!(refused("out", 1515).contains("ip link set out mtu 1501"));
    let tagged = |size_bytes| namespace.inside(|| preflight::interface("out", size_bytes, true));
    assert!(tagged(1518).is_ok(), "a full frame may have a tag");
    assert!(tagged(1519).is_err());
    namespace.ip("link set in down");
    assert!(refused("out", 60).contains("carrier"));
    namespace.ip("link set out down");
    assert!(refused("out", 60).contains("ip link set out up"));
}

#[test]
fn a_far_end_that_takes_nothing_is_refused() {
    if !privileged() {
        return;
    }
    let namespace = pair();
    let said = look(&namespace, &[0]).expect_err("neither XDP nor GRO");
    assert!(said.contains("ethtool -K in gro on"), "{said}");
    namespace.inside(|| ethtool::set_gro("in", true).expect("settable"));
    let notes = look(&namespace, &[0]).expect("GRO will do");
    assert!(notes.iter().any(|note| note.contains("sending CPU (0)")), "{notes:?}");
    namespace.inside(|| ethtool::set_gro("in", false).expect("settable"));
    let ifindex = namespace.ifindex("in");
    let _receiver = namespace.inside(|| Receiver::attach(ifindex)).expect("attached");
    look(&namespace, &[0]).expect("XDP will do");
    let said = look(&namespace, &[0, 1]).expect_err("there is one queue");
    assert!(said.contains("2 threads") && said.contains("numtxqueues 2"), "{said}");
}

/// The far end is out of sight, but the kernel knows whether it takes frames.
#[test]
fn a_far_end_in_another_namespace_is_asked_for_too() {
    if !privileged() {
        return;
    }
    let (namespace, other) = (Namespace::new(), Namespace::new());
    namespace.ip(&format!("link add out type veth peer name in netns {}", other.name()));
    other.ip("link set in up");
    namespace.ip("link set out up");
    match look(&namespace, &[0]) {
        Err(said) => assert!(said.contains("another network namespace"), "{said}"),
        // Linux before 6.3 does not say: the first packets will.
        Ok(notes) => assert!(notes.iter().any(|note| note.contains("whether it takes XDP"))),
    }
    other.inside(|| ethtool::set_gro("in", true).expect("settable"));
    let notes = look(&namespace, &[0]).expect("GRO will do");
    assert!(notes.iter().any(|note| note.contains("NAPI")), "{notes:?}");
}

#[test]
fn what_the_first_packets_show_is_judged() {
    if !privileged() {
        return;
    }
    let namespace = pair();
    let path = namespace.inside(|| preflight::interface("out", 60, false)).expect("it is there");
    assert_eq!((path.driver.as_str(), path.line_bps), ("veth", None));
    let counter = namespace.inside(|| DeviceCounter::for_live("out")).expect("it has one");
    assert_eq!(counter.name(), "tx_queue_*_xdp_xmit");
    assert_eq!(namespace.inside(|| counter.read()).expect("readable"), 0);
    let judge =
        |offered, accepted| preflight::check_accepted(&path, offered, accepted, counter.name());
    judge(0, 0).expect("nothing was sent yet");
    judge(10, 1).expect("some was accepted");
    let error = judge(10, 0).expect_err("all is lost").to_string();
    assert!(error.contains("gro on") && error.contains("10 packets"), "{error}");
}

#[test]
fn the_next_hop_is_what_the_kernel_knows() {
    if !privileged() {
        return;
    }
    let namespace = pair();
    let look = || namespace.inside(|| next_hop::mac("out", "198.19.10.1".parse().expect("one")));
    let error = look().expect_err("there is no route").to_string();
    assert!(error.contains("no route to 198.19.10.1"), "{error}");
    namespace.ip("address add 198.18.0.1/24 dev out");
    namespace.ip("route add 198.19.0.0/16 via 198.18.0.2");
    let error = look().expect_err("there is no neighbour").to_string();
    assert!(error.contains("198.18.0.2, the next hop to 198.19.10.1"), "{error}");
    assert!(error.contains("did not answer ARP requests"), "{error}");
    namespace.ip("neighbour replace 198.18.0.2 lladdr 02:00:00:00:00:77 dev out nud stale");
    assert_eq!(look().expect("it is known").to_string(), "02:00:00:00:00:77");
}

#[test]
fn an_unknown_next_hop_is_asked_for() {
    if !privileged() {
        return;
    }
    let (near, far) = (pair(), Namespace::new());
    near.ip(&format!("link set in address 02:00:00:00:00:88 netns {}", far.name()));
    for (namespace, device, last) in [(&near, "out", 1), (&far, "in", 2)] {
        namespace.inside(|| {
            // While the kernel looks for duplicates of its link-local address, it asks nobody.
            for name in ["accept_dad", "disable_ipv6"] {
                let path = format!("/proc/sys/net/ipv6/conf/{device}/{name}");
                std::fs::write(path, "0").expect("the sysctl is written");
            }
        });
        namespace.ip(&format!("link set {device} up"));
        namespace.ip(&format!("address add 198.18.0.{last}/24 dev {device}"));
        namespace.ip(&format!("address add 2001:2::{last}/64 dev {device} nodad"));
    }
    near.ip("route add 198.19.0.0/16 via 198.18.0.2");
    near.ip("route add 2001:2:0:8000::/49 via 2001:2::2");
    // By ARP and by neighbour discovery; through a gateway and beside it.
    for destination in ["198.19.10.1", "2001:2:0:8010::1", "198.18.0.2", "2001:2::2"] {
        let destination = destination.parse().expect("an address");
        let mac = near.inside(|| next_hop::mac("out", destination));
        assert_eq!(mac.expect("it answers").to_string(), "02:00:00:00:00:88", "{destination}");
    }
    let stranger = near.inside(|| next_hop::mac("out", "2001:2::7".parse().expect("one")));
    let error = stranger.expect_err("nobody has it").to_string();
    assert!(error.contains("did not answer neighbour solicitations"), "{error}");
}

/// A veth sorts by the sending CPU's number: two of four CPUs meet on two queues.
#[test]
fn threads_that_meet_on_a_receive_queue_are_named() {
    if !privileged() {
        return;
    }
    let namespace = Namespace::new();
    namespace.ip("link add out numtxqueues 2 numrxqueues 2 type veth peer name in numtxqueues 2 \
         numrxqueues 2");
    namespace.ip("link set in up");
    namespace.ip("link set out up");
    namespace.inside(|| ethtool::set_gro("in", true).expect("settable"));
    let said = |cpus: &[u32]| {
        let notes = look(&namespace, cpus).expect("the path is good");
        notes.into_iter().find(|note| note.contains("same receive queue"))
    };
    assert!(said(&[0, 2]).is_some_and(|note| note.contains("CPUs 0 and 2")));
    assert_eq!(said(&[0, 1]), None);
}
