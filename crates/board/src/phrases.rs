//! What the terminal and Markdown say in the same words.

use tribunal_judge::{Coverage, Dimension, Effort, Measurement, Phase, Ruling, Verdict};

use crate::failures::Kind;
use crate::ranking::{self, Place, Standings};
use crate::{clean, words};

/// A measurement against its floor and the reference, in words.
pub(crate) fn against(measurement: &Measurement) -> String {
    let floor =
        measurement.of_floor.map(|share| words::of_floor(measurement.floor, &measurement.unit, share));
    let reference =
        measurement.of_reference.map(|ratio| words::of_reference(ratio, measurement.of_reference_interval));
    [floor, reference].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// How many kinds of failure there are, in how many checks. What costs nothing is no failure.
pub(crate) fn failures(verdict: &Verdict, kinds: &[Kind<'_>]) -> String {
    let notes = kinds.iter().filter(|kind| !kind.costs()).count();
    let checks = verdict.findings.iter().filter(|finding| finding.costs()).count();
    let failures = match kinds.len() - notes {
        0 => "none".to_owned(),
        kinds => format!("{} in {}", words::count(kinds, "kind"), words::count(checks, "failed check")),
    };
    match notes {
        0 => failures,
        1 => format!("{failures}; and 1 note, which costs nothing"),
        notes => format!("{failures}; and {notes} notes, which cost nothing"),
    }
}

/// A part of a judging that takes less is not told.
const LEAST_TOLD_S: f64 = 0.01;

/// What the time of a judging went into, between how much it was and how much of it was the submission's.
fn spent(verdict: &Verdict) -> String {
    let slowest = verdict.slowest.as_ref();
    let slowest =
        slowest.map(|slowest| format!(" ({} in {})", words::seconds(slowest.seconds), slowest.case));
    let part = |(phase, seconds): (&Phase, &f64)| {
        let of_it = slowest.as_deref().filter(|_| *phase == Phase::Cases).unwrap_or_default();
        format!("{} {}{of_it}", phase.name(), words::seconds(*seconds))
    };
    let parts: Vec<_> =
        verdict.spent_s.iter().filter(|(_, seconds)| **seconds >= LEAST_TOLD_S).map(part).collect();
    if parts.is_empty() { ", ".to_owned() } else { format!(": {}; ", parts.join(", ")) }
}

/// Stretches of lines, and lines of loops, that are told of a kernel.
const PLACES_MAX: usize = 12;

/// How much of its kernels the cases came to, and of each that is not covered, the least covered first, what is not. Not yet cleaned.
pub(crate) fn coverage(verdict: &Verdict) -> Option<(String, Vec<String>)> {
    let all = &verdict.coverage;
    let mut partly: Vec<&Coverage> = all.iter().filter(|one| one.covered < one.instructions).collect();
    if partly.is_empty() {
        return None;
    }
    // Rounded down: all is all.
    let percent = |covered: u64, of: u64| (u128::from(covered) * 100 / u128::from(of.max(1))) as u64;
    let share = |one: &Coverage| percent(one.covered, one.instructions);
    partly.sort_by_key(|one| share(one));
    let places = |all: &[String]| {
        let told = all.iter().take(PLACES_MAX).cloned().collect::<Vec<_>>().join(", ");
        match all.len().saturating_sub(PLACES_MAX) {
            _ if all.is_empty() => None,
            0 => Some(told),
            more => Some(format!("{told} and {more} more")),
        }
    };
    let of_kernel = |one: &Coverage| {
        if !one.launched {
            return format!("{} was launched by none", one.kernel);
        }
        let missed = places(&one.uncovered).map_or(String::new(), |lines| format!(", and not to {lines}"));
        let once = places(&one.once)
            .map_or(String::new(), |lines| format!("; loops never gone round again: {lines}"));
        format!("{}: {} %{missed}{once}", one.kernel, share(one))
    };
    let sum = |count: fn(&Coverage) -> u64| all.iter().map(count).fold(0, u64::saturating_add);
    let instructions = sum(|one| one.instructions);
    let title = format!(
        "Cases came to {} % of {} in {}",
        percent(sum(|one| one.covered), instructions),
        words::count(instructions as usize, "instruction"),
        words::count(all.len(), "kernel")
    );
    Some((title, partly.into_iter().map(of_kernel).collect()))
}

/// How, where and on what it was judged. Not yet cleaned.
pub(crate) fn provenance(verdict: &Verdict) -> [String; 4] {
    let (judge, machine, submission) = (&verdict.judge, &verdict.machine, &verdict.submission);
    let effort = match judge.effort {
        Effort::Quick => "quick",
        Effort::Standard => "standard",
        Effort::Full => "full",
    };
    let gpu = machine.gpu.as_deref().unwrap_or("no GPU");
    let caged = words::seconds(verdict.caged_s);
    // Kernels that are emulated are in no cage.
    let within = match machine.cage.as_str() {
        "" => format!("{caged} of it in kernels"),
        cage => format!("{caged} of it in the cage; {cage}"),
    };
    let by = match (submission.host.as_str(), submission.language.as_str()) {
        ("", _) => String::new(),
        (compiler, "cuda") => format!(", compiled by {compiler}"),
        (host, _) => format!(", run by {host}"),
    };
    [
        format!("verdict {} by tribunal {}, seed {}, effort {effort}", verdict.id, judge.version, judge.seed),
        format!("in {}{}{within}", words::seconds(verdict.took_s), spent(verdict)),
        format!(
            "on {}, {}, {}, {gpu}",
            machine.cpu,
            words::count(machine.cores, "core"),
            words::quantity(machine.memory_bytes as f64, "bytes")
        ),
        format!("{} (sha256 {:.12}…){by}", submission.folder, submission.sha256),
    ]
}

/// The place, with a sign where it is shared.
pub(crate) fn rank(place: &Place<'_>) -> String {
    format!("{}{}", if place.tied { "=" } else { "" }, place.rank)
}

/// The score, marked where a gate lowered it.
pub(crate) fn score(place: &Place<'_>) -> String {
    let capped = if place.summary.capped_from.is_some() { "*" } else { "" };
    words::score(place.summary.score) + capped
}

/// Everything that is needed to recompute a score from its row.
pub(crate) fn legend(standings: &Standings<'_>) -> String {
    let weights: Vec<_> = standings
        .weights
        .iter()
        .map(|&(dimension, weight)| {
            let (name, short) = (dimension.name(), short(dimension));
            let name =
                name.strip_prefix(short).map_or_else(|| name.to_owned(), |rest| format!("{short}({rest})"));
            format!("{} ×{weight}", name.replace("()", ""))
        })
        .collect();
    let has = |test: &dyn Fn(&Place<'_>) -> bool| standings.places.iter().any(test);
    let mut text = format!(
        "score = weighted mean of the dimensions assessed (– is not assessed): {}.",
        weights.join(", ")
    );
    if has(&|place| place.summary.capped_from.is_some()) {
        text += " * capped: something critical failed.";
    }
    if has(&|place| place.summary.outcome == Ruling::Disqualified) {
        text += " Disqualified is 0.";
    }
    if has(&|place| place.range.is_some_and(|[best, worst]| best < worst)) {
        text += " range = the places in 95 % of draws of other cases and workloads.";
    }
    if has(&|place| place.tied) {
        text += &format!(" = tied: within {} points of the best of that place.", ranking::TIE_POINTS);
    }
    text
}

/// The ranks within the noise: `2–5`.
pub(crate) fn range(place: &Place<'_>) -> String {
    match place.range {
        Some([best, worst]) if best == worst => best.to_string(),
        Some([best, worst]) => format!("{best}–{worst}"),
        None => String::new(),
    }
}

/// What kept a verdict from being ranked. Cleaned.
pub(crate) fn why_unranked(place: &Place<'_>) -> String {
    place.summary.cause.as_deref().map_or_else(|| "no evidence".to_owned(), |cause| clean::cut(cause, 200))
}

/// Column headings: a dimension's beginning.
pub(crate) fn short(dimension: Dimension) -> &'static str {
    &dimension.name()[..4]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn notes_are_counted_apart_from_failures() {
        let mut verdict = samples::accepted();
        let told = |verdict: &Verdict| failures(verdict, &crate::failures::kinds(verdict));
        let before = told(&verdict);
        let mut note = samples::finding("code/kernel.c/2:no_warnings", tribunal_judge::Family::Basic);
        (note.outcome, note.severity) = (tribunal_judge::Outcome::Fail, tribunal_judge::Severity::Note);
        verdict.findings.push(note.clone());
        assert_eq!(told(&verdict), format!("{before}; and 1 note, which costs nothing"));
        verdict.findings = vec![note];
        assert_eq!(told(&verdict), "none; and 1 note, which costs nothing");
    }

    #[test]
    fn kernels_that_are_emulated_are_compiled_and_in_no_cage() {
        let mut verdict = samples::accepted();
        let [_, caged, _, run] = provenance(&verdict);
        assert!(caged.contains(" of it in the cage; "), "{caged}");
        assert!(run.contains("…), run by "), "{run}");
        verdict.machine.cage.clear();
        verdict.submission.language = "cuda".to_owned();
        verdict.submission.host = "clang 19".to_owned();
        let [_, emulated, _, compiled] = provenance(&verdict);
        assert!(emulated.ends_with(" of it in kernels"), "{emulated}");
        assert!(compiled.ends_with("…), compiled by clang 19"), "{compiled}");
        // It did not compile.
        verdict.submission.host.clear();
        let [_, _, _, nothing] = provenance(&verdict);
        assert!(nothing.ends_with("…)"), "{nothing}");
    }

    fn kernel(name: &str, covered: u64, uncovered: &[&str]) -> Coverage {
        let uncovered = uncovered.iter().map(|&lines| lines.to_owned()).collect();
        let (kernel, launched, once) = (name.to_owned(), covered > 0, vec![]);
        Coverage { kernel, launched, instructions: 200, covered, uncovered, once }
    }

    #[test]
    fn what_is_least_covered_is_told_first() {
        let mut verdict = samples::accepted();
        let lines: Vec<String> = (0..15).map(|line| format!("k.cu:{line}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        verdict.coverage = vec![
            kernel("whole", 200, &[]),
            Coverage {
                once: vec!["k.cu:7".to_owned(), "k.cu:9".to_owned()],
                ..kernel("all_but_one", 199, &[])
            },
            kernel("half", 100, &lines),
            kernel("never", 0, &[]),
        ];
        let (title, kernels) = coverage(&verdict).unwrap();
        assert_eq!(title, "Cases came to 62 % of 800 instructions in 4 kernels");
        assert_eq!(
            kernels,
            [
                "never was launched by none".to_owned(),
                format!("half: 50 %, and not to {} and 3 more", lines[..12].join(", ")),
                "all_but_one: 99 %; loops never gone round again: k.cu:7, k.cu:9".to_owned(),
            ]
        );
    }

    #[test]
    fn where_all_is_covered_nothing_is_told() {
        let mut verdict = samples::accepted();
        assert_eq!(coverage(&verdict), None);
        verdict.coverage = vec![kernel("whole", 200, &[])];
        assert_eq!(coverage(&verdict), None);
    }
}
