//! How packets are spread: from the options, or from what an interface says of itself.
//!
//! What cannot be computed here (another hash than Toeplitz, a key that the driver does not show)
//! is refused.

use anyhow::{Context as _, bail};
use weir_bpf::ethtool::rss::{self, FlowType, HashFields, HashFunction, HashInput};
use weir_wire::rss::{Fields, Key, Steering, Symmetry, Table, Toeplitz};

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
    let settings = rss::settings(name)?.with_context(|| {
        format!(
            "interface `{name}` has no receive side scaling: its driver answers no `ethtool -x`; \
             give --key, --table and --fields instead of -i"
        )
    })?;
    match settings.function {
        None | Some(HashFunction::Toeplitz) => {}
        Some(other) => bail!(
            "interface `{name}` hashes by {other:?}, which weir cannot compute: \
             `ethtool -X {name} hfunc toeplitz` changes that where the driver can"
        ),
    }
    if settings.key.is_empty() {
        bail!("interface `{name}` does not show its key: give --key, --table and --fields")
    }
    if settings.table.is_empty() {
        bail!("interface `{name}` has no indirection table: give --key, --table and --fields")
    }
    let symmetry = match settings.input {
        HashInput::AsIs => Symmetry::None,
        HashInput::SymmetricXor => Symmetry::Xor,
        HashInput::SymmetricOrXor => Symmetry::OrXor,
        HashInput::Other(number) => bail!(
            "interface `{name}` transforms the input of its hash in a way that weir does not know \
             ({number})"
        ),
    };
    let flow_type = match (protocol, is_ipv6) {
        (Protocol::Tcp, false) => FlowType::Tcp4,
        (Protocol::Udp, false) => FlowType::Udp4,
        (Protocol::Tcp, true) => FlowType::Tcp6,
        (Protocol::Udp, true) => FlowType::Udp6,
    };
    let hashed = rss::fields(name, flow_type)?.with_context(|| {
        format!(
            "interface `{name}` does not say which fields it hashes: give --key, --table and \
             --fields"
        )
    })?;
    let queue = |queue: &u32| {
        u16::try_from(*queue).with_context(|| format!("queue {queue} of interface `{name}`"))
    };
    let queues = settings.table.iter().map(queue).collect::<anyhow::Result<Vec<u16>>>()?;
    Ok(Steering {
        toeplitz: Toeplitz::new(&Key::new(&settings.key).context(name.to_owned())?),
        fields: fields(name, hashed)?,
        symmetry,
        table: Table::new(queues)?,
    })
}

fn fields(name: &str, hashed: HashFields) -> anyhow::Result<Fields> {
    let HashFields { src, dst, src_port, dst_port, others } = hashed;
    match (src && dst, src_port, dst_port, others) {
        (true, false, false, false) => Ok(Fields::TwoTuple),
        (true, true, true, false) => Ok(Fields::FourTuple),
        _ => bail!(
            "interface `{name}` hashes neither the addresses alone nor addresses and ports \
             ({hashed:?}): set it with `ethtool -N {name} rx-flow-hash udp4 sdfn`"
        ),
    }
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

    #[test]
    fn only_pairs_of_fields_can_be_computed() {
        let all =
            HashFields { src: true, dst: true, src_port: true, dst_port: true, others: false };
        assert_eq!(fields("x", all).unwrap(), Fields::FourTuple);
        let two = HashFields { src_port: false, dst_port: false, ..all };
        assert_eq!(fields("x", two).unwrap(), Fields::TwoTuple);
        for odd in [
            HashFields { src: false, ..all },
            HashFields { dst_port: false, ..all },
            HashFields { others: true, ..two },
        ] {
            assert!(fields("x", odd).unwrap_err().to_string().contains("rx-flow-hash"), "{odd:?}");
        }
    }
}
