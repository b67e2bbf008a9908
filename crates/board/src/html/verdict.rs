//! One verdict: what was ruled, what it rests on.

use std::collections::BTreeMap;

use askama::Template;
use tribunal_judge::{Dimension, Family, Finding, Measurement, Outcome, Ruling, SourceFile, Verdict};

use super::{Links, text};
use crate::failures::{self, Kind};
use crate::summary::{Held, Summary, is_of_a_case};
use crate::svg::{self, Bar, Level};
use crate::{phrases, words};

/// Kinds of failure that are shown, and findings that decide nothing.
const KINDS_MAX: usize = 30;

/// Lines shown before and after one that a finding names.
const CONTEXT: usize = 3;

/// Times are drawn against sizes where there are so many.
const SIZES_MIN: usize = 3;

const TIME: &str = "Median with its 95 % interval; the smallest workload first. The floor is what moving the bytes takes on this machine.";

const GROWTH: &str = "Medians with their 95 % intervals, on logarithmic axes: what grows with the size alone runs along the floor, which is what moving the bytes takes on this machine. Workloads of one size may differ in shape; the table below names each.";

const MEMORY: &str = "The floor is the least that the contract allows.";

/// The sign that an outcome has beside its name.
pub fn sign(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Accepted => "✓",
        Ruling::Rejected => "✗",
        Ruling::Disqualified => "⊘",
        Ruling::Infrastructure => "?",
    }
}

/// What is said of a verdict in a line.
pub(super) struct Headline {
    pub(super) name: String,
    pub(super) challenge: String,
    pub(super) language: String,
    pub(super) sign: &'static str,
    pub(super) outcome: &'static str,
    pub(super) score: String,
    pub(super) interval: String,
    pub(super) capped: String,
}

impl Headline {
    pub(super) fn of(summary: &Summary) -> Self {
        let submission = &summary.submission;
        let interval = summary.interval().filter(|_| summary.score.is_some());
        Self {
            name: text(&submission.name),
            challenge: text(&submission.challenge),
            language: text(&submission.language),
            sign: sign(summary.outcome),
            outcome: summary.outcome.name(),
            score: words::score(summary.score),
            interval: interval.map_or(String::new(), |[low, high]| format!("{low:.1}–{high:.1}")),
            capped: summary.capped_from.map_or(String::new(), |mean| format!("{mean:.1}")),
        }
    }
}

#[derive(Template)]
#[template(path = "headline.html")]
struct Opening<'a> {
    level: u8,
    headline: &'a Headline,
}

#[derive(Template)]
#[template(path = "verdict.html")]
struct Body {
    level: u8,
    dimensions: String,
    kinds: Vec<KindView>,
    failures: String,
    more_kinds: usize,
    undecided: Vec<Undecided>,
    errors: Option<String>,
    families: Vec<FamilyView>,
    charts: Vec<Chart>,
    measurements: Vec<[String; 4]>,
    requirements: Vec<(&'static str, &'static str, String)>,
    coverage: Option<(String, Vec<String>)>,
    omissions: Vec<String>,
    provenance: Vec<String>,
    excerpts: Vec<Excerpt>,
}

