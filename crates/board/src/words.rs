//! Numbers and names as people read them.

use crate::clean;

/// A unit in a document that is read can be anything; one that is longer than any of ours is cut.
const UNIT_MAX: usize = 24;

/// A value with its unit and three significant digits: `123 µs`, `1.50 GB/s`, `0.731`.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    let (factor, prefix, unit) = scale(value, unit);
    let number = significant(value / factor);
    if unit.is_empty() { number } else { format!("{number} {prefix}{unit}") }
}

/// A value with its interval, in one unit: `123 µs [120, 126]`.
pub(crate) fn quantity_within(value: f64, interval: Option<[f64; 2]>, unit: &str) -> String {
    let (factor, ..) = scale(value, unit);
    let interval = interval.map_or(String::new(), |[low, high]| {
        format!(" [{}, {}]", significant(low / factor), significant(high / factor))
    });
    quantity(value, unit) + &interval
}

/// The factor and the prefix that bring a value between 1 and 1000, and the unit they stand before.
fn scale(value: f64, unit: &str) -> (f64, &'static str, String) {
    const PREFIXES: [(f64, &str); 9] = [
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "µ"),
        (1e-9, "n"),
    ];
    let unit = if unit == "1" { String::new() } else { clean::cut(&unit.replace("bytes", "B"), UNIT_MAX) };
    let takes_prefix = matches!(unit.split('/').next(), Some("s" | "B" | "FLOP" | "W" | "J" | "Hz"));
    let size = value.abs();
    if !takes_prefix || size == 0.0 || !size.is_finite() {
        return (1.0, "", unit);
    }
    let may = |factor: f64| match unit.as_str() {
        "s" => factor <= 1.0,                        // nobody says kiloseconds
        _ if unit.starts_with('B') => factor >= 1.0, // nor millibytes
        _ => true,
    };
    let mut fitting = PREFIXES.iter().filter(|&&(factor, _)| may(factor));
    // Half a unit in the third digit below, so that 999.6 µs reads 1.00 ms.
    let fits = |&&(factor, _): &&(f64, &str)| size >= factor * 0.9995;
    let (factor, prefix) = fitting.clone().find(fits).or(fitting.next_back()).copied().unwrap_or((1.0, ""));
    (factor, prefix, unit)
}

/// Three significant digits, no exponent for ordinary sizes.
pub(crate) fn significant(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        let sign = if value < 0.0 { "-" } else { "" };
        return if value.is_nan() { "NaN".to_owned() } else { format!("{sign}∞") };
    }
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}");
    }
    // The exponent of the rounded number, so that 9.996 becomes 10.0 and not 10.00.
    let exponent =
        format!("{size:.2e}").split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    format!("{value:.*}", usize::try_from(2 - exponent).unwrap_or(0))
}

/// Seconds of a whole judging.
pub(crate) fn seconds(value: f64) -> String {
    quantity(value, "s")
}

/// A score with one decimal, or a dash.
pub(crate) fn score(score: Option<f64>) -> String {
    score.map_or_else(|| "–".to_owned(), |score| format!("{score:.1}"))
}

/// `1 case`, `2 cases`.
pub(crate) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// A name from code as words: `rows_mixed` becomes `rows mixed`.
pub(crate) fn spoken(name: &str) -> String {
    name.replace('_', " ")
}

/// An interval wider than this says nothing: neither a difference nor a tie.
const TOO_WIDE: f64 = 1.5;

/// Ratio to the reference in words; inside the noise it is a tie, and where there is nothing but noise it is undecided.
pub(crate) fn of_reference(ratio: f64, interval: Option<[f64; 2]>) -> String {
    let shown = format!("{}×", significant(ratio));
    match interval {
        Some([low, high]) => {
            let interval = format!("[{}, {}]", significant(low), significant(high));
            if low <= 1.0 && 1.0 <= high && high > TOO_WIDE * low {
                format!("undecided ({shown} reference {interval})")
            } else if low <= 1.0 && 1.0 <= high {
                format!("tie ({shown} reference {interval})")
            } else {
                format!("{shown} reference {interval}")
            }
        }
        None => format!("{shown} reference"),
    }
}

/// The floor, and how much of it is reached: `floor 3.87 MB: 14 %`. Above 1 it is faster than was thought possible, and shown
/// as it is.
pub(crate) fn of_floor(floor: Option<f64>, unit: &str, share: f64) -> String {
    let percent = share * 100.0;
    let percent = if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") };
    match floor {
        _ if percent == "100 %" => "at its floor".to_owned(),
        Some(floor) => format!("floor {}: {percent}", quantity(floor, unit)),
        None => format!("{percent} of its floor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_carry_the_prefix_people_expect() {
        for (value, unit, shown) in [
            (1.234e-4, "s", "123 µs"),
            (9.996e-4, "s", "1.00 ms"),
            (4321.0, "s", "4321 s"),
            (3e-10, "s", "0.300 ns"),
            (12_345.0, "bytes", "12.3 kB"),
            (12.0, "bytes", "12.0 B"),
            (34.125, "bytes/token", "34.1 B/token"),
            (1.5e9, "bytes/s", "1.50 GB/s"),
            (2.0e12, "FLOP/s", "2.00 TFLOP/s"),
            (0.0, "s", "0 s"),
            (1.07, "", "1.07"),
            (1.07, "1", "1.07"),
            (3.0, "passes", "3.00 passes"),
        ] {
            assert_eq!(quantity(value, unit), shown, "{value} {unit}");
        }
    }

    #[test]
    fn a_unit_that_nobody_knows_is_harmless() {
        assert_eq!(quantity(2.0, "\u{202e}lines"), "2.00 \\u{202e}lines");
        assert_eq!(quantity(2.0, &"m".repeat(1000)).chars().count(), 5 + UNIT_MAX);
    }

    #[test]
    fn an_interval_shares_its_values_unit() {
        assert_eq!(quantity_within(1e-3, Some([9.7e-4, 1.02e-3]), "s"), "1.00 ms [0.970, 1.02]");
    }

    #[test]
    fn a_floor_is_told_beside_how_much_of_it_is_reached() {
        assert_eq!(of_floor(Some(3.87e6), "bytes", 0.1398), "floor 3.87 MB: 14 %");
        assert_eq!(of_floor(Some(9e-5), "s", 1.05), "floor 90.0 µs: 105 %");
        assert_eq!(of_floor(Some(1.0), "1", 0.997), "at its floor");
        assert_eq!(of_floor(None, "bytes", 0.0091), "0.9 % of its floor");
    }

    #[test]
    fn inside_the_noise_is_a_tie() {
        assert_eq!(of_reference(1.01, Some([0.97, 1.05])), "tie (1.01× reference [0.970, 1.05])");
        assert_eq!(of_reference(1.9, Some([1.85, 1.95])), "1.90× reference [1.85, 1.95]");
        assert_eq!(of_reference(0.5, None), "0.500× reference");
    }
}
