//! `[[testbed.switch]]`: whose counters are held against those of the others.

use weir_machine::switch::{SwitchPlace, SwitchRead, SwitchSpec};

use super::driver::check_pattern;
use super::filled;
use crate::diagnostic::{Report, quote};
use crate::spec::check_name;
use crate::spec::fields::Fields;

/// Reads it.
pub(super) fn switch(fields: &Fields<'_, '_>, report: &mut Report) -> Option<SwitchSpec> {
    let places = SwitchPlace::ALL.map(SwitchPlace::name);
    fields.refuse_unknown(&[&["name", "snmp", "command"][..], &places].concat(), report);
    let name = fields.required_text("name", report)?;
    check_name(&name.text, &name.span, report);
    let (snmp, command) = (filled("snmp", fields, report), filled("command", fields, report));
    let read = match (snmp, command) {
        (Some(host), None) => SwitchRead::Snmp { host },
        (None, Some(command)) => SwitchRead::Command { command },
        _ => {
            let message = "a switch has either `snmp` or `command`";
            let help = "snmp = \"ADDRESS\" is read by snmpget, command = \"…\" prints counters";
            report.error_help(&fields.span, message, help);
            return None;
        }
    };
    let mut counters = Vec::new();
    for place in SwitchPlace::ALL {
        let Some(text) = fields.text(place.name(), report) else {
            continue;
        };
        let good = match read {
            SwitchRead::Command { .. } => check_pattern(place.name(), &text, report),
            SwitchRead::Snmp { .. } => {
                let part = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
                let good = !text.text.starts_with('-')
                    && !text.text.is_empty()
                    && text.text.chars().all(part);
                if !good {
                    let shown = quote(&text.text);
                    let message = format!("{shown} is not an SNMP object name");
                    let help = "for example IF-MIB::ifHCInUcastPkts.5 or .1.3.6.1.2.1.31.1.1.1.7.5";
                    report.error_help(&text.span, message, help);
                }
                good
            }
        };
        if good {
            counters.push((place, text.text));
        }
    }
    if counters.is_empty() {
        let message = format!("switch {} has no counters", quote(&name.text));
        let help = format!("give at least one of: {}", places.join(", "));
        report.error_help(&fields.span, message, help);
        return None;
    }
    Some(SwitchSpec { name: name.text, read, counters })
}
