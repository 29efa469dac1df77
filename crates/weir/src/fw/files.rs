//! The files of a ruleset: the first one, and those that it names.
//!
//! pfctl looks for them from the working directory, wherever the file is that names them. So does
//! this; a relative path that is not there is then looked for beside the file that names it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use weir_rules::limits::Limits;
use weir_rules::source::SourceProvider;

/// What standard input is called on the command line.
const STANDARD_INPUT: &str = "-";

/// Files of this machine, and where those were that were found beside another.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    beside: RefCell<HashMap<String, PathBuf>>,
}

impl SourceProvider for Disk {
    fn read(&self, path: &str, from: &str) -> Result<Vec<u8>, String> {
        match read(Path::new(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut found = self.beside.borrow_mut();
                let from = found.get(from).map_or(Path::new(from), PathBuf::as_path);
                let other = beside(path, from).ok_or_else(|| message(&error))?;
                let bytes = read(&other).map_err(|_| message(&error))?;
                found.insert(path.to_owned(), other);
                Ok(bytes)
            }
            result => result.map_err(|error| message(&error)),
        }
    }
}

/// The path beside the file that names it, if that is another one.
fn beside(path: &str, from: &Path) -> Option<PathBuf> {
    let directory = from.parent()?;
    let is_other = Path::new(path).is_relative() && !directory.as_os_str().is_empty();
    is_other.then(|| directory.join(path))
}

/// Reads the first file of a ruleset: its name in messages, as pfctl's, and its bytes.
pub(crate) fn first(path: &Path) -> Result<(String, Vec<u8>), String> {
    let is_input = path == Path::new(STANDARD_INPUT);
    let bytes = if is_input { limited(io::stdin().lock()) } else { read(path) };
    let name = if is_input { "stdin".to_owned() } else { path.display().to_string() };
    bytes.map(|bytes| (name, bytes)).map_err(|error| message(&error))
}

/// Reads a file, but no more of it than a ruleset may have.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    limited(File::open(path)?)
}

/// All bytes, and one more than a ruleset may have at most: `weir-rules` refuses that then.
fn limited(source: impl Read) -> io::Result<Vec<u8>> {
    let size_bytes_max = u64::try_from(Limits::default().source_size_bytes_max).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    source.take(size_bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The system's words for an error, without its number.
pub(crate) fn message(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_beside_the_one_that_names_them() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("own.table"), "10.0.0.1\n").unwrap();
        let from = dir.path().join("pf.conf").display().to_string();
        let disk = Disk::default();
        assert_eq!(disk.read("own.table", &from).unwrap(), b"10.0.0.1\n");
        assert_eq!(disk.read("other.table", &from).unwrap_err(), "No such file or directory");
        assert_eq!(beside("a", Path::new("pf.conf")), None);
        assert_eq!(beside("/a", Path::new("/etc/pf.conf")), None);
        assert_eq!(beside("a", Path::new("/etc/pf.conf")), Some(PathBuf::from("/etc/a")));
        // A file that was found so may name another one beside itself.
        std::fs::create_dir(dir.path().join("more")).unwrap();
        std::fs::write(dir.path().join("more/first.conf"), "include \"second.conf\"\n").unwrap();
        std::fs::write(dir.path().join("more/second.conf"), "pass\n").unwrap();
        disk.read("more/first.conf", &from).unwrap();
        assert_eq!(disk.read("second.conf", "more/first.conf").unwrap(), b"pass\n");
    }
}
