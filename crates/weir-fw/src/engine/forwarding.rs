//! Whether the kernel forwards at all: what it does not, a firewall between two networks does not
//! either, and nobody would look for the reason here.

use weir_net::sysctl;
use weir_rules::facts::Facts;
use weir_rules::resolve::{InterfaceFacts, Resolver as _};

use super::interfaces::Coverage;

const SYSCTL: [&str; 2] = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];

/// What somebody should know of it. `asks_routes` tells of rules with `urpf-failed`.
pub(super) fn warnings(facts: &Facts, coverage: &Coverage, asks_routes: bool) -> Vec<String> {
    // A kernel without a family has no such setting.
    let values = SYSCTL.map(|name| sysctl::read(name).unwrap_or_default());
    warnings_of(values, facts, coverage, asks_routes)
}

fn warnings_of(
    values: [String; 2],
    facts: &Facts,
    coverage: &Coverage,
    asks_routes: bool,
) -> Vec<String> {
    let families: [fn(&InterfaceFacts) -> bool; 2] = [is_ipv4, is_ipv6];
    let mut list = Vec::new();
    for ((name, value), is_family) in SYSCTL.into_iter().zip(values).zip(families) {
        let filtered =
            facts.interfaces().iter().filter(|interface| coverage.covers(&interface.name));
        let count =
            filtered.filter(|interface| !interface.is_loopback && is_family(interface)).count();
        if value.trim() != "0" {
            continue;
        }
        if count > 1 {
            list.push(format!(
                "{name} is 0: packets from one interface to another are not forwarded"
            ));
        }
        if count > 0 && asks_routes {
            list.push(format!("{name} is 0: `urpf-failed` holds for no packet of that family"));
        }
    }
    list
}

fn is_ipv4(interface: &InterfaceFacts) -> bool {
    interface.addresses.iter().any(|entry| entry.address.is_ipv4())
}

/// Every interface has a link-local address.
fn is_ipv6(interface: &InterfaceFacts) -> bool {
    interface.addresses.iter().any(|entry| match entry.address {
        std::net::IpAddr::V4(_) => false,
        std::net::IpAddr::V6(address) => !address.is_unicast_link_local(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_of_families_that_two_interfaces_have() {
        let facts = "interface em0 192.0.2.1/24 fe80::1/64\n\
                     interface em1 10.0.0.1/24 fe80::2/64 2001:db8::1/64\n\
                     interface lo0 loopback 127.0.0.1/8 ::1/128\n";
        let facts = Facts::parse(facts).unwrap();
        let warnings = |v4: &str, v6: &str, coverage: &Coverage| {
            warnings_of([v4, v6].map(str::to_owned), &facts, coverage, false)
        };
        let all = Coverage::default();
        assert_eq!(warnings("1\n", "1\n", &all), Vec::<String>::new());
        assert_eq!(warnings("", "0", &all), Vec::<String>::new(), "one has IPv6 alone");
        let warnings_of_one = warnings("0\n", "0\n", &all);
        assert_eq!(warnings_of_one.len(), 1);
        assert!(warnings_of_one[0].starts_with("net.ipv4.ip_forward is 0"), "{warnings_of_one:?}");
        let host = Coverage { skipped: ["em1".to_owned()].into(), named: None };
        assert_eq!(warnings("0", "0", &host), Vec::<String>::new());
        let asked = warnings_of(["0", "0"].map(str::to_owned), &facts, &host, true);
        assert_eq!(asked.len(), 1, "IPv4 alone: {asked:?}");
        assert!(asked[0].contains("urpf-failed"), "{asked:?}");
    }
}
