//! Reading a packet test (the module above describes it).

use std::net::IpAddr;

use crate::device::Network;
use crate::frame::FrameSpec;
use crate::outcome::{Answer, DropReason, Outcome};
use weir_rules::dialect::Dialect;
use weir_rules::facts::Facts;
use weir_rules::resolve::Resolver;

/// What is wrong with a packet test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct FormatError {
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What, and what was expected.
    pub message: String,
}

/// A packet test.
#[derive(Debug, Clone)]
pub struct TestFile {
    pub name: String,
    /// Interfaces and routes.
    pub network: Network,
    /// The dialect of its rules, if it says.
    pub dialect: Option<Dialect>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// A step and its line, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub line: u32,
    /// What happens.
    pub kind: StepKind,
}

/// What happens in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    /// A ruleset is loaded.
    Load {
        /// Its text; its first line is the one after the step's.
        text: String,
        /// The device has to refuse it.
        is_refused: bool,
    },
    /// The clock is set, nanoseconds from the start.
    SetTime(u64),
    /// The clock moves on by nanoseconds.
    Advance(u64),
    Packet(Box<PacketStep>),
    /// How many states there are.
    StateCount(u64),
    /// A state that is there.
    State(StateExpectation),
    /// The beginning of descriptions of which there is none.
    NoState(String),
    /// All drops so far.
    Drops(Vec<(DropReason, u64)>),
    /// States made so far.
    Inserts(u64),
    /// States removed so far.
    Removals(u64),
}

/// A packet and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketStep {
    /// The packet.
    pub frame: FrameSpec,
    /// What becomes of it.
    pub outcome: Outcome,
    /// TTL or hop limit as it leaves.
    pub ttl: Option<u8>,
    /// TOS byte or traffic class as it leaves.
    pub tos: Option<u8>,
    /// The don't-fragment bit as it leaves.
    pub dont_fragment: Option<bool>,
    /// Whether it is logged.
    pub logged: Option<bool>,
    /// Its source as it leaves, or as the box's stack gets it, with its port.
    pub from: Option<String>,
    /// Its destination, in the same way.
    pub to: Option<String>,
    /// The ends of the packet that it quotes as it leaves, in the same way.
    pub about: Option<[String; 2]>,
}

/// What is expected of a state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateExpectation {
    /// [`crate::outcome::StateInfo::line`].
    pub line: String,
    /// [`crate::outcome::StateInfo::halves`].
    pub halves: Option<String>,
    /// Packets of source and destination.
    pub packets: Option<(u64, u64)>,
    /// Seconds until it expires.
    pub expires_s: Option<u64>,
}

impl TestFile {
    /// Reads a test.
    ///
    /// # Errors
    ///
    /// [`FormatError`] says which line is wrong, and how.
    pub fn parse(name: &str, text: &str) -> Result<Self, FormatError> {
        let fail = |(line, message)| FormatError { file: name.to_owned(), line, message };
        let lines = join(text);
        let mut facts_text = String::new();
        let mut network = Network::default();
        let mut dialect = None;
        // Names first: packets may use them before the line that says them.
        let mut rest = Vec::new();
        for (line, text) in lines {
            let word = text.split_ascii_whitespace().next().unwrap_or("");
            match word {
                "interface" | "group" | "host" | "service" | "protocol" | "user" | "usergroup" => {
                    Facts::parse(&text).map_err(|error| fail((line, error.message)))?;
                    facts_text.push_str(&text);
                    facts_text.push('\n');
                }
                "route" => {
                    let route = route(&text).map_err(|message| fail((line, message)))?;
                    network.routes.push(route);
                }
                "dialect" => {
                    dialect = match text.split_ascii_whitespace().nth(1) {
                        Some("freebsd") => Some(Dialect::FreeBsd),
                        Some("openbsd") => Some(Dialect::OpenBsd),
                        _ => {
                            let message = "a dialect is freebsd or openbsd".to_owned();
                            return Err(fail((line, message)));
                        }
                    };
                }
                _ => rest.push((line, text)),
            }
        }
        let facts = Facts::parse(&facts_text).map_err(|error| fail((1, error.message)))?;
        network.interfaces = facts.interfaces().to_vec();
        for (.., interface) in &network.routes {
            if !network.interfaces.iter().any(|known| known.name == *interface) {
                return Err(fail((
                    1,
                    format!("a route leads to `{interface}`, which is not there"),
                )));
            }
        }
        let mut steps = Vec::new();
        for (line, text) in rest {
            let kind = step(&text, &facts).map_err(|message| fail((line, message)))?;
            steps.push(Step { line, kind });
        }
        network.facts = facts;
        Ok(Self { name: name.to_owned(), network, dialect, steps })
    }
}

