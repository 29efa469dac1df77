//! The files that a configuration needs: whether they are there, and where each comes from.
//!
//! dnsmasq reads files as a user of its own, so a file that others may not read is as good as
//! missing; that is looked at too. Nothing is fetched.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::config::{Config, Kind, Loader};
use super::mfsbsd;

/// Where Debian puts PXELINUX.
const PXELINUX_DIR: &str = "/usr/lib/PXELINUX";
/// Where Debian puts its modules.
const MODULES_DIR: &str = "/usr/lib/syslinux/modules/bios";
/// Where Debian puts memdisk.
const SYSLINUX_DIR: &str = "/usr/lib/syslinux";
/// Where Debian puts iPXE.
const IPXE_DIR: &str = "/usr/lib/ipxe";

/// A file that is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    /// Path below the served directory.
    pub served_as: String,
    /// The file itself.
    pub file: PathBuf,
    /// The entry that needs it; `None` for the boot loaders.
    pub entry: Option<String>,
    /// Where it comes from.
    pub source: String,
    /// What is wrong with it, in words; `None` if nothing is.
    pub trouble: Option<String>,
}

/// Everything that the configuration in `dir` needs.
#[must_use]
pub fn needs(config: &Config, dir: &Path) -> Vec<Need> {
    let mut needs: Vec<Need> = loaders(config)
        .into_iter()
        .map(|(name, folder, package)| Need {
            served_as: name.to_owned(),
            file: Path::new(folder).join(name),
            entry: None,
            source: format!("Debian package {package}"),
            trouble: None,
        })
        .collect();
    for entry in &config.entries {
        for (file, source) in files(&entry.kind) {
            needs.push(Need {
                served_as: served_as(&entry.name, &file),
                file: dir.join(&file),
                entry: Some(entry.name.clone()),
                source: source.to_owned(),
                trouble: None,
            });
        }
    }
    for need in &mut needs {
        need.trouble = trouble(&need.file);
    }
    for (entry, image) in mfsbsd_images(config) {
        let served_as = served_as(entry, image);
        let need = needs.iter_mut().find(|n| n.served_as == served_as && n.trouble.is_none());
        if let Some(need) = need {
            need.trouble = mfsbsd::look(&need.file, config.serial).err();
        }
    }
    needs
}

/// The images that get a serial console: entry and file.
pub(super) fn mfsbsd_images(config: &Config) -> impl Iterator<Item = (&str, &str)> {
    config.entries.iter().filter_map(|entry| match &entry.kind {
        Kind::Mfsbsd { image } => Some((entry.name.as_str(), image.as_str())),
        _ => None,
    })
}

/// Where an entry's file is found below the served directory.
#[must_use]
pub(crate) fn served_as(entry: &str, file: &str) -> String {
    let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    format!("{entry}/{name}")
}

/// Boot loaders and their parts: name, directory, package.
fn loaders(config: &Config) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut loaders = vec![("ipxe.efi", IPXE_DIR, "ipxe")];
    match config.loader {
        Loader::Auto => {
            loaders.push(("pxelinux.0", PXELINUX_DIR, "pxelinux"));
            let modules = ["ldlinux.c32", "libcom32.c32", "libutil.c32", "menu.c32", "reboot.c32"];
            loaders.extend(modules.map(|name| (name, MODULES_DIR, "syslinux-common")));
        }
        Loader::Ipxe => loaders.push(("undionly.kpxe", IPXE_DIR, "ipxe")),
    }
    let any = |is: fn(&Kind) -> bool| config.entries.iter().any(|entry| is(&entry.kind));
    if any(|k| matches!(k, Kind::Mfsbsd { .. } | Kind::Memdisk { .. })) {
        loaders.push(("memdisk", SYSLINUX_DIR, "syslinux-common"));
    }
    let chains = any(|k| matches!(k, Kind::Openbsd { .. } | Kind::Netbsd { .. }));
    if config.loader == Loader::Auto && chains {
        loaders.push(("pxechn.c32", MODULES_DIR, "syslinux-common"));
    }
    loaders
}

/// The files of an entry, and where they come from.
fn files(kind: &Kind) -> Vec<(String, &'static str)> {
    match kind {
        Kind::Linux { kernel, initrd, answers, source, .. } => {
            let mut files = vec![(kernel.clone(), *source)];
            files.extend(initrd.iter().map(|file| (file.clone(), *source)));
            files.extend(answers.iter().map(|(file, _)| (file.clone(), "written by you")));
            files
        }
        Kind::Mfsbsd { image } => vec![(image.clone(), "https://mfsbsd.vx.sk/ (an .img)")],
        Kind::Openbsd { pxeboot, kernel } => {
            let source = "https://cdn.openbsd.org/pub/OpenBSD/RELEASE/amd64/ (pxeboot, bsd.rd)";
            vec![(pxeboot.clone(), source), (kernel.clone(), source)]
        }
        Kind::Netbsd { pxeboot, kernel } => vec![
            (
                pxeboot.clone(),
                "usr/mdec/pxeboot_ia32_com0.bin in base.tar.xz of \
                 https://cdn.netbsd.org/pub/NetBSD/NetBSD-RELEASE/amd64/binary/sets/",
            ),
            (
                kernel.clone(),
                "netbsd-INSTALL.gz of \
                 https://cdn.netbsd.org/pub/NetBSD/NetBSD-RELEASE/amd64/binary/kernel/",
            ),
        ],
        Kind::Image { image, .. } => vec![(
            image.clone(),
            "the project's serial image: https://bsdrp.net/downloads, \
             https://opnsense.org/download/, https://www.pfsense.org/download/, \
             https://xigmanas.com/",
        )],
        Kind::Memdisk { image } => vec![(image.clone(), "given by you")],
        Kind::Local | Kind::Reboot => Vec::new(),
    }
}

/// Why a file cannot be served, if it cannot.
fn trouble(file: &Path) -> Option<String> {
    let metadata = match fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some("missing".to_owned());
        }
        Err(error) => return Some(error.to_string()),
    };
    if !metadata.is_file() {
        return Some("is not a file".to_owned());
    }
    if metadata.len() == 0 {
        return Some("is empty".to_owned());
    }
    unreadable(file)
}

/// Why dnsmasq's user cannot read a file, if it cannot: permissions of the file, and of the
/// directories on the way.
#[must_use]
pub fn unreadable(file: &Path) -> Option<String> {
    let path = fs::canonicalize(file).ok()?;
    let mode = |path: &Path| fs::metadata(path).map_or(0, |m| m.permissions().mode());
    if mode(&path) & 0o004 == 0 {
        return Some(format!("others may not read it: chmod o+r {}", path.display()));
    }
    path.ancestors().skip(1).find(|dir| mode(dir) & 0o001 == 0).map(|dir| {
        format!("others may not enter {}: chmod o+x it, or move the files", dir.display())
    })
}
