//! Reads the files that a specification names, and checks every `${name}` in it and in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_results::dut::{Backup, System};

use crate::diagnostic::{Diagnostic, Report, Source, quote};
use crate::spec::Spec;
use crate::spec::device::{DutSpec, KindSpec, RULES};
use crate::spec::fields::Text;
use crate::spec::files::FileSource;
use crate::spec::http::HttpSpec;
use crate::spec::matrix::TrafficSpec;
use crate::spec::streams::StreamText;
use crate::spec::template::{Template, check_references};

/// Every template of a specification.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) duts: Vec<DutTemplates>,
    pub(crate) traffics: Vec<TrafficTemplates>,
    /// Files by their paths as written.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// The templates of a DUT. A file that could not be read is absent, and was reported.
#[derive(Debug)]
pub(crate) struct DutTemplates {
    pub(crate) parameters: Vec<(String, Template)>,
    pub(crate) sysctls: Vec<(String, Template)>,
    /// By path as written.
    pub(crate) files: Vec<(String, Template)>,
    /// Of a `command` DUT.
    pub(crate) shell: Option<ShellTemplates>,
    /// Of a `weir-fw` DUT.
    pub(crate) firewall: Option<FirewallTemplates>,
    /// Of a machine that is configured by files.
    pub(crate) tree: Option<TreeTemplates>,
    /// `on` and `off` of a DUT with a toggle.
    pub(crate) toggle: Option<[Template; 2]>,
}

/// What only a machine has that is configured by files.
#[derive(Debug)]
pub(crate) struct TreeTemplates {
    pub(crate) system: System,
    pub(crate) check: Option<Template>,
    /// The folder as written, and its files: path, permission bits, content.
    pub(crate) files: Option<(String, Vec<TreeFileTemplate>)>,
}

/// A file of a tree: path, permission bits, content.
pub(crate) type TreeFileTemplate = (String, u32, TreeContent);

/// What stands in a file of a tree before anything is put into it.
#[derive(Debug)]
pub(crate) enum TreeContent {
    Text(Template),
    /// No text: nothing in it refers to anything.
    Bytes(Arc<[u8]>),
}

/// What only a `weir-fw` DUT has.
#[derive(Debug)]
pub(crate) struct FirewallTemplates {
    /// Path of the ruleset, as written.
    pub(crate) rules: Option<String>,
    pub(crate) program: Option<Template>,
    pub(crate) ready_timeout: Duration,
    pub(crate) backup: Option<Backup>,
}

/// The commands of a `command` DUT.
#[derive(Debug)]
pub(crate) struct ShellTemplates {
    pub(crate) start: Template,
    pub(crate) ready: Option<Template>,
    pub(crate) ready_timeout: Duration,
    pub(crate) stop: Option<Template>,
    pub(crate) levels: Option<Template>,
}

/// The templates of a traffic.
#[derive(Debug)]
pub(crate) struct TrafficTemplates {
    pub(crate) rate: Option<Template>,
    /// Of each stream, the fields in the order of the text.
    pub(crate) streams: Vec<Vec<Template>>,
    /// Of what is sent the other way: the rate, and the same of each stream.
    pub(crate) reverse: Option<(Option<Template>, Vec<Vec<Template>>)>,
    /// How many connections are opened and stay open.
    pub(crate) count: Option<Template>,
    /// Of requests, what [`HttpSpec::texts`] has.
    pub(crate) http: [Option<Template>; 4],
    /// The sweeps that it refers to.
    pub(crate) sweeps: BTreeSet<String>,
}

