//! What a submission claims of itself, held against what was measured of it.
//!
//! A pure function of the claims and the evidence. Each claim of the manifest comes to one finding, `claims/<name>:holds`: a pass if it is
//! upheld, a minor failure if it is refuted, inconclusive if it is untestable. How far a figure may be off stands at the constants below; the
//! contract has the same in words, and a test compares them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tribunal_contract::{Claimed, Language};

use crate::calibration::HONEST_LIMIT;
use crate::evidence::{Measurement, Repeats};
use crate::examine::finding_about;
use crate::lead::{budgets, shorten};
use crate::trial::STORES_ROWS;
use crate::{Dimension, Finding, Outcome, Severity};

/// How far a number of passes may be off. Reads are counted to the byte, so this is not for noise: a kernel that reads once may read again what lies
/// at the seams of its blocks and of vectors. Where that is more than every tenth element it has read more than once.
const PASSES_OFF: f64 = 0.1;

/// How far a number of tensors may be off. The least that can be kept of a tensor is one in half as many bits, so numbers of tensors are apart
/// by halves, and half of that tells them apart. What stands beside them is less: four vectors of float64 are 0.008 tensors of the size
/// that is weighed.
const TENSORS_OFF: f64 = 0.25;

/// How far bytes of a token may be beyond the claim. Caches are weighed in pages, and allocators put headers before what they give. The least that a
/// format can add is a scale of two bytes for 64 numbers, which for keys and values of two heads is 8 bytes a token; half of that tells it
/// from pages, of which it allows eight a cache.
const TOKEN_BYTES_OFF: f64 = 4.0;

/// How far rows of extra memory may be beyond the claim: 64 KiB of 4 MiB. Allocations of less come from a heap whose pages may
/// be touched in this call for the first time; larger ones are mappings of their own, which are weighed to the page.
const SCRATCH_ROWS_OFF: f64 = 1.0 / 64.0;

/// How far a power may be from the claim. What algorithms cost grows with whole powers, and half a power tells these apart. It leaves room
/// for what bends an honest slope: caches that data outgrow on the way, by 0.3 and over contexts by up to 0.5 (`Sweep`), and
/// clocks, since a time at one end that is twice too long adds 0.25 where sizes differ by 16.
const EXPONENT_OFF: f64 = 0.5;

/// How many times as good as a bound the measured value may be. A bound beyond that would be as true of code half as good, so it
/// says nothing of this.
const LOOSE: f64 = 2.0;

/// The share of the time from which on something takes most of it.
const MOST: f64 = 0.5;

/// What claims are decided by.
#[derive(Debug)]
pub struct Grounds<'a> {
    /// The submission's language.
    pub language: Language,
    /// What cases and measurements showed.
    pub findings: &'a [Finding],
    /// What was measured.
    pub measurements: &'a [Measurement],
    /// Processors that were busy at most while it was timed.
    pub processors: f64,
    /// What came of the same input, given again.
    pub repeats: Option<&'a Repeats>,
    /// Why time and memory were not measured, where they were not.
    pub unmeasured: Option<&'a str>,
}

/// Whether a claim holds, where that can be told, and the numbers that say so.
type Decision = (Option<bool>, String);

/// A finding for each claim.
pub fn decide(claims: &BTreeMap<&'static str, Claimed>, grounds: &Grounds<'_>) -> Vec<Finding> {
    claims.iter().map(|(name, &claimed)| finding(name, claimed, grounds.decide(name, claimed))).collect()
}

fn finding(name: &str, claimed: Claimed, (holds, why): Decision) -> Finding {
    let (outcome, word, severity, suspect) = match holds {
        Some(true) => (Outcome::Pass, "upheld", Severity::Note, None),
        Some(false) => (Outcome::Fail, "refuted", Severity::Minor, Some("claim_refuted")),
        None => (Outcome::Inconclusive, "untestable", Severity::Note, None),
    };
    let message = format!("`{name} = {claimed}` is {word}: {why}");
    finding_about(
        &format!("claims/{name}"),
        "holds",
        Dimension::Analysis,
        outcome,
        severity,
        message,
        suspect,
    )
}

