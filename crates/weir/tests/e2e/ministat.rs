//! `weir ministat`: blocks that archives publish, byte for byte; Debian's package with
//! `--compat=2015`; both names, standard input, the order of errors, exit codes.
//!
//! The archive of netbenches is read in place (`../shared/data`, or `WEIR_TEST_DATA`). The
//! project's own small archive, `tests/data/ministat`, covers the same code where it is missing.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{assert_exit, skipped, stderr, stdout};

mod blocks;

use blocks::{Block, blocks};

const DEBIAN: &str = "/usr/bin/ministat";

/// Published blocks and rows that are not reproduced: the file below the archive, what the block or
/// row begins with, and why not.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// `weir ministat` in a directory, with this standard input.
fn ministat(dir: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    feed(command.arg("ministat").args(arguments).current_dir(dir), input)
}

/// Runs a command with this standard input to its end.
fn feed(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // It may have ended with a refusal before it read anything.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn project_archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ministat")
}

/// The archive of netbenches, if it is there; says so if it is not.
fn netbenches(test: &str) -> Option<PathBuf> {
    let data = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let archive = data.join("netbenches");
    if archive.is_dir() {
        return Some(archive);
    }
    skipped(test, "there are no netbenches in ../shared/data or $WEIR_TEST_DATA");
    None
}

/// All files below a directory, sorted.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|is| extensions.iter().any(|extension| is == *extension))
}

/// Whether something published is known not to be reproduced.
fn is_exception(archive: &Path, path: &Path, begins: &str) -> bool {
    let path = path.strip_prefix(archive).expect("below the archive");
    EXCEPTIONS.iter().any(|(file, start, _)| path == Path::new(file) && begins.starts_with(start))
}

/// Prints every block of an archive again. How many there were whose data is there.
fn reproduce_blocks(archive: &Path) -> usize {
    let mut count = 0;
    for path in files(archive).iter().filter(|path| has_extension(path, &["md", "txt"])) {
        let dir = path.parent().expect("a file is somewhere");
        let text = String::from_utf8_lossy(&fs::read(path).expect("readable")).into_owned();
        for block in blocks(&text) {
            if !block.names.iter().all(|name| dir.join(name).is_file()) {
                continue;
            }
            count += 1;
            let printed = |arguments: &Vec<String>| {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                stdout(&ministat(dir, &arguments, ""))
            };
            let all: Vec<String> = block.command_lines().iter().map(printed).collect();
            let same = all.contains(&block.text);
            let Block { text, line, .. } = &block;
            let exception = is_exception(archive, path, text);
            assert!(
                same != exception,
                "{}:{line}: listed as an exception: {exception}\n{text}\nbecame\n{}",
                path.display(),
                all.join("\nor\n")
            );
        }
    }
    count
}

#[test]
fn the_projects_own_blocks_byte_for_byte() {
    let readme = project_archive().join("README.md");
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&readme, blocks::blessed(&project_archive())).expect("writable");
    }
    assert_eq!(reproduce_blocks(&project_archive()), blocks::PROJECT_BLOCKS.len());
    let text = fs::read_to_string(&readme).expect("it is there");
    assert_eq!(text, blocks::blessed(&project_archive()), "{} is not up to date", readme.display());
}

#[test]
fn the_blocks_of_netbenches_byte_for_byte() {
    let test = "the_blocks_of_netbenches_byte_for_byte";
    let Some(archive) = netbenches(test) else { return };
    if reproduce_blocks(&archive) == 0 {
        skipped(test, "no ministat block of the archive has its data there");
    }
}

