//! trafgen(8) of netsniff-ng, sending the same packet from the same CPU.
//!
//! trafgen ends at the first packet that the device has no room for, and forks a worker for each
//! CPU. So it gets a bounded number of packets, is a process group of its own, which is ended with
//! what is in it, and its end before its time is a reason, not a failure.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_net::process::Process;

use super::Result;
use super::bed::{Bed, Figure, Output, Receiver, wait};
use super::senders::{RANGES_4900, first_frame};
use super::taken::Threads;

/// How long it may prepare: it fills its ring before it sends.
const START: Duration = Duration::from_secs(5);

/// How long it may take to end.
const STOP: Duration = Duration::from_secs(2);

/// More than it sends per second on any machine: what bounds it if nobody ends it.
const PPS_MAX: f64 = 4e6;

/// Packets after which it is sending, and not the kernel alone.
const SENDING_PACKETS: u64 = 1_000;

/// A sample, or the reason why there is none.
pub(crate) type Measured = std::result::Result<Figure, String>;

/// What is delivered from trafgen, after it has sent for `warm_up`.
pub(crate) fn sample(
    bed: &Bed,
    receiver: &Receiver,
    warm_up: Duration,
    time: Duration,
    cancel: &Cancel,
) -> Result<Measured> {
    let mut text = String::from("{ ");
    for byte in first_frame(RANGES_4900)? {
        write!(text, "0x{byte:02x}, ")?;
    }
    text.push_str("}\n");
    let packet = tempfile::NamedTempFile::new()?;
    std::fs::write(packet.path(), text)?;
    let path = packet.path().to_str().ok_or("the temporary directory has no UTF-8 name")?;
    let count = format!("{:.0}", (START + warm_up + time).as_secs_f64() * PPS_MAX);
    let argv = [
        "trafgen",
        "--no-sock-mem",
        "--dev",
        bed.out(),
        "--cpus",
        "1",
        "--num",
        &count,
        "--conf",
        path,
    ];
    let output = Output::new()?;
    let process = match bed.spawn(&argv, &output) {
        Ok(process) => process,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let measured = started(&process, receiver, cancel).and_then(|ready| match ready {
        Ok(()) => {
            wait(warm_up, cancel)?;
            let worker = Threads::child_of(process.pid());
            Ok(Ok(bed.sample(receiver, &worker, time, cancel)?.delivered))
        }
        Err(reason) => Ok(Err(reason)),
    });
    let ended = process.try_wait()?;
    process.stop(STOP)?;
    match (measured?, ended) {
        // What was counted is not that of a whole sample.
        (_, Some(status)) => {
            Ok(Err(format!("trafgen ended by itself ({status}): {}", output.last_line())))
        }
        (measured, None) => Ok(measured),
    }
}

/// Waits until it sends, or says why it does not.
fn started(
    process: &Process,
    receiver: &Receiver,
    cancel: &Cancel,
) -> Result<std::result::Result<(), String>> {
    let deadline = Instant::now() + START;
    let before = receiver.packets()?;
    while receiver.packets()? < before + SENDING_PACKETS {
        if Instant::now() > deadline {
            return Ok(Err(format!("trafgen sent nothing in {} s", START.as_secs())));
        }
        if process.try_wait()?.is_some() {
            return Ok(Err("trafgen ended before it sent".to_owned()));
        }
        wait(Duration::from_millis(10), cancel)?;
    }
    Ok(Ok(()))
}
