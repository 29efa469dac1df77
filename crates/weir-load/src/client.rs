//! The client: requests to an HTTP server over many connections, in worker processes.
//!
//! [`config`] says what a worker does and what it tells, [`worker`] is the event loop of one, and
//! [`manager`] has all of them work together. What is due when, and what figures are, is
//! weir-http's.

pub mod config;
mod connection;
pub mod manager;
pub mod requests;
pub mod route;
mod socket;
mod timer;
pub mod worker;