/// Rows of `gnuplot.data` are median, minimum and maximum of a `.pps` file beside it, whose name
/// they need not have.
#[test]
fn the_rows_of_netbenches_are_vitals() {
    let Some(archive) = netbenches("the_rows_of_netbenches_are_vitals") else { return };
    let mut count = 0;
    for path in files(&archive).iter().filter(|path| path.ends_with("gnuplot.data")) {
        let dir = path.parent().expect("a file is somewhere");
        let beside = files(dir);
        let mut known = Vec::new();
        for pps in beside.iter().filter(|path| has_extension(path, &["pps"])) {
            let name = pps.to_str().expect("the archive's names are text");
            let line = stdout(&ministat(dir, &["-qn", name], ""));
            let fields: Vec<&str> = line.split_whitespace().collect();
            known.push([fields[4], fields[2], fields[3]].map(str::to_owned));
        }
        let text = fs::read_to_string(path).expect("readable");
        for row in text.lines().filter(|row| !row.starts_with('#')) {
            let fields: Vec<&str> = row.split_whitespace().collect();
            let [_, median, min, max] = fields[..] else { continue };
            count += 1;
            let found = known.iter().any(|vitals| vitals[..] == [median, min, max]);
            let exception = is_exception(&archive, path, row);
            assert!(found != exception, "{}: `{row}`, {exception}", path.display());
        }
    }
    assert!(count > 0, "{} has no gnuplot.data with rows", archive.display());
}

/// True if Debian's version is there to compare with; says so if not.
fn has_debian(test: &str) -> bool {
    let there = Path::new(DEBIAN).exists() && Path::new("/etc/debian_version").exists();
    if !there {
        skipped(test, "Debian's /usr/bin/ministat is not installed");
    }
    there
}

/// The same words and input for Debian's package and `--compat=2015`: everything must be equal.
#[track_caller]
fn same_as_debian(dir: &Path, arguments: &[&str], input: &str) {
    let theirs = feed(Command::new(DEBIAN).args(arguments).current_dir(dir), input);
    let mut words = vec!["--compat=2015"];
    words.extend(arguments);
    let ours = ministat(dir, &words, input);
    assert_eq!(stdout(&ours), stdout(&theirs), "{arguments:?} {input:?}");
    // Debian's program names itself by the word that it was called by.
    let expected = stderr(&theirs).replace(&format!("{DEBIAN}: "), "ministat: ");
    assert_eq!(stderr(&ours), expected, "{arguments:?} {input:?}");
    assert_eq!(ours.status.code(), theirs.status.code(), "{arguments:?} {input:?}");
}

#[test]
fn the_archive_as_debian_prints_it() {
    let test = "the_archive_as_debian_prints_it";
    let Some(archive) = netbenches(test).filter(|_| has_debian(test)) else { return };
    let files = files(&archive);
    let pps: Vec<&str> = files
        .iter()
        .filter(|path| has_extension(path, &["pps"]))
        .map(|path| path.to_str().expect("the archive's names are text"))
        .collect();
    assert!(!pps.is_empty(), "{} has no .pps files", archive.display());
    for sets in pps.chunks(7) {
        same_as_debian(&archive, sets, "");
        same_as_debian(&archive, &[&["-s", "-w", "50", "-c", "99.5"], sets].concat(), "");
    }
}

