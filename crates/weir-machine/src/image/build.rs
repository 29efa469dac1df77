//! Running the programs that build an image: their progress, their end, and what they leave.
//!
//! Every program runs in a process group of its own and is ended with it when somebody asks to
//! stop. What they make is in one folder, which is removed whatever happens; a folder that a
//! killed build has left is removed by the next one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, io};

use weir_net::process::{self, Invocation};

use super::{About, ImageError, beside};
use crate::cancel::Cancel;
use crate::capped_log::CappedLog;

/// How often a running program is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a program may take to clean up when it is asked to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long a pair of keys may take.
const KEYGEN_TIMEOUT: Duration = Duration::from_secs(60);
/// How many lines of a failed program's output are shown.
const LINES_SHOWN: usize = 6;

/// Programs that builds need, and their Debian packages.
const TOOLS: [(&str, &str); 5] = [
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("ssh-keygen", "openssh-client"),
    ("qemu-img", "qemu-utils"),
    ("qemu-system-x86_64", "qemu-system-x86"),
];

/// Refuses to begin without one of these programs.
pub(super) fn check_tools(needed: &[&str]) -> Result<(), ImageError> {
    let lacks = |(name, _): &&(&str, &str)| needed.contains(name) && find(name).is_none();
    let missing: Vec<&str> = TOOLS.iter().filter(lacks).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ImageError::new(format!(
        "programs to build an image with are missing: apt-get install {}",
        missing.join(" ")
    )))
}

/// A program in the usual folders.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let folders = std::env::split_paths(&path).chain(usual.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The standard output of a short command that has to succeed.
pub(super) fn output(command: &Invocation, timeout: Duration) -> Result<String, ImageError> {
    let output = process::run(command, timeout).map_err(ImageError::new)?;
    Ok(output.check().map_err(ImageError::new)?.text())
}

/// Refuses to take a name that something else has: without `replace` any of the names, with it
/// those beside the disk that no earlier build has made. `names` has the disk last.
pub(super) fn check_names(
    out: &Path,
    names: impl IntoIterator<Item = PathBuf>,
    replace: bool,
) -> Result<(), ImageError> {
    if out.file_name().is_none() || out.is_dir() {
        let out = out.display();
        return Err(ImageError::new(format!("{out} does not name a file: write --out FILE.qcow2")));
    }
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let taken: Vec<PathBuf> = names.into_iter().filter(is_there).collect();
    let Some(first) = taken.first() else { return Ok(()) };
    if !replace {
        let shown = if taken.iter().any(|path| path == out) { out } else { first };
        return Err(ImageError::new(format!(
            "{} exists already: choose another name, or replace an image with --force",
            shown.display()
        )));
    }
    // A disk alone is what --force names.
    if taken == [out.to_owned()] || About::of(out).is_ok_and(|about| about.built.is_some()) {
        return Ok(());
    }
    Err(ImageError::new(format!(
        "{} is not an image that weir lab image built, so --force does not replace it: choose \
         another name, or remove it",
        first.display()
    )))
}

/// Makes a pair of keys: a file, and the public one beside it.
pub(super) fn keygen(
    building: &mut Building<'_>,
    path: &Path,
    comment: &str,
) -> Result<(), ImageError> {
    let path = path.to_string_lossy().into_owned();
    let keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", &path];
    let advice = "look at the disk's free space";
    building.run(&Invocation::program(keygen), KEYGEN_TIMEOUT, advice)
}

/// A build under way.
pub(super) struct Building<'a> {
    pub(super) cancel: &'a Cancel,
    pub(super) tell: &'a mut dyn FnMut(&str),
}

