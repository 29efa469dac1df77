//! The answers of `weir rates` as text: tables with one line for each link or size.

use weir_results::document::{Column, Row, Table, Terminal};
use weir_results::number::{bps, pps, significant};
use weir_wire::units::{format_bps, format_count};

use super::{Equivalents, LineRate, LineRates, LinkAnswer, Size};

/// Significant digits of a figure.
const DIGITS: u8 = 4;

/// Line rates: a matrix of links and sizes, or a line for each if one of the two is given.
pub(super) fn line_rates(answer: &LineRates) -> String {
    let links = answer.imix_needs.len();
    let sizes = answer.line_rates.len() / links.max(1);
    if links > 1 && sizes > 1 {
        let half = matrix(answer, sizes, |rate| rate.half_duplex_pps);
        let full = matrix(answer, sizes, |rate| rate.full_duplex_pps);
        return format!(
            "Line rates, half duplex (one direction), in Mpps, by frame size without/with FCS\n\n\
             {half}\nLine rates, full duplex (both directions together), in Mpps\n\n{full}\n{}",
            needs(answer)
        );
    }
    let mut text = format!("Line rates; bits are of one direction\n\n{}", details(answer));
    if answer.line_rates.iter().any(|rate| rate.size.sizes == "imix") {
        text += &format!("\n{}", needs(answer));
    }
    text
}

fn matrix(answer: &LineRates, sizes: usize, rate_pps: impl Fn(&LineRate) -> f64) -> String {
    let rows: Vec<_> = answer.line_rates.chunks(sizes).collect();
    let mut head = vec!["link".to_owned()];
    head.extend(rows.iter().take(1).flat_map(|row| row.iter().map(|rate| rate.size.label())));
    let lines = rows.iter().map(|row| {
        let mut line = vec![format_bps(row[0].link_bps)];
        line.extend(row.iter().map(|rate| mpps(rate_pps(rate))));
        line
    });
    table(head, lines)
}

fn details(answer: &LineRates) -> String {
    let head = ["link", "frame", "half duplex", "full duplex", "per packet", "IP", "Ethernet"];
    let lines = answer.line_rates.iter().map(|rate| {
        vec![
            format_bps(rate.link_bps),
            rate.size.name(),
            pps(rate.half_duplex_pps),
            pps(rate.full_duplex_pps),
            format!("{} ns", significant(rate.packet_ns, DIGITS)),
            bps(rate.half_duplex_ip_bps),
            bps(rate.half_duplex_ethernet_bps),
        ]
    });
    table(head.map(str::to_owned).to_vec(), lines)
}

/// What links need with IMIX.
fn needs(answer: &LineRates) -> String {
    let head = ["link", "half duplex", "full duplex"].map(str::to_owned).to_vec();
    let lines = answer.imix_needs.iter().map(|need| {
        vec![format_bps(need.link_bps), pps(need.half_duplex_pps), pps(need.full_duplex_pps)]
    });
    format!(
        "Packet rates that are enough with IMIX (7 × 40, 4 × 576, 1 × 1,500 bytes of IP), at the \
         Ethernet\nlayer (IP + 14 bytes)\n\n{}",
        table(head, lines)
    )
}

/// What a packet rate is in bits, and for which links it is enough. `link_bps` is the one asked
/// about.
pub(super) fn equivalents(answer: &Equivalents, link_bps: Option<u64>) -> String {
    let head = ["frame", "IP", "Ethernet", "line"].map(str::to_owned).to_vec();
    let lines = answer.equivalents.iter().map(|equivalent| {
        let [ip, ethernet, line] =
            [equivalent.ip_bps, equivalent.ethernet_bps, equivalent.line_bps].map(bps);
        vec![equivalent.size.name(), ip, ethernet, line]
    });
    format!(
        "{} are, in bits per second\n\n{}\n\
         Links: what they need with IMIX at the Ethernet layer (IP + 14 bytes), and what one \
         direction\ncarries of {}\n\n{}\n{}\n",
        packets(answer.rate_pps),
        table(head, lines),
        answer.equivalents[0].size.label(),
        links(answer),
        sentence(answer, link_bps)
    )
}

