//! The server: a worker for each receive queue or bucket, each on a CPU of its own as far as there
//! are, and a program that counts datagrams where they come in.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use nix::unistd::gettid;
use weir_bpf::datagrams::{self, DropCounter};
use weir_bpf::echo::{EchoLink, EchoProgram, Way};
use weir_bpf::ethtool;
use weir_bpf::rss::QueueMark;
use weir_bpf::xsk::{self, Xsk};
use weir_net::{CpuList, Netlink, cpu};
use weir_rss::{Each, Steering, open_udp};
use weir_wire::rss::Settings;

use super::report::{BucketCounts, ServerCounts, WorkerCounts};
use super::{Backend, EchoError};

mod frames;
mod sockets;

/// What a server is to do.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address, settings, what there is a worker for, and how its datagrams reach it.
    pub group: weir_rss::Options,
    /// The interface where datagrams are counted, and which AF_XDP and XDP work at.
    pub interface: Option<String>,
    /// How datagrams are taken and returned.
    pub backend: Backend,
    /// CPUs of the workers, in turn; none: they stay on none.
    pub cpus: Vec<usize>,
    /// Whether datagrams are returned, or only read.
    pub echoes: bool,
    /// Whether datagrams of one peer are read and returned together (`Backend::Mmsg`).
    pub gro: bool,
}

/// What a worker counts, and only it writes.
#[derive(Debug, Default)]
struct Counters {
    read: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
    /// The number of its thread; 0 until it runs.
    thread: AtomicI32,
    /// Time that the thread was on a CPU; 0 until it has ended.
    cpu_time_ns: AtomicU64,
}

impl Counters {
    fn add(&self, read: u64, sent: u64, refused: u64) {
        for (counter, more) in [(&self.read, read), (&self.sent, sent), (&self.refused, refused)] {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }
}

/// What a worker has: its counters, and whether it is to end.
#[derive(Debug, Clone)]
struct Job {
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    echoes: bool,
}

impl Job {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Worker {
    /// `None` behind its end.
    thread: Option<JoinHandle<io::Result<()>>>,
    counters: Arc<Counters>,
    /// The worker's socket, to ask for what it dropped.
    socket: OwnedFd,
    drops: DropCounter,
    cpu: Option<usize>,
}

/// A server that runs until it is dropped, or stopped.
#[derive(Debug)]
pub struct Server {
    begin: Instant,
    backend: Backend,
    workers: Vec<Worker>,
    stop: Arc<AtomicBool>,
    // The link goes before what it uses.
    link: Option<EchoLink>,
    program: Option<EchoProgram>,
    steering: Option<Steering>,
    /// The interface whose settings these are, and the address that they are for.
    followed: Option<(String, SocketAddr)>,
    settings: Settings,
}

impl Server {
    /// Starts it, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`EchoError`] if sockets, programs or threads are refused; nothing runs then.
    pub fn start(options: &ServerOptions) -> Result<Self, EchoError> {
        let settings = options.group.settings.clone();
        let mut server = Self {
            begin: Instant::now(),
            backend: options.backend,
            workers: Vec::new(),
            stop: Arc::default(),
            link: None,
            program: None,
            steering: None,
            followed: options.group.interface.clone().map(|name| (name, options.group.address)),
            settings,
        };
        let queue_count = server.settings.table.queue_count();
        let ifindex = match &options.interface {
            Some(interface) => {
                let mark = QueueMark::of_driver(&ethtool::driver(interface)?);
                let way = match options.backend {
                    Backend::Epoll | Backend::Mmsg | Backend::Uring => Way::Stack,
                    Backend::AfXdp => Way::Sockets,
                    Backend::Xdp => Way::Back,
                };
                let listener = options.group.address;
                let room = u32::try_from(queue_count).unwrap_or(u32::MAX);
                let program = EchoProgram::load(way, listener, &server.settings, room, mark)?;
                server.program = Some(program);
                Some(Netlink::open()?.ifindex(interface)?)
            }
            None if options.backend.is_xdp() => return Err(EchoError::NoInterface),
            None => None,
        };
        // What the sockets get has arrived; so the count of arrivals begins first, and ends last.
        if let (Some(program), Some(ifindex)) = (&server.program, ifindex) {
            server.link = Some(program.attach(ifindex)?);
        }
        match options.backend {
            Backend::Epoll | Backend::Mmsg | Backend::Uring => server.start_sockets(options)?,
            Backend::AfXdp => server.start_frames(options, queue_count, ifindex)?,
            Backend::Xdp => {}
        }
        Ok(server)
    }

