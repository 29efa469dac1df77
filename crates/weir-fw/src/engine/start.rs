//! Starts a data path, or goes on with one whose daemon is gone.

use std::fs;
use std::sync::Arc;

use weir_bpf::firewall::layout::control;
use weir_bpf::firewall::{Firewall, Options as LoadOptions};
use weir_net::LinkInfo;
use weir_rules::facts::Facts;
use weir_rules::fingerprint::Fingerprints;

use super::counters::Totals;
use super::document::Document;
use super::interfaces::{self, Interfaces};
use super::load::{Manner, Next};
use super::queues::{self, Made};
use super::scrubs::Release;
use super::source::Source;
use super::stages::Choice;
use super::tables::Tables;
use super::typed::TypedTables;
use super::{Engine, Machine, Options, Refused, clock, elsewhere, links, memory};
use crate::compile::TableName;
use crate::compile::known::Known;
use crate::heap::Heap;
use crate::install::Installer;
use crate::limits;
use crate::protocol::Load;
use crate::show::rules::Loader;

/// The oldest kernel: arenas that programs and processes share with atomic operations.
const KERNEL_MIN: (u32, u32) = (6, 12);
/// Room for log records that were not read yet.
const LOG_BYTES: u32 = 1 << 20;
/// Room for ends of states that were not read yet: some 12,000.
const EVENT_BYTES: u32 = 1 << 22;
/// Room for copies and ends of states that go to another firewall: some 29,000.
const CHANGE_BYTES: u32 = 1 << 22;

impl Engine {
    /// Starts filtering by a ruleset; gives warnings besides. Where programs of weir run already in
    /// this network namespace, they, their states and their counters are kept.
    ///
    /// # Errors
    ///
    /// Why it cannot run. What was not running before is not running then.
    pub fn start(
        options: Options,
        machine: Arc<dyn Machine>,
        load: Load,
        uid: u32,
    ) -> Result<(Self, Vec<String>), Refused> {
        check_kernel(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())?;
        let facts = machine.facts().map_err(Refused)?;
        let loader = Loader { uid, pid: load.pid };
        let links = links()?;
        let ifindexes: Vec<u32> = links.iter().map(|link| link.ifindex).collect();
        let adopted = Firewall::adopt(&ifindexes).map_err(Refused::because)?;
        // What ran before is not left without its daemon because an interface has come meanwhile.
        let unfilterable = interfaces::unfilterable(&links);
        let refused: &[String] = if adopted.is_some() { &[] } else { &unfilterable };
        let main = Source::compile(load, &facts, refused, None, String::new).map_err(Refused)?;
        let fingerprints = main.ruleset.fingerprints.clone();
        let mut engine = match adopted {
            Some(firewall) => {
                let about = (machine, facts.clone());
                Self::adopt(firewall, options, about, fingerprints.as_ref(), loader)?
            }
            None => Self::fresh(&main, options, machine, facts.clone(), loader)?,
        };
        let tables = engine.tables.with_all("", &main.ruleset, &main.anchors);
        let anchors = std::mem::take(&mut engine.anchors);
        let declared = engine.declared(&main.ruleset, true);
        let installed = declared.and_then(|(typed, fresh)| {
            let next = Next { facts, main, anchors, tables, typed };
            let manner = if engine.is_adopted { Manner::Adopted } else { Manner::Asked };
            if !engine.is_adopted {
                // Before a program is attached: whoever finds one takes what is disabled as meant.
                engine.set_enabled(true);
            }
            engine.install_declared(next, manner, fresh)
        });
        match installed {
            Ok(warnings) => {
                engine.loaded_unix_s = clock::unix_s();
                Ok((engine, warnings))
            }
            Err(error) => {
                if !engine.is_adopted {
                    engine.stop();
                }
                Err(error)
            }
        }
    }

    fn fresh(
        main: &Source,
        options: Options,
        machine: Arc<dyn Machine>,
        facts: Facts,
        loader: Loader,
    ) -> Result<Self, Refused> {
        let plan = memory::plan(main)?;
        let random = random_words()?;
        let [seed, hash_seed @ ..] = random;
        let load_options = LoadOptions {
            hash_seed,
            fragment_count_max: main.limit("frags").max(1),
            source_count_max: limits::source_places(memory::source_count(&main.ruleset)),
            log_bytes: LOG_BYTES,
            event_bytes: EVENT_BYTES,
            change_bytes: CHANGE_BYTES,
        };
        let firewall = Firewall::load(&load_options, plan.sizes, plan.first());
        let firewall = firewall.map_err(Refused::because)?;
        let (arena, regions) = (firewall.arena(), firewall.regions());
        Heap::format(arena, regions.heap.at, regions.sizes.heap_bytes).map_err(Refused::because)?;
        arena.write64(control::STARTED_NS, clock::boot_ns());
        Ok(Self {
            firewall: Arc::new(firewall),
            machine,
            options,
            facts,
            main: Source::empty(),
            anchors: Vec::new(),
            known: Known::default(),
            copied_to: Vec::new(),
            rules: Vec::new(),
            directory: Vec::new(),
            tables: Tables::default(),
            typed: TypedTables::default(),
            interfaces: Interfaces::default(),
            stages: Choice::default(),
            scrubs: Release::default(),
            queues: Made::default(),
            baseline: Totals::default(),
            flow_counters: Arc::default(),
            sync_counters: Arc::default(),
            debug: "urgent".to_owned(),
            loader,
            loaded_unix_s: 0,
            started_unix_s: clock::unix_s(),
            seed,
            is_adopted: false,
            is_stopped: false,
        })
    }

