//! What a weir that was killed has left: directories with the sockets of its SSH masters.
//!
//! The masters end by themselves; their directories are removed by the next start. A directory is
//! told by the process id in its name, and one whose process lives is never touched.

use std::fs;
use std::path::Path;

use super::CONTROL_PREFIX;

/// Removes the directories of processes that are gone.
pub(super) fn remove(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| is_left(name, CONTROL_PREFIX)) {
            // Somebody else's stays: it cannot be removed, and need not be.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Whether `<prefix><process id>-…` is of a process that is gone.
pub(super) fn is_left(name: &str, prefix: &str) -> bool {
    let owner = name.strip_prefix(prefix).and_then(|rest| rest.split('-').next());
    let owner = owner.and_then(|pid| pid.parse::<u32>().ok());
    owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_owns_is_left() {
        let (running, gone) = (std::process::id(), 4_194_305);
        assert!(is_left(&format!("weir-ssh-{gone}-abc"), "weir-ssh-"));
        assert!(!is_left(&format!("weir-ssh-{running}-abc"), "weir-ssh-"));
        assert!(!is_left("weir-ssh-x-abc", "weir-ssh-"));
        assert!(!is_left(&format!("other-{gone}-abc"), "weir-ssh-"));
        let dir = tempfile::tempdir().unwrap();
        let paths = [gone, running].map(|pid| dir.path().join(format!("{CONTROL_PREFIX}{pid}-a")));
        for path in &paths {
            fs::create_dir(path).unwrap();
        }
        remove(dir.path());
        assert_eq!(paths.map(|path| path.exists()), [false, true]);
    }
}
