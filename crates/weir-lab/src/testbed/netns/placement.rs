//! Which CPUs generator, DUT and sink run on.
//!
//! The generator never shares a CPU with the DUT, and no physical core either where there is a
//! choice: two hardware threads of a core (SMT) take turns at its execution units, so that each
//! slows the other down. The sink is where packets are delivered to it, on the DUT's CPU, unless it
//! is given one: whoever delivers to another CPU has to wake the sink there, which costs a DUT that
//! sends packets one by one more than the sink's work does.
//! Nothing is placed on a CPU that is not online or that this process may not use.

use std::collections::BTreeMap;

use weir_net::{CpuList, cpu};

use crate::model::NetnsSpec;
use crate::testbed::TestbedError;

/// Tells the CPUs of a CPU's physical core; `None` where the kernel does not say.
type Siblings<'a> = &'a dyn Fn(usize) -> Option<CpuList>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::testbed) struct Placement {
    pub(in crate::testbed) generator: CpuList,
    pub(in crate::testbed) dut: CpuList,
    /// `None`: the sink's work is done by the CPU that delivers.
    pub(in crate::testbed) sink: Option<CpuList>,
    /// Of the DUT's: where its NAPI threads run.
    pub(in crate::testbed) napi: CpuList,
    /// Of the DUT's: where the stack goes on with what they received; `None`: where they run.
    pub(in crate::testbed) rps: Option<CpuList>,
    /// For each CPU that is used: the CPUs of its core, where the kernel says.
    cores: BTreeMap<usize, CpuList>,
}

impl Placement {
    /// The placement that the specification asks for, or one that fits this host.
    pub(in crate::testbed) fn choose(spec: &NetnsSpec) -> Result<Self, TestbedError> {
        let online = cpu::online().map_err(TestbedError::new)?;
        Self::choose_among(spec, &online, &cpu::thread_siblings)
    }

    fn choose_among(
        spec: &NetnsSpec,
        online: &CpuList,
        siblings: Siblings<'_>,
    ) -> Result<Self, TestbedError> {
        let asked = |name: &'static str, text: &Option<String>| {
            text.as_deref().map(|t| parse(name, t, online)).transpose()
        };
        let generator = asked("generator_cpus", &spec.generator_cpus)?;
        let dut = asked("dut_cpus", &spec.dut_cpus)?;
        let sink = asked("sink_cpus", &spec.sink_cpus)?;
        let mut free: Vec<usize> = online
            .iter()
            .filter(|&c| {
                ![&generator, &dut, &sink].iter().any(|l| l.as_ref().is_some_and(|l| l.contains(c)))
            })
            .collect();
        // The lowest free CPU, of another core than `other` if there is one.
        let mut take = |what: &str, other: Option<&CpuList>| {
            let apart = |c: &usize| other.is_none_or(|o| !share_a_core(*c, o, siblings));
            let index = free.iter().position(apart).unwrap_or(0);
            if free.is_empty() {
                return Err(TestbedError::new(format!(
                    "no CPU is left for the {what}: online are {online}; generator and DUT need \
                     one each, or each would disturb the other's figures"
                )));
            }
            Ok(CpuList::new([free.remove(index)]).unwrap_or_else(|| online.clone()))
        };
        let generator = match generator {
            Some(list) => list,
            None => take("generator", dut.as_ref())?,
        };
        let dut = match dut {
            Some(list) => list,
            None => take("DUT", Some(&generator))?,
        };
        let used = generator.iter().chain(dut.iter()).chain(sink.iter().flat_map(CpuList::iter));
        let cores = used.filter_map(|c| Some((c, siblings(c)?))).collect();
        let napi = asked("napi_cpus", &spec.napi_cpus)?.unwrap_or_else(|| dut.clone());
        let rps = asked("rps_cpus", &spec.rps_cpus)?;
        Ok(Self { generator, dut, sink, napi, rps, cores })
    }

    /// The CPUs of the threads of one generator: in turn those there are. Several generators share
    /// them where there are too few, the threads of one never do.
    pub(in crate::testbed) fn generator_cpus(
        &self,
        index: usize,
        threads: u16,
    ) -> Result<Vec<u32>, TestbedError> {
        let (count, threads) = (self.generator.count(), usize::from(threads));
        if threads > count {
            return Err(TestbedError::new(format!(
                "a generator of {threads} threads needs as many CPUs; generator_cpus has {count}"
            )));
        }
        let all = self.generator.iter().cycle().skip(index * threads % count).take(threads);
        let number = |cpu: usize| u32::try_from(cpu);
        let numbers = all.map(number).collect::<Result<_, _>>();
        numbers.map_err(|_| TestbedError::new("a generator's CPU number is too large"))
    }

    /// For each CPU that is used: the CPUs of its physical core, itself among them, as the kernel
    /// lists them. A CPU of which the kernel does not say is left out.
    pub(in crate::testbed) fn siblings(&self) -> BTreeMap<usize, String> {
        self.cores.iter().map(|(c, core)| (*c, core.to_string())).collect()
    }

    /// What is wrong with this placement, if generator and DUT share a physical core.
    pub(in crate::testbed) fn warning(&self) -> Option<String> {
        let core = |c: usize| self.cores.get(&c).cloned();
        let shared: Vec<String> = self
            .generator
            .iter()
            .filter(|c| share_a_core(*c, &self.dut, &core))
            .map(|c| core(c).map_or_else(|| c.to_string(), |siblings| siblings.to_string()))
            .collect();
        (!shared.is_empty()).then(|| {
            format!(
                "the generator (CPU {}) and the DUT (CPU {}) share a physical core (CPUs {}): they \
                 slow each other down, and figures are lower than the DUT's own; give them CPUs of \
                 different cores (generator_cpus, dut_cpus), or switch SMT off",
                self.generator,
                self.dut,
                shared.join("; ")
            )
        })
    }
}

