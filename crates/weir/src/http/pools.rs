//! `--pool`: several pools at once, in a file. A pool is a table whose keys are the options of
//! `weir http`, so that what an option may be, and what it means, is said once.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::Parser;
use toml::{Table, Value};

use crate::cli::http::ClientArgs;

/// Most pools of a file.
const POOLS_MAX: usize = 64;
/// Options of the whole run, which a pool has not.
const OF_THE_RUN: [&str; 6] = ["duration", "interval", "json", "pool", "progress", "yes"];

/// One pool as a command line.
#[derive(Debug, Parser)]
#[command(name = "pool", no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    client: ClientArgs,
}

/// Name and arguments of each pool. A --rate of the run is shared out by the pools' weights.
pub(super) fn read(file: &Path, run: &ClientArgs) -> anyhow::Result<Vec<(String, ClientArgs)>> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the pools in {}", file.display()))?;
    parse(&text, run.rate).with_context(|| file.display().to_string())
}

fn parse(text: &str, rate_rps: Option<f64>) -> anyhow::Result<Vec<(String, ClientArgs)>> {
    let mut file: Table = text.parse()?;
    let Some(Value::Array(tables)) = file.remove("pool") else {
        bail!("the file has no pool: write [[pool]] above the options of each");
    };
    if let Some((key, _)) = file.iter().next() {
        bail!("`{key}` belongs to no pool: everything stands in [[pool]]");
    }
    if tables.len() > POOLS_MAX {
        bail!("{} pools are more than {POOLS_MAX}", tables.len());
    }
    let mut pools: Vec<(String, f64, ClientArgs)> = Vec::new();
    for table in tables {
        let Value::Table(table) = table else { bail!("a pool is a table: [[pool]]") };
        let pool = pool(table, rate_rps)?;
        if pools.iter().any(|(name, _, _)| *name == pool.0) {
            bail!("two pools are named `{}`", pool.0);
        }
        pools.push(pool);
    }
    let all: f64 = pools.iter().map(|(_, weight, _)| weight).sum();
    let share = |(name, weight, mut args): (String, f64, ClientArgs)| {
        if let Some(rate_rps) = rate_rps {
            args.rate = Some(rate_rps * weight / all);
        }
        (name, args)
    };
    Ok(pools.into_iter().map(share).collect())
}

/// Name, weight and arguments of a pool.
fn pool(mut table: Table, rate_rps: Option<f64>) -> anyhow::Result<(String, f64, ClientArgs)> {
    let Some(Value::String(name)) = table.remove("name") else {
        bail!("each pool needs a name: name = \"browsers\"");
    };
    let weight = match table.remove("weight") {
        None => 1.0,
        Some(_) if rate_rps.is_none() => {
            bail!("pool `{name}`: a weight shares out the run's --rate, and the run has none")
        }
        Some(Value::Integer(weight)) if weight > 0 => weight as f64,
        Some(Value::Float(weight)) if weight > 0.0 => weight,
        Some(other) => bail!("pool `{name}`: the weight {other} is not a number above zero"),
    };
    if rate_rps.is_some() && (table.contains_key("rate") || table.contains_key("closed")) {
        bail!("pool `{name}`: its rate is its part of the run's --rate, by its weight");
    }
    let mut words = Vec::new();
    if rate_rps.is_some() {
        // What needs a rate has one; its part is known when all weights are.
        words.extend(["--rate".to_owned(), "1".to_owned()]);
    }
    for (key, value) in table {
        if OF_THE_RUN.contains(&key.as_str()) {
            bail!("pool `{name}`: `{key}` is of the whole run: give it on the command line");
        }
        match (key.as_str(), value) {
            ("url", Value::String(url)) => words.push(url),
            (key, Value::Array(values)) => {
                for value in values {
                    words.push(option(&name, key, &value)?);
                }
            }
            (key, Value::Boolean(true)) => words.push(format!("--{key}")),
            (_, Value::Boolean(false)) => {}
            (key, value) => words.push(option(&name, key, &value)?),
        }
    }
    let parsed = Words::try_parse_from(words);
    let parsed = parsed.map_err(|error| {
        // Its first paragraph; usage and hints stand behind it.
        let text = error.to_string();
        let reason: Vec<&str> =
            text.split("\n\n").next().unwrap_or_default().split_whitespace().skip(1).collect();
        anyhow::anyhow!("pool `{name}`: {}", reason.join(" "))
    })?;
    Ok((name, weight, parsed.client))
}

/// A key and its value as an option.
fn option(pool: &str, key: &str, value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => Ok(format!("--{key}={text}")),
        Value::Integer(number) => Ok(format!("--{key}={number}")),
        Value::Float(number) => Ok(format!("--{key}={number}")),
        _ => bail!("pool `{pool}`: `{key}` is neither text nor a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
[[pool]]
name = "browsers"
url = "http://10.0.0.1/b/{size}"
connections = 1000
sizes = "128:0.9,1Mi:0.1"
arrivals = "poisson"

[[pool]]
name = "uploads"
url = "http://10.0.0.1/b/0"
body = "1Mi"
header = ["Host: a.example", "Accept: */*"]
"#;

    #[test]
    fn pools_have_the_options_of_the_command_line() {
        let text = TWO.replace("arrivals", "rate = 30\narrivals");
        let pools = parse(&text, None).unwrap();
        let names: Vec<&str> = pools.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["browsers", "uploads"]);
        let [(_, browsers), (_, uploads)] = &pools[..] else { panic!("two pools") };
        assert_eq!((browsers.connections(), browsers.rate), (1000, Some(30.0)));
        assert_eq!((uploads.method(), uploads.rate, uploads.header.len()), ("POST", None, 2));
    }

    #[test]
    fn weights_share_out_the_rate() {
        let text = TWO.replace("name = \"browsers\"", "name = \"browsers\"\nweight = 3");
        let pools = parse(&text, Some(400.0)).unwrap();
        let rates: Vec<Option<f64>> = pools.iter().map(|(_, args)| args.rate).collect();
        assert_eq!(rates, [Some(300.0), Some(100.0)]);
    }

    #[test]
    fn what_is_no_pool_is_refused() {
        for (text, rate_rps, word) in [
            ("", None, "[[pool]]"),
            ("x = 1\n[[pool]]\nname = \"a\"\nurl = \"http://10.0.0.1/\"", None, "`x`"),
            ("[[pool]]\nurl = \"http://10.0.0.1/\"", None, "name"),
            ("[[pool]]\nname = \"a\"", None, "pool `a`"),
            ("[[pool]]\nname = \"a\"\nurl = \"u\"\nspeed = 1", None, "--speed"),
            ("[[pool]]\nname = \"a\"\nurl = \"u\"\nduration = \"1s\"", None, "whole run"),
            ("[[pool]]\nname = \"a\"\nurl = \"u\"\nweight = 1", None, "--rate"),
            ("[[pool]]\nname = \"a\"\nurl = \"u\"\nweight = 0", Some(1.0), "weight"),
            ("[[pool]]\nname = \"a\"\nurl = \"u\"\nrate = 1", Some(1.0), "its rate"),
            ("[[pool]]\nname = \"a\"\nurl = \"u\"\nconnections = 0", None, "connections"),
        ] {
            let error = parse(text, rate_rps).unwrap_err();
            assert!(format!("{error:#}").contains(word), "{text}: {error:#}");
        }
    }
}