/// Reads all templates and their files, and checks their references.
pub(crate) fn resolve(
    spec: &Spec,
    folder: &Path,
    files: &dyn FileSource,
    report: &mut Report,
) -> Resolved {
    let mut loaded = Loader { folder, files, sources: BTreeMap::new(), bytes: BTreeMap::new() };
    let sweeps: BTreeSet<&str> = spec.sweeps.iter().map(|s| s.name.text.as_str()).collect();
    let mut used = BTreeSet::new();
    let duts = spec.duts.iter().map(|dut| {
        let templates = dut_templates(dut, &mut loaded, report);
        check_dut(dut, &templates, &sweeps, &mut used, report);
        templates
    });
    let duts = duts.collect();
    let traffics = spec.traffics.iter().map(|traffic| {
        let mut templates = traffic_templates(traffic, report);
        let back = templates.reverse.iter();
        let back = back.flat_map(|(rate, streams)| streams.iter().flatten().chain(rate));
        let parts = templates.streams.iter().flatten().chain(&templates.rate).chain(back);
        let parts = parts.chain(&templates.count).chain(templates.http.iter().flatten());
        let found = check_references(parts, &[&sweeps], report);
        used.extend(found.iter().cloned());
        templates.sweeps = found;
        templates
    });
    let traffics = traffics.collect();
    used.extend(spec.places.sweeps.iter().cloned());
    refuse_unused(spec, &used, report);
    let texts = loaded.sources.into_iter();
    let texts = texts.filter_map(|(path, source)| Some((path, source?.text.clone().into_bytes())));
    let files =
        texts.chain(loaded.bytes.into_iter().map(|(path, content)| (path, content.to_vec())));
    let files = files.collect();
    Resolved { duts, traffics, files }
}

/// Refuses sweeps that nothing refers to. Where there are other errors, they may be the reason: a
/// misspelt name, a missing file.
fn refuse_unused(spec: &Spec, used: &BTreeSet<String>, report: &mut Report) {
    if report.has_errors() {
        return;
    }
    for sweep in &spec.sweeps {
        let name = &sweep.name.text;
        if !used.contains(name) {
            let message = format!("sweep {} is used nowhere", quote(name));
            let help = format!(
                "write `${{{name}}}` where its values belong: in a file, a parameter, a command, \
                 a setting, a traffic or the testbed"
            );
            report.error_help(&sweep.name.span, message, help);
        }
    }
}

/// Reads every file once.
struct Loader<'a> {
    folder: &'a Path,
    files: &'a dyn FileSource,
    sources: BTreeMap<String, Option<Arc<Source>>>,
    /// Files of trees that are no text.
    bytes: BTreeMap<String, Arc<[u8]>>,
}

