//! Times as Strata's users write them: 100ms, 30s, 20m, 8h.

use std::time::Duration;

/// Reads a time longer than zero; the unit must be written.
///
/// # Errors
/// A sentence that says how a time is written.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale_s = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{text}' is not a time; write it as 100ms, 30s, 20m or 8h")),
    };
    number
        .parse::<f64>()
        .ok()
        .and_then(|value| Duration::try_from_secs_f64(value * scale_s).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("'{text}' is not a time longer than zero; write it as 100ms, 30s, 20m or 8h"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_read() {
        assert_eq!(parse_duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("20m"), Ok(Duration::from_secs(1200)));
        assert_eq!(parse_duration("8h"), Ok(Duration::from_secs(28800)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in ["", "5", "s", "0s", "0.0ms", "-1s", "1 s", "1.2.3s", "1d", "1e400h", "١s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = parse_duration(&text);
        }

        #[test]
        fn milliseconds_come_back(ms in 1u64..100_000_000) {
            let read = parse_duration(&format!("{ms}ms")).map_err(TestCaseError::fail)?;
            prop_assert_eq!(read.as_micros(), u128::from(ms) * 1000);
        }
    }
}
