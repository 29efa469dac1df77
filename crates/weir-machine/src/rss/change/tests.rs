//! A card that refuses, forgets and breaks down as it is told: no machine of the tests has one
//! whose key or table can be set.

use std::cell::RefCell;

use weir_bpf::ethtool::EthtoolError;
use weir_bpf::ethtool::rss::{HashFunction, HashInput};

use super::*;

/// The loopback device has an index, as a record wants, and no receive side scaling.
const NAME: &str = "lo";

/// What a card does not do.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    refuses_hash: bool,
    /// It takes the key that comes with a table, and refuses that.
    refuses_table: bool,
    /// The number of the call of `set_fields`, from 1, that fails.
    refuses_fields_at: Option<usize>,
    /// Every call after that one fails, too.
    breaks_down: bool,
    ignores_key: bool,
}

struct Fake {
    state: RefCell<State>,
    faults: Faults,
    calls: RefCell<usize>,
}

fn refused() -> CardError {
    EthtoolError::Refused {
        what: "set receive side scaling",
        interface: NAME.to_owned(),
        source: std::io::Error::from_raw_os_error(nix::libc::EINVAL),
    }
    .into()
}

impl Fake {
    fn new(faults: Faults) -> Self {
        let state = State {
            function: Some(HashFunction::Toeplitz),
            input: HashInput::AsIs,
            key: vec![7; 40],
            table: vec![0, 1, 0, 1],
            fields: [Some(0xf0), Some(0x30), Some(0xf0), Some(0x30)],
            queue_count: Some(4),
            contexts: Vec::new(),
            is_wire: false,
        };
        Self { state: RefCell::new(state), faults, calls: RefCell::new(0) }
    }
}

impl Card for Fake {
    fn interface(&self) -> &str {
        NAME
    }

    fn read(&self) -> Result<State, CardError> {
        Ok(self.state.borrow().clone())
    }

    fn set_hash(&self, key: Option<&[u8]>, table: Option<&[u32]>) -> Result<(), CardError> {
        let is_down = self.faults.breaks_down && *self.calls.borrow() > 0;
        if self.faults.refuses_hash || is_down {
            return Err(refused());
        }
        let mut state = self.state.borrow_mut();
        if let Some(key) = key.filter(|_| !self.faults.ignores_key) {
            state.key = key.to_vec();
        }
        // What was there is no other one.
        if self.faults.refuses_table && table.is_some_and(|table| table != state.table) {
            return Err(refused());
        }
        if let Some(table) = table {
            state.table = table.to_vec();
        }
        Ok(())
    }

    fn set_fields(&self, kind: FlowKind, bits: u64) -> Result<(), CardError> {
        let call = *self.calls.borrow() + 1;
        *self.calls.borrow_mut() = call;
        let fails_at = self.faults.refuses_fields_at;
        if fails_at.is_some_and(|at| call == at || self.faults.breaks_down && call > at) {
            return Err(refused());
        }
        self.state.borrow_mut().fields[kind as usize] = Some(bits);
        Ok(())
    }
}

/// Records below a directory of the test's.
fn records() -> (tempfile::TempDir, Records) {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::of_namespace(directory.path()).unwrap();
    (directory, records)
}

fn all() -> Change {
    Change {
        key: Some(Key::microsoft()),
        table: Some("0,1,2,3".parse().unwrap()),
        fields: vec![(FlowKind::Udp4, Fields::FourTuple), (FlowKind::Udp6, Fields::FourTuple)],
    }
}

#[test]
fn everything_is_set_and_undone() {
    let (_directory, records) = records();
    let card = Fake::new(Faults::default());
    let before = card.read().unwrap();
    let after = apply(&card, &all(), &records).unwrap();
    assert_eq!(
        (after.key.as_slice(), &after.table[..]),
        (Key::microsoft().bytes(), &[0, 1, 2, 3][..])
    );
    assert_eq!(after.fields, [Some(0xf0); 4]);
    // What was there before the first change stays on record through the second.
    let second = Change { table: Some("3,3,3,3".parse().unwrap()), ..Change::default() };
    apply(&card, &second, &records).unwrap();
    assert!(undo(&card, &records).unwrap().is_some());
    assert_eq!(card.read().unwrap(), before);
    assert!(undo(&card, &records).unwrap().is_none(), "once is enough");
}

