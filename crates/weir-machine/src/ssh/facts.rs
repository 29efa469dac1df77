//! Questions to a machine about itself, by its system, and how their answers are read: what it
//! runs, its kernel settings, the counters of its network stack.
//!
//! Only questions and answers as text: nothing here connects. Formats are those of Linux' proc(5),
//! sysctl(8) of FreeBSD and OpenBSD, and `netstat -s` of both.

use std::collections::BTreeMap;
use std::io::Read as _;

use weir_net::counters::{CONNTRACK_PREFIX, CounterFile, LEVELS};
use weir_results::counters::Counters;
use weir_results::dut::System;

use super::leftovers::is_left;
use super::script::quote;
use super::sections::sections;
use super::{DIRECTORY_PREFIX, bsd};

/// Parent of the working directories: there on every system, writable also where the root is not.
const PARENT: &str = "/tmp";

/// A working directory that nobody else has: it tells which manager and process it is of.
pub(super) fn directory() -> String {
    let mut random = [0_u8; 6];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut random));
    let unique: String = match read {
        Ok(()) => random.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => format!("{:x}", std::process::id()),
    };
    format!("{}{}-{unique}", directory_prefix(), std::process::id())
}

/// The beginning of the names of this manager's directories.
fn directory_prefix() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{PARENT}/{DIRECTORY_PREFIX}{name}-")
}

/// What is asked first: the system, and the directories of this manager.
pub(super) fn hello() -> String {
    format!(
        "uname -s; for dir in {}*; do [ -d \"$dir\" ] && echo \"$dir\"; done; :",
        directory_prefix()
    )
}

/// The system, and the directories whose process is gone.
pub(super) fn read_hello(text: &str) -> (System, Vec<String>) {
    let mut lines = text.lines();
    let system = match lines.next().unwrap_or_default().trim() {
        "FreeBSD" => System::Freebsd,
        "OpenBSD" => System::Openbsd,
        "Linux" => System::Linux,
        _ => System::Generic,
    };
    let prefix = directory_prefix();
    let left = lines.filter(|dir| is_left(dir, &prefix)).map(str::to_owned).collect();
    (system, left)
}

/// The path of a setting of Linux: dots separate, and a slash stands for a dot in a name.
fn linux_path(name: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if name.is_empty() || !name.chars().all(good) || name.split('.').any(str::is_empty) {
        return Err(format!("`{name}` is not the name of a kernel setting"));
    }
    let path: String = name
        .chars()
        .map(|c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect();
    Ok(format!("/proc/sys/{path}"))
}

fn no_settings(name: &str) -> String {
    format!(
        "cannot use the kernel setting {name}: it is not known how this system names its settings; \
         put it into the configuration that is uploaded"
    )
}

/// The command that prints a setting.
pub(super) fn sysctl(system: System, name: &str) -> Result<String, String> {
    match system {
        System::Linux => Ok(format!("cat {}", quote(&linux_path(name)?))),
        System::Freebsd | System::Openbsd => Ok(format!("sysctl -n {}", quote(name))),
        System::Generic => Err(no_settings(name)),
    }
}

/// The command that prints a setting and then changes it.
pub(super) fn set_sysctl(system: System, name: &str, value: &str) -> Result<String, String> {
    let read = sysctl(system, name)?;
    Ok(match system {
        System::Linux => {
            format!("{read} && printf '%s\\n' {} >{}", quote(value), quote(&linux_path(name)?))
        }
        _ => format!("{read} && sysctl {} >/dev/null", quote(&format!("{name}={value}"))),
    })
}

/// The command that prints the settings of the network, if there is one.
pub(super) fn sysctls(system: System) -> Option<&'static str> {
    match system {
        System::Linux => {
            Some("grep -rs '' /proc/sys/net/ipv4 /proc/sys/net/ipv6 /proc/sys/net/netfilter")
        }
        System::Freebsd => Some("sysctl -e net hw.ncpu machdep.hyperthreading_allowed"),
        System::Openbsd => Some("sysctl net kern.pool_debug hw.smt hw.perfpolicy"),
        System::Generic => None,
    }
}

