//! Labs on machines: real servers, reboots and boots, all on this machine (`make test-labs`).

mod bench_lab;
mod cards;
mod console;
mod faults;
mod guest;
mod hosts;
mod kills;
mod left;
mod machines;
mod pairs;
mod peers;
mod pxe;
mod qemu;
mod queues;
mod shapers;
mod slots;
mod ssh_hosts;
