//! Reads the elements of a hash map in batches (`BPF_MAP_LOOKUP_BATCH`), and writes none.
//!
//! Bucket by bucket: an element that is there all the time is read once, whatever comes and goes
//! meanwhile; a walk from key to key begins again wherever its key has gone. `libbpf-rs` takes a
//! batch that is not full for the last one, which is not so of a hash map.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{MapCore as _, MapHandle};

use super::{check, size_u32};

/// Elements of a batch at first: far more than a bucket has.
const ELEMENTS: usize = 1024;

/// Calls `each` with all keys and values of a hash map.
///
/// # Errors
/// What the kernel returned.
pub(crate) fn for_each(map: &MapHandle, mut each: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    let mut batch = Batch::new(map, ELEMENTS);
    loop {
        let is_last = match batch.read(map) {
            Ok(()) => false,
            Err(error) => match error.raw_os_error() {
                // Those that were read are the last ones.
                Some(libc::ENOENT) => true,
                // A bucket has more.
                Some(libc::ENOSPC) => {
                    batch.grow();
                    continue;
                }
                _ => return Err(error),
            },
        };
        let keys = batch.keys.chunks_exact(batch.key_bytes);
        let values = batch.values.chunks_exact(batch.value_bytes);
        keys.zip(values).take(batch.count).for_each(|(key, value)| each(key, value));
        if is_last {
            return Ok(());
        }
    }
}

/// Room for elements, how many were read, and where to go on.
struct Batch {
    key_bytes: usize,
    value_bytes: usize,
    count_max: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    count: usize,
    /// As the kernel gives it, a bucket's number; `None` at first.
    place: Option<Vec<u8>>,
}

impl Batch {
    fn new(map: &MapHandle, count_max: usize) -> Self {
        let (key_bytes, value_bytes) = (map.key_size() as usize, map.value_size() as usize);
        let (keys, values) = (vec![0; count_max * key_bytes], vec![0; count_max * value_bytes]);
        Self { key_bytes, value_bytes, count_max, keys, values, count: 0, place: None }
    }

    /// Makes room for twice as many.
    fn grow(&mut self) {
        self.count_max *= 2;
        self.keys.resize(self.count_max * self.key_bytes, 0);
        self.values.resize(self.count_max * self.value_bytes, 0);
    }

    /// Reads what follows, as far as there is room.
    fn read(&mut self, map: &MapHandle) -> io::Result<()> {
        let options = libbpf_sys::bpf_map_batch_opts {
            sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let mut from = self.place.clone();
        let from = from.as_mut().map_or(std::ptr::null_mut(), Vec::as_mut_ptr);
        let mut next = vec![0; self.key_bytes.max(size_of::<u32>())];
        let mut count = size_u32(self.count_max)?;
        // SAFETY: all buffers outlive the call. The kernel writes at most `count` keys and values
        // of this map, for which both buffers have room; a place has at most the size of a key, or
        // four bytes.
        let read = check(unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                from.cast(),
                next.as_mut_ptr().cast(),
                self.keys.as_mut_ptr().cast(),
                self.values.as_mut_ptr().cast(),
                &raw mut count,
                &raw const options,
            )
        });
        self.count = count as usize;
        read?;
        self.place = Some(next);
        Ok(())
    }
}
