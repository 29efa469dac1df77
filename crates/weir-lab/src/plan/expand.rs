//! Multiplies the matrix: image × DUT × sweep values × traffic.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_results::content::Content;
use weir_results::dut::{Dut, DutFile, DutKind, Tree, TreeFile};
use weir_results::matrix::Series;
use weir_results::toggle::Toggle;
use weir_results::traffic::Traffic;

use crate::diagnostic::{Diagnostic, Report, quote};
use crate::identity::{self, Setting, TrafficIdentity};
use crate::model::{Image, TestbedSpec};
use crate::plan::connect::ConnectValues;
use crate::plan::http::HttpValues;
use crate::plan::resolve::{
    DutTemplates, Resolved, TrafficTemplates, TreeContent, TreeFileTemplate,
};
use crate::plan::traffic::{self, Checked, StreamValues, Values};
use crate::plan::value::Value;
use crate::spec::Spec;
use crate::spec::fields::Text;
use crate::spec::matrix::{SweepPoint, TrafficSpec};
use crate::spec::streams::StreamText;
use crate::spec::template::Template;

/// The most series of a campaign.
const SERIES_MAX: usize = 10_000;

/// The most text in all configurations together, in bytes: a plan is kept in memory.
const TEXT_BYTES_MAX: usize = 512 << 20;

/// The longest name of a series, in bytes: a folder's name ends at 255, and a store appends to it
/// while it writes.
const NAME_LENGTH_MAX: usize = 200;

/// One value for every sweep, in their order.
type Point<'s> = Vec<(&'s str, &'s SweepPoint)>;

/// Every series, in the order of the specification: images, DUTs, then sweep values, the last sweep
/// fastest, then traffics. Empty if anything was reported.
pub(crate) fn expand(spec: &Spec, resolved: &Resolved, report: &mut Report) -> Vec<Series> {
    let sizes = spec.sweeps.iter().map(|sweep| sweep.values.len());
    let sizes = sizes.chain([spec.images.len().max(1), spec.duts.len(), spec.traffics.len()]);
    let count = sizes.into_iter().try_fold(1_usize, usize::checked_mul);
    if count.is_none_or(|count| count > SERIES_MAX) {
        let shown = count.map_or("too many".into(), |count| count.to_string());
        let message = format!("the matrix has {shown} series; {SERIES_MAX} are the limit");
        report.push(Diagnostic::error(&report.spec, message));
        return Vec::new();
    }
    let points = points(spec);
    let traffics = check_traffics(spec, resolved, &points, report);
    if report.has_errors() {
        return Vec::new();
    }
    let mut series = Vec::new();
    let mut text_bytes = 0_usize;
    // Without images there is one block, of what is installed.
    let images: Vec<Option<&Image>> = match spec.images.is_empty() {
        true => vec![None],
        false => spec.images.iter().map(|image| Some(&image.image)).collect(),
    };
    let duts = spec.duts.iter().zip(&resolved.duts);
    for (image, (dut, templates)) in
        images.into_iter().flat_map(|image| duts.clone().map(move |dut| (image, dut)))
    {
        for (point_index, point) in points.iter().enumerate() {
            let Some(testbed) = spec.places.at(point) else { continue };
            let setting = Setting { testbed, trial: &spec.trial };
            let (kind, toggle) = dut_kind(templates, point);
            let dut = Dut { name: dut.name.text.clone(), kind, toggle };
            text_bytes = text_bytes
                .saturating_add(configuration_bytes(&dut.kind).saturating_mul(traffics.len()));
            if text_bytes > TEXT_BYTES_MAX {
                let limit = TEXT_BYTES_MAX >> 20;
                let message = format!("all configurations together are larger than {limit} MiB");
                report.push(Diagnostic::error(&report.spec, message));
                return Vec::new();
            }
            for (traffic, checked) in spec.traffics.iter().zip(&traffics) {
                let (templates, checked) = (checked.0, &checked.1[point_index]);
                let of = (image, &dut, point, traffic);
                let is_swept = |name: &str| {
                    templates.sweeps.contains(name) || spec.places.sweeps.contains(name)
                };
                series.push(one_series(setting, of, &is_swept, checked));
            }
        }
    }
    check_names(spec, &series, points.len(), report);
    series
}

/// The testbed of each series by its id, where it refers to sweeps.
pub(crate) fn places(spec: &Spec, series: &[Series]) -> BTreeMap<String, TestbedSpec> {
    if spec.places.sweeps.is_empty() {
        return BTreeMap::new();
    }
    let (points, traffic_count) = (points(spec), spec.traffics.len().max(1));
    let of = |(index, series): (usize, &Series)| {
        let point = &points[index / traffic_count % points.len()];
        Some((series.id.clone(), spec.places.at(point)?.clone()))
    };
    series.iter().enumerate().filter_map(of).collect()
}

