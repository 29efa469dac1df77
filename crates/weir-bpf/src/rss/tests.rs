//! What the maps hold. That packets are spread as predicted is tested where packets are sent, in
//! weir-gen.

use super::*;

fn settings(symmetry: Symmetry, table: &str) -> Settings {
    use Fields::{FourTuple, TwoTuple};
    let key = Key::random(5, 52, 128).expect("a length that keys have").0;
    let table = table.parse().expect("a table");
    Settings { key, table, symmetry, fields: [FourTuple, TwoTuple, TwoTuple, FourTuple] }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

#[test]
fn settings_are_read_as_they_were_written() {
    let receiver = Receiver { netns: 4_026_531_840, ifindex: 7 };
    for (symmetry, table) in [
        (Symmetry::None, "equal:3/7"),
        (Symmetry::Xor, "0"),
        (Symmetry::OrXor, "weights:1,0,5/65536"),
    ] {
        let settings = settings(symmetry, table);
        let shown = Shown { key: &settings.key, receiver: Some(receiver) };
        let bytes = value(&settings, &shown, QueueMark::NumberAndOne);
        assert_eq!(bytes.len(), rss::WORDS * WORD_BYTES);
        let words = words(&bytes);
        assert_eq!(settings_of(&words).expect("settings"), settings);
        assert_eq!(words[rss::RECEIVER_NETNS], receiver.netns);
        assert_eq!(words[rss::QUEUE_OFFSET], 1);
    }
}

#[test]
fn what_holds_no_settings_is_none() {
    let error = settings_of(&[0; rss::WORDS]).expect_err("zeros are no key").to_string();
    assert!(error.contains("its key: a key has 40 to 52 bytes, not 0"), "{error}");
}

#[test]
fn a_veth_marks_queues_by_their_numbers_and_all_else_by_one_more() {
    assert_eq!(QueueMark::of_driver("veth"), QueueMark::Number);
    assert_eq!(QueueMark::of_driver("virtio_net"), QueueMark::NumberAndOne);
}
