//! The figure: two panels over one another, both axes logarithmic. 360 units wide with type of 12 or more, so it
//! reads on a phone; curves are told apart by markers and dashes, so it reads without colour; it follows the reader's
//! choice of a light or a dark page.

use std::fmt::Write;

use crate::measure::Measured;

const WIDTH: f64 = 360.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 346.0;
const PANEL: f64 = 150.0;
const TOPS: [f64; 2] = [104.0, 322.0];
const FONT: &str = "font-family=\"sans-serif\" font-size=\"12\"";
const TITLE: &str = "Softmax + top-k time / reading time";

// Colours of Okabe and Ito, the lighter ones on dark pages.
const STYLE: &str = "<style>
.curve,.read,.probe{fill:none;stroke-width:1.5}.read{stroke-width:5}.probe{stroke-dasharray:5 3}
.page{fill:#fff}text{fill:#1a1a1a}.grid{stroke:#d0d0d0}.read{stroke:#b0b0b0}.probe{stroke:#1a1a1a}
.disc{stroke:#0072b2}.square{stroke:#d55e00}.triangle{stroke:#007a5a}.diamond{stroke:#8a4a7d}
.disc.marker{fill:#0072b2}.square.marker{fill:#d55e00}.triangle.marker{fill:#007a5a}.diamond.marker{fill:#8a4a7d}
@media(prefers-color-scheme:dark){
.page{fill:#0d1117}text{fill:#e6e6e6}.grid{stroke:#3a3f46}.read{stroke:#6a7078}.probe{stroke:#e6e6e6}
.disc{stroke:#56b4e9}.square{stroke:#e69f00}.triangle{stroke:#2fc79a}.diamond{stroke:#cc79a7}
.disc.marker{fill:#56b4e9}.square.marker{fill:#e69f00}.triangle.marker{fill:#2fc79a}.diamond.marker{fill:#cc79a7}
}
</style>
";

#[derive(Clone, Copy)]
enum Marker {
    Disc,
    Square,
    Triangle,
    Diamond,
}

impl Marker {
    /// One for each `k` of the first panel.
    const BY_K: [Marker; 3] = [Marker::Disc, Marker::Square, Marker::Triangle];

    fn class(self) -> &'static str {
        match self {
            Marker::Disc => "disc",
            Marker::Square => "square",
            Marker::Triangle => "triangle",
            Marker::Diamond => "diamond",
        }
    }

    fn path(self, (x, y): (f64, f64)) -> String {
        match self {
            Marker::Disc => format!("M{:.1} {y:.1}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z", x - 3.5),
            Marker::Square => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
            Marker::Triangle => format!("M{:.1} {:.1}h8l-4 -7.5z", x - 4.0, y + 3.5),
            Marker::Diamond => format!("M{:.1} {y:.1}l4 -4l4 4l-4 4z", x - 4.0),
        }
    }
}

/// One panel: the ranges of its axes, as exponents of 2.
struct Panel {
    top: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Panel {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let along = |value: f64, (low, high): (f64, f64)| (value.log2() - low) / (high - low);
        (LEFT + (RIGHT - LEFT) * along(x, self.x), self.top + PANEL * (1.0 - along(y, self.y)))
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let places = points.iter().map(|&point| self.place(point));
        let steps: Vec<String> = places.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        format!("M{}", steps.join("L"))
    }

    fn axes(&self, svg: &mut String, x_title: &str, x_labels: &[(f64, String)]) {
        for exponent in self.y.0.ceil() as i32..=self.y.1 as i32 {
            let value = f64::from(exponent).exp2();
            let (_, y) = self.place((1.0, value));
            line(svg, &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>"));
            text(svg, (LEFT - 6.0, y + 4.0), "end", &value.to_string());
        }
        let bottom = self.top + PANEL;
        for (value, label) in x_labels {
            text(svg, (self.place((*value, 1.0)).0, bottom + 16.0), "middle", label);
        }
        text(svg, ((LEFT + RIGHT) / 2.0, bottom + 33.0), "middle", x_title);
    }

    fn curve(&self, svg: &mut String, marker: Marker, points: &[(f64, f64)]) {
        let class = marker.class();
        line(svg, &format!("<path class=\"curve {class}\" d=\"{}\"/>", self.path(points)));
        let markers: String = points.iter().map(|&point| marker.path(self.place(point))).collect();
        line(svg, &format!("<path class=\"marker {class}\" d=\"{markers}\"/>"));
    }

    /// The time of reading, 1 by definition, and that of the probe.
    fn floors(&self, svg: &mut String, probe: &[(f64, f64)]) {
        let (_, y) = self.place((1.0, 1.0));
        line(svg, &format!("<path class=\"read\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>"));
        line(svg, &format!("<path class=\"probe\" d=\"{}\"/>", self.path(probe)));
    }
}

fn line(svg: &mut String, element: &str) {
    writeln!(svg, "{element}").expect("a String takes all");
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, content: &str) {
    line(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"));
}

/// 1024 is 1k, 1048576 is 1M.
fn short(value: usize) -> String {
    match value {
        1_048_576.. => format!("{}M", value >> 20),
        1024.. => format!("{}k", value >> 10),
        _ => value.to_string(),
    }
}

pub(crate) fn svg(measured: &Measured) -> String {
    let Measured { by_vocab, by_k, isa, threads } = measured;
    let ratios = by_vocab.iter().chain([by_k]).flat_map(|group| group.ours().map(|(_, ratio)| ratio));
    // To the next power of two, and a little below 1.
    let y = (-0.25, ratios.fold(2.0, f64::max).log2().ceil());
    let exponent = |value: usize| (value as f64).log2();
    let height = TOPS[1] + PANEL + 46.0;
    let mut svg = String::new();
    line(
        &mut svg,
        &format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" {FONT}>"),
    );
    line(&mut svg, &format!("<title>{TITLE}</title>"));
    line(&mut svg, &format!("<desc>{}</desc>", describe(measured)));
    svg.push_str(STYLE);
    line(&mut svg, &format!("<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>"));
    line(&mut svg, &format!("<text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{TITLE}</text>"));
    let plural = if *threads == 1 { "" } else { "s" };
    text(
        &mut svg,
        (10.0, 40.0),
        "start",
        &format!("f32, {isa}, {threads} thread{plural}, 16 MiB of logits out of cache"),
    );

    let (first, last) = (by_vocab.first().expect("measured"), by_vocab.last().expect("measured"));
    let panel = Panel { top: TOPS[0], x: (exponent(first.vocab), exponent(last.vocab)), y };
    let labels: Vec<_> =
        by_vocab.iter().step_by(2).map(|group| (group.vocab as f64, short(group.vocab))).collect();
    panel.axes(&mut svg, "vocabulary", &labels);
    let probe: Vec<_> = by_vocab.iter().map(|group| (group.vocab as f64, group.probe())).collect();
    panel.floors(&mut svg, &probe);
    let ks: Vec<usize> = first.ours().map(|(k, _)| k).collect();
    for (i, (marker, k)) in Marker::BY_K.into_iter().zip(ks).enumerate() {
        let ratio = |(vocab, ours): (usize, Vec<(usize, f64)>)| (vocab as f64, ours[i].1);
        let points: Vec<_> =
            by_vocab.iter().map(|group| ratio((group.vocab, group.ours().collect()))).collect();
        panel.curve(&mut svg, marker, &points);
        let x = 16.0 + 80.0 * i as f64;
        legend(&mut svg, (x, 62.0), &format!("curve {}", marker.class()), Some(marker), &format!("k = {k}"));
    }
    legend(&mut svg, (16.0, 82.0), "read", None, "read");
    legend(&mut svg, (96.0, 82.0), "probe", None, "read, exponentials, sum");

    let most = by_k.ours().map(|(k, _)| k).max().expect("measured");
    let panel = Panel { top: TOPS[1], x: (0.0, exponent(most)), y };
    let labels: Vec<_> = by_k.ours().step_by(2).map(|(k, _)| (k as f64, short(k))).collect();
    panel.axes(&mut svg, &format!("k, at a vocabulary of {}", by_k.vocab), &labels);
    panel.floors(&mut svg, &[(1.0, by_k.probe()), (most as f64, by_k.probe())]);
    let points: Vec<_> = by_k.ours().map(|(k, ratio)| (k as f64, ratio)).collect();
    panel.curve(&mut svg, Marker::Diamond, &points);
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, (x, y): (f64, f64), class: &str, marker: Option<Marker>, label: &str) {
    line(svg, &format!("<path class=\"{class}\" d=\"M{x:.1} {y:.1}h24\"/>"));
    if let Some(marker) = marker {
        line(
            svg,
            &format!("<path class=\"marker {}\" d=\"{}\"/>", marker.class(), marker.path((x + 12.0, y))),
        );
    }
    text(svg, (x + 30.0, y + 4.0), "start", label);
}

/// The figure in words, for those who cannot see it.
fn describe(measured: &Measured) -> String {
    let mut words = String::from("Times over that of reading alone. ");
    for group in &measured.by_vocab {
        let ours: Vec<String> = group.ours().map(|(k, ratio)| format!("{ratio:.2} at k = {k}")).collect();
        write!(
            words,
            "Vocabulary {}: {}; summing exponentials {:.2}. ",
            group.vocab,
            ours.join(", "),
            group.probe()
        )
        .expect("a String takes all");
    }
    let ours: Vec<String> = measured.by_k.ours().map(|(k, ratio)| format!("{ratio:.2} at k = {k}")).collect();
    write!(words, "Vocabulary {}: {}.", measured.by_k.vocab, ours.join(", ")).expect("a String takes all");
    words
}
