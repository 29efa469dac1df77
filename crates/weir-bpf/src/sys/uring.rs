//! Datagrams by io_uring_enter(2): one request receives all that come, into buffers that the kernel
//! chooses, and each that goes back is a request whose bytes stay where they came in. A call of the
//! kernel hands over many of both.

use std::alloc::{self, Layout};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::size_u32;

/// Buffers, a power of two.
const COUNT: u16 = 512;
/// Room of each: what io_uring says of a datagram, its peer, and its bytes.
const SIZE_BYTES_U32: u32 = 9600;
const SIZE_BYTES: usize = SIZE_BYTES_U32 as usize;
/// The only group of buffers.
const GROUP: u16 = 0;
/// The request that receives; the others have the number of their buffer.
const RECEIVE: u64 = u64::MAX;
const PAGE_BYTES: usize = 4096;

/// A piece of memory, all zeros at first, from a page's start on.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    fn new(size_bytes: usize) -> io::Result<Self> {
        let layout = Layout::from_size_align(size_bytes, PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, layout })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was allocated so, and is freed once.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// What came and went in a turn of a [`Ring`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// Datagrams that came.
    pub read: u64,
    /// Datagrams that the kernel took back.
    pub sent: u64,
    /// Datagrams that it did not take, or that were not given back.
    pub refused: u64,
}

/// What requests point to.
struct Memory {
    buffers: Pages,
    /// Buffers that the kernel may choose.
    free: Pages,
    /// Of the request to receive.
    receives: libc::msghdr,
    /// Of each buffer, while it is sent.
    headers: Vec<libc::msghdr>,
    pieces: Vec<libc::iovec>,
}

/// A socket's datagrams, by io_uring(7).
pub struct Ring<'a> {
    ring: IoUring,
    socket: BorrowedFd<'a>,
    /// It stays where requests may point to it for ever.
    memory: ManuallyDrop<Box<Memory>>,
    /// Where the next free buffer is put.
    tail: u16,
    /// Whether the request to receive is under way.
    is_receiving: bool,
    done: Vec<(u64, i32, u32)>,
}

impl std::fmt::Debug for Ring<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl<'a> Ring<'a> {
    /// For the calling thread alone.
    pub(crate) fn new(socket: BorrowedFd<'a>) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
        let ring = builder.setup_cqsize(4 * u32::from(COUNT)).build(u32::from(COUNT))?;
        let count = usize::from(COUNT);
        // SAFETY: all of both structures may be zeros: they point to nothing.
        let (header, piece): (libc::msghdr, libc::iovec) = unsafe { std::mem::zeroed() };
        let mut memory = Box::new(Memory {
            buffers: Pages::new(count * SIZE_BYTES)?,
            free: Pages::new(count * size_of::<BufRingEntry>())?,
            receives: header,
            headers: vec![header; count],
            pieces: vec![piece; count],
        });
        memory.receives.msg_namelen = size_u32(size_of::<libc::sockaddr_storage>())?;
        // SAFETY: it has room for so many entries, and lives until it is unregistered (`drop`).
        unsafe {
            let at = memory.free.start.as_ptr() as u64;
            ring.submitter().register_buf_ring_with_flags(at, COUNT, GROUP, 0)?;
        }
        let mut made = Self {
            ring,
            socket,
            memory: ManuallyDrop::new(memory),
            tail: 0,
            is_receiving: false,
            done: Vec::new(),
        };
        (0..COUNT).for_each(|number| made.give(number));
        made.publish();
        Ok(made)
    }

    fn buffer(&self, number: u16) -> NonNull<u8> {
        // SAFETY: numbers are below `COUNT`, as `take` sees to, and so it is within the buffers.
        unsafe { self.memory.buffers.start.add(usize::from(number) * SIZE_BYTES) }
    }

