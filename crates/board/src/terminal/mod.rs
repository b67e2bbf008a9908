//! Verdicts for a person at a terminal.

mod board;
pub(crate) mod grid;
pub(crate) mod paint;
#[cfg(test)]
mod tests;

use tribunal_judge::{Dimension, DimensionScore, Measurement, Outcome, Ruling, Severity, Verdict};
use unicode_width::UnicodeWidthStr;

use crate::failures::{self, Kind};
use crate::phrases::{self, against, provenance};
use crate::{clean, words};
use paint::{Paint, Tone, wrap};

pub use board::board;

/// Kinds of failure that are shown; of the rest it is said how many there are.
const KINDS_MAX: usize = 5;

/// Measurements that are shown.
const MEASUREMENTS_MAX: usize = 30;

/// Inconclusive and infrastructure findings that are shown.
const UNDECIDED_MAX: usize = 3;

/// Characters of a message that are shown: a compiler may say more than a screen holds.
const MESSAGE_CHARS: usize = 700;
/// Lines of a compiler's message.
const LINES_MAX: usize = 16;

/// Kernels that cases did not come to all of.
const KERNELS_MAX: usize = 3;

/// Letters of `infrastructure`.
const LONGEST_OUTCOME: usize = 14;

/// Cells of a full bar.
const BAR: usize = 10;

/// How to show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used. Nothing is said by colour alone.
    pub color: bool,
    /// Columns of the terminal. Commands to copy are never broken, whatever this is.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: 100 }
    }
}

/// One verdict: about a screen, however bad it is.
pub fn verdict(verdict: &Verdict, style: &Style) -> String {
    let page = Page { paint: Paint::new(style.color), width: style.width.clamp(60, 120) };
    let sections = [
        page.headline(verdict),
        page.dimensions(verdict),
        page.failures(verdict),
        page.undecided(verdict),
        page.measurements(&verdict.measurements),
        page.requirements(verdict),
        page.coverage(verdict),
        page.omissions(&verdict.omissions),
        page.provenance(verdict),
    ];
    let sections: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    sections.join("\n")
}

/// One verdict in a line without a break: its id, how it ended, and what failed first. Whatever the width: it may be searched for.
pub fn line(verdict: &Verdict, style: &Style) -> String {
    let paint = Paint::new(style.color);
    let [name, challenge] =
        [&verdict.submission.name, &verdict.submission.challenge].map(|text| clean::cut(text, 64));
    let outcome = verdict.outcome.name();
    let blank = " ".repeat(LONGEST_OUTCOME.saturating_sub(outcome.len()));
    let failed = failures::costly(verdict)
        .first()
        .map_or_else(String::new, |kind| format!(": {}", clean::cut(&kind.title, 60)));
    format!(
        "{}  {}{blank}  {:>5}  {} · {challenge}{failed}",
        clean::line(&verdict.id),
        paint.tone(tone(verdict.outcome), outcome),
        words::score(verdict.score),
        paint.strong(&name),
    )
}

struct Page {
    paint: Paint,
    width: usize,
}

impl Page {
    fn headline(&self, verdict: &Verdict) -> String {
        let submission = &verdict.submission;
        let [name, challenge, language] =
            [&submission.name, &submission.challenge, &submission.language].map(|text| clean::cut(text, 64));
        let outcome = self.paint.tone(tone(verdict.outcome), &verdict.outcome.name().to_uppercase());
        let score = match verdict.score {
            Some(score) => self.paint.strong(&format!("{score:.1} / 100")),
            None => "no score".to_owned(),
        };
        let capped = crate::summary::capped_from(verdict).map_or(String::new(), |mean| {
            format!("  weighted mean {mean:.1}, capped: something critical failed\n")
        });
        format!("{} · {challenge} · {language}\n{outcome}  {score}\n{capped}", self.paint.strong(&name))
    }

    fn dimensions(&self, verdict: &Verdict) -> String {
        let shown = |d: &DimensionScore| d.assessed || d.weight > 0.0;
        let line = |dimension: Dimension| {
            let score = verdict.dimensions.get(&dimension).filter(|score| shown(score))?;
            Some(self.dimension(dimension, score))
        };
        Dimension::ALL.into_iter().filter_map(line).collect()
    }