/// Lines without comments, continued ones joined; a block of rules is one line with its breaks.
fn join(text: &str) -> Vec<(u32, String)> {
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut block: Option<(u32, String)> = None;
    // Braces that the rules have opened.
    let mut depth = 0_usize;
    let mut goes_on = false;
    for (line, text) in (1..).zip(text.lines()) {
        if let Some((start, mut body)) = block.take() {
            body.push_str(text);
            if text.trim() == "}" && depth == 0 {
                lines.push((start, body));
            } else {
                let rule = text.split('#').next().unwrap_or("");
                depth =
                    (depth + rule.matches('{').count()).saturating_sub(rule.matches('}').count());
                body.push('\n');
                block = Some((start, body));
            }
            continue;
        }
        let trimmed = text.split('#').next().unwrap_or("").trim();
        let (trimmed, more) =
            trimmed.strip_suffix('\\').map_or((trimmed, false), |rest| (rest, true));
        if trimmed == "rules {" || trimmed == "refused {" {
            block = Some((line, format!("{trimmed}\n")));
        } else if let Some(last) = lines.last_mut().filter(|_| goes_on || trimmed.starts_with("=>"))
        {
            last.1.push(' ');
            last.1.push_str(trimmed);
        } else if !trimmed.is_empty() {
            lines.push((line, trimmed.to_owned()));
        }
        goes_on = more;
    }
    // A block without its end is refused where it is read.
    lines.extend(block);
    lines
}

fn route(line: &str) -> Result<(IpAddr, u8, String), String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let message = || "a route is `route PREFIX INTERFACE`, as `route 0.0.0.0/0 em1`".to_owned();
    let ["route", prefix, interface] = words[..] else {
        return Err(message());
    };
    let (address, bits) = prefix.split_once('/').ok_or_else(message)?;
    let address: IpAddr = address.parse().map_err(|_| message())?;
    let bits: u8 = bits.parse().map_err(|_| message())?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    if bits > bits_max {
        return Err(format!("a prefix of this family has at most {bits_max} bits"));
    }
    Ok((address, bits, interface.to_owned()))
}

fn step(line: &str, facts: &Facts) -> Result<StepKind, String> {
    for (head, is_refused) in [("rules {", false), ("refused {", true)] {
        if let Some(body) = line.strip_prefix(head) {
            let body = body.strip_prefix('\n').unwrap_or(body);
            let text = body.strip_suffix('}').ok_or("the block has no closing `}`")?;
            return Ok(StepKind::Load { text: text.to_owned(), is_refused });
        }
    }
    if line.starts_with("in ") || line.starts_with("out ") {
        return packet(line, facts);
    }
    if let Some(time) = line.strip_prefix("at ") {
        return match time.trim().strip_prefix('+') {
            Some(time) => duration(time).map(StepKind::Advance),
            None => duration(time.trim()).map(StepKind::SetTime),
        };
    }
    let Some((head, rest)) = line.split_once(':') else {
        return Err(unknown(line));
    };
    let rest = rest.trim();
    let number = || rest.parse::<u64>().map_err(|_| format!("`{rest}` is not a number"));
    match head {
        "states" => Ok(StepKind::StateCount(number()?)),
        "inserts" => Ok(StepKind::Inserts(number()?)),
        "removals" => Ok(StepKind::Removals(number()?)),
        "state" => state(rest).map(StepKind::State),
        "no state" => Ok(StepKind::NoState(rest.to_owned())),
        "drops" => drops(rest).map(StepKind::Drops),
        _ => Err(unknown(line)),
    }
}

fn unknown(line: &str) -> String {
    let word = line.split_ascii_whitespace().next().unwrap_or("");
    format!(
        "`{word}` does not begin a line of a packet test: interface, route, dialect, \
         rules {{, refused {{, in, out, at, states:, state:, no state:, drops:, inserts: and \
         removals: do"
    )
}

fn duration(text: &str) -> Result<u64, String> {
    let message = || format!("`{text}` is not a duration: 500ms, 3s, 2m, 24h");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(message)?;
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().map_err(|_| message())?;
    let unit_ns = match unit {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(message()),
    };
    number.checked_mul(unit_ns).ok_or_else(message)
}

