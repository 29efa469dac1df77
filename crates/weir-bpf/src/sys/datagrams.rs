//! recvmmsg(2) and sendmmsg(2), with the control messages of UDP's offloads (cmsg(3), udp(7)).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::size_u32;

/// Room for one control message with an integer, in words, so that it is aligned.
const CONTROL_WORDS: usize = 4;
/// Where the integer begins: behind the header, whose fields are a `size_t` and two integers.
const CONTROL_HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// Buffers for messages, with where they came from and how large the datagrams in them are.
#[derive(Debug)]
pub struct Batch {
    buffers: Vec<u8>,
    buffer_bytes: usize,
    peers: Vec<libc::sockaddr_storage>,
    peer_bytes: Vec<libc::socklen_t>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    lengths: Vec<usize>,
    /// Whether the buffer was too small for the message.
    is_cut: Vec<bool>,
    /// 0: a message is a datagram.
    segment_bytes: Vec<u16>,
    /// Messages that the next call asks for: twice as many as came last, because each that is asked
    /// for costs something, whether it comes or not.
    asked_count: usize,
}

/// The fewest messages that a call asks for, where there is room.
const ASKED_COUNT_MIN: usize = 8;

impl Batch {
    /// Room for so many messages of so many bytes.
    #[must_use]
    pub fn new(message_count: usize, buffer_bytes: usize) -> Self {
        // SAFETY: all of the structure may be zeros: an address of no family.
        let nobody: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Self {
            buffers: vec![0; message_count * buffer_bytes],
            buffer_bytes,
            peers: vec![nobody; message_count],
            peer_bytes: vec![0; message_count],
            controls: vec![[0; CONTROL_WORDS]; message_count],
            lengths: vec![0; message_count],
            is_cut: vec![false; message_count],
            segment_bytes: vec![0; message_count],
            asked_count: message_count,
        }
    }

    /// Most messages of a call.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.lengths.len()
    }

    /// The bytes of a message.
    #[must_use]
    pub fn message(&self, index: usize) -> &[u8] {
        let start = index * self.buffer_bytes;
        &self.buffers[start..start + self.lengths[index]]
    }

    /// Makes a message of `size_bytes`, of one datagram, to be written.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn lay_out(&mut self, index: usize, size_bytes: usize) -> &mut [u8] {
        assert!(size_bytes <= self.buffer_bytes, "the batch is for smaller messages");
        (self.lengths[index], self.segment_bytes[index]) = (size_bytes, 0);
        self.is_cut[index] = false;
        let start = index * self.buffer_bytes;
        &mut self.buffers[start..start + size_bytes]
    }

    /// The datagrams of a message.
    pub fn datagrams(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let message = self.message(index);
        let size_bytes = match self.segment_bytes[index] {
            0 => message.len(),
            size_bytes => size_bytes.into(),
        };
        message.chunks(size_bytes.max(1))
    }

    /// Whether a message that was received had more bytes than there was room for.
    #[must_use]
    pub fn is_cut(&self, index: usize) -> bool {
        self.is_cut[index]
    }

    /// The port that a message was received from.
    #[must_use]
    pub fn peer_port(&self, index: usize) -> Option<u16> {
        let peer = &self.peers[index];
        let family = libc::c_int::from(peer.ss_family);
        if family != libc::AF_INET && family != libc::AF_INET6 {
            return None;
        }
        let head: *const [u8; 4] = std::ptr::from_ref(peer).cast();
        // SAFETY: the addresses of both families have the port, of two bytes in the order of the
        // network, behind the family, of two bytes; the structure is larger, and initialised.
        let [_, _, high, low] = unsafe { *head };
        Some(u16::from_be_bytes([high, low]))
    }

    /// Number of datagrams of a message; one without a byte is one, too.
    #[must_use]
    pub fn datagram_count(&self, index: usize) -> u64 {
        match self.segment_bytes[index] {
            0 => 1,
            size_bytes => self.lengths[index].div_ceil(size_bytes.into()).max(1) as u64,
        }
    }

    /// Headers of messages, which point into this batch: valid as long as it is borrowed and
    /// nothing of it moves.
    fn headers(&mut self, messages: Range<usize>) -> (Vec<libc::iovec>, Vec<libc::mmsghdr>) {
        let mut pieces: Vec<libc::iovec> = Vec::with_capacity(messages.len());
        for index in messages.clone() {
            let start = index * self.buffer_bytes;
            let buffer = &mut self.buffers[start..start + self.lengths[index]];
            pieces
                .push(libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() });
        }
        let mut headers = Vec::with_capacity(messages.len());
        for (piece, index) in pieces.iter_mut().zip(messages) {
            // SAFETY: all of the structure may be zeros: nothing is given then.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut self.peers[index]).cast();
            header.msg_hdr.msg_namelen = self.peer_bytes[index];
            header.msg_hdr.msg_control = self.controls[index].as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = 0;
            headers.push(header);
        }
        (pieces, headers)
    }
}

