//! `lab.toml` as written: sections, fields and their types, every value with its place.
//!
//! This module knows what may stand in a specification and refuses the rest; it reports all that
//! it finds. It does not substitute, does not look into files, and does not multiply the matrix:
//! that is [`crate::plan`]'s.
//!
//! Sections and fields that weir names but does not build yet are refused as such.

pub mod files;

pub(crate) mod connect;
pub(crate) mod cpus;
pub(crate) mod device;
pub(crate) mod fields;
pub(crate) mod hosts;
pub(crate) mod http;
pub(crate) mod image;
pub(crate) mod iterations;
pub(crate) mod kind;
pub(crate) mod matrix;
pub(crate) mod places;
pub(crate) mod qemu;
mod rss;
pub(crate) mod search;
pub(crate) mod senders;
pub(crate) mod settings;
pub(crate) mod streams;
pub(crate) mod suggest;
pub(crate) mod template;

use device::DutSpec;
use fields::{Fields, Text, Value};
use image::ImageSpec;
use matrix::{SweepSpec, TrafficSpec};
use places::Places;
use suggest::nearest;
use toml::de::{DeTable, DeValue};
use weir_results::matrix::Campaign;

use crate::diagnostic::{Diagnostic, Report, Span, quote};
use crate::model::{SearchTable, TestbedSpec, TrialTimes};

/// The longest name, in bytes: several of them make the name of a folder.
const NAME_LENGTH_MAX: usize = 64;

/// Every section.
const SECTIONS: [&str; 8] =
    ["campaign", "trial", "testbed", "image", "dut", "traffic", "sweep", "search"];

/// A specification as written. What could not be read is absent, and was reported.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) campaign: Option<Campaign>,
    pub(crate) trial: TrialTimes,
    pub(crate) retries: u32,
    pub(crate) testbed: Option<TestbedSpec>,
    /// The same at every point of the sweeps.
    pub(crate) places: Places,
    pub(crate) images: Vec<ImageSpec>,
    pub(crate) duts: Vec<DutSpec>,
    pub(crate) traffics: Vec<TrafficSpec>,
    pub(crate) sweeps: Vec<SweepSpec>,
    pub(crate) search: SearchTable,
}

/// Reads the text of a specification; `None` when it is not even TOML.
pub(crate) fn read(report: &mut Report) -> Option<Spec> {
    let source = std::sync::Arc::clone(&report.spec);
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    if !errors.is_empty() {
        for error in errors {
            let mut message = error.message().replace('\n', ", ");
            let text = error.span().and_then(|span| source.text.get(span)).unwrap_or_default();
            if message == "duplicate key" {
                message = format!("duplicate key {}", quote(text));
            }
            let diagnostic = Diagnostic::error(&source, message);
            report.push(Diagnostic { span: error.span(), ..diagnostic });
        }
        // What a broken text seems to say is not worth a complaint of its own.
        return None;
    }
    let table = document.get_ref();
    refuse_sections(table, report);
    let campaign = section(table, "campaign", report);
    let campaign = campaign.and_then(|value| settings::campaign(value, report));
    let (trial, retries) = settings::trial(table.get("trial"), report);
    let sweeps = entries(table, "sweep", false, report, matrix::sweep);
    let testbed = section(table, "testbed", report);
    let places = testbed.map(|value| places::places(value, &sweeps, report)).unwrap_or_default();
    let testbed = places.first().cloned();
    refuse_images(table, testbed.as_ref(), report);
    Some(Spec {
        campaign,
        trial,
        retries,
        testbed,
        places,
        images: entries(table, "image", false, report, image::image),
        duts: entries(table, "dut", true, report, device::dut),
        traffics: entries(table, "traffic", true, report, matrix::traffic),
        sweeps,
        search: search::search(table.get("search"), report),
    })
}

