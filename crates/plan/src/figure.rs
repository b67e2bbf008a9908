//! Context against the bytes of its cache, as SVG.

use std::fmt::Write;

use crate::format::KvFormat;
use crate::plan::Plan;
use crate::units::{gb, tokens, whole};

/// Contexts from 2^10 to 2^20.
const DOUBLINGS: std::ops::RangeInclusive<u32> = 10..=20;

/// Sides of the whole and of the part with the lines.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 400.0;

/// Foreground, grid and the device's colour follow the reader's scheme; lines differ by their dashes and are named at their ends.
const STYLE: &str = "<style>
text { font: 12px sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: bold }
.page { fill: #ffffff }
.grid { stroke: #d0d7de; fill: none }
.line { stroke: #1f2328; stroke-width: 1.8; fill: none }
.memory { stroke: #0969da; stroke-width: 2; fill: none }
.memory-text { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.page { fill: #0d1117 }
.grid { stroke: #30363d }
.line { stroke: #e6edf3 }
.memory { stroke: #58a6ff }
.memory-text { fill: #58a6ff }
}
</style>
";

/// The caches of a batch by context, a line per format, with the device's memory and what is left of it for the cache.
///
/// Both axes are logarithmic: contexts from 1k to 1M tokens, bytes in units of 1e9.
pub fn svg(plan: &Plan<'_>) -> String {
    let batch = plan.settings.batch_sequences;
    let memory = plan.memory(plan.settings.context_tokens, batch);
    let lines: Vec<Line> = KvFormat::SIZES.map(|format| Line::of(plan, format)).into();
    let (name, device) = (escape(&plan.model.name), escape(&plan.device.title));
    let sequences = if batch == 1 { "1 sequence".to_owned() } else { format!("{} sequences", whole(batch)) };
    let axis = Axis::around(&lines, memory.device_bytes as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>Caches of {name} by context, on {device}</title>\n<desc>{}</desc>\n{STYLE}\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text class=\"title\" x=\"16\" y=\"24\">Caches of {name}, {sequences}</text>\n\
         <text x=\"16\" y=\"44\">GB by context; {device}, {} weights</text>\n",
        description(plan, &lines, memory.left_for_cache_bytes),
        plan.settings.weight_format.name(),
    );
    grid(&mut svg, axis);
    for line in &lines {
        line.draw(&mut svg, axis);
    }
    let device_gb = gb(memory.device_bytes as f64);
    level(&mut svg, axis, memory.device_bytes as f64, &format!("the device's {device_gb} GB"), "none");
    if memory.left_for_cache_bytes > 0 {
        let left = memory.left_for_cache_bytes as f64;
        level(&mut svg, axis, left, &format!("{} GB left for the cache", gb(left)), "10 3 2 3");
    }
    svg + "</svg>\n"
}

/// A format's bytes at each context.
struct Line {
    format: KvFormat,
    points: Vec<(u64, f64)>,
}

impl Line {
    fn of(plan: &Plan<'_>, format: KvFormat) -> Self {
        let plan = plan.with(|settings| settings.kv_format = format);
        let batch = plan.settings.batch_sequences as f64;
        let point = |doublings| {
            let context = 1u64 << doublings;
            (context, plan.sequence_bytes(context) as f64 * batch)
        };
        Self { format, points: DOUBLINGS.map(point).collect() }
    }

    fn end(&self) -> f64 {
        self.points[self.points.len() - 1].1
    }

    fn draw(&self, svg: &mut String, axis: Axis) {
        let path: Vec<String> = self
            .points
            .iter()
            .map(|&(context, bytes)| format!("{:.1} {:.1}", x(context), axis.y(bytes)))
            .collect();
        let dashes = match self.format {
            KvFormat::F32 => "12 4",
            KvFormat::F16 | KvFormat::Bf16 => "none",
            KvFormat::Int8 => "6 4",
            KvFormat::Int4 => "2 3",
        };
        push(svg, &format!("<path class=\"line\" stroke-dasharray=\"{dashes}\" d=\"M{}\"/>", path.join("L")));
        let y = axis.y(self.end()) + 4.0;
        push(svg, &format!("<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", RIGHT + 8.0, self.format.name()));
    }
}

/// Powers of ten between which the bytes lie.
#[derive(Clone, Copy)]
struct Axis {
    low: i32,
    high: i32,
}

impl Axis {
    fn around(lines: &[Line], device: f64) -> Self {
        let bytes =
            || lines.iter().flat_map(|line| line.points.iter().map(|&(_, bytes)| bytes)).chain([device]);
        let low = bytes().fold(f64::INFINITY, f64::min).log10().floor() as i32;
        let high = bytes().fold(0.0, f64::max).log10().ceil() as i32;
        Self { low, high: high.max(low + 1) }
    }

    fn y(self, bytes: f64) -> f64 {
        let share = (bytes.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        BOTTOM - share * (BOTTOM - TOP)
    }
}

fn x(context: u64) -> f64 {
    let (first, last) = (f64::from(*DOUBLINGS.start()), f64::from(*DOUBLINGS.end()));
    LEFT + ((context as f64).log2() - first) / (last - first) * (RIGHT - LEFT)
}

fn grid(svg: &mut String, axis: Axis) {
    for power in axis.low..=axis.high {
        let y = axis.y(10f64.powi(power));
        push(svg, &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>"));
        let label = decade(power);
        push(
            svg,
            &format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, y + 4.0),
        );
    }
    for context in DOUBLINGS.map(|doublings| 1u64 << doublings) {
        let x = x(context);
        let label = tokens(context);
        push(svg, &format!("<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>"));
        let y = BOTTOM + 20.0;
        push(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>"));
    }
    let (x, y) = ((LEFT + RIGHT) / 2.0, BOTTOM + 44.0);
    push(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">context, tokens</text>"));
}

/// A power of ten of bytes in units of 1e9, written out.
fn decade(power: i32) -> String {
    let exponent = power - 9;
    match usize::try_from(exponent) {
        Ok(zeros) => whole(10u64.saturating_pow(zeros as u32)),
        Err(_) => format!("{:.*}", exponent.unsigned_abs() as usize, 10f64.powi(exponent)),
    }
}

fn level(svg: &mut String, axis: Axis, bytes: f64, text: &str, dashes: &str) {
    if bytes < 10f64.powi(axis.low) {
        return;
    }
    let y = axis.y(bytes);
    // The device's own line is named above it, what is left below: they are often near.
    let offset = if dashes == "none" { -5.0 } else { 14.0 };
    push(
        svg,
        &format!("<path class=\"memory\" stroke-dasharray=\"{dashes}\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>"),
    );
    let (x, y) = (LEFT + 6.0, y + offset);
    push(svg, &format!("<text class=\"memory-text\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"));
}

/// The figure in words, for those who cannot see it.
fn description(plan: &Plan<'_>, lines: &[Line], left: u64) -> String {
    let mut text = format!("{} GB are left for the cache.", gb(left as f64));
    for line in lines {
        let longest = plan
            .with(|settings| settings.kv_format = line.format)
            .longest_context(plan.settings.batch_sequences);
        let _ = write!(text, " In {}, {} GB at 1M tokens", line.format.name(), gb(line.end()));
        text += &match longest {
            0 => "; no context fits.".to_owned(),
            crate::CONTEXT_MAX => "; any context fits.".to_owned(),
            longest => format!("; {} tokens fit.", whole(longest)),
        };
    }
    text
}

fn push(svg: &mut String, element: &str) {
    svg.push_str(element);
    svg.push('\n');
}

/// Names come from file systems and command lines.
fn escape(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Model, Settings};

    fn figure(model: &str, device: &str) -> String {
        let (model, device) = (Model::find(model).expect("known"), Device::find(device).expect("known"));
        svg(&Plan::new(model, device, Settings::default()).expect("in range"))
    }

    #[test]
    fn every_format_has_a_line_and_a_name() {
        for model in Model::known() {
            let svg = figure(&model.name, "h100");
            assert_eq!(svg.matches("class=\"line\"").count(), 4, "{}", model.name);
            for format in KvFormat::SIZES {
                assert!(svg.contains(&format!(">{}</text>", format.name())));
            }
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{}", model.name);
        }
    }

    #[test]
    fn the_description_tells_the_longest_contexts() {
        let model = Model::find("llama-3-8b").expect("known");
        let device = Device::find("h100").expect("known");
        let plan = Plan::new(model, device, Settings::default()).expect("in range");
        let longest = whole(plan.longest_context(1));
        assert!(svg(&plan).contains(&format!("In bf16, 137 GB at 1M tokens; {longest} tokens fit.")));
    }

    #[test]
    fn names_cannot_break_out() {
        let model =
            Model { name: "<script>&".to_owned(), ..Model::find("llama-3-8b").expect("known").clone() };
        let device = Device::find("h100").expect("known");
        let svg = svg(&Plan::new(&model, device, Settings::default()).expect("in range"));
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;&amp;"));
    }

    #[test]
    fn decades_are_written_out() {
        assert_eq!([6, 8, 9, 12].map(decade), ["0.001", "0.1", "1", "1,000"]);
    }
}
