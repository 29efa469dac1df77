//! Workers with a UDP socket. What comes from the own port is not answered: another such server may
//! have sent it, and the two would never end.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use weir_bpf::datagrams::{Batch, MESSAGE_BYTES_MAX, Ring};

use super::Job;

/// How long a worker sleeps at most before it looks whether it is to end.
const LOOK_AGAIN_MS: u16 = 50;
/// Datagrams that are taken after a wake-up, at most, before the kernel is asked for events again.
const BURST: usize = 64;
/// The largest datagram that is taken where messages hold one each.
const DATAGRAM_BYTES_MAX: usize = 9216;

fn watch(socket: &UdpSocket) -> io::Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    Ok(epoll)
}

/// Whether something is to be read; waits for it.
fn wait(epoll: &Epoll) -> io::Result<bool> {
    let mut events = [EpollEvent::empty()];
    match epoll.wait(&mut events, EpollTimeout::from(LOOK_AGAIN_MS)) {
        Ok(count) => Ok(count > 0),
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A system call for each datagram that is read, and one for each that is sent.
pub(super) fn one_by_one(job: &Job, socket: &UdpSocket, port: u16) -> io::Result<()> {
    let epoll = watch(socket)?;
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    while job.goes_on() {
        if !wait(&epoll)? {
            continue;
        }
        for _ in 0..BURST {
            // An error is that of an earlier datagram, which is gone.
            let Ok((bytes, peer)) = socket.recv_from(&mut buffer) else { break };
            if !job.echoes {
                job.counters.add(1, 0, 0);
            } else if peer.port() != port && socket.send_to(&buffer[..bytes], peer).is_ok() {
                job.counters.add(1, 1, 0);
            } else {
                job.counters.add(1, 0, 1);
            }
        }
    }
    Ok(())
}

/// Requests in memory that is shared with the kernel, many for each system call.
pub(super) fn ringed(job: &Job, socket: &UdpSocket, port: u16) -> io::Result<()> {
    let mut ring = Ring::open(socket.as_fd()).map_err(|error| {
        let text = format!(
            "io_uring is refused ({error}): it needs Linux 6.1 or later, and 0 in \
             kernel.io_uring_disabled (sysctl); --backend mmsg does without"
        );
        io::Error::new(error.kind(), text)
    })?;
    while job.goes_on() {
        let timeout = Duration::from_millis(LOOK_AGAIN_MS.into());
        let turn = if job.echoes { ring.send_back(timeout, port)? } else { ring.receive(timeout)? };
        job.counters.add(turn.read, turn.sent, turn.refused);
    }
    Ok(())
}

/// A system call for many.
pub(super) fn batched(job: &Job, socket: &UdpSocket, port: u16, gro: bool) -> io::Result<()> {
    let epoll = watch(socket)?;
    let bytes = if gro { MESSAGE_BYTES_MAX } else { DATAGRAM_BYTES_MAX };
    let mut batch = Batch::new(BURST, bytes);
    while job.goes_on() {
        if !wait(&epoll)? {
            continue;
        }
        // As above.
        let count = batch.receive(socket.as_fd()).unwrap_or(0);
        let read = (0..count).map(|index| batch.datagram_count(index)).sum();
        if job.echoes {
            let done = batch.send_back(socket.as_fd(), count, port);
            job.counters.add(read, done.sent, done.refused);
        } else {
            job.counters.add(read, 0, 0);
        }
    }
    Ok(())
}
