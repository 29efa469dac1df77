//! `[[dut]]`: what is under test and how it is configured, before substitution.

use std::path::Path;
use std::time::Duration;

use toml::de::DeValue;
use weir_results::dut::{Backup, System, Takeover};

use crate::diagnostic::{Report, quote};
use crate::spec::fields::{self, Fields, Text, Value};
use crate::spec::suggest::nearest;
use crate::spec::{Named, check_name, check_variable};

/// How long a `command` DUT may take to get ready, unless it says otherwise.
const READY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The same of a `weir-fw` DUT, which fetches the memory of all its states first.
const FIREWALL_READY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// No DUT may take longer.
const READY_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// The kinds that are built.
const KINDS: [&str; 6] = ["linux", "command", "weir-fw", "freebsd", "openbsd", "generic"];

/// The ruleset among the files of a `weir-fw` DUT.
pub(crate) const RULES: &str = "pf";

/// A DUT as written.
#[derive(Debug)]
pub(crate) struct DutSpec {
    pub(crate) name: Text,
    pub(crate) kind: KindSpec,
    /// Name and value of kernel settings.
    pub(crate) sysctls: Vec<(Text, Text)>,
    /// Name and value of what `${name}` stands for in this DUT.
    pub(crate) parameters: Vec<(Text, Text)>,
    /// Key and path.
    pub(crate) files: Vec<(Text, Text)>,
    pub(crate) toggle: Option<ToggleSpec>,
}

/// Two settings that take turns: lines for a shell.
#[derive(Debug)]
pub(crate) struct ToggleSpec {
    pub(crate) on: Text,
    pub(crate) off: Text,
}

/// The fields that only one kind of DUT has.
#[derive(Debug)]
pub(crate) enum KindSpec {
    Linux,
    Command {
        start: Text,
        ready: Option<Text>,
        ready_timeout: Duration,
        stop: Option<Text>,
        levels: Option<Text>,
    },
    WeirFw {
        program: Option<Text>,
        ready_timeout: Duration,
        backup: Option<Backup>,
    },
    /// Configured by files that are read when the machine boots.
    Tree {
        system: System,
        tree: Option<Text>,
        check: Option<Text>,
    },
}

impl Named for DutSpec {
    fn name(&self) -> &Text {
        &self.name
    }
}

/// One `[[dut]]`.
pub(crate) fn dut(fields: &Fields<'_, '_>, report: &mut Report) -> Option<DutSpec> {
    const COMMON: [&str; 6] = ["name", "kind", "files", "sysctls", "parameters", "toggle"];
    const COMMAND: [&str; 5] = ["start", "ready", "ready_timeout", "stop", "levels"];
    const WEIR_FW: [&str; 4] = ["program", "ready_timeout", "backup", "takeover"];
    const TREE: [&str; 6] = ["name", "kind", "sysctls", "parameters", "tree", "check"];
    let name = fields.required_text("name", report);
    if let Some(name) = &name {
        check_name(&name.text, &name.span, report);
    }
    let kind = fields.required_text("kind", report)?;
    let kind = match kind.text.as_str() {
        "linux" => {
            for field in COMMAND {
                if let Some(span) = fields.key_span(field) {
                    let message = format!("a linux DUT has no `{field}`");
                    report.error_help(&span, message, "only kind = \"command\" has it");
                }
            }
            fields.refuse_unknown(&[COMMON.as_slice(), &COMMAND].concat(), report);
            Some(KindSpec::Linux)
        }
        "command" => {
            fields.refuse_unknown(&[COMMON.as_slice(), &COMMAND].concat(), report);
            command(fields, report)
        }
        "weir-fw" => {
            fields.refuse_unknown(&[COMMON.as_slice(), &WEIR_FW].concat(), report);
            let program = shell("program", fields, report);
            let ready_timeout = ready_timeout(fields, FIREWALL_READY_TIMEOUT_DEFAULT, report);
            let backup = backup(fields, report);
            Some(KindSpec::WeirFw { program, ready_timeout, backup })
        }
        "freebsd" | "openbsd" | "generic" => {
            fields.refuse_unknown(&TREE, report);
            let tree = tree(fields, report);
            let check = shell("check", fields, report);
            let system = System::ALL.into_iter().find(|s| s.name() == kind.text);
            system.map(|system| KindSpec::Tree { system, tree, check })
        }
        _ => return refuse_kind(&kind, report),
    };
    let is_tree = matches!(kind, Some(KindSpec::Tree { .. }));
    let sysctls = sysctls(fields, is_tree, report);
    let parameters = parameters(fields, report);
    let files = files(fields, kind.as_ref(), report);
    let toggle = toggle(fields, report);
    Some(DutSpec { name: name?, kind: kind?, sysctls, parameters, files, toggle })
}

