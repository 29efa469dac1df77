use super::*;
use proptest::prelude::*;

const WRITERS: [Writer; 4] = {
    let (us, ns) = (Resolution::Microseconds, Resolution::Nanoseconds);
    let (little, big) = (ByteOrder::Little, ByteOrder::Big);
    [
        Writer { resolution: us, byte_order: little },
        Writer { resolution: us, byte_order: big },
        Writer { resolution: ns, byte_order: little },
        Writer { resolution: ns, byte_order: big },
    ]
};

fn file(writer: Writer, records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    writer.header(&mut out);
    for (time_ns, frame) in records {
        writer.record(&mut out, *time_ns, frame).unwrap();
    }
    out
}

#[test]
fn golden() {
    let bytes = file(Writer::default(), &[(3_000_000_005, vec![0xaa, 0xbb])]);
    let expected = [
        0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0, 3, 0,
        0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0xaa, 0xbb,
    ];
    assert_eq!(bytes, expected);
    let bytes = file(WRITERS[1], &[]);
    assert_eq!(bytes[..8], [0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4]);
}

#[test]
fn truncated_files_yield_what_stands_before() {
    let whole = file(Writer::default(), &[(1, vec![1; 60]), (2, vec![2; 60])]);
    assert_eq!(whole.len(), 24 + 2 * 76);
    for size in 0..=whole.len() {
        let reader = match Reader::new(&whole[..size]) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(size < 24);
                let expected = truncated("the file header", 0, 24, size);
                assert_eq!(error, expected);
                continue;
            }
        };
        let records: Vec<_> = reader.collect();
        let good = records.iter().filter(|record| record.is_ok()).count();
        assert_eq!(good, (size - 24) / 76);
        let left = (size - 24) % 76;
        let offset = size - left;
        match (left, records.last()) {
            (0, last) => assert!(last.is_none_or(Result::is_ok)),
            (1..16, Some(Err(error))) => {
                assert_eq!(*error, truncated("the record header", offset, 16, left));
            }
            (_, Some(Err(error))) => {
                assert_eq!(*error, truncated("the frame", offset + 16, 60, left - 16));
            }
            (_, other) => panic!("{left} bytes left: {other:?}"),
        }
    }
    let error = Reader::new(&whole[..110]).unwrap().last().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the file is truncated: the record header at offset 100 needs 16 bytes, but 10 are left"
    );
}

#[test]
fn other_files_are_refused() {
    let changed = |at: usize, value: u8| {
        let mut bytes = file(Writer::default(), &[(1, vec![1; 60])]);
        bytes[at] = value;
        match Reader::new(&bytes) {
            Err(error) => error.to_string(),
            Ok(reader) => reader.last().unwrap().unwrap_err().to_string(),
        }
    };
    assert_eq!(changed(0, 0), "this is not a pcap file: it starts with 0x003cb2a1");
    assert_eq!(changed(6, 3), "pcap version 2.3 is not supported: 2.4 is");
    assert!(changed(20, 101).starts_with("link type 101 is not Ethernet (1)"));
    assert_eq!(changed(23, 0x24), "the frames carry 4 bytes of FCS, which weir's frames do not");
    assert_eq!(
        changed(31, 0x40),
        "the time of the record at offset 24 has 1073741825 parts of a second"
    );
    assert_eq!(changed(35, 1), "the record at offset 24 has 16777276 bytes, more than 262144");
    assert_eq!(changed(36, 59), "the record at offset 24 holds 60 bytes of a frame of 59");
    let pcapng = [0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0];
    assert_eq!(Reader::new(&pcapng).unwrap_err(), PcapError::Pcapng);
}

#[test]
fn cut_frames_are_told() {
    let mut bytes = file(Writer::default(), &[(1, vec![1; 60])]);
    bytes[36] = 90;
    let record = Reader::new(&bytes).unwrap().next().unwrap().unwrap();
    assert!(record.is_cut() && record.wire_bytes == 90);
}

#[test]
fn what_a_file_cannot_hold_is_refused() {
    let (writer, mut out) = (Writer::default(), Vec::new());
    let too_late = (u64::from(u32::MAX) + 1) * NS_PER_SECOND;
    assert_eq!(writer.record(&mut out, too_late, &[]), Err(WriteError::Time(too_late)));
    assert_eq!(writer.record(&mut out, too_late - 1, &[]), Ok(()));
    out.clear();
    let large = vec![0; 262_145];
    assert_eq!(writer.record(&mut out, 0, &large), Err(WriteError::Size(262_145)));
    assert!(out.is_empty());
}

proptest! {
    #[test]
    fn written_is_read_back(
        which in 0_usize..4,
        records in prop::collection::vec(
            (0..u64::from(u32::MAX) * NS_PER_SECOND, prop::collection::vec(any::<u8>(), 0..90)),
            0..9
        )
    ) {
        let writer = WRITERS[which];
        let bytes = file(writer, &records);
        let mut reader = Reader::new(&bytes).unwrap();
        prop_assert_eq!((reader.resolution(), reader.byte_order()),
            (writer.resolution, writer.byte_order));
        for (time_ns, frame) in &records {
            let unit = u64::from(writer.resolution.unit_ns());
            let record = reader.next().unwrap().unwrap();
            prop_assert_eq!(record.time_ns, time_ns / unit * unit);
            prop_assert_eq!(record.frame, frame);
            prop_assert!(!record.is_cut());
        }
        prop_assert!(reader.next().is_none());
        prop_assert_eq!(reader.offset(), bytes.len());
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        which in 0_usize..4, bytes in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let _ = Reader::new(&bytes).map(Iterator::count);
        let mut file = file(WRITERS[which], &[]);
        file.extend(bytes);
        let records: Vec<_> = Reader::new(&file).unwrap().collect();
        let errors = records.iter().filter(|record| record.is_err()).count();
        prop_assert!(errors <= 1);
        prop_assert!(errors == 0 || records.last().unwrap().is_err());
    }
}
