//! Figures in all their formats.

use axis::{binary, decimal};

use super::*;
use crate::collection::Unit;
use crate::palette;

fn curve(name: &str, colour: usize, points: &[(f64, f64, f64, f64)]) -> Curve {
    let points = points
        .iter()
        .map(|&(x, y, low, high)| CurvePoint { x, y, bar: Some((low, high)) })
        .collect();
    Curve { name: name.into(), colour, dash: 0, marks: true, points }
}

fn panel(title: &str, scale: AxisScale, curves: Vec<Curve>) -> LinePanel {
    let write = if scale == AxisScale::Log(Base::Two) { binary } else { decimal };
    let positions: Vec<(f64, String)> =
        curves[0].points.iter().map(|p| (p.x, write(p.x))).collect();
    LinePanel {
        title: None,
        x: XAxis { title: title.into(), quantity: None, scale, positions },
        y: Quantity::rates(400e3, Unit::Pps),
        y_scale: AxisScale::Linear,
        values: curves.len() == 1,
        legend: curves.len() > 1,
        height: 260.0,
        reach: None,
        curves,
    }
}

fn figure(title: &str, body: Body) -> Figure {
    Figure {
        title: title.into(),
        description: format!("{title}, described"),
        note: "Medians of 5 iterations; bars span minimum to maximum.".into(),
        body,
    }
}

/// Doubling hash sizes, rising rates.
fn hashes() -> Figure {
    let points: Vec<(f64, f64, f64, f64)> = (0..11)
        .map(|n| {
            let y = 370e3 - 270e3 * 0.5_f64.powi(n);
            (32_768.0 * 2_f64.powi(n), y, y - 3e3, y + 2e3)
        })
        .collect();
    let xs: Vec<f64> = points.iter().map(|p| p.0).collect();
    let scale = AxisScale::suited(&xs);
    assert_eq!(scale, AxisScale::Log(Base::Two));
    let panel = panel("states_hashsize", scale, vec![curve("pf", 0, &points)]);
    figure("pps against states_hashsize", Body::Lines(vec![panel]))
}

/// Several curves over decades, in panels.
fn multiples(count: usize) -> Figure {
    let xs = [128.0, 1e3, 1e6, 2e6, 4e6, 6e6, 10e6];
    let points = |scale: f64| -> Vec<(f64, f64, f64, f64)> {
        let at = |(i, x): (usize, &f64)| {
            let y = scale * (400e3 - 20e3 * if i % 2 == 0 { 1.0 } else { 2.0 });
            (*x, y, y * 0.95, y * 1.02)
        };
        xs.iter().enumerate().map(at).collect()
    };
    let panels = (0..count).map(|index| {
        let curves = ["forwarding", "pf stateful", "ipfw & <stateless>", "nft"];
        let curves = curves.iter().enumerate().zip([1.0, 0.8, 0.6, 0.3]);
        let curves =
            curves.map(|((n, name), scale)| Curve { dash: n, ..curve(name, n, &points(scale)) });
        let mut panel = panel("flows", AxisScale::suited(&xs), curves.collect());
        panel.title = Some(format!("{} cores", index + 1));
        panel.height = if count > 1 { 170.0 } else { 260.0 };
        panel
    });
    figure("pps against flows", Body::Lines(panels.collect()))
}

fn strip() -> Figure {
    let marks = |base: f64, count: u32| {
        let value = |n: u32| base * (1.0 + f64::from(n * 7 % 5) * 0.02);
        (0..count).map(|n| Mark { value: value(n), counts: n != 3 }).collect()
    };
    let row = |name: &str, colour, base| StripRow::Series {
        name: name.into(),
        colour,
        marks: marks(base, 8),
    };
    let rows = vec![
        StripRow::Heading {
            text: "udp · 128 flows".into(),
            reference: Some(Reference { value: 1.5e6, text: "without DUT 1.50 Mpps".into() }),
        },
        row("linux", 0, 1e6),
        row("a firewall with a long name & more", 1, 6e5),
        StripRow::Heading { text: "udp · 5,000,000 flows".into(), reference: None },
        row("linux", 0, 7e5),
        StripRow::Series { name: "nothing".into(), colour: 2, marks: Vec::new() },
        row("weir", 3, 9e5),
    ];
    let strip = Strip { unit: Unit::Pps, title: "delivered".into(), rows };
    figure("Every iteration", Body::Strip(strip))
}

fn stack() -> Figure {
    let tint = |tone: &str| Tint { tone: tone.into(), hatched: tone == "residual" };
    let part = |tone: &str, share: f64| Part {
        tint: tint(tone),
        share,
        text: format!("{:.0} %", share * 100.0),
    };
    let whole = |name: &str, parts| StackRow::Whole { name: name.into(), parts, absent: "none" };
    let rows = vec![
        StackRow::Heading("udp".into()),
        whole("linux", vec![part("delivered", 0.7), part("dut0", 0.2), part("residual", 0.1)]),
        whole("nft", Vec::new()),
    ];
    let legend = ["delivered", "dut0", "residual"];
    let legend = legend.into_iter().map(|name| (name.to_owned(), tint(name))).collect();
    figure("Where the packets went", Body::Stack(Stack { rows, legend }))
}

