//! The rows of the result, and their limits. This is the one list.

use super::Result;
use crate::limits::{self, Limit, RowSpec};

/// Hashes of addresses and ports, as many flows at once as the CPU's instructions allow.
pub(crate) const HASH_V4: &str = "hash_v4";
pub(crate) const HASH_V6: &str = "hash_v6";
/// The same from tables, one flow after the other.
pub(crate) const TABLES_V4: &str = "hash_v4_tables";
pub(crate) const TABLES_V6: &str = "hash_v6_tables";
/// Flows on the predicted queue, with the predicted hash.
pub(crate) const PLACED_V4: &str = "placed_v4";
pub(crate) const PLACED_V6: &str = "placed_v6";

/// What an echo server with epoll returns at best, packets per second.
pub(crate) const ECHO_EPOLL: &str = "echo_epoll";
/// What the others return at best, against it.
pub(crate) const ECHO_MMSG: &str = "echo_mmsg";
pub(crate) const ECHO_URING: &str = "echo_uring";
pub(crate) const ECHO_AF_XDP: &str = "echo_af_xdp";
pub(crate) const ECHO_XDP: &str = "echo_xdp";
/// The same of one flow, whose datagrams are read and sent together.
pub(crate) const ECHO_GRO: &str = "echo_gro";
/// What comes back of four times as much as can be done, against the best.
pub(crate) const ECHO_FLOOD: &str = "echo_flood_af_xdp";
pub(crate) const ECHO_FLOOD_EPOLL: &str = "echo_flood_epoll";
/// CPU time to receive a datagram, steered by its hash against not steered.
pub(crate) const STEER: &str = "steer";

/// The rows of echo servers.
pub(crate) const ECHO: [&str; 9] = [
    ECHO_EPOLL,
    ECHO_MMSG,
    ECHO_URING,
    ECHO_AF_XDP,
    ECHO_XDP,
    ECHO_GRO,
    ECHO_FLOOD,
    ECHO_FLOOD_EPOLL,
    STEER,
];

/// What it costs to look into a tunnel and hash what it carries, more than to drop the packet.
pub(crate) const INNER: &str = "inner_hash";
/// CPU time to receive a packet and hand it to another CPU, against receive packet steering.
pub(crate) const DISPATCH: &str = "dispatch";
/// A GRE tunnel's packets that Linux forwards, of as many as can be sent.
pub(crate) const TUNNEL_NONE: &str = "tunnel_gre";
/// The same, handed to two CPUs by what they carry, against it.
pub(crate) const TUNNEL_GRE: &str = "tunnel_gre_rerss";
/// VXLAN's, against receive packet steering, which cannot look inside.
pub(crate) const TUNNEL_RPS: &str = "tunnel_vxlan_rerss";

/// The rows that need a router.
pub(crate) const ROUTER: [&str; 4] = [DISPATCH, TUNNEL_NONE, TUNNEL_GRE, TUNNEL_RPS];

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec {
        name: HASH_V4,
        what: "hash of an IPv4 4-tuple, many at once",
        unit: "hashes/s",
        limit: Limit::AtLeast(100e6),
    },
    RowSpec {
        name: HASH_V6,
        what: "hash of an IPv6 4-tuple, many at once",
        unit: "hashes/s",
        limit: Limit::AtLeast(100e6),
    },
    RowSpec {
        name: TABLES_V4,
        what: "hash of an IPv4 4-tuple, from tables",
        unit: "hashes/s",
        limit: Limit::None,
    },
    RowSpec {
        name: TABLES_V6,
        what: "hash of an IPv6 4-tuple, from tables",
        unit: "hashes/s",
        limit: Limit::None,
    },
    RowSpec {
        name: PLACED_V4,
        what: "IPv4 flows on the predicted queue and socket, all sizes of tables",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
    RowSpec {
        name: PLACED_V6,
        what: "the same of IPv6",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
    RowSpec {
        name: ECHO_EPOLL,
        what: "echo server with epoll, 60 bytes, 256 flows",
        unit: "packets/s",
        limit: Limit::None,
    },
    RowSpec {
        name: ECHO_MMSG,
        what: "the same with recvmmsg and sendmmsg",
        unit: "times",
        limit: Limit::AtLeast(1.2),
    },
    RowSpec { name: ECHO_URING, what: "the same with io_uring", unit: "times", limit: Limit::None },
    RowSpec {
        name: ECHO_AF_XDP,
        what: "the same with AF_XDP",
        unit: "times",
        limit: Limit::AtLeast(3.5),
    },
    RowSpec {
        name: ECHO_XDP,
        what: "the same in the driver (XDP_TX): the bound",
        unit: "times",
        limit: Limit::None,
    },
    RowSpec {
        name: ECHO_GRO,
        what: "one flow, 510 bytes: GRO and GSO against epoll",
        unit: "times",
        limit: Limit::AtLeast(2.0),
    },
    RowSpec {
        name: ECHO_FLOOD,
        what: "AF_XDP, offered 4 times its best, against it",
        unit: "times",
        limit: Limit::AtLeast(0.8),
    },
    RowSpec {
        name: ECHO_FLOOD_EPOLL,
        what: "epoll, offered 4 times its best, against it",
        unit: "times",
        limit: Limit::None,
    },
    RowSpec {
        name: STEER,
        what: "CPU time to receive: steered by hash against not",
        unit: "times",
        limit: Limit::AtMost(1.1),
    },
    RowSpec {
        name: INNER,
        what: "look into the costliest tunnel and hash, above XDP drop",
        unit: "ns",
        limit: Limit::AtMost(25.0),
    },
    RowSpec {
        name: DISPATCH,
        what: "CPU time to receive: cpumap against RPS",
        unit: "times",
        limit: Limit::AtMost(0.75),
    },
    RowSpec {
        name: TUNNEL_NONE,
        what: "one GRE tunnel of 64 flows through Linux, overload",
        unit: "packets/s",
        limit: Limit::None,
    },
    RowSpec {
        name: TUNNEL_GRE,
        what: "the same with rerss on two CPUs",
        unit: "times",
        limit: Limit::AtLeast(1.1),
    },
    RowSpec {
        name: TUNNEL_RPS,
        what: "one VXLAN tunnel: rerss against RPS",
        unit: "times",
        limit: Limit::AtLeast(1.3),
    },
];

/// The rows of these names; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    Ok(limits::selected(ROWS, names)?)
}
