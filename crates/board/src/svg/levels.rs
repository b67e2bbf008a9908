//! Measurements against what is possible and what the reference takes: size downwards, the amount to the right.

use super::scale::Log;
use super::{Picture, WIDTH, width};

/// One workload.
pub(crate) struct Level {
    /// Its name. Cleaned, not escaped.
    pub(crate) name: String,
    /// The median.
    pub(crate) value: f64,
    /// Around it.
    pub(crate) interval: Option<[f64; 2]>,
    /// The least possible.
    pub(crate) floor: Option<f64>,
    /// What the reference takes.
    pub(crate) reference: Option<f64>,
    /// The value in words.
    pub(crate) shown: String,
}

const ROW: f64 = 38.0;
const LEFT: f64 = 8.0;
const RIGHT: f64 = WIDTH - 64.0;

/// Height of a label above the rows: each has a line of its own, so that none can cover another.
const LABEL: f64 = 14.0;

/// The rows in the order given, of one thing at several sizes if they are `joined`; `label` is read out, `amount`
/// writes a tick.
pub(crate) fn levels(
    label: &str,
    rows: &[Level],
    joined: bool,
    amount: &dyn Fn(f64) -> String,
) -> Option<String> {
    let values = rows.iter().flat_map(|row| {
        let ends = row.interval.into_iter().flatten();
        [Some(row.value), row.floor, row.reference].into_iter().flatten().chain(ends)
    });
    let axis = Log::around(values, LEFT, RIGHT)?;
    let series: [(&str, &str, Vec<Option<f64>>); 3] = [
        ("floor", "floor", rows.iter().map(|row| row.floor).collect()),
        ("reference", "reference", rows.iter().map(|row| row.reference).collect()),
        ("own", "this submission", rows.iter().map(|row| Some(row.value)).collect()),
    ];
    let series: Vec<_> =
        series.into_iter().filter(|(.., values)| values.iter().any(Option::is_some)).collect();
    let top = LABEL * series.len() as f64 + 6.0;
    let bottom = top + ROW * rows.len() as f64;
    let mut picture = Picture::new(bottom + 18.0, label);
    for (value, text) in axis.ticks(amount) {
        let x = axis.x(value);
        picture.line("grid", (x, top), (x, bottom));
        // At the left end a label is pushed inside.
        picture.text(x.max(width(&text) / 2.0), bottom + 14.0, "middle", "small faint", &text);
    }
    for (index, (class, name, values)) in series.iter().enumerate() {
        let label = LABEL * (index as f64 + 1.0);
        draw(&mut picture, &places(axis, top, values), joined, label, class, name);
    }
    for (index, row) in rows.iter().enumerate() {
        let (x, y) = (axis.x(row.value), middle(top, index));
        if let Some([low, high]) = row.interval {
            picture.line("range", (axis.x(low), y), (axis.x(high), y));
        }
        picture.push(format_args!(
            "<circle class=\"dot\" data-value=\"{:e}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>",
            row.value
        ));
    }
    // Last, so that no line crosses a letter.
    for (index, row) in rows.iter().enumerate() {
        let y = middle(top, index);
        picture.text(0.0, y - 14.0, "start", "small halo", &row.name);
        picture.text(WIDTH, y + 4.0, "end", "small strong", &row.shown);
    }
    Some(picture.end())
}

fn middle(top: f64, index: usize) -> f64 {
    top + ROW * (index as f64 + 0.5) + 8.0
}

/// Where the marks stand, one in each row that has one.
fn places(axis: Log, top: f64, values: &[Option<f64>]) -> Vec<(f64, f64)> {
    let place = |(index, value): (usize, &Option<f64>)| Some((axis.x((*value)?), middle(top, index)));
    values.iter().enumerate().filter_map(place).collect()
}

/// A line from its label through its marks, or to the first of them.
fn draw(picture: &mut Picture, places: &[(f64, f64)], joined: bool, label: f64, class: &str, name: &str) {
    let Some(&(x, _)) = places.first() else { return };
    let drawn = if joined { places } else { &places[..1] };
    let path: String = drawn.iter().map(|(x, y)| format!("L{x:.1} {y:.1}")).collect();
    picture.push(format_args!("<path class=\"line {class}\" d=\"M{x:.1} {:.1}{path}\"/>", label - 2.0));
    for (x, y) in places {
        match class {
            "floor" => picture.push(format_args!(
                "<path class=\"mark\" data-mark=\"floor\" d=\"M{x:.1} {:.1}v14\"/>",
                y - 7.0
            )),
            "reference" => picture.push(format_args!(
                "<path class=\"mark hollow\" data-mark=\"reference\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5-5z\"/>",
                y - 5.0
            )),
            _ => {}
        }
    }
    // Beside the line's upper end, on the side that has room.
    let (x, place) = if x + 5.0 + width(name) > WIDTH { (x - 5.0, "end") } else { (x + 5.0, "start") };
    picture.text(x, label, place, "small strong halo", name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(value: f64, floor: Option<f64>, reference: Option<f64>) -> Level {
        Level {
            name: "2x<3".to_owned(),
            value,
            interval: Some([0.9 * value, 1.1 * value]),
            floor,
            reference,
            shown: format!("{value} s"),
        }
    }

    #[test]
    fn every_workload_has_its_marks() {
        let rows = [level(3e-3, Some(1e-3), Some(2e-3)), level(3e-2, Some(1e-2), None)];
        let svg = levels("time", &rows, true, &|value| value.to_string()).unwrap();
        for (mark, count) in [("data-value", 2), ("data-mark=\"floor\"", 2), ("data-mark=\"reference\"", 1)] {
            assert_eq!(svg.matches(mark).count(), count, "{mark}");
        }
        assert!(svg.contains("data-value=\"3e-3\"") && svg.contains(">2x&lt;3</text>"), "{svg}");
        for name in ["floor", "reference", "this submission"] {
            assert!(svg.contains(&format!(">{name}</text>")), "{name}");
        }
    }

    #[test]
    fn what_there_is_none_of_is_not_named() {
        let svg = levels("time", &[level(1.0, None, None)], true, &|value| value.to_string()).unwrap();
        assert!(!svg.contains(">reference<") && !svg.contains(">floor<"));
        let apart = [level(1.0, Some(0.5), None), level(3.0, Some(0.5), None)];
        let lines = |joined| {
            levels("memory", &apart, joined, &|value| value.to_string()).unwrap().matches('L').count()
        };
        assert_eq!((lines(true) - lines(false), lines(false)), (2, lines(true) - 2));
        assert!(levels("time", &[], true, &|value| value.to_string()).is_none());
    }
}
