//! What an interface shows of its settings, and what can be computed from that.

use nix::errno::Errno;
use weir_bpf::ethtool::EthtoolError;
use weir_bpf::ethtool::rss::{HashFunction, HashInput};
use weir_rss::card::{CardError, State, open};
use weir_wire::rss::{Fields, FlowKind};

fn state() -> State {
    State {
        function: Some(HashFunction::Toeplitz),
        input: HashInput::AsIs,
        key: vec![7; 40],
        table: vec![0, 1],
        fields: [Some(0xf0), Some(0x30), None, Some(0x34)],
        queue_count: Some(2),
        contexts: Vec::new(),
        is_wire: false,
    }
}

#[test]
fn an_interface_without_it_says_so() {
    let error = open("lo").err().expect("loopback has none").to_string();
    assert!(error.contains("`lo` has no receive side scaling"), "{error}");
    assert!(open("absent0").is_err());
}

#[test]
fn what_is_shown_is_what_is_computed_with() {
    let settings = state().settings("x", FlowKind::Udp4).expect("all is shown");
    assert_eq!(settings.fields_of(FlowKind::Tcp4), Fields::FourTuple);
    assert_eq!(settings.fields_of(FlowKind::Udp4), Fields::TwoTuple);
    assert_eq!((settings.table.queue_count(), settings.key.bytes().len()), (2, 40));
}

#[test]
fn what_cannot_be_computed_is_refused_with_the_reason() {
    for (state, kind, why) in [
        (State { function: Some(HashFunction::Xor), ..state() }, FlowKind::Tcp4, "by Xor"),
        (State { key: Vec::new(), ..state() }, FlowKind::Tcp4, "does not show its key"),
        (State { table: Vec::new(), ..state() }, FlowKind::Tcp4, "no indirection table"),
        (State { input: HashInput::Other(9), ..state() }, FlowKind::Tcp4, "know (9)"),
        (state(), FlowKind::Tcp6, "does not say which fields"),
        (state(), FlowKind::Udp6, "rx-flow-hash udp6 sdfn"),
        (State { key: vec![1; 8], ..state() }, FlowKind::Tcp4, "40 to 52 bytes, not 8"),
        (State { table: vec![70_000], ..state() }, FlowKind::Tcp4, "above 65,535"),
    ] {
        let error = state.settings("x", kind).expect_err(why).to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn what_a_driver_refuses_is_explained() {
    for (errno, why) in [
        (Errno::EOPNOTSUPP, "its driver cannot (no `ethtool -X`"),
        (Errno::EBUSY, "something else holds it"),
        (Errno::EPERM, "CAP_NET_ADMIN"),
    ] {
        let error = CardError::from(EthtoolError::Refused {
            what: "set receive side scaling",
            interface: "eth1".to_owned(),
            source: errno.into(),
        });
        assert!(error.to_string().contains(why), "{errno}: {error}");
    }
}