fn links(answer: &Equivalents) -> String {
    let label = answer.equivalents[0].size.label();
    let head = vec![
        "link".to_owned(),
        "IMIX half duplex".to_owned(),
        String::new(),
        "IMIX full duplex".to_owned(),
        String::new(),
        format!("{label} half duplex"),
        "share".to_owned(),
    ];
    let enough = |enough| if enough { "enough" } else { "no" }.to_owned();
    let lines = answer.links.iter().map(|link| {
        vec![
            format_bps(link.link_bps),
            pps(link.imix_half_duplex_pps),
            enough(link.imix_half_duplex_enough),
            pps(link.imix_full_duplex_pps),
            enough(link.imix_full_duplex_enough),
            pps(link.line_rate_pps),
            format!("{} %", significant(link.line_rate_ratio * 100.0, DIGITS)),
        ]
    });
    table(head, lines)
}

/// The answer in a sentence: about the link that was asked about, or the fastest usual one.
fn sentence(answer: &Equivalents, link_bps: Option<u64>) -> String {
    let full = |link_bps| format!("a full-duplex link of {} with IMIX", format_bps(link_bps));
    let one_way = |link_bps| format!("one direction of {}", format_bps(link_bps));
    let too_little = |link: &LinkAnswer| {
        // What is not enough never reads as if it were.
        let percent = (answer.rate_pps / link.imix_full_duplex_pps * 100.0).min(99.99);
        format!(
            "Not enough for {}, but for {} % of one",
            full(link.link_bps),
            significant(percent, DIGITS)
        )
    };
    if link_bps.is_some() {
        let link = &answer.links[0];
        return match (link.imix_full_duplex_enough, link.imix_half_duplex_enough) {
            (true, _) => format!("Enough for {}.", full(link.link_bps)),
            (false, true) => format!("{}, and for one direction.", too_little(link)),
            (false, false) => format!("{}.", too_little(link)),
        };
    }
    match (answer.imix_full_duplex_link_bps, answer.imix_half_duplex_link_bps) {
        (Some(both), Some(one)) if one > both => {
            format!("Enough for {}, and for {}.", full(both), one_way(one))
        }
        (Some(both), _) => format!("Enough for {}.", full(both)),
        // The slowest link stands first, and is the only one that can be meant.
        (None, Some(_)) => format!("{}, and for one direction.", too_little(&answer.links[0])),
        (None, None) => format!("{}.", too_little(&answer.links[0])),
    }
}

impl Size {
    /// For the head of a column: `60/64`, `imix`.
    fn label(&self) -> String {
        match self.sizes.parse::<u16>() {
            Ok(_) => format!("{}/{}", self.mean_size_bytes, self.mean_size_with_fcs_bytes),
            Err(_) => self.sizes.clone(),
        }
    }

    /// For the head of a line: of a mix, the mean sizes too.
    fn name(&self) -> String {
        let label = self.label();
        if label != self.sizes {
            return label;
        }
        let mean = |size_bytes: f64| significant(size_bytes, DIGITS);
        let (without, with) = (mean(self.mean_size_bytes), mean(self.mean_size_with_fcs_bytes));
        format!("{label} (mean {without}/{with})")
    }
}

/// The first column to the left, the others to the right.
fn table(head: Vec<String>, lines: impl Iterator<Item = Vec<String>>) -> String {
    let column = |(index, head): (usize, String)| {
        if index == 0 { Column::words(head) } else { Column::numbers(head) }
    };
    let columns = head.into_iter().enumerate().map(column).collect();
    Table::new(columns, lines.map(Row::from_iter)).text(Terminal::default())
}

fn packets(rate_pps: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above zero, and beyond 64 bits the greatest value will do"
    )]
    let whole = rate_pps as u64;
    if whole as f64 == rate_pps {
        format!("{} packets per second", format_count(whole))
    } else {
        format!("{rate_pps} packets per second")
    }
}

/// Four digits: line rates are known to all of them.
fn mpps(rate_pps: f64) -> String {
    significant(rate_pps / 1e6, DIGITS)
}
