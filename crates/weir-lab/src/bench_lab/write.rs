//! The text of a lab.toml, from sets and variables.

use std::fmt::Write as _;

use weir_wire::mac::MacAddr;
use weir_wire::units::format_duration;

use super::evaluate::Variables;
use super::line::{self, escaped};
use super::sent::Sent;
use super::sets::{ConfigurationSet, ImageSet, TrafficSet};
use super::{
    BenchLabError, DURATION_DEFAULT, ONLY_DUT, Request, Specification, WARMUP_DEFAULT, absolute,
    destination, words,
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
    ("sender", "SENDER_ADMIN", FIRST_SENDER, "SENDER_STOP_CMD"),
    ("sender", "SENDER_ADMIN", "SENDER_START_CMD_2", "SENDER_STOP_CMD"),
    ("sender-2", "SENDER_ADMIN_2", "SENDER_2_START_CMD", "SENDER_2_STOP_CMD"),
    ("sender-2", "SENDER_ADMIN_2", "SENDER_2_START_CMD_2", "SENDER_2_STOP_CMD"),
];

/// The line of the sender that `SENDER_LAB_IF` is of.
const FIRST_SENDER: &str = "SENDER_START_CMD";

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
    let (text, notes, senders) = (String::new(), Vec::new(), Vec::new());
    let mut writer = Writer { request, text, notes, senders };
    writer.head(&first.values)?;
    writer.ends(traffics)?;
    writer.device(&first.values)?;
    for image in images {
        writer.image(image)?;
    }
    writer.duts(configurations)?;
    for (index, traffic) in traffics.iter().enumerate() {
        writer.traffic(traffic, index)?;
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
    /// The lines of the senders, once they are written.
    senders: Vec<Lines>,
}

/// A line that starts something.
struct Lines {
    /// Its variable.
    name: &'static str,
    /// For all traffics: it asks which traffic it is, if theirs differ.
    text: String,
    each: Vec<String>,
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
        values.required(FIRST_SENDER, "the line that starts the sender")?;
        for (name, admin, start, stop) in SENDERS {
            let Some(lines) = self.lines(traffics, start)? else { continue };
            refuse_other_direction(values, start, &lines.text)?;
            // A second sender has a card and a port of its own.
            let (mut port, mut next_hop) = (None, None);
            if start != FIRST_SENDER {
                port = same_option(values, &lines, 'i')?;
                next_hop = same_option(values, &lines, 'D')?;
            }
            let address = values.required(admin, "the machine of a line that starts a sender")?;
            self.line("");
            self.line("[[testbed.generator]]");
            self.pair("name", name);
            self.machine(address)?;
            let port = port.as_deref().map(line::interface);
            self.pair("interface", port.unwrap_or(&interface));
            self.pair("next_hop_mac", next_hop.as_deref().unwrap_or(&mac));
            self.pair("driver", "pkt-gen");
            self.pair("start", &lines.text);
            if let Some(stop) = values.get(stop).or_else(|| values.get("SENDER_STOP_CMD")) {
                self.pair("stop", &escaped(stop));
            }
            self.senders.push(lines);
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
            self.pair("start", &start.text);
        }
        if let Some(stop) = values.get("RECEIVER_STOP_CMD") {
            self.pair("stop", &escaped(stop));
        }
        Ok(())
    }

    /// The line of all traffics, if they have it.
    fn lines(
        &mut self,
        traffics: &[TrafficSet],
        name: &'static str,
    ) -> Result<Option<Lines>, BenchLabError> {
        let mut each: Vec<String> = Vec::new();
        for set in traffics.iter().filter(|set| set.signs.get(name).is_some()) {
            let (complete, notes) = complete(set, name)?;
            notes.into_iter().for_each(|note| self.note(note));
            each.push(complete);
        }
        let Some(first) = each.first() else { return Ok(None) };
        if each.len() != traffics.len() {
            let without = traffics.iter().find(|set| set.signs.get(name).is_none());
            let path = without.map_or_else(String::new, |set| set.values.path.clone());
            let why = "some of the traffics have it, and this one does not";
            return Err(BenchLabError::Value {
                path,
                name: name.to_owned(),
                value: String::new(),
                why: why.to_owned(),
            });
        }
        if each.iter().all(|line| line == first) {
            return Ok(Some(Lines { name, text: first.clone(), each }));
        }
        let mut text = "case ${traffic} in".to_owned();
        for (line, set) in each.iter().zip(traffics) {
            let _ = write!(text, " {}) {line};;", set.name);
        }
        text.push_str(" esac");
        Ok(Some(Lines { name, text, each }))
    }

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
                "{RECEIVER_SIDE} is not set: nothing counts what leaves the DUT, and a loss behind \
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

    fn traffic(&mut self, set: &TrafficSet, index: usize) -> Result<(), BenchLabError> {
        let values = &set.values;
        let src = values.required("SENDER_LAB_NET", "the sources of the packets")?;
        let dst = values.required("RECEIVER_LAB_NET", "the destinations of the packets")?;
        // In a line of ssh's, IPv6 ranges are quoted once more.
        let [src, dst] = [src, dst].map(|range| range.trim_matches('"').to_owned());
        let mut sent = Sent::new(set, &src, &dst);
        for lines in &self.senders {
            sent.read(lines.name, &lines.each[index])?;
        }
        let (size, notes) = sent.size();
        notes.into_iter().for_each(|note| self.note(note));
        self.line("");
        self.line("[[traffic]]");
        self.pair("name", &set.name);
        self.pair("src", &src);
        self.pair("dst", &dst);
        self.line(&format!("size = {size}"));
        Ok(())
    }
}

/// A set's line with what weir needs in it.
fn complete(set: &TrafficSet, name: &str) -> Result<(String, Vec<String>), BenchLabError> {
    let line = set.signs.get(name).unwrap_or_default();
    if words::Program::find(line).is_none() {
        let why = match line.contains("pkt-gen") {
            true => {
                "weir does not see where it starts one pkt-gen: begin the line, or a command of \
                 it, with pkt-gen, or with sudo, nice, cpuset, env, taskset or the like before it"
            }
            false => {
                "weir reads the lines of pkt-gen. For another program, write a lab.toml with \
                 driver = \"command\" and a pattern of its figures"
            }
        };
        return Err(set.values.refuse(name, why));
    }
    let as_it_is = set.values.get(name).unwrap_or_default();
    if !line::is_the_same(&set.values, line, as_it_is) {
        let why = "weir puts addresses, PKT_SIZE and PKT_TO_SEND into the line for each burst, and \
                   here a condition, a sum or an assignment behind the line depends on one of \
                   them: write the line without it, one set for each case";
        return Err(set.values.refuse(name, why));
    }
    Ok(line::complete(name, &line::template(line)))
}

/// What all lines of a sender give for an option.
fn same_option(
    values: &Variables,
    lines: &Lines,
    letter: char,
) -> Result<Option<String>, BenchLabError> {
    let mut all = lines.each.iter().map(|line| line::option(line, letter));
    let first = all.next().flatten();
    if all.any(|other| other != first) {
        let why = format!(
            "its `-{letter}` is not the same in all sets: a testbed is the same for all traffics; \
             run them as two campaigns"
        );
        return Err(values.refuse(lines.name, why));
    }
    Ok(first)
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
