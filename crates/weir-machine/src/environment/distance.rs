//! How far two CPUs are from each other: how long a cache line takes from one to the other.
//!
//! Between cores that share a cache it is 20 to 60 ns, between those that do not, or of two
//! sockets, 80 to 200. On a machine of its own that hardly changes; the CPUs of a virtual machine
//! are moved about, and what one hands to the other costs up to twice as much after a move. Nothing
//! is judged here, and no packet is sent.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_net::CpuList;
use weir_net::cpu::pin_current_thread;

/// Round trips that are timed together, and how often: of all the shortest counts, because whatever
/// else runs only makes them longer.
const TRIPS: u32 = 300;
const TIMES: u32 = 8;
/// How long it may take: longer, and another program has one of the CPUs.
const PATIENCE: Duration = Duration::from_millis(100);

/// A value alone on its cache lines: neighbours are fetched in pairs.
#[repr(align(128))]
struct Ball(AtomicU32);

impl Ball {
    /// Waits for a value; false if it does not come in time.
    fn wait_for(&self, value: u32, deadline: Instant) -> bool {
        let mut looks = 0_u32;
        while self.0.load(Ordering::Acquire) != value {
            looks += 1;
            if looks.is_multiple_of(4096) && Instant::now() > deadline {
                return false;
            }
        }
        true
    }
}

/// The time from one CPU to the other, one way, in nanoseconds; `None` if they are the same, may
/// not be used, or another program has one of them.
#[must_use]
pub fn between(one: usize, other: usize) -> Option<f64> {
    if one == other {
        return None;
    }
    let ball = Ball(AtomicU32::new(0));
    let deadline = Instant::now() + PATIENCE;
    let total = TRIPS * TIMES;
    let pin = |cpu| CpuList::new([cpu]).is_some_and(|cpus| pin_current_thread(&cpus).is_ok());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut is_there = pin(other);
            for trip in 0..total {
                is_there = is_there && ball.wait_for(2 * trip + 1, deadline);
                if !is_there {
                    return;
                }
                ball.0.store(2 * trip + 2, Ordering::Release);
            }
        });
        let here = scope.spawn(|| {
            if !pin(one) {
                return None;
            }
            let mut least = f64::INFINITY;
            for time in 0..TIMES {
                let begin = Instant::now();
                for trip in time * TRIPS..(time + 1) * TRIPS {
                    ball.0.store(2 * trip + 1, Ordering::Release);
                    if !ball.wait_for(2 * trip + 2, deadline) {
                        return None;
                    }
                }
                least = least.min(begin.elapsed().as_secs_f64());
            }
            Some(least * 1e9 / f64::from(TRIPS) / 2.0)
        });
        here.join().ok().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_its_time_to_another_cpu_and_none_to_the_same() {
        let online: Vec<usize> = weir_net::cpu::online().unwrap().iter().collect();
        assert_eq!(between(online[0], online[0]), None);
        assert_eq!(between(online[0], usize::from(u16::MAX)), None, "no CPU has that number");
        if let [one, other, ..] = online[..] {
            // Others may have the CPUs for a while.
            let found = (0..50).find_map(|_| between(one, other));
            let found = found.expect("the CPUs are free now and then");
            assert!(found > 1.0 && found < 1e6, "{found} ns");
        }
    }
}