/// Findings that decide nothing: their title, ids with messages, and how many more there are.
type Undecided = (&'static str, Vec<(String, String)>, usize);

struct Chart {
    title: &'static str,
    svg: String,
    caption: &'static str,
}

struct KindView {
    gravity: &'static str,
    title: String,
    fields: String,
    message: String,
    extent: String,
    worst: String,
    smallest: String,
    replay: String,
}

struct FamilyView {
    name: &'static str,
    cases: usize,
    held: usize,
    failed: usize,
    undecided: usize,
    worst: String,
}

/// Lines of a source file around one that a finding names.
struct Excerpt {
    title: String,
    link: Option<String>,
    message: String,
    /// Number, text, whether it is the one.
    lines: Vec<(usize, String, bool)>,
}

/// Name, outcome and score.
pub(super) fn opening(headline: &Headline, level: u8) -> String {
    Opening { level, headline }.render().expect("a template over strings")
}

/// A verdict without its headline. Of `sources`, which may be empty, the lines that findings name are shown; `level` is that of the
/// sections' headings.
pub fn body(verdict: &Verdict, summary: &Summary, sources: &[SourceFile], links: Links, level: u8) -> String {
    let kinds = failures::kinds(verdict);
    let used = used(verdict);
    let provenance = phrases::provenance(verdict).iter().map(|line| text(line)).collect();
    Body {
        level,
        dimensions: dimensions(verdict),
        failures: phrases::failures(verdict, &kinds),
        more_kinds: kinds.len().saturating_sub(KINDS_MAX),
        kinds: kinds.iter().take(KINDS_MAX).map(kind).collect(),
        undecided: undecided(verdict),
        errors: errors(&used),
        families: families(summary, &used),
        charts: charts(verdict),
        measurements: verdict.measurements.iter().map(measured).collect(),
        requirements: verdict
            .requirements
            .iter()
            .map(|requirement| {
                let (sign, word) = match requirement.met {
                    Some(true) => ("✓", "met"),
                    Some(false) => ("✗", "missed"),
                    None => ("?", "undecided"),
                };
                (sign, word, text(&requirement.text))
            })
            .collect(),
        coverage: phrases::coverage(verdict)
            .map(|(title, kernels)| (title, kernels.iter().map(|kernel| text(kernel)).collect())),
        omissions: verdict.omissions.iter().map(|omission| text(omission)).collect(),
        provenance,
        excerpts: verdict
            .failures()
            .into_iter()
            .filter_map(|finding| excerpt(&verdict.id, finding, sources, links))
            .take(KINDS_MAX)
            .collect(),
    }
    .render()
    .expect("a template over strings")
}

fn dimensions(verdict: &Verdict) -> String {
    let bars: Vec<Bar> = Dimension::ALL
        .into_iter()
        .filter_map(|dimension| {
            let part = verdict.dimensions.get(&dimension)?;
            (part.assessed || part.weight > 0.0).then(|| Bar {
                name: dimension.name(),
                score: part.score,
                weight: part.weight,
            })
        })
        .collect();
    let said: Vec<String> = bars
        .iter()
        .map(|bar| {
            let score = bar.score.map_or_else(|| "not assessed".to_owned(), |score| format!("{score:.1}"));
            format!("{} {score}", bar.name)
        })
        .collect();
    svg::bars(&format!("Scores by dimension: {}", said.join(", ")), &bars)
}

fn kind(kind: &Kind<'_>) -> KindView {
    let worst = kind.used.filter(|used| !(*used <= 1.0));
    KindView {
        gravity: kind.gravity(),
        title: text(&kind.title),
        fields: kind.fields.join(", "),
        message: if kind.message.is_empty() { String::new() } else { text(&kind.message) },
        extent: kind.extent(),
        worst: worst.map_or(String::new(), |used| format!("{} ×", words::significant(used))),
        smallest: text(kind.smallest),
        replay: kind.finding.replay.as_deref().map_or(String::new(), text),
    }
}

fn undecided(verdict: &Verdict) -> Vec<Undecided> {
    [(Outcome::Infrastructure, "Not judged: the machine's fault"), (Outcome::Inconclusive, "Inconclusive")]
        .into_iter()
        .filter_map(|(outcome, title)| {
            let findings: Vec<&Finding> =
                verdict.findings.iter().filter(|finding| finding.outcome == outcome).collect();
            let shown = findings.iter().take(KINDS_MAX);
            let shown: Vec<_> = shown.map(|finding| (text(&finding.id), text(&finding.message))).collect();
            (!shown.is_empty()).then(|| (title, shown, findings.len().saturating_sub(KINDS_MAX)))
        })
        .collect()
}

/// Errors in units of their budgets, by family. A check with a limit and no number saw something that is none.
fn used(verdict: &Verdict) -> BTreeMap<Family, Vec<f64>> {
    let mut families: BTreeMap<Family, Vec<f64>> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| is_of_a_case(finding)) {
        let limit = finding.limit.unwrap_or(1.0);
        let used = match (finding.used, finding.limit) {
            (Some(used), _) if used.is_finite() => used / limit,
            (Some(_), _) | (None, Some(_)) => f64::INFINITY,
            (None, None) => continue,
        };
        families.entry(finding.family).or_default().push(used);
    }
    families
}

fn worst(used: &[f64]) -> String {
    match used
        .iter()
        .copied()
        .fold(None, |worst: Option<f64>, used| Some(worst.map_or(used, |w| w.max(used))))
    {
        None => String::new(),
        Some(worst) if worst.is_finite() => format!("{} ×", words::significant(worst)),
        Some(_) => format!("∞ in {}", used.iter().filter(|used| !used.is_finite()).count()),
    }
}

fn errors(used: &BTreeMap<Family, Vec<f64>>) -> Option<String> {
    let said: Vec<String> =
        used.iter().map(|(family, used)| format!("{} {}", family.name(), worst(used))).collect();
    let rows: Vec<svg::Row> = used
        .iter()
        .map(|(family, used)| svg::Row { name: family.name(), used: used.clone(), worst: worst(used) })
        .collect();
    svg::strip(&format!("Errors in units of their budget by family, the worst: {}", said.join(", ")), &rows)
}

fn families(summary: &Summary, used: &BTreeMap<Family, Vec<f64>>) -> Vec<FamilyView> {
    let view = |(family, held): (&Family, &Held)| FamilyView {
        name: family.name(),
        cases: held.cases + held.undecided,
        held: held.held,
        failed: held.cases - held.held,
        undecided: held.undecided,
        worst: used.get(family).map_or_else(|| "–".to_owned(), |used| worst(used)),
    };
    summary.families.iter().map(view).collect()
}

