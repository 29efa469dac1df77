//! `weir connect ledger`: what both ends counted, from the files that they have printed.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_gen::connect::ledger::{Counts, Course, Ledger, Missing, missing};

use super::show;
use crate::cli::connect::LedgerArgs;
use crate::exit::{self, Outcome};

/// What is read of a client's result.
#[derive(Debug, Deserialize)]
struct ClientFile {
    course: Course,
    counts: Counts,
}

/// What is read of a server's.
#[derive(Debug, Deserialize)]
struct ServerFile {
    counts: Counts,
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Both {
    kind: &'static str,
    ledger: Ledger,
    missing: Vec<Missing>,
    client: Counts,
    server: Counts,
}

pub(super) fn command(args: &LedgerArgs) -> anyhow::Result<Outcome> {
    let client: ClientFile = read(&args.client, "client", show::CLIENT_TOTALS)?;
    let server: ServerFile = read(&args.server, "server", show::SERVER_TOTALS)?;
    let both = Both {
        kind: "ledger",
        ledger: Ledger::new(&client.counts, Some(&server.counts)),
        missing: missing(&client.course, &client.counts, Some(&server.counts)),
        client: client.counts,
        server: server.counts,
    };
    if args.json.json {
        exit::put(&exit::json(&both)?)?;
    } else {
        let mut text = show::ledger(&both.ledger);
        text += &show::missing(&both.missing);
        text += &show::unexpected("the client saw", &client.counts);
        text += &show::unexpected("the server saw", &server.counts);
        exit::put(&text)?;
    }
    Ok(Outcome::Done)
}

/// The last object of a file, which an end of that name has printed: its totals, of that kind.
fn read<T: DeserializeOwned>(path: &Path, end: &str, kind: &str) -> anyhow::Result<T> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) else {
        bail!("{name} is empty: it should hold what the {end} has printed with --json");
    };
    let value: serde_json::Value = serde_json::from_str(line)
        .with_context(|| format!("{name}: the last line is not a JSON object"))?;
    if value["end"] != end {
        bail!(
            "{name} is not what a {end} has printed: the {end}'s file stands {}",
            match end {
                "client" => "first",
                _ => "second",
            }
        );
    }
    if value["kind"] != kind {
        bail!(
            "{name} does not end with the totals of a {end}: it still ran, or was killed, when the \
             last line was written; end it with SIGINT"
        );
    }
    serde_json::from_value(value)
        .with_context(|| format!("{name}: it was not written by this weir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_totals_of_the_right_end_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            fs::write(file.path(), text).unwrap();
            read::<serde_json::Value>(file.path(), "client", show::CLIENT_TOTALS)
        };
        let second = r#"{"kind":"second","end":"client"}"#;
        let result = r#"{"kind":"result","end":"client"}"#;
        read(&format!("{second}\n{result}\n\n")).unwrap();
        for (text, why) in [
            ("", "is empty"),
            ("{\n", "is not a JSON object"),
            (r#"{"kind":"total","end":"server"}"#, "the client's file stands first"),
            (second, "does not end with the totals of a client"),
            (r#"{"end":"client"}"#, "does not end with the totals of a client"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