/// The cartesian product of the sweeps' values; one empty point without sweeps.
fn points<'s>(spec: &'s Spec) -> Vec<Point<'s>> {
    let mut points = vec![Point::new()];
    for sweep in &spec.sweeps {
        let name = sweep.name.text.as_str();
        let extend = |point: Point<'s>| {
            sweep.values.iter().map(move |value| [point.as_slice(), &[(name, value)]].concat())
        };
        points = points.into_iter().flat_map(extend).collect();
    }
    points
}

fn substitute(template: &Template, point: &Point<'_>) -> String {
    template.render(|name| {
        point.iter().find(|(sweep, _)| *sweep == name).map(|(_, value)| value.text.as_str())
    })
}

/// Every traffic at every point, checked. Where something is wrong, it is reported, and the lists
/// are of no use.
fn check_traffics<'r>(
    spec: &Spec,
    resolved: &'r Resolved,
    points: &[Point<'_>],
    report: &mut Report,
) -> Vec<(&'r TrafficTemplates, Vec<Checked>)> {
    let mut traffics = Vec::new();
    for (traffic, templates) in spec.traffics.iter().zip(&resolved.traffics) {
        let checked = points.iter().filter_map(|point| {
            let values = values_at(traffic, templates, point)?;
            traffic::check(&values, spec.places.at(point), report)
        });
        traffics.push((templates, checked.collect()));
    }
    traffics
}

/// The values of a traffic at a point; `None` where one of its templates was refused, or refers to
/// what is not there.
fn values_at<'s>(
    spec: &'s TrafficSpec,
    templates: &TrafficTemplates,
    point: &Point<'_>,
) -> Option<Values<'s>> {
    let is_of_connections = spec.connect.is_some() || spec.http.is_some();
    let known = |name: &str| point.iter().any(|(sweep, _)| *sweep == name);
    let value = |written: &'s Text, template: &Template| {
        let complete = template.is_complete(known);
        complete.then(|| Value { text: substitute(template, point), written })
    };
    let optional = |written: Option<&'s Text>, template: Option<&Template>| {
        // What was refused is as good as nothing; the error stands.
        written.zip(template).and_then(|(written, template)| value(written, template))
    };
    let stream = |(written, templates): (&'s StreamText, &Vec<Template>)| {
        let fields = written.fields.iter().zip(templates);
        let fields = fields.map(|((name, text), template)| Some((*name, value(text, template)?)));
        let fields = fields.collect::<Option<_>>()?;
        Some(StreamValues { span: &written.span, fields, is_of_connections })
    };
    let streams = spec.streams.iter().zip(&templates.streams).map(stream);
    let streams = streams.collect::<Option<_>>()?;
    let there = optional(spec.rate.as_ref(), templates.rate.as_ref());
    let reverse = match spec.senders.reverse.as_ref().zip(templates.reverse.as_ref()) {
        None => None,
        Some((written, (template, templates))) => {
            let streams = written.streams.iter().zip(templates).map(stream);
            let streams = streams.collect::<Option<_>>()?;
            Some((optional(written.rate.as_ref(), template.as_ref()), streams))
        }
    };
    let connect = spec.connect.as_ref().map(|spec| {
        let count = optional(spec.count.as_ref(), templates.count.as_ref());
        ConnectValues { spec, count }
    });
    let http = spec.http.as_ref().map(|spec| {
        let texts = spec.texts().into_iter().zip(&templates.http);
        let mut values = texts.map(|(text, template)| optional(text, template.as_ref()));
        let mut next = || values.next().flatten();
        HttpValues { spec, connections: next(), keepalive: next(), reply: next(), proxy: next() }
    });
    Some(Values { rate: there, streams, reverse, senders: &spec.senders, connect, http })
}

/// A DUT's configuration at a point, and its toggle, of templates that are complete.
fn dut_kind(templates: &DutTemplates, point: &Point<'_>) -> (DutKind, Option<Toggle>) {
    let parameters: BTreeMap<&str, String> = templates
        .parameters
        .iter()
        .map(|(name, template)| (name.as_str(), substitute(template, point)))
        .collect();
    let render = |template: &Template| {
        template.render(|name| {
            let swept = point.iter().find(|(sweep, _)| *sweep == name);
            let swept = swept.map(|(_, value)| value.text.as_str());
            swept.or_else(|| parameters.get(name).map(String::as_str))
        })
    };
    let toggle = templates.toggle.as_ref();
    let toggle = toggle.map(|[on, off]| Toggle { on: render(on), off: render(off) });
    (kind(templates, &render), toggle)
}

