//! The fuzz targets without a fuzzer: over the committed corpus, over the fixtures, and over seeded
//! changes of both. `WEIR_FUZZ_ROUNDS` makes it longer, `WEIR_FUZZ_SEED` different; cargo-fuzz
//! (CONTRIBUTING.md) goes deeper.

#[path = "../../../../fuzz/targets.rs"]
mod targets;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;
use weir_rules::{Dialect, compile};
use weir_wire::random::splitmix64;

/// Changed inputs for each file, unless the environment says more.
const ROUNDS: u64 = 12;
const SEED: u64 = 0x7765_6972;

/// Words that changes put in: of the language, and of what breaks readers.
const WORDS: &[&[u8]] = &[
    b"pass ",
    b"block ",
    b" quick",
    b" on em0",
    b" { ",
    b" } ",
    b", ",
    b"! ",
    b"\n",
    b"\\\n",
    b"\"",
    b"$a",
    b"$fixed ",
    b"a = ",
    b"<t>",
    b" port ",
    b":",
    b" to ",
    b" from ",
    b"anchor {\n",
    b"}\n",
    b"include \"loop\"\n",
    b"include \"part\"\n",
    b"99999999999999999999",
    b"-1",
    b"0",
    b"/128",
    b"\xff",
    b"\x00",
    b"\xc3\xa9",
    b"#",
    b" -> ",
    b"(",
    b")",
    b" nat-to ",
    b" keep state (",
    b" label \"",
    b"table <t> file \"table\"\n",
    b"set ",
    b" 2001:db8::1 ",
    b"\r\n",
    b"%",
    b"@",
    b" user ",
    b" os ",
    b":S4",
    b",T0",
];

#[test]
fn rulesets_are_read_or_refused() {
    run(targets::ruleset, &["fuzz/corpus/ruleset", "crates/weir-rules/tests/fixtures"], "conf");
}

#[test]
fn packets_are_read_or_refused() {
    run(targets::packet, &["fuzz/corpus/packet"], "");
}

#[test]
fn fingerprints_are_read_or_refused() {
    run(targets::fingerprints, &["fuzz/corpus/fingerprints"], "");
}

/// Calls a target with each file (of this extension), and with changes of it.
fn run(target: fn(&[u8]), directories: &[&str], extension: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for directory in directories {
        find(&root.join(directory), extension, &mut files);
    }
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let inputs: Vec<Vec<u8>> =
        files.iter().map(|path| fs::read(path).expect("it is read")).collect();
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    };
    let (rounds, seed) = (number("WEIR_FUZZ_ROUNDS", ROUNDS), number("WEIR_FUZZ_SEED", SEED));
    for (file, input) in files.iter().zip(&inputs) {
        for round in 0..=rounds {
            let mut random = Random { seed: seed ^ hash(file, &root), count: round << 32 };
            let bytes =
                if round == 0 { input.clone() } else { changed(input, &inputs, &mut random) };
            if catch_unwind(|| target(&bytes)).is_err() {
                let path = std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id()));
                fs::write(&path, &bytes).expect("it is written");
                panic!("{}, round {round} of seed {seed}: see {}", file.display(), path.display());
            }
        }
    }
}

fn find(directory: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{directory:?}: {error}"));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            find(&path, extension, files);
        } else if extension.is_empty() || path.extension().is_some_and(|ending| ending == extension)
        {
            files.push(path);
        }
    }
}

/// A number for a file that is the same wherever the repository is.
fn hash(file: &Path, root: &Path) -> u64 {
    let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
    name.bytes().fold(0, |hash, byte| splitmix64(hash, u64::from(byte)))
}

struct Random {
    seed: u64,
    count: u64,
}

impl Random {
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.count += 1;
        let bound = u64::try_from(bound).expect("64 bits");
        usize::try_from(splitmix64(self.seed, self.count) % bound).expect("64 bits")
    }
}

/// One to four changes: bytes flipped, words put in, pieces taken out, repeated, or taken from
/// another input.
fn changed(input: &[u8], inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below((bytes.len() - at).min(64) + 1);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].repeat(1 + random.below(4));
                bytes.splice(at..at, piece);
            }
            4 => {
                let other = &inputs[random.below(inputs.len())];
                let from = random.below(other.len() + 1);
                let to = from + random.below((other.len() - from).min(200) + 1);
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            _ => {
                let word = WORDS[random.below(WORDS.len())];
                bytes.splice(at..at, word.iter().copied());
            }
        }
    }
    bytes
}

/// The limit of address space for the inputs below, KiB. The test's own code and stacks are in it.
const MEMORY_KIB: u32 = 512 * 1024;

/// Small inputs that ask for much: refused at the limits of the command line, in little memory.
#[test]
fn small_inputs_do_not_take_much_memory() {
    let binary = std::env::current_exe().expect("the test binary");
    let script =
        format!("ulimit -v {MEMORY_KIB}; exec \"$0\" --exact --ignored fuzz::under_the_limit");
    let output = Command::new("sh").args(["-c", &script]).arg(binary).output().expect("sh runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {printed}{errors}", output.status);
    assert!(printed.contains("1 passed"), "{printed}");
}

#[test]
#[ignore = "it is run by the test above, under a limit of memory"]
fn under_the_limit() {
    let list = |first: u8, count: u16| {
        let hosts = (0..count).map(|host| format!("10.{first}.{}.{}", host >> 8, host & 255));
        format!("{{ {} }}", hosts.collect::<Vec<_>>().join(" "))
    };
    let doubling = |value: &str| {
        let lines = (1..64).map(|number| format!("m{number} = $m{0} $m{0}\n", number - 1));
        format!("m0 = {value}\n{}pass from {{ $m63 }}\n", lines.collect::<String>())
    };
    let files = MemorySources::default()
        .with("loop", "include \"loop\"\n")
        .with("wide", "include \"wide2\"\n".repeat(1000))
        .with("wide2", "include \"wide3\"\n".repeat(1000))
        .with("wide3", "pass\n".repeat(10));
    for (text, part) in [
        (
            format!("pass from {} to {}\n", list(0, 1001), list(1, 1000)),
            "limit of 1000000: 1001 sources × 1000 destinations = 1001000 rules, after 0 before",
        ),
        ("pass from { ".to_owned() + &"{ ".repeat(100_000), "nested deeper than 64"),
        ("anchor {\n".repeat(100_000), "nested deeper than 64"),
        (doubling("10.0.0.1"), "macros expand to more than"),
        ("a = \"$b\"\nb = \"$a\"\npass on $a\n".to_owned(), "refers to itself: a -> b -> a"),
        ("include \"loop\"\n".to_owned(), "`loop` includes itself: pf.conf -> loop -> loop"),
        ("include \"wide\"\n".to_owned(), "more than 1024 files are read"),
        ("pas\n".repeat(100_000), "no statement begins with `pas`"),
        ("x".repeat(1_000_000), "longer than 8096 bytes"),
    ] {
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(Dialect::OpenBsd),
            macros: &[],
            provider: &files,
            limits: Limits::default(),
        };
        let compiled = compile(input, &Facts::new());
        let mut messages = compiled.diagnostics.iter().map(|diagnostic| &diagnostic.message);
        let first = messages.next();
        let is_named =
            compiled.diagnostics.iter().any(|diagnostic| diagnostic.message.contains(part));
        assert!(is_named, "{part}: {first:?}");
        assert!(compiled.diagnostics.len() <= Limits::default().diagnostic_count_max);
    }
}