    /// Lets the kernel choose a buffer that nothing uses, once that is published.
    fn give(&mut self, number: u16) {
        let index = usize::from(self.tail % COUNT);
        let entries = self.memory.free.start.cast::<BufRingEntry>();
        // SAFETY: the index is below the number of entries there.
        let mut entry = unsafe { entries.add(index) };
        // SAFETY: the kernel reads only entries before the tail that was published last. The tail,
        // which stands in the first one, is no field that is written here.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(self.buffer(number).as_ptr() as u64);
        entry.set_len(SIZE_BYTES_U32);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        let entries = self.memory.free.start.cast::<BufRingEntry>();
        // SAFETY: there are entries, of which the first has the tail.
        let tail = unsafe { BufRingEntry::tail(entries.as_ptr()) };
        // SAFETY: it lives as long as the memory, and the kernel reads it as a whole.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: what the entry points to, buffers, headers and pieces, lives until the ring
            // has no request any more (`drop`), and is not touched before its completion.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// Waits until something has come or gone, but no longer than `timeout`, and takes all of it;
    /// `spared_port` if it is to go back.
    pub(crate) fn turn(&mut self, timeout: Duration, spared_port: Option<u16>) -> io::Result<Turn> {
        let fd = Fd(self.socket.as_raw_fd());
        if !self.is_receiving {
            let receives: *const libc::msghdr = &raw const self.memory.receives;
            self.push(&opcode::RecvMsgMulti::new(fd, receives, GROUP).build().user_data(RECEIVE))?;
            self.is_receiving = true;
        }
        let timeout = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&timeout);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        let mut done = std::mem::take(&mut self.done);
        let completions = self.ring.completion();
        done.extend(completions.map(|one| (one.user_data(), one.result(), one.flags())));
        let mut turn = Turn::default();
        for (request, result, flags) in done.drain(..) {
            if request == RECEIVE {
                self.received(result, flags, spared_port, &mut turn)?;
            } else {
                let (sent, refused) = if result < 0 { (0, 1) } else { (1, 0) };
                (turn.sent, turn.refused) = (turn.sent + sent, turn.refused + refused);
                self.give(u16::try_from(request).map_err(io::Error::other)?);
            }
        }
        self.done = done;
        self.publish();
        Ok(turn)
    }

    /// Takes what was received in; `spared_port` if it is to go back.
    fn received(
        &mut self,
        result: i32,
        flags: u32,
        spared_port: Option<u16>,
        turn: &mut Turn,
    ) -> io::Result<()> {
        self.is_receiving &= cqueue::more(flags);
        let Ok(size) = usize::try_from(result) else {
            // Another one may be what came back of an earlier datagram, or that no buffer is free.
            return match -result {
                code @ (libc::EINVAL | libc::EBADF | libc::EOPNOTSUPP | libc::ENOTSOCK) => {
                    Err(io::Error::from_raw_os_error(code))
                }
                _ => Ok(()),
            };
        };
        let number = cqueue::buffer_select(flags).filter(|number| *number < COUNT);
        let number = number.ok_or_else(|| io::Error::other("a datagram without a buffer"))?;
        let start = self.buffer(number);
        // SAFETY: the kernel has written so many bytes there, and writes no more until the buffer
        // is given to it again.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), size.min(SIZE_BYTES)) };
        let said = RecvMsgOut::parse(bytes, &self.memory.receives);
        let said = said.map_err(|()| io::Error::other("a datagram without a header"))?;
        turn.read += 1;
        let (name, payload) = (said.name_data(), said.payload_data());
        let is_back = spared_port.is_some_and(|spared| {
            !said.is_payload_truncated() && matches!(port(name), Some(port) if port != spared)
        });
        if !is_back {
            turn.refused += u64::from(spared_port.is_some());
            self.give(number);
            return Ok(());
        }
        let index = usize::from(number);
        let Memory { headers, pieces, .. } = &mut **self.memory;
        let (header, piece) = (&mut headers[index], &mut pieces[index]);
        *piece =
            libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
        header.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_namelen = size_u32(name.len())?;
        (header.msg_iov, header.msg_iovlen) = (&raw mut *piece, 1);
        let header: *const libc::msghdr = &raw const *header;
        let fd = Fd(self.socket.as_raw_fd());
        self.push(&opcode::SendMsg::new(fd, header).build().user_data(number.into()))
    }
}

/// The port of an address as the kernel writes it.
fn port(name: &[u8]) -> Option<u16> {
    let [low, high, port_high, port_low] = *name.first_chunk()?;
    let family = libc::c_int::from(u16::from_ne_bytes([low, high]));
    let has_port = family == libc::AF_INET || family == libc::AF_INET6;
    has_port.then_some(u16::from_be_bytes([port_high, port_low]))
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        let submitter = self.ring.submitter();
        let is_over = match submitter.register_sync_cancel(None, CancelBuilder::any()) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_over && submitter.unregister_buf_ring(GROUP).is_ok() {
            // SAFETY: it is dropped once, and neither a request nor the group points to it.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}
