//! End-to-end tests of labs on machines: real servers, reboots and boots, all on this machine.

mod console;
mod machines;
mod pxe;
mod queues;
mod ssh_hosts;