/// Takes what waits, without waiting.
pub(crate) fn receive(batch: &mut Batch, socket: BorrowedFd<'_>) -> io::Result<usize> {
    let count = batch.asked_count;
    batch.lengths[..count].fill(batch.buffer_bytes);
    batch.controls[..count].fill([0; CONTROL_WORDS]);
    batch.peer_bytes[..count].fill(size_u32(size_of::<libc::sockaddr_storage>())?);
    let (pieces, mut headers) = batch.headers(0..count);
    for header in &mut headers {
        header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
    }
    // SAFETY: the headers, the pieces that they point to, and the buffers, addresses and controls
    // of the batch, which is borrowed mutably, outlive the call; each has the size that is given.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            size_u32(count)?,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error());
    drop(pieces);
    let came = received.as_ref().map_or(0, |count| *count);
    batch.asked_count = (2 * came).max(ASKED_COUNT_MIN).min(batch.message_count());
    let received = received?;
    for (index, header) in headers.iter().take(received).enumerate() {
        batch.lengths[index] = (header.msg_len as usize).min(batch.buffer_bytes);
        batch.peer_bytes[index] = header.msg_hdr.msg_namelen;
        batch.is_cut[index] = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        let gro = gro_bytes(&batch.controls[index]);
        let is_several = usize::from(gro) < batch.lengths[index];
        batch.segment_bytes[index] = if is_several { gro } else { 0 };
    }
    Ok(received)
}

/// Sends messages, each to its peer, or all to that of a connected socket; says how many were
/// taken, from the first on.
pub(crate) fn send(
    batch: &mut Batch,
    socket: BorrowedFd<'_>,
    messages: Range<usize>,
    is_to_peers: bool,
) -> io::Result<usize> {
    for index in messages.clone() {
        // Before the headers point to them.
        batch.controls[index] = segment_control(batch.segment_bytes[index]);
    }
    let (pieces, mut headers) = batch.headers(messages.clone());
    for (header, index) in headers.iter_mut().zip(messages) {
        let header = &mut header.msg_hdr;
        if !is_to_peers {
            (header.msg_name, header.msg_namelen) = (std::ptr::null_mut(), 0);
        }
        if batch.segment_bytes[index] == 0 {
            header.msg_control = std::ptr::null_mut();
        } else {
            // As CMSG_SPACE counts: whole words.
            let space = (CONTROL_HEADER_BYTES + 2).next_multiple_of(size_of::<usize>());
            header.msg_controllen = space as _;
        }
    }
    // SAFETY: as for receiving; here the kernel only reads, but for the lengths in the headers.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            size_u32(headers.len())?,
            libc::MSG_NOSIGNAL as _,
        )
    };
    let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error());
    drop(pieces);
    sent
}

fn integer(bytes: &[u8], at: usize) -> i32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    i32::from_ne_bytes(word)
}

