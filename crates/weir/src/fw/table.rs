//! `weir fw table`: typed tables of the running firewall.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value as Json, json};
use weir_fw::protocol::{Client, Named, Reply, Request, TypedAction};
use weir_rules::typed::{KeyType, Kinds, Shape, lines};

use super::{files, put, put_json};
use crate::cli::fw_table::{EntryArgs, TableArgs, TableCommand};
use crate::exit::Outcome;

/// Runs the command.
pub(super) fn command(args: TableArgs) -> anyhow::Result<Outcome> {
    let action = action(args.command)?;
    let is_list = matches!(action, TypedAction::List { .. });
    let request = Request::TypedTable { set: args.set, action };
    let is_json = args.json;
    let mut entries = String::new();
    let answered = Client::connect()?.ask(&request, |reply| match reply {
        Reply::Text(text) if is_json => {
            entries.push_str(&text);
            Ok(())
        }
        Reply::Text(text) => io::Write::write_all(&mut io::stdout(), text.as_bytes()),
        _ => Ok(()),
    })?;
    let value = answered.value.unwrap_or_default();
    match (is_json, is_list) {
        (true, true) => put_json(&listed(value, &entries)?)?,
        (true, false) => put_json(&value)?,
        (false, true) => {}
        (false, false) => put(&text(&value))?,
    }
    Ok(if answered.exit_code == 0 { Outcome::Done } else { Outcome::No })
}

fn action(command: TableCommand) -> anyhow::Result<TypedAction> {
    Ok(match command {
        TableCommand::Create { mut names, key, values, limit, file } => {
            if let Some(file) = file {
                let Named { text, .. } = read(&file)?;
                names.extend(lines(&text).map(|(_, name)| name.to_owned()));
            }
            TypedAction::Create { names, key, values, limit }
        }
        TableCommand::Destroy { names } => TypedAction::Destroy { names },
        TableCommand::Add(args) => {
            TypedAction::Add { entries: vec![given(&args)?], name: args.name }
        }
        TableCommand::Delete(args) => {
            TypedAction::Delete { keys: vec![given(&args)?], name: args.name }
        }
        TableCommand::Replace { name, file } => {
            TypedAction::Replace { name, entries: vec![read(&file)?] }
        }
        TableCommand::Lookup { name, keys } => TypedAction::Lookup { name, keys },
        TableCommand::List { name } => TypedAction::List { name },
        TableCommand::Info { names } => TypedAction::Info { names },
        TableCommand::Flush { name } => TypedAction::Flush { name },
        TableCommand::Swap { name, other } => TypedAction::Swap { name, other },
        TableCommand::SwapSets { other } => TypedAction::SwapSets { other },
        TableCommand::Lock { name } => TypedAction::Lock { name, is_locked: true },
        TableCommand::Unlock { name } => TypedAction::Lock { name, is_locked: false },
    })
}

/// The entries of the words, or of the file.
fn given(args: &EntryArgs) -> anyhow::Result<Named> {
    match &args.file {
        Some(file) => read(file),
        None => Ok(Named { name: None, text: args.words.join(" ") }),
    }
}

fn read(path: &Path) -> anyhow::Result<Named> {
    let (name, bytes) = files::first(path)
        .map_err(|cause| anyhow::anyhow!("cannot read {}: {cause}", path.display()))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is no text in UTF-8"))?;
    Ok(Named { name: Some(name), text })
}

/// What a table is, with its entries.
fn listed(mut value: Json, text: &str) -> anyhow::Result<Json> {
    let word = |name: &str| value[name].as_str().unwrap_or_default();
    let shape = KeyType::parse(word("type"))
        .and_then(|key| Ok(Shape { key, values: Kinds::parse(word("values"))? }))
        .and_then(|shape| shape.entries(text).map_err(|(at, why)| format!("line {at}: {why}")));
    let entries = match shape {
        Ok(entries) => entries,
        Err(why) => bail!("the firewall's answer cannot be read: {why}"),
    };
    let entry = |(key, values): &(weir_rules::typed::Key, weir_rules::typed::Value)| {
        let mut entry = json!({ "key": key.to_string() });
        for (kind, text) in values.parts() {
            let number = text.parse::<u32>().ok().filter(|_| kind.is_number());
            entry[kind.as_str()] = number.map_or_else(|| json!(text), |number| json!(number));
        }
        entry
    };
    value["entry_count"] = value["entries"].take();
    value["entries"] = entries.iter().map(entry).collect();
    Ok(value)
}

/// An answer in words.
fn text(value: &Json) -> String {
    let mut out = String::new();
    match value {
        // Writing to a string does not fail.
        Json::Array(all) => all.iter().for_each(|one| put_one(&mut out, one)),
        Json::Object(fields) => {
            let count = |(name, value): (&String, &Json)| match value.as_bool() {
                Some(is_locked) => if is_locked { "locked" } else { "unlocked" }.to_owned(),
                None => format!("{value} {name}"),
            };
            let all: Vec<String> = fields.iter().map(count).collect();
            let _ = writeln!(out, "{}", all.join(", "));
        }
        _ => {}
    }
    out
}

/// What was found of a key, or what a table is.
fn put_one(out: &mut String, one: &Json) {
    let word = |name: &str| one[name].as_str().unwrap_or_default();
    if one.get("key").is_some() {
        let _ = match one["entry"].as_str() {
            Some(entry) => writeln!(out, "{}: {entry}", word("key")),
            None => writeln!(out, "{}: no entry", word("key")),
        };
        return;
    }
    let _ = write!(out, "{}: type {}", word("name"), word("type"));
    if !word("values").is_empty() {
        let _ = write!(out, ", values {}", word("values"));
    }
    let _ = write!(out, ", {} entries", one["entries"]);
    if let Some(limit) = one["limit"].as_u64() {
        let _ = write!(out, " of {limit}");
    }
    let _ = write!(out, ", {} bytes", one["memory_bytes"]);
    for (field, shown) in [("locked", "locked"), ("used_by_rules", "used by rules")] {
        if one[field] == true {
            let _ = write!(out, ", {shown}");
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_in_words() {
        assert_eq!(text(&json!({ "added": 2, "updated": 1 })), "2 added, 1 updated\n");
        assert_eq!(text(&json!({ "locked": false })), "unlocked\n");
        let found = json!([
            { "key": "10.0.0.1", "entry": "10.0.0.0/8 tag a" }, { "key": "::1", "entry": null }
        ]);
        assert_eq!(text(&found), "10.0.0.1: 10.0.0.0/8 tag a\n::1: no entry\n");
        let info = json!([{
            "name": "hops", "set": 0, "type": "addr", "values": "tag", "entries": 3, "limit": 9,
            "locked": true, "used_by_rules": false, "memory_bytes": 320
        }]);
        let line = "hops: type addr, values tag, 3 entries of 9, 320 bytes, locked\n";
        assert_eq!(text(&info), line);
    }

    #[test]
    fn a_list_has_numbers_where_values_are_numbers() {
        let value = json!({ "type": "number", "values": "tag,mark", "entries": 1 });
        let list = listed(value, "80 tag 7 mark 7\n").unwrap();
        assert_eq!(list["entries"], json!([{ "key": "80", "tag": "7", "mark": 7 }]));
        assert_eq!(list["entry_count"], 1);
    }
}