    fn start_sockets(&mut self, options: &ServerOptions) -> Result<(), EchoError> {
        let (sockets, steering) = open_udp(&options.group)?.into_parts();
        self.steering = Some(steering);
        let failed = |worker| move |source| EchoError::Worker { worker, source };
        let backend = options.backend;
        for (worker, socket) in sockets.into_iter().enumerate() {
            // A ring waits itself, and would not wait for what a socket does not.
            socket.set_nonblocking(backend != Backend::Uring).map_err(failed(worker))?;
            let gro = backend == Backend::Mmsg && options.gro;
            if gro {
                datagrams::set_gro(socket.as_fd()).map_err(failed(worker))?;
            }
            let copy = socket.as_fd().try_clone_to_owned().map_err(failed(worker))?;
            let port = socket.local_addr().map_err(failed(worker))?.port();
            self.start_worker(options, copy, move |job| match backend {
                Backend::Mmsg => sockets::batched(job, &socket, port, gro),
                Backend::Uring => sockets::ringed(job, &socket, port),
                _ => sockets::one_by_one(job, &socket, port),
            })?;
        }
        Ok(())
    }

    fn start_frames(
        &mut self,
        options: &ServerOptions,
        queue_count: usize,
        ifindex: Option<u32>,
    ) -> Result<(), EchoError> {
        let (Some(interface), Some(ifindex)) = (&options.interface, ifindex) else {
            return Err(EchoError::NoInterface);
        };
        let failed =
            |queue| move |source| EchoError::Queue { interface: interface.clone(), queue, source };
        for queue in 0..queue_count {
            let number = u32::try_from(queue).unwrap_or(u32::MAX);
            let mut socket = Xsk::open(ifindex, number).map_err(failed(queue))?;
            if let Some(program) = &self.program {
                program.add(number, socket.as_fd())?;
            }
            // To ask it for its drops: the kernel keeps the socket's memory for as long as one of
            // both is open.
            let copy = socket.as_fd().try_clone_to_owned().map_err(failed(queue))?;
            let port = options.group.address.port();
            self.start_worker(options, copy, move |job| frames::serve(job, &mut socket, port))?;
        }
        Ok(())
    }

    fn start_worker(
        &mut self,
        options: &ServerOptions,
        socket: OwnedFd,
        serve: impl FnOnce(&Job) -> io::Result<()> + Send + 'static,
    ) -> Result<(), EchoError> {
        let number = self.workers.len();
        let cpu = match options.cpus.len() {
            0 => None,
            count => Some(options.cpus[number % count]),
        };
        let pinned = cpu.and_then(|cpu| CpuList::new([cpu]));
        let counters = Arc::<Counters>::default();
        let stop = self.stop.clone();
        let job = Job { counters: counters.clone(), stop, echoes: options.echoes };
        let thread = thread::Builder::new()
            .name(format!("echo {number}"))
            .spawn(move || {
                if let Some(cpus) = pinned {
                    cpu::pin_current_thread(&cpus).map_err(io::Error::other)?;
                }
                let thread = gettid().as_raw();
                job.counters.thread.store(thread, Ordering::Relaxed);
                let result = serve(&job);
                job.counters.cpu_time_ns.store(cpu_time_ns(thread), Ordering::Relaxed);
                result
            })
            .map_err(EchoError::Thread)?;
        let drops = DropCounter::default();
        self.workers.push(Worker { thread: Some(thread), counters, socket, drops, cpu });
        Ok(())
    }