fn measured(measurement: &Measurement) -> [String; 4] {
    [
        text(&words::spoken(&measurement.name)),
        text(&measurement.workload),
        words::quantity_within(measurement.value, measurement.interval, &measurement.unit),
        phrases::against(measurement),
    ]
}

/// Time, and memory: what has a unit that can be drawn beside a floor, a picture for each unit.
fn charts(verdict: &Verdict) -> Vec<Chart> {
    let time: Vec<&Measurement> = drawn(verdict, &|measurement| measurement.name == "time");
    let memory = drawn(verdict, &|m| {
        // What a submission claims of itself is in the table, beside what was weighed.
        let weighed = matches!(m.unit.as_str(), "B" | "bytes") && !m.name.starts_with("claimed_");
        weighed && m.floor.is_some_and(|floor| floor > 0.0)
    });
    let time = growth(&verdict.submission.challenge, &time).or_else(|| levels("Time", &time, TIME));
    [time, levels("Memory", &memory, MEMORY)].into_iter().flatten().collect()
}

/// What can be drawn, the smallest first.
fn drawn<'a>(verdict: &'a Verdict, test: &dyn Fn(&Measurement) -> bool) -> Vec<&'a Measurement> {
    let mut measurements: Vec<&Measurement> =
        verdict.measurements.iter().filter(|m| test(m) && m.value.is_finite() && m.value > 0.0).collect();
    // The floor grows with the size; a workload's name need not tell it.
    measurements.sort_by(|a, b| a.floor.unwrap_or(a.value).total_cmp(&b.floor.unwrap_or(b.value)));
    measurements
}

fn levels(title: &'static str, measurements: &[&Measurement], caption: &'static str) -> Option<Chart> {
    let unit = &measurements.first()?.unit;
    let rows: Vec<Level> = measurements.iter().map(|measurement| level(title, measurement)).collect();
    let label = format!("{title} by workload, the smallest first: {}", said(rows.iter()));
    let svg = svg::levels(&label, &rows, title == "Time", &|value| round(value, unit))?;
    Some(Chart { title, svg, caption })
}

/// Times of one thing at three sizes or more; none where the names of the workloads do not tell so many.
fn growth(challenge: &str, measurements: &[&Measurement]) -> Option<Chart> {
    let mut sizes = Vec::new();
    for measurement in measurements {
        sizes.push((size(challenge, &measurement.workload)?, level("Time", measurement)));
    }
    let (_, what) = sizes.first()?.0;
    let mut sizes: Vec<(f64, Level)> = sizes.into_iter().map(|((size, _), level)| (size, level)).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let different = 1 + sizes.windows(2).filter(|pair| pair[0].0 < pair[1].0).count();
    let unit = &measurements.first()?.unit;
    let label =
        format!("Time against {what}, the smallest first: {}", said(sizes.iter().map(|(_, level)| level)));
    let axes = svg::Axes { size: what, count: &count, amount: &|value| round(value, unit) };
    let svg = (different >= SIZES_MIN).then(|| svg::growth(&label, &sizes, axes))??;
    Some(Chart { title: "Time against size", svg, caption: GROWTH })
}

fn said<'a>(levels: impl Iterator<Item = &'a Level>) -> String {
    levels.map(|level| format!("{} {}", level.name, level.shown)).collect::<Vec<_>>().join(", ")
}

/// The size of a timed workload, which its name tells, and what is counted.
fn size(challenge: &str, workload: &str) -> Option<(f64, &'static str)> {
    let shape = workload.split(' ').next()?;
    let product = |shape: &str| {
        shape
            .split_once('x')
            .and_then(|(a, b)| Some(a.parse::<u32>().ok()? as f64 * b.parse::<u32>().ok()? as f64))
    };
    let (size, what) = match challenge {
        "layer_norm_backward" => (product(shape)?, "elements (rows × columns)"),
        "fused_softmax_topk" => (product(shape.split_once('k')?.0)?, "logits (rows × vocabulary)"),
        "kv_cache" => (shape.split_once('c')?.1.parse::<u32>().ok()?.into(), "tokens of context"),
        _ => return None,
    };
    (size > 0.0).then_some((size, what))
}

/// A tick's count: `200 k`.
fn count(value: f64) -> String {
    match value {
        1e9.. => format!("{} G", value / 1e9),
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} k", value / 1e3),
        _ => value.to_string(),
    }
}