impl Grounds<'_> {
    fn decide(&self, name: &str, claimed: Claimed) -> Decision {
        if let (Claimed::Number(most), "max_error_budgets") = (claimed, name) {
            return self.max_error(most);
        }
        if let Some(why) = self.spoilt() {
            return (None, why);
        }
        match (claimed, name) {
            (Claimed::Number(passes), "passes") => self.passes(passes),
            (Claimed::Number(tensors), "cache_tensors") => self.cache_tensors(tensors),
            (Claimed::Number(rows), "scratch_rows") => self.scratch_rows(rows),
            (Claimed::Word(word), "extra_memory") => self.extra_memory(word),
            (Claimed::Number(bytes), "bytes_per_token") => self.bytes_per_token(bytes, "float32"),
            (Claimed::Number(bytes), "bytes_per_token_float16") => self.bytes_per_token(bytes, "float16"),
            (Claimed::Number(bytes), "bytes_per_token_int8") => self.bytes_per_token(bytes, "int8"),
            (Claimed::Number(bytes), "bytes_per_token_int4") => self.bytes_per_token(bytes, "int4"),
            (Claimed::Number(power), "time_exponent") => self.exponent(power, "growth"),
            (Claimed::Number(power), "k_exponent") => self.exponent(power, "growth_with_k"),
            (Claimed::Number(power), "append_exponent") => self.exponent(power, "growth_of_append"),
            (Claimed::Number(times), "speedup_over_reference") => self.speedup(times),
            (Claimed::Word(word), "bound") => self.bound(word),
            (Claimed::YesNo(yes), "repeatable") => self.repeatable(yes),
            _ => unreachable!("a test decides every claim of the contracts"),
        }
    }

    /// Why measurements decide nothing, where they do not.
    fn spoilt(&self) -> Option<String> {
        if let Some(why) = self.unmeasured {
            return Some(format!("time and memory were not measured: {why}"));
        }
        if self.findings.iter().any(|finding| finding.outcome == Outcome::Integrity) {
            return Some("what was measured is worth nothing, since it was caught cheating".to_owned());
        }
        let wrong = self.findings.iter().find(|finding| {
            matches!(finding.dimension, Dimension::Memory | Dimension::Performance)
                && finding.outcome == Outcome::Fail
                && finding.severity >= Severity::Major
        })?;
        Some(format!("what was measured is worth nothing: {}", wrong.message))
    }

    fn measured<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Measurement> {
        self.measurements.iter().filter(move |measurement| measurement.name == name)
    }

    fn passes(&self, claimed: f64) -> Decision {
        let Some(reads) = self.measured("reads_per_element").next() else {
            if self.language == Language::Cuda {
                return missing("reads were not counted");
            }
            let mut why = "reads are counted for kernels in CUDA only".to_owned();
            if let Some(most) = self.measured("passes_at_most").next() {
                why +=
                    &format!("; by the time they are {:.1} at most if one processor does them", most.value);
            }
            return (None, why);
        };
        let why = format!("each element is read {:.2} times ({})", reads.value, reads.workload);
        (at_most((reads.value - claimed).abs(), PASSES_OFF), why)
    }

    /// The least that a cache needs is a tensor and a vector of either length, 0.2 % more than a tensor of the size that is weighed.
    fn cache_tensors(&self, claimed: f64) -> Decision {
        let Some(kept) = self.measured("cache_bytes").next() else {
            return missing("the cache was not weighed");
        };
        let tensors = kept.value / kept.floor.unwrap_or(f64::NAN);
        let why =
            format!("a cache of {} takes {:.2} MB, {tensors:.2} tensors", kept.workload, kept.value / 1e6);
        (at_most((tensors - claimed).abs(), TENSORS_OFF), why)
    }

    fn scratch_rows(&self, claimed: f64) -> Decision {
        let Some(scratch) = self.measured("scratch_rows").next() else {
            return missing("no call was weighed");
        };
        let why = format!("a call of {} takes {} rows", scratch.workload, shorten(scratch.value));
        upper_bound(claimed, scratch.value, SCRATCH_ROWS_OFF, STORES_ROWS, why)
    }

    fn extra_memory(&self, claimed: &str) -> Decision {
        let Some(scratch) = self.measured("scratch_rows").next() else {
            return missing("no call was weighed");
        };
        let why = format!(
            "a call of {} takes {} rows, and {STORES_ROWS} is the most that is called constant",
            scratch.workload,
            shorten(scratch.value)
        );
        (at_most(scratch.value, STORES_ROWS).map(|constant| constant == (claimed == "constant")), why)
    }

    fn bytes_per_token(&self, claimed: f64, format: &str) -> Decision {
        let of_format = |kept: &&Measurement| kept.workload.rsplit(' ').next() == Some(format);
        let Some(kept) = self.measured("bytes_per_token").find(of_format) else {
            return missing(&format!(
                "no cache in {format} was weighed; a capability has to be claimed for it"
            ));
        };
        let why = format!("a token takes {:.1} bytes ({})", kept.value, kept.workload);
        upper_bound(claimed, kept.value, TOKEN_BYTES_OFF, 0.0, why)
    }

    fn exponent(&self, claimed: f64, name: &str) -> Decision {
        let slopes: Vec<&Measurement> = self.measured(name).collect();
        if slopes.is_empty() {
            return missing("how time grows was not measured");
        }
        let each: Vec<String> =
            slopes.iter().map(|slope| format!("{:.2} ({})", slope.value, slope.workload)).collect();
        let why = format!("time grows with the power {}", each.join(", "));
        let holds = all(slopes.iter().map(|slope| at_most(slope.value, claimed + EXPONENT_OFF)));
        if holds == Some(true) && slopes.iter().any(|slope| slope.value < claimed - EXPONENT_OFF) {
            return (None, why + ", less than claimed, as a constant cost of each call makes it as well");
        }
        (holds, why)
    }

    fn speedup(&self, claimed: f64) -> Decision {
        let ratios: Vec<(&Measurement, f64)> =
            self.measured("time").filter_map(|time| Some((time, 1.0 / time.of_reference?))).collect();
        if ratios.is_empty() {
            return missing("no time was compared with the reference's");
        }
        let each: Vec<String> = ratios.iter().map(|(time, speedup)| told_speedup(time, *speedup)).collect();
        let why = format!("as fast as the reference times {}", each.join(", "));
        let reaches = |(time, _): &(&Measurement, f64)| {
            let [low, high] = time.of_reference_interval?;
            within([1.0 / high, 1.0 / low], claimed)
        };
        let holds = all(ratios.iter().map(reaches));
        if holds == Some(true) && ratios.iter().all(|(_, speedup)| LOOSE * claimed < *speedup) {
            return (None, why + &too_loose());
        }
        (holds, why)
    }

    /// A floor is what one processor, or a GPU, takes to move the bytes that must be moved. The time that goes into moving bytes is that at
    /// least, divided by the processors that may have shared it; at most it is what moving everything that was asked for takes, where
    /// that was counted.
    fn bound(&self, claimed: &str) -> Decision {
        let times: Vec<&Measurement> = self.measured("time").collect();
        if times.is_empty() {
            return missing("no time was measured");
        }
        let cuda = self.language == Language::Cuda;
        let shared_by = if cuda { 1.0 } else { self.processors.max(1.0) };
        let traffic = self.measured("traffic").next().and_then(|asked| Some(asked.value / asked.floor?));
        let asked_for = if cuda { traffic.unwrap_or(f64::INFINITY) } else { f64::INFINITY };
        let share = |time: &&Measurement| {
            let (floor, [low, high]) =
                (time.floor.unwrap_or(f64::NAN), time.interval.unwrap_or([f64::NAN; 2]));
            [floor / shared_by / high, asked_for * floor / low]
        };
        let shares: Vec<[f64; 2]> = times.iter().map(share).collect();
        let each: Vec<String> = shares
            .iter()
            .zip(&times)
            .map(|(&share, time)| format!("{} ({})", told_share(share), time.workload))
            .collect();
        let why = format!("moving bytes takes {} of the time", each.join(", "));
        let is_memory = within(shares[0], MOST);
        let agreed = shares.iter().all(|&share| within(share, MOST) == is_memory);
        (is_memory.filter(|_| agreed).map(|memory| memory == (claimed == "memory")), why)
    }

    fn repeatable(&self, claimed: bool) -> Decision {
        match self.repeats {
            None => missing("nothing was given twice"),
            Some(Repeats { tried, differs: Some(what) }) => (Some(!claimed), format!("{what} ({tried})")),
            Some(Repeats { tried, differs: None }) => {
                (claimed.then_some(true), format!("the same bits every time ({tried})"))
            }
        }
    }

    /// The answers to the cases decide this, whether anything was measured or not.
    fn max_error(&self, claimed: f64) -> Decision {
        let of_answers =
            || self.findings.iter().filter(|finding| finding.dimension != Dimension::Completeness);
        // What is not a number is the worst, whatever its sign.
        let worst = of_answers().filter_map(|finding| Some((finding.used?.abs(), &finding.case)));
        let Some((used, case)) = worst.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return missing("no error was measured");
        };
        let why = format!("the largest error is {} ({case})", budgets(used));
        let holds = at_most(used, claimed);
        if holds != Some(true) {
            return (holds, why);
        }
        let unsized_failure = of_answers().find(|finding| {
            matches!(finding.dimension, Dimension::Correctness | Dimension::Stability)
                && matches!(finding.outcome, Outcome::Fail | Outcome::Integrity)
                && finding.used.is_none()
        });
        if let Some(failure) = unsized_failure {
            return (None, format!("{why}, and of {} no error could be told", failure.case));
        }
        if claimed >= HONEST_LIMIT {
            return (None, format!("{why}, and whoever is right stays below {HONEST_LIMIT}"));
        }
        (holds, why)
    }
}

