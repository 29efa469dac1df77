//! From a packet in words to the bytes of an Ethernet frame, so that every device gets the same.
//!
//! The words are those of [`Packet::parse`], and these, anywhere behind the destination:
//!
//! | word | meaning |
//! |---|---|
//! | `ttl N` | TTL or hop limit; 64 otherwise |
//! | `df`, `ident N` | of the IP header |
//! | `more`, `offset N` | a fragment: more follow; where it begins, in bytes |
//! | `vlan N` | a tag with this identifier; twice for two; `prio` goes into the outer one |
//! | `destination-options`, `authentication` | IPv6 extension headers (RFC 8200, RFC 4302) |
//! | `extension N` | one by its number (of IPv4 only 51), behind others; as often as there is one |
//! | `seq N`, `ack N`, `win N`, `wscale N`, `mss N` | of TCP; 1000, 0, 65535, and no options |
//! | `sack-ok`, `ts N` | of TCP: selective acknowledgement may be, a timestamp |
//! | `sack N` | of TCP: acknowledges the thousand bytes from N on selectively (RFC 2018) |
//! | `payload N` | bytes behind the protocol's header; 0 |
//! | `inner-seq N`, `inner-id N` | of the packet that an ICMP error quotes |
//! | `inner-offset N`, `inner-truncate N` | its fragment offset; how many bytes are quoted |
//! | `inner-extension N` | an IPv6 extension header of it, by its number; as often as it has some |
//! | `as N` | the protocol number in the IP header, where it is to be another |
//! | `udp-length N` | the length field, where it is to be wrong |
//! | `bad-checksum`, `bad-ip-checksum` | of the protocol, of the IPv4 header |
//! | `body N` | so many bytes alone of the protocol's header and payload; IP's length is right |
//! | `truncate N` | the first bytes of the frame alone |
//!
//! A first fragment is written with its ports and `more`; a later one as `fragment udp 10.0.0.5 >
//! 1.2.3.4 offset 1480 payload 100`. The frame is padded to 60 bytes. What a frame cannot carry
//! (`tag`, `user`, `group`, `os`, `rdomain`, `received-on`) is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::checksum;

use weir_rules::evaluate::{IcmpRole, Packet, Quoted};
use weir_rules::resolve::Resolver;
use weir_wire::protocol::{ICMP, ICMP6, SCTP, TCP, UDP};

/// Smallest Ethernet frame without its check sequence.
const FRAME_BYTES_MIN: usize = 60;
/// IPv6 extension headers that are stepped over.
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];
/// Largest payload that a frame may ask for, so that lengths stay 16 bits.
const PAYLOAD_BYTES_MAX: u16 = 9000;

/// A packet and everything else that its frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSpec {
    /// The packet as the rules see it, with direction and interface.
    pub packet: Packet,
    /// TTL or hop limit.
    pub ttl: u8,
    /// IPv4's don't-fragment bit.
    pub dont_fragment: bool,
    /// IP identification; 32 bits in IPv6's fragment header.
    pub ident: u32,
    /// More fragments follow.
    pub more: bool,
    /// Where the fragment begins, in bytes; a multiple of 8.
    pub offset_bytes: u16,
    /// VLAN identifiers, the outer one first.
    pub vlans: Vec<u16>,
    /// An IPv6 destination options header.
    pub destination_options: bool,
    /// An IPv6 authentication header.
    pub authentication: bool,
    /// Further extension headers, by their numbers.
    pub extensions: Vec<u8>,
    /// TCP's sequence number.
    pub sequence: u32,
    /// TCP's acknowledgement number.
    pub acknowledgement: u32,
    /// TCP's window as on the wire.
    pub window: u16,
    /// TCP's window scale option.
    pub window_scale: Option<u8>,
    /// TCP's maximum segment size option.
    pub mss: Option<u16>,
    /// Where what it acknowledges selectively begins, a block of a thousand bytes.
    pub selective: Option<u32>,
    pub payload_bytes: u16,
    /// Sequence number of the quoted packet.
    pub inner_sequence: u32,
    /// Identifier of the quoted echo message.
    pub inner_id: u16,
    /// Fragment offset of the quoted packet, bytes.
    pub inner_offset_bytes: u16,
    /// Numbers of the quoted packet's IPv6 extension headers, in their order.
    pub inner_extensions: Vec<u8>,
    /// How many bytes of the quoted packet there are.
    pub inner_bytes: Option<u16>,
    /// The protocol number in the IP header.
    pub header_protocol: Option<u8>,
    /// UDP's length field.
    pub udp_length: Option<u16>,
    /// The protocol's checksum is wrong.
    /// TCP's options "SACK permitted", and a timestamp.
    pub may_sack: bool,
    pub timestamp: Option<u32>,
    pub has_bad_checksum: bool,
    /// The IPv4 header's checksum is wrong.
    pub has_bad_ip_checksum: bool,
    /// Bytes of the protocol's header and payload that are left; the IP header says so.
    pub body_bytes: Option<u16>,
    /// Bytes of the frame that are left.
    pub truncate_bytes: Option<u16>,
}