    /// How datagrams are spread, as far as it is known.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Goes by the interface's settings as they now are; says whether they have changed.
    ///
    /// # Errors
    /// [`EchoError`] if they cannot be read, or there are not the workers for them.
    pub fn follow(&mut self) -> Result<bool, EchoError> {
        let new = match (&self.steering, &self.followed) {
            (Some(steering), _) => steering.changed()?,
            // Nobody is steered to, but what is misplaced depends on them.
            (None, Some((interface, address))) => {
                let new = weir_rss::group::settings(interface, *address, true)?;
                (new != self.settings).then_some(new)
            }
            (None, None) => None,
        };
        let Some(new) = new else { return Ok(false) };
        // It refuses a table of another size, which sockets may have room for.
        if let Some(program) = &self.program {
            program.set(&new)?;
        }
        if let Some(steering) = &mut self.steering {
            steering.go_by(new.clone())?;
        }
        self.settings = new;
        Ok(true)
    }

    /// What it has counted since it was started.
    ///
    /// # Errors
    /// [`EchoError`] if a counter cannot be read.
    pub fn counts(&self) -> Result<ServerCounts, EchoError> {
        // In the order of the way back, so that nothing is sent that was not read.
        let mut workers = Vec::with_capacity(self.workers.len());
        for (number, worker) in self.workers.iter().enumerate() {
            workers.push(self.counts_of(number, worker)?);
        }
        let buckets = match &self.program {
            Some(program) => program.counts()?,
            None => Vec::new(),
        };
        let buckets = buckets.iter().map(|count| BucketCounts {
            arrived_packets: count.packets,
            misplaced_packets: count.misplaced_packets,
            refused_packets: count.refused_packets,
        });
        Ok(ServerCounts {
            duration_ns: u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            workers,
            buckets: buckets.collect(),
            is_reflected: self.backend == Backend::Xdp,
        })
    }

    fn counts_of(&self, number: usize, worker: &Worker) -> Result<WorkerCounts, EchoError> {
        let counters = &worker.counters;
        let sent_packets = counters.sent.load(Ordering::Relaxed);
        let refused_packets = counters.refused.load(Ordering::Relaxed);
        let read_packets = counters.read.load(Ordering::Relaxed);
        let dropped = match self.backend {
            Backend::AfXdp => xsk::drop_count(worker.socket.as_fd()),
            _ => worker.drops.read(worker.socket.as_fd()),
        };
        let failed = |source| EchoError::Worker { worker: number, source };
        Ok(WorkerCounts {
            cpu: worker.cpu,
            read_packets,
            sent_packets,
            refused_packets,
            dropped_packets: dropped.map_err(failed)?,
            cpu_time_ns: match counters.cpu_time_ns.load(Ordering::Relaxed) {
                0 => cpu_time_ns(counters.thread.load(Ordering::Relaxed)),
                of_ended => of_ended,
            },
        })
    }

    /// Whether all workers go on, which they do until they fail.
    ///
    /// # Errors
    /// What one has ended with.
    pub fn check(&mut self) -> Result<(), EchoError> {
        let has_ended =
            |worker: &Worker| worker.thread.as_ref().is_some_and(|thread| thread.is_finished());
        match self.workers.iter().position(has_ended) {
            Some(worker) => self.end(worker),
            None => Ok(()),
        }
    }

    /// Ends it, and returns what it has counted.
    ///
    /// # Errors
    /// [`EchoError`] if a worker has failed.
    pub fn stop(mut self) -> Result<ServerCounts, EchoError> {
        self.stop.store(true, Ordering::Relaxed);
        for worker in 0..self.workers.len() {
            self.end(worker)?;
        }
        self.counts()
    }

    /// Waits for the end of a worker.
    fn end(&mut self, worker: usize) -> Result<(), EchoError> {
        let Some(thread) = self.workers[worker].thread.take() else { return Ok(()) };
        match thread.join() {
            Ok(result) => result.map_err(|source| EchoError::Worker { worker, source }),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in &mut self.workers {
            // Its socket is closed when this returns; what it failed with does not matter any more.
            drop(worker.thread.take().map(JoinHandle::join));
        }
    }
}

/// Time that a thread of this process was on a CPU; 0 if there is no such thread.
fn cpu_time_ns(thread: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let text = text.unwrap_or_default();
    text.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0)
}

/// What there is a worker for, as far as a backend can: AF_XDP has a socket at each queue.
#[must_use]
pub const fn allows(backend: Backend, each: Each) -> bool {
    !(backend.is_xdp() && matches!(each, Each::Bucket))
}
