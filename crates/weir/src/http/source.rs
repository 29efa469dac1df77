//! `--source`: networks whose addresses are all made this namespace's, for the time of a run.
//!
//! It refuses what would take an address away from somebody else.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, bail};
use weir_net::netns;
use weir_net::registry::{Record, Registry};
use weir_net::{Netlink, Prefix};

use crate::{lab, progress};

/// The networks, until this is dropped.
#[derive(Debug)]
pub(super) struct Sources(Option<Record>);

impl Sources {
    /// Makes all addresses of networks local, from each of which a server is connected to. All are
    /// looked at before the first is made so.
    pub(super) fn make(networks: &[(Prefix, SocketAddr)], yes: bool) -> anyhow::Result<Self> {
        let netlink = Netlink::open()?;
        let mut foreign: Vec<Prefix> = Vec::new();
        for (prefix, _) in networks {
            for (_, server) in networks {
                check(*prefix, *server)?;
            }
            // Several pools may have one network; one address may be an interface's already.
            let network = prefix.network();
            if !foreign.contains(&network) && !is_interfaces(&netlink, network)? {
                foreign.push(network);
            }
        }
        let Some(first) = foreign.first() else { return Ok(Self(None)) };
        lab::require_root("weir http --source", "makes addresses local (CAP_NET_ADMIN)")?;
        let is_of_host =
            netns::is_of_host().context("cannot tell which network namespace this is")?;
        if is_of_host && !yes {
            bail!(
                "all addresses of {first} would be this host's while it runs, and nobody else \
                 could be reached at them: run it in a network namespace (`ip netns exec`), or say \
                 --yes"
            );
        }
        for prefix in &foreign {
            check_gateways(&netlink, *prefix)?;
        }
        let registry = Registry::default();
        for problem in registry.clean_leftovers()?.problems {
            progress::warn(&problem.to_string());
        }
        let mut record = registry.record::<&str>(&[])?;
        let made = foreign.iter().try_for_each(|prefix| record.add_local_route(*prefix).map(drop));
        let sources = Self(Some(record));
        made?;
        Ok(sources)
    }

    /// Takes that back.
    ///
    /// # Errors
    ///
    /// If it cannot be taken back.
    pub(super) fn take_back(mut self) -> anyhow::Result<()> {
        match self.0.take() {
            Some(record) => Ok(record.close()?),
            None => Ok(()),
        }
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        // What cannot be taken back stays on record, for the next start.
        if let Some(record) = self.0.take()
            && let Err(error) = record.close()
        {
            progress::warn(&error.to_string());
        }
    }
}

/// Refuses what cannot be made local while that server is to be reached.
fn check(prefix: Prefix, server: SocketAddr) -> anyhow::Result<()> {
    let first = prefix.network().address();
    if first.is_multicast() || prefix.length() == 0 {
        bail!("--source {prefix} has addresses that no host can have");
    }
    if contains(prefix, server.ip()) {
        bail!(
            "--source {prefix} contains the server's address {}, which would be this host's then",
            server.ip()
        );
    }
    if first.is_loopback() && !server.ip().is_loopback() {
        bail!("--source {prefix}: loopback addresses reach no other host");
    }
    Ok(())
}

fn check_gateways(netlink: &Netlink, prefix: Prefix) -> anyhow::Result<()> {
    let gateways = netlink.routes()?.into_iter().filter_map(|route| route.gateway);
    if let Some(gateway) = gateways.into_iter().find(|gateway| contains(prefix, *gateway)) {
        bail!(
            "--source {prefix} contains {gateway}, by way of which packets leave this host: it \
             could not be reached any more. Give a network without it"
        );
    }
    Ok(())
}

/// Whether it is one address, and an interface has it.
fn is_interfaces(netlink: &Netlink, prefix: Prefix) -> anyhow::Result<bool> {
    let address = prefix.address();
    let is_one = prefix.length() == if address.is_ipv4() { 32 } else { 128 };
    if !is_one {
        return Ok(false);
    }
    for link in netlink.links()? {
        let addresses = netlink.addresses(&link.name)?;
        if addresses.iter().any(|other| other.address() == address) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains(prefix: Prefix, address: IpAddr) -> bool {
    let whole = Prefix::new(address, prefix.length());
    address.is_ipv4() == prefix.address().is_ipv4()
        && whole.is_ok_and(|whole| whole.network() == prefix.network())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_are_somebody_elses_are_refused() {
        let server: SocketAddr = "198.19.0.1:80".parse().unwrap();
        let check = |prefix: &str| check(prefix.parse().unwrap(), server);
        check("198.18.0.0/16").unwrap();
        for (prefix, word) in [
            ("198.18.0.0/15", "the server's address"),
            ("224.0.0.0/8", "that no host can have"),
            ("0.0.0.0/0", "that no host can have"),
            ("127.0.0.0/8", "loopback"),
        ] {
            let error = check(prefix).unwrap_err().to_string();
            assert!(error.contains(word), "{prefix}: {error}");
        }
    }
}
