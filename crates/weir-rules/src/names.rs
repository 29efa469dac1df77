//! The words with numbers: protocols, services, ICMP types and codes, TOS, timeouts, limits.
//!
//! Numbers are IANA's; the names are those of pf.conf(5), icmp(4) and FreeBSD's
//! `/etc/protocols` and `/etc/services`. Services are the few that rule files name; a resolver
//! may know more.

use weir_wire::protocol;

/// A name, its numbers, and the family.
type Entry = (&'static str, u8);
/// A code's name, its type, and the code.
type CodeEntry = (&'static str, u8, u8);

/// ICMP types of IPv4.
pub(crate) const ICMP_TYPES: &[Entry] = &[
    ("echoreq", 8),
    ("echorep", 0),
    ("unreach", 3),
    ("squench", 4),
    ("redir", 5),
    ("althost", 6),
    ("routeradv", 9),
    ("routersol", 10),
    ("timex", 11),
    ("paramprob", 12),
    ("timereq", 13),
    ("timerep", 14),
    ("inforeq", 15),
    ("inforep", 16),
    ("maskreq", 17),
    ("maskrep", 18),
    ("trace", 30),
    ("dataconv", 31),
    ("mobredir", 32),
    ("ipv6-where", 33),
    ("ipv6-here", 34),
    ("mobregreq", 35),
    ("mobregrep", 36),
    ("skip", 39),
    ("photuris", 40),
];

/// ICMPv6 types. Where a number has two names, the first is printed.
pub(crate) const ICMP6_TYPES: &[Entry] = &[
    ("unreach", 1),
    ("toobig", 2),
    ("timex", 3),
    ("paramprob", 4),
    ("echoreq", 128),
    ("echorep", 129),
    ("groupqry", 130),
    ("listqry", 130),
    ("grouprep", 131),
    ("listenrep", 131),
    ("groupterm", 132),
    ("listendone", 132),
    ("routersol", 133),
    ("routeradv", 134),
    ("neighbrsol", 135),
    ("neighbradv", 136),
    ("redir", 137),
    ("routrrenum", 138),
    ("wrureq", 139),
    ("wrurep", 140),
    ("fqdnreq", 139),
    ("fqdnrep", 140),
    ("niqry", 139),
    ("nirep", 140),
    ("mtraceresp", 200),
    ("mtrace", 201),
];

/// ICMP codes of IPv4, each with its type.
pub(crate) const ICMP_CODES: &[CodeEntry] = &[
    ("net-unr", 3, 0),
    ("host-unr", 3, 1),
    ("proto-unr", 3, 2),
    ("port-unr", 3, 3),
    ("needfrag", 3, 4),
    ("srcfail", 3, 5),
    ("net-unk", 3, 6),
    ("host-unk", 3, 7),
    ("isolate", 3, 8),
    ("net-prohib", 3, 9),
    ("host-prohib", 3, 10),
    ("net-tos", 3, 11),
    ("host-tos", 3, 12),
    ("filter-prohib", 3, 13),
    ("host-preced", 3, 14),
    ("cutoff-preced", 3, 15),
    ("redir-net", 5, 0),
    ("redir-host", 5, 1),
    ("redir-tos-net", 5, 2),
    ("redir-tos-host", 5, 3),
    ("normal-adv", 9, 0),
    ("common-adv", 9, 16),
    ("transit", 11, 0),
    ("reassemb", 11, 1),
    ("badhead", 12, 0),
    ("optmiss", 12, 1),
    ("badlen", 12, 2),
    ("unknown-ind", 40, 1),
    ("auth-fail", 40, 2),
    ("decrypt-fail", 40, 3),
];

/// ICMPv6 codes, each with its type.
pub(crate) const ICMP6_CODES: &[CodeEntry] = &[
    ("admin-unr", 1, 1),
    ("noroute-unr", 1, 0),
    ("notnbr-unr", 1, 2),
    ("beyond-unr", 1, 2),
    ("addr-unr", 1, 3),
    ("port-unr", 1, 4),
    ("transit", 3, 0),
    ("reassemb", 3, 1),
    ("badhead", 4, 0),
    ("nxthdr", 4, 1),
    ("redironlink", 137, 0),
    ("redirrouter", 137, 1),
];

/// The number of an ICMP type.
#[must_use]
pub fn icmp_type(name: &str, is_icmp6: bool) -> Option<u8> {
    let list = if is_icmp6 { ICMP6_TYPES } else { ICMP_TYPES };
    list.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name of an ICMP type.
#[must_use]
pub(crate) fn icmp_type_name(number: u8, is_icmp6: bool) -> Option<&'static str> {
    let list = if is_icmp6 { ICMP6_TYPES } else { ICMP_TYPES };
    list.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

/// The number of an ICMP code of a type.
#[must_use]
pub fn icmp_code(kind: u8, name: &str, is_icmp6: bool) -> Option<u8> {
    let list = if is_icmp6 { ICMP6_CODES } else { ICMP_CODES };
    list.iter().find(|(known, of, _)| *of == kind && *known == name).map(|(_, _, code)| *code)
}

/// The name of an ICMP code of a type.
#[must_use]
pub(crate) fn icmp_code_name(kind: u8, code: u8, is_icmp6: bool) -> Option<&'static str> {
    let list = if is_icmp6 { ICMP6_CODES } else { ICMP_CODES };
    list.iter().find(|(_, of, known)| *of == kind && *known == code).map(|(name, _, _)| *name)
}

/// TOS bytes with names: the old ones, and the DSCP of RFC 2474, 2597, 3246 and 5865.
pub const TOS: &[Entry] = &[
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
    ("critical", 0xa0),
    ("inetcontrol", 0xc0),
    ("netcontrol", 0xe0),
    ("va", 44 << 2),
    ("ef", 46 << 2),
    ("af11", 10 << 2),
    ("af12", 12 << 2),
    ("af13", 14 << 2),
    ("af21", 18 << 2),
    ("af22", 20 << 2),
    ("af23", 22 << 2),
    ("af31", 26 << 2),
    ("af32", 28 << 2),
    ("af33", 30 << 2),
    ("af41", 34 << 2),
    ("af42", 36 << 2),
    ("af43", 38 << 2),
    ("cs0", 0),
    ("cs1", 8 << 2),
    ("cs2", 16 << 2),
    ("cs3", 24 << 2),
    ("cs4", 32 << 2),
    ("cs5", 40 << 2),
    ("cs6", 48 << 2),
    ("cs7", 56 << 2),
];

/// Timeouts with pf's defaults in seconds (the adaptive ones in states; FreeBSD's values).
pub const TIMEOUTS: &[(&str, u32)] = &[
    ("tcp.first", 120),
    ("tcp.opening", 30),
    ("tcp.established", 86400),
    ("tcp.closing", 900),
    ("tcp.finwait", 45),
    ("tcp.closed", 90),
    ("tcp.tsdiff", 30),
    ("sctp.first", 120),
    ("sctp.opening", 30),
    ("sctp.established", 86400),
    ("sctp.closing", 900),
    ("sctp.closed", 90),
    ("udp.first", 60),
    ("udp.single", 30),
    ("udp.multiple", 60),
    ("icmp.first", 20),
    ("icmp.error", 10),
    ("other.first", 60),
    ("other.single", 30),
    ("other.multiple", 60),
    ("frag", 30),
    ("interval", 10),
    ("adaptive.start", 60000),
    ("adaptive.end", 120_000),
    ("src.track", 0),
];

/// Index of a timeout in [`TIMEOUTS`].
#[must_use]
pub fn timeout(name: &str) -> Option<u8> {
    let at = TIMEOUTS.iter().position(|(known, _)| *known == name)?;
    u8::try_from(at).ok()
}

/// Name of a timeout.
#[must_use]
pub fn timeout_name(index: u8) -> &'static str {
    TIMEOUTS.get(usize::from(index)).map_or("?", |(name, _)| name)
}

/// Limits with pf's defaults.
pub const LIMITS: &[(&str, u32)] = &[
    ("states", 100_000),
    ("src-nodes", 10_000),
    ("frags", 5000),
    ("tables", 1000),
    ("table-entries", 200_000),
    ("pktdelay-pkts", 10_000),
    ("anchors", 512),
    ("eth-anchors", 512),
];

/// Values of `set optimization`.
pub(crate) const OPTIMIZATIONS: &[&str] =
    &["default", "normal", "high-latency", "satellite", "aggressive", "conservative"];

/// Levels of `set debug`, FreeBSD's and OpenBSD's (the words of syslog).
pub const DEBUG_LEVELS: &[&str] = &[
    "none", "urgent", "misc", "loud", "emerg", "alert", "crit", "err", "warning", "notice", "info",
    "debug",
];

/// Flags of ALTQ disciplines, in the order in which pfctl prints them.
pub(crate) const SCHEDULER_FLAGS: &[&str] = &[
    "red",
    "ecn",
    "rio",
    "codel",
    "cleardscp",
    "flowvalve",
    "borrow",
    "wrr",
    "efficient",
    "root",
    "default",
];

/// IP protocols; the first name of a number is printed.
pub(crate) const PROTOCOLS: &[Entry] = &[
    ("ip", 0),
    ("icmp", protocol::ICMP),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("ipip", 4),
    ("st2", 5),
    ("tcp", protocol::TCP),
    ("cbt", 7),
    ("egp", 8),
    ("igp", 9),
    ("nvp", 11),
    ("pup", 12),
    ("chaos", 16),
    ("udp", protocol::UDP),
    ("hmp", 20),
    ("xns-idp", 22),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("dccp", 33),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("mobile", 55),
    ("ipv6-icmp", protocol::ICMP6),
    ("icmp6", protocol::ICMP6),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospf", 89),
    ("ospfigp", 89),
    ("ipip94", 94),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("carp", 112),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", protocol::SCTP),
    ("udplite", 136),
    ("pfsync", 240),
];

/// Services: name, port, and whether TCP and others (UDP) know it. Of two names of a port, the
/// first is printed.
pub(crate) const SERVICES: &[(&str, u16, bool, bool)] = &[
    ("tcpmux", 1, true, true),
    ("echo", 7, true, true),
    ("discard", 9, true, true),
    ("systat", 11, true, true),
    ("daytime", 13, true, true),
    ("chargen", 19, true, true),
    ("ftp-data", 20, true, true),
    ("ftp", 21, true, true),
    ("ssh", 22, true, true),
    ("telnet", 23, true, true),
    ("smtp", 25, true, true),
    ("mail", 25, true, true),
    ("time", 37, true, true),
    ("whois", 43, true, true),
    ("nicname", 43, true, true),
    ("tacacs", 49, true, true),
    ("domain", 53, true, true),
    ("bootps", 67, true, true),
    ("bootpc", 68, true, true),
    ("tftp", 69, true, true),
    ("gopher", 70, true, true),
    ("finger", 79, true, true),
    ("http", 80, true, true),
    ("www", 80, true, true),
    ("kerberos-sec", 88, true, true),
    ("kerberos", 88, true, true),
    ("pop2", 109, true, true),
    ("pop3", 110, true, true),
    ("sunrpc", 111, true, true),
    ("rpcbind", 111, true, true),
    ("portmap", 111, true, true),
    ("auth", 113, true, true),
    ("ident", 113, true, true),
    ("nntp", 119, true, true),
    ("ntp", 123, true, true),
    ("netbios-ns", 137, true, true),
    ("netbios-dgm", 138, true, true),
    ("netbios-ssn", 139, true, true),
    ("imap", 143, true, true),
    ("imap2", 143, true, true),
    ("snmp", 161, true, true),
    ("snmptrap", 162, true, true),
    ("bgp", 179, true, true),
    ("irc", 194, true, true),
    ("pip", 321, true, true),
    ("ldap", 389, true, true),
    ("https", 443, true, true),
    ("microsoft-ds", 445, true, true),
    ("kpasswd", 464, true, true),
    ("smtps", 465, true, false),
    ("submissions", 465, true, false),
    ("isakmp", 500, true, true),
    ("exec", 512, true, false),
    ("biff", 512, false, true),
    ("login", 513, true, false),
    ("who", 513, false, true),
    ("shell", 514, true, false),
    ("cmd", 514, true, false),
    ("syslog", 514, false, true),
    ("printer", 515, true, true),
    ("router", 520, false, true),
    ("route", 520, false, true),
    ("ripng", 521, true, true),
    ("dhcpv6-client", 546, true, true),
    ("dhcpv6-server", 547, true, true),
    ("rtsp", 554, true, true),
    ("nntps", 563, true, true),
    ("submission", 587, true, true),
    ("ipp", 631, true, true),
    ("ldaps", 636, true, true),
    ("rsync", 873, true, true),
    ("ftps-data", 989, true, true),
    ("ftps", 990, true, true),
    ("telnets", 992, true, true),
    ("imaps", 993, true, true),
    ("pop3s", 995, true, true),
    ("socks", 1080, true, true),
    ("openvpn", 1194, true, true),
    ("l2tp", 1701, true, true),
    ("pptp", 1723, true, true),
    ("radius", 1812, true, true),
    ("radius-acct", 1813, true, true),
    ("nfsd", 2049, true, true),
    ("nfs", 2049, true, true),
    ("mysql", 3306, true, true),
    ("rdp", 3389, true, true),
    ("stun", 3478, true, true),
    ("svn", 3690, true, true),
    ("sae-urn", 4500, true, true),
    ("ipsec-nat-t", 4500, true, true),
    ("sip", 5060, true, true),
    ("xmpp-client", 5222, true, true),
    ("xmpp-server", 5269, true, true),
    ("mdns", 5353, true, true),
    ("postgresql", 5432, true, true),
    ("personal-agent", 5555, true, true),
    ("rfb", 5900, true, true),
    ("vnc", 5900, true, true),
    ("x11", 6000, true, true),
    ("ircd", 6667, true, false),
    ("ircs-u", 6697, true, false),
    ("http-alt", 8080, true, true),
    ("git", 9418, true, true),
    ("spamd", 8025, true, false),
    ("spamd-sync", 8025, false, true),
    ("spamd-cfg", 8026, true, false),
    ("ftp-proxy", 8021, true, false),
];

/// Words of the grammar that cannot be names unless they are quoted, as in pf's lexer.
pub const RESERVED: &[&str] = &[
    "af-to",
    "all",
    "allow-opts",
    "altq",
    "anchor",
    "antispoof",
    "any",
    "bandwidth",
    "binat",
    "binat-anchor",
    "binat-to",
    "bitmask",
    "block",
    "block-policy",
    "bridge-to",
    "buckets",
    "cbq",
    "code",
    "codelq",
    "const",
    "counters",
    "debug",
    "divert-packet",
    "divert-reply",
    "divert-to",
    "dnpipe",
    "dnqueue",
    "drop",
    "dup-to",
    "ether",
    "fail-policy",
    "fairq",
    "fastroute",
    "file",
    "fingerprints",
    "flags",
    "floating",
    "flush",
    "for",
    "fragment",
    "from",
    "global",
    "group",
    "hfsc",
    "hogs",
    "hostid",
    "icmp-type",
    "icmp6-type",
    "if-bound",
    "in",
    "include",
    "inet",
    "inet6",
    "interval",
    "keep",
    "keepcounters",
    "l3",
    "label",
    "least-states",
    "limit",
    "linkshare",
    "load",
    "log",
    "loginterface",
    "map-e-portset",
    "match",
    "matches",
    "max",
    "max-mss",
    "max-pkt-rate",
    "max-src-conn",
    "max-src-conn-rate",
    "max-src-nodes",
    "max-src-states",
    "min-ttl",
    "modulate",
    "nat",
    "nat-anchor",
    "nat-to",
    "no",
    "no-df",
    "no-route",
    "no-sync",
    "on",
    "once",
    "optimization",
    "os",
    "out",
    "overload",
    "pass",
    "pflow",
    "port",
    "prio",
    "priority",
    "priq",
    "probability",
    "proto",
    "qlimit",
    "queue",
    "quick",
    "random",
    "random-id",
    "rdomain",
    "rdr",
    "rdr-anchor",
    "rdr-to",
    "realtime",
    "reassemble",
    "received-on",
    "reply-to",
    "require-order",
    "return",
    "return-icmp",
    "return-icmp6",
    "return-rst",
    "ridentifier",
    "round-robin",
    "route",
    "route-to",
    "rtable",
    "rule",
    "ruleset-optimization",
    "scrub",
    "set",
    "set-tos",
    "skip",
    "sloppy",
    "source-hash",
    "source-track",
    "state",
    "state-defaults",
    "state-policy",
    "static-port",
    "sticky-address",
    "syncookies",
    "synproxy",
    "table",
    "tag",
    "tagged",
    "target",
    "tbrsize",
    "timeout",
    "to",
    "tos",
    "ttl",
    "upperlimit",
    "urpf-failed",
    "user",
    "weight",
];

/// Those of the reserved words that OpenBSD's pf does not have.
pub(crate) const RESERVED_BY_FREEBSD: &[&str] = &[
    "altq",
    "binat",
    "binat-anchor",
    "bridge-to",
    "buckets",
    "cbq",
    "codelq",
    "dnpipe",
    "dnqueue",
    "ether",
    "fail-policy",
    "fairq",
    "hfsc",
    "hogs",
    "keepcounters",
    "l3",
    "linkshare",
    "map-e-portset",
    "nat",
    "nat-anchor",
    "priority",
    "priq",
    "rdr",
    "rdr-anchor",
    "realtime",
    "require-order",
    "ridentifier",
    "set-tos",
    "tbrsize",
    "upperlimit",
];

/// Whether a word cannot be a name.
#[must_use]
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_where_they_must_be() {
        assert!(RESERVED.is_sorted(), "binary search needs it");
        assert!(RESERVED_BY_FREEBSD.iter().all(|word| is_reserved(word)));
        assert!(is_reserved("nat-to") && !is_reserved("em0"));
    }

    #[test]
    fn names_lead_back() {
        for (name, number) in ICMP_TYPES {
            assert_eq!(icmp_type_name(*number, false), Some(*name));
        }
        assert_eq!(icmp_type("neighbrsol", true), Some(135));
        assert_eq!(icmp_code(3, "port-unr", false), Some(3));
        assert_eq!(icmp_code(1, "port-unr", true), Some(4));
        assert_eq!(timeout("frag").map(timeout_name), Some("frag"));
    }
}
