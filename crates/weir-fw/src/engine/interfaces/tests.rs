use super::*;
use weir_net::link::Vlan;
use weir_net::{LinkStats, OperState};

fn link(name: &str, ifindex: u32) -> LinkInfo {
    LinkInfo {
        name: name.to_owned(),
        ifindex,
        mac: Some([2; 6]),
        mtu: 1500,
        is_up: true,
        operstate: OperState::Up,
        tx_queue_count: 1,
        rx_queue_count: 1,
        carrier_change_count: 0,
        is_loopback: false,
        is_ethernet: true,
        is_bare: false,
        vlan: None,
        macvlan_parent: None,
        has_xdp: false,
        peer_ifindex: None,
        peer_is_elsewhere: false,
        stats: LinkStats::default(),
    }
}

#[test]
fn an_interface_keeps_its_slot() {
    let mut interfaces = Interfaces::default();
    let loopback = LinkInfo { is_loopback: true, is_ethernet: false, ..link("lo", 1) };
    assert!(interfaces.update(&[loopback, link("em0", 60_001), link("em1", 60_002)]));
    assert!(!interfaces.update(&[link("em0", 60_001), link("em1", 60_002)]), "nothing is new");
    assert!(interfaces.update(&[link("em1", 60_002)]), "one is gone");
    assert_eq!(interfaces.slots(), [Slot { number: 2, interface: "em1".to_owned() }]);
    interfaces.settle(&Coverage::default(), |_| false);
    assert!(interfaces.are_settled());
    assert!(interfaces.update(&[link("em1", 60_002), link("em0", 60_007)]), "it is back");
    assert!(!interfaces.are_settled(), "rules were made without it");
    assert_eq!(interfaces.slots()[0], Slot { number: 1, interface: "em0".to_owned() });
    interfaces.settle(&Coverage::default(), |_| false);
    let number = interfaces.slots[1].as_mut().expect("it is there");
    (number.path, number.has_egress) = (Some(Path::Native), true);
    let again = [link("em1", 60_002), link("em0", 60_009)];
    assert!(interfaces.update(&again), "it was made anew, with the same name, between two looks");
    let anew = interfaces.slots[1].as_ref().expect("it is there");
    assert_eq!((anew.path, anew.has_egress), (None, false), "without our programs");
    assert_eq!((interfaces.name(1), interfaces.name(9)), ("em0", ""));
}

#[test]
fn slots_are_limited_and_used_again() {
    let mut interfaces = Interfaces::default();
    let links: Vec<LinkInfo> =
        (0..70).map(|number| link(&format!("em{number}"), 60_000 + number)).collect();
    interfaces.update(&links);
    assert_eq!((interfaces.slots().len(), interfaces.without_slot.len()), (63, 7));
    interfaces.update(&links[..10]);
    interfaces.update(&[&links[..10], &links[66..]].concat());
    assert_eq!((interfaces.slots().len(), interfaces.without_slot.len()), (14, 0));
    interfaces.update(&[link("far", IFINDEX_COUNT_MAX)]);
    assert_eq!(interfaces.without_slot, ["far"]);
}

#[test]
fn vlans_are_chained_from_their_parent() {
    let vlan = |name, ifindex, id| LinkInfo {
        vlan: Some(Vlan { parent_ifindex: 60_001, id }),
        ..link(name, ifindex)
    };
    let mut interfaces = Interfaces::default();
    interfaces.update(&[link("em0", 60_001), vlan("em0.5", 60_002, 5), vlan("em0.6", 60_003, 6)]);
    let first = |interfaces: &Interfaces| {
        interfaces.record(1, interfaces.slots[1].as_ref().unwrap())[interface::VLAN_FIRST as usize]
    };
    assert_eq!(first(&interfaces), 0, "no rules know them");
    interfaces.settle(&Coverage::default(), |_| false);
    let record =
        |number: usize| interfaces.record(number, interfaces.slots[number].as_ref().unwrap());
    let (first, next) = (interface::VLAN_FIRST as usize, interface::VLAN_NEXT as usize);
    assert_eq!((record(1)[first], record(1)[next]), (2, 0));
    assert_eq!((record(2)[first], record(2)[next]), (0, 3));
    assert_eq!((record(3)[first], record(3)[next]), (0, 0));
    assert_eq!(record(3)[interface::VLAN_ID as usize], 6);
}

#[test]
fn what_comes_in_is_judged_where_the_program_of_the_frame_runs() {
    let vlan = |name, ifindex, parent_ifindex| LinkInfo {
        vlan: Some(Vlan { parent_ifindex, id: 5 }),
        ..link(name, ifindex)
    };
    let mut interfaces = Interfaces::default();
    interfaces.update(&[
        link("em0", 60_001),
        vlan("em0.5", 60_002, 60_001),
        vlan("em0.5.5", 60_003, 60_002),
        link("em1", 60_004),
        // Of another namespace, where these are others' indices.
        vlan("far", 60_005, 60_005),
        vlan("alone", 60_006, 60_099),
    ]);
    let read_as = |interfaces: &Interfaces| -> Vec<u8> {
        let slot = |number: usize| {
            let record = interfaces.record(number, interfaces.slots[number].as_ref().unwrap());
            record[interface::READ_AS as usize]
        };
        (1..7).map(slot).collect()
    };
    interfaces.settle(&Coverage::default(), |_| false);
    assert_eq!(read_as(&interfaces), [0; 6], "no program runs");
    interfaces.slots[1].as_mut().unwrap().path = Some(Path::Native);
    assert_eq!(read_as(&interfaces), [1, 2, 2, 0, 0, 0], "VLANs below, the inner as the outer");
    interfaces.slots[6].as_mut().unwrap().path = Some(Path::Native);
    assert_eq!(read_as(&interfaces), [1, 2, 2, 0, 0, 6], "nothing is below it here");
    interfaces.slots[2].as_mut().unwrap().is_settled = false;
    assert_eq!(read_as(&interfaces), [1, 0, 0, 0, 0, 6], "no rules know the outer one");
}

#[test]
fn a_slot_that_changes_hands_is_not_the_new_ones_before_rules_know_it() {
    let mut interfaces = Interfaces::default();
    let many: Vec<LinkInfo> =
        (0..63).map(|number| link(&format!("em{number}"), 60_000 + number)).collect();
    interfaces.update(&many);
    assert!(!interfaces.are_settled());
    interfaces.settle(&Coverage::default(), |_| false);
    interfaces.update(&many[1..]);
    assert!(interfaces.are_settled(), "nobody else has the slot of one that has gone");
    interfaces.update(&many);
    assert!(interfaces.are_settled(), "it is back");
    interfaces.update(&[&many[1..], &[link("new0", 60_100)]].concat());
    assert_eq!((interfaces.name(1), interfaces.are_settled()), ("new0", false));
    interfaces.settle(&Coverage::default(), |_| false);
    assert!(interfaces.are_settled());
}

#[test]
fn rules_say_where_programs_belong() {
    let all = Coverage { skipped: BTreeSet::from(["em1".to_owned()]), named: None };
    assert!(all.covers("em0") && !all.covers("em1"));
    let named = Some(BTreeSet::from(["em0".to_owned(), "em1".to_owned()]));
    let some = Coverage { named, ..all };
    assert!(some.covers("em0") && !some.covers("em1") && !some.covers("em2"));
}
