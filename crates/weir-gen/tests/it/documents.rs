//! The page about streams is made from the list of fields; `WEIR_BLESS=1` writes it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use weir_gen::stream_file;
use weir_wire::describe::{FIELDS, Macs};
use weir_wire::mac::MacAddr;
use weir_wire::traffic::Traffic;

/// An example that uses what one stream cannot say.
const EXAMPLE: &str = "\
# Nine packets of ordinary traffic beside each packet of an attack.
[[stream]]
name = \"ordinary\"
src = \"198.18.10.1:2000-198.18.10.70\"
dst = \"198.19.10.1:2000-198.19.10.70\"
size = \"imix\"
weight = 9

[[stream]]
name = \"attack\"
src = \"198.18.20.1:1024-198.18.20.250:65535\"
dst = \"198.19.10.1:80\"
proto = \"tcp\"              # SYN
random = true
seed = 7
";

fn document() -> String {
    let mut text = String::from(
        "# Streams\n\n\
         What `weir gen` sends is one stream, described by options, or several in a file \
         (`--stream FILE`):\na TOML table `[[stream]]` for each. The fields are the same, with `-` \
         in options and `_` in tables.\nThis page is made from the list in the code \
         (`WEIR_BLESS=1 cargo test -p weir-gen` writes it).\n\n\
         | field | value | meaning |\n|---|---|---|\n",
    );
    for field in FIELDS {
        // A pipe would end the cell.
        let meaning = field.meaning.replace('|', "\\|");
        let _ = writeln!(text, "| `{}` | {} | {meaning} |", field.name, field.value);
    }
    text += "\n`weight` and `name` are for files only, which may have 256 streams. Every thread \
             goes through the\nsame order of streams, in which each occurs as often as its weight \
             says, spread out evenly. Flows of\na stream are all combinations of its source and \
             destination addresses and ports. Packets carry 18\nbytes of weir's signature behind \
             their headers (stream, thread, sequence number, time), by which\n`weir sink` finds \
             out what happened to each.\n\n```toml\n";
    text += EXAMPLE;
    text += "```\n";
    text
}

#[test]
fn the_page_is_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/streams.md");
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, document()).expect("writable");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, document(), "docs/streams.md is not up to date");
}

#[test]
fn the_example_can_be_sent() {
    let macs = Macs { src: MacAddr([2, 0, 0, 0, 0, 1]), dst: MacAddr([2, 0, 0, 0, 0, 2]) };
    let tables = stream_file::read(EXAMPLE).expect("it is sound");
    let streams = (0_u8..).zip(&tables).map(|(number, table)| {
        let described = table.description.spec(number, macs).expect("it is sound");
        (described.spec, described.weight)
    });
    let traffic = Traffic::new(streams.collect()).expect("it can be sent");
    assert_eq!(traffic.flow_count(), 4_900 + 250 * 64_512);
}