fn figures() -> Vec<(&'static str, Figure)> {
    vec![
        ("hashes", hashes()),
        ("one", multiples(1)),
        ("two", multiples(2)),
        ("five", multiples(5)),
        ("strip", strip()),
        ("stack", stack()),
    ]
}

#[test]
fn figures_can_be_looked_at() {
    let Some(directory) = std::env::var_os("WEIR_REPORT_LOOK") else {
        return;
    };
    let directory = std::path::Path::new(&directory).join("figures");
    std::fs::create_dir_all(&directory).expect("the directory");
    for (name, figure) in figures() {
        for (format, suffix) in [(Format::Wide, ""), (Format::Narrow, "-narrow")] {
            let path = |end: &str| directory.join(format!("{name}{suffix}.{end}"));
            std::fs::write(path("svg"), figure.svg(format)).expect("the file");
            std::fs::write(path("png"), figure.png(format).expect("small")).expect("the file");
        }
        let script = figure.gnuplot();
        let data = format!("{name}.data");
        let text = script.text(&data, &format!("{name}.gnuplot.svg"));
        std::fs::write(directory.join(format!("{name}.gp")), text).expect("the file");
        std::fs::write(directory.join(data), script.data).expect("the file");
    }
}

/// Every element of an SVG is closed, and nothing in it runs or is fetched.
#[test]
fn an_svg_is_whole_and_alone() {
    for (name, figure) in figures() {
        for text in
            [figure.svg(Format::Wide), figure.inline_svg(Format::Narrow, "x", "narrow", &[])]
        {
            let opened = text.matches("<text").count() + text.matches("<svg").count();
            let closed = text.matches("</text>").count() + text.matches("</svg>").count();
            assert!(opened > 1 && opened == closed, "{name}");
            let rest = text.replacen("http://www.w3.org/2000/svg", "", 1);
            assert!(!rest.contains("http") && !rest.contains("<script"), "{name}");
            assert!(!text.contains("NaN") && !text.contains("inf\""), "{name}");
            assert!(!text.contains("<stateless>"), "{name}: a name is not escaped");
        }
    }
}

/// Whatever is drawn has a colour for readers who prefer dark.
#[test]
fn every_colour_of_a_drawing_has_a_dark_one() {
    let rules = palette::dark_rules(".wp ");
    for (name, figure) in figures() {
        let text = figure.inline_svg(Format::Wide, "x", "", &[]);
        for part in text.split("=\"#").skip(1) {
            let colour = &part[..6];
            assert!(rules.contains(&format!("=\"#{colour}\"")), "{name}: {colour}");
        }
    }
}

/// The colours of the series, as pixels of the picture.
#[test]
fn a_png_shows_every_curve() {
    let figure = multiples(1);
    let file = figure.png(Format::Wide).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let (width, _) = draw::file_size(&figure, Format::Wide);
    assert_eq!(info.width, width * 2);
    for number in 0..4 {
        let RGBColour(r, g, b) = colour(number);
        let count = pixels.chunks(3).filter(|p| *p == [r, g, b]).count();
        assert!(count > 500, "curve {number} has {count} pixels");
    }
    // Text is drawn though no font of the machine was asked.
    let RGBColour(r, g, b) = ink();
    assert!(pixels.chunks(3).filter(|p| *p == [r, g, b]).count() > 300, "no text");
}

struct RGBColour(u8, u8, u8);

fn colour(number: usize) -> RGBColour {
    let colour = pen::series(number);
    RGBColour(colour.0, colour.1, colour.2)
}

fn ink() -> RGBColour {
    let colour = pen::colour(palette::tone_named("ink"));
    RGBColour(colour.0, colour.1, colour.2)
}

#[test]
fn a_picture_without_end_is_refused() {
    let row = StripRow::Series { name: "x".into(), colour: 0, marks: Vec::new() };
    let strip = Strip { unit: Unit::Pps, title: "t".into(), rows: vec![row; 20_000] };
    let error = figure("long", Body::Strip(strip)).png(Format::Wide).unwrap_err();
    assert!(error.to_string().contains("write an SVG"), "{error}");
}