fn level(title: &str, measurement: &Measurement) -> Level {
    let workload = crate::clean::cut(&measurement.workload, 28);
    let name = if title == "Time" {
        workload
    } else {
        format!("{}, {workload}", crate::clean::cut(&words::spoken(&measurement.name), 24))
    };
    let positive = |value: &f64| value.is_finite() && *value > 0.0;
    Level {
        name,
        value: measurement.value,
        interval: measurement.interval.filter(|ends| ends.iter().all(positive)),
        floor: measurement.floor.filter(positive),
        reference: measurement.of_reference.map(|ratio| measurement.value / ratio).filter(positive),
        shown: words::quantity(measurement.value, &measurement.unit),
    }
}

/// A tick's amount: `2 ms` where a measurement says `2.00 ms`.
fn round(value: f64, unit: &str) -> String {
    let shown = words::quantity(value, unit);
    let (number, unit) = shown.split_once(' ').unwrap_or((&shown, ""));
    let number = if number.contains('.') && !number.contains('e') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// The lines around the one that a finding about the source names: its case is `code/<path>/<line>`.
fn excerpt(id: &str, finding: &Finding, sources: &[SourceFile], links: Links) -> Option<Excerpt> {
    let (path, line) = code_place(finding)?;
    let file = sources.iter().find(|file| file.path == path)?;
    let lines: Vec<(usize, String, bool)> = file
        .text
        .lines()
        .enumerate()
        .map(|(index, text)| (index + 1, text))
        .filter(|(number, _)| number.abs_diff(line) <= CONTEXT)
        .map(|(number, source)| (number, crate::clean::cut(source, 160), number == line))
        .collect();
    (!lines.is_empty()).then(|| Excerpt {
        title: text(&format!("{path}:{line}")),
        link: links.source(id, path, Some(line)),
        message: text(&finding.message),
        lines,
    })
}

/// The file and the line, counted from 1, that a finding about the source names.
pub fn code_place(finding: &Finding) -> Option<(&str, usize)> {
    let (path, line) = finding.case.strip_prefix("code/")?.rsplit_once('/')?;
    Some((path, line.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// The sample's times, on workloads of these names.
    fn timed(challenge: &str, workloads: &[&str]) -> Vec<Chart> {
        let mut verdict = samples::accepted();
        verdict.submission.challenge = challenge.to_owned();
        let time = verdict.measurements.iter().find(|one| one.name == "time").unwrap().clone();
        let at = |(index, workload): (usize, &&str)| Measurement {
            workload: (*workload).to_owned(),
            value: time.value * 2f64.powi(index as i32),
            ..time.clone()
        };
        verdict.measurements = workloads.iter().enumerate().map(at).collect();
        charts(&verdict)
    }

    #[test]
    fn times_are_drawn_against_sizes_where_there_are_three() {
        let title = |challenge: &str, workloads: &[&str]| timed(challenge, workloads)[0].title;
        let layer_norm = ["64x768 float32", "2048x768 float32", "256x8192 float32", "8192x4096 float32"];
        assert_eq!(title("layer_norm_backward", &layer_norm), "Time against size");
        assert_eq!(title("layer_norm_backward", &layer_norm[..2]), "Time");
        let twice = ["64x768 float32", "768x64 float32", "8192x768 float32"];
        assert_eq!(title("layer_norm_backward", &twice), "Time", "two sizes only");
        let vocabularies = ["64x32000k1 float32", "64x50257k5 float32", "16x151936k50 float32"];
        assert_eq!(title("fused_softmax_topk", &vocabularies), "Time against size");
        let contexts = ["2x8x2x64c1024 32-bit", "2x8x2x64c8192 32-bit", "2x8x2x64c32768 32-bit"];
        assert_eq!(title("kv_cache", &contexts), "Time against size");
        assert_eq!(
            title("kv_cache", &[contexts[0], contexts[1], "all of them"]),
            "Time",
            "no size is made up"
        );
        assert_eq!(title("another", &layer_norm), "Time");
    }

    #[test]
    fn a_size_is_what_the_name_of_the_workload_tells() {
        for (challenge, workload, expected) in [
            ("layer_norm_backward", "2048x768 float32", Some(1_572_864.0)),
            ("layer_norm_backward", "2048x768x2 float32", None),
            ("layer_norm_backward", "99999999999x1 float32", None),
            ("layer_norm_backward", "0x768 float32", None),
            ("fused_softmax_topk", "32x50257k50 float32", Some(1_608_224.0)),
            ("fused_softmax_topk", "32x50257", None),
            ("kv_cache", "2x8x2x64c8192 32-bit", Some(8192.0)),
            ("kv_cache", "rows, 32 to 64 elements", None),
        ] {
            assert_eq!(size(challenge, workload).map(|(size, _)| size), expected, "{workload}");
        }
        assert_eq!([5.0, 200.0, 5e3, 2e6, 1e10].map(count), ["5", "200", "5 k", "2 M", "10 G"]);
    }
}
