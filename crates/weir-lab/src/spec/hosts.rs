//! `[testbed] kind = "hosts"`: machines, what each does, and how it is reached.
//!
//! Nothing is looked up: neither names nor addresses, neither programs nor interfaces. That is what
//! the connectivity check before a campaign is for.

use std::time::Duration;

use toml::de::DeValue;
use weir_machine::access::RemoteSpec;
use weir_wire::mac::MacAddr;

use crate::diagnostic::{Report, quote};
use crate::model::{EndSpec, HostsSpec};
use crate::spec::fields::{self, Fields, Text, Value};
use crate::spec::suggest::nearest;

mod device;
mod driver;
mod switch;

/// No machine takes longer to boot.
pub(super) const BOOT_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// More machines than this are another lab.
const ENDS_MAX: usize = 64;

/// The fields of a machine, whatever it does.
const REMOTE: [&str; 4] = ["name", "ssh", "ssh_config", "processes"];

/// The `[testbed]` of kind `hosts`; `None` if it cannot be used, which was reported.
pub(crate) fn hosts(fields: &Fields<'_, '_>, report: &mut Report) -> Option<HostsSpec> {
    let known = [
        "kind",
        "link_rate",
        "secrets",
        "profile",
        "generator",
        "receiver",
        "dut",
        "reference",
        "switch",
    ];
    fields.refuse_unknown(&known, report);
    let link_rate_bps = link_rate(fields, report);
    let secrets = secrets(fields, report);
    let generators = list("generator", "[[testbed.generator]]", fields, report);
    if fields.get("generator").is_none() {
        report.error(&fields.span, "[testbed] has no generator: write [[testbed.generator]]");
    }
    let generators: Vec<EndSpec> =
        generators.iter().filter_map(|g| end(g, "generator", true, report)).collect();
    let receiver = table("receiver", "[testbed.receiver]", fields, report);
    let receiver = receiver.and_then(|r| end(&r, "receiver", false, report));
    let dut = table("dut", "[testbed.dut]", fields, report);
    let dut = dut.and_then(|dut| device::device(&dut, &secrets, report));
    let reference = match fields.get("reference") {
        None => None,
        Some(value) => Fields::of("[testbed.reference]", value, report).and_then(|fields| {
            fields.refuse_unknown(&REMOTE, report);
            remote(&fields, "reference", report)
        }),
    };
    let switches = list("switch", "[[testbed.switch]]", fields, report);
    let switches = switches.iter().filter_map(|s| switch::switch(s, report)).collect();
    let profile = fields.text_or_boolean("profile", report);
    if let Some(text) = profile.as_ref().filter(|p| !["true", "false"].contains(&&*p.text)) {
        report.error(&text.span, "`profile` must be true or false");
    }
    let spec = HostsSpec {
        link_rate_bps,
        secrets,
        profile: profile.is_some_and(|profile| profile.text == "true"),
        generators,
        receiver: receiver?,
        dut: dut?,
        reference,
        switches,
    };
    (!spec.generators.is_empty() && distinct(&spec, fields, report)).then_some(spec)
}

/// Refuses machines of one name that are not one machine, and switches of one name.
fn distinct(spec: &HostsSpec, fields: &Fields<'_, '_>, report: &mut Report) -> bool {
    let ends = spec.generators.iter().chain([&spec.receiver]).map(|end| &end.remote);
    let all: Vec<&RemoteSpec> = ends.chain([&spec.dut.remote]).chain(&spec.reference).collect();
    for (index, one) in all.iter().enumerate() {
        let clash = all[..index].iter().find(|other| other.name == one.name && *other != one);
        if clash.is_some() {
            let message = format!("two machines are named {}", quote(&one.name));
            report.error_help(&fields.span, message, "a name is one machine; give each its own");
            return false;
        }
    }
    let dut = &spec.dut.remote;
    let shared = all.iter().filter(|one| one.ssh == dut.ssh && one.config == dut.config).count();
    if shared > 1 {
        let message = "the DUT is the machine of another role, too";
        let help = "what the generator or the receiver costs could not be told apart from the \
                    DUT's work";
        report.error_help(&fields.span_of("dut"), message, help);
        return false;
    }
    let names: Vec<&str> = spec.switches.iter().map(|switch| switch.name.as_str()).collect();
    let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
    if let Some((_, name)) = twice {
        let message = format!("two switches are named {}", quote(name));
        report.error(&fields.span_of("switch"), message);
        return false;
    }
    true
}

