//! `[testbed.dut]`: the machine under test, and how it is started afresh.

use std::time::Duration;

use weir_machine::access::{BoxSpec, Online, Reset, Upload, UploadMethod};
use weir_results::dut::System;
use weir_wire::mac::MacAddr;

use super::{BOOT_TIMEOUT_MAX, REMOTE, check_interface, filled, remote, texts, word};
use crate::diagnostic::{Report, quote};
use crate::spec::fields::Fields;

/// How long a machine may take to boot, unless it says otherwise.
const BOOT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(300);

/// About how long it takes, for estimates.
const BOOT_TIME_DEFAULT: Duration = Duration::from_secs(60);

const FIELDS: [&str; 15] = [
    "system",
    "receives",
    "sends",
    "reboot",
    "reboot_command",
    "power",
    "power_command",
    "ipmi",
    "boot_timeout",
    "boot_time",
    "ping",
    "online",
    "upload",
    "before_upload",
    "after_upload",
];

/// Reads it.
pub(super) fn device(
    fields: &Fields<'_, '_>,
    secrets: &[String],
    report: &mut Report,
) -> Option<BoxSpec> {
    fields.refuse_unknown(&[&REMOTE[..], &FIELDS].concat(), report);
    let remote = remote(fields, "dut", report);
    fields.required("system", report);
    let system = word("system", &System::ALL.map(System::name), fields, report);
    let system = system.and_then(|name| System::ALL.into_iter().find(|s| s.name() == name));
    let receives = interfaces("receives", fields, report);
    let sends = interfaces("sends", fields, report);
    let ipmi = ipmi(fields, secrets, report);
    let reboot = reset("reboot", "ssh", ipmi.as_ref(), fields, report);
    let power = reset("power", "none", ipmi.as_ref(), fields, report);
    if ipmi.is_some() && ![&reboot, &power].iter().any(|r| matches!(r, Some(Reset::Ipmi { .. }))) {
        let help = "write reboot = \"ipmi\" or power = \"ipmi\"";
        report.error_help(&fields.span_of("ipmi"), "`ipmi` is used nowhere", help);
    }
    let boot_timeout = fields.duration("boot_timeout", report).unwrap_or(BOOT_TIMEOUT_DEFAULT);
    if boot_timeout.is_zero() || boot_timeout > BOOT_TIMEOUT_MAX {
        let message = "`boot_timeout` must be above zero and at most 1h";
        report.error(&fields.span_of("boot_timeout"), message);
    }
    let boots = reboot != Some(Reset::None);
    let default = if boots { BOOT_TIME_DEFAULT.min(boot_timeout) } else { Duration::ZERO };
    let boot_time = fields.duration("boot_time", report).unwrap_or(default);
    let method = match word("upload", &["auto", "rsync", "tar"], fields, report) {
        Some("rsync") => UploadMethod::Rsync,
        Some("tar") => UploadMethod::Tar,
        _ => UploadMethod::Auto,
    };
    Some(BoxSpec {
        remote: remote?,
        system: system?,
        receives: receives?,
        sends: sends?,
        reboot: reboot?,
        power: power?,
        boot_timeout,
        boot_time,
        online: Online {
            ping: filled("ping", fields, report),
            command: filled("online", fields, report),
        },
        upload: Upload {
            method,
            before: filled("before_upload", fields, report),
            after: filled("after_upload", fields, report),
        },
    })
}

fn interfaces(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<Vec<String>> {
    if fields.get(name).is_none() {
        return Some(Vec::new());
    }
    let texts = texts(name, fields, report);
    let good = texts.iter().all(|text| check_interface(text, report));
    // An address has one spelling.
    let name = |text: String| text.parse::<MacAddr>().map_or(text, |address| address.to_string());
    (good && !texts.is_empty()).then(|| texts.into_iter().map(|text| name(text.text)).collect())
}

/// `reboot` or `power`: how, with the command that this way needs.
fn reset(
    name: &'static str,
    default: &'static str,
    ipmi: Option<&Reset>,
    fields: &Fields<'_, '_>,
    report: &mut Report,
) -> Option<Reset> {
    let ways: &[&str] = match name {
        "reboot" => &["ssh", "command", "ipmi", "none"],
        _ => &["command", "ipmi", "none"],
    };
    let by = match fields.get(name) {
        Some(_) => word(name, ways, fields, report)?,
        None => default,
    };
    let command_name = format!("{name}_command");
    let command = filled(&command_name, fields, report);
    match (by, command) {
        ("ssh", command) => Some(Reset::Ssh { command }),
        ("command", Some(command)) => Some(Reset::Command { command }),
        ("command", None) => {
            let message = format!("{name} = \"command\" has no `{command_name}`");
            let help = "a shell line that runs on this machine";
            report.error_help(&fields.span_of(name), message, help);
            None
        }
        (_, Some(_)) => {
            let message = format!("`{command_name}` is given together with {name} = \"{by}\"");
            let help = format!("write {name} = \"command\", or leave it out");
            report.error_help(&fields.span_of(&command_name), message, help);
            None
        }
        ("ipmi", None) => {
            if ipmi.is_none() {
                let message = format!("{name} = \"ipmi\" has no `ipmi`");
                let help = "ipmi = { host = \"ADDRESS\", user = \"…\", password = \"VARIABLE\" }";
                report.error_help(&fields.span_of(name), message, help);
            }
            ipmi.cloned()
        }
        _ => Some(Reset::None),
    }
}

/// `ipmi = { host = …, user = …, password = … }`.
fn ipmi(fields: &Fields<'_, '_>, secrets: &[String], report: &mut Report) -> Option<Reset> {
    let table = Fields::of("`ipmi`", fields.get("ipmi")?, report)?;
    table.refuse_unknown(&["host", "user", "password", "interface"], report);
    let host = table.required_text("host", report)?;
    let password = table.text("password", report);
    if let Some(password) = password.as_ref().filter(|p| !secrets.contains(&p.text)) {
        let message = format!("{} is not one of the `secrets`", quote(&password.text));
        let help = "`password` names an environment variable, which `secrets` of [testbed] lists; \
                    the password itself has no place in a specification";
        report.error_help(&password.span, message, help);
        return None;
    }
    Some(Reset::Ipmi {
        host: host.text,
        user: filled("user", &table, report),
        password: password.map(|password| password.text),
        interface: filled("interface", &table, report).unwrap_or_else(|| "lanplus".to_owned()),
    })
}
