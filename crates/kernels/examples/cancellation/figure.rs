//! One-pass against two-pass variance of {0, 1, 2, 3, 4} + offset, whose true variance is 2, as numbers and as a figure.

use std::fmt::Write;

macro_rules! variances {
    ($one_pass:ident, $two_pass:ident, $scalar:ty) => {
        /// `E[x²] - E[x]²`
        pub(crate) fn $one_pass(values: &[$scalar]) -> $scalar {
            let n = values.len() as $scalar;
            let (mut sum, mut squares) = (0.0, 0.0);
            for &x in values {
                sum += x;
                squares += x * x;
            }
            squares / n - (sum / n) * (sum / n)
        }

        /// `E[(x - E[x])²]`
        pub(crate) fn $two_pass(values: &[$scalar]) -> $scalar {
            let n = values.len() as $scalar;
            let mean = values.iter().sum::<$scalar>() / n;
            values.iter().map(|x| (x - mean) * (x - mean)).sum::<$scalar>() / n
        }
    };
}

variances!(one_pass_f64, two_pass_f64, f64);
variances!(one_pass_f32, two_pass_f32, f32);

/// `10^exponent + {0, 1, 2, 3, 4}`, exact in f64 up to 15.
pub(crate) fn values_f64(exponent: i32) -> [f64; 5] {
    [0.0, 1.0, 2.0, 3.0, 4.0].map(|x| 10.0_f64.powi(exponent) + x)
}

/// The same in f32, exact up to 7.
pub(crate) fn values_f32(exponent: i32) -> [f32; 5] {
    values_f64(exponent).map(|x| x as f32)
}

struct Curve {
    label: &'static str,
    label_at: (f64, f64),
    dash: &'static str,
    marker: Marker,
    points: Vec<(i32, f64)>,
}

enum Marker {
    Disc,
    Ring,
    Square,
    Triangle,
}

fn curves() -> [Curve; 4] {
    let f64_points = |variance: fn(&[f64]) -> f64| (0..=14).map(|e| (e, variance(&values_f64(e)))).collect();
    let f32_points =
        |variance: fn(&[f32]) -> f32| (0..=7).map(|e| (e, f64::from(variance(&values_f32(e))))).collect();
    [
        Curve {
            label: "two-pass, f64",
            label_at: (9.3, 2.16),
            dash: "",
            marker: Marker::Disc,
            points: f64_points(two_pass_f64),
        },
        Curve {
            label: "two-pass, f32",
            label_at: (3.9, 2.16),
            dash: "",
            marker: Marker::Ring,
            points: f32_points(two_pass_f32),
        },
        Curve {
            label: "one-pass, f64",
            label_at: (9.5, 0.16),
            dash: "8 4",
            marker: Marker::Square,
            points: f64_points(one_pass_f64),
        },
        Curve {
            label: "one-pass, f32",
            label_at: (4.4, 0.16),
            dash: "2 4",
            marker: Marker::Triangle,
            points: f32_points(one_pass_f32),
        },
    ]
}

const LEFT: f64 = 44.0;
const TOP: f64 = 60.0;
const DECADE: f64 = 21.5;
const UNIT: f64 = 100.0;

/// Where an exponent and a variance lie. Values below the axis are drawn on its lower edge, with their number.
fn place(exponent: f64, variance: f64) -> (f64, f64) {
    (LEFT + DECADE * exponent, TOP + UNIT * (2.4 - variance.max(-0.3)))
}

/// The figure: 360 units wide with type of 12 or more, so it reads on a phone; told apart by dashes, markers and labels, so
/// it reads without colour.
pub(crate) fn svg() -> String {
    let mut svg = String::new();
    svg.push_str(concat!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 360 392\" font-family=\"sans-serif\" font-size=\"12\">\n",
        "<title>One-pass variance loses everything; two-pass does not</title>\n",
        "<desc>Variance of offset + {0, 1, 2, 3, 4}, truly 2, for offsets from 1 to 1e14. Two-pass gives 2 throughout. ",
        "One-pass gives 0 from 1e9 on in f64; in f32 it gives 0 from 1e4 on, and a negative number at 1e7.</desc>\n",
        "<rect width=\"360\" height=\"392\" fill=\"#fff\"/>\n",
        "<text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"bold\">Variance of offset + {0, 1, 2, 3, 4}</text>\n",
        "<text x=\"10\" y=\"42\">as computed; the true value is 2</text>\n",
    ));
    for variance in [0.0, 1.0, 2.0] {
        let ((left, y), (right, _)) = (place(0.0, variance), place(14.0, variance));
        writeln!(svg, "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ccc\"/>")
            .expect("a String takes all");
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{variance}</text>",
            left - 12.0,
            y + 4.0
        )
        .expect("a String takes all");
    }
    for exponent in (0..=14).step_by(2) {
        let (x, y) = place(f64::from(exponent), -0.3);
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">1e{exponent}</text>", y + 24.0)
            .expect("a String takes all");
    }
    let (x, y) = place(7.0, -0.3);
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">offset</text>", y + 46.0)
        .expect("a String takes all");
    for curve in curves() {
        draw(&mut svg, &curve);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, curve: &Curve) {
    let path: Vec<String> = curve
        .points
        .iter()
        .map(|&(exponent, variance)| {
            let (x, y) = place(f64::from(exponent), variance);
            format!("{x:.1} {y:.1}")
        })
        .collect();
    writeln!(
        svg,
        "<path d=\"M{}\" fill=\"none\" stroke=\"#000\" stroke-width=\"1.5\" stroke-dasharray=\"{}\"/>",
        path.join("L"),
        if curve.dash.is_empty() { "none" } else { curve.dash }
    )
    .expect("a String takes all");
    for &(exponent, variance) in &curve.points {
        let (x, y) = place(f64::from(exponent), variance);
        match curve.marker {
            Marker::Disc => writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"),
            Marker::Ring => {
                writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"none\" stroke=\"#000\"/>")
            }
            Marker::Square => {
                writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"#0072b2\"/>",
                    x - 4.0,
                    y - 4.0
                )
            }
            Marker::Triangle => writeln!(
                svg,
                "<path d=\"M{:.1} {:.1}h10l-5 -9z\" fill=\"#e69f00\" stroke=\"#000\"/>",
                x - 5.0,
                y + 4.0
            ),
        }
        .expect("a String takes all");
        if variance < 0.0 {
            writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{variance}</text>", x + 10.0, y + 4.0)
                .expect("a String takes all");
        }
    }
    let (x, y) = place(curve.label_at.0, curve.label_at.1);
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", curve.label).expect("a String takes all");
}
