//! The generator's and the receiver's tests on real interfaces, in namespaces of their own, and the
//! documents that are made of the code.

mod backends;
mod documents;
mod faults;
mod live;
mod observer;
mod preflight;
mod rss;
mod support;
