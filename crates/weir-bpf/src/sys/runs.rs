//! Runs programs on frames that are made here (`BPF_PROG_TEST_RUN`), live ones too.
//!
//! Source: Documentation/bpf/bpf_prog_run.rst.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libbpf_sys::{BPF_F_TEST_XDP_LIVE_FRAMES, bpf_test_run_opts};

use super::{check, size_u32};

/// Runs an XDP program `repeat` times on live frames that start as copies of `frame`, in batches of
/// `batch` (0 is the kernel's default of 64, at most 256), on the calling CPU.
///
/// # Errors
/// What the kernel returned; `Interrupted` if a signal ended the run.
pub fn test_run_live(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    test_run_live_in(program, None, frame, repeat, batch)
}

/// As [`test_run_live`], once, as if the frame had come in by an interface of the calling thread's
/// network namespace.
pub(crate) fn test_run_live_from(
    program: BorrowedFd<'_>,
    ifindex: u32,
    frame: &[u8],
) -> io::Result<()> {
    let context = libbpf_sys::xdp_md {
        data_end: size_u32(frame.len())?,
        ingress_ifindex: ifindex,
        ..Default::default()
    };
    test_run_live_in(program, Some(&context), frame, 1, 1)
}

fn test_run_live_in(
    program: BorrowedFd<'_>,
    context: Option<&libbpf_sys::xdp_md>,
    frame: &[u8],
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: size_u32(frame.len())?,
        repeat: i32::try_from(repeat).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..Default::default()
    };
    if let Some(context) = context {
        options.ctx_in = std::ptr::from_ref(context).cast();
        options.ctx_size_in = size_u32(size_of_val(context))?;
    }
    // SAFETY: `options`, the frame and the context that it points to outlive the call; the kernel
    // reads `data_size_in` bytes of the frame and `ctx_size_in` of the context, and with live
    // frames and no output buffers set it writes nothing but the scalar results in `options`.
    check(unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
    Ok(())
}

/// Runs an XDP program once on a copy of `frame` and returns its verdict; what the frame then holds
/// is left in `output`, whose first bytes (as many as returned) are valid.
///
/// # Errors
/// What the kernel returned.
pub fn test_run_once(
    program: BorrowedFd<'_>,
    frame: &[u8],
    output: &mut [u8],
) -> io::Result<(u32, usize)> {
    let (verdict, size_bytes, _) = test_run_in(program, None, frame, output, 1)?;
    Ok((verdict, size_bytes))
}

/// As [`test_run_once`], `repeat` times, as if each frame (or what the last run made of it) had
/// come in by an interface of the calling thread's network namespace (`None`: no interface); the
/// verdict is the last one's, and the duration the mean of one run, in ns. The interface must have
/// receive queues with memory for XDP, as one with a native program has.
pub(crate) fn test_run_from(
    program: BorrowedFd<'_>,
    ifindex: Option<u32>,
    frame: &[u8],
    output: &mut [u8],
    repeat: u32,
) -> io::Result<(u32, usize, u32)> {
    let context = libbpf_sys::xdp_md {
        data_end: size_u32(frame.len())?,
        ingress_ifindex: ifindex.unwrap_or(0),
        ..Default::default()
    };
    let context = ifindex.is_some().then_some(&context);
    test_run_in(program, context, frame, output, repeat)
}

/// As [`test_run_from`], with the context that the program gets: `data` is how many of the first
/// bytes stand before the frame.
pub(crate) fn test_run_in(
    program: BorrowedFd<'_>,
    context: Option<&libbpf_sys::xdp_md>,
    frame: &[u8],
    output: &mut [u8],
    repeat: u32,
) -> io::Result<(u32, usize, u32)> {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: size_u32(frame.len())?,
        data_out: output.as_mut_ptr().cast(),
        data_size_out: size_u32(output.len())?,
        repeat: i32::try_from(repeat).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        ..Default::default()
    };
    if let Some(context) = context {
        options.ctx_in = std::ptr::from_ref(context).cast();
        options.ctx_size_in = size_u32(size_of_val(context))?;
    }
    // SAFETY: `options`, the context, the input and the output buffer outlive the call; the kernel
    // reads `ctx_size_in` bytes of the context and `data_size_in` of the frame, and writes at most
    // `data_size_out` bytes to the output.
    check(unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
    Ok((options.retval, options.data_size_out as usize, options.duration))
}

/// Runs a program for traffic control once on a packet made of a copy of `frame`, at an interface
/// of the calling thread's network namespace; see [`test_run_once`]. Gives the packet's priority as
/// the program left it, too.
pub(crate) fn test_run_packet(
    program: BorrowedFd<'_>,
    ifindex: u32,
    frame: &[u8],
    output: &mut [u8],
) -> io::Result<(u32, usize, u32)> {
    /// Where fields stand in `struct __sk_buff`, which begins with those of 32 bits.
    const PRIORITY_AT: usize = 8;
    const IFINDEX_AT: usize = 10;
    /// More than that structure has.
    const WORD_COUNT: usize = 64;
    let mut context = [0_u32; IFINDEX_AT + 1];
    let mut left = [0_u32; WORD_COUNT];
    context[IFINDEX_AT] = ifindex;
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as libbpf_sys::size_t,
        ctx_in: (&raw const context).cast(),
        ctx_size_in: size_u32(size_of_val(&context))?,
        ctx_out: left.as_mut_ptr().cast(),
        ctx_size_out: size_u32(size_of_val(&left))?,
        data_in: frame.as_ptr().cast(),
        data_size_in: size_u32(frame.len())?,
        data_out: output.as_mut_ptr().cast(),
        data_size_out: size_u32(output.len())?,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: `options`, both contexts, the input and the output buffer outlive the call; the
    // kernel reads `ctx_size_in` bytes of the context and `data_size_in` of the frame, and writes
    // at most `ctx_size_out` bytes to the other context and `data_size_out` to the output.
    check(unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
    Ok((options.retval, options.data_size_out as usize, left[PRIORITY_AT]))
}
