//! Reads the elements of a hash map in batches (`BPF_MAP_LOOKUP_BATCH`), and writes none.
//!
//! Bucket by bucket: an element that is there all the time is read once, whatever comes and goes
//! meanwhile; a walk from key to key begins again wherever its key has gone. `libbpf-rs` takes a
//! batch that is not full for the last one, which is not so of a hash map.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::{check, size_u32};

/// Elements of a batch at first: far more than a bucket has.
const ELEMENTS: usize = 1024;

/// Calls `each` with all keys and values of a hash map that has these sizes.
///
/// # Errors
/// What the kernel returned, or that the map has other sizes.
pub(crate) fn for_each(
    map: BorrowedFd<'_>,
    key_bytes: usize,
    value_bytes: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> io::Result<()> {
    let sizes = sizes(map)?;
    if sizes != (size_u32(key_bytes)?, size_u32(value_bytes)?) {
        return Err(io::Error::other("a map has elements of another size"));
    }
    let mut count_max = ELEMENTS;
    let mut from = None;
    loop {
        let mut keys = vec![0; count_max * key_bytes];
        let mut values = vec![0; count_max * value_bytes];
        let mut batch = Batch { keys: &mut keys, values: &mut values, count: 0 };
        let next = match batch.read(map, from, size_u32(count_max)?) {
            Ok(next) => Some(next),
            Err(error) => match error.raw_os_error() {
                // Those that were read are the last ones.
                Some(libc::ENOENT) => None,
                // A bucket has more.
                Some(libc::ENOSPC) => {
                    count_max *= 2;
                    continue;
                }
                _ => return Err(error),
            },
        };
        let count = batch.count as usize;
        let values = values.chunks_exact(value_bytes);
        keys.chunks_exact(key_bytes).zip(values).take(count).for_each(|(k, v)| each(k, v));
        match next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}

/// Room for elements, and how many were read.
struct Batch<'a> {
    keys: &'a mut [u8],
    values: &'a mut [u8],
    count: u32,
}

impl Batch<'_> {
    /// Reads up to `count_max` elements, for which there is room, from a bucket on; gives the
    /// bucket to go on with.
    fn read(&mut self, map: BorrowedFd<'_>, from: Option<u32>, count_max: u32) -> io::Result<u32> {
        let options = libbpf_sys::bpf_map_batch_opts {
            sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let mut from = from;
        let from = from.as_mut().map_or(std::ptr::null_mut(), |bucket| &raw mut *bucket);
        let mut next = 0_u32;
        self.count = count_max;
        // SAFETY: all buffers outlive the call. Of a hash map, whose elements have the sizes that
        // `for_each` has checked, the kernel writes at most `count_max` keys and values, for which
        // both buffers have room, and it reads and writes four bytes for a bucket's number.
        check(unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_raw_fd(),
                from.cast(),
                (&raw mut next).cast(),
                self.keys.as_mut_ptr().cast(),
                self.values.as_mut_ptr().cast(),
                &raw mut self.count,
                &raw const options,
            )
        })?;
        Ok(next)
    }
}

/// Bytes of a map's keys and values.
fn sizes(map: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let info = libbpf_rs::MapInfo::new(map).map_err(|error| io::Error::other(error.to_string()))?;
    Ok((info.info.key_size, info.info.value_size))
}