/// A second firewall, and why it takes over.
fn backup(fields: &Fields<'_, '_>, report: &mut Report) -> Option<Backup> {
    let is_there = match fields.text_or_boolean("backup", report) {
        Some(text) if !["true", "false"].contains(&text.text.as_str()) => {
            report.error(&text.span, "`backup` must be true or false");
            return None;
        }
        text => text.is_some_and(|text| text.text == "true"),
    };
    let takeover = fields.text("takeover", report).and_then(|text| {
        let found = Takeover::ALL.into_iter().find(|takeover| takeover.name() == text.text);
        if found.is_none() {
            let message = format!("{} is not a kind of takeover", quote(&text.text));
            report.error_help(&text.span, message, "there are: drain, kill");
        } else if !is_there {
            let message = "`takeover` needs a second firewall: backup = true";
            report.error(&text.span, message);
        }
        found
    });
    is_there.then_some(Backup { takeover })
}

fn refuse_kind<T>(kind: &Text, report: &mut Report) -> Option<T> {
    let message = format!("{} is not a kind of DUT", quote(&kind.text));
    let help = match nearest(&kind.text, KINDS) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are: {}", KINDS.join(", ")),
    };
    report.error_help(&kind.span, message, help);
    None
}

/// A folder whose files are laid over the root directory.
fn tree(fields: &Fields<'_, '_>, report: &mut Report) -> Option<Text> {
    let mut tree = shell("tree", fields, report)?;
    if tree.text.contains("${") {
        let message = "`${…}` in the path of a tree is not built yet";
        report.error_help(&tree.span, message, "it is substituted inside its files");
        return None;
    }
    // As a store keeps it: what ends with a slash is a folder.
    tree.text = format!("{}/", tree.text.trim_end_matches('/'));
    Some(tree)
}

fn command(fields: &Fields<'_, '_>, report: &mut Report) -> Option<KindSpec> {
    let lines = ["start", "ready", "stop", "levels"];
    let [start, ready, stop, levels] = lines.map(|name| shell(name, fields, report));
    fields.required("start", report);
    let ready_timeout = ready_timeout(fields, READY_TIMEOUT_DEFAULT, report);
    Some(KindSpec::Command { start: start?, ready, ready_timeout, stop, levels })
}

/// A text that says something.
fn shell(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<Text> {
    let text = fields.text(name, report)?;
    if text.text.trim().is_empty() {
        report.error(&text.span, format!("`{name}` is empty"));
        return None;
    }
    Some(text)
}

/// `toggle = { on = "…", off = "…" }`.
fn toggle(fields: &Fields<'_, '_>, report: &mut Report) -> Option<ToggleSpec> {
    let table = Fields::of("`toggle`", fields.get("toggle")?, report)?;
    table.refuse_unknown(&["on", "off"], report);
    table.required("on", report);
    table.required("off", report);
    let (on, off) = (shell("on", &table, report), shell("off", &table, report));
    let (on, off) = (on?, off?);
    if on.text == off.text {
        report.error(&on.span, "`on` and `off` are the same: there is nothing to compare");
    }
    Some(ToggleSpec { on, off })
}

fn ready_timeout(fields: &Fields<'_, '_>, default: Duration, report: &mut Report) -> Duration {
    let ready_timeout = fields.duration("ready_timeout", report).unwrap_or(default);
    if ready_timeout.is_zero() || ready_timeout > READY_TIMEOUT_MAX {
        let message = "`ready_timeout` must be above zero and at most 10m";
        report.error(&fields.span_of("ready_timeout"), message);
    }
    ready_timeout
}

/// `sysctls = { "net.ipv4.ip_forward" = 1 }`; dotted keys without quotes are the same thing.
fn sysctls(fields: &Fields<'_, '_>, any: bool, report: &mut Report) -> Vec<(Text, Text)> {
    let mut sysctls = Vec::new();
    if let Some(value) = fields.get("sysctls") {
        if value.get_ref().is_table() {
            flatten("", value, any, &mut sysctls, report);
        } else {
            let found = fields::type_name(value.get_ref());
            report.error(&value.span(), format!("`sysctls` must be a table, not {found}"));
        }
    }
    sysctls
}

/// Collects the leaves of nested tables under their dotted names.
fn flatten(
    prefix: &str,
    value: &Value<'_>,
    any: bool,
    into: &mut Vec<(Text, Text)>,
    report: &mut Report,
) {
    let Some(table) = value.get_ref().as_table() else {
        return;
    };
    for (key, value) in fields::in_order(table) {
        let name = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(_) => flatten(&format!("{name}."), value, any, into, report),
            DeValue::String(_) | DeValue::Integer(_) => {
                let text = fields::text_or_number(&name, value, report);
                let name = Text { text: name, span: key.span() };
                check_sysctl(&name, any, into, report);
                into.extend(text.map(|text| (name, text)));
            }
            other => {
                let found = fields::type_name(other);
                let message = format!("`{name}` must be a text or a whole number, not {found}");
                report.error(&value.span(), message);
            }
        }
    }
}

