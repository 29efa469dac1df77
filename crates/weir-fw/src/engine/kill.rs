//! Ends states: `pfctl -k`, `-F states`, and those of sources that go over their limits.

use std::net::IpAddr;

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::sweep::{Ends, Filter, Mode, Swept};

use super::{Engine, Refused};
use crate::protocol::Killed;
use crate::states::{Record, View};

impl Engine {
    /// Which records `-k` and `-F states` mean.
    pub(crate) fn filters(
        &self,
        which: &Killed,
        interface: Option<&str>,
    ) -> Result<Vec<Filter>, Refused> {
        let slot = match interface {
            None => 0,
            Some(name) => {
                let found = self.interfaces.all().find(|(_, known)| known.name == name);
                let (number, _) = found.ok_or_else(|| Refused(format!("no interface {name}")))?;
                u8::try_from(number).unwrap_or(0)
            }
        };
        let base = Filter { interface: slot, ..Filter::default() };
        match which {
            Killed::Hosts { from, to } => {
                let mut filters = Vec::new();
                for from in from {
                    if to.is_empty() {
                        filters.extend(filter_of(base, from, None)?);
                    }
                    for to in to {
                        filters.extend(filter_of(base, from, Some(to))?);
                    }
                }
                Ok(filters)
            }
            Killed::Label { label } => {
                let named =
                    self.rules.iter().filter(|info| info.labels.iter().any(|l| **l == *label));
                // Rules that are gone have their states still.
                let gone = self.known.retired_with_label(label);
                let ids = named.map(|info| info.id).chain(gone);
                Ok(ids.map(|id| Filter { rule: Some(id), ..base }).collect())
            }
            Killed::Nat { networks } => filters_of_outside(base, networks),
            Killed::Id { id } => {
                let mut found = Vec::new();
                View::new(&self.firewall).for_all(|record| {
                    if record.id() == *id {
                        found.push(filter_of_record(base, record));
                    }
                });
                Ok(found)
            }
        }
    }
}

/// Ends records, and says how many.
///
/// # Errors
///
/// What the kernel returned.
pub(crate) fn kill(firewall: &Firewall, filters: &[Filter]) -> Result<u64, Refused> {
    let mut swept = Swept::default();
    for filter in filters {
        swept += firewall.sweep_all(Mode::Kill(*filter)).map_err(Refused::because)?;
    }
    Ok(swept.removed_count)
}

/// The filter for networks of both ends; `None` if they are of different families.
pub(super) fn filter_of(
    base: Filter,
    from: &str,
    to: Option<&str>,
) -> Result<Option<Filter>, Refused> {
    let (source, version) = ends(from)?;
    let Some(to) = to else { return Ok(Some(Filter { ip_version: version, source, ..base })) };
    let (destination, other) = ends(to)?;
    let filter = Filter { ip_version: version, source, destination, ..base };
    Ok((version == other).then_some(filter))
}

/// `ADDRESS/BITS` as address, mask and IP version.
fn ends(network: &str) -> Result<(Ends, u8), Refused> {
    let prefix = prefix(network)?;
    Ok((ends_of(prefix.network().address(), prefix.length(), 0), version(prefix.address())))
}

/// The filters for translated states of which the world outside sees an address of some networks:
/// one for each network.
fn filters_of_outside(base: Filter, networks: &[String]) -> Result<Vec<Filter>, Refused> {
    let filter = |network: &String| {
        let (source, ip_version) = ends(network)?;
        Ok(Filter { ip_version, source, is_outside: true, ..base })
    };
    networks.iter().map(filter).collect()
}

fn prefix(network: &str) -> Result<weir_net::Prefix, Refused> {
    network.parse().map_err(|_| Refused(format!("`{network}` is not ADDRESS/BITS")))
}

fn version(address: IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}

fn ends_of(address: IpAddr, bits: u8, port: u16) -> Ends {
    let mut ends = Ends { port, ..Ends::default() };
    let mask = |bits: u8| if bits == 0 { 0 } else { u128::MAX << (128 - u32::from(bits)) };
    match address {
        IpAddr::V4(address) => ends.address[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => ends.address = address.octets(),
    }
    ends.mask = mask(bits).to_be_bytes();
    ends
}

/// The filter for the states that a source has made, of one rule or of all.
pub(super) fn filter_of_source(source: IpAddr, rule: Option<u32>) -> Filter {
    let ends = ends_of(source, if source.is_ipv4() { 32 } else { 128 }, 0);
    Filter { ip_version: version(source), source: ends, rule, ..Filter::default() }
}

/// The filter for one record: its protocol, both addresses and both ports.
fn filter_of_record(base: Filter, record: &Record) -> Filter {
    let end = |at: usize| {
        let (address, port) = record.ends[at];
        ends_of(address, if address.is_ipv4() { 32 } else { 128 }, port)
    };
    Filter {
        ip_version: version(record.ends[0].0),
        protocol: record.protocol,
        source: end(0),
        destination: end(1),
        ..base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_become_masks() {
        let (first, version) = ends("10.1.2.3/8").unwrap();
        assert_eq!(
            (&first.address[..4], &first.mask[..5], version),
            (&[10, 0, 0, 0][..], &[255, 0, 0, 0, 0][..], 4)
        );
        let (second, version) = ends("2001:db8::/32").unwrap();
        assert_eq!((second.address[1], second.mask[3], second.mask[4], version), (1, 255, 0, 6));
        assert_eq!(ends("0.0.0.0/0").unwrap().0.mask, [0; 16]);
        assert!(ends("x").is_err());
        let networks = ["192.0.2.1/32".to_owned(), "2001:db8::/32".to_owned()];
        let outside = filters_of_outside(Filter { interface: 2, ..Filter::default() }, &networks);
        let [four, six] = outside.unwrap().try_into().unwrap();
        assert_eq!((four.ip_version, four.is_outside, four.interface), (4, true, 2));
        assert_eq!((six.ip_version, six.source, six.is_outside), (6, second, true));
        let mixed = filter_of(Filter::default(), "10.0.0.1/32", Some("::1/128")).unwrap();
        assert_eq!(mixed, None);
    }
}
