//! Loads an embedded object file and hands out its programs and maps.
//!
//! What libbpf has to say meanwhile (above all the verifier's log) becomes part of the error
//! instead of going to standard error. The opened object itself is dropped: programs and maps live
//! on through their file descriptors.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Once;

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};

/// The last lines of libbpf's log that an error carries.
const LOG_LINES_MAX: usize = 40;

/// Why a program could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel or libbpf refused the object file.
    #[error("cannot load the BPF program `{object}`: {source}{hint}{log}")]
    Refused {
        /// Name of the object file.
        object: &'static str,
        /// What libbpf returned.
        source: libbpf_rs::Error,
        /// What to do about it, if that is known.
        hint: &'static str,
        /// The end of libbpf's log, which includes the verifier's.
        log: String,
    },
    /// The object file lacks a program or map, or a map has another layout than this crate knows:
    /// `bpf/` and the crate do not belong together.
    #[error("the BPF object `{object}` does not match this binary: {what}; rebuild weir")]
    Mismatch {
        /// Name of the object file.
        object: &'static str,
        /// What differs.
        what: String,
    },
    /// A file descriptor could not be duplicated.
    #[error("cannot keep a handle to the BPF object `{object}`: {source}")]
    Handle {
        /// Name of the object file.
        object: &'static str,
        /// What the system returned.
        source: io::Error,
    },
}

impl LoadError {
    /// True if privileges are what is missing.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Refused { source, log, .. }
            if source.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_verifiers(log))
    }
}

/// An object file whose programs the kernel has accepted.
#[derive(Debug)]
pub struct Loaded {
    name: &'static str,
    object: Object,
}

impl Loaded {
    /// Loads an object file: every program in it passes the verifier, every map is created.
    ///
    /// # Errors
    /// [`LoadError`] without privileges or kernel support.
    pub fn load(name: &'static str, bytes: &[u8]) -> Result<Self, LoadError> {
        Self::load_prepared(name, bytes, |_| Ok(()))
    }

    /// As [`load`](Self::load), after `prepare` has set constants and sizes of maps.
    pub(crate) fn load_prepared(
        name: &'static str,
        bytes: &[u8],
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
    ) -> Result<Self, LoadError> {
        capture_log();
        LOG.with_borrow_mut(Vec::clear);
        let result = ObjectBuilder::default()
            .name(name)
            .and_then(|builder| builder.open_memory(bytes))
            .and_then(|mut opened| prepare(&mut opened).map(|()| opened))
            .and_then(OpenObject::load);
        match result {
            Ok(object) => Ok(Self { name, object }),
            Err(source) => {
                let log = take_log();
                let hint = if is_verifiers(&log) { "" } else { hint(&source) };
                Err(LoadError::Refused { object: name, source, hint, log })
            }
        }
    }

    /// A handle to a program.
    ///
    /// # Errors
    /// [`LoadError::Mismatch`] if the object file has no such program.
    pub fn program(&self, program: &str) -> Result<OwnedFd, LoadError> {
        let found = self.object.progs().find(|candidate| candidate.name() == OsStr::new(program));
        let Some(found) = found else {
            let what = format!("no program `{program}`");
            return Err(LoadError::Mismatch { object: self.name, what });
        };
        let handle = found.as_fd().try_clone_to_owned();
        handle.map_err(|source| LoadError::Handle { object: self.name, source })
    }

    /// Attaches a program where its section says, until the link is closed.
    pub(crate) fn attach(&self, program: &str) -> Result<OwnedFd, LoadError> {
        let found = self.object.progs_mut().find(|found| found.name() == OsStr::new(program));
        let Some(found) = found else {
            let what = format!("no program `{program}`");
            return Err(LoadError::Mismatch { object: self.name, what });
        };
        let refused = |source: libbpf_rs::Error| {
            let hint = hint(&source);
            LoadError::Refused { object: self.name, source, hint, log: take_log() }
        };
        let link = found.attach().map_err(refused)?;
        let handle = link.as_fd().try_clone_to_owned();
        handle.map_err(|source| LoadError::Handle { object: self.name, source })
    }

    /// A handle to a map whose values have `value_bytes` bytes.
    ///
    /// # Errors
    /// [`LoadError::Mismatch`] if the object file has no such map, or its values another size.
    pub fn map(&self, map: &str, value_bytes: usize) -> Result<MapHandle, LoadError> {
        let found = self.map_of_any_size(map)?;
        let size = found.value_size();
        if size as usize != value_bytes {
            let what = format!("a value of `{map}` has {size} bytes, not {value_bytes}");
            return Err(LoadError::Mismatch { object: self.name, what });
        }
        Ok(found)
    }

    /// A handle to a map of whose values only the beginning is read.
    pub(crate) fn map_of_any_size(&self, map: &str) -> Result<MapHandle, LoadError> {
        let mismatch = |what| LoadError::Mismatch { object: self.name, what };
        let found = self.object.maps().find(|candidate| candidate.name() == OsStr::new(map));
        let Some(found) = found else {
            return Err(mismatch(format!("there is no map `{map}`")));
        };
        MapHandle::try_from(&found).map_err(|source| LoadError::Refused {
            object: self.name,
            source,
            hint: "",
            log: String::new(),
        })
    }
}

/// Sets the number of entries of a map that is not yet created.
pub(crate) fn resize(object: &mut OpenObject, name: &str, entries: u32) -> libbpf_rs::Result<()> {
    match object.maps_mut().find(|map| map.name() == name) {
        Some(mut map) => map.set_max_entries(entries),
        // Left to the check of maps after loading, which names what is missing.
        None => Ok(()),
    }
}

/// Whether the verifier refused the program, which the kernel also calls "permission denied".
fn is_verifiers(log: &str) -> bool {
    log.contains("END PROG LOAD LOG")
}

fn hint(error: &libbpf_rs::Error) -> &'static str {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "; run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (in a container: also \
             outside a seccomp filter that forbids bpf(2)); kernels before 5.11 also need \
             `ulimit -l unlimited`"
        }
        libbpf_rs::ErrorKind::OutOfMemory => {
            "; free memory, or raise the limits of the control group and of locked memory \
             (`ulimit -l`)"
        }
        libbpf_rs::ErrorKind::InvalidInput => {
            "; the kernel may be too old: weir's generator needs Linux 5.18, see `weir doctor`"
        }
        _ => "",
    }
}

thread_local! {
    /// What libbpf has said on this thread since the last load began.
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Sends libbpf's messages to [`LOG`]: loading happens on the calling thread.
fn capture_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
            LOG.with_borrow_mut(|lines| lines.extend(text.lines().map(str::to_owned)));
        })));
    });
}

fn take_log() -> String {
    let lines = LOG.take();
    let skipped = lines.len().saturating_sub(LOG_LINES_MAX);
    lines[skipped..].iter().fold(String::new(), |log, line| log + "\n  " + line)
}