#[test]
fn if_a_later_step_fails_the_earlier_ones_are_put_back() {
    for refuses_fields_at in [1, 2] {
        let (_directory, records) = records();
        let faults = Faults { refuses_fields_at: Some(refuses_fields_at), ..Faults::default() };
        let card = Fake::new(faults);
        let before = card.read().unwrap();
        let error = apply(&card, &all(), &records).unwrap_err().to_string();
        assert!(error.contains("the fields of udp") && error.contains("was put back"), "{error}");
        assert_eq!(card.read().unwrap(), before);
        assert!(undo(&card, &records).unwrap().is_none(), "nothing is left to undo");
    }
}

#[test]
fn a_key_goes_back_if_the_table_with_it_is_refused() {
    let (_directory, records) = records();
    let card = Fake::new(Faults { refuses_table: true, ..Faults::default() });
    let before = card.read().unwrap();
    let error = apply(&card, &all(), &records).unwrap_err().to_string();
    assert!(error.contains("key and table were not set"), "{error}");
    assert!(error.contains("was put back"), "{error}");
    assert_eq!(card.read().unwrap(), before);
    assert!(undo(&card, &records).unwrap().is_none(), "nothing is left to undo");
}

#[test]
fn an_interface_that_ignores_what_is_put_back_stays_on_record() {
    let (_directory, records) = records();
    let mut card = Fake::new(Faults::default());
    apply(&card, &all(), &records).unwrap();
    card.faults.ignores_key = true;
    let error = undo(&card, &records).unwrap_err().to_string();
    assert!(error.contains("shows another key"), "{error}");
    card.faults.ignores_key = false;
    assert!(undo(&card, &records).unwrap().is_some(), "and then it goes back");
}

#[test]
fn a_table_of_another_size_is_refused_by_name() {
    let (_directory, records) = records();
    let card = Fake::new(Faults::default());
    apply(&card, &all(), &records).unwrap();
    card.state.borrow_mut().table = vec![0; 8];
    let error = undo(&card, &records).unwrap_err().to_string();
    assert!(error.contains("a table of 4 entries, and has one of 8"), "{error}");
}

#[test]
fn what_cannot_be_put_back_stays_on_record() {
    let (_directory, records) = records();
    let faults = Faults { refuses_fields_at: Some(1), breaks_down: true, ..Faults::default() };
    let mut card = Fake::new(faults);
    let before = card.read().unwrap();
    let error = apply(&card, &all(), &records).unwrap_err().to_string();
    assert!(error.contains("could not be put back") && error.contains("weir rss undo"), "{error}");
    assert_ne!(card.read().unwrap(), before);
    assert!(undo(&card, &records).is_err(), "it is still broken");
    card.faults = Faults::default();
    assert!(undo(&card, &records).unwrap().is_some());
    assert_eq!(card.read().unwrap(), before);
}

#[test]
fn a_refused_or_ignored_key_changes_nothing() {
    let (_directory, records) = records();
    let refusing = Fake::new(Faults { refuses_hash: true, ..Faults::default() });
    let before = refusing.read().unwrap();
    let error = apply(&refusing, &all(), &records).unwrap_err().to_string();
    assert!(error.contains("key and table were not set"), "{error}");
    assert_eq!(refusing.read().unwrap(), before);
    let deaf = Fake::new(Faults { ignores_key: true, ..Faults::default() });
    let error = apply(&deaf, &all(), &records).unwrap_err().to_string();
    assert!(error.contains("shows another key than it was told"), "{error}");
    assert_eq!(deaf.read().unwrap(), before);
}