impl Building<'_> {
    pub(super) fn step(&mut self, what: &str) {
        (self.tell)(what);
    }

    /// Runs a program to its end.
    pub(super) fn run(
        &mut self,
        command: &Invocation,
        timeout: Duration,
        advice: &str,
    ) -> Result<(), ImageError> {
        self.follow(command, timeout, advice, |_| None)
    }

    /// The same, and tells the steps that it prints: mmdebstrap's lines that begin with `I: `.
    pub(super) fn run_with_steps(
        &mut self,
        command: &Invocation,
        timeout: Duration,
        advice: &str,
    ) -> Result<(), ImageError> {
        self.follow(command, timeout, advice, |line| {
            line.strip_prefix("I: ").filter(|step| !step.starts_with("running --"))
        })
    }

    fn follow(
        &mut self,
        command: &Invocation,
        timeout: Duration,
        advice: &str,
        step_of: impl Fn(&str) -> Option<&str>,
    ) -> Result<(), ImageError> {
        let (lines, heard) = mpsc::channel();
        let mut begun = Vec::new();
        let watch = move |chunk: &[u8]| {
            begun.extend_from_slice(chunk);
            while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = begun.drain(..=end).collect();
                // Nobody listens any more: the build has ended.
                drop(lines.send(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
        };
        let (log, out, err) = CappedLog::open_watched(watch)
            .map_err(|error| ImageError::new(format!("cannot open a pipe: {error}")))?;
        let running = process::spawn(command, out, err).map_err(ImageError::new)?;
        let deadline = Instant::now() + timeout;
        let status = loop {
            for line in heard.try_iter() {
                if let Some(step) = step_of(&line) {
                    (self.tell)(step);
                }
            }
            if let Some(status) = running.try_wait().map_err(ImageError::new)? {
                break status;
            }
            let is_late = Instant::now() >= deadline;
            if is_late || !self.cancel.sleep(TICK) {
                running.stop(STOP_PATIENCE).map_err(ImageError::new)?;
                return Err(match self.cancel.signal() {
                    Some(signal) => ImageError::Cancelled(signal),
                    None => ImageError::new(format!("`{command}` did not end in {timeout:?}")),
                });
            }
        };
        drop(running);
        if status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&log.take()).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n  ");
        let program = command.to_string();
        let program =
            program.split_whitespace().find(|word| !["unshare", "--mount"].contains(word));
        Err(ImageError::new(format!(
            "{} failed ({status}): {advice}\n  {last}",
            program.unwrap_or_default()
        )))
    }
}

/// The folder that an image is made in.
#[derive(Debug)]
pub(super) struct WorkDir(PathBuf);

