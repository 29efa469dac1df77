//! The data path as it is: frames through the programs by test runs, in namespaces with the
//! kernel's own routes and neighbours.

mod frames;
mod rig;
mod rules;

mod answers;
mod counted;
mod defer;
mod entry;
mod family;
mod flips;
mod forwarding;
mod fragments;
mod kept;
mod live;
mod pools;
mod proxy;
mod sanity;
mod scenarios;
mod scrub;
mod stages;
mod states;
mod translation;