/// The same without the toggle; `render` substitutes.
fn kind(templates: &DutTemplates, render: &dyn Fn(&Template) -> String) -> DutKind {
    let sysctls = templates.sysctls.iter();
    let sysctls = sysctls.map(|(name, template)| (name.clone(), render(template))).collect();
    let files = templates.files.iter();
    let mut files =
        files.map(|(path, template)| DutFile { path: path.clone(), text: render(template) });
    if let Some(firewall) = &templates.firewall {
        let mut files: Vec<DutFile> = files.collect();
        // A ruleset that could not be read was reported, and the plan is refused.
        let index = files.iter().position(|file| Some(&file.path) == firewall.rules.as_ref());
        let none = DutFile { path: String::new(), text: String::new() };
        return DutKind::WeirFw {
            sysctls,
            rules: index.map_or(none, |index| files.remove(index)),
            files,
            program: firewall.program.as_ref().map(render),
            ready_timeout: firewall.ready_timeout,
            backup: firewall.backup,
        };
    }
    if let Some(tree) = &templates.tree {
        let file = |(path, mode, content): &TreeFileTemplate| TreeFile {
            path: path.clone(),
            mode: *mode,
            content: match content {
                TreeContent::Text(template) => Content::new(render(template).into_bytes()),
                TreeContent::Bytes(bytes) => Content::new(Arc::clone(bytes)),
            },
        };
        return DutKind::Tree {
            system: tree.system,
            sysctls,
            tree: tree.files.as_ref().map(|(path, files)| Tree {
                path: path.clone(),
                files: files.iter().map(file).collect(),
            }),
            check: tree.check.as_ref().map(render),
        };
    }
    match &templates.shell {
        Some(shell) => DutKind::Command {
            sysctls,
            files: files.collect(),
            start: render(&shell.start),
            ready: shell.ready.as_ref().map(render),
            ready_timeout: shell.ready_timeout,
            stop: shell.stop.as_ref().map(render),
            levels: shell.levels.as_ref().map(render),
        },
        None => DutKind::Linux { sysctls, nft: files.next() },
    }
}

/// How much text a configuration holds.
fn configuration_bytes(kind: &DutKind) -> usize {
    match kind {
        DutKind::Linux { nft, .. } => nft.as_ref().map_or(0, |file| file.text.len()),
        DutKind::Command { files, start, .. } => {
            start.len() + files.iter().map(|file| file.text.len()).sum::<usize>()
        }
        DutKind::WeirFw { rules, files, .. } => {
            rules.text.len() + files.iter().map(|file| file.text.len()).sum::<usize>()
        }
        DutKind::Tree { tree, .. } => {
            let files = tree.iter().flat_map(|tree| &tree.files);
            files.map(|file| file.content.bytes().map_or(0, <[u8]>::len)).sum()
        }
    }
}

fn one_series(
    setting: Setting<'_>,
    (image, dut, point, spec): (Option<&Image>, &Dut, &Point<'_>, &TrafficSpec),
    is_swept: &dyn Fn(&str) -> bool,
    checked: &Checked,
) -> Series {
    let (streams, senders) = (&checked.streams, &checked.senders);
    let kind = checked.kind;
    let determinants = TrafficIdentity { streams, rate: checked.rate, senders, kind };
    let mut traffic_name = spec.name.text.clone();
    let mut name = image.map_or_else(String::new, |image| format!("{}.", image.name));
    name.push_str(&dut.name);
    for (sweep, value) in point {
        let part = format!(".{sweep}={}", value.value.label);
        name.push_str(&part);
        if is_swept(sweep) {
            traffic_name.push_str(&part);
        }
    }
    name.push('.');
    name.push_str(&spec.name.text);
    let values: Vec<String> = point.iter().map(|(_, value)| value.text.clone()).collect();
    Series {
        name,
        id: identity::series_id(setting, image, dut, &values, determinants),
        image: image.map(|image| image.name.clone()),
        dut: dut.clone(),
        sweep: point.iter().map(|(sweep, v)| ((*sweep).to_owned(), v.value.clone())).collect(),
        traffic: Traffic {
            name: traffic_name,
            id: identity::traffic_id(setting, determinants),
            streams: checked.streams.clone(),
            rate: checked.rate,
            senders: checked.senders.clone(),
            kind,
        },
    }
}

/// Refuses series that would share a folder (names may contain dots), or have too long a name.
/// `series` holds the traffics of a point side by side, and the points of a DUT.
fn check_names(spec: &Spec, series: &[Series], point_count: usize, report: &mut Report) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let dut_of = |index: usize| {
        &spec.duts[index / (point_count * spec.traffics.len()) % spec.duts.len()].name
    };
    for (index, one) in series.iter().enumerate() {
        let traffic = &spec.traffics[index % spec.traffics.len()].name;
        if one.name.len() > NAME_LENGTH_MAX {
            let message = format!(
                "the series {} would have a name of more than {NAME_LENGTH_MAX} characters",
                quote(&one.name)
            );
            report.error_help(&traffic.span, message, "shorten the names or the sweeps' values");
        }
        if let Some(&earlier) = seen.get(one.name.as_str()) {
            let (this, other) = (&dut_of(index).text, &dut_of(earlier).text);
            let message = format!(
                "two series would be named {}: one of DUT `{other}`, one of DUT `{this}`",
                quote(&one.name)
            );
            report.error_help(&traffic.span, message, "rename one of them");
        }
        seen.insert(&one.name, index);
    }
}
