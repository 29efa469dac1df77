//! Names with a queue's number in them.

/// Where a pattern has the number.
const PLACE: char = '#';

/// The queue's number in `name`, if the name is of the pattern, whose `#` stands for the number.
pub(super) fn queue_in(pattern: &str, name: &str) -> Option<u32> {
    let (before, after) = pattern.split_once(PLACE)?;
    let number = name.strip_prefix(before)?.strip_suffix(after)?;
    // `+3` and an empty string are no numbers of queues.
    number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::queue_in;

    #[test]
    fn the_number_is_where_the_pattern_has_it() {
        assert_eq!(queue_in("rx_queue_#_packets", "rx_queue_12_packets"), Some(12));
        assert_eq!(queue_in("[#]: rx_ucast_packets", "[3]: rx_ucast_packets"), Some(3));
        for name in ["rx_queue__packets", "rx_queue_+1_packets", "rx_queue_1_bytes", "", "rx"] {
            assert_eq!(queue_in("rx_queue_#_packets", name), None, "{name}");
        }
        assert_eq!(queue_in("rx#", "rx99999999999"), None);
    }
}
