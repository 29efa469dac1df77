//! `[testbed]` at every point of the sweeps that it refers to: its CPUs and queues may be an axis.
//!
//! Everything else of a testbed is what all trials of a campaign have in common.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Report, quote};
use crate::model::TestbedSpec;
use crate::spec::fields::{Text, Value, in_order};
use crate::spec::matrix::{SweepPoint, SweepSpec};
use crate::spec::settings;
use crate::spec::template::{Template, check_references};

/// Fields that may be different from trial to trial, of the kinds that are made anew for each.
const NETNS_FIELDS: [&str; 7] =
    ["generator_cpus", "dut_cpus", "sink_cpus", "napi_cpus", "rps_cpus", "queues", "mtu"];
const QEMU_FIELDS: [&str; 4] = ["generator_cpus", "dut_cpus", "cpus", "queues"];

/// The testbeds of a campaign: one, or one for each point of the sweeps that it refers to.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The sweeps that it refers to.
    pub(crate) sweeps: BTreeSet<String>,
    list: Vec<(Vec<(String, String)>, TestbedSpec)>,
}

impl Places {
    /// The testbed at a point of all sweeps; `None` where none could be read.
    pub(crate) fn at(&self, point: &[(&str, &SweepPoint)]) -> Option<&TestbedSpec> {
        let is_here = |values: &[(String, String)]| {
            values.iter().all(|(sweep, text)| {
                point.iter().any(|(name, value)| name == sweep && value.text == *text)
            })
        };
        self.list.iter().find(|(values, _)| is_here(values)).map(|(_, testbed)| testbed)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &TestbedSpec> {
        self.list.iter().map(|(_, testbed)| testbed)
    }

    /// Any of them: they are all of one kind.
    pub(crate) fn first(&self) -> Option<&TestbedSpec> {
        self.list.first().map(|(_, testbed)| testbed)
    }
}

/// Reads the section at every point of the sweeps that it refers to.
pub(crate) fn places(value: &Value<'_>, sweeps: &[SweepSpec], report: &mut Report) -> Places {
    let Some(table) = value.get_ref().as_table() else {
        // What it is instead is reported there.
        settings::testbed(value, report);
        return Places::default();
    };
    let templates = templates(table, report);
    let names: BTreeSet<&str> = sweeps.iter().map(|sweep| sweep.name.text.as_str()).collect();
    let all = templates.iter().map(|(_, template)| template);
    let used = check_references(all, &[&names], report);
    if templates.iter().any(|(_, template)| !template.is_complete(|name| names.contains(name))) {
        return Places::default();
    }
    let mut points = vec![Vec::new()];
    for sweep in sweeps.iter().filter(|sweep| used.contains(&sweep.name.text)) {
        let extend = |point: Vec<(String, String)>| {
            sweep.values.iter().map(move |value| {
                [point.as_slice(), &[(sweep.name.text.clone(), value.text.clone())]].concat()
            })
        };
        points = points.into_iter().flat_map(extend).collect();
    }
    let mut list = Vec::new();
    for point in points {
        let value_of = |name: &str| {
            point.iter().find(|(sweep, _)| sweep == name).map(|(_, text)| text.as_str())
        };
        let mut table = table.clone();
        for (field, template) in &templates {
            if let Some(value) = table.get_mut(field.as_str()) {
                let text = template.render(value_of);
                *value = Spanned::new(value.span(), DeValue::String(text.into()));
            }
        }
        let substituted = Spanned::new(value.span(), DeValue::Table(table));
        list.extend(settings::testbed(&substituted, report).map(|testbed| (point, testbed)));
    }
    Places { sweeps: used, list }
}

/// The fields that refer to sweeps. One that must not is reported.
fn templates(table: &DeTable<'_>, report: &mut Report) -> Vec<(String, Template)> {
    let kind = table.get("kind").and_then(|kind| kind.get_ref().as_str()).unwrap_or_default();
    let fields = match kind {
        "netns" => &NETNS_FIELDS[..],
        "qemu" => &QEMU_FIELDS[..],
        // On machines of their own, `${name}` is the testbed's: `${count}` of a generator's line.
        _ => return Vec::new(),
    };
    let mut templates = Vec::new();
    for (key, value) in in_order(table) {
        let Some(text) = value.get_ref().as_str().filter(|text| text.contains("${")) else {
            continue;
        };
        let name = key.get_ref().as_ref();
        if fields.contains(&name) {
            let text = Text { text: text.to_owned(), span: value.span() };
            templates.push((name.to_owned(), Template::in_spec(&text, report)));
        } else if kind == "netns" {
            let message = format!("{} cannot be a sweep's in [testbed]", quote(name));
            let help = format!("all trials share it; those that need not: {}", fields.join(", "));
            report.error_help(&value.span(), message, help);
        }
    }
    templates
}
