//! End-to-end tests of labs on machines: real servers, reboots and boots, all on this machine.

mod bench_lab;
#[expect(dead_code, reason = "the other end-to-end tests need the rest of it")]
#[path = "../e2e/common.rs"]
mod common;
mod console;
mod faults;
mod hosts;
mod kills;
mod machines;
mod pxe;
mod qemu;
mod queues;
mod ssh_hosts;
