//! `weir pxe`: checks the files of a network boot service, and runs it.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde_json::json;
use weir_machine::pxe::need::{Need, needs};
use weir_machine::pxe::{CONFIG_NAME, Config};

use crate::cli::pxe::{CheckArgs, PxeCommand};
use crate::exit::Outcome;

mod serve;

/// Runs the command.
pub(crate) fn command(command: &PxeCommand) -> anyhow::Result<Outcome> {
    match command {
        PxeCommand::Serve(args) => serve::command(args),
        PxeCommand::Check(args) => check(args),
    }
}

fn configuration(dir: &Path) -> anyhow::Result<Config> {
    let path = dir.join(CONFIG_NAME);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}; docs/pxe.md has an example", path.display()))?;
    Config::parse(&path.display().to_string(), &text).map_err(|error| anyhow!("{error}"))
}

fn check(args: &CheckArgs) -> anyhow::Result<Outcome> {
    let config = configuration(&args.dir)?;
    let needs = needs(&config, &args.dir);
    let lacking = needs.iter().filter(|need| need.trouble.is_some()).count();
    let mut out = std::io::stdout();
    let text = if args.json.json {
        json!({ "files": needs, "lacking_count": lacking }).to_string() + "\n"
    } else {
        let lines: String = needs.iter().map(line).collect();
        format!("{lines}\n{} files, {lacking} of them missing or wrong\n", needs.len())
    };
    out.write_all(text.as_bytes()).context(crate::exit::NO_OUTPUT)?;
    Ok(if lacking == 0 { Outcome::Done } else { Outcome::No })
}

/// A file, what is wrong with it, and where it comes from.
fn line(need: &Need) -> String {
    let of = need.entry.as_deref().unwrap_or("boot loader");
    match &need.trouble {
        None => format!("ok       {of}: {}\n", need.file.display()),
        Some(trouble) => format!(
            "LACKING  {of}: {}: {trouble}\n         from: {}\n",
            need.file.display(),
            need.source
        ),
    }
}
