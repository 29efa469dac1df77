//! HTTP/1.1 as bytes and values, and what a load test over it computes.
//!
//! [`codec`] reads responses and requests (RFC 9112) from whatever pieces they arrive in;
//! [`request`] writes a client's requests once, to be sent many times. [`ask`] is what the test
//! server understands, [`reply`] what it sends, [`served`] what it counts. Of a client, [`pacing`]
//! says when requests are due, [`figures`] what is counted and timed, [`verdict`] what limited it.
//!
//! This crate is pure: it reads no clock, opens no socket or file and starts no thread. Bytes and
//! times are arguments.

#![forbid(unsafe_code)]

pub mod ask;
pub mod codec;
pub mod figures;
pub mod pacing;
pub mod reply;
pub mod request;
pub mod served;
pub mod verdict;
