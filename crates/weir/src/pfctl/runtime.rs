//! What pfctl asks of the running firewall, in the order in which pfctl does it whatever the order
//! of its options: disable, show, store states, flush, kill, tables, load, load states, enable,
//! debug level.

use std::io::{self, Write as _};
use std::net::IpAddr;

use weir_fw::protocol::{
    Answered, Client, ClientError, How, Killed, LoadParts, Reply, Request, TableAction,
};
use weir_rules::Dialect;
use weir_rules::diagnostic::Code;
use weir_rules::facts::Facts;
use weir_rules::resolve::Resolver as _;

use super::failure::Failure;
use super::{say, stored};
use crate::cli::pfctl::{Level, Parts, Plan, TableCommand};
use crate::exit::Outcome;
use crate::fw::load::Language;
use crate::fw::machine::MoreNames;
use crate::fw::names::Names;
use crate::fw::{files, machine, remote};

/// pfctl's exit code of addresses that were not found.
const NOT_FOUND: u8 = 2;

/// Runs what is asked for.
pub(super) fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    let mut client = match Client::connect() {
        Ok(client) => client,
        Err(error) => {
            say(error);
            return Ok(Outcome::No);
        }
    };
    let mut outcome = Outcome::Done;
    let steps =
        [disable, show, store, flush, kill, kill_sources, table, load, restore, enable, debug];
    for step in steps {
        match step(&mut client, plan) {
            Ok(Outcome::Done) => {}
            Ok(other) => {
                outcome = other;
                break;
            }
            Err(Failure::Client(ClientError::Output { source })) if is_pipe(&source) => break,
            Err(Failure::Client(error)) => {
                say(error);
                return Ok(Outcome::No);
            }
            Err(Failure::Words(text)) => {
                say(text);
                return Ok(Outcome::No);
            }
            Err(Failure::Machine(error)) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Whoever read the output wants no more of it.
fn is_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

type Step = Result<Outcome, Failure>;

/// Asks, and prints what comes.
fn ask(client: &mut Client, plan: &Plan, request: &Request) -> Result<Answered, ClientError> {
    let mut out = io::stdout().lock();
    client.ask(request, |reply| match reply {
        Reply::Text(text) => out.write_all(text.as_bytes()),
        Reply::Note(text) if !plan.is_quiet => writeln!(io::stderr(), "{text}"),
        _ => Ok(()),
    })
}

/// Asks where the answer is yes or a refusal.
fn tell(client: &mut Client, plan: &Plan, request: &Request) -> Step {
    ask(client, plan, request)?;
    Ok(Outcome::Done)
}

fn how(plan: &Plan) -> How {
    How {
        verbosity: u8::try_from(plan.verbosity).unwrap_or(u8::MAX),
        has_skip_steps: plan.skip_steps,
        has_numeric_ports: plan.numeric_ports,
        interface: plan.interface.clone(),
        anchor: plan.anchor.clone().unwrap_or_default(),
    }
}

fn disable(client: &mut Client, plan: &Plan) -> Step {
    if plan.disable { tell(client, plan, &Request::Disable) } else { Ok(Outcome::Done) }
}

fn enable(client: &mut Client, plan: &Plan) -> Step {
    if plan.enable { tell(client, plan, &Request::Enable) } else { Ok(Outcome::Done) }
}

fn debug(client: &mut Client, plan: &Plan) -> Step {
    let Some(level) = plan.debug else { return Ok(Outcome::Done) };
    tell(client, plan, &Request::Debug { level: level.to_owned() })
}

fn store(client: &mut Client, plan: &Plan) -> Step {
    let Some(path) = plan.store_states.as_deref() else { return Ok(Outcome::Done) };
    let text = stored::store(client, path)?;
    note(plan, &text);
    Ok(Outcome::Done)
}

fn restore(client: &mut Client, plan: &Plan) -> Step {
    let Some(path) = plan.load_states.as_deref() else { return Ok(Outcome::Done) };
    let text = stored::load(client, path)?;
    note(plan, &text);
    Ok(Outcome::Done)
}

/// What was done.
fn note(plan: &Plan, text: &str) {
    if !plan.is_quiet {
        // Nobody is left to tell if standard error is closed.
        drop(writeln!(io::stderr(), "{text}"));
    }
}

fn show(client: &mut Client, plan: &Plan) -> Step {
    let Some(what) = plan.show else { return Ok(Outcome::Done) };
    let answered = ask(client, plan, &Request::Show { what, how: how(plan) })?;
    Ok(if answered.exit_code == 0 { Outcome::Done } else { Outcome::No })
}

fn flush(client: &mut Client, plan: &Plan) -> Step {
    let Some(what) = plan.flush else { return Ok(Outcome::Done) };
    tell(client, plan, &Request::Flush { what, how: how(plan) })
}

fn kill(client: &mut Client, plan: &Plan) -> Step {
    let interface = plan.interface.clone();
    let which = match &plan.kill[..] {
        [] => return Ok(Outcome::Done),
        [word] if word == "label" || word == "id" => {
            return Err(Failure::Words(format!("no {word} specified")));
        }
        [word, label] if word == "label" => Killed::Label { label: label.clone() },
        [word, id] if word == "id" => {
            // pfctl's `id/creator`: all states here are of one creator.
            let digits = id.split('/').next().unwrap_or_default();
            let id = u64::from_str_radix(digits, 16);
            Killed::Id { id: id.map_err(|_| Failure::Words(format!("cannot read id {digits}")))? }
        }
        [word, ..] if word == "gateway" => {
            let text = "-k gateway: weir has no states with a gateway";
            return Err(Failure::Words(text.to_owned()));
        }
        [word] if word == "nat" => {
            return Err(Failure::Words("no NAT IP address specified".to_owned()));
        }
        [word, address, ..] if word == "nat" => {
            Killed::Nat { networks: networks(&host_facts()?, address)? }
        }
        [from, rest @ ..] => {
            let facts = host_facts()?;
            let to = rest.first().map(|to| networks(&facts, to)).transpose()?;
            Killed::Hosts { from: networks(&facts, from)?, to: to.unwrap_or_default() }
        }
    };
    tell(client, plan, &Request::Kill { which, interface })
}

fn kill_sources(client: &mut Client, plan: &Plan) -> Step {
    let [from, rest @ ..] = &plan.kill_sources[..] else { return Ok(Outcome::Done) };
    let facts = host_facts()?;
    let to = rest.first().map(|to| networks(&facts, to)).transpose()?.unwrap_or_default();
    tell(client, plan, &Request::KillSources { from: networks(&facts, from)?, to })
}

fn host_facts() -> Result<Facts, Failure> {
    machine::facts(None).map_err(Failure::Machine)
}

/// The networks that a word stands for: an address, `ADDRESS/BITS`, or a name in /etc/hosts.
fn networks(facts: &Facts, word: &str) -> Result<Vec<String>, Failure> {
    let (host, bits) = word.split_once('/').map_or((word, None), |(host, bits)| (host, Some(bits)));
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => facts.host(host),
    };
    if addresses.is_empty() {
        return Err(Failure::Words(format!(
            "{host}: neither an address nor a name in /etc/hosts (no name server is asked)"
        )));
    }
    let mut networks = Vec::new();
    for address in addresses {
        let bits_max: u8 = if address.is_ipv4() { 32 } else { 128 };
        let length = match bits {
            None => bits_max,
            Some(text) => match text.parse::<u8>() {
                Ok(length) if length <= bits_max => length,
                _ => {
                    return Err(Failure::Words(format!("prefix too long or not a number: {word}")));
                }
            },
        };
        networks.push(format!("{address}/{length}"));
    }
    Ok(networks)
}

fn table(client: &mut Client, plan: &Plan) -> Step {
    let Some((Some(name), command, words)) = &plan.table else { return Ok(Outcome::Done) };
    let (action, words) = match command {
        TableCommand::Load => return Ok(Outcome::Done),
        TableCommand::Do(action) => (*action, &words[..]),
        TableCommand::Expire => (expire(words)?, &[][..]),
    };
    let facts = host_facts()?;
    let mut entries = Vec::new();
    for word in words {
        add_entries(&facts, word, &mut entries)?;
    }
    if let Some(path) = &plan.file {
        let (name, bytes) = files::first(path)
            .map_err(|cause| Failure::Words(format!("{}: {cause}", path.display())))?;
        let text = String::from_utf8_lossy(&bytes);
        for (index, line) in text.lines().enumerate() {
            for word in line.split('#').next().unwrap_or_default().split_whitespace() {
                add_entries(&facts, word, &mut entries).map_err(|failure| match failure {
                    Failure::Words(text) => Failure::Words(format!("{name}:{}: {text}", index + 1)),
                    other => other,
                })?;
            }
        }
    }
    let request = Request::Table {
        name: name.clone(),
        anchor: plan.anchor.clone().unwrap_or_default(),
        action,
        entries,
        verbosity: u8::try_from(plan.verbosity).unwrap_or(u8::MAX),
    };
    let answered = ask(client, plan, &request)?;
    let is_missing = action == TableAction::Test && answered.exit_code == NOT_FOUND;
    Ok(if is_missing { Outcome::Refused } else { Outcome::Done })
}

/// `-T expire SECONDS`.
fn expire(words: &[String]) -> Result<TableAction, Failure> {
    let word = words.first().map_or("", String::as_str);
    let number = word.parse::<u32>();
    let older_than_s = number.map_err(|_| {
        Failure::Words(format!("expiry time: {word} is not a number of seconds up to {}", u32::MAX))
    })?;
    Ok(TableAction::Expire { older_than_s })
}

/// The entries that a word of `-T` stands for.
fn add_entries(facts: &Facts, word: &str, entries: &mut Vec<String>) -> Result<(), Failure> {
    let (sign, host) = word.strip_prefix('!').map_or(("", word), |host| ("!", host));
    entries.extend(networks(facts, host)?.into_iter().map(|network| format!("{sign}{network}")));
    Ok(())
}

fn load(client: &mut Client, plan: &Plan) -> Step {
    let is_of_table = matches!(plan.table, Some((Some(_), TableCommand::Do(_), _)));
    let Some(path) = plan.file.as_deref().filter(|_| !is_of_table) else {
        return Ok(Outcome::Done);
    };
    // What is loaded must not depend on a guess.
    let dialect = Some(plan.dialect.unwrap_or(Dialect::FreeBsd));
    let more_names = MoreNames::read(plan.facts.as_deref()).map_err(Failure::Machine)?;
    if let Some(note) = more_names.note.as_ref().filter(|_| !plan.is_quiet) {
        drop(writeln!(io::stderr(), "{note}"));
    }
    let facts = more_names.with_host().map_err(Failure::Machine)?;
    let disk = files::Disk::default();
    let names = Some(Names::default());
    let (macros, is_strict) = (plan.macros.clone(), plan.dialect.is_some());
    let language = Language { dialect, is_strict, macros, facts, disk, names };
    let (name, bytes) = files::first(path)
        .map_err(|cause| Failure::Words(format!("{}: {cause}", path.display())))?;
    let anchor = plan.anchor.as_deref().unwrap_or_default();
    let prepared = remote::prepare(&language, &name, &bytes, anchor);
    prepared.show_anchors();
    super::tell(&prepared.compiled, plan);
    if prepared.error_count() > 0 {
        say("Syntax error in config file: pf rules not loaded");
        return Ok(Outcome::No);
    }
    if super::tell_absences(&prepared.compiled) {
        say("load anchors");
        return Ok(Outcome::No);
    }
    let unresolved = unresolved(&prepared);
    let mut load = prepared.load;
    load.pipes = more_names.pipes();
    load.level = plan.level.map(level);
    load.parts = parts(plan.parts);
    load.is_merged = plan.is_merged;
    match tell(client, plan, &Request::Load(Box::new(load))) {
        // Lines FILE:LINE: MESSAGE, as of errors that were found here.
        Err(Failure::Client(ClientError::Refused { message })) => {
            drop(writeln!(io::stderr(), "{message}"));
            for reason in &unresolved {
                drop(writeln!(io::stderr(), "{reason}"));
            }
            say("pf rules not loaded: the previous ones are still in effect");
            Ok(Outcome::No)
        }
        other => other,
    }
}

/// Why host names have no address, a line each: the daemon, which refuses them, was not the one to
/// ask.
fn unresolved(prepared: &remote::Prepared) -> Vec<String> {
    let files = std::iter::once(&prepared.compiled)
        .chain(prepared.anchors.iter().map(|(_, anchor)| anchor));
    let lines = files.flat_map(|compiled| {
        let found = compiled.diagnostics.iter();
        found.filter(|found| found.code == Code::UnresolvedHost).map(|found| {
            let place = compiled.sources.place(found.span);
            let why = found.help.as_deref().unwrap_or(&found.label);
            format!("{place}: {}: {why}", found.message)
        })
    });
    lines.collect()
}

fn level(level: Level) -> weir_fw::protocol::Level {
    use weir_fw::protocol::Level as Requested;
    match level {
        Level::None => Requested::None,
        Level::Basic => Requested::Basic,
        Level::Profile => Requested::Profile,
    }
}

fn parts(parts: Parts) -> LoadParts {
    let Parts { options, filter, translation, tables, .. } = parts;
    LoadParts { options, rules: filter, translation, tables }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_networks() {
        let facts = Facts::parse("host www 192.0.2.80 2001:db8::80\n").unwrap();
        let of = |word: &str| networks(&facts, word).map_err(|_| ());
        assert_eq!(of("10.0.0.1").unwrap(), ["10.0.0.1/32"]);
        assert_eq!(of("0.0.0.0/0").unwrap(), ["0.0.0.0/0"]);
        assert_eq!(of("www").unwrap(), ["192.0.2.80/32", "2001:db8::80/128"]);
        assert!(of("10.0.0.1/33").is_err() && of("nowhere").is_err() && of("::1/x").is_err());
        let mut entries = Vec::new();
        assert!(add_entries(&facts, "!10.0.0.0/8", &mut entries).is_ok());
        assert_eq!(entries, ["!10.0.0.0/8"]);
    }

    #[test]
    fn names_without_an_address_say_why_in_every_file() {
        let name = "a".repeat(64);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ftp.conf");
        std::fs::write(&file, format!("pass\npass in from {name}.example\n")).unwrap();
        let text = format!(
            "pass in from 192.168.1.1\npass in from 0x7f.1\nanchor ftp\n\
             load anchor ftp from \"{}\"\n",
            file.display()
        );
        let language = Language {
            dialect: Some(Dialect::FreeBsd),
            is_strict: false,
            macros: Vec::new(),
            facts: Facts::new(),
            disk: files::Disk::default(),
            names: Some(Names::default()),
        };
        let lines = unresolved(&remote::prepare(&language, "pf.conf", text.as_bytes(), ""));
        let begins = [
            "pf.conf:2: no address is known for `0x7f.1`: `0x7f.1` is neither".to_owned(),
            format!(
                "{}:2: no address is known for `{name}.example`: the system's resolver was asked: ",
                file.display()
            ),
        ];
        assert_eq!(lines.len(), begins.len(), "{lines:?}");
        for (line, begin) in lines.iter().zip(&begins) {
            assert!(line.starts_with(begin), "{line}");
        }
    }

    #[test]
    fn messages_begin_with_the_name() {
        assert_eq!(super::super::NAME, "pfctl");
    }
}
