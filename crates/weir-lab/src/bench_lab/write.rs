//! The text of a lab.toml, from sets and variables.

use std::fmt::Write as _;

use weir_gen::units::format_duration;
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::range::AddrRange;
use weir_wire::stream::size_bytes_min;

use super::evaluate::Variables;
use super::line::{self, escaped};
use super::sets::{ConfigurationSet, ImageSet, TrafficSet};
use super::{
    BenchLabError, DURATION_DEFAULT, ONLY_DUT, Request, Specification, WARMUP_DEFAULT, absolute,
    destination,
};

/// What tells, on the DUT, that an upgrade has succeeded: its exit status alone does not.
const UPGRADED: &str = "grep -q 'Upgrade complete' /var/log/messages";

/// `REBOOT_TIMEOUT` counts rounds of so many seconds.
const REBOOT_ROUND_S: u64 = 5;

/// Its rounds, where it is not set.
const REBOOT_ROUNDS_DEFAULT: u64 = 60;

/// How long what is under way may take to arrive, when the senders have ended.
const DRAIN: &str = "2s";

/// Senders: the number behind their machine's variable, and the variables of their lines.
const SENDERS: [(&str, &str, &str, &str); 4] = [
    ("sender", "SENDER_ADMIN", "SENDER_START_CMD", "SENDER_STOP_CMD"),
    ("sender", "SENDER_ADMIN", "SENDER_START_CMD_2", "SENDER_STOP_CMD"),
    ("sender-2", "SENDER_ADMIN_2", "SENDER_2_START_CMD", "SENDER_2_STOP_CMD"),
    ("sender-2", "SENDER_ADMIN_2", "SENDER_2_START_CMD_2", "SENDER_2_STOP_CMD"),
];

/// What a testbed has once, and no set may change.
const OF_THE_TESTBED: [&str; 12] = [
    "SENDER_ADMIN",
    "SENDER_ADMIN_2",
    "RECEIVER_ADMIN",
    "DUT_ADMIN",
    "REF_ADMIN",
    "SENDER_LAB_IF",
    "RECEIVER_LAB_IF",
    "DUT_LAB_IF_MAC_SENDER_SIDE",
    RECEIVER_SIDE,
    "REBOOT_TIMEOUT",
    "IS_DUT_ONLINE_TARGET",
    "IS_DUT_ONLINE_CMD",
];

/// What is there for the configuration's own lines, and means nothing by itself.
const FOR_LINES: [&str; 6] = [
    "AF",
    "SENDER_LAB_IP",
    "RECEIVER_LAB_IP",
    "SENDER_MAC",
    "SENDER_LAB_IF_MAC",
    "RECEIVER_LAB_IF_MAC",
];

/// The address of the DUT's interface that the traffic leaves on.
const RECEIVER_SIDE: &str = "DUT_LAB_IF_MAC_RECEIVER_SIDE";

/// What the variable is for.
pub(super) const DUT_ADMIN_IS: &str = "the device under test";

/// Writes the specification.
pub(super) fn specification(
    request: &Request,
    traffics: &[TrafficSet],
    configurations: &[ConfigurationSet],
    images: &[ImageSet],
) -> Result<Specification, BenchLabError> {
    let Some(first) = traffics.first() else {
        return Ok(Specification { text: String::new(), notes: Vec::new(), mail: None });
    };
    same_testbed(traffics)?;
    let mut writer = Writer { request, text: String::new(), notes: Vec::new() };
    writer.head(&first.values)?;
    writer.ends(traffics)?;
    writer.device(&first.values)?;
    for image in images {
        writer.image(image)?;
    }
    writer.duts(configurations)?;
    for traffic in traffics {
        writer.traffic(traffic)?;
        writer.without_effect(&traffic.values);
    }
    let mail = first.values.get("MAIL").map(str::to_owned);
    Ok(Specification { text: writer.text, notes: writer.notes, mail })
}

fn same_testbed(traffics: &[TrafficSet]) -> Result<(), BenchLabError> {
    for (index, set) in traffics.iter().enumerate().skip(1) {
        for name in OF_THE_TESTBED {
            if set.values.get(name) != traffics[0].values.get(name) {
                let (path, other) = (traffics[index].values.path.clone(), &traffics[0].name);
                return Err(BenchLabError::Differs { path, name, other: other.clone() });
            }
        }
    }
    Ok(())
}