/// A table that must be there.
fn table<'a, 'i>(
    name: &str,
    what: &'static str,
    fields: &Fields<'a, 'i>,
    report: &mut Report,
) -> Option<Fields<'a, 'i>> {
    match fields.get(name) {
        Some(value) => Fields::of(what, value, report),
        None => {
            report.error(&fields.span, format!("[testbed] has no {name}: write {what}"));
            None
        }
    }
}

/// The tables of a list, which may be absent.
fn list<'a, 'i>(
    name: &str,
    what: &'static str,
    fields: &Fields<'a, 'i>,
    report: &mut Report,
) -> Vec<Fields<'a, 'i>> {
    let Some(value) = fields.get(name) else {
        return Vec::new();
    };
    let DeValue::Array(values) = value.get_ref() else {
        report.error(&value.span(), format!("`{name}` is a list: write {what}"));
        return Vec::new();
    };
    if values.is_empty() || values.len() > ENDS_MAX {
        let message = format!("there are 1 to {ENDS_MAX} {what}, not {}", values.len());
        report.error(&value.span(), message);
        return Vec::new();
    }
    let values: Vec<&'a Value<'i>> = values.iter().collect();
    values.into_iter().filter_map(|value| Fields::of(what, value, report)).collect()
}

/// A machine and how it is reached; `role` names it if nothing else does.
pub(super) fn remote(
    fields: &Fields<'_, '_>,
    role: &str,
    report: &mut Report,
) -> Option<RemoteSpec> {
    let ssh = fields.required_text("ssh", report)?;
    let name = match fields.text("name", report) {
        Some(name) => {
            super::check_name(&name.text, &name.span, report);
            name.text
        }
        None => role.to_owned(),
    };
    let config = fields.text("ssh_config", report);
    let bad = |c: char| c.is_whitespace() || c.is_control();
    if ssh.text.is_empty() || ssh.text.starts_with('-') || ssh.text.contains(bad) {
        let message = format!("{} is not a valid ssh(1) destination", quote(&ssh.text));
        let help = "use [user@]host, a Host from ~/.ssh/config, ssh://[user@]host[:port], or \
                    \"local\" for this machine";
        report.error_help(&ssh.span, message, help);
        return None;
    }
    let is_local = ssh.text == "local";
    if let (Some(config), true) = (&config, is_local) {
        report.error(&config.span, "ssh is not used for this machine: leave out `ssh_config`");
        return None;
    }
    Some(RemoteSpec {
        name,
        ssh: (!is_local).then_some(ssh.text),
        config: config.map(|config| config.text),
        processes: processes(fields, report),
    })
}

/// `processes`: names of programs that are part of a machine's work.
pub(super) fn processes(fields: &Fields<'_, '_>, report: &mut Report) -> Vec<String> {
    match fields.get("processes") {
        None => Vec::new(),
        Some(_) => texts("processes", fields, report).into_iter().map(|name| name.text).collect(),
    }
}

/// A generator or the receiver.
fn end(
    fields: &Fields<'_, '_>,
    role: &str,
    is_generator: bool,
    report: &mut Report,
) -> Option<EndSpec> {
    let addresses: &[&str] = if is_generator { &["mac", "next_hop_mac"] } else { &[] };
    let known = [&REMOTE[..], &["interface"], addresses, &driver::FIELDS].concat();
    fields.refuse_unknown(&known, report);
    let remote = remote(fields, role, report);
    let interface = interface("interface", fields, report);
    let mac = mac("mac", fields, report);
    let next_hop_mac = mac_required(is_generator, fields, report);
    let driver = driver::driver(fields, is_generator, report);
    Some(EndSpec { remote: remote?, interface: interface?, mac, next_hop_mac, driver: driver? })
}

fn mac_required(
    is_generator: bool,
    fields: &Fields<'_, '_>,
    report: &mut Report,
) -> Option<String> {
    if is_generator && fields.get("next_hop_mac").is_none() {
        let message = "a generator has no `next_hop_mac`";
        let help = "the address of the DUT's interface on the generator's side: frames go there";
        report.error_help(&fields.span, message, help);
    }
    mac("next_hop_mac", fields, report)
}

