//! CPU lists and pinning.

use super::*;

fn list(text: &str) -> CpuList {
    text.parse().unwrap()
}

#[test]
fn lists_parse_and_print_canonically() {
    for (text, printed) in [
        ("0", "0"),
        ("0-1,3", "0-1,3"),
        ("3,1,0", "0-1,3"),
        ("5-5", "5"),
        ("0-2,1-4", "0-4"),
        (" 1 , 2 ", "1-2"),
        ("1023", "1023"),
    ] {
        assert_eq!(list(text).to_string(), printed);
        assert_eq!(list(&list(text).to_string()), list(text));
    }
    assert_eq!(list("0-1,3").iter().collect::<Vec<_>>(), [0, 1, 3]);
    assert_eq!((list("4,2").count(), list("4,2").first()), (2, 2));
}

#[test]
fn wrong_lists_say_what_is_wrong() {
    for (text, message) in [
        ("", "CPU list `` has an empty part; write it like 0-1,3"),
        ("1,,2", "CPU list `1,,2` has an empty part; write it like 0-1,3"),
        ("1,x", "`x` in CPU list `1,x` is neither a CPU number nor a range; write 0-1,3"),
        ("-1", "`-1` in CPU list `-1` is neither a CPU number nor a range; write 0-1,3"),
        ("1-2-3", "`1-2-3` in CPU list `1-2-3` is neither a CPU number nor a range; write 0-1,3"),
        ("+1", "`+1` in CPU list `+1` is neither a CPU number nor a range; write 0-1,3"),
        ("3-1", "range `3-1` in CPU list `3-1` runs backwards"),
        ("1024", "CPU 1024 in CPU list `1024` is too large: at most 1023"),
        ("0-99999", "CPU 99999 in CPU list `0-99999` is too large: at most 1023"),
    ] {
        assert_eq!(text.parse::<CpuList>().unwrap_err().to_string(), message);
    }
    assert!("99999999999999999999999".parse::<CpuList>().is_err());
}

#[test]
fn set_operations() {
    assert!(list("0-1").overlaps(&list("1-2")));
    assert!(!list("0-1").overlaps(&list("2-3")));
    assert_eq!(list("0-3").intersection(&list("2-5")), Some(list("2-3")));
    assert_eq!(list("0").intersection(&list("1")), None);
    assert_eq!(list("0-3").without(&list("1,2")), Some(list("0,3")));
    assert_eq!(list("1").without(&list("0-2")), None);
    assert_eq!(CpuList::new([]), None);
    assert_eq!(CpuList::new([CPU_MAX + 1]), None);
}

#[test]
fn threads_are_pinned_where_they_may_run() {
    let online = online().unwrap();
    let last = online.iter().last().unwrap();
    let one = CpuList::new([last]).unwrap();
    let (pinned, seen) = std::thread::spawn(move || {
        let pinned = pin_current_thread(&one).map(|()| affinity(0).unwrap());
        (pinned, super::online().unwrap())
    })
    .join()
    .unwrap();
    assert_eq!(pinned.unwrap(), CpuList::new([last]));
    assert_eq!(Some(seen), CpuList::new([last]), "online() is what this thread may use");
    assert_eq!(super::online().unwrap(), online, "other threads stay as they were");
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    let absent = list("1023");
    if online().unwrap().contains(1023) {
        return;
    }
    let error = std::thread::spawn(move || pin_current_thread(&absent)).join().unwrap();
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("cannot pin this thread to CPU 1023: "), "{message}");
    assert!(message.contains("none of these CPUs is online"), "{message}");
}

#[test]
fn a_cpu_is_its_own_sibling_and_an_absent_one_has_none() {
    let first = online().unwrap().first();
    if let Some(siblings) = thread_siblings(first) {
        assert!(siblings.contains(first), "{siblings}");
    }
    assert_eq!(thread_siblings(CPU_MAX + 1), None);
}

#[test]
fn the_first_two_cpus_are_those_that_this_thread_may_use() {
    let all: Vec<usize> = online().unwrap().iter().collect();
    assert_eq!(first_two().unwrap(), [all[0], all[1 % all.len()]]);
    let last = *all.last().unwrap();
    let alone = std::thread::spawn(move || {
        pin_current_thread(&CpuList::new([last]).unwrap()).unwrap();
        first_two().unwrap()
    });
    assert_eq!(alone.join().unwrap(), [last; 2]);
}
