//! `number` against the system's `printf`, on a few hundred numbers.

use std::process::Command;

use weir_stats::number::{g, g_precision, g8};
use weir_stats::shuffle::SplitMix64;

/// Numbers of every size: special ones, decimal ties, and random bit patterns.
fn numbers() -> Vec<f64> {
    let mut numbers = vec![0.0, 1.0, -1.0, 0.5, 2.5, 99_999.5, 999_999.5, 1e-4, 9.999_999_9e-5];
    for power in -12..20 {
        for lead in [1.0, 1.5, 9.999_999_5, 9.999_999_95, 1.234_567_891_234] {
            numbers.push(lead * 10_f64.powi(power));
        }
    }
    let mut random = SplitMix64::new(2026);
    for _ in 0..150 {
        let bits = f64::from_bits(random.next_u64());
        if bits.is_finite() {
            numbers.push(bits);
        }
        numbers.push(random.below(100_000_000) as f64 / 16.0);
    }
    numbers
}

#[test]
fn agrees_with_the_system() {
    let numbers = numbers();
    for (format, print) in [
        ("%g\\n", g as fn(f64) -> String),
        ("%.8g\\n", g8),
        ("%.1g\\n", |value| g_precision(value, 1)),
        ("%.3g\\n", |value| g_precision(value, 3)),
        ("%.12g\\n", |value| g_precision(value, 12)),
        ("%.17g\\n", |value| g_precision(value, 17)),
    ] {
        // All digits: printf reads them into a longer type than f64, where a shorter text would be
        // a different number.
        let arguments = numbers.iter().map(|number| format!("{number:.767e}"));
        let output =
            Command::new("/usr/bin/printf").env("LC_ALL", "C").arg(format).args(arguments).output();
        let Ok(output) = output else {
            skipped();
            return;
        };
        let printed = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), numbers.len(), "{}", String::from_utf8_lossy(&output.stderr));
        for (line, number) in lines.iter().zip(&numbers) {
            assert_eq!(print(*number), *line, "{format} of {number:e}");
        }
    }
}

/// Says so in the form that the test driver counts.
#[expect(clippy::print_stderr, reason = "the test driver reads a test's captured output")]
fn skipped() {
    eprintln!("skipped: there is no /usr/bin/printf to compare with");
}
