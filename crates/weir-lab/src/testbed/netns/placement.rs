//! Which CPUs generator, DUT and sink run on.
//!
//! The generator never shares a CPU with the DUT. Nothing is placed on a CPU that is not online
//! or that this process may not use.

use weir_net::{CpuList, cpu};

use crate::model::NetnsSpec;
use crate::testbed::TestbedError;

/// A placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) generator: CpuList,
    pub(super) dut: CpuList,
    /// `None`: the sink's work is done by the CPU that delivers.
    pub(super) sink: Option<CpuList>,
}

impl Placement {
    /// The placement that the specification asks for, or one that fits this host.
    pub(super) fn choose(spec: &NetnsSpec) -> Result<Self, TestbedError> {
        let online = cpu::online().map_err(TestbedError::new)?;
        Self::choose_among(spec, &online)
    }

    fn choose_among(spec: &NetnsSpec, online: &CpuList) -> Result<Self, TestbedError> {
        let asked = |name: &str, text: &Option<String>| {
            text.as_deref().map(|t| parse(name, t, online)).transpose()
        };
        let generator = asked("generator_cpus", &spec.generator_cpus)?;
        let dut = asked("dut_cpus", &spec.dut_cpus)?;
        let sink = asked("sink_cpus", &spec.sink_cpus)?;
        if let Some(list) = generator.as_ref().filter(|l| l.count() != 1) {
            return Err(TestbedError::new(format!(
                "generator_cpus = \"{list}\": the generator has one thread, which takes one CPU"
            )));
        }
        let mut free: Vec<usize> = online
            .iter()
            .filter(|&c| {
                ![&generator, &dut, &sink].iter().any(|l| l.as_ref().is_some_and(|l| l.contains(c)))
            })
            .collect();
        let mut take = |what: &str| {
            if free.is_empty() {
                return Err(TestbedError::new(format!(
                    "no CPU is left for the {what}: online are {online}; generator and DUT need \
                     one each, or their figures would be of each other"
                )));
            }
            Ok(CpuList::new([free.remove(0)]))
        };
        let generator = match generator {
            Some(list) => list,
            None => take("generator")?.unwrap_or_else(|| online.clone()),
        };
        let dut = match dut {
            Some(list) => list,
            None => take("DUT")?.unwrap_or_else(|| online.clone()),
        };
        Ok(Self { generator, dut, sink })
    }
}

fn parse(name: &str, text: &str, online: &CpuList) -> Result<CpuList, TestbedError> {
    let list: CpuList =
        text.parse().map_err(|e| TestbedError::new(format!("{name} = \"{text}\": {e}")))?;
    match list.without(online) {
        None => Ok(list),
        Some(missing) => Err(TestbedError::new(format!(
            "{name} = \"{text}\": CPU {missing} is not there; this host has {online}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(generator: Option<&str>, dut: Option<&str>, sink: Option<&str>) -> NetnsSpec {
        let own = |t: Option<&str>| t.map(str::to_owned);
        NetnsSpec {
            generator_cpus: own(generator),
            dut_cpus: own(dut),
            sink_cpus: own(sink),
            queues: 1,
        }
    }

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_not_asked_for_is_chosen_apart() {
        let online = list("0-3");
        let chosen = Placement::choose_among(&spec(None, None, None), &online).unwrap();
        assert_eq!((chosen.generator, chosen.dut, chosen.sink), (list("0"), list("1"), None));
        let chosen = Placement::choose_among(&spec(None, Some("0"), Some("1")), &online).unwrap();
        assert_eq!(chosen.generator, list("2"));
    }

    #[test]
    fn one_cpu_is_too_few_and_missing_ones_are_named() {
        let error = Placement::choose_among(&spec(None, None, None), &list("0")).unwrap_err();
        assert!(error.what.contains("no CPU is left for the DUT"), "{error}");
        let error =
            Placement::choose_among(&spec(Some("7"), None, None), &list("0-1")).unwrap_err();
        assert!(error.what.contains("CPU 7 is not there; this host has 0-1"), "{error}");
    }
}
