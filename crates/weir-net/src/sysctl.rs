//! The network settings of a namespace, under `/proc/sys/net` (sysctl(8), `ip-sysctl.rst` in the
//! kernel tree).
//!
//! `/proc/sys/net` follows the *calling thread*: inside [`crate::Netns::run`] these functions act
//! on that namespace. They never touch a setting outside of `net.`, which would be the host's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::describe;

const ROOT: &str = "/proc/sys";

/// Why a setting could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// The name is not that of a namespace's setting.
    #[error("`{name}` is not the name of a network setting: {reason}")]
    BadName {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no such setting in this namespace.
    #[error(
        "there is no setting `{name}` in this network namespace: a misspelling, a module that is \
         not loaded, or a setting that only the host has"
    )]
    Unknown { name: String },
    /// The name is that of a group of settings.
    #[error("`{name}` is a group of settings, not one setting")]
    Group { name: String },
    /// The setting exists but cannot be changed here.
    #[error("setting `{name}` is read-only in this network namespace ({source})")]
    ReadOnly {
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel does not accept the value.
    #[error("setting `{name}` does not accept `{value}` ({source})")]
    BadValue {
        name: String,
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot {action} setting `{name}`: {}", describe(source))]
    System {
        name: String,
        /// `read`, `write`, `list`.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Reads a setting, such as `net.ipv4.ip_forward`, without the final newline.
///
/// # Errors
///
/// If the name is bad, there is no such setting, or it cannot be read.
pub fn read(name: &str) -> Result<String, SysctlError> {
    let text =
        fs::read_to_string(path_of(name)?).map_err(|source| classify(name, "read", source))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Writes a setting.
///
/// # Errors
///
/// If the name is bad, there is no such setting, it is read-only here, or the kernel does not
/// accept the value.
pub fn write(name: &str, value: &str) -> Result<(), SysctlError> {
    let path = path_of(name)?;
    if value.contains('\n') {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(SysctlError::BadValue {
            name: name.to_owned(),
            value: value.to_owned(),
            source,
        });
    }
    // `fs::write` would create and truncate; a setting is only ever opened for writing.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .map_err(|source| classify_write(name, &path, source))?;
    io::Write::write_all(&mut file, value.as_bytes()).map_err(|source| {
        if is_refusal(&source) {
            classify_write(name, &path, source)
        } else {
            SysctlError::BadValue { name: name.to_owned(), value: value.to_owned(), source }
        }
    })
}

/// All readable settings under the prefixes (`net.ipv4`, `net.netfilter`), by name. A prefix that
/// does not exist in this namespace adds nothing; a prefix may also be one setting.
///
/// # Errors
///
/// If a prefix is a bad name, or a directory cannot be listed.
pub fn snapshot(prefixes: &[&str]) -> Result<BTreeMap<String, String>, SysctlError> {
    let mut settings = BTreeMap::new();
    for prefix in prefixes {
        let path = path_of(prefix)?;
        if path.exists() {
            collect(&path, &mut settings).map_err(|source| SysctlError::System {
                name: (*prefix).to_owned(),
                action: "list",
                source,
            })?;
        }
    }
    Ok(settings)
}

fn collect(path: &Path, settings: &mut BTreeMap<String, String>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), settings)?;
        }
    } else if let Ok(text) = fs::read_to_string(path) {
        // What cannot be read is write-only (net.ipv4.route.flush): it has no value to record.
        settings.insert(name_of(path), text.trim_end_matches('\n').to_owned());
    }
    Ok(())
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// A setting that nobody may write is read-only here; otherwise it is a matter of privilege.
fn classify_write(name: &str, path: &Path, source: io::Error) -> SysctlError {
    let is_writable = fs::metadata(path).is_ok_and(|meta| !meta.permissions().readonly());
    if is_refusal(&source) && !(is_writable && source.kind() == io::ErrorKind::PermissionDenied) {
        return SysctlError::ReadOnly { name: name.to_owned(), source };
    }
    classify(name, "write", source)
}

fn classify(name: &str, action: &'static str, source: io::Error) -> SysctlError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            SysctlError::Unknown { name: name.to_owned() }
        }
        io::ErrorKind::IsADirectory => SysctlError::Group { name: name.to_owned() },
        _ => SysctlError::System { name: name.to_owned(), action, source },
    }
}

/// The file of a setting. As sysctl(8): whichever of `.` and `/` comes first separates, and the
/// other stands for itself, so that interfaces with a dot in their name can be written
/// `net.ipv4.conf.eth0/100.forwarding` or `net/ipv4/conf/eth0.100/forwarding`.
fn path_of(name: &str) -> Result<PathBuf, SysctlError> {
    let bad = |reason| Err(SysctlError::BadName { name: name.to_owned(), reason });
    if name.contains('\0') {
        return bad("it contains a zero byte");
    }
    let dotted = match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'/') => false,
        Some(_) => true,
        None => true,
    };
    let mut path = PathBuf::from(ROOT);
    for (index, part) in name.split(if dotted { '.' } else { '/' }).enumerate() {
        let part = if dotted { part.replace('/', ".") } else { part.to_owned() };
        if part.is_empty() || part == "." || part == ".." {
            return bad("it has an empty part");
        }
        if index == 0 && part != "net" {
            return bad("it does not begin with `net.`");
        }
        path.push(part);
    }
    Ok(path)
}

/// The name of a setting's file, with dots between the parts and slashes for dots inside them.
fn name_of(path: &Path) -> String {
    let parts: Vec<String> = path
        .strip_prefix(ROOT)
        .unwrap_or(path)
        .iter()
        .map(|part| part.to_string_lossy().replace('.', "/"))
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests;