fn bytes_of(control: &[u64; CONTROL_WORDS]) -> [u8; 8 * CONTROL_WORDS] {
    let mut bytes = [0; 8 * CONTROL_WORDS];
    for (place, word) in bytes.chunks_exact_mut(8).zip(control) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The size of the datagrams that GRO has put together; 0 if it has not.
fn gro_bytes(control: &[u64; CONTROL_WORDS]) -> u16 {
    let bytes = bytes_of(control);
    let level = integer(&bytes, size_of::<usize>());
    let kind = integer(&bytes, size_of::<usize>() + 4);
    if (level, kind) != (libc::SOL_UDP, libc::UDP_GRO) {
        return 0;
    }
    u16::try_from(integer(&bytes, CONTROL_HEADER_BYTES)).unwrap_or(0)
}

/// What asks for a message to be sent as datagrams of that size.
fn segment_control(segment_bytes: u16) -> [u64; CONTROL_WORDS] {
    let mut bytes = [0; 8 * CONTROL_WORDS];
    let length = CONTROL_HEADER_BYTES + 2;
    bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
    let level = size_of::<usize>();
    bytes[level..level + 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    bytes[level + 4..level + 8].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    bytes[CONTROL_HEADER_BYTES..length].copy_from_slice(&segment_bytes.to_ne_bytes());
    let mut words = [0; CONTROL_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    use super::super::super::datagrams::{DropCounter, Sent, set_gro};
    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [here, there] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port"));
        here.connect(there.local_addr().expect("it has one")).expect("it is there");
        here.set_nonblocking(true).expect("it can be set");
        (here, there)
    }

    #[test]
    fn a_batch_is_sent_received_and_sent_back() {
        let (here, there) = pair();
        let mut batch = Batch::new(8, 100);
        for index in 0..8 {
            batch.lay_out(index, 20 + index).fill(u8::try_from(index).expect("small"));
        }
        assert_eq!(batch.send(here.as_fd(), 8), Sent { sent: 8, refused: 0 });
        let mut echo = Batch::new(5, 100);
        for count in [5, 3, 0] {
            assert_eq!(echo.receive(there.as_fd()).expect("it can"), count);
            assert_eq!(echo.send_back(there.as_fd(), count, 0).sent, count as u64);
        }
        assert_eq!(batch.receive(here.as_fd()).expect("it can"), 8);
        for index in 0..8 {
            assert_eq!(batch.message(index), vec![u8::try_from(index).expect("small"); 20 + index]);
            assert_eq!(batch.datagrams(index).count(), 1);
        }
    }

    #[test]
    fn datagrams_that_were_put_together_are_counted_and_taken_apart_again() {
        let (here, there) = pair();
        set_gro(there.as_fd()).expect("the kernel can");
        let mut batch = Batch::new(1, 4_000);
        for (index, byte) in batch.lay_out(0, 1_050).iter_mut().enumerate() {
            *byte = u8::try_from(index / 100).expect("small");
        }
        batch.segment_bytes[0] = 100;
        assert_eq!(batch.send(here.as_fd(), 1), Sent { sent: 11, refused: 0 });
        let mut echo = Batch::new(4, 4_000);
        let (mut datagram_count, mut message_count) = (0, 0);
        while datagram_count < 11 {
            let count = echo.receive(there.as_fd()).expect("it can");
            let sent = echo.send_back(there.as_fd(), count, 0);
            assert_eq!(sent.refused, 0);
            datagram_count += sent.sent;
            message_count += count;
        }
        assert_eq!((datagram_count, message_count), (11, 1));
        let mut back = Batch::new(16, 4_000);
        let count = back.receive(here.as_fd()).expect("it can");
        let sizes: Vec<usize> = (0..count).map(|index| back.message(index).len()).collect();
        assert_eq!(sizes, [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 50]);
        assert_eq!(back.message(10), [10; 50]);
    }

    #[test]
    fn what_is_of_a_server_or_cut_is_not_sent_back() {
        let (here, there) = pair();
        let port = here.local_addr().expect("it has one").port();
        let mut batch = Batch::new(3, 100);
        for (index, bytes) in [(0, 20), (1, 60), (2, 30)] {
            batch.lay_out(index, bytes);
        }
        let mut echo = Batch::new(3, 50);
        for (spared_port, expected) in
            [(0, Sent { sent: 2, refused: 1 }), (port, Sent { sent: 0, refused: 3 })]
        {
            assert_eq!(batch.send(here.as_fd(), 3).sent, 3);
            assert_eq!(echo.receive(there.as_fd()).expect("it can"), 3);
            assert_eq!([0, 1, 2].map(|index| echo.is_cut(index)), [false, true, false]);
            assert_eq!(echo.peer_port(2), Some(port));
            assert_eq!(echo.send_back(there.as_fd(), 3, spared_port), expected);
        }
        let mut back = Batch::new(8, 100);
        assert_eq!(back.receive(here.as_fd()).expect("it can"), 2);
        assert_eq!((back.message(0).len(), back.message(1).len()), (20, 30));
    }

    #[test]
    fn what_a_socket_has_no_room_for_is_counted() {
        let (here, there) = pair();
        let mut batch = Batch::new(64, 1_000);
        for index in 0..64 {
            batch.lay_out(index, 1_000);
        }
        let mut sent = 0;
        let drops = DropCounter::default();
        while drops.read(there.as_fd()).expect("the kernel says") == 0 && sent < 1 << 20 {
            sent += batch.send(here.as_fd(), 64).sent;
        }
        let mut received = 0;
        loop {
            match batch.receive(there.as_fd()).expect("it can") {
                0 => break,
                count => received += count as u64,
            }
        }
        assert_eq!(received + drops.read(there.as_fd()).expect("the kernel says"), sent);
    }
}
