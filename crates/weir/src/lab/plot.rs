//! `weir lab plot`: a figure of one store or more, as a file.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::json;
use weir_results::plot::collect::{self, Bars, FigureError, Request, Scale};
use weir_results::plot::{Body, Figure, Format, StripRow};

use super::stores::{self, write};
use crate::cli::plot::{BarsArg, PlotArgs};
use crate::exit::Outcome;
use crate::progress;

/// Runs the command.
pub(super) fn command(args: &PlotArgs) -> anyhow::Result<Outcome> {
    let format = FileFormat::of(&args.out)?;
    let Some(stores) = stores::read(&args.stores, args.series.as_deref())? else {
        return Ok(Outcome::Refused);
    };
    let mut figure = figure(args, &stores.collections)?;
    if let Some(title) = &args.title {
        figure.title.clone_from(title);
    }
    if let (Some(label), Body::Lines(panels)) = (&args.x_label, &mut figure.body) {
        panels.iter_mut().for_each(|p| p.x.title.clone_from(label));
    }
    save(&figure, &args.out, format)?;
    show(&figure, args)?;
    Ok(if stores.is_whole { Outcome::Done } else { Outcome::No })
}

fn figure(
    args: &PlotArgs,
    collections: &[weir_results::collection::Collection],
) -> anyhow::Result<Figure> {
    if args.strip {
        return Ok(collect::strip(collections)?);
    }
    let scale = match (args.log, args.linear) {
        (true, _) => Scale::Log,
        (_, true) => Scale::Linear,
        _ => Scale::Suited,
    };
    let bars = match args.bars {
        BarsArg::Range => Bars::Range,
        BarsArg::Interval => Bars::Interval,
        BarsArg::None => Bars::None,
    };
    let (x, y, panels) = (args.x.clone(), args.y.clone(), args.panels.clone());
    let request = Request { x, y, panels, scale, bars, ideal: args.ideal };
    let result = collect::curves(collections, &request);
    // Whoever asked for a part of an axis is told that there is none.
    let any = args.y.is_none()
        && args.panels.is_none()
        && args.x_label.is_none()
        && !args.log
        && !args.linear
        && !args.ideal;
    if let (true, Err(FigureError::NoAxis { works, .. })) = (any, &result) {
        progress::note(&format!(
            "no numeric dimension gives a curve of two points: every run is drawn ({works})"
        ));
        return Ok(collect::strip(collections)?);
    }
    result.context("cannot draw a figure")
}

/// What a file is, by its ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Svg,
    Png,
    Gnuplot,
}

impl FileFormat {
    fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            Some("gp" | "plt" | "gnuplot") => Ok(Self::Gnuplot),
            _ => bail!(
                "{}: a figure is a file that ends with .svg, .png or .gp (gnuplot)",
                path.display()
            ),
        }
    }
}

/// Writes a figure; a gnuplot script has its data beside it.
pub(super) fn save(figure: &Figure, path: &Path, format: FileFormat) -> anyhow::Result<()> {
    match format {
        FileFormat::Svg => write(path, figure.svg(Format::Wide).as_bytes()),
        FileFormat::Png => write(path, &figure.png(Format::Wide)?),
        FileFormat::Gnuplot => {
            let script = figure.gnuplot();
            let (data, picture) = (path.with_extension("data"), path.with_extension("svg"));
            let name =
                |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            stores::refuse_derived(&data)?;
            write(&data, script.data.as_bytes())?;
            write(path, script.text(&name(&data), &name(&picture)).as_bytes())
        }
    }
}

/// Prints what was drawn: every point, so that a figure can be checked without eyes.
fn show(figure: &Figure, args: &PlotArgs) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    if args.json.json {
        let value = json!({
            "file": args.out.display().to_string(),
            "title": figure.title,
            "note": figure.note,
            "panels": panels(figure),
        });
        return writeln!(out, "{}", serde_json::to_string_pretty(&value)?)
            .context(crate::exit::NO_OUTPUT);
    }
    let mut text = String::new();
    if let Body::Lines(panels) = &figure.body {
        for curve in panels.iter().flat_map(|p| p.curves.iter().map(move |c| (p, c))) {
            let (panel, curve) = curve;
            let heading = [panel.title.as_deref().unwrap_or(""), &curve.name];
            let heading: Vec<&str> = heading.into_iter().filter(|h| !h.is_empty()).collect();
            if !heading.is_empty() {
                text += &format!("{}\n", heading.join(", "));
            }
            for point in &curve.points {
                let position =
                    panel.x.positions.iter().find(|(at, _)| at.total_cmp(&point.x).is_eq());
                let label = position.map_or_else(|| point.x.to_string(), |(_, l)| l.clone());
                let bar = point.bar.map_or_else(String::new, |(low, high)| {
                    format!("  ({})", panel.y.range(low, high))
                });
                text += &format!("{label:>12}  {:>12}{bar}\n", panel.y.text(point.y));
            }
        }
    }
    text += &format!("{}\nfigure: {}\n", figure.note, super::absolute(&args.out)?.display());
    out.write_all(text.as_bytes()).context(crate::exit::NO_OUTPUT)?;
    if args.out.extension().is_some_and(|e| e != "svg" && e != "png") {
        progress::note(&format!("draw it with: gnuplot {}", args.out.display()));
    }
    Ok(())
}

/// The points as data, in the unit of the collections.
fn panels(figure: &Figure) -> serde_json::Value {
    match &figure.body {
        Body::Lines(panels) => panels
            .iter()
            .map(|panel| {
                let curves = panel.curves.iter().map(|curve| {
                    let points = curve.points.iter().map(|p| {
                        json!({
                            "x": p.x, "median": p.y,
                            "low": p.bar.map(|b| b.0), "high": p.bar.map(|b| b.1),
                        })
                    });
                    json!({ "name": curve.name, "points": points.collect::<Vec<_>>() })
                });
                json!({
                    "title": panel.title, "x": panel.x.title, "scale": panel.x.scale,
                    "curves": curves.collect::<Vec<_>>(),
                })
            })
            .collect(),
        Body::Strip(strip) => strip
            .rows
            .iter()
            .map(|row| match row {
                StripRow::Heading { text, .. } => json!({ "heading": text }),
                StripRow::Series { name, marks, .. } => {
                    let marks = marks.iter();
                    let marks = marks.map(|m| json!({ "value": m.value, "counts": m.counts }));
                    json!({ "name": name, "points": marks.collect::<Vec<_>>() })
                }
            })
            .collect(),
        Body::Stack(_) => serde_json::Value::Null,
    }
}
