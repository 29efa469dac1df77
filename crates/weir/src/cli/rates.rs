//! The arguments of `weir rates`.

use clap::Args;
use weir_wire::sizes::Sizes;
use weir_wire::units::{Rate, UnitError, parse_count};

use super::JsonFlag;

pub(crate) const HELP: &str = "\
Frame sizes are without the 4 bytes of FCS (60 is the smallest); tables show both, as 60/64.
Half duplex is one direction of a link; full duplex is the sum of both, which is what a box between
two such links forwards when both are full.

  IP        IP packets
  Ethernet  IP packets and the 14 bytes of the Ethernet header
  line      frames, padded to 60 bytes, with 4 bytes of FCS, 8 of preamble and 12 of gap

A link is filled when the line is (RFC 2544, section 20). A box is said to be enough for a link
with IMIX when it forwards as many packets as make the link's speed at the Ethernet layer, which is
a little more than the line carries. IMIX is the simple one: 7 IP packets of 40 bytes, 4 of 576, 1
of 1,500. Frames have no VLAN tag.

Examples:
  weir rates                              usual links, frame sizes of RFC 2544, and IMIX
  weir rates --link 10G                   one link: packets, bits, time for a packet
  weir rates --size 1514                  one size; also 60-1514, 60,590,1514, imix,
                                          imix-genome:aaafg (the mean counts)
  weir rates --pps 1.5M                   what that is in bits, and for which links it is enough
  weir rates --pps 4.3M --link 10G --size 508 --json";

/// `weir rates`.
#[derive(Debug, Args)]
pub(crate) struct RatesArgs {
    /// A packet rate, all directions together: what it is in bits per second, and the links for
    /// which it is enough with IMIX.
    #[arg(long, value_name = "N", value_parser = packet_rate)]
    pub(crate) pps: Option<f64>,
    /// Only the link of this speed in each direction, bits per second: 10G, 2.5G, 100M [default:
    /// the usual ones from 1G to 400G].
    #[arg(long, value_name = "SPEED", value_parser = link_speed)]
    pub(crate) link: Option<u64>,
    /// Only this frame size without FCS: N, A-B, a list with commas, imix or
    /// imix-genome:LETTERS [default: those of RFC 2544 and imix; with --pps 60 and imix].
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Sizes>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

fn packet_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(Rate::Pps(rate_pps)) => Ok(rate_pps),
        Ok(Rate::Bps(_) | Rate::Percent(_)) => Err(
            "this is not a number of packets per second: write one such as 353k or 1.5M; for what \
             a link carries, use --link 10G"
                .to_owned(),
        ),
        Err(error @ UnitError::OutOfRange { .. }) => Err(error.to_string()),
        Ok(Rate::Max) | Err(UnitError::Malformed { .. }) => Err(format!(
            "`{text}` is not a packet rate: write packets per second, such as 353k, 1.5M or 1488095"
        )),
    }
}

fn link_speed(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("bps").unwrap_or(text);
    match parse_count(number) {
        Ok(0) => Err("a link's speed must be above zero".to_owned()),
        Ok(link_bps) => Ok(link_bps),
        Err(error) => Err(format!("{error}; a link's speed is in bits per second, such as 10G")),
    }
}
