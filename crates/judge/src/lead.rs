//! What a wrong answer points to, in words.

/// A defect that would explain a wrong answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Lead {
    /// The suspect's name.
    pub suspect: &'static str,
    /// A sentence on it, without capital and full stop.
    pub says: String,
}

/// A number of budgets, as people say it.
pub fn budgets(used: f64) -> String {
    match used {
        _ if used.is_infinite() => "infinitely many budgets".to_owned(),
        _ if used < 1e3 => format!("{} budgets", shorten(used)),
        _ => format!("{used:.1e} budgets"),
    }
}

/// Two or three digits of a number.
pub fn shorten(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(0.01..1e5).contains(&size) => format!("{value:.1e}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A value for people: plain digits where they are short, an exponent elsewhere.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if !value.is_finite() || size == 0.0 => value.to_string(),
        size if (1e-3..1e6).contains(&size) => format!("{value:.7}"),
        _ => format!("{value:e}"),
    }
}

/// A list of rows for people: the first few and how many more.
pub fn some_rows(rows: &[usize]) -> String {
    let shown: Vec<String> = rows.iter().take(3).map(ToString::to_string).collect();
    let more = rows.len().saturating_sub(3);
    let noun = if rows.len() == 1 { "row" } else { "rows" };
    if more > 0 {
        format!("{noun} {} and {more} more", shown.join(", "))
    } else {
        format!("{noun} {}", shown.join(", "))
    }
}
