//! The same connections with kernel sockets: a blocking client on one CPU, which connects, sends a
//! request, reads the reply to its end and closes, and a server on another CPU that closes behind
//! its reply.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::UsageWho;
use weir_gen::connect::{REPLY_BYTES_DEFAULT, REQUEST_BYTES_DEFAULT};
use weir_machine::cancel::Cancel;
use weir_net::CpuList;
use weir_net::address::Prefix;
use weir_net::cpu::pin_current_thread;

use super::bed::{Bed, SERVER_DIRECT, cpu_time};
use super::{Result, Settings};

const PORT: u16 = 80;
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections per second of the client's CPU time.
pub(super) fn rate(bed: &Bed, settings: &Settings, cancel: &Cancel) -> Result<f64> {
    let server: Prefix = SERVER_DIRECT.parse()?;
    let address = SocketAddr::new(server.address(), PORT);
    let listener = bed.server.run(|| TcpListener::bind(address))??;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<f64> {
        let serving = scope.spawn(|| serve(&listener, bed.cpus[1], &is_over));
        let rate = bed.client.run(|| connect(address, bed.cpus[0], settings, cancel));
        is_over.store(true, Ordering::Relaxed);
        // It waits for one more.
        drop(bed.client.run(|| TcpStream::connect_timeout(&address, PATIENCE)));
        serving.join().map_err(|_| "the server ended abnormally")??;
        rate?
    })
}

fn pin(cpu: usize) -> Result<()> {
    Ok(pin_current_thread(&CpuList::new([cpu]).ok_or("there is a CPU")?)?)
}

fn serve(listener: &TcpListener, cpu: usize, is_over: &AtomicBool) -> Result<()> {
    pin(cpu)?;
    let reply = vec![b'w'; REPLY_BYTES_DEFAULT.into()];
    let mut request = vec![0; REQUEST_BYTES_DEFAULT.into()];
    loop {
        let (mut stream, _) = listener.accept()?;
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        stream.read_exact(&mut request)?;
        stream.write_all(&reply)?;
    }
}

fn connect(address: SocketAddr, cpu: usize, settings: &Settings, cancel: &Cancel) -> Result<f64> {
    pin(cpu)?;
    let request = vec![b'w'; REQUEST_BYTES_DEFAULT.into()];
    let mut reply = Vec::new();
    let before = cpu_time(UsageWho::RUSAGE_THREAD, cpu)?;
    let end = Instant::now() + settings.sample;
    let mut count = 0_u32;
    while Instant::now() < end || count == 0 {
        if cancel.signal().is_some() {
            return Err("interrupted".into());
        }
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.write_all(&request)?;
        reply.clear();
        stream.read_to_end(&mut reply)?;
        if reply.len() != usize::from(REPLY_BYTES_DEFAULT) {
            return Err(format!("a reply of {} bytes", reply.len()).into());
        }
        count += 1;
    }
    let took = cpu_time(UsageWho::RUSAGE_THREAD, cpu)? - before;
    Ok(f64::from(count) / took.as_secs_f64())
}