fn check_sysctl(name: &Text, any: bool, earlier: &[(Text, Text)], report: &mut Report) {
    let part = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    if !any && !name.text.starts_with("net.") {
        let message = format!("{} is not a network setting", quote(&name.text));
        let help = "a DUT has settings of its own only below `net.`; others are the whole host's";
        report.error_help(&name.span, message, help);
    } else if !name.text.split('.').all(part) {
        report.error(&name.span, format!("{} is not the name of a setting", quote(&name.text)));
    } else if earlier.iter().any(|(other, _)| other.text == name.text) {
        report.error(&name.span, format!("`{}` is set twice", name.text));
    }
}

fn parameters(fields: &Fields<'_, '_>, report: &mut Report) -> Vec<(Text, Text)> {
    let table = fields.get("parameters");
    let Some(table) = table.and_then(|value| Fields::of("`parameters`", value, report)) else {
        return Vec::new();
    };
    let mut parameters = Vec::new();
    for (key, value) in table.in_order() {
        let name = Text { text: key.get_ref().to_string(), span: key.span() };
        check_variable(&name, report);
        let text = fields::text_or_number(&name.text, value, report);
        parameters.extend(text.map(|text| (name, text)));
    }
    parameters
}

fn files(
    fields: &Fields<'_, '_>,
    kind: Option<&KindSpec>,
    report: &mut Report,
) -> Vec<(Text, Text)> {
    let table = fields.get("files");
    let is_firewall = matches!(kind, Some(KindSpec::WeirFw { .. }));
    if table.is_none() && is_firewall {
        let message = "a weir-fw DUT needs its ruleset: files = { pf = \"pf.conf\" }";
        report.error(&fields.span_of("kind"), message);
    }
    let Some(table) = table.and_then(|value| Fields::of("`files`", value, report)) else {
        return Vec::new();
    };
    if is_firewall {
        table.required(RULES, report);
    }
    if matches!(kind, Some(KindSpec::Linux)) {
        table.refuse_unknown(&["nft"], report);
    }
    let mut files: Vec<(Text, Text)> = Vec::new();
    for (key, _) in table.in_order() {
        let Some(path) = table.text(key.get_ref(), report) else {
            continue;
        };
        let file_name = Path::new(&path.text).file_name();
        if file_name.is_none() {
            report.error(&path.span, format!("{} does not name a file", quote(&path.text)));
            continue;
        }
        if path.text.contains("${") {
            let message = "`${…}` in the path of a file is not built yet";
            report.error_help(&path.span, message, "it is substituted inside the file");
            continue;
        }
        let clashes = |(_, other): &(Text, Text)| Path::new(&other.text).file_name() == file_name;
        if files.iter().any(clashes) {
            let message = format!("two files are named {}", quote(&path.text));
            let help = "they are put into one directory, under the last part of their paths";
            report.error_help(&path.span, message, help);
        }
        files.push((Text { text: key.get_ref().to_string(), span: key.span() }, path));
    }
    files
}
