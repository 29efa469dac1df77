//! What changed between two environments: the content of two `env.json`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// What differs between two environments and is there to stay, by path: not the time, what warms
/// up and cools down, what the governor just does, or free memory. A section that one of the two
/// does not have was not read there, and is not compared.
#[must_use]
pub fn differences(earlier: &Value, later: &Value) -> BTreeMap<String, (Value, Value)> {
    // The list of changed settings repeats what the settings themselves say.
    const PASSING: [&str; 8] = [
        "/taken_utc",
        "/temperatures_celsius",
        "/fans_rpm",
        "/testbed/dut/temperatures_celsius",
        "/testbed/dut/fans_rpm",
        "/host/memory_available_bytes",
        "/sysctls_not_default",
        "/resumed",
    ];
    let is_passing = |path: &str| {
        PASSING
            .iter()
            .any(|p| path.strip_prefix(p).is_some_and(|r| r.is_empty() || r.starts_with('/')))
            || path.ends_with("/current_khz")
    };
    let mut result = BTreeMap::new();
    if let (Value::Object(x), Value::Object(y)) = (earlier, later) {
        for (key, left) in x {
            if let Some(right) = y.get(key) {
                compare(&format!("/{key}"), left, right, &mut result);
            }
        }
    }
    result.retain(|path, _| !is_passing(path));
    result
}

/// Notes in the environment of a campaign's start that it went on now. Returns a warning if
/// something lasting has changed since.
#[must_use]
pub fn resumed(first: &mut Value, now: &Value) -> Option<String> {
    let mut earlier = first.clone();
    if let Some(map) = earlier.as_object_mut() {
        map.remove("resumed");
    }
    let changes = differences(&earlier, now);
    let note = json!({ "taken_utc": now["taken_utc"], "differences": changes });
    if let Some(list) = first["resumed"].as_array_mut() {
        list.push(note);
    } else {
        first["resumed"] = json!([note]);
    }
    let names: Vec<&str> = changes.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the environment has changed since the campaign began ({}); old and new iterations \
             may not be comparable",
            names.join(", ")
        )
    })
}

fn compare(path: &str, a: &Value, b: &Value, out: &mut BTreeMap<String, (Value, Value)>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                let left = x.get(key).unwrap_or(&Value::Null);
                let right = y.get(key).unwrap_or(&Value::Null);
                compare(&format!("{path}/{key}"), left, right, out);
            }
        }
        // As a whole only if they cannot be told apart by place.
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (index, (left, right)) in x.iter().zip(y).enumerate() {
                compare(&format!("{path}/{index}"), left, right, out);
            }
        }
        _ if a != b => {
            out.insert(path.to_owned(), (a.clone(), b.clone()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lasting_differences_are_reported() {
        let at = |time: &str, kernel: &str, khz: &str, governor: &str| {
            json!({
                "taken_utc": time,
                "host": {"kernel": kernel, "memory_available_bytes": time},
                "cpu": {"frequency": [{"cpu": 0}, {"governor": governor, "current_khz": khz}]},
                "temperatures_celsius": {"coretemp/Core 0": time},
                "fans_rpm": {"nct6775/fan1": time},
                "sysctls_not_default": {"net.core.busy_poll": {"value": time}},
            })
        };
        assert_eq!(
            differences(&at("1", "6.1", "2", "x"), &at("2", "6.1", "3", "x")),
            BTreeMap::new()
        );
        let found =
            differences(&at("1", "6.1", "2", "powersave"), &at("2", "6.2", "3", "performance"));
        let expected = [
            ("/cpu/frequency/1/governor".to_owned(), (json!("powersave"), json!("performance"))),
            ("/host/kernel".to_owned(), (json!("6.1"), json!("6.2"))),
        ];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn what_was_read_once_only_is_not_a_difference_but_what_went_is() {
        let first =
            json!({"devices": {"d0": {}}, "tools": {"nft": "1", "tc": "2"}, "list": [1, 2]});
        let now = json!({"tools": {"nft": "1"}, "list": [1]});
        let found = differences(&first, &now);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["/list", "/tools/tc"]);
    }

    #[test]
    fn a_resumption_is_noted_and_warns_of_what_has_changed() {
        let mut first = json!({"taken_utc": "1", "weir": "a"});
        assert_eq!(resumed(&mut first, &json!({"taken_utc": "2", "weir": "a"})), None);
        let warning = resumed(&mut first, &json!({"taken_utc": "3", "weir": "b"}));
        assert!(warning.is_some_and(|text| text.contains("(/weir)")));
        assert_eq!(first["resumed"][0]["taken_utc"], "2");
        assert_eq!(first["resumed"][1]["differences"]["/weir"], json!(["a", "b"]));
    }
}
