//! What Linux's connection tracker takes for a connection: how many there are of a stream's flows.
//!
//! After `nf_conntrack_proto_{udp,tcp,icmp,icmpv6}.c` in the kernel's tree, for packets that
//! nothing answers. It never asks the kernel.

use weir_wire::flow::FlowSpace;
use weir_wire::frame::Protocol;
use weir_wire::range::Span as _;
use weir_wire::stream::StreamSpec;
use weir_wire::tcp::Flags;

/// Flags that make no difference to the tracker.
const IGNORED_FLAGS: [Flags; 4] = [Flags::PSH, Flags::ECE, Flags::CWR, Flags::URG];

/// How many connections there are once each flow was sent.
///
/// # Errors
/// Why that cannot be said, in words.
pub(super) fn connections(spec: &StreamSpec) -> Result<u64, String> {
    let flow_count = FlowSpace::new(spec.src, spec.dst).map_err(|e| e.to_string())?.flow_count();
    match spec.protocol {
        Protocol::Udp => Ok(flow_count),
        // A connection in SYN_SENT, which a further SYN of the same flow leaves as it is.
        Protocol::Tcp { flags } if is_syn(flags) => Ok(flow_count),
        Protocol::Tcp { flags } => Err(format!(
            "TCP packets with the flags `{flags}` do not open a connection by themselves: whether \
             the tracker makes an entry for them depends on its settings"
        )),
        // The identifier, our source port, is part of a connection, the sequence number is not.
        Protocol::IcmpEcho => Ok(flow_count / u64::from(spec.dst.port_count())),
    }
}

fn is_syn(flags: Flags) -> bool {
    let ignored = IGNORED_FLAGS.into_iter().fold(Flags::NONE, |all, flag| all | flag);
    (flags | ignored) == (Flags::SYN | ignored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::mac::MacAddr;

    fn connections_of(protocol: Protocol) -> Result<u64, String> {
        let range = |text: &str| text.parse().expect("a range");
        let (src, dst) =
            (range("198.18.10.1:1-198.18.10.5:2"), range("198.19.10.1:1-198.19.10.1:7"));
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        connections(&StreamSpec { protocol, ..StreamSpec::new(mac, mac, src, dst) })
    }

    #[test]
    fn connections_are_counted_as_the_tracker_does() {
        assert_eq!(connections_of(Protocol::Udp), Ok(70));
        assert_eq!(connections_of(Protocol::TCP_SYN), Ok(70));
        assert_eq!(connections_of(Protocol::IcmpEcho), Ok(10));
        let tcp =
            |flags: &str| connections_of(Protocol::Tcp { flags: flags.parse().expect("flags") });
        assert_eq!(tcp("SUEWP"), Ok(70));
        for flags in ["none", ".", "S.", "F", "R", "FS"] {
            assert!(tcp(flags).is_err_and(|why| why.contains(flags)), "{flags}");
        }
    }
}
