//! `weir pxe`: checks the files of a network boot service, and runs it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde_json::json;
use weir_machine::pxe::need::{Need, needs};
use weir_machine::pxe::{CONFIG_NAME, Config};
use weir_results::number::counted_len;

use crate::cli::pxe::{CheckArgs, PxeCommand};
use crate::exit::{self, Outcome};

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
    let interface = args.interface.as_deref();
    let trouble = interface.and_then(|name| serve::address(name, &config).err());
    let trouble = trouble.as_ref().map(exit::message);
    let is_ready = lacking == 0 && trouble.is_none();
    let text = if args.json.json {
        let value = json!({
            "files": needs, "lacking_count": lacking,
            "interface": interface, "interface_trouble": trouble,
        });
        value.to_string() + "\n"
    } else {
        let lines: String = needs.iter().map(line).collect();
        let place = match (interface, trouble) {
            (_, Some(trouble)) => format!("WRONG    {trouble}\n"),
            (Some(name), None) => format!("ok       {name}: its network has the range\n"),
            (None, None) => String::new(),
        };
        let files = counted_len(needs.len(), "file");
        format!("{lines}{place}\n{files}, {lacking} of them missing or wrong\n")
    };
    exit::put(&text)?;
    Ok(if is_ready { Outcome::Done } else { Outcome::No })
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