impl WorkDir {
    /// Makes one beside `out`, and removes those that killed builds of it have left.
    pub(super) fn beside(out: &Path) -> Result<Self, ImageError> {
        let parent = match out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        if !parent.is_dir() {
            fs::create_dir(parent).map_err(|error| ImageError::file("make", parent, &error))?;
        }
        let parent =
            fs::canonicalize(parent).map_err(|error| ImageError::file("find", parent, &error))?;
        let name = beside(out, "building-");
        let prefix = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(&prefix));
            let is_dead = owner.is_some_and(|pid| {
                pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
            });
            if is_dead {
                drop(fs::remove_dir_all(entry.path()));
            }
        }
        let path = parent.join(format!("{prefix}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| ImageError::file("make", &path, &error))?;
        Ok(Self(path))
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, with the folders that it needs.
    pub(super) fn write(&self, name: &str, mode: u32, content: &str) -> Result<(), ImageError> {
        let path = self.join(name);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.0))?;
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
        };
        write().map_err(|error| ImageError::file("write", &path, &error))
    }

    /// Gives files their names, the last one last; with `replace`, those that have them go away
    /// before, the last one first. All of that or nothing: what fails is undone.
    pub(super) fn place_all(
        &self,
        files: &[(&str, PathBuf)],
        replace: bool,
    ) -> Result<(), ImageError> {
        let failed = |path: &Path, error| ImageError::file("make", path, &error);
        let old = self.join("old");
        fs::create_dir(&old).map_err(|error| failed(&old, error))?;
        // What is to be renamed back, in this order: from where, to where.
        let mut undo: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut place = || {
            for (name, path) in files.iter().rev() {
                match (path.symlink_metadata(), replace) {
                    (Err(error), _) if error.kind() == io::ErrorKind::NotFound => continue,
                    (Err(error), _) => return Err(failed(path, error)),
                    (Ok(_), false) => {
                        return Err(failed(path, io::ErrorKind::AlreadyExists.into()));
                    }
                    (Ok(_), true) => {}
                }
                let away = old.join(name);
                fs::rename(path, &away).map_err(|error| failed(path, error))?;
                undo.push((away, path.clone()));
            }
            for (name, path) in files {
                let made = self.join(name);
                fs::rename(&made, path).map_err(|error| failed(path, error))?;
                undo.push((path.clone(), made));
            }
            Ok(())
        };
        let placed = place();
        if placed.is_err() {
            for (from, to) in undo.iter().rev() {
                // What cannot be put back is where it is; the first error is told.
                drop(fs::rename(from, to));
            }
        }
        placed
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // What cannot be removed is, by the next build.
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_build_has_left_is_removed_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("dut.raw");
        let [dead, alive, other] = ["dut.raw.building-4194305", "dut.raw.building-1", "dut.raw.x"]
            .map(|name| dir.path().join(name));
        for path in [&dead, &alive, &other] {
            fs::create_dir(path).unwrap();
        }
        let work = WorkDir::beside(&out).unwrap();
        assert!(!dead.exists() && alive.exists() && other.exists());
        work.write("a/b", 0o600, "text").unwrap();
        work.place_all(&[("a/b", out.clone())], false).unwrap();
        let unfinished = work.join("");
        drop(work);
        assert_eq!(
            (unfinished.exists(), fs::read_to_string(&out).unwrap().as_str()),
            (false, "text")
        );
    }

    #[test]
    fn files_get_their_names_together_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (out, key) = (dir.path().join("dut"), dir.path().join("dut.key"));
        let read = |path: &Path| fs::read_to_string(path).ok();
        let names = [("key", key.clone()), ("disk", out.clone())];
        let both = || (read(&key), read(&out));
        let old = (Some("old key".to_owned()), Some("old disk".to_owned()));
        fs::write(&key, "old key").unwrap();
        fs::write(&out, "old disk").unwrap();
        // The disk was never made: the key has had its name by then.
        let work = WorkDir::beside(&out).unwrap();
        work.write("key", 0o600, "new key").unwrap();
        let error = work.place_all(&names, true).unwrap_err().to_string();
        assert!(error.contains("dut") && error.contains("No such file"), "{error}");
        assert_eq!(both(), old);
        drop(work);
        // Somebody took a name while the image was built.
        let work = WorkDir::beside(&out).unwrap();
        work.write("key", 0o600, "new key").unwrap();
        work.write("disk", 0o600, "new disk").unwrap();
        assert!(work.place_all(&names, false).unwrap_err().to_string().contains("exists"));
        assert_eq!(both(), old);
        drop(work);
        let work = WorkDir::beside(&out).unwrap();
        work.write("key", 0o600, "new key").unwrap();
        work.write("disk", 0o600, "new disk").unwrap();
        work.place_all(&names, true).unwrap();
        drop(work);
        assert_eq!(both(), (Some("new key".to_owned()), Some("new disk".to_owned())));
    }

    #[test]
    fn steps_are_told_and_a_failure_says_what_the_program_said() {
        let cancel = Cancel::default();
        let mut steps = Vec::new();
        let mut tell = |line: &str| steps.push(line.to_owned());
        let mut building = Building { cancel: &cancel, tell: &mut tell };
        let script = "echo 'I: one' >&2; echo two; echo 'E: no such package' >&2; exit 7";
        let command = Invocation::program(["sh", "-c", script]);
        let error = building.run_with_steps(&command, Duration::from_secs(60), "look").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("look") && error.contains("E: no such package"), "{error}");
        assert!(error.contains("exit status: 7"), "{error}");
        cancel.request(2);
        let mut building = Building { cancel: &cancel, tell: &mut tell };
        let command = Invocation::program(["sleep", "1000"]);
        let error = building.run(&command, Duration::from_secs(60), "").unwrap_err();
        assert!(matches!(error, ImageError::Cancelled(2)), "{error}");
    }
}
