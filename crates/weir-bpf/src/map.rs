//! Reads and writes map values as sequences of 64-bit words, in the host's byte order.
//!
//! All of weir's map values consist of such words (see `bpf/include/weir`), so that no structure
//! has to be shared between two languages. The kernel copies a per-CPU value word by word: a
//! counter that is read while a CPU increments it is the old or the new one, never a mixture.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// Size of a word, bytes.
pub const WORD_BYTES: usize = 8;

/// Why a map could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The kernel refused the access.
    #[error("cannot {verb} the BPF map `{map}` at index {index}: {source}")]
    Access {
        /// "read" or "write".
        verb: &'static str,
        /// Name of the map.
        map: String,
        /// Index of the element.
        index: u32,
        /// What the kernel returned.
        source: libbpf_rs::Error,
    },
    /// The map has no such element.
    #[error("the BPF map `{map}` has no element {index}")]
    Absent {
        /// Name of the map.
        map: String,
        /// Index of the element.
        index: u32,
    },
}

fn name(map: &MapHandle) -> String {
    map.name().to_string_lossy().into_owned()
}

/// Writes words, or any bytes, to an element of an array.
///
/// # Errors
/// [`MapError`] if the kernel refuses, or there is no such element.
pub fn write(map: &MapHandle, index: u32, value: &[u8]) -> Result<(), MapError> {
    map.update(&index.to_ne_bytes(), value, MapFlags::ANY).map_err(|source| MapError::Access {
        verb: "write",
        map: name(map),
        index,
        source,
    })
}

/// Reads the words of an element of an array.
///
/// # Errors
/// [`MapError`] if the kernel refuses, or there is no such element.
pub fn read(map: &MapHandle, index: u32) -> Result<Vec<u64>, MapError> {
    let value = map
        .lookup(&index.to_ne_bytes(), MapFlags::ANY)
        .map_err(|source| MapError::Access { verb: "read", map: name(map), index, source })?;
    value.map(|bytes| words(&bytes)).ok_or_else(|| MapError::Absent { map: name(map), index })
}

/// As [`read`], under the lock that the element carries, so that no program is half-way through
/// changing it. The lock itself reads as zero.
pub(crate) fn read_locked(map: &MapHandle, index: u32) -> Result<Vec<u64>, MapError> {
    let value = map
        .lookup(&index.to_ne_bytes(), MapFlags::LOCK)
        .map_err(|source| MapError::Access { verb: "read", map: name(map), index, source })?;
    value.map(|bytes| words(&bytes)).ok_or_else(|| MapError::Absent { map: name(map), index })
}

/// Reads the words of element 0 of a per-CPU array, for every possible CPU.
///
/// # Errors
/// [`MapError`] if the kernel refuses, or there is no such element.
pub fn read_per_cpu(map: &MapHandle) -> Result<Vec<Vec<u64>>, MapError> {
    read_per_cpu_at(map, 0)
}

/// As [`read_per_cpu`], of any element.
pub(crate) fn read_per_cpu_at(map: &MapHandle, index: u32) -> Result<Vec<Vec<u64>>, MapError> {
    let values = map
        .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
        .map_err(|source| MapError::Access { verb: "read", map: name(map), index, source })?;
    let values = values.ok_or_else(|| MapError::Absent { map: name(map), index })?;
    Ok(values.iter().map(|bytes| words(bytes)).collect())
}

/// Sets every word of element 0 of a per-CPU array to zero, on every possible CPU.
pub(crate) fn clear_per_cpu(map: &MapHandle) -> Result<(), MapError> {
    let failed = |source| MapError::Access { verb: "write", map: name(map), index: 0, source };
    let cpu_count = libbpf_rs::num_possible_cpus().map_err(failed)?;
    let zeros = vec![vec![0; map.value_size() as usize]; cpu_count];
    map.update_percpu(&0_u32.to_ne_bytes(), &zeros, MapFlags::ANY).map_err(failed)
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}
