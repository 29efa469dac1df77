//! Temperatures and fans: hwmon of Linux, `dev.cpu` and the like of FreeBSD, `hw.sensors` of
//! OpenBSD; and what ipmitool(1) shows, where a machine has it.
//!
//! Only text in, numbers out.

use std::collections::BTreeMap;

use weir_results::dut::System;

pub(super) const LINUX: &str = "grep -s '' /sys/class/hwmon/hwmon*/name \
     /sys/class/hwmon/hwmon*/temp*_input /sys/class/hwmon/hwmon*/fan*_input; \
     command -v ipmitool >/dev/null && ipmitool sdr elist full";
pub(super) const FREEBSD: &str = "sysctl -a 2>/dev/null | \
     grep -iE '(temperature|fan[0-9._a-z]*speed|\\.fan[0-9]*)[=:]'; \
     command -v ipmitool >/dev/null && ipmitool sdr elist full";
pub(super) const OPENBSD: &str = "sysctl hw.sensors; command -v ipmitool >/dev/null && \
     ipmitool sdr elist full";

/// Degrees Celsius and turns a minute, by name.
pub(super) fn read(system: System, text: &str) -> (BTreeMap<String, f64>, BTreeMap<String, f64>) {
    let (mut temperatures, mut fans) = (BTreeMap::new(), BTreeMap::new());
    let mut chips: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, value, unit)) = ipmi(line) {
            let list = if unit == "degrees C" { &mut temperatures } else { &mut fans };
            list.insert(format!("ipmi/{name}"), value);
            continue;
        }
        match system {
            System::Linux => {
                let Some((path, value)) = line.split_once(':') else { continue };
                let mut parts = path.rsplit('/');
                let (Some(file), Some(chip)) = (parts.next(), parts.next()) else { continue };
                if file == "name" {
                    chips.insert(chip.to_owned(), value.trim().to_owned());
                    continue;
                }
                let Ok(value) = value.trim().parse::<f64>() else { continue };
                let named = chips.get(chip).map_or(chip, String::as_str);
                let name = format!("{named}({chip})/{}", file.trim_end_matches("_input"));
                if file.starts_with("temp") {
                    temperatures.insert(name, value / 1000.0);
                } else {
                    fans.insert(name, value);
                }
            }
            System::Freebsd | System::Openbsd => {
                let Some((name, value)) = line.split_once(['=', ':']) else { continue };
                let value = value.trim();
                let number = value.trim_end_matches('C').split_whitespace().next();
                let Some(number) = number.and_then(|n| n.parse::<f64>().ok()) else { continue };
                let name = name.trim_start_matches("hw.sensors.").to_owned();
                if name.contains("fan") {
                    fans.insert(name, number);
                } else if name.contains("temp") {
                    temperatures.insert(name, number);
                }
            }
            System::Generic => {}
        }
    }
    (temperatures, fans)
}

/// `CPU Temp | 01h | ok | 3.1 | 45 degrees C`, or `… | 5400 RPM`.
fn ipmi(line: &str) -> Option<(&str, f64, &str)> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [name, _, _, _, reading] = fields[..] else { return None };
    let (value, unit) = reading.split_once(' ')?;
    let known = unit == "degrees C" || unit == "RPM";
    Some((name, value.parse().ok()?, unit)).filter(|_| known)
}
