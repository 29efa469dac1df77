//! The DUT kind `linux`: the kernel's own forwarding, with settings and an nftables ruleset.
//!
//! Forwarding is switched on by itself; everything else is what the specification asks for.
//! Losses are named by the stack's own counters. Its counter of forwarded datagrams is kept but
//! decides nothing: kernels count it before or after the firewall's hook. Nothing here depends on
//! namespaces.

use std::collections::BTreeMap;

use weir_machine::cancel::Cancel;
use weir_machine::host::Host;
use weir_results::counters::{Counters, DropRule, Place, Selection};
use weir_results::dut::DutFile;
use weir_results::record::Check;
use weir_wire::stream::StreamSpec;

use super::nftables::Nftables;
use super::{DutDriver, DutError, apply_sysctls, check_sysctls, conntrack};

/// Settings without which nothing is forwarded.
const FORWARDING: [(&str, &str); 2] =
    [("net.ipv4.ip_forward", "1"), ("net.ipv6.conf.all.forwarding", "1")];

/// Losses that the stack counts. Names are those of RFC 1213 and 4293 as the kernel spells them in
/// `/proc/net/snmp`, `snmp6` and `netstat`, and of `/proc/net/stat/nf_conntrack`. A packet that is
/// too big for IPv6 is counted twice, as that and as one not fragmented: one of the two is here.
const STACK_DROPS: [(&str, &str, &str); 21] = [
    ("ip_header_errors", "ip", "Ip.InHdrErrors"),
    ("ip_address_errors", "ip", "Ip.InAddrErrors"),
    ("ip_reverse_path_filter", "ip", "TcpExt.IPReversePathFilter"),
    ("ip_discards_in", "ip", "Ip.InDiscards"),
    ("ip_no_route_in", "ip", "IpExt.InNoRoutes"),
    ("ip_truncated", "ip", "IpExt.InTruncatedPkts"),
    ("ip_delivered_locally", "ip", "Ip.InDelivers"),
    ("ip_no_route_out", "ip", "Ip.OutNoRoutes"),
    ("ip_discards_out", "ip", "Ip.OutDiscards"),
    ("ip_fragmentation_failed", "ip", "Ip.FragFails"),
    ("ip6_header_errors", "ip", "Ip6InHdrErrors"),
    ("ip6_too_big", "ip", "Ip6InTooBigErrors"),
    ("ip6_no_route_in", "ip", "Ip6InNoRoutes"),
    ("ip6_address_errors", "ip", "Ip6InAddrErrors"),
    ("ip6_truncated", "ip", "Ip6InTruncatedPkts"),
    ("ip6_discards_in", "ip", "Ip6InDiscards"),
    ("ip6_delivered_locally", "ip", "Ip6InDelivers"),
    ("ip6_discards_out", "ip", "Ip6OutDiscards"),
    ("ip6_no_route_out", "ip", "Ip6OutNoRoutes"),
    ("conntrack_drop", "conntrack", "drop"),
    ("conntrack_chain_too_long", "conntrack", "chaintoolong"),
];

/// A driver for the kernel's forwarding.
#[derive(Debug)]
pub(super) struct Linux {
    name: String,
    sysctls: BTreeMap<String, String>,
    nft: Option<Nftables>,
}

impl Linux {
    pub(super) fn new(name: &str, sysctls: BTreeMap<String, String>, nft: Option<DutFile>) -> Self {
        let sysctls = forwarding(sysctls);
        Self { name: name.to_owned(), sysctls, nft: nft.map(|file| Nftables::new(name, file)) }
    }
}

/// Settings with which the kernel forwards, unless they say otherwise themselves.
pub(super) fn forwarding(mut sysctls: BTreeMap<String, String>) -> BTreeMap<String, String> {
    for (setting, value) in FORWARDING {
        sysctls.entry(setting.to_owned()).or_insert_with(|| value.to_owned());
    }
    sysctls
}

/// What the stack drops of the packets that it is given.
pub(super) fn stack_drops() -> Vec<DropRule> {
    let rule = |&(name, source, counter): &(&str, &str, &str)| {
        DropRule::new(name, "dut_received", Place::Dut, Selection::new(source, &[counter]))
    };
    STACK_DROPS.iter().map(rule).collect()
}

impl DutDriver for Linux {
    fn prepare(&mut self, host: &dyn Host) -> Result<(), DutError> {
        if let Some(nft) = &mut self.nft {
            nft.load(host)?;
        }
        Ok(())
    }

    fn start(&mut self, host: &dyn Host) -> Result<(), DutError> {
        // Settings come after the ruleset, as a boot applies them last, and because those of
        // conntrack only exist once a ruleset uses it.
        apply_sysctls(&self.name, host, &self.sysctls)?;
        match &mut self.nft {
            Some(nft) => nft.before_traffic(host),
            None => Ok(()),
        }
    }

    fn ready(&mut self, _host: &dyn Host, _cancel: &Cancel) -> Result<(), DutError> {
        Ok(())
    }

    fn keeps_flows(&self) -> bool {
        self.nft.as_ref().is_some_and(Nftables::tracks_connections)
    }

    fn flows(&self, host: &dyn Host) -> Result<Option<u64>, DutError> {
        self.nft.as_ref().filter(|n| n.tracks_connections()).map(|n| n.tracked(host)).transpose()
    }

    fn flows_of(&self, spec: &StreamSpec) -> Result<u64, String> {
        conntrack::connections(spec)
    }

    fn flow_limit(&self, host: &dyn Host) -> Result<Option<String>, DutError> {
        let Some(nft) = self.nft.as_ref().filter(|n| n.tracks_connections()) else {
            return Ok(None);
        };
        let limit = nft.limit(host)?;
        Ok(Some(format!("net.netfilter.nf_conntrack_max is {limit} on this host")))
    }

    fn counters(&self, host: &dyn Host) -> Result<Counters, DutError> {
        let mut counters = host.stack_counters().map_err(DutError::host(&self.name))?;
        if let Some(nft) = &self.nft {
            counters.insert("nft".to_owned(), nft.counters(host)?);
        }
        Ok(counters)
    }

    fn drops(&self) -> Vec<DropRule> {
        let mut rules = stack_drops();
        rules.extend(self.nft.iter().flat_map(Nftables::drops));
        rules
    }

    fn is_opaque(&self) -> bool {
        false
    }

    fn took_effect(&mut self, host: &dyn Host, run: &Counters) -> Result<Vec<Check>, DutError> {
        let mut checks = check_sysctls(&self.name, host, &self.sysctls)?;
        checks.extend(self.nft.iter().map(|n| n.took_effect(run)));
        Ok(checks)
    }

    fn stop(&mut self, _host: &dyn Host) -> Result<(), DutError> {
        Ok(())
    }
}
