//! `weir rates`: line rates of links, and what a packet rate is in bits per second.
//!
//! The arithmetic is in [`weir_stats::rates`]; here it is laid out, as JSON or as text.

use anyhow::Context as _;
use serde::Serialize;
use weir_stats::rates::{
    Duplex, LINKS_BPS, Layer, PacketSize, RFC2544_SIZES_WITH_FCS_BYTES, imix_link_bps, imix_pps,
};
use weir_wire::ethernet::FCS_BYTES;
use weir_wire::sizes::Sizes;
use weir_wire::stream::ETHERNET_BYTES_MIN;

use crate::cli::rates::RatesArgs;
use crate::exit::{self, Outcome};

mod show;

/// A size as JSON has it.
#[derive(Debug, Clone, Serialize)]
struct Size {
    /// As `--size` reads it.
    sizes: String,
    mean_size_bytes: f64,
    mean_size_with_fcs_bytes: f64,
    mean_ip_bytes: f64,
    mean_ethernet_bytes: f64,
    mean_line_bytes: f64,
    #[serde(skip)]
    size: PacketSize,
}

/// What a link carries of a size.
#[derive(Debug, Serialize)]
struct LineRate {
    link_bps: u64,
    #[serde(flatten)]
    size: Size,
    half_duplex_pps: f64,
    full_duplex_pps: f64,
    /// Time that a packet takes on the line, on average.
    packet_ns: f64,
    half_duplex_ip_bps: f64,
    half_duplex_ethernet_bps: f64,
}

/// What a box has to forward to be enough for a link with IMIX.
#[derive(Debug, Serialize)]
struct ImixNeed {
    link_bps: u64,
    half_duplex_pps: f64,
    full_duplex_pps: f64,
}

/// The answer without `--pps`.
#[derive(Debug, Serialize)]
struct LineRates {
    line_rates: Vec<LineRate>,
    imix_needs: Vec<ImixNeed>,
}

/// What a packet rate is in bits per second, with packets of a size.
#[derive(Debug, Serialize)]
struct Equivalent {
    #[serde(flatten)]
    size: Size,
    ip_bps: f64,
    ethernet_bps: f64,
    line_bps: f64,
}

/// How a packet rate compares with a link.
#[derive(Debug, Serialize)]
struct LinkAnswer {
    link_bps: u64,
    imix_half_duplex_pps: f64,
    imix_half_duplex_enough: bool,
    imix_full_duplex_pps: f64,
    imix_full_duplex_enough: bool,
    /// Of the first of the sizes, one direction.
    line_rate_pps: f64,
    line_rate_ratio: f64,
}

/// The answer to `--pps`.
#[derive(Debug, Serialize)]
struct Equivalents {
    rate_pps: f64,
    equivalents: Vec<Equivalent>,
    links: Vec<LinkAnswer>,
    /// The fastest usual link, whatever `--link` says.
    imix_half_duplex_link_bps: Option<u64>,
    imix_full_duplex_link_bps: Option<u64>,
}

/// Runs the command.
pub(crate) fn command(args: &RatesArgs) -> anyhow::Result<Outcome> {
    let links = args.link.map_or_else(|| LINKS_BPS.to_vec(), |link_bps| vec![link_bps]);
    let text = if let Some(rate_pps) = args.pps {
        let sizes = sizes(args, &[ETHERNET_BYTES_MIN], true)?;
        let answer = Equivalents::new(rate_pps, &sizes, &links);
        rendered(args.json.json, &answer, |answer| show::equivalents(answer, args.link))?
    } else {
        let usual = RFC2544_SIZES_WITH_FCS_BYTES.map(|size_bytes| size_bytes - FCS_BYTES);
        let answer = LineRates::new(&sizes(args, &usual, args.size.is_none())?, &links);
        rendered(args.json.json, &answer, show::line_rates)?
    };
    exit::put(&text)?;
    Ok(Outcome::Done)
}

