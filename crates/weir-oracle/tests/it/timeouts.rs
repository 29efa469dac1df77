//! The reference's timeouts are pf's.

use weir_oracle::reference::timeout;
use weir_rules::names::timeout_name;

#[test]
fn timeouts_are_where_their_names_are() {
    for (index, name) in [
        (timeout::TCP_FIRST, "tcp.first"),
        (timeout::TCP_OPENING, "tcp.opening"),
        (timeout::TCP_ESTABLISHED, "tcp.established"),
        (timeout::TCP_CLOSING, "tcp.closing"),
        (timeout::TCP_FIN_WAIT, "tcp.finwait"),
        (timeout::TCP_CLOSED, "tcp.closed"),
        (timeout::UDP_FIRST, "udp.first"),
        (timeout::UDP_SINGLE, "udp.single"),
        (timeout::UDP_MULTIPLE, "udp.multiple"),
        (timeout::ICMP_FIRST, "icmp.first"),
        (timeout::ICMP_ERROR, "icmp.error"),
        (timeout::OTHER_FIRST, "other.first"),
        (timeout::OTHER_SINGLE, "other.single"),
        (timeout::OTHER_MULTIPLE, "other.multiple"),
        (timeout::FRAGMENT, "frag"),
        (timeout::ADAPTIVE_START, "adaptive.start"),
        (timeout::ADAPTIVE_END, "adaptive.end"),
    ] {
        assert_eq!(timeout_name(index), name);
    }
}
