//! Which connections are free, and what waits for one. Everything is first in, first out: nothing
//! is favoured because it was used last.

use std::collections::VecDeque;

use super::super::config::BACKLOG_MAX;

/// A time, nanoseconds, and the connection that has to wait until then.
type Waiting = (u64, u32);

#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Connections without a request.
    pub(super) idle: VecDeque<u32>,
    /// Connections that have just lost theirs.
    pub(super) freed: VecDeque<u32>,
    /// Connections on which there may be more to read.
    pub(super) unread: Vec<u32>,
    /// When the requests were due that wait for a connection.
    pub(super) backlog: VecDeque<u64>,
    /// Connections that failed; all wait for the same time, so that they are in order.
    pub(super) paused: VecDeque<Waiting>,
    /// Connections whose users think; as above.
    pub(super) thinking: VecDeque<Waiting>,
}

impl Queues {
    /// When something is to be done next; 0 if that is now.
    pub(super) fn wake_ns(&self) -> u64 {
        if !self.freed.is_empty() || !self.unread.is_empty() {
            return 0;
        }
        let first = |queue: &VecDeque<Waiting>| queue.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        first(&self.paused).min(first(&self.thinking))
    }

    /// Frees those whose time has come.
    pub(super) fn wake(&mut self, now_ns: u64) {
        for queue in [&mut self.paused, &mut self.thinking] {
            while let Some((_, id)) = queue.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
                self.freed.push_back(id);
            }
        }
    }

    /// Frees all that are idle.
    pub(super) fn free_all(&mut self) {
        self.freed.append(&mut self.idle);
    }

    /// Has a request wait for a connection; not if too many do.
    pub(super) fn wait(&mut self, due_ns: u64) -> bool {
        let has_room = self.backlog.len() < BACKLOG_MAX;
        if has_room {
            self.backlog.push_back(due_ns);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_freed_in_time_and_in_order() {
        let mut queues = Queues::default();
        assert_eq!(queues.wake_ns(), u64::MAX);
        queues.thinking.extend([(20, 1), (30, 2)]);
        queues.paused.push_back((10, 0));
        assert_eq!(queues.wake_ns(), 10);
        queues.wake(20);
        assert_eq!(queues.freed.len() + queues.thinking.len(), 3);
        assert!(queues.freed.contains(&0) && queues.freed.contains(&1));
        assert_eq!(queues.wake_ns(), 0);
        queues.idle.extend([7, 8]);
        queues.free_all();
        assert_eq!((queues.freed.len(), queues.idle.len()), (4, 0));
    }

    #[test]
    fn only_so_many_requests_wait() {
        let mut queues = Queues::default();
        for due_ns in 0..BACKLOG_MAX as u64 {
            assert!(queues.wait(due_ns));
        }
        assert!(!queues.wait(0));
        assert_eq!(queues.backlog.len(), BACKLOG_MAX);
    }
}
