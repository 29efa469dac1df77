//! The answers of `weir rates` as text: tables with one line for each link or size.

use weir_gen::units::{format_bps, format_count};

use super::{Equivalents, LineRate, LineRates, LinkAnswer, Size};

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
            format!("{} Mpps", mpps(rate.half_duplex_pps)),
            format!("{} Mpps", mpps(rate.full_duplex_pps)),
            format!("{} ns", significant(rate.packet_ns)),
            bits(rate.half_duplex_ip_bps),
            bits(rate.half_duplex_ethernet_bps),
        ]
    });
    table(head.map(str::to_owned).to_vec(), lines)
}

/// What links need with IMIX.
fn needs(answer: &LineRates) -> String {
    let head = ["link", "half duplex", "full duplex"].map(str::to_owned).to_vec();
    let lines = answer.imix_needs.iter().map(|need| {
        vec![
            format_bps(need.link_bps),
            format!("{} Mpps", mpps(need.half_duplex_pps)),
            format!("{} Mpps", mpps(need.full_duplex_pps)),
        ]
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
            [equivalent.ip_bps, equivalent.ethernet_bps, equivalent.line_bps].map(bits);
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
            format!("{} Mpps", mpps(link.imix_half_duplex_pps)),
            enough(link.imix_half_duplex_enough),
            format!("{} Mpps", mpps(link.imix_full_duplex_pps)),
            enough(link.imix_full_duplex_enough),
            format!("{} Mpps", mpps(link.line_rate_pps)),
            format!("{} %", significant(link.line_rate_ratio * 100.0)),
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
        format!("Not enough for {}, but for {} % of one", full(link.link_bps), significant(percent))
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
        let mean = |size_bytes: f64| significant(size_bytes);
        let (without, with) = (mean(self.mean_size_bytes), mean(self.mean_size_with_fcs_bytes));
        format!("{label} (mean {without}/{with})")
    }
}

/// The first column to the left, the others to the right.
fn table(head: Vec<String>, lines: impl Iterator<Item = Vec<String>>) -> String {
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(lines).collect();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut cells = line.iter().zip(&widths);
        if let Some((first, width)) = cells.next() {
            text += &format!("{first:<width$}");
        }
        for (cell, width) in cells {
            text += &format!("  {cell:>width$}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
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

fn mpps(rate_pps: f64) -> String {
    significant(rate_pps / 1e6)
}

/// Bits per second with four significant digits.
fn bits(rate_bps: f64) -> String {
    let (divisor, unit) = match rate_bps {
        rate if rate >= 999_950_000.0 => (1e9, "Gb/s"),
        rate if rate >= 999_950.0 => (1e6, "Mb/s"),
        rate if rate >= 999.95 => (1e3, "kb/s"),
        _ => (1.0, "b/s"),
    };
    format!("{} {unit}", significant(rate_bps / divisor))
}

/// Four significant digits, and never more than six decimals.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        m if m >= 999.95 => 0,
        m if m >= 99.995 => 1,
        m if m >= 9.9995 => 2,
        m if m >= 0.999_95 => 3,
        m if m >= 0.099_995 => 4,
        m if m >= 0.009_999_5 => 5,
        _ => 6,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_shown() {
        for (value, text) in [
            (1.488_095, "1.488"),
            (14.880_952, "14.88"),
            (595.238, "595.2"),
            (0.352_775, "0.3528"),
            (0.081_274, "0.08127"),
            (0.000_001, "0.000001"),
            (9.999_6, "10.00"),
            (1_190.476, "1190"),
        ] {
            assert_eq!(significant(value), text);
        }
        assert_eq!(bits(4_252e6), "4.252 Gb/s");
        assert_eq!(bits(999_960_000.0), "1.000 Gb/s");
        assert_eq!(bits(480e6), "480.0 Mb/s");
        assert_eq!(bits(480.0), "480.0 b/s");
    }

    #[test]
    fn columns_stand_under_their_heads() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = table(row(["a", "bbb", ""]), [row(["×é×", "1", ""])].into_iter());
        assert_eq!(text, "a    bbb\n×é×    1\n");
    }
}
