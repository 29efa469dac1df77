//! The oracle's own tests (packet tests and random cases on the reference device), and the product
//! against judges from elsewhere: Debian's ministat, printf, tshark.

mod fault;
mod frames;
mod ministat;
mod packets;
mod printf;
mod random;
mod shaper;
mod timeouts;
mod tshark;
