//! The language of pf.conf by its fixtures, by FreeBSD's regression cases, by random rulesets, and
//! by changed inputs.

mod check;
mod convert;
mod explain;
mod fixtures;
mod fuzz;
mod optimise;
mod pfctl;
mod random;
mod support;
mod survey;
mod survey_other;
mod system;
