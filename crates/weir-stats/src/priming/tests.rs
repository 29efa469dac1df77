use super::*;

/// A DUT that makes so many states in a second, with a ring before it, and the time that passes.
struct Model {
    capacity_pps: f64,
    limit: u64,
    tells: bool,
    states: Vec<bool>,
    flow_count: u64,
    known: u64,
    /// Of so many packets, one is lost whatever the rate.
    one_lost_of: Option<u64>,
    /// It takes nothing out of its ring for so long, once in so long.
    stall_s: Option<(f64, f64)>,
    /// It takes nothing out of its ring for so long after the first packet of a part.
    wake_s: f64,
    packets: u64,
    time_s: f64,
}

const RING: f64 = 256.0;

impl Model {
    fn new(capacity_pps: f64) -> Self {
        Self {
            capacity_pps,
            limit: u64::MAX,
            tells: true,
            states: vec![false; 1_000_000],
            flow_count: MILLION,
            known: 0,
            one_lost_of: None,
            stall_s: None,
            wake_s: 0.0,
            packets: 0,
            time_s: 0.0,
        }
    }
}

impl Line for Model {
    type Error = std::convert::Infallible;

    fn send(&mut self, _: usize, flows: Range<u64>, rate_pps: f64) -> Result<u64, Self::Error> {
        let (mut queued, mut through) = (0.0_f64, 0);
        let awake_s = self.time_s + self.wake_s;
        for flow in flows {
            self.packets += 1;
            self.time_s += 1.0 / rate_pps;
            let sleeps = self.time_s < awake_s;
            if !sleeps && !self.stall_s.is_some_and(|(length, every)| self.time_s % every < length)
            {
                queued = (queued - self.capacity_pps / rate_pps).max(0.0);
            }
            let is_lost = self.one_lost_of.is_some_and(|of| self.packets.is_multiple_of(of));
            if is_lost || queued >= RING {
                continue;
            }
            let state = &mut self.states[usize::try_from(flow % self.flow_count).unwrap()];
            let is_known = *state;
            // A state that is there costs next to nothing.
            queued += if is_known { 0.1 } else { 1.0 };
            if is_known || self.known < self.limit {
                self.known += u64::from(!is_known);
                *state = true;
                through += 1;
            }
        }
        Ok(through)
    }

    fn known(&mut self) -> Result<Option<u64>, Self::Error> {
        Ok(self.tells.then_some(self.known))
    }
}

fn filled(model: &mut Model, flow_count: u64, in_parts: bool) -> Filled {
    let flows = Flows {
        streams: &[(0, flow_count)],
        in_parts,
        is_foretold: true,
        is_all: &|known| known == flow_count,
    };
    model.flow_count = flow_count;
    fill(model, &flows).expect("a line that works")
}

const MILLION: u64 = 1_000_000;

#[test]
fn it_takes_what_the_dut_takes() {
    for capacity_pps in [150e3, 300e3, 600e3, 2e6] {
        let mut model = Model::new(capacity_pps);
        let filled = filled(&mut model, MILLION, true);
        assert_eq!(filled.known, Some(MILLION), "{capacity_pps}");
        let ideal_s = packets(MILLION) / capacity_pps;
        assert!(model.time_s < 1.6 * ideal_s + 0.5, "{capacity_pps}: {} s", model.time_s);
        assert!(filled.sent_packets < 4 * MILLION, "{capacity_pps}: {filled:?}");
    }
}

#[test]
fn what_is_lost_at_any_rate_is_sent_again_and_only_that() {
    let mut model = Model { one_lost_of: Some(100_000), ..Model::new(1e6) };
    let filled = filled(&mut model, MILLION, true);
    assert_eq!(filled.known, Some(MILLION));
    assert!(filled.sent_packets < 3 * MILLION, "{filled:?}");
}

#[test]
fn a_full_table_ends_it() {
    let mut model = Model { limit: 300_000, ..Model::new(1e6) };
    let filled = filled(&mut model, MILLION, true);
    assert_eq!(filled.known, Some(300_000));
    assert!(filled.sent_packets < 2 * MILLION, "{filled:?}");
}

#[test]
fn without_parts_whole_passes_get_slower() {
    let mut model = Model::new(300e3);
    let filled = filled(&mut model, MILLION, false);
    assert_eq!(filled.known, Some(MILLION));
    assert!(filled.sent_packets <= PACKETS_PER_FLOW_MAX * MILLION, "{filled:?}");
}

#[test]
fn a_dut_that_does_not_tell_is_sent_a_part_twice_at_most() {
    let mut model = Model { tells: false, ..Model::new(100e3) };
    let filled = filled(&mut model, MILLION, true);
    assert_eq!(filled.known, None);
    assert!(filled.sent_packets <= 2 * MILLION, "{filled:?}");
}

#[test]
fn the_plans_estimate_is_what_it_takes() {
    for flow_count in [100_000, MILLION] {
        let mut model = Model::new(1.2 * STATES_PER_S);
        filled(&mut model, flow_count, true);
        let planned_s = prime_time(flow_count).as_secs_f64();
        let off = (model.time_s / planned_s - 1.0).abs();
        assert!(off < 0.35, "{flow_count}: {} s, planned {planned_s} s", model.time_s);
    }
}

#[test]
fn a_dut_that_sleeps_before_each_part_is_not_slow() {
    let mut model = Model { wake_s: 0.001, ..Model::new(800e3) };
    let filled = filled(&mut model, MILLION, true);
    assert_eq!(filled.known, Some(MILLION));
    assert!(model.time_s < 2.0 * packets(MILLION) / 800e3, "{} s", model.time_s);
    assert!(filled.sent_packets < 2 * MILLION, "{filled:?}");
}

#[test]
fn a_machine_that_stalls_is_not_taken_for_a_slow_one() {
    let mut model = Model { stall_s: Some((0.003, 0.04)), ..Model::new(600e3) };
    let filled = filled(&mut model, MILLION, true);
    assert_eq!(filled.known, Some(MILLION));
    assert!(model.time_s < 4.5 * packets(MILLION) / 600e3, "{} s", model.time_s);
    assert!(filled.sent_packets < 6 * MILLION, "{filled:?}");
}