impl Loader<'_> {
    fn read(&mut self, path: &Text, report: &mut Report) -> Option<Arc<Source>> {
        if let Some(source) = self.sources.get(&path.text) {
            return source.clone();
        }
        let location = self.files.locate(self.folder, &path.text);
        let name = location.display().to_string();
        let source = match self.files.read(&location) {
            Ok(text) => Some(Arc::new(Source { name, text })),
            Err(error) => {
                refuse_file(path, &name, &error, report);
                None
            }
        };
        self.sources.insert(path.text.clone(), source.clone());
        source
    }

    /// A file of a tree, which need not be text.
    fn content(&mut self, path: &Text, report: &mut Report) -> Option<TreeContent> {
        if let Some(bytes) = self.bytes.get(&path.text) {
            return Some(TreeContent::Bytes(Arc::clone(bytes)));
        }
        if let Some(source) = self.sources.get(&path.text) {
            return source.as_ref().map(|content| TreeContent::Text(Template::in_tree(content)));
        }
        let location = self.files.locate(self.folder, &path.text);
        let name = location.display().to_string();
        match self.files.read_bytes(&location).map(String::from_utf8) {
            Ok(Ok(text)) => {
                let source = Arc::new(Source { name, text });
                self.sources.insert(path.text.clone(), Some(Arc::clone(&source)));
                Some(TreeContent::Text(Template::in_tree(&source)))
            }
            Ok(Err(no_text)) => {
                let bytes: Arc<[u8]> = no_text.into_bytes().into();
                self.bytes.insert(path.text.clone(), Arc::clone(&bytes));
                Some(TreeContent::Bytes(bytes))
            }
            Err(error) => {
                refuse_file(path, &name, &error, report);
                self.sources.insert(path.text.clone(), None);
                None
            }
        }
    }

    /// The files of a configuration tree. In them only what refers to something is a reference:
    /// they are other programs' files, with `${…}` of their own.
    fn tree(&mut self, folder: &Text, report: &mut Report) -> Option<Vec<TreeFileTemplate>> {
        let location = self.files.locate(self.folder, &folder.text);
        let listed = self.files.manifest(&location).map_err(|error| error.to_string());
        let manifest = listed.and_then(|text| match text.is_empty() {
            true => Err("there is no file in it".to_owned()),
            false => Ok(text),
        });
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => {
                let message = format!("cannot read the tree {}: {error}", quote(&folder.text));
                let help = format!(
                    "it was looked for at {}; paths are relative to the directory of the \
                     specification",
                    location.display()
                );
                report.error_help(&folder.span, message, help);
                return None;
            }
        };
        let name = location.display().to_string();
        let listing = Source { name, text: manifest.clone() };
        self.sources.insert(folder.text.clone(), Some(Arc::new(listing)));
        let mut files = Vec::new();
        for line in manifest.lines() {
            let Some((mode, path)) = line.split_once(' ') else { continue };
            let whole = format!("{}{path}", folder.text);
            let content = self.content(&Text { text: whole, span: folder.span.clone() }, report)?;
            let mode = u32::from_str_radix(mode, 8).unwrap_or(0o644);
            files.push((path.to_owned(), mode, content));
        }
        Some(files)
    }
}

/// Says that a file that the specification names cannot be read.
fn refuse_file(path: &Text, looked_at: &str, error: &std::io::Error, report: &mut Report) {
    let message = format!("cannot read {}: {error}", quote(&path.text));
    let diagnostic = Diagnostic::error(&report.spec, message).at(path.span.clone());
    let help = format!(
        "it was looked for at {looked_at}; paths are relative to the directory of the \
         specification"
    );
    report.push(diagnostic.label("this file").help(help));
}

fn dut_templates(dut: &DutSpec, loader: &mut Loader<'_>, report: &mut Report) -> DutTemplates {
    let named = |values: &[(Text, Text)], report: &mut Report| -> Vec<(String, Template)> {
        let read =
            |(name, value): &(Text, Text)| (name.text.clone(), Template::in_spec(value, report));
        values.iter().map(read).collect()
    };
    let parameters = named(&dut.parameters, report);
    let sysctls = named(&dut.sysctls, report);
    let rules = dut.files.iter().find(|(name, _)| name.text == RULES);
    let mut files = Vec::new();
    for (_, path) in &dut.files {
        if let Some(source) = loader.read(path, report) {
            files.push((path.text.clone(), Template::in_file(&source, report)));
        }
    }
    let shell = match &dut.kind {
        KindSpec::Linux | KindSpec::WeirFw { .. } | KindSpec::Tree { .. } => None,
        KindSpec::Command { start, ready, ready_timeout, stop, levels } => Some(ShellTemplates {
            start: Template::in_spec(start, report),
            ready: ready.as_ref().map(|text| Template::in_spec(text, report)),
            ready_timeout: *ready_timeout,
            stop: stop.as_ref().map(|text| Template::in_spec(text, report)),
            levels: levels.as_ref().map(|text| Template::in_spec(text, report)),
        }),
    };
    let firewall = match &dut.kind {
        KindSpec::Linux | KindSpec::Command { .. } | KindSpec::Tree { .. } => None,
        KindSpec::WeirFw { program, ready_timeout, backup } => Some(FirewallTemplates {
            rules: rules.map(|(_, path)| path.text.clone()),
            program: program.as_ref().map(|text| Template::in_spec(text, report)),
            ready_timeout: *ready_timeout,
            backup: *backup,
        }),
    };
    let tree = match &dut.kind {
        KindSpec::Tree { system, tree, check } => Some(TreeTemplates {
            system: *system,
            check: check.as_ref().map(|text| Template::in_spec(text, report)),
            files: tree
                .as_ref()
                .and_then(|folder| Some((folder.text.clone(), loader.tree(folder, report)?))),
        }),
        _ => None,
    };
    let toggle = dut.toggle.as_ref();
    let toggle = toggle.map(|toggle| [&toggle.on, &toggle.off]);
    let toggle = toggle.map(|lines| lines.map(|line| Template::in_spec(line, report)));
    DutTemplates { parameters, sysctls, files, shell, firewall, tree, toggle }
}