fn packet(line: &str, facts: &Facts) -> Result<StepKind, String> {
    let (words, expected) =
        line.split_once("=>").ok_or("the packet lacks `=>` and what becomes of it")?;
    let frame = FrameSpec::parse(words, facts)?;
    let interface = &*frame.packet.interface;
    if !facts.interfaces().iter().any(|known| known.name == interface) {
        return Err(format!("`{interface}` is not an interface of this test"));
    }
    let mut parts = expected.split(',').map(str::trim);
    let mut step = PacketStep {
        frame,
        outcome: outcome(parts.next().unwrap_or(""))?,
        ttl: None,
        tos: None,
        dont_fragment: None,
        logged: None,
        from: None,
        to: None,
        about: None,
    };
    for part in parts {
        let words: Vec<&str> = part.split_ascii_whitespace().collect();
        let byte = |word: &str| match word.strip_prefix("0x") {
            Some(hex) => u8::from_str_radix(hex, 16).map_err(|_| format!("`{word}` is not a byte")),
            None => word.parse::<u8>().map_err(|_| format!("`{word}` is not a byte")),
        };
        match words[..] {
            ["ttl", ttl] => step.ttl = Some(byte(ttl)?),
            ["tos", tos] => step.tos = Some(byte(tos)?),
            ["df"] => step.dont_fragment = Some(true),
            ["no", "df"] => step.dont_fragment = Some(false),
            ["logged"] => step.logged = Some(true),
            ["not", "logged"] => step.logged = Some(false),
            ["from", end] => step.from = Some(end.to_owned()),
            ["to", end] => step.to = Some(end.to_owned()),
            ["about", from, ">", to] => step.about = Some([from, to].map(str::to_owned)),
            _ => {
                return Err(format!(
                    "`{part}` cannot be checked: ttl, tos, df, no df, logged, not logged, from, \
                     to, about"
                ));
            }
        }
    }
    let has_ends = step.from.is_some() || step.to.is_some() || step.about.is_some();
    if has_ends && matches!(step.outcome, Outcome::Blocked(..)) {
        return Err("the ends of a packet that is blocked cannot be checked".to_owned());
    }
    let is_out = matches!(step.outcome, Outcome::Out(_));
    if !is_out && (step.ttl.is_some() || step.tos.is_some() || step.dont_fragment.is_some()) {
        return Err("only a packet that goes `out` is checked as it leaves".to_owned());
    }
    Ok(StepKind::Packet(Box::new(step)))
}

fn outcome(text: &str) -> Result<Outcome, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let reason = |name: &str| {
        let names =
            || DropReason::ALL.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join(", ");
        DropReason::from_name(name)
            .ok_or_else(|| format!("`{name}` is not a drop reason; reasons are {}", names()))
    };
    match words[..] {
        ["out", interface] => Ok(Outcome::Out(interface.into())),
        ["box"] => Ok(Outcome::Box),
        ["blocked", name] => Ok(Outcome::Blocked(reason(name)?, Answer::None)),
        ["blocked", name, "rst"] => Ok(Outcome::Blocked(reason(name)?, Answer::Rst)),
        ["blocked", name, "ack"] => Ok(Outcome::Blocked(reason(name)?, Answer::Challenge)),
        ["blocked", name, "abort"] => Ok(Outcome::Blocked(reason(name)?, Answer::Abort)),
        ["blocked", name, "icmp", numbers] => {
            let message = || format!("`{numbers}` is not an ICMP type and code, such as 3/3");
            let (kind, code) = numbers.split_once('/').ok_or_else(message)?;
            let kind = kind.parse().map_err(|_| message())?;
            let code = code.parse().map_err(|_| message())?;
            Ok(Outcome::Blocked(reason(name)?, Answer::Icmp(kind, code)))
        }
        _ => Err(format!(
            "`{text}` is not an outcome: `out INTERFACE`, `box`, `blocked \
             REASON`, and behind the reason `rst`, `icmp TYPE/CODE` or `abort`"
        )),
    }
}

fn state(text: &str) -> Result<StateExpectation, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let wrong = || "a state is `PROTOCOL SOURCE -> DESTINATION STATE:STATE`".to_owned();
    // Outside of either half the ends may be others.
    let mut size = 4;
    while matches!(words.get(size), Some(&("in-as" | "out-as"))) {
        size += 4;
    }
    let Some((line, rest)) = words.split_at_checked(size + 1) else {
        return Err(wrong());
    };
    if line[2] != "->" {
        return Err(wrong());
    }
    let mut expected = StateExpectation { line: line.join(" "), ..StateExpectation::default() };
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let value = *rest.next().ok_or_else(|| format!("`{word}` has no value"))?;
        let wrong = || format!("`{value}` is not a value of `{word}`");
        match *word {
            "halves" if matches!(value, "in" | "out" | "in+out") => {
                expected.halves = Some(value.to_owned());
            }
            "packets" => {
                let (forward, back) = value.split_once(':').ok_or_else(wrong)?;
                let number = |text: &str| text.parse().map_err(|_| wrong());
                expected.packets = Some((number(forward)?, number(back)?));
            }
            "expires" => expected.expires_s = Some(duration(value)? / 1_000_000_000),
            "halves" => return Err(wrong()),
            _ => return Err(format!("`{word}` is not a word of a state")),
        }
    }
    Ok(expected)
}

fn drops(text: &str) -> Result<Vec<(DropReason, u64)>, String> {
    let mut list = Vec::new();
    if text == "none" {
        return Ok(list);
    }
    for part in text.split(',').map(str::trim) {
        let found = part.split_once(' ').and_then(|(name, count)| {
            Some((DropReason::from_name(name)?, count.trim().parse().ok()?))
        });
        list.push(found.ok_or_else(|| format!("`{part}` is not a drop reason with a number"))?);
    }
    Ok(list)
}
