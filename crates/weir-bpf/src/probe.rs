//! Asks the kernel what it can do, by trying: version numbers lie on kernels with backports.
//!
//! Nothing stays behind: no packet is sent, programs and maps are gone when a probe returns.

use std::io;
use std::os::fd::AsFd;

use libbpf_rs::{MapHandle, MapType};
use libbpf_sys::bpf_map_create_opts;

use crate::attach::{self, AttachError};
use crate::object::{LoadError, Loaded};
use crate::sys;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.bpf.o"));
const OBJECT_NAME: &str = "probe";

/// Smallest frame that a live-frame test run takes everywhere, bytes.
const FRAME_BYTES: usize = 60;

/// Why a feature cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Not even the smallest program can be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel does not have the feature.
    #[error("the kernel does not support {feature}: {source}; it came with Linux {since}")]
    Unsupported {
        /// What was asked for.
        feature: &'static str,
        /// First kernel version with the feature.
        since: &'static str,
        /// What the kernel returned.
        source: io::Error,
    },
    /// The kernel may have the feature, but does not let this process use it.
    #[error("{feature} cannot be tried: {source}; run as root, or with CAP_BPF and CAP_NET_ADMIN")]
    Permission {
        /// What was asked for.
        feature: &'static str,
        /// What the kernel returned.
        source: io::Error,
    },
    /// The interface does not take an XDP program in native mode.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

impl ProbeError {
    /// True if privileges are what is missing, so that nothing is known about the feature.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Load(error) => error.is_permission(),
            Self::Permission { .. } => true,
            Self::Unsupported { .. } => false,
            Self::Attach(error) => error.source.kind() == io::ErrorKind::PermissionDenied,
        }
    }

    fn new(feature: &'static str, since: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::Permission { feature, source }
        } else {
            Self::Unsupported { feature, since, source }
        }
    }
}

/// XDP live frames (Linux 5.18), which the generator needs: runs a program that drops one.
///
/// # Errors
/// [`ProbeError`] if they cannot be used.
pub fn live_frames() -> Result<(), ProbeError> {
    let program = Loaded::load(OBJECT_NAME, OBJECT)?.program("weir_drop")?;
    sys::test_run_live(program.as_fd(), &[0; FRAME_BYTES], 1, 0)
        .map_err(|source| ProbeError::new("XDP live frames", "5.18", source))
}

/// BPF arenas (Linux 6.9), which the firewall needs: creates one of a single page.
///
/// # Errors
/// [`ProbeError`] if they cannot be used.
pub fn arena() -> Result<(), ProbeError> {
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    match MapHandle::create(MapType::Arena, Some("weir_probe"), 0, 0, 1, &options) {
        Ok(_map) => Ok(()),
        Err(error) => {
            // libbpf-rs keeps the kind, which is all that is asked for here.
            let source = match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => io::Error::from_raw_os_error(libc::EPERM),
                _ => io::Error::other(error.to_string()),
            };
            Err(ProbeError::new("BPF arenas", "6.9", source))
        }
    }
}

/// Native XDP on an interface of the calling thread's network namespace: attaches a program that
/// passes everything, and detaches it. Some drivers restart their queues for that.
///
/// # Errors
/// [`ProbeError`] if the driver does not take one.
pub fn xdp_native(ifindex: u32) -> Result<(), ProbeError> {
    let program = Loaded::load(OBJECT_NAME, OBJECT)?.program("weir_pass")?;
    attach::native(program.as_fd(), ifindex)?;
    Ok(())
}
