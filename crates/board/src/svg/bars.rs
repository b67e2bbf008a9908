//! Shares of a hundred: a verdict's dimensions, and a score with its interval.

use super::{Picture, WIDTH};

/// One bar.
pub(crate) struct Bar {
    /// What it is.
    pub(crate) name: &'static str,
    /// 0 to 100; none where it was not assessed.
    pub(crate) score: Option<f64>,
    /// What it counts for.
    pub(crate) weight: f64,
}

const ROW: f64 = 24.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 268.0;

/// The dimensions, one below the other.
pub(crate) fn bars(label: &str, bars: &[Bar]) -> String {
    let mut picture = Picture::new(ROW * bars.len() as f64 + 4.0, label);
    for (index, bar) in bars.iter().enumerate() {
        let top = ROW * index as f64 + 5.0;
        let base = top + 12.0;
        picture.text(0.0, base, "start", "small", bar.name);
        picture.push(format_args!(
            "<rect class=\"{}\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"15\" rx=\"3\"/>",
            if bar.score.is_some() { "track" } else { "absent" },
            RIGHT - LEFT
        ));
        match bar.score {
            Some(score) => {
                let width = score.clamp(0.0, 100.0) / 100.0 * (RIGHT - LEFT);
                picture.push(format_args!(
                    "<rect class=\"fill\" data-score=\"{score:.1}\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"15\" rx=\"3\"/>"
                ));
                picture.text(RIGHT + 44.0, base, "end", "small strong", &format!("{score:.1}"));
            }
            None => picture.text((LEFT + RIGHT) / 2.0, base, "middle", "small faint", "not assessed"),
        }
        picture.text(WIDTH, base, "end", "small faint", &format!("×{}", bar.weight));
    }
    picture.end()
}

/// A score and its interval on a line from 0 to 100, small enough for a table's cell.
pub(crate) fn whisker(score: f64, interval: Option<[f64; 2]>) -> String {
    let x = |value: f64| 4.0 + 0.92 * value.clamp(0.0, 100.0);
    let mut svg = "<svg class=\"whisker\" viewBox=\"0 0 100 14\" aria-hidden=\"true\">\
        <path class=\"grid\" d=\"M4 7H96M4 4V10M96 4V10\"/>"
        .to_owned();
    if let Some([low, high]) = interval {
        svg += &format!("<path class=\"range\" d=\"M{:.1} 7H{:.1}\"/>", x(low), x(high));
    }
    svg + &format!("<circle class=\"dot\" cx=\"{:.1}\" cy=\"7\" r=\"3.2\"/></svg>", x(score))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_scores_are_high() {
        let svg = bars(
            "dimensions",
            &[
                Bar { name: "correctness", score: Some(50.0), weight: 0.35 },
                Bar { name: "tests", score: None, weight: 0.05 },
            ],
        );
        assert!(svg.contains("data-score=\"50.0\" x=\"84\" y=\"5.0\" width=\"92.0\""), "{svg}");
        assert_eq!(svg.matches("class=\"fill\"").count(), 1);
        assert!(svg.contains(">not assessed<") && svg.contains(">×0.05<"));
    }

    #[test]
    fn a_whisker_stays_in_its_cell() {
        let svg = whisker(120.0, Some([-5.0, 50.0]));
        assert!(svg.contains("M4.0 7H50.0") && svg.contains("cx=\"96.0\""), "{svg}");
    }
}
