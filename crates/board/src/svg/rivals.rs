//! Contestants side by side, dimension by dimension.

use super::{Picture, WIDTH};

/// A dimension, and the score of each in it.
pub(crate) struct Rivalry {
    /// The dimension.
    pub(crate) name: &'static str,
    /// 0 to 100 each; none where it was not assessed.
    pub(crate) scores: Vec<Option<f64>>,
}

const BAR: f64 = 12.0;
const GAP: f64 = 8.0;
const LEFT: f64 = 104.0;
const RIGHT: f64 = 320.0;

/// The sign of a contestant: a letter, so that nothing hangs on a colour.
pub(crate) fn sign(who: usize) -> String {
    let letter = char::from(b'A' + (who % 26) as u8);
    if who < 26 { letter.to_string() } else { format!("{letter}{}", who / 26) }
}

/// A bar for each contestant in each dimension that somebody was assessed in.
pub(crate) fn rivals(label: &str, rivalries: &[Rivalry]) -> String {
    let heights = rivalries.iter().map(|rivalry| rivalry.scores.len() as f64 * BAR + GAP);
    let mut picture = Picture::new(heights.sum::<f64>(), label);
    let mut top = 0.0;
    for rivalry in rivalries {
        let middle = top + rivalry.scores.len() as f64 * BAR / 2.0 + 4.0;
        picture.text(0.0, middle, "start", "small", rivalry.name);
        for (who, score) in rivalry.scores.iter().enumerate() {
            let base = top + BAR - 2.5;
            picture.text(LEFT - 6.0, base, "end", "small faint", &sign(who));
            let class = if score.is_some() { "track" } else { "absent" };
            picture.push(format_args!(
                "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
                RIGHT - LEFT,
                BAR - 2.0
            ));
            if let Some(score) = score {
                let width = score.clamp(0.0, 100.0) / 100.0 * (RIGHT - LEFT);
                picture.push(format_args!(
                    "<rect class=\"fill\" data-score=\"{score:.1}\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"2\"/>",
                    BAR - 2.0
                ));
                picture.text(WIDTH, base, "end", "small", &format!("{score:.1}"));
            }
            top += BAR;
        }
        top += GAP;
    }
    picture.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_has_a_bar_of_its_length() {
        let svg = rivals(
            "scores",
            &[
                Rivalry { name: "correctness", scores: vec![Some(100.0), Some(25.0)] },
                Rivalry { name: "memory", scores: vec![None, Some(50.0)] },
            ],
        );
        for (score, width) in [("100.0", "216.0"), ("25.0", "54.0"), ("50.0", "108.0")] {
            assert!(svg.contains(&format!("data-score=\"{score}\"")), "{svg}");
            assert!(svg.contains(&format!("width=\"{width}\"")), "{svg}");
        }
        assert_eq!((svg.matches("class=\"fill\"").count(), svg.matches("class=\"absent\"").count()), (3, 1));
        assert_eq!((sign(0), sign(25), sign(26)), ("A".to_owned(), "Z".to_owned(), "A1".to_owned()));
    }
}