/// A unicast address, in one spelling.
fn mac(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<String> {
    let text = fields.text(name, report)?;
    match text.text.parse::<MacAddr>() {
        Ok(mac) if mac.0[0] & 1 == 0 => Some(mac.to_string()),
        Ok(_) => {
            report.error(&text.span, format!("`{name}` {} is a group address", quote(&text.text)));
            None
        }
        Err(error) => {
            report.error(&text.span, format!("`{name}` {}: {error}", quote(&text.text)));
            None
        }
    }
}

/// The name of an interface, which becomes a part of command lines.
fn interface(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<String> {
    let text = fields.required_text(name, report)?;
    check_interface(&text, report).then_some(text.text)
}

pub(super) fn check_interface(text: &Text, report: &mut Report) -> bool {
    let good = !text.text.is_empty()
        && !text.text.starts_with('-')
        && text.text.chars().all(|c| c.is_ascii_alphanumeric() || "._-:@".contains(c));
    if !good {
        report.error(&text.span, format!("{} is not the name of an interface", quote(&text.text)));
    }
    good
}

/// A text that says something.
pub(super) fn filled(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<String> {
    let text = fields.text(name, report)?;
    if text.text.trim().is_empty() {
        report.error(&text.span, format!("`{name}` is empty"));
        return None;
    }
    Some(text.text)
}

/// One of several words.
pub(super) fn word<'w>(
    name: &str,
    words: &[&'w str],
    fields: &Fields<'_, '_>,
    report: &mut Report,
) -> Option<&'w str> {
    let text = fields.text(name, report)?;
    if let Some(word) = words.iter().find(|word| **word == text.text) {
        return Some(word);
    }
    let help = match nearest(&text.text, words.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are: {}", words.join(", ")),
    };
    report.error_help(&text.span, format!("`{name}` is not {}", quote(&text.text)), help);
    None
}

/// `"10G"`: bits per second.
fn link_rate(fields: &Fields<'_, '_>, report: &mut Report) -> Option<u64> {
    let text = fields.text_or_number("link_rate", report)?;
    let number = text.text.strip_suffix("bps").unwrap_or(&text.text).trim_end();
    match weir_wire::units::parse_count(number) {
        Ok(rate) if rate >= 1_000_000 => Some(rate),
        _ => {
            let message = format!("`link_rate` {} is not the rate of a link", quote(&text.text));
            report.error_help(&text.span, message, "bits per second: \"1G\", \"10G\", \"100G\"");
            None
        }
    }
}

/// Names of environment variables.
fn secrets(fields: &Fields<'_, '_>, report: &mut Report) -> Vec<String> {
    let Some(value) = fields.get("secrets") else {
        return Vec::new();
    };
    let DeValue::Array(values) = value.get_ref() else {
        let found = fields::type_name(value.get_ref());
        report.error(&value.span(), format!("`secrets` must be a list of texts, not {found}"));
        return Vec::new();
    };
    let mut names = Vec::new();
    for value in values.iter() {
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match value.get_ref().as_str() {
            Some(name) if is_name(name) => names.push(name.to_owned()),
            _ => report.error_help(
                &value.span(),
                "`secrets` are names of environment variables",
                "the value stays in the environment of `weir lab run`: it is in no file",
            ),
        }
    }
    names
}

/// The texts of a list.
pub(super) fn texts(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Vec<Text> {
    let Some(value) = fields.required(name, report) else {
        return Vec::new();
    };
    let single = [value];
    let values: Vec<&Value<'_>> = match value.get_ref() {
        DeValue::Array(values) => values.iter().collect(),
        _ => single.to_vec(),
    };
    if values.is_empty() {
        report.error(&value.span(), format!("`{name}` is empty"));
    }
    let mut texts = Vec::new();
    for value in values {
        match value.get_ref().as_str() {
            Some(text) => texts.push(Text { text: text.to_owned(), span: value.span() }),
            None => {
                let found = fields::type_name(value.get_ref());
                report.error(&value.span(), format!("`{name}` holds texts, not {found}"));
            }
        }
    }
    texts
}
