//! Flows that reach given buckets: what a test of many queues has to send.
//!
//! Candidates are tried in the order of the walk. Answers come back over another interface, whose
//! queues can be asked for as well.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::steering::{Place, Steering};
use crate::flow::{Flow, FlowSpace};
use crate::range::{AddrRange, Span as _};

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The buckets, each once.
    pub buckets: Vec<usize>,
    /// How many flows for each of them.
    pub flows_per_bucket: usize,
    /// The interface that answers come back to, and the queue of it that they are to land on.
    pub answers: Option<(Steering, u16)>,
}

/// A flow that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picked {
    pub flow: Flow<core::net::IpAddr>,
    /// Where its packets go.
    pub place: Place,
    /// Where its answers go, where that was asked for.
    pub answer: Option<Place>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// By bucket, then in the order of the walk.
    pub picked: Vec<Picked>,
    /// Buckets with fewer flows than asked for.
    pub missing: Vec<usize>,
    /// Flows that were tried.
    pub tried_count: u64,
}

/// Picks flows of the space for the wish, trying `tries_max` at most.
#[must_use]
pub fn pick(
    steering: &Steering,
    space: &FlowSpace<AddrRange>,
    wish: &Wish,
    tries_max: u64,
) -> Selection {
    let mut found: BTreeMap<usize, Vec<Picked>> =
        wish.buckets.iter().map(|bucket| (*bucket, Vec::new())).collect();
    let mut open_count = if wish.flows_per_bucket == 0 { 0 } else { found.len() };
    let mut tried_count = 0;
    let tries = usize::try_from(tries_max).unwrap_or(usize::MAX);
    for (flow, place) in steering.places(space).take(tries) {
        if open_count == 0 {
            break;
        }
        tried_count += 1;
        let Some(flows) = found.get_mut(&place.bucket) else { continue };
        if flows.len() >= wish.flows_per_bucket {
            continue;
        }
        let answer = wish.answers.as_ref().map(|(steering, queue)| {
            let place = steering.place(steering.hash(reversed(flow)));
            (place, place.queue == *queue)
        });
        if let Some((_, false)) = answer {
            continue;
        }
        flows.push(Picked { flow, place, answer: answer.map(|(place, _)| place) });
        if flows.len() == wish.flows_per_bucket {
            open_count -= 1;
        }
    }
    let missing = found
        .iter()
        .filter(|(_, flows)| flows.len() < wish.flows_per_bucket)
        .map(|(bucket, _)| *bucket)
        .collect();
    Selection { picked: found.into_values().flatten().collect(), missing, tried_count }
}

/// How many flows of a space can be told apart by the fields that are hashed: with the 2-tuple,
/// ports make no difference.
#[must_use]
pub fn distinct_count(steering: &Steering, space: &FlowSpace<AddrRange>) -> u64 {
    match steering.fields {
        super::fields::Fields::TwoTuple => space.src().addr_count() * space.dst().addr_count(),
        super::fields::Fields::FourTuple => space.flow_count(),
    }
}

fn reversed<A>(flow: Flow<A>) -> Flow<A> {
    Flow { src: flow.dst, dst: flow.src, src_port: flow.dst_port, dst_port: flow.src_port }
}

#[cfg(test)]
mod tests {
    use super::super::fields::{Fields, Symmetry};
    use super::super::key::Key;
    use super::super::table::Table;
    use super::super::toeplitz::Toeplitz;
    use super::*;

    fn steering(fields: Fields, queue_count: u16, bucket_count: usize) -> Steering {
        Steering {
            toeplitz: Toeplitz::new(&Key::microsoft()),
            fields,
            symmetry: Symmetry::None,
            table: Table::equal(queue_count, bucket_count).unwrap(),
        }
    }

    fn space(src: &str, dst: &str) -> FlowSpace<AddrRange> {
        let range = |text| AddrRange::parse(text, 1234).unwrap().0;
        FlowSpace::new(range(src), range(dst)).unwrap()
    }

    fn wish(buckets: Vec<usize>, flows_per_bucket: usize) -> Wish {
        Wish { buckets, flows_per_bucket, answers: None }
    }

    #[test]
    fn every_bucket_gets_its_flows_and_answers_land_where_they_should() {
        let card = steering(Fields::FourTuple, 4, 64);
        let space = space("10.0.0.1:1024-10.0.0.4:9000", "10.0.1.1:7");
        let plain = pick(&card, &space, &wish((0..64).collect(), 2), u64::MAX);
        assert!(plain.missing.is_empty());
        assert_eq!(plain.picked.len(), 128);
        for (index, picked) in plain.picked.iter().enumerate() {
            assert_eq!(picked.place.bucket, index / 2);
            assert_eq!(picked.place, card.place(card.hash(picked.flow)));
        }
        let client = steering(Fields::FourTuple, 2, 128);
        let answers = Some((client.clone(), 1));
        let both = Wish { answers, ..wish(alloc::vec![5, 9], 3) };
        let both = pick(&card, &space, &both, u64::MAX);
        assert_eq!((both.picked.len(), both.missing.len()), (6, 0));
        for picked in &both.picked {
            let back = client.place(client.hash(reversed(picked.flow)));
            assert_eq!((picked.answer, back.queue), (Some(back), 1));
            assert!([5, 9].contains(&picked.place.bucket));
        }
    }

    #[test]
    fn what_cannot_be_reached_is_missing() {
        let card = steering(Fields::TwoTuple, 4, 64);
        let one = space("10.0.0.1:1024-10.0.0.1:2000", "10.0.1.1:7");
        assert_eq!(distinct_count(&card, &one), 1);
        let selection = pick(&card, &one, &wish((0..64).collect(), 1), 10_000);
        assert_eq!((selection.picked.len(), selection.missing.len()), (1, 63));
        assert_eq!(selection.tried_count, 977);
        let bounded = pick(&card, &one, &wish((0..64).collect(), 1), 5);
        assert_eq!(bounded.tried_count, 5);
    }
}
