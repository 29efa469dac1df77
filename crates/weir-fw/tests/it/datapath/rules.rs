//! A rig with rules: pf.conf in, an active ruleset in the arena.

use weir_bpf::firewall::layout::{CONTROL_ENABLED, control};
use weir_fw::compile::known::Known;
use weir_fw::compile::{Input, Slot, compile};
use weir_fw::heap::Heap;
use weir_fw::image::Settings;
use weir_fw::install::{Installer, contents};
use weir_rules::Dialect;
use weir_rules::evaluate::Evaluator;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;

use super::rig::{Rig, SLOT};

const FACTS: &str =
    "interface b0 10.0.1.1/24 fd00:1::1/64\ninterface b1 10.0.2.1/24 fd00:2::1/64\n";

/// Timeouts of the tests, ticks: nothing expires.
const TICKS: u32 = 1_000_000;

impl Rig {
    /// A rig that filters.
    pub(crate) fn with_rules(what: &str, text: &str) -> Option<Self> {
        Self::new(what)?.filtering(text)
    }

    /// The same, with room for so many states.
    pub(crate) fn with_room(what: &str, slot_count: u32, text: &str) -> Option<Self> {
        Self::with_slots(what, slot_count, 2 * slot_count)?.filtering(text)
    }

    fn filtering(self, text: &str) -> Option<Self> {
        let rig = self;
        let arena = rig.firewall.arena();
        let heap = &rig.firewall.regions().heap;
        let heap_bytes = u32::try_from(heap.bytes).expect("it is small");
        arena.populate(heap.at, heap.bytes).expect("there is memory");
        Heap::format(arena, heap.at, heap_bytes).expect("it is large enough");
        rig.load(text);
        Some(rig)
    }

    /// The same in OpenBSD's dialect.
    pub(crate) fn with_openbsd_rules(what: &str, text: &str) -> Option<Self> {
        let rig = Self::with_rules(what, "pass\n")?;
        rig.load_as(Dialect::OpenBsd, text);
        Some(rig)
    }

    /// Puts rules in force; gives their identifiers.
    pub(crate) fn load(&self, text: &str) -> Known {
        self.load_as(Dialect::FreeBsd, text)
    }

    pub(crate) fn load_as(&self, dialect: Dialect, text: &str) -> Known {
        self.load_over(&Known::default(), dialect, text)
    }

    /// The same after other rules, whose states may still be there.
    pub(crate) fn load_over(&self, known: &Known, dialect: Dialect, text: &str) -> Known {
        let facts = Facts::parse(FACTS).expect("these are facts");
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(dialect),
            macros: &[],
            provider: &MemorySources::default(),
            limits: Limits::default(),
        };
        let parsed = weir_rules::compile(input, &facts);
        assert_eq!(parsed.error_count, 0, "{text}");
        let evaluator = Evaluator::new(&parsed.ruleset, &[], &facts).expect("it can be evaluated");
        let slots: Vec<Slot> = ["b0", "b1"]
            .iter()
            .zip(SLOT)
            .map(|(name, slot)| Slot {
                number: u8::try_from(slot).expect("a small number"),
                interface: (*name).to_owned(),
            })
            .collect();
        let (resolver, counted) = (&facts, crate::counted_tables(&parsed.ruleset));
        let (slots, counted) = (&slots, &counted);
        let typed = &weir_fw::compile::declared_values(&parsed.ruleset);
        let input = Input { evaluator: &evaluator, resolver, slots, known, counted, typed };
        let mut compiled = compile(&input).unwrap_or_else(|refused| panic!("{:?}", refused.0));
        let profiles = vec![[TICKS; 16]];
        // As many as the table of most tests has room for.
        let state_limit = self.firewall.regions().sizes.bucket_count.max(1024) - 24;
        let flood = parsed.ruleset.settings.syncookies.levels(state_limit).unwrap_or_default();
        compiled.settings = Settings { state_limit, profiles, flood, ..Settings::default() };
        let arena = self.firewall.arena();
        let heap = &self.firewall.regions().heap;
        let heap_bytes = u32::try_from(heap.bytes).expect("it is small");
        let heap = Heap::adopt(arena, heap.at, heap_bytes).expect("it is a heap");
        let installer = Installer::new(arena, heap, arena.read32(control::CPU_COUNT), 0x1234);
        compiled.typed_at = crate::place_typed(&installer, &parsed.ruleset);
        let tables = contents("", &parsed.ruleset);
        let known = installer.activate(&compiled, &evaluator, &tables, 1).expect("there is room");
        self.set_flags(arena.read32(control::FLAGS) | CONTROL_ENABLED);
        known
    }
}
