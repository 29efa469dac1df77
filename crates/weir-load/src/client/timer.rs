//! A timer that an event loop waits on: finer than epoll's milliseconds, and set only when its time
//! changes.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

#[derive(Debug)]
pub(super) struct Timer {
    timer: TimerFd,
    set_ns: u64,
}

impl Timer {
    /// Registered with an event loop. Its events are edges, so that nothing is to be read.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let descriptor = timer.as_fd().as_raw_fd();
        registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE)?;
        Ok(Self { timer, set_ns: 0 })
    }

    /// Has it wake the loop at a time of the monotonic clock, nanoseconds, above zero.
    pub(super) fn set(&mut self, at_ns: u64) -> io::Result<()> {
        if self.set_ns == at_ns {
            return Ok(());
        }
        let at = Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(at_ns)));
        self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        self.set_ns = at_ns;
        Ok(())
    }
}
