use std::ffi::OsString;
use std::fs;
use std::path::Path;

use weir_gen::pkt_gen::options_table;

use super::is_called_by;

/// What is around the table in the manual.
const BEGIN: &str = "<!-- options: begin -->\n";
const END: &str = "<!-- options: end -->\n";

#[test]
fn the_manuals_table_is_the_one_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pkt-gen.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the table has a beginning");
    let (_, after) = rest.split_once(END).expect("the table has an end");
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", options_table());
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert_eq!(page, expected, "docs/pkt-gen.md is not up to date");
}

#[test]
fn only_the_files_name_counts() {
    for (name, is) in [
        ("pkt-gen", true),
        ("/usr/local/bin/pkt-gen", true),
        ("./pkt-gen", true),
        ("weir", false),
        ("/opt/pkt-gen/weir", false),
        ("pkt-gen2", false),
    ] {
        assert_eq!(is_called_by(&OsString::from(name)), is, "{name}");
    }
}
