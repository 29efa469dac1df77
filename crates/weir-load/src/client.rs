//! The client: requests to an HTTP server over many connections, in worker processes.
//!
//! [`config`] says what a worker does and what it tells, [`worker`] is the event loop of one, and
//! [`manager`] has all of them work together, for a time that is known; [`running`] until they are
//! asked to end; [`timeline`] has the steps of a run. What is due when, and what figures are, is
//! weir-http's.

pub mod config;
mod connection;
pub mod manager;
pub mod requests;
pub mod route;
pub mod running;
mod socket;
pub mod timeline;
mod timer;
pub mod tls;
pub mod worker;
