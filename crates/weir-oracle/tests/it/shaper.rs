//! The shaper holds its rate.

use weir_bpf::generator::Interval;
use weir_oracle::shaper::{ShaperCounters, ShaperProgram};

const XDP_DROP: u32 = 1;
const HOUR_NS: u64 = 3_600_000_000_000;

/// How many of fifteen packets in a row are not dropped.
fn passed(program: &ShaperProgram) -> usize {
    let verdicts = (0..15).map(|_| program.run_once(&[0; 60]).expect("the program runs"));
    verdicts.filter(|&verdict| verdict != XDP_DROP).count()
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn what_is_above_the_rate_is_dropped() {
    let program = match ShaperProgram::load() {
        Ok(program) => program,
        Err(error) if error.is_permission() => {
            eprintln!("skipped: loading BPF programs needs root");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(passed(&program), 0, "no rate is set");
    // One packet an hour, and nine hours at once: the test is over before the next one is due.
    let hour = Interval { whole_ns: HOUR_NS, fraction: 0 };
    program.shape(hour, 9 * HOUR_NS).expect("shaped");
    assert_eq!(passed(&program), 10);
    let counters = program.counters().expect("readable");
    assert_eq!(counters, ShaperCounters { passed_packets: 10, dropped_packets: 5 });
    // A nanosecond is over before the next packet comes.
    program.shape(Interval { whole_ns: 1, fraction: 0 }, 0).expect("shaped");
    assert_eq!(passed(&program), 15);
}
