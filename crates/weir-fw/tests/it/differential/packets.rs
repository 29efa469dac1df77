//! The packet tests of weir-rules on the data path.

use std::path::{Path, PathBuf};

use weir_oracle::format::{StepKind, TestFile};
use weir_oracle::runner;

use super::device::DataPath;
use super::oracle::without_abort;
use super::with_data_path;

/// How often a test is run again if the clock went on inside a run.
const TRY_COUNT: usize = 5;

fn files() -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-oracle/tests/packets");
    let entries = std::fs::read_dir(path).expect("packet tests are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it is read").path()).collect();
    files.sort();
    files
}

/// What a file expects, with the data path's own choices: see the module `oracle`.
fn read(path: &Path) -> TestFile {
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).expect("it can be read");
    let mut test = TestFile::parse(&name, &text).expect("it is a packet test");
    for step in &mut test.steps {
        let StepKind::Packet(packet) = &mut step.kind else { continue };
        without_abort(&mut packet.outcome);
    }
    test
}

/// All differences of a file, a line each.
fn differences(test: &TestFile, device: &mut DataPath) -> Vec<String> {
    let mut lines = Vec::new();
    for count in 0..TRY_COUNT {
        device.is_careful = count > 0;
        let found = runner::run(test, device);
        lines = found.iter().map(ToString::to_string).collect();
        if lines.is_empty() || !device.has_slipped {
            break;
        }
    }
    lines
}

fn pass_all(what: &str, is_in_two_stages: bool) {
    with_data_path(what, |device| {
        if is_in_two_stages {
            device.use_two_stages().expect("the program loads");
        }
        let mut wrong = Vec::new();
        for path in files() {
            let test = read(&path);
            wrong.extend(differences(&test, device));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(device.staged_count() > 0, is_in_two_stages, "whether packets were staged");
    });
}

#[test]
fn the_data_path_passes_all_packet_tests() {
    pass_all("packets", false);
}

#[test]
fn two_stages_pass_all_packet_tests() {
    pass_all("packets-stages", true);
}
