//! The figure: four panels over one another, of a token and cumulated, FLOPs and seconds, with a logarithmic axis. 360 units
//! wide with type of 12 or more, so it reads on a phone; the two curves are told apart by markers and dashes, so it reads
//! without colour; it follows the reader's choice of a light or a dark page.

use std::fmt::Write;

use crate::measure::{Generated, PROMPT, TOKENS};

const WIDTH: f64 = 360.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 346.0;
const TOP: f64 = 100.0;
const PANEL: f64 = 96.0;
/// From one panel's top to the next one's.
const PITCH: f64 = 142.0;
const FONT: &str = "font-family=\"sans-serif\" font-size=\"12\"";
const TITLE: &str = "100 tokens with and without a cache";

// Colours of Okabe and Ito, the lighter ones on dark pages.
const STYLE: &str = "<style>
.curve{fill:none;stroke-width:1.5}.square.curve{stroke-dasharray:5 3}
.page{fill:#fff}text{fill:#1a1a1a}.grid{stroke:#d0d0d0}
.disc{stroke:#0072b2}.square{stroke:#d55e00}.disc.marker{fill:#0072b2}.square.marker{fill:#d55e00}
@media(prefers-color-scheme:dark){
.page{fill:#0d1117}text{fill:#e6e6e6}.grid{stroke:#3a3f46}
.disc{stroke:#56b4e9}.square{stroke:#e69f00}.disc.marker{fill:#56b4e9}.square.marker{fill:#e69f00}
}
</style>
";

#[derive(Clone, Copy)]
enum Marker {
    /// With the cache.
    Disc,
    /// Without.
    Square,
}

impl Marker {
    fn class(self) -> &'static str {
        match self {
            Marker::Disc => "disc",
            Marker::Square => "square",
        }
    }

    fn path(self, (x, y): (f64, f64)) -> String {
        match self {
            Marker::Disc => format!("M{:.1} {y:.1}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z", x - 3.5),
            Marker::Square => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
        }
    }
}

pub(crate) fn svg(cached: &Generated, uncached: &Generated, threads: usize, machine: &str) -> String {
    let panels = [
        ("FLOPs of a token", cached.flops.clone(), uncached.flops.clone()),
        ("FLOPs so far", cached.cumulated_flops(), uncached.cumulated_flops()),
        ("seconds of a token", cached.seconds.clone(), uncached.seconds.clone()),
        ("seconds so far", cached.cumulated_seconds(), uncached.cumulated_seconds()),
    ];
    let notes = notes(threads, machine);
    let foot = TOP + PITCH * panels.len() as f64 + 8.0;
    let height = foot + 15.0 * notes.len() as f64;
    let mut svg = String::new();
    let open = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" {FONT}>");
    line(&mut svg, &open);
    line(&mut svg, &format!("<title>{TITLE}</title>"));
    line(&mut svg, &format!("<desc>{}</desc>", describe(&panels)));
    svg.push_str(STYLE);
    line(&mut svg, &format!("<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>"));
    line(&mut svg, &format!("<text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{TITLE}</text>"));
    text(
        &mut svg,
        (10.0, 40.0),
        "start",
        &format!("after a prompt of {PROMPT}; a tenth of SmolLM2-135M, f32"),
    );
    for (x, marker, label) in [(16.0, Marker::Disc, "with (1st: prompt)"), (190.0, Marker::Square, "without")]
    {
        let class = marker.class();
        line(&mut svg, &format!("<path class=\"curve {class}\" d=\"M{x} 58h24\"/>"));
        line(&mut svg, &format!("<path class=\"marker {class}\" d=\"{}\"/>", marker.path((x + 12.0, 58.0))));
        text(&mut svg, (x + 30.0, 62.0), "start", label);
    }
    for (i, (title, with, without)) in panels.iter().enumerate() {
        let top = TOP + PITCH * i as f64;
        let all = || with.iter().chain(without).copied();
        let low = all().fold(f64::INFINITY, f64::min).log10().floor();
        let high = all().fold(0.0, f64::max).log10().ceil();
        let panel = Panel { top, low, high };
        text(&mut svg, (10.0, top - 12.0), "start", title);
        panel.axes(&mut svg);
        panel.curve(&mut svg, Marker::Disc, with, &cached.measured, title.starts_with("sec"));
        panel.curve(&mut svg, Marker::Square, without, &uncached.measured, title.starts_with("sec"));
    }
    for (i, note) in notes.iter().enumerate() {
        text(&mut svg, (10.0, foot + 15.0 * i as f64), "start", note);
    }
    svg.push_str("</svg>\n");
    svg
}

/// What was counted and what measured, where, and by which command.
fn notes(threads: usize, machine: &str) -> Vec<String> {
    let plural = if threads == 1 { "" } else { "s" };
    let count = format!("{machine}, {threads} thread{plural}");
    vec![
        "Counted: multiplications and additions, each one, of".to_owned(),
        "projections, MLP, scores and values, last logits.".to_owned(),
        "Measured: with, all tokens, medians of five rounds;".to_owned(),
        "without, every eleventh, once, straight in between.".to_owned(),
        count,
        "cargo run --release -p tribunal-kernels".to_owned(),
        "  --example cached_decoding_figure".to_owned(),
    ]
}

fn describe(panels: &[(&str, Vec<f64>, Vec<f64>)]) -> String {
    let each = panels.iter().map(|(title, with, without)| {
        let ends =
            |values: &[f64]| format!("{:.3e}, {:.3e}, {:.3e}", values[0], values[1], values[TOKENS - 1]);
        format!("{title}, first, second and last token: with {}, without {}.", ends(with), ends(without))
    });
    each.collect::<Vec<_>>().join(" ")
}

/// One panel: the range of its axis, as exponents of 10.
struct Panel {
    top: f64,
    low: f64,
    high: f64,
}

impl Panel {
    fn place(&self, token: usize, value: f64) -> (f64, f64) {
        let x = LEFT + (RIGHT - LEFT) * token as f64 / (TOKENS - 1) as f64;
        (x, self.top + PANEL * (self.high - value.log10()) / (self.high - self.low))
    }

    fn axes(&self, svg: &mut String) {
        for exponent in self.low as i32..=self.high as i32 {
            let (_, y) = self.place(0, 10.0_f64.powi(exponent));
            line(svg, &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>"));
            text(svg, (LEFT - 6.0, y + 4.0), "end", &format!("1e{exponent}"));
        }
        for token in [1, 25, 50, 75, 100] {
            let (x, _) = self.place(token - 1, 1.0);
            text(svg, (x, self.top + PANEL + 16.0), "middle", &token.to_string());
        }
    }

    /// Markers are where something was measured, or on every eleventh of what was.
    fn curve(&self, svg: &mut String, marker: Marker, values: &[f64], measured: &[usize], timed: bool) {
        let class = marker.class();
        let places = values.iter().enumerate().map(|(token, &value)| self.place(token, value));
        let steps: Vec<String> = places.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        line(svg, &format!("<path class=\"curve {class}\" d=\"M{}\"/>", steps.join("L")));
        let marked = (0..TOKENS).step_by(11).filter(|token| !timed || measured.contains(token));
        let markers: String = marked.map(|token| marker.path(self.place(token, values[token]))).collect();
        line(svg, &format!("<path class=\"marker {class}\" d=\"{markers}\"/>"));
    }
}

fn line(svg: &mut String, element: &str) {
    writeln!(svg, "{element}").expect("a String takes all");
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, content: &str) {
    line(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"));
}