fn rendered<T: Serialize>(
    json: bool,
    answer: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<String> {
    if !json {
        return Ok(text(answer));
    }
    exit::json(answer)
}

/// The size that was asked for, or the usual ones; and IMIX after them, once, if wanted.
fn sizes(args: &RatesArgs, usual: &[u16], with_imix: bool) -> anyhow::Result<Vec<Size>> {
    let mut sizes = match &args.size {
        Some(sizes) => vec![sizes.clone()],
        None => usual.iter().map(|size_bytes| Sizes::Fixed(*size_bytes)).collect(),
    };
    if with_imix && !sizes.contains(&Sizes::Imix) {
        sizes.push(Sizes::Imix);
    }
    sizes.iter().map(Size::new).collect()
}

impl Size {
    fn new(sizes: &Sizes) -> anyhow::Result<Self> {
        let size = PacketSize::of(sizes).with_context(|| format!("--size {sizes}"))?;
        Ok(Self {
            sizes: sizes.to_string(),
            mean_size_bytes: size.frame_bytes(),
            mean_size_with_fcs_bytes: size.frame_with_fcs_bytes(),
            mean_ip_bytes: size.layer_bytes(Layer::Ip),
            mean_ethernet_bytes: size.layer_bytes(Layer::Ethernet),
            mean_line_bytes: size.layer_bytes(Layer::Line),
            size,
        })
    }
}

impl LineRates {
    fn new(sizes: &[Size], links: &[u64]) -> Self {
        let of_link = |link_bps: &u64| {
            let link_bps = *link_bps;
            sizes.iter().map(move |size| LineRate::new(link_bps, size))
        };
        let need = |link_bps: &u64| ImixNeed {
            link_bps: *link_bps,
            half_duplex_pps: imix_pps(*link_bps, Duplex::Half),
            full_duplex_pps: imix_pps(*link_bps, Duplex::Full),
        };
        Self {
            line_rates: links.iter().flat_map(of_link).collect(),
            imix_needs: links.iter().map(need).collect(),
        }
    }
}

impl LineRate {
    fn new(link_bps: u64, size: &Size) -> Self {
        let packets = &size.size;
        let half_duplex_pps = packets.line_rate_pps(link_bps, Duplex::Half);
        Self {
            link_bps,
            size: size.clone(),
            half_duplex_pps,
            full_duplex_pps: packets.line_rate_pps(link_bps, Duplex::Full),
            packet_ns: 1e9 / half_duplex_pps,
            half_duplex_ip_bps: packets.bps(half_duplex_pps, Layer::Ip),
            half_duplex_ethernet_bps: packets.bps(half_duplex_pps, Layer::Ethernet),
        }
    }
}

impl Equivalents {
    /// `sizes` has one size at least.
    fn new(rate_pps: f64, sizes: &[Size], links: &[u64]) -> Self {
        let equivalent = |size: &Size| Equivalent {
            size: size.clone(),
            ip_bps: size.size.bps(rate_pps, Layer::Ip),
            ethernet_bps: size.size.bps(rate_pps, Layer::Ethernet),
            line_bps: size.size.bps(rate_pps, Layer::Line),
        };
        let answer = |link_bps: &u64| {
            let [half_pps, full_pps] =
                [Duplex::Half, Duplex::Full].map(|duplex| imix_pps(*link_bps, duplex));
            let line_rate_pps = sizes[0].size.line_rate_pps(*link_bps, Duplex::Half);
            LinkAnswer {
                link_bps: *link_bps,
                imix_half_duplex_pps: half_pps,
                imix_half_duplex_enough: rate_pps >= half_pps,
                imix_full_duplex_pps: full_pps,
                imix_full_duplex_enough: rate_pps >= full_pps,
                line_rate_pps,
                line_rate_ratio: rate_pps / line_rate_pps,
            }
        };
        Self {
            rate_pps,
            equivalents: sizes.iter().map(equivalent).collect(),
            links: links.iter().map(answer).collect(),
            imix_half_duplex_link_bps: imix_link_bps(rate_pps, Duplex::Half),
            imix_full_duplex_link_bps: imix_link_bps(rate_pps, Duplex::Full),
        }
    }
}