#[test]
fn words_and_refusals_as_debian_has_them() {
    if !has_debian("words_and_refusals_as_debian_has_them") {
        return;
    }
    let dir = project_archive();
    for arguments in [
        &["nothing-here"][..],
        &["few.txt", "nothing-here"],
        &["nothing-here", "few.txt"],
        &["columns.txt"],
        &["-C", "2", "columns.txt"],
        &["-C", "3", "-d", "\t", "columns.txt"],
        &["-C", "4", "columns.txt"],
        &["-C2", "-d,;", "separated.txt"],
        &["-C", "2x", "a.pps"],
        &["-C", "0", "a.pps"],
        &["-C", "", "a.pps"],
        &["-C", "99999999999999999999", "a.pps"],
        &["-c", "foo", "a.pps"],
        &["-c", "97", "a.pps"],
        &["-c", "97", "-c", "95", "a.pps"],
        &["-c", "80", "-c", "97", "a.pps", "b.pps"],
        &["-d", "", "a.pps"],
        &["-w", "x", "a.pps"],
        &["-w", "-3", "a.pps"],
        &["-w", "2", "a.pps"],
        &["-x", "a.pps"],
        &["-q", "a.pps"],
        &["-w"],
        &["a.pps"; 8],
        &["a.pps", "-n"],
        &["a.pps", "--", "b.pps"],
        &["-nsw30", "a.pps", "b.pps"],
        &["-A", "b.pps", "-"],
        &["-n", "-w", "100000000", "a.pps"],
        &["."],
    ] {
        same_as_debian(&dir, arguments, "3\n1\n4\n1\n");
    }
    for input in ["1\r\n2 \n3\t", "", "1\n2\n", "#\n\n1 # 2\n2\n3", "1\n2\nx\n", "0x10\n.5\n1e3\n"]
    {
        same_as_debian(&dir, &[], input);
        same_as_debian(&dir, &["-A", "-"], input);
    }
}

#[test]
fn standard_input_and_both_names() {
    let dir = project_archive();
    let numbers = "3\n1\n4\n1\n5\n";
    let row = "x   5             1             5             3           2.8     1.7888544\n";
    let output = ministat(&dir, &["-A"], numbers);
    assert_exit(&output, 0);
    assert!(stdout(&output).starts_with("x <stdin>\n    N  "), "{}", stdout(&output));
    assert!(stdout(&ministat(&dir, &["-n", "-"], numbers)).starts_with("x -\n"));
    assert_eq!(stdout(&ministat(&dir, &["-qn"], numbers)), row);

    let scratch = tempfile::tempdir().expect("a temporary directory");
    let link = scratch.path().join("ministat");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("a link can be made");
    assert_eq!(stdout(&feed(Command::new(&link).arg("-qn"), numbers)), row);
    let output = feed(Command::new(&link).args(["--", "-n"]).current_dir(&dir), "");
    assert_eq!(stderr(&output), "ministat: Cannot open -n: No such file or directory\n");
    let both = [ministat(&dir, &["--", "-n"], ""), output].map(|output| stderr(&output));
    assert_eq!(both[0], both[1]);
}

#[test]
fn refusals_end_with_two_and_print_nothing_else() {
    let dir = project_archive();
    for (arguments, input, expected) in [
        (&["nothing"][..], "", "ministat: Cannot open nothing: No such file or directory\n"),
        // All files are opened before one is read.
        (&["few.txt", "nothing"], "", "ministat: Cannot open nothing: No such file or directory\n"),
        (&["a.pps", "few.txt"], "", "Dataset few.txt must contain at least 3 data points\n"),
        (&["a.pps", "-n"], "", "ministat: Cannot open -n: No such file or directory\n"),
        (&["-C", "2", "columns.txt"], "", "ministat: Invalid data on line 3 in columns.txt\n"),
        (&[], "", "Dataset <stdin> must contain at least 3 data points\n"),
        (&["-"], "1\nx\n", "ministat: Invalid data on line 2 in -\n"),
        (&["."], "", "Dataset . must contain at least 3 data points\n"),
        (&[], "1\n2\ninf\n", "ministat: Value on line 3 in <stdin> is not a finite number\n"),
        (&["-w", "1", "a.pps"], "", "ministat: a plot cannot be 1 columns wide: give 2 to 10000\n"),
    ] {
        let output = ministat(&dir, arguments, input);
        assert_eq!(stderr(&output), expected, "{arguments:?}");
        assert_exit(&output, 2);
        assert_eq!(stdout(&output), "");
    }
    let long = format!("1\n{}\n", "9".repeat(10_000_000));
    let output = ministat(&dir, &[], &long);
    assert_eq!(stderr(&output), "ministat: Line 2 in <stdin> is longer than 1023 bytes\n");
    assert_exit(&output, 2);
}
