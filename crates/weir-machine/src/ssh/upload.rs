//! A configuration tree onto a machine: carried, kept, and proved to be there.
//!
//! rsync carries it where both ends have it, tar through SSH otherwise. Afterwards the machine
//! computes each file's checksum, because a transfer that was cut off, or that met a full disk, may
//! end with success. A root file system that is read-only (nanobsd) is made writable before and
//! read-only after, also when the upload fails, and what was written is saved: as the specification
//! says, or, on a FreeBSD whose specification says nothing, as nanobsd does it. This module never
//! removes a file of the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use weir_results::dut::{System, Tree, TreeFile};

use super::cksum::cksum;
use super::host::SshHost;
use super::script::quote;
use crate::access::{Upload, UploadMethod};
use crate::host::{Command, Host, HostError, Program};

/// How long a tree may take, on top of what its size takes.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The longest path that every tar reads (POSIX ustar), and the longest of its last part.
const PATH_BYTES_MAX: usize = 255;
/// In rsync's temporary directory: the tree, and the list of its files.
const ROOT: &str = "root";
const LIST: &str = "list";

/// nanobsd's way: what BSDRP and its relatives have. Its root may be writable already, because an
/// upload was cut off; what is not saved is gone with the next start even so.
const NANOBSD_BEFORE: &str = r#"case $(mount -p | awk '$2 == "/" { print $4 }') in
*ro*) mount -uw / && echo nanobsd ;;
*) if [ -e /etc/nanobsd.conf ]; then echo nanobsd; fi ;;
esac"#;
const NANOBSD_SAVE: &str = "if command -v config >/dev/null; then config save; else save_cfg; fi";
const NANOBSD_AFTER: &str = "mount -ur /";

/// Uploads a tree over the root of `host`. `manager` is the machine that weir runs on.
pub(super) fn upload(
    host: &SshHost,
    manager: &SshHost,
    system: System,
    how: &Upload,
    tree: &Tree,
) -> Result<(), HostError> {
    let job = Job { host, manager, tree, step: format!("uploading {}", describe(tree)) };
    job.check()?;
    let around = job.before(system, how);
    let carried = match &around {
        Ok(_) => job.carry(how.method).and_then(|()| job.verify()),
        Err(_) => Ok(()),
    };
    let (nanobsd, done) = match around {
        Ok(nanobsd) => (nanobsd, carried),
        Err(error) => (false, Err(error)),
    };
    let ended = match &done {
        // Its next start makes its root what it was, or the next upload.
        Err(error) if error.is_gone() => Ok(()),
        _ => job.after(how, nanobsd, done.is_ok()),
    };
    match (done, ended) {
        (Err(first), Err(then)) => {
            let what = format!("{}. And after that: {}", first.what, then.what);
            Err(HostError { what, ..first })
        }
        (done, ended) => done.and(ended),
    }
}

/// For messages: how many files of which folder.
fn describe(tree: &Tree) -> String {
    let size: u64 = tree.files.iter().map(|file| file.content.size_bytes).sum();
    format!("the {} files of {} ({size} bytes)", tree.files.len(), tree.path)
}

struct Job<'a> {
    host: &'a SshHost,
    manager: &'a SshHost,
    tree: &'a Tree,
    step: String,
}

