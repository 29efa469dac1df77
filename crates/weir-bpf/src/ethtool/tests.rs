//! The ioctls on the loopback device, which every namespace has. Drivers with statistics are tested
//! on a veth pair, together with the generator.

use super::*;

#[test]
fn loopback_has_features() {
    let features = features("lo").expect("loopback exists");
    assert!(features.iter().any(|(name, on)| name == "loopback" && *on), "{features:?}");
    assert!(features.iter().any(|(name, on)| name == "rx-gro-hw" && !*on), "{features:?}");
    assert!(features.iter().all(|(name, _)| !name.is_empty()));
    let on = features.iter().any(|(name, on)| name == "rx-gro" && *on);
    assert_eq!(gro("lo").expect("loopback exists"), on);
}

#[test]
fn drivers_that_take_tags_out_are_known_by_their_feature() {
    let features = |is_on| [("rx-gro".to_owned(), true), (VLAN_FEATURE.to_owned(), is_on)];
    assert!(takes_tags_out("igb", &features(true)) && !takes_tags_out("igb", &features(false)));
    assert!(!takes_tags_out("veth", &features(true)), "its peer does");
    assert!(!takes_tags_out("", &features(true)[..1]));
    assert!(!hides_tags("lo").expect("loopback exists"));
    hides_tags("nowhere").expect_err("there is no such interface");
}

#[test]
fn bad_interfaces_are_named() {
    for name in ["", "sixteen-bytes-xx", "nul\0", "absent0"] {
        let message = stats(name).expect_err("there is no such interface").to_string();
        assert!(message.contains(&format!("`{name}`")), "{message}");
    }
    assert!(driver("absent0").is_err());
    assert!(set_gro("absent0", true).is_err());
}

#[test]
fn what_has_no_link_has_no_flow_control() {
    assert_eq!(pause("lo").expect("loopback exists"), None);
    let message = pause("absent0").expect_err("there is no such interface").to_string();
    assert!(message.contains("`absent0`"), "{message}");
}

#[test]
fn texts_end_at_the_first_nul() {
    assert_eq!(text(b"veth\0\0rest"), "veth");
    assert_eq!(text(b"full"), "full");
    assert_eq!(text(b""), "");
}
