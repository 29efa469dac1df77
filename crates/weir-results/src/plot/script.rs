//! A figure for gnuplot: a script and its data, to be changed by hand.
//!
//! The script needs gnuplot 5 or later, reads the data from a file beside it, and writes an SVG.
//! Each curve, or row, is a data block of its own behind its name; gnuplot's `index` counts them.

use std::fmt::Write as _;

use super::axis::{AxisScale, Base, Quantity};
use super::stack::StackRow;
use super::{Body, Figure, LinePanel, Stack, Strip, StripRow};
use crate::palette;

/// A script and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The data: blocks of columns, in the unit of the collection.
    pub data: String,
    text: String,
}

/// Stands in the script for the names of the data file and of the picture.
const DATA: &str = "\u{1}";
const PICTURE: &str = "\u{2}";

impl Script {
    /// The script, for data in the file `data` and a picture in the file `picture`.
    #[must_use]
    pub fn text(&self, data: &str, picture: &str) -> String {
        self.text.replace(DATA, &escaped(data)).replace(PICTURE, &escaped(picture))
    }
}

/// Writes both.
pub(super) fn write(figure: &Figure) -> Script {
    let (data, body) = match &figure.body {
        Body::Lines(panels) => lines(panels),
        Body::Strip(strip) => strip_plot(strip),
        Body::Stack(stack) => stack_plot(stack),
    };
    let mut text = String::new();
    let note = figure.note.replace('\n', " ");
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "# {note}\n\
         set terminal svg size 880,480 dynamic font \"sans-serif,12\" background rgb \"white\"\n\
         set output \"{PICTURE}\"\n\
         set title \"{}\" noenhanced\n\
         set border 3\n\
         set tics nomirror\n\
         set grid ytics\n\
         set key noenhanced bottom\n",
        escaped(&figure.title)
    );
    text.push_str(&body);
    Script { data, text }
}

/// As the inside of a string in double quotes.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn lines(panels: &[LinePanel]) -> (String, String) {
    let (mut data, mut text) = (String::new(), String::new());
    let Some(first) = panels.first() else {
        return (data, text);
    };
    let in_unit = |quantity: Quantity| {
        let divisor = weir_stats::number::g8(quantity.divisor());
        (format!(", {}", quantity.name()), format!("($1/{divisor})"))
    };
    let plain = || (String::new(), "1".to_owned());
    let (x_name, x) = first.x.quantity.map_or_else(plain, in_unit);
    let x_title = escaped(&format!("{}{x_name}", first.x.title));
    let _ = writeln!(text, "set xlabel \"{x_title}\" noenhanced");
    let _ = writeln!(text, "set ylabel \"{}\"", first.y.name());
    let _ = match first.y_scale {
        AxisScale::Linear => writeln!(text, "set yrange [0:*]"),
        AxisScale::Log(_) => writeln!(text, "set logscale y 10"),
    };
    match first.x.scale {
        AxisScale::Linear => {}
        AxisScale::Log(Base::Ten) => {
            let _ = writeln!(text, "set logscale x 10\nset format x \"%.0s%c\"");
        }
        AxisScale::Log(Base::Two) => {
            let _ = writeln!(text, "set logscale x 2\nset format x \"%.0b%B\"");
        }
    }
    if panels.len() > 1 {
        let rows = panels.len().div_ceil(2);
        let _ = writeln!(text, "set multiplot layout {rows},2");
    }
    let mut block = 0;
    for panel in panels {
        if let Some(title) = panel.title.as_ref().filter(|_| panels.len() > 1) {
            let _ = writeln!(text, "set title \"{}\" noenhanced", escaped(title));
        }
        let mut parts = Vec::new();
        for curve in &panel.curves {
            let _ = writeln!(data, "# {}\n# x median low high", curve.name.replace('\n', " "));
            for point in &curve.points {
                let (low, high) = point.bar.unwrap_or((point.y, point.y));
                let values = [point.x, point.y, low, high].map(weir_stats::number::g8);
                let _ = writeln!(data, "{}", values.join(" "));
            }
            data.push_str("\n\n");
            let (name, colour) = (escaped(&curve.name), palette::series(curve.colour).light);
            let divisor = weir_stats::number::g8(panel.y.divisor());
            let using = format!("using {x}:($2/{divisor}):($3/{divisor}):($4/{divisor})");
            let dash = curve.dash % 3 + 1;
            parts.push(format!(
                "\"{DATA}\" index {block} {using} with yerrorlines lw 2 dt {dash} pt 7 \
                 lc rgb \"{colour}\" title \"{name}\""
            ));
            block += 1;
        }
        if !parts.is_empty() {
            let _ = writeln!(text, "plot {}", parts.join(", \\\n     "));
        }
    }
    if panels.len() > 1 {
        text.push_str("unset multiplot\n");
    }
    (data, text)
}