    fn dimension(&self, dimension: Dimension, part: &DimensionScore) -> String {
        let name = dimension.name();
        let weight = format!("×{:.2}", part.weight);
        match part.score {
            Some(score) => {
                let tone = if score >= 90.0 {
                    Tone::Good
                } else if score >= 50.0 {
                    Tone::Fair
                } else {
                    Tone::Bad
                };
                let bar = self.paint.tone(tone, &bar(score));
                format!("  {name:<13} {bar} {score:>5.1}  {weight}\n")
            }
            None => format!("  {name:<13} {} not assessed ({weight})\n", self.paint.dim(&"·".repeat(BAR))),
        }
    }

    fn failures(&self, verdict: &Verdict) -> String {
        let kinds = failures::kinds(verdict);
        if kinds.is_empty() {
            return String::new();
        }
        let mut text = self.heading(&format!("Failures: {}", phrases::failures(verdict, &kinds)));
        for (index, kind) in kinds.iter().take(KINDS_MAX).enumerate() {
            text += &self.kind(index + 1, kind, &verdict.id);
        }
        if kinds.len() > KINDS_MAX {
            text += &format!("  {}\n", and_more(&format!("{} more", kinds.len() - KINDS_MAX), &verdict.id));
        }
        text
    }

    fn kind(&self, number: usize, kind: &Kind<'_>, id: &str) -> String {
        let fields =
            if kind.fields.is_empty() { String::new() } else { format!(" ({})", kind.fields.join(", ")) };
        let tone = if kind.severity >= Severity::Major { Tone::Bad } else { Tone::Fair };
        let mut text = format!(
            "{number:>3}. {} {}{fields}\n",
            self.paint.tone(tone, &kind.gravity().to_uppercase()),
            self.paint.strong(&clean::cut(&kind.title, 60)),
        );
        text += &match kind.finding.check.as_str() {
            "builds" => self.quoted(&kind.message, id),
            _ => self.indented(&clean::cut(&kind.message, MESSAGE_CHARS)),
        };
        let used = kind
            .used
            .filter(|used| *used > 1.0)
            .map_or(String::new(), |used| format!("; worst error {} × its budget", words::significant(used)));
        let smallest = clean::line(kind.smallest);
        text += &self.indented(&format!("{}{used}; smallest: {smallest}", kind.extent()));
        if let Some(replay) = &kind.finding.replay {
            // On one line whatever the width: it is there to be copied.
            text += &format!("     {}\n", self.paint.dim(&format!("$ {}", clean::line(replay))));
        }
        text
    }

    fn undecided(&self, verdict: &Verdict) -> String {
        let of = |outcome: Outcome| verdict.findings.iter().filter(move |finding| finding.outcome == outcome);
        let mut text = String::new();
        for (outcome, title) in [
            (Outcome::Infrastructure, "Not judged: the machine's fault"),
            (Outcome::Inconclusive, "Inconclusive"),
        ] {
            let number = of(outcome).count();
            if number == 0 {
                continue;
            }
            text += &self.heading(&format!("{title} ({number})"));
            for finding in of(outcome).take(UNDECIDED_MAX) {
                let line =
                    format!("{}: {}", clean::line(&finding.id), clean::cut(&finding.message, MESSAGE_CHARS));
                text += &wrap(&line, self.width, "  ", "    ");
            }
            if number > UNDECIDED_MAX {
                text +=
                    &format!("  {}\n", and_more(&format!("{} more", number - UNDECIDED_MAX), &verdict.id));
            }
        }
        text
    }

    fn measurements(&self, measurements: &[Measurement]) -> String {
        if measurements.is_empty() {
            return String::new();
        }
        let shown = &measurements[..measurements.len().min(MEASUREMENTS_MAX)];
        let cells: Vec<[String; 3]> = shown
            .iter()
            .map(|m| {
                let value = words::quantity_within(m.value, m.interval, &m.unit);
                [clean::cut(&words::spoken(&m.name), 24), clean::cut(&m.workload, 36), value]
            })
            .collect();
        let widths = [0, 1, 2].map(|column| cells.iter().map(|row| row[column].width()).max().unwrap_or(0));
        let mut text = self.heading("Measurements");
        for (row, measurement) in cells.iter().zip(shown) {
            let mut line = String::from("  ");
            for (cell, width) in row.iter().zip(widths) {
                line += cell;
                line += &" ".repeat(width - cell.width() + 2);
            }
            let against = against(measurement);
            if line.width() + against.width() <= self.width {
                text += format!("{line}{against}").trim_end();
                text += "\n";
            } else {
                text += &format!("{}\n", line.trim_end());
                text += &wrap(&against, self.width, "      ", "      ");
            }
        }
        if measurements.len() > shown.len() {
            text += &format!("  … and {} more\n", measurements.len() - shown.len());
        }
        text
    }

