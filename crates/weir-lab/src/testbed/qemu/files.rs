//! The files that a machine is started from, looked up before anything is measured.
//!
//! What the specification leaves out is taken from the file beside the image, if there is one. A
//! file that is replaced while a campaign runs is found by its size and times; by what is in it,
//! when the campaign goes on later.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use weir_machine::digest::Reader;
use weir_machine::image::{self, About, DiskFormat, qcow2};
use weir_machine::qemu::Access;
use weir_results::content::sha256;

use crate::material::MaterialFile;
use crate::model::qemu::QemuSpec;
use crate::testbed::TestbedError;

/// The files, all of which are there.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) image: PathBuf,
    pub(super) format: DiskFormat,
    pub(super) kernel: Option<PathBuf>,
    pub(super) initrd: Option<PathBuf>,
    pub(super) append: Option<String>,
    /// The same as the file beside the image says it, if that is where it comes from.
    append_beside: Option<String>,
    user: String,
    pub(super) key: Option<PathBuf>,
    host_key: Option<String>,
    pub(super) console_ready: Option<String>,
    about: About,
}

impl Files {
    pub(super) fn find(spec: &QemuSpec, folder: &Path) -> Result<Self, TestbedError> {
        let image = existing("image", &folder.join(&spec.image))?;
        let about = About::of(&image).map_err(TestbedError::new)?;
        let beside = image.parent().unwrap_or(Path::new(".")).to_owned();
        // A kernel of the user's own does not go with the image's RAM disk and command line.
        let boot = if spec.kernel.is_some() { None } else { Some(&about.boot) };
        let choose = |name: &str, given: &Option<String>, known: Option<&String>| {
            let path = match (given, known) {
                (Some(given), _) => folder.join(given),
                (None, Some(known)) => beside.join(known),
                (None, None) => return Ok(None),
            };
            existing(name, &path).map(Some)
        };
        let format = match spec.format {
            Some(format) => format,
            None => DiskFormat::of(&image).map_err(|error| cannot_read("image", &image, &error))?,
        };
        let append_beside = match &spec.append {
            None => boot.filter(|b| b.kernel.is_some()),
            Some(_) => None,
        };
        let append_beside = append_beside.map(|b| b.append.clone().unwrap_or_default());
        Ok(Self {
            format,
            append_beside,
            kernel: choose("kernel", &spec.kernel, boot.and_then(|b| b.kernel.as_ref()))?,
            initrd: choose("initrd", &spec.initrd, boot.and_then(|b| b.initrd.as_ref()))?,
            append: spec.append.clone().or_else(|| boot.and_then(|b| b.append.clone())),
            user: spec
                .ssh_user
                .clone()
                .or_else(|| about.ssh.user.clone())
                .unwrap_or_else(|| "root".to_owned()),
            key: choose("ssh_key", &spec.ssh_key, about.ssh.key.as_ref())?,
            host_key: spec.ssh_host_key.clone().or_else(|| about.ssh.host_key.clone()),
            console_ready: spec.console_ready.clone().or_else(|| about.console_ready.clone()),
            image,
            about,
        })
    }

    /// Reads every file that the machine is started from, for what it holds, and how each looked
    /// before. The files below an overlay are of them.
    pub(super) fn read(
        &self,
        reader: &Reader<'_>,
    ) -> Result<(Vec<Stamp>, BTreeMap<String, MaterialFile>), TestbedError> {
        let mut all = vec![("image".to_owned(), self.image.clone())];
        if self.format == DiskFormat::Qcow2 {
            let below = qcow2::backing(&self.image);
            let below = below.map_err(|why| TestbedError::new(format!("image: {why}")))?;
            let named = below.into_iter().enumerate();
            all.extend(named.map(|(i, path)| (format!("image, {} below", i + 1), path)));
        }
        let boot = [("kernel", &self.kernel), ("initrd", &self.initrd)];
        let boot = boot.map(|(field, path)| path.as_ref().map(|p| (field.to_owned(), p.clone())));
        all.extend(boot.into_iter().flatten());
        let (mut stamps, mut files) = (Vec::new(), BTreeMap::new());
        for (field, path) in all {
            stamps.push(Stamp::of(&field, &path)?);
            let sha256 =
                reader.sha256(&path).map_err(|error| cannot_read(&field, &path, &error))?;
            files.insert(field, MaterialFile { path: path.to_string_lossy().into_owned(), sha256 });
        }
        if let Some(append) = &self.append_beside {
            let path = image::beside(&self.image, "toml").to_string_lossy().into_owned();
            let line = MaterialFile { path, sha256: sha256(append.as_bytes()) };
            files.insert("append, the kernel's command line,".to_owned(), line);
        }
        Ok((stamps, files))
    }

