//! How packets are spread: from the options, or from what an interface says of itself.
//!
//! What cannot be computed here (another hash than Toeplitz, a key that the driver does not show)
//! is refused.

use anyhow::{Context as _, anyhow};
use weir_machine::rss::card::{self, CardError};
use weir_wire::rss::{Fields, FlowKind, Key, Steering, Table, Toeplitz};

use crate::cli::rss::{Protocol, SteeringArgs};

/// The settings for flows of this family. The table may be missing where only hashes are asked for.
pub(super) fn steering(args: &SteeringArgs, is_ipv6: bool) -> anyhow::Result<Steering> {
    let Some(interface) = &args.interface else {
        let table = args.table.clone();
        return Ok(Steering {
            table: table.context("which queues? give --table, such as equal:8, or -i IF")?,
            ..without_table(args)?
        });
    };
    of_interface(interface, args.proto.unwrap_or_default(), is_ipv6)
}

/// What hashes need: the same, with a table of one bucket where none is given.
pub(super) fn hashing(args: &SteeringArgs, is_ipv6: bool) -> anyhow::Result<Steering> {
    if args.has_table() {
        return steering(args, is_ipv6);
    }
    without_table(args)
}

fn without_table(args: &SteeringArgs) -> anyhow::Result<Steering> {
    Ok(Steering {
        toeplitz: Toeplitz::new(args.key.as_ref().unwrap_or(&Key::microsoft())),
        fields: args.fields.unwrap_or(Fields::FourTuple),
        symmetry: args.symmetry.unwrap_or_default(),
        table: Table::equal(1, 1)?,
    })
}

fn of_interface(name: &str, protocol: Protocol, is_ipv6: bool) -> anyhow::Result<Steering> {
    let kind = FlowKind::of(protocol == Protocol::Udp, is_ipv6);
    let state = card::open(name).and_then(|card| card.read()).map_err(|error| match error {
        none @ CardError::None { .. } => {
            anyhow!("{none}; give --key, --table and --fields instead of -i")
        }
        other => other.into(),
    })?;
    Ok(state.settings(name, kind)?.steering(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_rss_is_refused_with_what_can_be_done() {
        let error = of_interface("lo", Protocol::Udp, false).unwrap_err().to_string();
        assert!(error.contains("`lo` has no receive side scaling"), "{error}");
        assert!(error.contains("--key"), "{error}");
    }
}
