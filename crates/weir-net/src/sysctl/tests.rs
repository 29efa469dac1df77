//! Names, and settings of real namespaces.

use super::*;
use crate::link::VethEnd;
use crate::netlink::Netlink;
use crate::testing::namespace;

#[test]
fn names_become_paths_as_with_sysctl() {
    for (name, path) in [
        ("net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        ("net/ipv4/ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        ("net.ipv4.conf.eth0/100.forwarding", "/proc/sys/net/ipv4/conf/eth0.100/forwarding"),
        ("net/ipv4/conf/eth0.100/forwarding", "/proc/sys/net/ipv4/conf/eth0.100/forwarding"),
        ("net", "/proc/sys/net"),
    ] {
        assert_eq!(path_of(name).unwrap(), Path::new(path));
    }
    let path = Path::new("/proc/sys/net/ipv4/conf/eth0.100/forwarding");
    assert_eq!(name_of(path), "net.ipv4.conf.eth0/100.forwarding");
    assert_eq!(path_of(&name_of(path)).unwrap(), path);
}

#[test]
fn names_that_leave_the_network_settings_are_refused() {
    for name in [
        "",
        "kernel.hostname",
        "vm/swappiness",
        "net..ipv4",
        "net.ipv4.",
        ".net.ipv4",
        "/net/ipv4",
        "net/../kernel/hostname",
        "net/ipv4/./ip_forward",
        "net.//.kernel.hostname",
        "network.x",
        "net\0.x",
    ] {
        assert!(matches!(read(name), Err(SysctlError::BadName { .. })), "{name:?}");
        assert!(matches!(write(name, "1"), Err(SysctlError::BadName { .. })), "{name:?}");
        assert!(snapshot(&[name]).is_err(), "{name:?}");
    }
}

#[test]
fn settings_are_the_namespaces_own() {
    let (netns, other) = (namespace("sysctl"), namespace("sysctl-other"));
    let name = "net.ipv4.ip_forward";
    other.run(|| write(name, "0").unwrap()).unwrap();
    netns
        .run(|| {
            write(name, "1").unwrap();
            assert_eq!(read(name).unwrap(), "1");
            let netlink = Netlink::open().unwrap();
            netlink.create_veth(&VethEnd::new("a.0"), &VethEnd::new("a1"), 1).unwrap();
            write("net.ipv4.conf.a/0.rp_filter", "2").unwrap();
            let settings = snapshot(&["net.ipv4", "net.ipv4.ip_forward", "net.no_such"]).unwrap();
            assert_eq!(settings["net.ipv4.conf.a/0.rp_filter"], "2");
            assert_eq!(settings[name], "1");
            assert!(settings.keys().all(|name| name.starts_with("net.ipv4.")));
        })
        .unwrap();
    assert_eq!(other.run(|| read(name).unwrap()).unwrap(), "0");
}

#[test]
fn refusals_say_which_kind() {
    let netns = namespace("sysctl-refusals");
    netns
        .run(|| {
            let error = read("net.ipv4.no_such").unwrap_err();
            assert!(matches!(error, SysctlError::Unknown { .. }), "{error}");
            let error = write("net.ipv4.no_such", "1").unwrap_err();
            assert!(matches!(error, SysctlError::Unknown { .. }), "{error}");
            let error = read("net.ipv4").unwrap_err();
            assert!(matches!(error, SysctlError::Group { .. }), "{error}");
            let error = write("net.ipv4.tcp_available_congestion_control", "x").unwrap_err();
            assert!(matches!(error, SysctlError::ReadOnly { .. }), "{error}");
            for value in ["many", "1\n0"] {
                let error = write("net.ipv4.ip_forward", value).unwrap_err();
                assert!(matches!(error, SysctlError::BadValue { .. }), "{error}");
            }
            assert!(read("net.ipv4.ip_forward").is_ok());
        })
        .unwrap();
}