fn missing(why: &str) -> Decision {
    (None, why.to_owned())
}

/// Whether a value is at most the limit; of a NaN nobody knows.
fn at_most(value: f64, limit: f64) -> Option<bool> {
    value.partial_cmp(&limit).map(Ordering::is_le)
}

/// Whether an interval is at or above a limit: not known where it holds both answers.
fn within([low, high]: [f64; 2], limit: f64) -> Option<bool> {
    if low >= limit && high >= limit { Some(true) } else { (low < limit && high < limit).then_some(false) }
}

/// Whether all hold: one that does not refutes the rest, one that is not known leaves it open.
fn all(each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut together = Some(true);
    for holds in each {
        match holds {
            Some(false) => return Some(false),
            None => together = None,
            Some(true) => {}
        }
    }
    together
}

/// A claim that something is at most so much. What is less than `least` counts as that: less is not told from it.
fn upper_bound(claimed: f64, value: f64, off: f64, least: f64, why: String) -> Decision {
    let holds = at_most(value, claimed + off);
    if holds == Some(true) && claimed > LOOSE * value.max(least) {
        return (None, why + &too_loose());
    }
    (holds, why)
}

fn too_loose() -> String {
    format!(", and a bound {LOOSE} times as far would be as true of code half as good")
}

fn told_speedup(time: &Measurement, speedup: f64) -> String {
    let interval = match time.of_reference_interval {
        Some([low, high]) => format!("[{}, {}]", shorten(1.0 / high), shorten(1.0 / low)),
        None => "without interval".to_owned(),
    };
    format!("{} {interval} ({})", shorten(speedup), time.workload)
}

fn told_share([low, high]: [f64; 2]) -> String {
    let percent = |share: f64| shorten(100.0 * share);
    if high.is_finite() {
        format!("{} to {} %", percent(low), percent(high))
    } else {
        format!("{} % or more", percent(low))
    }
}

#[cfg(test)]
mod tests;
