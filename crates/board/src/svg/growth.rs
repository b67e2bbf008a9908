//! Time against size, both on logarithmic axes: what takes twice as long for twice the data rises as fast as the floor does.

use super::levels::Level;
use super::scale::Log;
use super::{Picture, WIDTH, width};

const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 236.0;

/// Height of the letters that name a workload, and of the legend's line.
const LETTERS: f64 = 12.0;

/// What is drawn on the axes, and how it is called.
#[derive(Clone, Copy)]
pub(crate) struct Axes<'a> {
    /// What the size counts.
    pub(crate) size: &'a str,
    /// Writes a size at a tick.
    pub(crate) count: &'a dyn Fn(f64) -> String,
    /// Writes an amount at a tick.
    pub(crate) amount: &'a dyn Fn(f64) -> String,
}

/// Workloads by size, the smallest first; `label` is read out.
pub(crate) fn growth(label: &str, sizes: &[(f64, Level)], axes: Axes<'_>) -> Option<String> {
    let values = sizes.iter().flat_map(|(_, level)| {
        let ends = level.interval.into_iter().flatten();
        [Some(level.value), level.floor, level.reference].into_iter().flatten().chain(ends)
    });
    let across = Log::around(sizes.iter().map(|(size, _)| *size), LEFT, RIGHT)?;
    let up = Log::around(values, 0.0, BOTTOM - TOP)?;
    let place = |size: f64, value: f64| (across.x(size), BOTTOM - up.x(value));
    let mut picture = Picture::new(BOTTOM + 38.0, label);
    for (size, text) in across.ticks(axes.count) {
        let x = across.x(size);
        picture.line("grid", (x, TOP), (x, BOTTOM));
        let inside = x.min(WIDTH - width(&text) / 2.0);
        picture.text(inside, BOTTOM + 18.0, "middle", "small faint", &text);
    }
    for (value, text) in up.ticks_upwards(axes.amount) {
        let y = BOTTOM - up.x(value);
        picture.line("grid", (LEFT, y), (RIGHT, y));
        picture.text(LEFT - 5.0, y + 4.0, "end", "small faint", &text);
    }
    picture.text((LEFT + RIGHT) / 2.0, BOTTOM + 34.0, "middle", "small faint", axes.size);
    let places = |of: &dyn Fn(&Level) -> Option<f64>| -> Vec<(f64, f64)> {
        sizes.iter().filter_map(|(size, level)| Some(place(*size, of(level)?))).collect()
    };
    let series = [
        ("floor", "floor", places(&|level| level.floor)),
        ("reference", "reference", places(&|level| level.reference)),
        ("own", "this submission", places(&|level| Some(level.value))),
    ];
    let mut left = 0.0;
    for (class, name, places) in series.iter().filter(|(.., places)| !places.is_empty()) {
        let middle = LETTERS - 4.0;
        line(&mut picture, class, &[(left, middle), (left + 30.0, middle)]);
        mark(&mut picture, class, (left + 15.0, middle));
        picture.text(left + 36.0, LETTERS, "start", "small strong", name);
        left += 36.0 + width(name) + 18.0;
        line(&mut picture, class, places);
    }
    for (size, level) in sizes {
        if let Some([low, high]) = level.interval {
            picture.line("range", place(*size, low), place(*size, high));
        }
    }
    for (class, _, places) in &series {
        for &place in places {
            mark(&mut picture, class, place);
        }
    }
    Some(picture.end())
}

fn line(picture: &mut Picture, class: &str, places: &[(f64, f64)]) {
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    picture.push(format_args!("<path class=\"line {class}\" d=\"M{}\"/>", path.join("L")));
}

fn mark(picture: &mut Picture, class: &str, (x, y): (f64, f64)) {
    match class {
        "floor" => picture
            .push(format_args!("<path class=\"mark\" data-mark=\"floor\" d=\"M{:.1} {y:.1}h12\"/>", x - 6.0)),
        "reference" => picture.push(format_args!(
            "<path class=\"mark hollow\" data-mark=\"reference\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5-5z\"/>",
            y - 5.0
        )),
        _ => picture.push(format_args!(
            "<circle class=\"dot\" data-mark=\"own\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size, its time, and the reference's.
    fn sizes(times: &[(f64, f64, Option<f64>)]) -> Vec<(f64, Level)> {
        let level = |value: f64, reference| Level {
            name: "2x3".to_owned(),
            value,
            interval: Some([0.9 * value, 1.1 * value]),
            floor: Some(value / 10.0),
            reference,
            shown: String::new(),
        };
        times.iter().map(|&(size, value, reference)| (size, level(value, reference))).collect()
    }

    fn drawn(sizes: &[(f64, Level)]) -> Option<String> {
        let number = |value: f64| value.to_string();
        growth("time & size", sizes, Axes { size: "rows <", count: &number, amount: &number })
    }

    /// The places of one kind of mark, but for the legend's, which is the first.
    fn places(svg: &str, mark: &str) -> Vec<(f64, f64)> {
        let number = |text: &str, key: &str| -> f64 {
            text.split_once(key).unwrap().1.split(['"', ' ', 'h', 'l']).next().unwrap().parse().unwrap()
        };
        let mark = format!("data-mark=\"{mark}\"");
        svg.split(&mark).skip(2).map(|rest| (number(rest, "cx=\""), number(rest, "cy=\""))).collect()
    }

    #[test]
    fn what_grows_with_the_size_lies_on_a_line_and_what_grows_faster_above_it() {
        let svg = drawn(&sizes(&[(1e3, 1e-3, None), (1e4, 1e-2, None), (1e5, 1e-1, None)])).unwrap();
        let even = places(&svg, "own");
        assert_eq!(even.len(), 3);
        let slope = |from: (f64, f64), to: (f64, f64)| (from.1 - to.1) / (to.0 - from.0);
        assert!((slope(even[0], even[1]) - slope(even[1], even[2])).abs() < 0.01, "{even:?}");
        let svg = drawn(&sizes(&[(1e3, 1e-3, None), (1e4, 1e-2, None), (1e5, 1.0, None)])).unwrap();
        let steep = places(&svg, "own");
        assert!(slope(steep[1], steep[2]) > 1.9 * slope(steep[0], steep[1]), "{steep:?}");
    }

    #[test]
    fn every_series_has_its_marks_and_what_there_is_none_of_is_not_named() {
        let svg = drawn(&sizes(&[(1.0, 1.0, Some(2.0)), (2.0, 2.0, None), (3.0, 3.0, Some(5.0))])).unwrap();
        for (mark, count) in [("own", 3), ("floor", 3), ("reference", 2)] {
            // One more in the legend.
            assert_eq!(svg.matches(&format!("data-mark=\"{mark}\"")).count(), count + 1, "{mark}");
        }
        assert_eq!(svg.matches("class=\"range\"").count(), 3);
        assert!(svg.contains(">rows &lt;</text>") && svg.contains("time &amp; size"), "{svg}");
        let svg = drawn(&sizes(&[(1.0, 1.0, None), (2.0, 2.0, None)])).unwrap();
        assert!(!svg.contains(">reference<") && svg.contains(">floor<"));
        assert!(drawn(&[]).is_none());
    }
}
