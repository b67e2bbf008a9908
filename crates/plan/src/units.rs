//! Numbers as people read them.

/// Bytes in units of 1e9, to about three digits.
pub(crate) fn gb(bytes: f64) -> String {
    let gb = bytes / 1e9;
    if gb >= 100.0 {
        whole(gb.round() as u64)
    } else if gb >= 10.0 {
        format!("{gb:.1}")
    } else {
        format!("{gb:.2}")
    }
}

/// A whole number with commas between thousands.
pub(crate) fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number to about three digits.
pub(crate) fn rough(number: f64) -> String {
    match number {
        n if n >= 99.95 => whole(n.round() as u64),
        n if n >= 9.995 => format!("{n:.1}"),
        n if n >= 0.0995 => format!("{n:.2}"),
        n => format!("{n:.2e}"),
    }
}

/// Tokens: `128k` and `1M` are powers of two, anything else is written out.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{}M", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{}k", n >> 10),
        n => whole(n),
    }
}

/// Bytes in the largest binary unit in which they are at least 1.
pub(crate) fn binary(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{text} {}", units[unit])
}

/// Seconds in a unit that suits them.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s >= 1.0 => format!("{} s", rough(s)),
        s if s >= 1e-3 => format!("{} ms", rough(s * 1e3)),
        s => format!("{} µs", rough(s * 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(["1,234,567", "999", "1,000"], [whole(1_234_567), whole(999), whole(1000)]);
        assert_eq!(["128k", "1M", "8,000", "1,000,000"], [1 << 17, 1 << 20, 8000, 1_000_000].map(tokens));
        assert_eq!(["128 KiB", "68.6 KiB", "2 GiB", "3 B"], [131_072, 70_272, 2 << 30, 3].map(binary));
        assert_eq!(["1.07", "13.5", "1,342"], [1.0737e9, 13.4768e9, 1342.1e9].map(gb));
        assert_eq!(["1,398", "63.2", "0.45", "1.00e-3"], [1398.2, 63.24, 0.45, 0.001].map(rough));
        assert_eq!(["1.50 s", "15.8 ms", "2.00 µs"], [1.5, 0.01581, 2e-6].map(seconds));
    }
}