    fn requirements(&self, verdict: &Verdict) -> String {
        let requirements = &verdict.requirements;
        if requirements.is_empty() {
            return String::new();
        }
        let with = |met: Option<bool>| requirements.iter().filter(move |requirement| requirement.met == met);
        let mut text = self.heading(&format!(
            "Requirements: {} of {} met",
            with(Some(true)).count(),
            requirements.len()
        ));
        for (met, mark, tone) in [(Some(false), "✗ missed:", Tone::Bad), (None, "? undecided:", Tone::Fair)]
        {
            for requirement in with(met) {
                let line = format!("{mark} {}", clean::line(&requirement.text));
                text += &self.paint.first(tone, mark, &wrap(&line, self.width, "  ", "    "));
            }
        }
        let met: Vec<_> = with(Some(true)).map(|requirement| clean::line(&requirement.text)).collect();
        if !met.is_empty() {
            let line = format!("✓ met: {}", met.join("; "));
            text += &self.paint.first(Tone::Good, "✓ met:", &wrap(&line, self.width, "  ", "    "));
        }
        text
    }

    fn coverage(&self, verdict: &Verdict) -> String {
        let Some((title, kernels)) = phrases::coverage(verdict) else { return String::new() };
        let mut text = self.heading(&title);
        for kernel in kernels.iter().take(KERNELS_MAX) {
            text += &wrap(&format!("- {}", clean::cut(kernel, MESSAGE_CHARS)), self.width, "  ", "    ");
        }
        if kernels.len() > KERNELS_MAX {
            text += &format!("  … and {} more\n", kernels.len() - KERNELS_MAX);
        }
        text
    }

    fn omissions(&self, omissions: &[String]) -> String {
        if omissions.is_empty() {
            return String::new();
        }
        let mut text = self.heading("Not assessed");
        for omission in omissions {
            text += &wrap(&format!("- {}", clean::cut(omission, MESSAGE_CHARS)), self.width, "  ", "    ");
        }
        text
    }

    fn provenance(&self, verdict: &Verdict) -> String {
        let lines = provenance(verdict).map(|line| clean::cut(&line, MESSAGE_CHARS));
        let text: String = lines.iter().map(|line| wrap(line, self.width, "  ", "    ")).collect();
        self.heading("Judged") + &self.paint.dim_lines(&text)
    }

    fn heading(&self, text: &str) -> String {
        format!("{}\n", self.paint.strong(text))
    }

    /// What a compiler said, line by line: it points with a caret to what is above. The rule on the left tells it from the report's own lines.
    fn quoted(&self, text: &str, id: &str) -> String {
        const MARGIN: &str = "     │ ";
        let room = self.width.saturating_sub(MARGIN.width()).max(20);
        let shown = |line: &str| {
            let line = clean::cut(line.trim_end(), MESSAGE_CHARS);
            // A line of source has a caret below, and begins with spaces before its number; others are words, and go on in the next.
            if line.starts_with(' ') || line.width() <= room {
                format!("{MARGIN}{}", clean::cut(&line, room)).trim_end().to_owned() + "\n"
            } else {
                wrap(&line, self.width, MARGIN, &format!("{MARGIN}  "))
            }
        };
        let mut said: String = text.lines().take(LINES_MAX).map(shown).collect();
        let more = text.lines().count().saturating_sub(LINES_MAX);
        if more > 0 {
            said += &format!("     {}\n", and_more(&words::count(more, "more line"), id));
        }
        said
    }

    fn indented(&self, text: &str) -> String {
        if text.is_empty() { String::new() } else { wrap(text, self.width, "     ", "     ") }
    }
}

/// So many more of something are not shown, and how to see them.
fn and_more(many: &str, id: &str) -> String {
    format!("… and {many}: tribunal show {} --format json", clean::line(id))
}

fn tone(ruling: Ruling) -> Tone {
    match ruling {
        Ruling::Accepted => Tone::Good,
        Ruling::Rejected | Ruling::Disqualified => Tone::Bad,
        Ruling::Infrastructure => Tone::Fair,
    }
}

/// Full only at 100, empty only below 0.5: what rounds to a tenth more must not look like perfection.
fn bar(score: f64) -> String {
    let cells = (score / 100.0 * BAR as f64).round().clamp(0.0, BAR as f64) as usize;
    let cells = if score < 100.0 { cells.min(BAR - 1) } else { BAR };
    let cells = if score >= 0.5 { cells.max(1) } else { cells };
    "█".repeat(cells) + &"░".repeat(BAR - cells)
}
