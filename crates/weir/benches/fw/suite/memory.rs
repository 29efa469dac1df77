//! Memory as the system counts it: what a control group is charged for, the kernel's included.
//!
//! A firewall's memory is its process's, and that of its programs and maps, which belongs to no
//! process. The kernel charges both to the group of the process that made them
//! (cgroup-v1/memory.rst and cgroup-v2.rst in its tree).
//! What it also charges, pages of files that it can read again (the program's own), is not counted:
//! whoever read the file first is charged for them, and they go when memory is wanted.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use weir_machine::ssh;

use super::Result;

/// Where a group can be made, and the file with what it is charged for, in bytes.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.usage_in_bytes"), ("/sys/fs/cgroup", "memory.current")];

/// How often, and how long apart, it is tried to remove a group.
const REMOVAL_TRIES: u32 = 30;
const REMOVAL_PAUSE: Duration = Duration::from_millis(100);

/// A group of its own; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    usage: &'static str,
    /// Runs a program in the group.
    wrapper: tempfile::TempPath,
}

impl Group {
    /// Makes one for `program`.
    pub(crate) fn new(program: &Path) -> Result<Self> {
        // The group before may be there still: the kernel frees what a program had in its own time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weirbench{}n{number}", std::process::id());
        let (directory, usage) = HIERARCHIES
            .into_iter()
            .map(|(hierarchy, usage)| (Path::new(hierarchy).join(&name), usage))
            .find(|(directory, usage)| {
                let there = fs::create_dir(directory).is_ok() && directory.join(usage).exists();
                if !there {
                    // What does not count memory is of no use.
                    let _ = fs::remove_dir(directory);
                }
                there
            })
            .ok_or("no control group counts memory here: mount the controller `memory`")?;
        let mut file = tempfile::Builder::new().prefix("weirbench").tempfile()?;
        let quoted = |path: &Path| ssh::quote(&path.display().to_string());
        write!(
            file,
            "#!/bin/sh\necho $$ >{} || exit\nexec {} \"$@\"\n",
            quoted(&seen_from_here(&directory.join("cgroup.procs"))),
            quoted(program)
        )?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o700))?;
        Ok(Self { directory, usage, wrapper: file.into_temp_path() })
    }

    /// The program, in the group.
    pub(crate) fn program(&self) -> &Path {
        &self.wrapper
    }

    /// What the group is charged for, without pages of files, bytes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let text = fs::read_to_string(self.directory.join(self.usage))?;
        let charged: u64 = text.trim().parse()?;
        let statistics = fs::read_to_string(self.directory.join("memory.stat"))?;
        let mut file_bytes = 0;
        for kind in ["inactive_file ", "active_file "] {
            let found = statistics.lines().find_map(|line| line.strip_prefix(kind));
            let bytes = found.ok_or_else(|| format!("memory.stat has no {kind}"))?;
            file_bytes += bytes.trim().parse::<u64>()?;
        }
        Ok(charged.saturating_sub(file_bytes))
    }
}

/// A path that leads there from any namespace of mounts: that of a network namespace's processes
/// has another `/sys`.
fn seen_from_here(path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", std::process::id()));
    root.join(path.strip_prefix("/").unwrap_or(path))
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes go with their namespace, a moment later.
        for _ in 0..REMOVAL_TRIES {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            thread::sleep(REMOVAL_PAUSE);
        }
    }
}
