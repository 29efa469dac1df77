//! An HTTP server for tests: workers that share an address, and one process that adds up what they
//! count.
//!
//! Each worker listens by itself with SO_REUSEPORT, so that the kernel spreads connections over
//! them. A request for the counters is answered by whichever worker it came to, with those of all:
//! it asks this process, which asks every worker.

mod connection;
mod shared;
pub mod tls;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use weir_http::served::{Served, Stats};
use weir_net::counters::{self, CountersError, Netstat};

use crate::crew::{Crew, CrewError, Program};
use crate::descriptors;
use tls::{Certificate, Identity, TlsError};

pub use worker::work;

/// How long a worker may take to begin, or to tell its counters, on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections that wait to be accepted; the kernel's `net.core.somaxconn` may say less.
const BACKLOG: i32 = 65_535;

/// What to serve with.
#[derive(Debug)]
pub struct ServerOptions {
    /// What runs [`work`].
    pub program: Program,
    /// Addresses and ports, at least one; a port of 0 is chosen by the kernel.
    pub listen: Vec<SocketAddr>,
    /// The listening sockets of the workers, of [`listeners`], if they have to be known before: one
    /// for each. Without any, each worker makes those of all addresses.
    pub listeners: Vec<TcpListener>,
    /// Number of workers, at least 1.
    pub worker_count: usize,
    /// CPUs to pin workers to, in turn; without any, the kernel places them.
    pub cpus: Vec<usize>,
    /// What to serve TLS with; `None`: in the clear.
    pub certificate: Option<Certificate>,
}

/// Why a server cannot start, or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Somebody else listens there, or the address is none of this host.
    #[error("cannot listen at {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    /// A listening socket cannot be given to its worker.
    #[error("cannot give a worker its listening socket: {0}")]
    Inherit(io::Error),
    /// A worker says why it cannot go on.
    #[error("worker {worker}: {reason}")]
    Worker { worker: usize, reason: String },
    /// It may hang, or the machine is far too busy.
    #[error("worker {0} has not answered for {patience_s} s", patience_s = PATIENCE.as_secs())]
    Silent(usize),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Crew(#[from] CrewError),
    #[error(transparent)]
    Counters(#[from] CountersError),
}

/// Connections that a listening socket had no room for.
fn overflows(network: &mut Netstat) -> Result<u64, CountersError> {
    Ok(network.read()?.get(counters::LISTEN_OVERFLOWS).copied().unwrap_or(0))
}

/// What a worker is started with.
#[derive(Serialize, Deserialize)]
struct Config {
    listen: Vec<SocketAddr>,
    /// It was started with a listening socket.
    inherits: bool,
    cpu: Option<usize>,
    /// Makes its random numbers others than those of the other workers.
    seed: u64,
    tls: Option<Identity>,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    Listening,
    Counts(Served),
    /// Somebody asks it for the counters of all workers.
    Ask,
    Failed(String),
}

/// What a worker is to do.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Say what it has counted.
    Count,
    /// Answer those who asked first with this.
    Tell(Box<Stats>),
    /// Serve no more, and say what it has counted.
    Stop,
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    crew: Crew<Said>,
    addresses: Vec<SocketAddr>,
    /// The counters of the network namespace that it was started in, and what they said then.
    network: Netstat,
    overflows_before: u64,
    /// Workers that wait for the counters of all.
    asking: Vec<usize>,
}

impl Server {
    /// Starts it: when this returns, connections are accepted.
    ///
    /// # Errors
    ///
    /// If somebody listens at an address already, or workers cannot be started.
    pub fn start(options: &ServerOptions) -> Result<Self, ServerError> {
        let mut addresses = Vec::new();
        let inherits = !options.listeners.is_empty();
        for &address in options.listen.iter().filter(|_| !inherits) {
            let free = free_address(address);
            addresses.push(free.map_err(|source| ServerError::Listen { address, source })?);
        }
        let mut descriptors = Vec::new();
        for listener in &options.listeners {
            let address = listener.local_addr();
            let copy = listener.try_clone().map(OwnedFd::from);
            descriptors.push(copy.map_err(ServerError::Inherit)?);
            if addresses.is_empty() {
                addresses.push(address.map_err(ServerError::Inherit)?);
            }
        }
        let identity = options.certificate.as_ref();
        let identity = identity.map(|one| Identity::new(one, &addresses)).transpose()?;
        let configs: Vec<Config> = (0..options.worker_count)
            .map(|worker| Config {
                listen: if inherits { Vec::new() } else { addresses.clone() },
                inherits,
                cpu: options.cpus.get(worker % options.cpus.len().max(1)).copied(),
                seed: worker as u64,
                tls: identity.clone(),
            })
            .collect();
        let mut network = Netstat::open()?;
        let overflows_before = overflows(&mut network)?;
        let crew = Crew::start_with(&options.program, &configs, descriptors)?;
        let mut server = Self { crew, addresses, network, overflows_before, asking: Vec::new() };
        server.hear_all(|said| matches!(said, Said::Listening).then_some(()))?;
        Ok(server)
    }

