//! What a packet can fail at in a rule.

/// What a packet failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Criterion {
    /// `once`, and it has matched already.
    Once,
    /// `on`
    Interface,
    /// `in`, `out`
    Direction,
    /// `on rdomain`
    Rdomain,
    /// `inet`, `inet6`
    Family,
    /// `proto`
    Protocol,
    /// `from`
    Source,
    /// `to`
    Destination,
    /// The rule looks at what a fragment does not have.
    FragmentBlind,
    /// `flags`
    Flags,
    /// `os`
    Os,
    /// `port` of the source.
    SourcePort,
    /// `port` of the destination.
    DestinationPort,
    /// `user`
    User,
    /// `group`
    Group,
    /// `icmp-type`
    IcmpType,
    /// `code`
    IcmpCode,
    /// A rule that keeps state does not take a reply (OpenBSD).
    IcmpReply,
    /// `fragment`
    Fragment,
    /// `tos`
    Tos,
    /// `tagged`
    Tag,
    /// `received-on`
    ReceivedOn,
    /// `prio`
    Prio,
    /// `binat`: the outer address is not the destination.
    BinatAddress,
    /// `probability`: the number that was drawn.
    Probability(u32),
    /// `max-pkt-rate`
    PacketRate,
    /// A limiter without room; its place among the rule's limiters.
    Limiter(u32),
}

impl Criterion {
    /// Its word in rules.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Interface => "on",
            Self::Direction => "direction",
            Self::Rdomain => "rdomain",
            Self::Family => "family",
            Self::Protocol => "proto",
            Self::Source => "from",
            Self::Destination => "to",
            Self::FragmentBlind => "fragment-without-header",
            Self::Flags => "flags",
            Self::Os => "os",
            Self::SourcePort => "source port",
            Self::DestinationPort => "destination port",
            Self::User => "user",
            Self::Group => "group",
            Self::IcmpType => "icmp-type",
            Self::IcmpCode => "icmp code",
            Self::IcmpReply => "icmp reply",
            Self::Fragment => "fragment",
            Self::Tos => "tos",
            Self::Tag => "tagged",
            Self::ReceivedOn => "received-on",
            Self::Prio => "prio",
            Self::BinatAddress => "binat address",
            Self::Probability(_) => "probability",
            Self::PacketRate => "max-pkt-rate",
            Self::Limiter(_) => "limiter",
        }
    }
}