impl FrameSpec {
    /// A frame around a packet, with nothing unusual.
    #[must_use]
    pub fn new(packet: Packet) -> Self {
        Self {
            packet,
            ttl: 64,
            dont_fragment: false,
            ident: 1,
            more: false,
            offset_bytes: 0,
            vlans: Vec::new(),
            destination_options: false,
            authentication: false,
            extensions: Vec::new(),
            sequence: 1000,
            acknowledgement: 0,
            window: 65535,
            window_scale: None,
            mss: None,
            selective: None,
            payload_bytes: 0,
            inner_sequence: 1000,
            inner_id: 0,
            inner_offset_bytes: 0,
            inner_extensions: Vec::new(),
            inner_bytes: None,
            header_protocol: None,
            udp_length: None,
            may_sack: false,
            timestamp: None,
            has_bad_checksum: false,
            has_bad_ip_checksum: false,
            body_bytes: None,
            truncate_bytes: None,
        }
    }

    /// Reads words (see the module).
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub fn parse(text: &str, resolver: &dyn Resolver) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let mut rest = Vec::new();
        let mut raw = Vec::new();
        while let Some(word) = words.next() {
            match word {
                "df"
                | "more"
                | "destination-options"
                | "authentication"
                | "sack-ok"
                | "bad-checksum"
                | "bad-ip-checksum" => raw.push((word, 0)),
                "ttl" | "ident" | "offset" | "vlan" | "seq" | "ack" | "win" | "wscale" | "mss"
                | "ts" | "sack" | "payload" | "inner-seq" | "inner-id" | "inner-offset"
                | "inner-truncate" | "inner-extension" | "extension" | "as" | "udp-length"
                | "body" | "truncate" => {
                    let number = words.next().and_then(|number| number.parse::<u32>().ok());
                    let number = number.ok_or_else(|| format!("`{word}` needs a number"))?;
                    raw.push((word, number));
                }
                "tag" | "user" | "group" | "os" | "rdomain" | "received-on" => {
                    return Err(format!("a frame does not carry `{word}`"));
                }
                _ => rest.push(word),
            }
        }
        let packet = Packet::parse(&rest.join(" "), resolver).map_err(|error| error.message)?;
        let mut spec = Self::new(packet);
        for (word, number) in raw {
            spec.set(word, number)?;
        }
        spec.check()?;
        Ok(spec)
    }

    fn set(&mut self, word: &str, number: u32) -> Result<(), String> {
        let large = || format!("{number} is too large for `{word}`");
        let short = u16::try_from(number).map_err(|_| large());
        let byte = u8::try_from(number).map_err(|_| large());
        match word {
            "df" => self.dont_fragment = true,
            "more" => self.more = true,
            "destination-options" => self.destination_options = true,
            "authentication" => self.authentication = true,
            "sack-ok" => self.may_sack = true,
            "ts" => self.timestamp = Some(number),
            "bad-checksum" => self.has_bad_checksum = true,
            "bad-ip-checksum" => self.has_bad_ip_checksum = true,
            "ttl" => self.ttl = byte?,
            "ident" => self.ident = number,
            "offset" => self.offset_bytes = short?,
            "vlan" => self.vlans.push(short?),
            "seq" => self.sequence = number,
            "ack" => self.acknowledgement = number,
            "win" => self.window = short?,
            "wscale" => self.window_scale = Some(byte?),
            "mss" => self.mss = Some(short?),
            "sack" => self.selective = Some(number),
            "payload" => self.payload_bytes = short?,
            "inner-seq" => self.inner_sequence = number,
            "inner-id" => self.inner_id = short?,
            "inner-offset" => self.inner_offset_bytes = short?,
            "inner-truncate" => self.inner_bytes = Some(short?),
            "extension" => self.extensions.push(byte?),
            "inner-extension" => self.inner_extensions.push(byte?),
            "as" => self.header_protocol = Some(byte?),
            "udp-length" => self.udp_length = Some(short?),
            "body" => self.body_bytes = Some(short?),
            "truncate" => self.truncate_bytes = Some(short?),
            _ => return Err(format!("`{word}` is not a word of a frame")),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(format!("a payload is at most {PAYLOAD_BYTES_MAX} bytes"));
        }
        if !self.offset_bytes.is_multiple_of(8) {
            return Err("a fragment's offset is a multiple of 8".to_owned());
        }
        if (self.offset_bytes != 0) != self.packet.fragment {
            let message = "a fragment with an `offset` is written with `fragment` before the \
                           protocol, and no other is";
            return Err(message.to_owned());
        }
        if self.vlans.iter().any(|id| *id > 0xfff) {
            return Err("VLAN identifiers are 0 to 4095".to_owned());
        }
        if self.packet.prio.is_some() && self.vlans.is_empty() {
            return Err("only a frame with `vlan` carries `prio`".to_owned());
        }
        let is_v4 = self.packet.source.is_ipv4();
        if is_v4 && (self.destination_options || self.authentication) {
            return Err("extension headers are IPv6's".to_owned());
        }
        let is_known =
            |number: &u8| if is_v4 { *number == 51 } else { EXTENSIONS.contains(number) };
        if !self.extensions.iter().all(is_known) {
            return Err("extension headers are 0, 43, 44, 51 and 60; of IPv4 51 alone".to_owned());
        }
        if self
            .inner_extensions
            .iter()
            .any(|inner_extension| is_v4 || !EXTENSIONS.contains(inner_extension))
        {
            let message = "the extension headers of a quoted IPv6 packet are 0, 43, 44, 51 and 60";
            return Err(message.to_owned());
        }
        if is_v4 && self.ident > 0xffff {
            return Err("IPv4's `ident` has 16 bits".to_owned());
        }
        Ok(())
    }

    /// The frame.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for (at, id) in self.vlans.iter().enumerate() {
            let kind: u16 = if at + 1 < self.vlans.len() { 0x88a8 } else { 0x8100 };
            let prio = if at == 0 { self.packet.prio.unwrap_or(0) } else { 0 };
            frame.extend(kind.to_be_bytes());
            frame.extend(((u16::from(prio) << 13) | id).to_be_bytes());
        }
        let mut segment = self.segment();
        if self.has_bad_checksum
            && let Some(at) = checksum_at(self.packet.protocol)
            && let Some(bytes) = segment.get_mut(at..at + 2)
        {
            bytes[1] ^= 0x55;
        }
        if let Some(bytes) = self.body_bytes {
            segment.truncate(bytes.into());
        }
        match (self.packet.source, self.packet.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([0x08, 0x00]);
                self.put_v4(&mut frame, source, destination, &segment);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd]);
                self.put_v6(&mut frame, source, destination, &segment);
            }
            // `Packet::parse` refuses two families.
            _ => frame.extend([0, 0]),
        }
        if frame.len() < FRAME_BYTES_MIN {
            frame.resize(FRAME_BYTES_MIN, 0);
        }
        if let Some(bytes) = self.truncate_bytes {
            frame.truncate(usize::from(bytes));
        }
        frame
    }

    fn put_v4(&self, frame: &mut Vec<u8>, source: Ipv4Addr, destination: Ipv4Addr, body: &[u8]) {
        let options: &[u8] = if self.packet.extensions.ipv4_options { &[1, 1, 1, 0] } else { &[] };
        let header_bytes = 20 + options.len();
        let start = frame.len();
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more) << 13;
        let ident = u16::try_from(self.ident).unwrap_or(u16::MAX);
        let (protocol, body) = self.authenticated(body);
        frame.push(0x40 | u8::try_from(header_bytes / 4).unwrap_or(15));
        frame.push(self.packet.tos);
        frame.extend(length(header_bytes + body.len()));
        frame.extend(ident.to_be_bytes());
        frame.extend((flags | (self.offset_bytes / 8)).to_be_bytes());
        frame.extend([self.ttl, protocol, 0, 0]);
        frame.extend(source.octets());
        frame.extend(destination.octets());
        frame.extend(options);
        let sum = checksum::ipv4_header(&frame[start..]) ^ u16::from(self.has_bad_ip_checksum);
        frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(body);
    }

    /// IPv4's protocol and what is behind its header: later fragments do not show the headers.
    fn authenticated(&self, body: &[u8]) -> (u8, Vec<u8>) {
        let (mut protocol, mut bytes) = (self.protocol(), body.to_vec());
        for number in self.extensions.iter().rev() {
            if self.offset_bytes == 0 {
                let mut header = extension(*number);
                header[0] = protocol;
                header.append(&mut bytes);
                bytes = header;
            }
            protocol = *number;
        }
        (protocol, bytes)
    }

    fn put_v6(&self, frame: &mut Vec<u8>, source: Ipv6Addr, destination: Ipv6Addr, body: &[u8]) {
        let mut headers: Vec<(u8, Vec<u8>)> = Vec::new();
        if self.packet.extensions.ipv6_options {
            headers.push((0, vec![0, 0, 1, 4, 0, 0, 0, 0]));
        }
        if self.packet.extensions.routing_header {
            // Type 4 (RFC 8754) without segments left.
            headers.push((43, vec![0, 0, 4, 0, 0, 0, 0, 0]));
        }
        if self.more || self.offset_bytes != 0 {
            let offset = self.offset_bytes | u16::from(self.more);
            let mut extension = vec![0, 0];
            extension.extend(offset.to_be_bytes());
            extension.extend(self.ident.to_be_bytes());
            headers.push((44, extension));
        }
        if self.offset_bytes == 0 {
            if self.authentication {
                headers.push((51, extension(51)));
            }
            if self.destination_options {
                headers.push((60, vec![0, 0, 1, 4, 0, 0, 0, 0]));
            }
            headers.extend(self.extensions.iter().map(|number| (*number, extension(*number))));
        }
        let size_bytes = headers.iter().map(|header| header.1.len()).sum::<usize>() + body.len();
        let (tos, protocol) = (self.packet.tos, self.protocol());
        frame.extend([0x60 | tos >> 4, tos << 4, 0, 0]);
        frame.extend(length(size_bytes));
        frame.push(headers.first().map_or(protocol, |header| header.0));
        frame.push(self.ttl);
        frame.extend(source.octets());
        frame.extend(destination.octets());
        for at in 0..headers.len() {
            let next = headers.get(at + 1).map_or(protocol, |header| header.0);
            headers[at].1[0] = next;
            frame.extend(&headers[at].1);
        }
        frame.extend(body);
    }

    fn protocol(&self) -> u8 {
        self.header_protocol.unwrap_or(self.packet.protocol)
    }

    /// Protocol header and payload, or what a later fragment has instead.
    fn segment(&self) -> Vec<u8> {
        let packet = &self.packet;
        let payload = (0..self.payload_bytes).map(|at| at.to_be_bytes()[1]);
        if packet.fragment {
            return payload.collect();
        }
        let mut bytes = Vec::new();
        match packet.protocol {
            TCP => self.put_tcp(&mut bytes),
            UDP => {
                bytes.extend(packet.source_port.to_be_bytes());
                bytes.extend(packet.destination_port.to_be_bytes());
                let udp_length = self.udp_length.unwrap_or(8 + self.payload_bytes);
                bytes.extend(udp_length.to_be_bytes());
                bytes.extend([0, 0]);
            }
            SCTP => {
                bytes.extend(packet.source_port.to_be_bytes());
                bytes.extend(packet.destination_port.to_be_bytes());
                bytes.extend([0; 8]);
            }
            ICMP | ICMP6 => {
                bytes.extend([packet.icmp.kind, packet.icmp.code, 0, 0]);
                if packet.icmp_role() == IcmpRole::Error {
                    bytes.extend([0; 4]);
                } else {
                    bytes.extend(packet.icmp.id.to_be_bytes());
                    bytes.extend([0, 1]);
                }
                if let Some(quoted) = &packet.quoted {
                    let inner = self.inner(quoted);
                    let size = self.inner_bytes.map_or(inner.len(), usize::from);
                    bytes.extend(&inner[..size.min(inner.len())]);
                }
            }
            _ => {}
        }
        bytes.extend(payload);
        fill_checksum(&mut bytes, packet.source, packet.destination, packet.protocol);
        bytes
    }

    fn put_tcp(&self, bytes: &mut Vec<u8>) {
        let packet = &self.packet;
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
        }
        if self.may_sack {
            options.extend([4, 2]);
        }
        if let Some(timestamp) = self.timestamp {
            options.extend([8, 10]);
            options.extend([timestamp, 0].map(u32::to_be_bytes).as_flattened());
        }
        if let Some(scale) = self.window_scale {
            options.extend([1, 3, 3, scale]);
        }
        if let Some(left) = self.selective {
            options.extend([1, 1, 5, 10]);
            options.extend([left, left.wrapping_add(1000)].map(u32::to_be_bytes).as_flattened());
        }
        // What fills the last word ends the options.
        options.resize(options.len().next_multiple_of(4), 0);
        let words = u8::try_from(5 + options.len() / 4).unwrap_or(5);
        bytes.extend(packet.source_port.to_be_bytes());
        bytes.extend(packet.destination_port.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgement.to_be_bytes());
        bytes.extend([words << 4, packet.tcp_flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
    }

    /// An extension header of it; a fragment header announces more fragments.
    fn inner_extension(&self, kind: u8, next: u8) -> Vec<u8> {
        match kind {
            44 => {
                let [high, low] = (self.inner_offset_bytes | 1).to_be_bytes();
                vec![next, 0, high, low, 0, 0, 0, 7]
            }
            51 => vec![next, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
            // Without segments left, as for the packet itself.
            43 => vec![next, 0, 4, 0, 0, 0, 0, 0],
            // The second eight bytes are padding too.
            _ => vec![next, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }

    /// The packet that an ICMP error is about: its IP header and eight bytes.
    fn inner(&self, quoted: &Quoted) -> Vec<u8> {
        let mut bytes = Vec::new();
        match (quoted.source, quoted.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend([0x45, 0, 0, 28, 0, 1]);
                bytes.extend((self.inner_offset_bytes / 8).to_be_bytes());
                bytes.extend([60, quoted.protocol, 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                let sum = checksum::ipv4_header(&bytes);
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let next = |at: usize| self.inner_extensions.get(at).copied();
                let extensions: Vec<u8> = (0..self.inner_extensions.len())
                    .flat_map(|at| {
                        let following = next(at + 1).unwrap_or(quoted.protocol);
                        self.inner_extension(self.inner_extensions[at], following)
                    })
                    .collect();
                bytes.extend([0x60, 0, 0, 0]);
                bytes.extend(length(extensions.len() + 8));
                bytes.extend([next(0).unwrap_or(quoted.protocol), 60]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                bytes.extend(extensions);
            }
            _ => {}
        }
        let body_at = bytes.len();
        match quoted.protocol {
            TCP => {
                bytes.extend(quoted.source_port.to_be_bytes());
                bytes.extend(quoted.destination_port.to_be_bytes());
                bytes.extend(self.inner_sequence.to_be_bytes());
            }
            UDP | SCTP => {
                bytes.extend(quoted.source_port.to_be_bytes());
                bytes.extend(quoted.destination_port.to_be_bytes());
                bytes.extend([0, 8, 0, 0]);
            }
            ICMP | ICMP6 => {
                bytes.extend([if quoted.protocol == ICMP { 8 } else { 128 }, 0, 0, 0]);
                bytes.extend(self.inner_id.to_be_bytes());
                bytes.extend([0, 1]);
            }
            _ => bytes.extend([0; 8]),
        }
        let (source, destination) = (quoted.source, quoted.destination);
        fill_checksum(&mut bytes[body_at..], source, destination, quoted.protocol);
        bytes
    }
}

/// An extension header, the smallest that is right; a fragment header is that of a whole packet.
fn extension(number: u8) -> Vec<u8> {
    match number {
        // Type 4 (RFC 8754) without segments left.
        43 => vec![0, 0, 4, 0, 0, 0, 0, 0],
        44 => vec![0, 0, 0, 0, 0, 0, 0, 1],
        51 => vec![0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
        _ => vec![0, 0, 1, 4, 0, 0, 0, 0],
    }
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

/// Where a protocol's header has its checksum.
pub(super) fn checksum_at(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        ICMP | ICMP6 => Some(2),
        _ => None,
    }
}

/// The checksum of a whole message, whatever its field holds now.
pub(super) fn message_checksum(
    bytes: &[u8],
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
) -> u16 {
    match (source, destination, protocol) {
        (IpAddr::V4(_), _, ICMP) => checksum::icmp_v4(bytes),
        (IpAddr::V4(source), IpAddr::V4(destination), UDP) => {
            checksum::udp(source, destination, bytes)
        }
        (IpAddr::V6(source), IpAddr::V6(destination), UDP) => {
            checksum::udp(source, destination, bytes)
        }
        (IpAddr::V4(source), IpAddr::V4(destination), _) => {
            checksum::with_pseudo_header(source, destination, protocol, bytes, field(protocol))
        }
        (IpAddr::V6(source), IpAddr::V6(destination), _) => {
            checksum::with_pseudo_header(source, destination, protocol, bytes, field(protocol))
        }
        _ => 0,
    }
}

fn field(protocol: u8) -> usize {
    checksum_at(protocol).unwrap_or(0)
}

fn fill_checksum(bytes: &mut [u8], source: IpAddr, destination: IpAddr, protocol: u8) {
    let Some(at) = checksum_at(protocol).filter(|at| at + 2 <= bytes.len()) else {
        return;
    };
    let sum = message_checksum(bytes, source, destination, protocol);
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