/// Whether a CPU is one of `others`, or on the core of one.
fn share_a_core(cpu: usize, others: &CpuList, siblings: Siblings<'_>) -> bool {
    others.contains(cpu)
        || siblings(cpu).is_some_and(|core| core.overlaps(others))
        || others.iter().any(|other| siblings(other).is_some_and(|core| core.contains(cpu)))
}

fn parse(name: &'static str, text: &str, online: &CpuList) -> Result<CpuList, TestbedError> {
    let list: CpuList =
        text.parse().map_err(|e| TestbedError::of(name, format!("{name} = \"{text}\": {e}")))?;
    match list.without(online) {
        None => Ok(list),
        Some(missing) => {
            let what = format!("{name} = \"{text}\": CPU {missing} does not exist");
            Err(TestbedError::of(name, format!("{what}; this host has {online}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(generator: Option<&str>, dut: Option<&str>, sink: Option<&str>) -> NetnsSpec {
        let owned = |t: Option<&str>| t.map(str::to_owned);
        NetnsSpec {
            generator_cpus: owned(generator),
            dut_cpus: owned(dut),
            sink_cpus: owned(sink),
            napi_cpus: None,
            rps_cpus: None,
            queues: 1,
            links: 1,
            rss: None,
            mtu_bytes: None,
            conntrack_max: None,
        }
    }

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    /// No CPU's core is known.
    fn unknown(_: usize) -> Option<CpuList> {
        None
    }

    /// CPUs 2n and 2n+1 are of one core.
    fn neighbours(cpu: usize) -> Option<CpuList> {
        CpuList::new([cpu & !1, cpu | 1])
    }

    /// CPUs n and n+4 are of one core.
    fn halves(cpu: usize) -> Option<CpuList> {
        CpuList::new([cpu % 4, cpu % 4 + 4])
    }

    fn chosen(spec: &NetnsSpec, online: &str, siblings: Siblings<'_>) -> Placement {
        Placement::choose_among(spec, &list(online), siblings).unwrap()
    }

    #[test]
    fn what_is_not_asked_for_is_chosen_apart() {
        let placed = chosen(&spec(None, None, None), "0-3", &unknown);
        assert_eq!((&placed.generator, &placed.dut), (&list("0"), &list("1")));
        assert_eq!((&placed.napi, &placed.rps), (&list("1"), &None));
        assert_eq!((&placed.sink, placed.siblings(), placed.warning()), (&None, [].into(), None));
        let placed = chosen(&spec(None, Some("0"), Some("1")), "0-3", &unknown);
        assert_eq!(placed.generator, list("2"));
    }

    #[test]
    fn different_cores_are_preferred_and_low_numbers_then() {
        for (generator, dut, sink, siblings, expected) in [
            (None, None, None, &neighbours as Siblings<'_>, ("0", "2")),
            (None, None, None, &halves, ("0", "1")),
            (None, Some("1"), None, &neighbours, ("2", "1")),
            (None, Some("0,3"), None, &neighbours, ("4", "0,3")),
            (Some("5"), None, None, &neighbours, ("5", "0")),
            (Some("0"), None, Some("2"), &neighbours, ("0", "3")),
            (Some("4"), None, None, &halves, ("4", "1")),
        ] {
            let placed = chosen(&spec(generator, dut, sink), "0-7", siblings);
            assert_eq!((placed.generator, placed.dut), (list(expected.0), list(expected.1)));
        }
        let placed = chosen(&spec(None, None, Some("5")), "0-7", &neighbours);
        assert_eq!(placed.warning(), None);
        let text = |t: &str| t.to_owned();
        let expected = [(0, text("0-1")), (2, text("2-3")), (5, text("4-5"))].into();
        assert_eq!(placed.siblings(), expected);
    }

    #[test]
    fn generators_take_their_cpus_in_turn() {
        let placed = chosen(&spec(Some("2,5,7"), Some("0"), None), "0-7", &unknown);
        let of = |index, threads| placed.generator_cpus(index, threads);
        assert_eq!((of(0, 1).unwrap(), of(1, 1).unwrap()), (vec![2], vec![5]));
        assert_eq!((of(0, 2).unwrap(), of(1, 2).unwrap()), (vec![2, 5], vec![7, 2]));
        assert!(of(0, 4).unwrap_err().what.contains("generator_cpus has 3"));
    }

    #[test]
    fn a_shared_core_is_warned_of() {
        // The only two CPUs, or asked for.
        for (asked, online, shared) in [
            (spec(None, None, None), "0-1", "CPU 0) and the DUT (CPU 1) share"),
            (spec(Some("2"), Some("0,3"), None), "0-7", "CPU 2) and the DUT (CPU 0,3) share"),
        ] {
            let warning = chosen(&asked, online, &neighbours).warning().unwrap();
            assert!(warning.contains(shared), "{warning}");
        }
        let warning = chosen(&spec(Some("4"), Some("0-3"), None), "0-7", &halves).warning();
        assert!(warning.unwrap().contains("a physical core (CPUs 0,4)"));
    }

    #[test]
    fn one_cpu_is_too_few_and_missing_ones_are_named() {
        let error =
            Placement::choose_among(&spec(None, None, None), &list("0"), &unknown).unwrap_err();
        assert!(error.what.contains("no CPU is left for the DUT"), "{error}");
        let error = Placement::choose_among(&spec(Some("7"), None, None), &list("0-1"), &unknown)
            .unwrap_err();
        assert!(error.what.contains("CPU 7 does not exist; this host has 0-1"), "{error}");
        assert_eq!(error.field, Some("generator_cpus"));
    }
}