#[test]
fn what_is_impossible_is_refused_before_anything_is_set() {
    let table = |text: &str| Change { table: Some(text.parse().unwrap()), ..Change::default() };
    let key = |key: Key| Change { key: Some(key), ..Change::default() };
    let fields = Change { fields: vec![(FlowKind::Udp4, Fields::FourTuple)], ..Change::default() };
    type Spoil = fn(&mut State);
    let long = Key::new(&[1; 52]).unwrap();
    let cases: [(Change, Spoil, &str); 9] = [
        (table("0,1,2,4"), |_| {}, "has 4 receive queues, numbered from 0, and no queue 4"),
        (table("0,1"), |_| {}, "has a table of 4 entries, not of 2"),
        (table("0,1,0,1"), |state| state.table.clear(), "has no indirection table"),
        (key(long), |_| {}, "has a key of 40 bytes, not of 52"),
        (key(Key::microsoft()), |state| state.key.clear(), "neither shows its key"),
        (key(Key::microsoft()), |state| state.key.truncate(16), "set it with ethtool(8)"),
        (fields, |state| state.fields[1] = None, "which fields of udp4"),
        (table("0,1,2,3"), |state| state.contexts = vec![1, 3], "(1, 3)"),
        (table("0,1,2,3"), |state| state.queue_count = Some(2), "no queue 3"),
    ];
    for (change, spoil, why) in cases {
        let (_directory, records) = records();
        let card = Fake::new(Faults::default());
        spoil(&mut card.state.borrow_mut());
        let before = card.read().unwrap();
        let error = apply(&card, &change, &records).unwrap_err().to_string();
        assert!(error.contains(why) && error.ends_with("nothing was changed"), "{why}: {error}");
        assert_eq!(card.read().unwrap(), before);
        assert!(records.find(NAME).unwrap().is_none(), "nothing is on record");
    }
}

#[test]
fn a_table_over_queues_that_are_gone_is_not_put_back() {
    let (_directory, records) = records();
    let card = Fake::new(Faults::default());
    card.state.borrow_mut().table = vec![0, 1, 2, 3];
    let before = card.read().unwrap();
    let table = Change { table: Some("0,1,0,1".parse().unwrap()), ..Change::default() };
    apply(&card, &table, &records).unwrap();
    card.state.borrow_mut().queue_count = Some(2);
    let error = undo(&card, &records).unwrap_err().to_string();
    assert!(error.contains("over 4 receive queues, and has 2 now"), "{error}");
    assert!(error.contains("ethtool -L lo combined 4"), "{error}");
    card.state.borrow_mut().queue_count = Some(4);
    assert!(undo(&card, &records).unwrap().is_some());
    assert_eq!(card.read().unwrap(), before);
}

#[test]
fn who_changes_an_interface_again_and_again_has_it_alone() {
    let (directory, records) = records();
    let card = Fake::new(Faults::default());
    let held = records.keep(NAME, &card.read().unwrap()).unwrap();
    let others = Records::of_namespace(directory.path()).unwrap();
    let error = apply(&card, &all(), &others).unwrap_err().to_string();
    assert!(error.contains("another `weir rss set` or `weir rss balance`"), "{error}");
    drop(held);
    let mut others = others;
    others.hold(NAME).unwrap();
    apply(&card, &all(), &others).unwrap();
    assert!(apply(&card, &all(), &records).is_err(), "it is held on");
}

#[test]
fn a_record_of_an_interface_that_is_gone_is_not_used() {
    let (directory, records) = records();
    let card = Fake::new(Faults::default());
    apply(&card, &all(), &records).unwrap();
    let path = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let path = path.join(format!("{NAME}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"ifindex\": 1,", "\"ifindex\": 99999,")).unwrap();
    assert!(records.find(NAME).unwrap().is_none());
    std::fs::write(&path, "{").unwrap();
    let error = records.find(NAME).unwrap_err().to_string();
    assert!(error.contains("is not a record of former settings"), "{error}");
}