struct Writer<'a> {
    request: &'a Request,
    text: String,
    notes: Vec<String>,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn pair(&mut self, key: &str, value: &str) {
        let value = toml::Value::String(value.to_owned());
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{key} = {value}");
    }

    fn head(&mut self, values: &Variables) -> Result<(), BenchLabError> {
        let config = absolute(&self.request.config)?;
        let stem = config.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name: String =
            stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let name = name.trim_matches('-').to_owned();
        self.line(&format!("# From {}", config.display()));
        self.line("#");
        self.line(
            "# bench-lab.sh drops the first 15 and the last 10 lines of pkt-gen, one a second: the",
        );
        self.line("# warm-up and the end. Here a trial has a length, and the sender is stopped.");
        self.line("");
        self.line("[campaign]");
        self.pair("name", if name.is_empty() { "bench" } else { &name });
        self.line(&format!("iterations = {}", self.request.iterations));
        self.line("");
        self.line("[trial]");
        let warmup = self.request.warmup.unwrap_or(WARMUP_DEFAULT);
        let duration = self.request.duration.unwrap_or(DURATION_DEFAULT);
        self.pair("warmup", &format_duration(warmup));
        self.pair("duration", &format_duration(duration));
        self.pair("drain", DRAIN);
        self.pair("sample", "1s");
        self.commands(values)?;
        self.line("");
        self.line("[testbed]");
        self.pair("kind", "hosts");
        if self.request.profile {
            self.line("profile = true");
        }
        Ok(())
    }

    /// What bench-lab.sh runs on the DUT meanwhile.
    fn commands(&mut self, values: &Variables) -> Result<(), BenchLabError> {
        if let Some(event) = values.get("PMC_EVENT") {
            self.note(match self.request.profile {
                true => format!("PMC_EVENT=\"{event}\" is not used: a profile samples cycles"),
                false => "PMC_EVENT is for profiles, which -P asks for".to_owned(),
            });
        }
        for hook in ["BEFORE_CMD", "DURING_CMD", "AFTER_CMD"] {
            if values.get(hook).is_some() {
                let why = "weir reads the counters before and after each run itself; remove it";
                return Err(values.refuse(hook, why));
            }
        }
        if values.get("CUSTOM_CMD").is_some() {
            let why = "weir runs nothing of the kind on the DUT while it measures; remove it, or \
                       start it from a file of a configuration set";
            return Err(values.refuse("CUSTOM_CMD", why));
        }
        Ok(())
    }

    /// Tells which variables somebody has set for nothing.
    fn without_effect(&mut self, values: &Variables) {
        for name in FOR_LINES {
            if let (Some(value), Some(false)) = (values.get(name), values.refers_to(name)) {
                self.note(format!(
                    "{name}=\"{value}\" has no effect: it is there for lines such as \
                     SENDER_START_CMD, and no line refers to it"
                ));
            }
        }
    }

    /// Notes something, once.
    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn machine(&mut self, address: &str) -> Result<(), BenchLabError> {
        self.pair("ssh", &destination(address));
        if let Some(config) = &self.request.ssh_config {
            let config = absolute(config)?;
            self.pair("ssh_config", &config.to_string_lossy());
        }
        Ok(())
    }

    fn ends(&mut self, traffics: &[TrafficSet]) -> Result<(), BenchLabError> {
        let values = &traffics[0].values;
        let interface =
            values.required("SENDER_LAB_IF", "the interface that the sender sends on")?;
        let mac = values
            .required("DUT_LAB_IF_MAC_SENDER_SIDE", "the address that the sender's frames go to")?;
        let (interface, mac) = (interface.to_owned(), mac.to_owned());
        values.required("SENDER_START_CMD", "the line that starts the sender")?;
        for (name, admin, start, stop) in SENDERS {
            let Some(line) = self.lines(traffics, start)? else { continue };
            refuse_other_direction(values, start, &line)?;
            let address = values.required(admin, "the machine of a line that starts a sender")?;
            self.line("");
            self.line("[[testbed.generator]]");
            self.pair("name", name);
            self.machine(address)?;
            // A second sender has a card and a port of its own.
            self.pair("interface", line::option(&line, "-i").unwrap_or(&interface));
            self.pair("next_hop_mac", line::option(&line, "-D").unwrap_or(&mac));
            self.pair("driver", "pkt-gen");
            self.pair("start", &line);
            if let Some(stop) = values.get(stop).or_else(|| values.get("SENDER_STOP_CMD")) {
                self.pair("stop", &escaped(stop));
            }
        }
        self.receiver(traffics)
    }

    fn receiver(&mut self, traffics: &[TrafficSet]) -> Result<(), BenchLabError> {
        let values = &traffics[0].values;
        let address = values.required("RECEIVER_ADMIN", "the machine that receives")?;
        let why = "the interface that it receives on";
        let interface = values.required("RECEIVER_LAB_IF", why)?.to_owned();
        values.required("RECEIVER_START_CMD", "the line that starts the receiver")?;
        let is_sender = values.get("SENDER_ADMIN") == Some(address);
        self.line("");
        self.line("[testbed.receiver]");
        // A machine has one name, whatever it does.
        self.pair("name", if is_sender { "sender" } else { "receiver" });
        self.machine(address)?;
        self.pair("interface", &interface);
        self.pair("driver", "pkt-gen");
        if let Some(start) = self.lines(traffics, "RECEIVER_START_CMD")? {
            self.pair("start", &start);
        }
        if let Some(stop) = values.get("RECEIVER_STOP_CMD") {
            self.pair("stop", &escaped(stop));
        }
        Ok(())
    }

    /// The line of all traffics; one that asks which traffic it is, if theirs differ.
    fn lines(
        &mut self,
        traffics: &[TrafficSet],
        name: &str,
    ) -> Result<Option<String>, BenchLabError> {
        let mut lines: Vec<(String, &str)> = Vec::new();
        for set in traffics {
            let Some(line) = set.signs.get(name) else { continue };
            if line::program(line).is_none() {
                let why = "weir reads the lines of pkt-gen. For another program, write a lab.toml \
                           with driver = \"command\" and a pattern of its figures";
                return Err(set.values.refuse(name, why));
            }
            let as_it_is = set.values.get(name).unwrap_or_default();
            if !line::is_the_same(&set.values, line, as_it_is) {
                let why = "weir puts addresses, PKT_SIZE and PKT_TO_SEND into the line for each \
                           burst, and here a condition, a sum or an assignment behind the line \
                           depends on one of them: write the line without it, one set for each \
                           case";
                return Err(set.values.refuse(name, why));
            }
            let (complete, notes) = line::complete(name, &line::template(line));
            notes.into_iter().for_each(|note| self.note(note));
            lines.push((complete, &set.name));
        }
        let Some((first, _)) = lines.first() else { return Ok(None) };
        if lines.len() != traffics.len() {
            let without = traffics.iter().find(|set| set.signs.get(name).is_none());
            let path = without.map_or_else(String::new, |set| set.values.path.clone());
            let why = "some of the traffics have it, and this one has not";
            return Err(BenchLabError::Value {
                path,
                name: name.to_owned(),
                value: String::new(),
                why: why.to_owned(),
            });
        }
        if lines.iter().all(|(line, _)| line == first) {
            return Ok(Some(first.clone()));
        }
        let mut text = "case ${traffic} in".to_owned();
        for (line, set) in &lines {
            let _ = write!(text, " {set}) {line};;");
        }
        text.push_str(" esac");
        Ok(Some(text))
    }

    /// A line of pkt-gen's that prints plain numbers, and does not end by itself.
    fn device(&mut self, values: &Variables) -> Result<(), BenchLabError> {
        let address = values.required("DUT_ADMIN", DUT_ADMIN_IS)?.to_owned();
        self.line("");
        self.line("[testbed.dut]");
        self.machine(&address)?;
        self.pair("system", &self.request.system);
        self.sends(values)?;
        let rounds = match values.get("REBOOT_TIMEOUT") {
            None => REBOOT_ROUNDS_DEFAULT,
            Some(rounds) => rounds.parse().map_err(|_| {
                values.refuse("REBOOT_TIMEOUT", "it is a number of rounds of five seconds")
            })?,
        };
        self.pair("boot_timeout", &format!("{}s", rounds.saturating_mul(REBOOT_ROUND_S).max(1)));
        if let Some(command) = values.get("IS_DUT_ONLINE_CMD") {
            if values.get("IS_DUT_ONLINE_TARGET").is_some_and(|target| target != address) {
                let why = "weir asks the DUT itself whether it is online; name it here";
                return Err(values.refuse("IS_DUT_ONLINE_TARGET", why));
            }
            self.pair("online", &escaped(command));
        }
        if let Some(reference) = values.get("REF_ADMIN") {
            let reference = reference.to_owned();
            self.line("");
            self.line("[testbed.reference]");
            self.machine(&reference)?;
        }
        Ok(())
    }

    /// Where the traffic leaves the DUT, which tells a loss in it from one behind it.
    fn sends(&mut self, values: &Variables) -> Result<(), BenchLabError> {
        let Some(address) = values.get(RECEIVER_SIDE) else {
            self.note(format!(
                "{RECEIVER_SIDE} is not set: nobody counts what leaves the DUT, and a loss behind \
                 it that the receiver's interface does not count either is taken for the DUT's"
            ));
            return Ok(());
        };
        let address: MacAddr =
            address.parse().map_err(|error| values.refuse(RECEIVER_SIDE, format!("{error}")))?;
        if self.request.system == "generic" {
            self.note(format!("{RECEIVER_SIDE} is not used: no counter of the DUT is read"));
        } else {
            self.line(&format!("sends = [\"{address}\"]"));
        }
        Ok(())
    }

    fn image(&mut self, image: &ImageSet) -> Result<(), BenchLabError> {
        self.line("");
        self.line("[[image]]");
        self.pair("name", &image.name);
        self.pair("file", &absolute(&image.file)?.to_string_lossy());
        self.pair("sha256", &image.sha256);
        let upgrade = if image.is_compressed { "xzcat | upgrade" } else { "upgrade" };
        self.pair("install", &format!("{upgrade} && {UPGRADED}"));
        self.pair("on", "dut");
        Ok(())
    }

    fn duts(&mut self, configurations: &[ConfigurationSet]) -> Result<(), BenchLabError> {
        let kind = match self.request.system.as_str() {
            "linux" => "generic",
            other => other,
        };
        if configurations.is_empty() {
            self.line("");
            self.line("[[dut]]");
            self.pair("name", ONLY_DUT);
            self.pair("kind", kind);
        }
        for set in configurations {
            self.line("");
            self.line("[[dut]]");
            self.pair("name", &set.name);
            self.pair("kind", kind);
            self.pair("tree", &absolute(&set.tree)?.to_string_lossy());
        }
        Ok(())
    }

    fn traffic(&mut self, set: &TrafficSet) -> Result<(), BenchLabError> {
        let values = &set.values;
        let src = values.required("SENDER_LAB_NET", "the sources of the packets")?;
        let dst = values.required("RECEIVER_LAB_NET", "the destinations of the packets")?;
        // In a line of ssh's, IPv6 ranges are quoted once more.
        let [src, dst] = [src, dst].map(|range| range.trim_matches('"').to_owned());
        let size = values.get("PKT_SIZE").unwrap_or("60");
        let size: u32 = size
            .parse()
            .map_err(|_| values.refuse("PKT_SIZE", "it is a number of bytes, without the FCS"))?;
        let smallest = smallest_bytes(&src);
        if size < smallest {
            self.note(format!(
                "{}: PKT_SIZE=\"{size}\" becomes {smallest}, the smallest frame that weir has for \
                 such ranges, because its own generator could send no smaller one",
                set.name
            ));
        }
        let size = size.max(smallest);
        self.line("");
        self.line("[[traffic]]");
        self.pair("name", &set.name);
        self.pair("src", &src);
        self.pair("dst", &dst);
        self.line(&format!("size = {size}"));
        Ok(())
    }
}

/// Refuses a sender whose packets go the other way through the DUT: the receiver would see nothing
/// of them, and all would seem lost.
fn refuse_other_direction(values: &Variables, name: &str, line: &str) -> Result<(), BenchLabError> {
    let line = line.to_lowercase();
    let is_in_line =
        |name: &str| values.get(name).is_some_and(|value| line.contains(&value.to_lowercase()));
    if is_in_line(RECEIVER_SIDE) && !is_in_line("DUT_LAB_IF_MAC_SENDER_SIDE") {
        let why = format!(
            "it sends to {RECEIVER_SIDE}, which is the other direction: weir reads one receiver, \
             and that would see none of these packets; run a campaign for each direction"
        );
        return Err(values.refuse(name, why));
    }
    Ok(())
}

/// The smallest frame of a range of addresses, bytes without FCS.
fn smallest_bytes(range: &str) -> u32 {
    // One that is none is refused with the specification.
    let over_ipv6 = AddrRange::parse(range, 1).is_ok_and(|(range, _)| range.is_ipv6());
    u32::from(size_bytes_min(0, over_ipv6, Protocol::Udp))
}