fn traffic_templates(traffic: &TrafficSpec, report: &mut Report) -> TrafficTemplates {
    let TrafficSpec { name: _, rate, streams, senders, connect, http } = traffic;
    let mut read = |rate: &Option<Text>, streams: &[StreamText]| {
        let streams = streams.iter().map(|stream| {
            stream.fields.iter().map(|(_, text)| Template::in_spec(text, report)).collect()
        });
        let streams: Vec<Vec<Template>> = streams.collect();
        (rate.as_ref().map(|text| Template::in_spec(text, report)), streams)
    };
    let (rate, streams) = read(rate, streams);
    let reverse = senders.reverse.as_ref().map(|reverse| read(&reverse.rate, &reverse.streams));
    let count = connect.as_ref().and_then(|connect| connect.count.as_ref());
    let count = count.map(|text| Template::in_spec(text, report));
    let http = http.as_ref().map_or([None; 4], HttpSpec::texts);
    let http = http.map(|text| text.map(|text| Template::in_spec(text, report)));
    TrafficTemplates { rate, streams, reverse, count, http, sweeps: BTreeSet::new() }
}

/// Checks a DUT's references, and that its parameters are used and are not sweeps as well.
fn check_dut(
    dut: &DutSpec,
    templates: &DutTemplates,
    sweeps: &BTreeSet<&str>,
    used: &mut BTreeSet<String>,
    report: &mut Report,
) {
    let parameters: BTreeSet<&str> =
        dut.parameters.iter().map(|(name, _)| name.text.as_str()).collect();
    let values = templates.parameters.iter().map(|(_, template)| template);
    used.extend(check_references(values, &[sweeps], report));
    let named = templates.sysctls.iter().chain(&templates.files).map(|(_, template)| template);
    let shell = templates.shell.iter();
    let shell = shell.flat_map(|s| {
        [Some(&s.start), s.ready.as_ref(), s.stop.as_ref(), s.levels.as_ref()].into_iter().flatten()
    });
    let program = templates.firewall.iter().filter_map(|firewall| firewall.program.as_ref());
    let check = templates.tree.iter().filter_map(|tree| tree.check.as_ref());
    let toggle = templates.toggle.iter().flatten();
    let texts = named.chain(shell).chain(program).chain(check).chain(toggle);
    let mut found = check_references(texts, &[&parameters, sweeps], report);
    let laid = templates.tree.iter().filter_map(|tree| tree.files.as_ref());
    for (_, _, content) in laid.flat_map(|(_, files)| files) {
        let TreeContent::Text(template) = content else { continue };
        let names = template.references().map(|(name, _)| name);
        let known = names.filter(|name| parameters.contains(name) || sweeps.contains(name));
        found.extend(known.map(str::to_owned));
    }
    for (name, _) in &dut.parameters {
        if sweeps.contains(name.text.as_str()) {
            let message = format!("{} is a sweep, too", quote(&name.text));
            report.error(&name.span, message);
        } else if !report.has_errors() && !found.contains(&name.text) {
            let message = format!("parameter {} is used nowhere", quote(&name.text));
            let help = format!("write `${{{}}}` in this DUT's files or commands", name.text);
            report.error_help(&name.span, message, help);
        }
    }
    used.extend(found);
}
