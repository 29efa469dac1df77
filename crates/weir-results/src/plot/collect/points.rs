//! What a page tells of the points of a strip of collections: the run, its figure, its verdict.

use crate::collection::{CollectedPoint, CollectedSeries, Collection};
use crate::document::Tag;
use crate::plot::{About, RowAbout};

/// For each row of [`super::strip`]; `address` is the link to the record of a run, by the number of
/// its collection and its folder, if there is one.
pub(crate) fn strip_about(
    collections: &[Collection],
    address: impl Fn(usize, &str) -> Option<String>,
) -> Vec<RowAbout> {
    let row = |(owner, collection, series): (usize, &Collection, &CollectedSeries)| {
        let name = match collections {
            [_] => series.name.clone(),
            _ => format!("{}: {}", collection.name, series.name),
        };
        let about = |point: &CollectedPoint| {
            point.figure()?;
            Some(About { text: text(&name, series, point), to: address(owner, &point.cell) })
        };
        let points = series.points.iter().filter_map(about).collect();
        RowAbout { tag: Tag::default(), points, whole: None }
    };
    super::rows(collections).into_iter().flatten().map(row).collect()
}

fn text(name: &str, series: &CollectedSeries, point: &CollectedPoint) -> String {
    let mut lines = vec![format!("{name}, iteration {}", point.iteration)];
    let offered =
        point.offered.map(|offered| format!(" of {} offered", series.unit.written(offered)));
    lines.push(format!("{}{}", series.unit.written(point.value), offered.unwrap_or_default()));
    lines.push(match &point.verdict {
        Some(verdict) => format!("{}: {}", verdict.kind.name(), verdict.reason.replace('`', "")),
        None => "the files do not say what the figure is worth".to_owned(),
    });
    lines.join("\n")
}
