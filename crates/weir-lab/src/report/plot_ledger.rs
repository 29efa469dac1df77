//! Where the packets of each series went: the offered total as one bar of 100 %.

use maud::{Markup, html};

use super::svg::{Chart, Format, clip, label, px, text_width};
use super::{Report, dut_label, group_label, text};
use crate::record::Place;
use crate::summary::{LedgerSummary, SeriesSummary};

const HEAD: f64 = 26.0;
const GAP: f64 = 12.0;
const BAR: f64 = 18.0;
/// A segment this wide carries its share as a text.
const LABEL_MIN: f64 = 42.0;

/// One part of a bar.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: String,
    class: String,
    packets: u64,
}

/// Draws it.
pub(super) fn chart(report: &Report<'_>, format: Format) -> Chart {
    let width = format.width();
    let (bar_x, row) = match format {
        Format::Wide => (label_width(report), 26.0),
        Format::Narrow => (0.0, 40.0),
    };
    let classes = classes(report);
    let id = format!("ledger-{}", format.name());
    let mut y = 0.0;
    let mut rows = Vec::new();
    for group in report.summary.groups() {
        let title = clip(&group_label(group[0]), width);
        rows.push(html! { (label("b", 0.0, y + 14.0, &title)) });
        y += HEAD;
        for series in group {
            rows.push(series_row(series, &classes, (bar_x, y, width), format, &id));
            y += row;
        }
        y += GAP;
    }
    let (legend, height) = legend(&classes, y, width, &id);
    Chart {
        title: "Where the packets went".to_owned(),
        description: "Every series as a bar of all offered packets: delivered, lost to each named \
                      counter, and the residual that no counter explains."
            .to_owned(),
        width,
        height: y + height,
        body: html! { (hatch(&id)) @for row in rows { (row) } (legend) },
        id,
    }
}

fn label_width(report: &Report<'_>) -> f64 {
    let widest = report.summary.series.iter().map(|s| text_width(&dut_label(s)));
    widest.fold(60.0, f64::max).min(200.0) + 14.0
}

/// Name and colour class of every part that occurs, in the order of a packet's way.
fn classes(report: &Report<'_>) -> Vec<(String, String)> {
    let mut classes = vec![("delivered".to_owned(), "c-delivered".to_owned())];
    let drops =
        report.summary.series.iter().filter_map(|s| s.ledger.as_ref()).flat_map(|l| &l.drops);
    let mut seen = [0_usize; 3];
    for drop in drops {
        let name = part_name(&drop.name, drop.place);
        if classes.iter().any(|(n, _)| *n == name) {
            continue;
        }
        let (slot, tones, prefix) = match drop.place {
            Place::Generator => (0, 2, "generator"),
            Place::Dut => (1, 3, "dut"),
            Place::Sink => (2, 2, "sink"),
        };
        classes.push((name, format!("c-{prefix}{}", seen[slot] % tones)));
        seen[slot] += 1;
    }
    classes.push(("residual".to_owned(), "c-residual".to_owned()));
    classes
}

fn part_name(name: &str, place: Place) -> String {
    format!("{name} ({})", text::place(place))
}

fn parts(ledger: &LedgerSummary, classes: &[(String, String)]) -> Vec<Part> {
    let delivered = ledger.points.last().map_or(0, |p| p.packets);
    let packets = |name: &str| match name {
        "delivered" => delivered,
        "residual" => ledger.residual_packets,
        _ => {
            let named = ledger.drops.iter().filter(|d| part_name(&d.name, d.place) == name);
            named.map(|d| d.packets).sum()
        }
    };
    classes
        .iter()
        .map(|(name, class)| Part {
            name: name.clone(),
            class: class.clone(),
            packets: packets(name),
        })
        .filter(|part| part.packets > 0)
        .collect()
}

fn series_row(
    series: &SeriesSummary,
    classes: &[(String, String)],
    (bar_x, y, right): (f64, f64, f64),
    format: Format,
    id: &str,
) -> Markup {
    let (text_y, bar_y, room) = match format {
        Format::Wide => (y + 13.0, y, bar_x - 14.0),
        Format::Narrow => (y + 10.0, y + 15.0, right),
    };
    let name = clip(&dut_label(series), room);
    let Some(ledger) = &series.ledger else {
        return html! {
            (label("", 0.0, text_y, &name))
            (label("m small", bar_x, bar_y + 13.0, "no valid iteration"))
        };
    };
    let parts = parts(ledger, classes);
    let total = parts.iter().map(|p| p.packets).sum::<u64>();
    let mut x = bar_x;
    html! {
        (label("", 0.0, text_y, &name))
        @if total == 0 { (label("m small", bar_x, bar_y + 13.0, "nothing was offered")) }
        @for part in &parts {
            @let share = ratio(part.packets, total);
            @let width = share * (right - bar_x);
            (segment(part, share, (x, bar_y, width), id))
            @let () = x += width;
        }
    }
}

fn segment(part: &Part, share: f64, (x, y, width): (f64, f64, f64), id: &str) -> Markup {
    html! {
        g class=(part.class) {
            title { (part.name) ": " (text::count(part.packets)) " packets, " (text::share(share)) }
            rect class=(if width < 3.0 { "segment thin" } else { "segment" })
                x=(px(x)) y=(px(y)) width=(px(width)) height=(px(BAR)) {}
            @if part.name == "residual" {
                rect fill={ "url(#" (id) "-hatch)" } x=(px(x)) y=(px(y)) width=(px(width))
                    height=(px(BAR)) {}
            } @else if width >= LABEL_MIN {
                (label("on mid", x + width / 2.0, y + 13.0, &text::share(share)))
            }
        }
    }
}

fn hatch(id: &str) -> Markup {
    html! {
        defs {
            pattern id={ (id) "-hatch" } width="6" height="6" patternUnits="userSpaceOnUse"
                patternTransform="rotate(45)" {
                line class="hatch" x1="0" y1="0" x2="0" y2="6" {}
            }
        }
    }
}

/// The legend below the bars, and its height.
fn legend(classes: &[(String, String)], top: f64, width: f64, id: &str) -> (Markup, f64) {
    let mut x = 0.0;
    let mut y = top + 4.0;
    let mut items = Vec::new();
    for (name, class) in classes {
        let needed = 18.0 + text_width(name) + 16.0;
        if x > 0.0 && x + needed > width {
            x = 0.0;
            y += 20.0;
        }
        items.push(html! {
            g class=(class) {
                rect fill="currentColor" x=(px(x)) y=(px(y)) width="11" height="11" rx="2" {}
                @if name == "residual" {
                    rect fill={ "url(#" (id) "-hatch)" } x=(px(x)) y=(px(y))
                        width="11" height="11" {}
                }
            }
            (label("small", x + 17.0, y + 10.0, &clip(name, width - 24.0)))
        });
        x += needed;
    }
    (html! { @for item in items { (item) } }, y + 24.0 - top)
}

#[expect(clippy::cast_precision_loss, reason = "a plot needs fewer digits than 53 bits hold")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