/// Refuses sections that do not exist, or not yet.
fn refuse_sections(document: &DeTable<'_>, report: &mut Report) {
    for (key, _) in fields::in_order(document) {
        let name = key.get_ref().as_ref();
        match name {
            _ if SECTIONS.contains(&name) => {}
            _ => {
                let help = match nearest(name, SECTIONS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are: {}", SECTIONS.join(", ")),
                };
                report.error_help(&key.span(), format!("unknown section {}", quote(name)), help);
            }
        }
    }
}

/// Refuses images where there is nothing that could be given one.
fn refuse_images(document: &DeTable<'_>, testbed: Option<&TestbedSpec>, report: &mut Report) {
    let Some((key, _)) = document.get_key_value("image") else { return };
    match testbed {
        Some(TestbedSpec::Netns(_)) => report.error(&key.span(), "a netns testbed has no images"),
        Some(TestbedSpec::Qemu(_)) => {
            let message = "a qemu testbed has one image, and starts from it for every iteration";
            report.error_help(&key.span(), message, "write `image` in [testbed]");
        }
        Some(TestbedSpec::Hosts(_)) | None => {}
    }
}

/// A section that must be there.
fn section<'a, 'i>(
    document: &'a DeTable<'i>,
    name: &str,
    report: &mut Report,
) -> Option<&'a Value<'i>> {
    let value = document.get(name);
    if value.is_none() {
        let message = format!("there is no [{name}] section");
        report.push(Diagnostic::error(&report.spec, message));
    }
    value
}

/// Something with a name.
pub(crate) trait Named {
    /// The name and its place.
    fn name(&self) -> &Text;
}

/// The entries of a list of tables; their names differ.
fn entries<'a, 'i, T: Named>(
    document: &'a DeTable<'i>,
    name: &str,
    required: bool,
    report: &mut Report,
    read: impl Fn(&Fields<'a, 'i>, &mut Report) -> Option<T>,
) -> Vec<T> {
    let mut entries: Vec<T> = Vec::new();
    let what: &'static str = match name {
        "dut" => "[[dut]]",
        "image" => "[[image]]",
        "traffic" => "[[traffic]]",
        _ => "[[sweep]]",
    };
    let values = match document.get(name) {
        Some(value) => match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => {
                let message = format!("`{name}` is a list: write {what}");
                report.error(&value.span(), message);
                return entries;
            }
        },
        None => Vec::new(),
    };
    if required && values.is_empty() {
        report.push(Diagnostic::error(&report.spec, format!("there is no {what}")));
    }
    for value in values {
        let Some(fields) = Fields::of(what, value, report) else {
            continue;
        };
        let Some(entry) = read(&fields, report) else {
            continue;
        };
        let entry_name = entry.name();
        if entries.iter().any(|earlier| earlier.name().text == entry_name.text) {
            let message = format!("there are two {what} named {}", quote(&entry_name.text));
            report.error(&entry_name.span, message);
        }
        entries.push(entry);
    }
    entries
}

/// Checks a name that becomes part of a folder's.
pub(crate) fn check_name(name: &str, span: &Span, report: &mut Report) {
    let good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !good {
        report.error_help(
            span,
            format!("{} cannot be a name", quote(name)),
            "names become directories: letters, digits, `-`, `_` and `.`, beginning with a letter \
             or a digit",
        );
    } else if name.len() > NAME_LENGTH_MAX {
        let message = format!("the name is longer than {NAME_LENGTH_MAX} characters");
        report.error(span, message);
    }
}

/// Checks a name that can stand in `${name}`.
pub(crate) fn check_variable(name: &Text, report: &mut Report) {
    if !template::is_name(&name.text) || name.text.len() > NAME_LENGTH_MAX {
        report.error_help(
            &name.span,
            format!("{} cannot be a name", quote(&name.text)),
            format!(
                "it is used as `${{name}}`: letters, digits, `_` and `-`, beginning with a letter, \
                 at most {NAME_LENGTH_MAX}"
            ),
        );
    }
}