#[test]
fn ticks_are_powers_of_the_base_that_suits() {
    let doubling: Vec<f64> = (15..26).map(|n| 2_f64.powi(n)).collect();
    assert_eq!(AxisScale::suited(&doubling), AxisScale::Log(Base::Two));
    assert_eq!(AxisScale::suited(&[128.0, 1e3, 1e7]), AxisScale::Log(Base::Ten));
    assert_eq!(AxisScale::suited(&[1.0, 2.0, 4.0, 8.0]), AxisScale::Linear);
    assert_eq!(AxisScale::suited(&[0.0, 1e6]), AxisScale::Linear);
    let labels = |scale, range, width| -> Vec<String> {
        let along =
            axis::Along { scale, quantity: None, positions: &[], range, width, character: 7.0 };
        let ticks = axis::x_ticks(&along);
        ticks.labelled.into_iter().map(|(_, label)| label).collect()
    };
    let two = AxisScale::Log(Base::Two);
    let wide = labels(two, (3e4, 3.5e7), 800.0);
    assert_eq!((wide.len(), &*wide[0], &*wide[10]), (11, "32Ki", "32Mi"));
    let narrow = labels(two, (3e4, 3.5e7), 250.0);
    assert!(narrow.len() < 7 && narrow.contains(&"128Ki".to_owned()), "{narrow:?}");
    let ten = labels(AxisScale::Log(Base::Ten), (90.0, 1.2e7), 800.0);
    assert_eq!(ten, ["100", "1k", "10k", "100k", "1M", "10M"]);
    // Less than a decade has ticks as well.
    assert_eq!(labels(AxisScale::Log(Base::Ten), (15.0, 90.0), 800.0), ["20", "50"]);
}

#[test]
fn numbers_are_short_and_lose_nothing_that_counts() {
    assert_eq!((decimal(1500.0), decimal(1e7)), ("1.5k".to_owned(), "10M".to_owned()));
    assert_eq!((binary(65_536.0), binary(16_777_216.0)), ("64Ki".to_owned(), "16Mi".to_owned()));
}

/// A value beside an axis is written as tables write it, and says so where its unit is another.
#[test]
fn figures_write_values_as_tables_do() {
    let mpps = Quantity::rates(1.5e6, Unit::Pps);
    assert_eq!(mpps.name(), "Mpps");
    for value in [1_487_334.0, 519_169.0, 79_358.0, 12.0, 0.0] {
        assert_eq!(mpps.text(value), crate::number::pps(value));
    }
    let beside = [1_487_334.0, 519_169.0, 79_358.0].map(|value| mpps.beside_axis(value));
    assert_eq!(beside, ["1.487", "0.5192", "79.36 kpps"]);
    assert_eq!([mpps.tick(500_000.0, 1), mpps.tick(2e9, 0)], ["0.5", "2,000"]);
    assert_eq!(Quantity::rates(4e9, Unit::Bps).tick(4e9, 0), "4,000");
    let delays = Quantity::delays(2_500_000.0);
    assert_eq!((delays.name(), &*delays.text(26_400.0)), ("ms", "26.4 µs"));
}

/// Loads of a search along an axis, and rates that span decades up one.
#[test]
fn an_axis_of_rates_has_their_units() {
    let quantity = Quantity::rates(1.2e6, Unit::Pps);
    let labels = |scale, range| -> Vec<String> {
        let along = axis::Along {
            scale,
            quantity: Some(quantity),
            positions: &[],
            range,
            width: 600.0,
            character: 7.0,
        };
        axis::x_ticks(&along).labelled.into_iter().map(|(_, label)| label).collect()
    };
    let linear = labels(AxisScale::Linear, (0.0, 1.2e6));
    assert_eq!(linear, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2"]);
    let log = AxisScale::of_loads(&[9e3, 1.2e6]);
    assert_eq!(log, AxisScale::Log(Base::Ten));
    assert_eq!(labels(log, (9e3, 1.2e6)), ["10 kpps", "0.1 Mpps", "1 Mpps"]);
    assert_eq!(AxisScale::of_loads(&[0.2e6, 1.2e6]), AxisScale::Linear);
    let up = axis::y_log_ticks(Base::Ten, quantity, (9e3, 1.2e6), 200.0);
    let up: Vec<&str> = up.iter().map(|(_, label)| label.as_str()).collect();
    let with_fives =
        ["10 kpps", "20 kpps", "50 kpps", "0.1 Mpps", "0.2 Mpps", "0.5 Mpps", "1 Mpps"];
    assert_eq!(up, with_fives);
    let low = axis::y_log_ticks(Base::Ten, quantity, (9e3, 1.2e6), 100.0);
    assert_eq!(low.len(), 3, "there is no room: {low:?}");
    // Within less than two powers there are ticks between.
    let few = axis::y_log_ticks(Base::Ten, quantity, (15e3, 90e3), 200.0);
    let few: Vec<&str> = few.iter().map(|(_, label)| label.as_str()).collect();
    assert_eq!(few, ["20 kpps", "50 kpps"]);
}

#[test]
fn a_gnuplot_script_names_its_data_and_escapes_names() {
    let script = multiples(2).gnuplot();
    let text = script.text("a\"b.data", "c.svg");
    assert!(text.contains("plot \"a\\\"b.data\" index 0 "), "{text}");
    assert!(text.contains("index 7 ") && !text.contains("index 8 "), "{text}");
    assert_eq!(script.data.split("\n\n\n").filter(|b| !b.trim().is_empty()).count(), 8);
    assert!(script.data.contains("\n10000000 "), "{}", script.data);
}
