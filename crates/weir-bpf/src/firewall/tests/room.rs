//! What the kernel's verifier says of the programs: the stack that their paths take, and the
//! instructions that it goes through. Both have limits, and what is built next needs room.

use std::ffi::{CStr, c_char};
use std::sync::PoisonError;

use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{AsRawLibbpf as _, OpenProgramMut};

use super::harness::OPTIONS;
use crate::firewall::load::{LOADING, free_address, prepare};
use crate::firewall::{OBJECT, OBJECT_NAME, REHEARSAL};
use crate::object::{LoadError, Loaded};

/// `MAX_BPF_STACK`.
const STACK_BYTES_MAX: u32 = 512;
/// What is left of it on every path.
const STACK_BYTES_FREE: u32 = 128;
/// Of the million that the verifier goes through at most.
const INSTRUCTION_COUNT_MAX: u32 = 400_000;
/// What a frame takes is a multiple of this (`round_up_stack_depth()`).
const FRAME_ALIGNMENT_BYTES: u32 = 16;
/// `BPF_LOG_STATS`.
const LOG_STATISTICS: u32 = 4;
const LOG_BYTES: usize = 1 << 16;

const INSTRUCTION_BYTES: usize = 8;
/// `BPF_JMP | BPF_CALL`, and in the source register `BPF_PSEUDO_CALL`.
const CALL: (u8, u8) = (0x85, 1);
/// Distances that a call tells apart.
const DISTANCE_COUNT: isize = 1 << 16;

/// Has the verifier write what it found out about a program.
fn ask(program: &mut OpenProgramMut<'_>, log: &mut [u8]) {
    program.set_log_level(LOG_STATISTICS);
    let (at, bytes) = (log.as_mut_ptr().cast::<c_char>(), log.len() as libbpf_sys::size_t);
    // SAFETY: The program is open and not loaded, and the log outlives its load.
    let result = unsafe {
        libbpf_sys::bpf_program__set_log_buf(program.as_libbpf_object().as_ptr(), at, bytes)
    };
    assert_eq!(result, 0);
}

/// The stack of each function, in the order in which they stand in the program.
fn depths(log: &[u8]) -> Vec<u32> {
    let log = CStr::from_bytes_until_nul(log).expect("it ends").to_string_lossy();
    let line = log.lines().find_map(|line| line.strip_prefix("stack depth "));
    let line = line.unwrap_or_else(|| panic!("no depths: {log}"));
    // What newer kernels say behind it is the depth of the deepest path.
    let list = line.split_whitespace().next().unwrap_or(line);
    list.split('+').map(|depth| depth.parse().expect("a number")).collect()
}

/// Which functions each function calls, by their places in the program.
fn calls(info: &ProgramInfo) -> Vec<Vec<usize>> {
    let starts: Vec<usize> = info.func_info.iter().map(|one| one.insn_off as usize).collect();
    let mut calls = vec![Vec::new(); starts.len()];
    let (instructions, _) = info.xlated_prog_insns.as_chunks::<INSTRUCTION_BYTES>();
    for (at, instruction) in instructions.iter().enumerate() {
        if (instruction[0], instruction[1] >> 4) == CALL {
            let offset = i16::from_ne_bytes([instruction[2], instruction[3]]);
            let caller = starts.partition_point(|start| *start <= at) - 1;
            // The distance may be longer than its 16 bits.
            let target = [0, -DISTANCE_COUNT, DISTANCE_COUNT].into_iter().find_map(|more| {
                let target = at.checked_add_signed(isize::from(offset) + more)? + 1;
                starts.binary_search(&target).ok()
            });
            calls[caller].push(target.expect("a function begins there"));
        }
    }
    calls
}

/// The functions of the deepest path from one on, and what it takes.
fn deepest(from: usize, depths: &[u32], calls: &[Vec<usize>]) -> (u32, Vec<usize>) {
    let below = calls[from].iter().map(|to| deepest(*to, depths, calls)).max();
    let (below, mut path) = below.unwrap_or_default();
    path.insert(0, from);
    (depths[from].next_multiple_of(FRAME_ALIGNMENT_BYTES) + below, path)
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn every_path_leaves_room_for_what_is_built_next() {
    let mut logs: Vec<(String, Vec<u8>)> = Vec::new();
    let loaded = {
        let _alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        let address = free_address();
        Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
            prepare(opened, &OPTIONS, address)?;
            for mut program in opened.progs_mut().filter(|program| program.name() != REHEARSAL) {
                // Also those that are loaded when they are needed.
                program.set_autoload(true);
                let mut log = vec![0; LOG_BYTES];
                ask(&mut program, &mut log);
                logs.push((program.name().to_string_lossy().into_owned(), log));
            }
            Ok(())
        })
    };
    let loaded = match loaded {
        // What the verifier refuses the kernel calls "permission denied", too.
        Err(error @ LoadError::Refused { .. })
            if error.is_permission() && logs.iter().all(|(_, log)| log[0] == 0) =>
        {
            eprintln!("skipped: BPF programs need privileges: {error}");
            return;
        }
        Err(error) => {
            let text = |log: &[u8]| {
                CStr::from_bytes_until_nul(log).map(|text| text.to_string_lossy().into_owned())
            };
            let logs: Vec<_> = logs.iter().map(|(name, log)| (name, text(log))).collect();
            panic!("the programs do not load: {error}: {logs:#?}")
        }
        Ok(loaded) => loaded,
    };
    let mut problems = Vec::new();
    for (name, log) in &logs {
        let program = loaded.program(name).expect("it is loaded");
        let id = crate::sys::program_id(std::os::fd::AsFd::as_fd(&program));
        let id = id.expect("it has a number");
        let options =
            ProgInfoQueryOptions::default().include_xlated_prog_insns(true).include_func_info(true);
        let info = ProgInfoIter::with_query_opts(options).find(|info| info.id == id);
        let info = info.expect("it is there");
        let depths = depths(log);
        assert_eq!(depths.len(), info.func_info.len(), "{name}: a depth for each function");
        let (bytes, path) = deepest(0, &depths, &calls(&info));
        let btf = Btf::from_prog_id(id).expect("it has types");
        let path = path.into_iter().map(|function| {
            let found: Option<BtfType<'_>> =
                btf.type_by_id(info.func_info[function].type_id.into());
            let name = found.and_then(|found| found.name()).unwrap_or_default();
            format!("{} {}", name.to_string_lossy(), depths[function])
        });
        let path: Vec<String> = path.collect();
        let found = format!(
            "{name}: {} instructions verified, {bytes} bytes of stack: {path:?}",
            info.verified_insns
        );
        eprintln!("{found}");
        if bytes > STACK_BYTES_MAX - STACK_BYTES_FREE || info.verified_insns > INSTRUCTION_COUNT_MAX
        {
            problems.push(found);
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