/// Points over the number of their row; rows are named on the axis.
fn strip_plot(strip: &Strip) -> (String, String) {
    let (mut data, mut text) = (String::new(), String::new());
    let mut names = Vec::new();
    let mut parts = Vec::new();
    let divisor = weir_stats::number::g8(strip.quantity().divisor());
    let mut group = "";
    for row in &strip.rows {
        let (name, colour, marks) = match row {
            StripRow::Heading { text, .. } => {
                group = text;
                continue;
            }
            StripRow::Series { name, colour, marks } => (name, colour, marks),
        };
        let index = names.len();
        let full = [group, name].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>();
        let full = full.join(" · ");
        let _ = writeln!(data, "# {}\n# row value", full.replace('\n', " "));
        for mark in marks {
            let value = weir_stats::number::g8(mark.value);
            let prefix = if mark.counts { "" } else { "# does not count: " };
            let _ = writeln!(data, "{prefix}{index} {value}");
        }
        data.push_str("\n\n");
        names.push(format!("\"{}\" {index}", escaped(&full)));
        let colour = palette::series(*colour).light;
        if marks.iter().any(|m| m.counts) {
            parts.push(format!(
                "\"{DATA}\" index {index} using ($2/{divisor}):1 with points pt 7 ps 0.6 \
                 lc rgb \"{colour}\" notitle"
            ));
        }
    }
    let _ = writeln!(text, "set xlabel \"{} {}\"", strip.quantity().name(), escaped(&strip.title));
    let _ = writeln!(text, "set xrange [0:*]\nset yrange [{}:-1] reverse", names.len());
    let _ = writeln!(text, "set ytics ({}) noenhanced", names.join(", "));
    if !parts.is_empty() {
        let _ = writeln!(text, "plot {}", parts.join(", \\\n     "));
    }
    (data, text)
}

/// One row for each whole, one column for each part, in per cent.
fn stack_plot(stack: &Stack) -> (String, String) {
    let (mut data, mut text) = (String::new(), String::new());
    let names: Vec<String> =
        stack.legend.iter().map(|(name, _)| format!("\"{}\"", escaped(name))).collect();
    let _ = writeln!(data, "name {}", names.join(" "));
    for row in &stack.rows {
        let StackRow::Whole { name, parts, .. } = row else { continue };
        let share = |tint: &super::Tint| {
            let of = parts.iter().filter(|p| p.tint == *tint).map(|p| p.share).sum::<f64>();
            weir_stats::number::g8(of * 100.0)
        };
        let shares: Vec<String> = stack.legend.iter().map(|(_, tint)| share(tint)).collect();
        let _ = writeln!(data, "\"{}\" {}", escaped(name), shares.join(" "));
    }
    text.push_str(
        "set ylabel \"per cent\"\nset yrange [0:100]\nset style data histograms\n\
         set style histogram rowstacked\nset style fill solid\n\
         set key autotitle columnheader outside noenhanced\nset xtics noenhanced rotate by -30\n",
    );
    let parts: Vec<String> = stack
        .legend
        .iter()
        .enumerate()
        .map(|(index, (_, tint))| {
            let names = if index == 0 { ":xtic(1)" } else { "" };
            let colour = palette::tone_named(&tint.tone).light;
            format!("\"{DATA}\" using {}{names} lc rgb \"{colour}\"", index + 2)
        })
        .collect();
    if !parts.is_empty() {
        let _ = writeln!(text, "plot {}", parts.join(", \\\n     "));
    }
    (data, text)
}