    /// What is known of the machine's SSH server.
    pub(super) fn access(&self) -> Access<'_> {
        let (key, host_key) = (self.key.as_deref(), self.host_key.as_deref());
        Access { user: &self.user, key, host_key }
    }

    /// What is told of the image in `env.json`.
    pub(super) fn environment(&self) -> Value {
        let metadata = fs::metadata(&self.image).ok();
        let modified = metadata.as_ref().and_then(|m| m.modified().ok());
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        json!({
            "path": self.image,
            "format": self.format,
            "file_size_bytes": metadata.map(|m| m.len()),
            "modified_unix_s": modified.map(|time| time.as_secs()),
            "kernel": self.kernel,
            "append": self.append,
            "built": self.about.built,
        })
    }
}

/// How a file looks from outside.
#[derive(Debug, Clone)]
pub(super) struct Stamp {
    field: String,
    path: PathBuf,
    /// Device, inode, size in bytes, and the time of the last change in seconds and nanoseconds.
    seen: (u64, u64, u64, i64, i64),
}

impl Stamp {
    fn of(field: &str, path: &Path) -> Result<Self, TestbedError> {
        let m = fs::metadata(path).map_err(|error| cannot_read(field, path, &error))?;
        let seen = (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
        Ok(Self { field: field.to_owned(), path: path.to_owned(), seen })
    }

    /// Fails if the file looks different now.
    pub(super) fn check(&self) -> Result<(), TestbedError> {
        let Self { field, path, seen } = self;
        if Self::of(field, path)?.seen == *seen {
            return Ok(());
        }
        Err(TestbedError::new(format!(
            "{field}: {} was replaced or written to while the campaign ran; finished iterations \
             are kept: put the old one back, then `weir lab resume`, or start a new results \
             directory",
            path.display()
        )))
    }
}

fn cannot_read(field: &str, path: &Path, error: &std::io::Error) -> TestbedError {
    TestbedError::new(format!("{field}: cannot read {}: {error}", path.display()))
}

fn existing(field: &str, path: &Path) -> Result<PathBuf, TestbedError> {
    let found = fs::canonicalize(path).map_err(|e| e.to_string()).and_then(|path| {
        if path.is_file() { Ok(path) } else { Err("it is not a file".to_owned()) }
    });
    found.map_err(|why| {
        let advice = match field {
            "image" => "; `sudo weir lab image debian --out FILE` builds one",
            _ => "",
        };
        TestbedError::new(format!("{field}: {}: {why}{advice}", path.display()))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;
    use crate::model::qemu::Setup;
    use weir_machine::qemu::Accel;
    use weir_results::dut::System;

    pub(in crate::testbed::qemu) fn spec(image: &str) -> QemuSpec {
        QemuSpec {
            image: image.to_owned(),
            format: None,
            kernel: None,
            initrd: None,
            append: None,
            memory_bytes: 512 << 20,
            cpus: 1,
            nic: "virtio-net-pci".to_owned(),
            queues: 1,
            accel: Accel::Auto,
            ssh_user: None,
            ssh_key: None,
            ssh_host_key: None,
            ssh_port: 22,
            console_ready: None,
            boot_timeout: Duration::from_secs(60),
            setup: Setup::Linux,
            system: System::Linux,
            profile: false,
            processes: Vec::new(),
            generator_cpus: None,
            dut_cpus: None,
        }
    }

    #[test]
    fn what_the_specification_leaves_out_is_taken_from_beside_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(dir.path()).unwrap();
        for (name, content) in [
            ("dut.qcow2", "QFI\u{fb}rest"),
            ("k", ""),
            ("own", ""),
            ("dut.qcow2.toml", "[boot]\nkernel = \"k\"\nappend = \"a\"\n[ssh]\nuser = \"u\"\n"),
        ] {
            fs::write(folder.join(name), content).unwrap();
        }
        fs::write(folder.join("dut.qcow2"), b"QFI\xfb and so on").unwrap();
        let files = Files::find(&spec("dut.qcow2"), &folder).unwrap();
        assert_eq!((files.format, files.user.as_str()), (DiskFormat::Qcow2, "u"));
        assert_eq!(files.kernel, Some(folder.join("k")));
        assert_eq!(files.append.as_deref(), Some("a"));
        let with_kernel = QemuSpec { kernel: Some("own".to_owned()), ..spec("dut.qcow2") };
        let files = Files::find(&with_kernel, &folder).unwrap();
        assert_eq!((files.kernel, files.append), (Some(folder.join("own")), None));
    }

    #[test]
    fn every_file_that_is_started_from_is_read_and_found_when_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in [("dut.raw", "disk"), ("k", "kernel"), ("i", "initrd")] {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let spec = QemuSpec {
            kernel: Some("k".to_owned()),
            initrd: Some("i".to_owned()),
            ..spec("dut.raw")
        };
        let files = Files::find(&spec, dir.path()).unwrap();
        let cancel = weir_machine::cancel::Cancel::default();
        let reader = Reader { cancel: &cancel, tell: &|_, _| {} };
        let (stamps, earlier) = files.read(&reader).unwrap();
        assert!(earlier.keys().eq(["image", "initrd", "kernel"]), "{earlier:?}");
        assert!(stamps.iter().all(|stamp| stamp.check().is_ok()));
        // Of the same size, and as old.
        let path = dir.path().join("k");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(dir.path().join("new"), "KERNEL").unwrap();
        let new = File::options().write(true).open(dir.path().join("new")).unwrap();
        new.set_modified(modified).unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        let changed: Vec<String> =
            stamps.iter().filter_map(|stamp| stamp.check().err()).map(|e| e.what).collect();
        assert!(changed.len() == 1 && changed[0].starts_with("kernel: "), "{changed:?}");
        let (_, later) = files.read(&reader).unwrap();
        assert_ne!(later["kernel"].sha256, earlier["kernel"].sha256);
        assert_eq!(later["image"], earlier["image"]);
        fs::remove_file(&path).unwrap();
        assert!(files.read(&reader).unwrap_err().what.contains("kernel: cannot read "));
    }

    #[test]
    fn disks_below_an_overlay_and_the_command_line_beside_it_are_material() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, content: &[u8]| fs::write(dir.path().join(name), content).unwrap();
        let mut overlay = [&qcow2::MAGIC[..], &2u32.to_be_bytes(), &72u64.to_be_bytes()].concat();
        overlay.extend(4u32.to_be_bytes());
        overlay.resize(72, 0);
        overlay.extend(b"base");
        put("dut.qcow2", &overlay);
        put("base", b"one");
        put("k", b"kernel");
        put("dut.qcow2.toml", b"[boot]\nkernel = \"k\"\nappend = \"quiet\"\n");
        let cancel = weir_machine::cancel::Cancel::default();
        let reader = Reader { cancel: &cancel, tell: &|_, _| {} };
        let read = || Files::find(&spec("dut.qcow2"), dir.path())?.read(&reader);
        let (stamps, earlier) = read().unwrap();
        let line = "append, the kernel's command line,";
        assert!(earlier.keys().eq([line, "image", "image, 1 below", "kernel"]), "{earlier:?}");
        put("base", b"other");
        assert!(stamps.iter().any(|stamp| stamp.check().is_err()), "the disk below was changed");
        put("dut.qcow2.toml", b"[boot]\nkernel = \"k\"\nappend = \"quiet mitigations=off\"\n");
        let (_, later) = read().unwrap();
        assert_ne!(later["image, 1 below"].sha256, earlier["image, 1 below"].sha256);
        assert_ne!(later[line].sha256, earlier[line].sha256);
        assert_eq!(later["image"], earlier["image"]);
        fs::remove_file(dir.path().join("base")).unwrap();
        let error = read().unwrap_err();
        assert!(error.what.starts_with("image: what is below "), "{}", error.what);
    }

    #[test]
    fn a_file_that_is_missing_is_named_with_the_way_to_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = Files::find(&spec("dut.raw"), dir.path()).unwrap_err();
        assert!(error.what.contains("dut.raw") && error.what.contains("weir lab image debian"));
        fs::write(dir.path().join("dut.raw"), "disk").unwrap();
        let files = Files::find(&spec("dut.raw"), dir.path()).unwrap();
        assert_eq!((files.format, files.key, files.kernel), (DiskFormat::Raw, None, None));
        let key = QemuSpec { ssh_key: Some("id".to_owned()), ..spec("dut.raw") };
        let error = Files::find(&key, dir.path()).unwrap_err();
        assert!(error.what.starts_with("ssh_key: ") && error.what.ends_with("(os error 2)"));
    }
}
