//! What the fault element takes, and what it refuses.

use weir_oracle::fault::{Fault, FaultCounters, FaultError, FaultProgram};

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn a_packet_has_a_part_in_one_fault() {
    let mut program = match FaultProgram::load() {
        Ok(program) => program,
        Err(error) if error.is_permission() => {
            eprintln!("skipped: loading BPF programs needs root");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    program.choose(5, Fault::DelayUntil(7)).expect("5 after 7");
    for (sequence, fault) in [
        (5, Fault::Drop),
        (7, Fault::Duplicate),
        (6, Fault::DelayUntil(7)),
        (5, Fault::DelayUntil(6)),
    ] {
        let error = program.choose(sequence, fault).expect_err("chosen already");
        assert!(matches!(error, FaultError::Chosen(5 | 7)), "{error}");
    }
    program.choose(6, Fault::Drop).expect("6 was left alone");
    let error = program.choose(9, Fault::DelayUntil(8)).expect_err("8 comes before 9");
    assert!(matches!(error, FaultError::Backwards(9, 8)), "{error}");
    assert_eq!(program.counters().expect("readable"), FaultCounters::default());
}