    fn adopt(
        firewall: Firewall,
        options: Options,
        (machine, facts): (Arc<dyn Machine>, Facts),
        fingerprints: Option<&Arc<Fingerprints>>,
        loader: Loader,
    ) -> Result<Self, Refused> {
        let (document, tables, typed) = {
            let (arena, regions) = (firewall.arena(), firewall.regions());
            let heap = Heap::adopt(arena, regions.heap.at, regions.sizes.heap_bytes);
            let heap = heap.map_err(Refused::because)?;
            // What is only read needs no seed.
            let installer = Installer::new(arena, heap, regions.sizes.cpu_count, 0);
            let document = Document::adopt(&installer, arena, clock::boot_ns())?;
            let mut document = document.unwrap_or_default();
            let kept = std::mem::take(&mut document.tables);
            let tables = Tables::adopt(kept, |index| installer.table_entries(index));
            let typed = std::mem::take(&mut document.typed);
            let typed = TypedTables::adopt(typed, arena).map_err(Refused)?;
            (document, tables, typed)
        };
        let mut anchors = Vec::new();
        for load in document.anchors {
            let known = fingerprints.cloned();
            let source = Source::compile(load, &facts, &[], known, String::new);
            anchors.push(source.map_err(Refused)?);
        }
        // Routes may have changed while nobody followed them.
        firewall.leave_second_stage();
        Ok(Self {
            interfaces: Interfaces::adopt(&firewall),
            stages: Choice::default(),
            scrubs: Release::default(),
            queues: Made::adopt(),
            firewall: Arc::new(firewall),
            machine,
            options,
            facts,
            main: Source::empty(),
            anchors,
            known: document.known,
            copied_to: Vec::new(),
            rules: Vec::new(),
            directory: Vec::<TableName>::new(),
            tables,
            typed,
            baseline: document.baseline,
            flow_counters: Arc::default(),
            sync_counters: Arc::default(),
            debug: document.debug,
            loader,
            loaded_unix_s: 0,
            started_unix_s: document.started_unix_s,
            seed: document.seed,
            is_adopted: true,
            is_stopped: false,
        })
    }

    /// Takes the programs of a data path off whose daemon is gone, also those of another version of
    /// weir. Tells whether there was one.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be asked.
    pub fn remove_orphan() -> Result<bool, Refused> {
        let ifindexes: Vec<u32> = links()?.iter().map(|link| link.ifindex).collect();
        // What is damaged or of another version is not looked for elsewhere.
        let firewall = Firewall::adopt(&ifindexes).ok().flatten();
        let was_there = Firewall::remove(&ifindexes).map_err(Refused::because)?;
        if let Some(firewall) = firewall {
            elsewhere::detach(&firewall);
        }
        queues::remove_all();
        Ok(was_there)
    }

    /// The interfaces on which there are programs of a data path.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be asked.
    pub fn filtered() -> Result<Vec<String>, Refused> {
        let links = links()?;
        let ifindexes: Vec<u32> = links.iter().map(|link| link.ifindex).collect();
        let filtered = Firewall::filtered(&ifindexes).map_err(Refused::because)?;
        let is_filtered = |link: &&LinkInfo| filtered.contains(&link.ifindex);
        Ok(links.iter().filter(is_filtered).map(|link| link.name.clone()).collect())
    }
}

/// Refuses kernels without what the programs need, before the verifier does in its words.
fn check_kernel(release: &str) -> Result<(), Refused> {
    let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse::<u32>());
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Ok(());
    };
    if (major, minor) >= KERNEL_MIN {
        return Ok(());
    }
    let (least_major, least_minor) = KERNEL_MIN;
    Err(Refused(format!(
        "weir fw needs Linux {least_major}.{least_minor} or later (BPF arenas), and this is \
         {major}.{minor}: `weir doctor` says what the machine lacks"
    )))
}

/// Nine random words of the kernel's: a key that nobody can guess.
fn random_words() -> Result<[u64; 9], Refused> {
    use std::io::Read as _;
    let mut bytes = [0; 72];
    let opened = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    opened.map_err(|error| Refused(format!("/dev/urandom: {error}")))?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut random = [0; 9];
    for (seed, word) in random.iter_mut().zip(words) {
        *seed = u64::from_ne_bytes(*word);
    }
    Ok(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_refused_in_words() {
        assert!(check_kernel("6.18.0-amd64\n").is_ok());
        assert!(check_kernel("6.12.3").is_ok() && check_kernel("7.0").is_ok());
        let refusal = check_kernel("6.1.0-13-amd64").unwrap_err().to_string();
        assert!(
            refusal.contains("Linux 6.12 or later") && refusal.contains("this is 6.1"),
            "{refusal}"
        );
    }

    #[test]
    fn random_words_differ() {
        let words = random_words().unwrap();
        assert!(words.iter().any(|word| *word != words[0]));
    }
}