    /// Where it listens, with the ports that the kernel has chosen.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Number of workers.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.crew.size()
    }

    /// Serves for so long: deals with what workers ask for.
    ///
    /// # Errors
    ///
    /// If a worker has ended, or cannot go on.
    pub fn run_for(&mut self, duration: Duration) -> Result<(), ServerError> {
        let deadline = Instant::now() + duration;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some((worker, said)) = self.crew.receive(left)? {
                self.take(worker, said)?;
            }
            self.tell_asking()?;
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// What all workers have counted so far.
    ///
    /// # Errors
    ///
    /// As [`run_for`](Self::run_for).
    pub fn stats(&mut self) -> Result<Stats, ServerError> {
        self.gather(&Order::Count)
    }

    /// Ends all workers, and tells what they have counted. Connections that are open then are
    /// counted as open.
    ///
    /// # Errors
    ///
    /// As [`run_for`](Self::run_for).
    pub fn stop(mut self) -> Result<Stats, ServerError> {
        let stats = self.gather(&Order::Stop)?;
        self.crew.end();
        Ok(stats)
    }

    fn gather(&mut self, order: &Order) -> Result<Stats, ServerError> {
        self.crew.send_all(order)?;
        let counts = self.hear_all(|said| match said {
            Said::Counts(counts) => Some(*counts),
            _ => None,
        })?;
        let mut served = Served::default();
        for counts in &counts {
            served.add(counts);
        }
        let connections_by_worker = counts.iter().map(|counts| counts.connections).collect();
        let listen_overflows = overflows(&mut self.network)?.saturating_sub(self.overflows_before);
        Ok(Stats { workers: self.crew.size(), connections_by_worker, listen_overflows, served })
    }

    /// Waits until each worker has said something that `pick` takes.
    fn hear_all<T>(&mut self, pick: impl Fn(&Said) -> Option<T>) -> Result<Vec<T>, ServerError> {
        let mut picked: Vec<Option<T>> = (0..self.crew.size()).map(|_| None).collect();
        let deadline = Instant::now() + PATIENCE;
        while let Some(missing) = picked.iter().position(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = self.crew.receive(left)?;
            let Some((worker, said)) = heard else {
                if left.is_zero() {
                    return Err(ServerError::Silent(missing));
                }
                continue;
            };
            match pick(&said) {
                Some(item) => picked[worker] = Some(item),
                None => self.take(worker, said)?,
            }
        }
        Ok(picked.into_iter().flatten().collect())
    }

    fn take(&mut self, worker: usize, said: Said) -> Result<(), ServerError> {
        match said {
            Said::Ask => self.asking.push(worker),
            Said::Failed(reason) => return Err(ServerError::Worker { worker, reason }),
            // An answer that came too late for whom it was meant.
            Said::Listening | Said::Counts(_) => {}
        }
        Ok(())
    }

    /// Tells the counters to those who asked before they were read.
    fn tell_asking(&mut self) -> Result<(), ServerError> {
        while !self.asking.is_empty() {
            let asking = std::mem::take(&mut self.asking);
            let stats = self.stats()?;
            for worker in asking {
                self.crew.send(worker, &Order::Tell(Box::new(stats.clone())))?;
            }
        }
        Ok(())
    }
}

/// The address with its port, if nobody listens there. Workers share it, and would as well with
/// those of another server.
fn free_address(address: SocketAddr) -> io::Result<SocketAddr> {
    let socket = socket(address)?;
    socket.bind(&address.into())?;
    // Without `listen` two sockets of this kind can be at one address.
    socket.listen(1)?;
    TcpListener::from(socket).local_addr()
}

/// So many listening sockets that share an address, in an order that stays; port 0 is one that is
/// free.
///
/// # Errors
///
/// If somebody listens there already, or the address is none of this host.
pub fn listeners(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    // Each worker has a few descriptors here as well.
    descriptors::raise_limit()?;
    let address = free_address(address)?;
    (0..count).map(|_| listener(address)).collect()
}

/// A listening socket of one worker.
fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    // Connections inherit it: the end of a long reply must not wait for an acknowledgement.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier server that linger on do not matter.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]` is IPv6 alone, whatever net.ipv6.bindv6only says.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
