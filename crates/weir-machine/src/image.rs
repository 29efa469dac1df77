//! Images of virtual DUTs: what is known of one, and how one is built of Debian's packages, or made
//! of what the BSDs publish.
//!
//! An image is a disk, as QEMU reads it. Beside it may lie a file of the same name with `.toml`
//! behind it, which says how it is booted and logged in to ([`About`]): the testbed kind `qemu`
//! takes from there what the specification leaves out. `weir lab image` writes both; an image of
//! the user's own needs no such file. Only [`bsd`] starts a machine.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

pub mod bsd;
pub mod debian;
pub mod qcow2;

mod build;
mod content;

/// Formats of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskFormat {
    /// QEMU's own.
    Qcow2,
    /// The bytes of the disk.
    Raw,
}

impl DiskFormat {
    /// The format of a disk, as its first bytes say.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn of(disk: &Path) -> io::Result<Self> {
        let mut magic = [0; 4];
        fs::File::open(disk)?.read_exact(&mut magic)?;
        Ok(if magic == qcow2::MAGIC { Self::Qcow2 } else { Self::Raw })
    }

    /// Its name, as in specifications and for QEMU.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
        }
    }
}

/// What is known of an image. Paths are relative to the image's folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// How it is booted without a boot loader.
    #[serde(default)]
    pub boot: Boot,
    /// How it is logged in to.
    #[serde(default)]
    pub ssh: Login,
    /// Text on its serial console that says that it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console_ready: Option<String>,
    /// What it was built of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built: Option<Built>,
}

/// Kernel, initial RAM disk and the kernel's command line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// The kernel; absent: the disk has a boot loader.
    pub kernel: Option<String>,
    /// The initial RAM disk.
    pub initrd: Option<String>,
    /// The kernel's command line.
    pub append: Option<String>,
}

/// How an image is logged in to by SSH.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The user; absent: root.
    pub user: Option<String>,
    /// File of the private key.
    pub key: Option<String>,
    /// The machine's own public key, `ssh-ed25519 AAAA…`.
    pub host_key: Option<String>,
}

/// What an image was built of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Built {
    /// Version of weir.
    pub weir: String,
    /// When, in UTC.
    pub time: String,
    /// Release of the distribution.
    pub suite: String,
    /// Version of the kernel.
    pub kernel: String,
    /// Packages that were asked for.
    pub packages: Vec<String>,
}

impl About {
    /// What is known of `image`; nothing where there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn of(image: &Path) -> Result<Self, ImageError> {
        let path = beside(image, "toml");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(ImageError::file("read", &path, &error)),
        };
        toml::from_str(&text).map_err(|error| {
            ImageError::new(format!(
                "{}: {}; fix it, or remove it and say in [testbed] how the image is booted",
                path.display(),
                error.to_string().trim().replace('\n', " ")
            ))
        })
    }
}

/// The file of that ending beside an image: `debian.qcow2` and `key` give `debian.qcow2.key`.
#[must_use]
pub fn beside(image: &Path, ending: &str) -> PathBuf {
    let mut name = image.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    image.with_file_name(name)
}

/// The last part of a path: how a file beside another one is named there.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Something failed; what, why, and what to do.
    #[error("{0}")]
    Failed(String),
    /// Somebody asked to stop; what was made is removed.
    #[error("stopped by signal {0}; nothing of the image is left")]
    Cancelled(i32),
}

impl ImageError {
    fn new(what: impl std::fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }

    fn file(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("cannot {action} {}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_an_image_is_read_and_a_mistake_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("dut.qcow2");
        assert_eq!(About::of(&image).unwrap(), About::default());
        let text = "[boot]\nkernel = \"k\"\n[ssh]\nuser = \"admin\"\n";
        fs::write(dir.path().join("dut.qcow2.toml"), text).unwrap();
        let about = About::of(&image).unwrap();
        assert_eq!(about.boot.kernel.as_deref(), Some("k"));
        assert_eq!((about.ssh.user.as_deref(), about.ssh.key), (Some("admin"), None));
        fs::write(dir.path().join("dut.qcow2.toml"), "[boot]\nkernal = \"k\"\n").unwrap();
        let error = About::of(&image).unwrap_err().to_string();
        assert!(error.contains("dut.qcow2.toml") && error.contains("kernal"), "{error}");
    }
}