impl Job<'_> {
    fn error(&self, what: impl std::fmt::Display) -> HostError {
        self.host.shared().error(format!("{}: {what}", self.step))
    }

    /// Names the step in an error that does not.
    fn named(&self, error: HostError) -> HostError {
        HostError { what: format!("{}: {}", self.step, error.what), ..error }
    }

    fn check(&self) -> Result<(), HostError> {
        if self.host.remote().ssh.is_none() {
            return Err(self.error(
                "the DUT is the machine that weir runs on, whose files weir does not overwrite; \
                 give the DUT an `ssh` destination",
            ));
        }
        let bad = |path: &str| {
            path.is_empty()
                || path.len() > PATH_BYTES_MAX
                || path.contains('\n')
                || path.split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        if let Some(file) = self.tree.files.iter().find(|file| bad(&file.path)) {
            return Err(self.error(format!("{:?} cannot be a path of a tree", file.path)));
        }
        match self.tree.files.iter().find(|file| file.content.bytes().is_none()) {
            Some(file) => Err(self.error(format!(
                "what {} holds is not known: a record has only its checksum",
                file.path
            ))),
            None => Ok(()),
        }
    }

    /// Makes the root writable; whether it is nanobsd's, and has to be put back.
    fn before(&self, system: System, how: &Upload) -> Result<bool, HostError> {
        if let Some(before) = &how.before {
            self.host.answer("the command before the upload (`before_upload`)", before)?;
            return Ok(false);
        }
        if system != System::Freebsd || how.after.is_some() {
            return Ok(false);
        }
        let said = self.host.answer("making the root writable (`mount -uw /`)", NANOBSD_BEFORE)?;
        Ok(said.contains("nanobsd"))
    }

    /// Puts the root back to what it was, also when nothing was carried; what was is kept over a
    /// reboot.
    fn after(&self, how: &Upload, nanobsd: bool, is_carried: bool) -> Result<(), HostError> {
        if nanobsd {
            let saved = match is_carried {
                true => self
                    .host
                    .answer("saving the configuration (nanobsd: `config save`)", NANOBSD_SAVE)
                    .map(drop),
                false => Ok(()),
            };
            let back = self.host.answer("making the root read-only again", NANOBSD_AFTER);
            saved.and(back.map(drop))?;
        }
        if let Some(after) = &how.after {
            self.host.answer("the command after the upload (`after_upload`)", after)?;
        }
        Ok(())
    }

    fn carry(&self, method: UploadMethod) -> Result<(), HostError> {
        match method {
            UploadMethod::Rsync => self.rsync(),
            UploadMethod::Tar => self.tar(),
            UploadMethod::Auto => {
                let has = |host: &SshHost| {
                    host.question("command -v rsync >/dev/null").map(|output| output.success())
                };
                if has(self.manager)? && has(self.host)? { self.rsync() } else { self.tar() }
            }
        }
    }

    fn tar(&self) -> Result<(), HostError> {
        let archive = archive(self.tree).map_err(|e| self.error(e))?;
        let output = self
            .host
            .feed_bytes("tar -xpf - -C /", &archive, TIMEOUT)
            .map_err(|error| self.named(error))?;
        if output.success() { Ok(()) } else { Err(self.host.failed(&self.step, &output)) }
    }

    fn rsync(&self) -> Result<(), HostError> {
        let dir = tempfile::Builder::new().prefix("weir-tree-").tempdir();
        let dir = dir.map_err(|e| self.error(format!("no temporary directory here: {e}")))?;
        write_tree(self.tree, &dir.path().join(ROOT)).map_err(|e| {
            self.error(format!("cannot write into {} here: {e}", dir.path().display()))
        })?;
        let Some(rsh) = self.host.rsh()? else {
            return Err(self.error("rsync needs an SSH connection"));
        };
        let list = dir.path().join(LIST);
        let paths: String = self.tree.files.iter().map(|file| format!("{}\n", file.path)).collect();
        fs::write(&list, paths).map_err(|e| self.error(format!("{}: {e}", list.display())))?;
        // Whoever logs in owns the files. The checksum decides what is new: the times of a tree
        // that was substituted say nothing. Directories that are there keep their modes.
        let line = format!(
            "rsync --perms --checksum --no-implied-dirs --files-from={} --rsh={} {}/ none:/",
            quote(&list.to_string_lossy()),
            quote(&rsh),
            quote(&dir.path().join(ROOT).to_string_lossy())
        );
        let output = self.manager.run(&Command {
            program: Program::Shell(&line),
            stdin: "",
            timeout: TIMEOUT,
            cancellable: true,
        })?;
        if output.success() {
            return Ok(());
        }
        if output.exit_code == Some(127) {
            return Err(self.error("there is no rsync here: install it, or use method = \"tar\""));
        }
        if !self.host.is_connected() {
            return Err(self.named(self.host.shared().lost(&line, output.said())));
        }
        Err(self.host.failed(&self.step, &output))
    }

    /// Asks the machine for the checksum of each file, and to have them on its disk: its power may
    /// be cut next.
    fn verify(&self) -> Result<(), HostError> {
        let paths: String =
            self.tree.files.iter().map(|file| format!("/{}\n", file.path)).collect();
        let question =
            "while IFS= read -r file; do cksum <\"$file\" 2>/dev/null || echo missing; done; sync";
        let output = self
            .host
            .feed_bytes(question, paths.as_bytes(), TIMEOUT)
            .map_err(|error| self.named(error))?;
        let mut answers = output.stdout.lines();
        for file in &self.tree.files {
            let expected = format!("{} {}", cksum(bytes(file)), file.content.size_bytes);
            let seen = answers.next().unwrap_or("missing").trim();
            if seen == expected {
                continue;
            }
            let size = seen.split(' ').nth(1).unwrap_or("no");
            let room = self.host.question("df -k /").map(|o| o.stdout).unwrap_or_default();
            return Err(self.error(format!(
                "/{} did not arrive as it was sent: {size} of {} bytes, checksum `{seen}`; the \
                 transfer was cut off, the disk is full, or something else writes this file; fix \
                 that and resume. `df -k /` says: {}",
                file.path,
                file.content.size_bytes,
                room.trim().replace('\n', "; ")
            )));
        }
        Ok(())
    }
}

/// A file's content, which [`Job::check`] found to be known.
fn bytes(file: &TreeFile) -> &[u8] {
    file.content.bytes().unwrap_or_default()
}

/// The tree as a tar archive of the form that every system reads; all files are root's.
fn archive(tree: &Tree) -> Result<Vec<u8>, String> {
    let mut builder = tar::Builder::new(Vec::new());
    for file in &tree.files {
        let mut header = tar::Header::new_ustar();
        header
            .set_path(&file.path)
            .map_err(|e| format!("the path {} does not fit into a tar archive: {e}", file.path))?;
        header.set_mode(file.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(file.content.size_bytes);
        // Daemons that compare times see the newest: the time of the upload.
        header.set_mtime(u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0));
        header.set_cksum();
        builder.append(&header, bytes(file)).map_err(|e| e.to_string())?;
    }
    builder.into_inner().map_err(|e| e.to_string())
}

fn write_tree(tree: &Tree, dir: &Path) -> std::io::Result<()> {
    for file in &tree.files {
        let path = dir.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, bytes(file))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_results::content::Content;

    #[test]
    fn an_archive_holds_every_file_as_it_is() {
        let file = |path: &str, mode, text: &str| TreeFile {
            path: path.to_owned(),
            mode,
            content: Content::new(text.as_bytes()),
        };
        let long = format!("usr/{}/{}", "d".repeat(90), "f".repeat(90));
        let files = vec![file("etc/rc.local", 0o755, "#!/bin/sh\n"), file(&long, 0o600, "")];
        let tree = Tree { path: "configs/a".to_owned(), files };
        let bytes = archive(&tree).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let found: Vec<(String, u32, u64)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().to_string_lossy().into_owned();
                (path, header.mode().unwrap(), header.size().unwrap())
            })
            .collect();
        assert_eq!(found, [("etc/rc.local".to_owned(), 0o755, 10), (long, 0o600, 0)]);
    }
}
