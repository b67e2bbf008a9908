//! Errors against their budget: a row of points for each family.

use super::scale::{Log, power};
use super::{Picture, WIDTH};

/// One family's checks.
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    /// Errors in units of their budget. What is not finite is infinite.
    pub(crate) used: Vec<f64>,
    /// The largest, in words.
    pub(crate) worst: String,
}

const ROW: f64 = 26.0;
const TOP: f64 = 20.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 282.0;

/// Errors smaller than this are all drawn at the left end.
const LEAST: f64 = 1e-3;

/// What the errors may be at most.
const LIMIT: f64 = 1.0;

/// Within the budget a stroke, beyond it a cross; a right-hand arrow where there is no finite number.
pub(crate) fn strip(label: &str, rows: &[Row]) -> Option<String> {
    let values = || rows.iter().flat_map(|row| row.used.iter().copied());
    values().next()?;
    let finite = values().filter(|used| *used > LEAST);
    let axis = Log::around(finite.chain([LEAST, 10.0]), LEFT, RIGHT)?;
    let bottom = TOP + ROW * rows.len() as f64;
    let mut picture = Picture::new(bottom + 34.0, label);
    for (value, text) in axis.ticks(&power) {
        let x = axis.x(value);
        picture.line("grid", (x, TOP), (x, bottom));
        picture.text(x, bottom + 14.0, "middle", "small faint", &text);
    }
    let limit = axis.x(LIMIT);
    picture.line("limit", (limit, TOP - 4.0), (limit, bottom));
    picture.text(limit, TOP - 8.0, "middle", "small strong", "budget");
    picture.text(WIDTH, TOP - 8.0, "end", "small faint", "worst");
    for (index, row) in rows.iter().enumerate() {
        let middle = TOP + ROW * (index as f64 + 0.5);
        picture.text(0.0, middle + 4.0, "start", "small", row.name);
        let class = if row.used.iter().any(|used| !(*used <= LIMIT)) { "small strong" } else { "small" };
        picture.text(WIDTH, middle + 4.0, "end", class, &row.worst);
        points(&mut picture, axis, middle, &row.used);
    }
    picture.text(
        (LEFT + RIGHT) / 2.0,
        bottom + 29.0,
        "middle",
        "small faint",
        "error, in units of its budget",
    );
    Some(picture.end())
}

fn points(picture: &mut Picture, axis: Log, middle: f64, used: &[f64]) {
    let (within, beyond): (Vec<f64>, Vec<f64>) = used.iter().copied().partition(|used| *used <= LIMIT);
    let (beyond, endless): (Vec<f64>, Vec<f64>) = beyond.into_iter().partition(|used| used.is_finite());
    for (class, values, mark) in [
        ("within", &within, "m0-4v8"),
        ("beyond", &beyond, "m-3-3l6 6m0-6l-6 6"),
        ("endless", &endless, "m-3-4l6 4l-6 4z"),
    ] {
        if values.is_empty() {
            continue;
        }
        // Marks that would cover each other exactly are drawn once.
        let mut places: Vec<i64> = values.iter().map(|&used| (axis.x(used) * 2.0).round() as i64).collect();
        places.sort_unstable();
        places.dedup();
        let path: String =
            places.iter().map(|&place| format!("M{} {middle}{mark}", place as f64 / 2.0)).collect();
        picture.push(format_args!("<path class=\"{class}\" data-count=\"{}\" d=\"{path}\"/>", values.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_drawn_on_its_side_of_the_budget() {
        let row =
            Row { name: "basic", used: vec![0.5, 1.0, 1.5, 0.0, f64::INFINITY], worst: "∞".to_owned() };
        let svg = strip("errors", &[row]).unwrap();
        for expected in
            ["\"within\" data-count=\"3\"", "\"beyond\" data-count=\"1\"", "\"endless\" data-count=\"1\""]
        {
            assert!(svg.contains(expected), "{expected}: {svg}");
        }
        let path = svg.split("class=\"within\"").nth(1).unwrap().split("/>").next().unwrap();
        assert_eq!(path.matches('M').count(), 3, "{path}");
        assert!(svg.contains(">budget</text>") && svg.contains(">basic</text>") && svg.contains(">∞</text>"));
    }

    #[test]
    fn without_errors_there_is_no_picture() {
        assert!(strip("errors", &[]).is_none());
        assert!(strip("errors", &[Row { name: "basic", used: vec![], worst: String::new() }]).is_none());
    }
}