/// Settings by name. What counts is not a setting and is left out where its name tells it.
pub(super) fn read_sysctls(system: System, text: &str) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let pair = if system == System::Linux {
            line.strip_prefix("/proc/sys/").and_then(|rest| rest.split_once(':')).map(
                |(path, value)| {
                    let swap = |c| match c {
                        '/' => '.',
                        '.' => '/',
                        other => other,
                    };
                    (path.chars().map(swap).collect::<String>(), value)
                },
            )
        } else {
            line.split_once('=').map(|(name, value)| (name.trim().to_owned(), value))
        };
        let Some((name, value)) = pair else { continue };
        if system == System::Freebsd && bsd::is_counter(&name) {
            continue;
        }
        let value = value.trim();
        settings
            .entry(name)
            .and_modify(|earlier| {
                earlier.push('\n');
                earlier.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    settings
}

/// The command that prints the stack's counters, if there is one.
pub(super) fn stack_counters(system: System) -> Option<String> {
    match system {
        System::Linux => {
            let files: Vec<&str> = CounterFile::ALL.iter().map(|file| file.name()).collect();
            Some(format!(
                "for file in {}; do [ -r /proc/net/$file ] || continue; echo \"== $file\"; \
                 cat /proc/net/$file || exit; done",
                files.join(" ")
            ))
        }
        System::Freebsd | System::Openbsd => Some(bsd::STACK.to_owned()),
        System::Generic => None,
    }
}

/// Counters by source, as [`crate::host::Host::stack_counters`] has them.
pub(super) fn read_stack_counters(system: System, text: &str) -> Result<Counters, String> {
    match system {
        System::Linux => read_linux_counters(text),
        System::Freebsd | System::Openbsd => Ok(bsd::read_stack(text)),
        System::Generic => Ok(Counters::new()),
    }
}

fn read_linux_counters(text: &str) -> Result<Counters, String> {
    let mut counters = Counters::new();
    for (name, body) in sections(text) {
        let Some(file) = CounterFile::ALL.into_iter().find(|file| file.name() == name) else {
            continue;
        };
        let mut values = file.parse(&body).map_err(|e| e.to_string())?;
        // A level may fall, and says nothing of losses.
        values.retain(|name, _| !LEVELS.contains(&name.as_str()));
        let source = if file == CounterFile::Conntrack { "conntrack" } else { "ip" };
        let plain_name = |(name, value): (String, u64)| {
            (name.strip_prefix(CONNTRACK_PREFIX).unwrap_or(&name).to_owned(), value)
        };
        counters.entry(source.to_owned()).or_default().extend(values.into_iter().map(plain_name));
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_tells_the_system_and_what_was_left() {
        let prefix = directory_prefix();
        let text = format!("FreeBSD\n{prefix}4194305-ab\n{prefix}{}-cd\n", std::process::id());
        let (system, left) = read_hello(&text);
        assert_eq!(system, System::Freebsd);
        assert_eq!(left, [format!("{prefix}4194305-ab")]);
        assert_eq!(read_hello("SunOS\n").0, System::Generic);
        assert!(directory().starts_with(&prefix) && directory() != directory());
    }

    #[test]
    fn settings_are_named_as_each_system_does() {
        assert_eq!(
            sysctl(System::Linux, "net.ipv4.conf.eth0/7.rp_filter").unwrap(),
            "cat /proc/sys/net/ipv4/conf/eth0.7/rp_filter"
        );
        assert_eq!(
            set_sysctl(System::Freebsd, "net.inet.ip.forwarding", "1").unwrap(),
            "sysctl -n net.inet.ip.forwarding && sysctl 'net.inet.ip.forwarding=1' >/dev/null"
        );
        assert!(sysctl(System::Linux, "a..b").is_err());
        assert!(sysctl(System::Linux, "a;reboot").is_err());
        assert!(sysctl(System::Generic, "a").unwrap_err().contains("not known"));
    }

    #[test]
    fn listings_of_settings_are_read() {
        let linux = "/proc/sys/net/ipv4/ip_forward:1\n\
                     /proc/sys/net/ipv4/conf/eth0.7/rp_filter:0\n\
                     /proc/sys/net/ipv4/tcp_mem:1\t2\t3\n";
        let settings = read_sysctls(System::Linux, linux);
        assert_eq!(settings["net.ipv4.ip_forward"], "1");
        assert_eq!(settings["net.ipv4.conf.eth0/7.rp_filter"], "0");
        assert_eq!(settings["net.ipv4.tcp_mem"], "1\t2\t3");
        let bsd = "net.inet.ip.forwarding=1\nnet.inet.ip.fw.dyn_count=17\nnet.isr.maxthreads=4\n";
        let settings = read_sysctls(System::Freebsd, bsd);
        assert_eq!(settings.len(), 2, "{settings:?}");
        assert_eq!(settings["net.isr.maxthreads"], "4");
    }

    #[test]
    fn a_linux_machines_counters_have_the_names_of_this_ones() {
        let text = "== snmp\nIp: Forwarding DefaultTTL InReceives InHdrErrors\nIp: 1 64 900 3\n\
                    == stat/nf_conntrack\nentries  drop\n0000000a  00000002\n0000000a  00000001\n";
        let counters = read_stack_counters(System::Linux, text).unwrap();
        assert_eq!(counters["ip"].len(), 2, "{counters:?}");
        assert_eq!(counters["ip"]["Ip.InHdrErrors"], 3);
        assert_eq!(counters["conntrack"]["drop"], 3);
        let error = read_stack_counters(System::Linux, "== snmp\nnonsense\n").unwrap_err();
        assert!(error.contains("/proc/net/snmp, line"), "{error}");
    }
}
