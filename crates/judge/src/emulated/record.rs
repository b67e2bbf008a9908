//! What a device saw kernels do, case by case.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tribunal_simt::fault::{self, Kind};
use tribunal_simt::launch::{Report, Schedule};

use crate::evidence::Repeats;
use crate::examine::finding_about;
use crate::finding::SANITIZER;
use crate::{Case, Dimension, Finding, Outcome, Severity};

/// Characters that are kept of what a launch printed.
pub(super) const PRINTED_MOST: usize = 400;

/// Calls of an operation in a case that are made again in another order whatever kernels do, and again as if they were the first of all.
const AGAIN_ANYHOW: usize = 2;

/// Instructions of warps beyond which a call is made again in the first cases only: who takes long is not left alone for it.
const AGAIN_MOST: u64 = 1 << 22;
const FIRST_CASES: usize = 4;

/// What results hang on that earlier calls left in variables of the module.
const KEPT: &str = "kept_in_variables";

/// A fault, the cases in which it came up, and the call in which it did first.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    fault: fault::Fault,
    cases: BTreeSet<usize>,
    /// Its turn among what the device of the first case saw.
    turn: usize,
    during: String,
    /// Of the use of a value that nobody gave, whether results hang on it; none where that was not tried.
    matters: Option<bool>,
    /// In how many calls that was tried.
    tried: usize,
    /// Whether it only came up in calls that must be refused.
    invalid: bool,
}

/// What is different after a call that was made in another order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Differing {
    /// The buffer, by its name in the manifest.
    pub buffer: String,
    /// In which elements, and what the first of them is, after a colon; empty where nobody sees its elements.
    pub how: String,
}

impl Seen {
    /// What comes before what, by the first case and the turn in it.
    fn order(&self) -> (Option<usize>, usize) {
        (self.cases.first().copied(), self.turn)
    }

    /// How much it weighs. What is undefined may come out right here and wrong on a GPU.
    fn severity(&self) -> Severity {
        match (self.fault.kind, self.matters) {
            (_, Some(false)) => Severity::Note,
            // It may be a matter of rounding: that too is for the answers to show, which were made so.
            (Kind::UnseenWrite | Kind::WarpSynchronous, _) => Severity::Minor,
            // Another order lets another lane's value land: whether that matters is for the answers to show.
            (Kind::ContestedWrite, _) => Severity::Note,
            // It is not to answer, however it does that.
            _ if self.invalid => Severity::Minor,
            (Kind::BarrierAfterExit, _) => Severity::Major,
            (Kind::NeverWaited, _) => Severity::Minor,
            _ => Severity::Critical,
        }
    }

    /// Whether it is the same fault at the same place.
    fn is(&self, other: &fault::Fault) -> bool {
        let fault::Fault { kind, kernel, line, other: with, .. } = &self.fault;
        (kind, kernel, line, with) == (&other.kind, &other.kernel, &other.line, &other.other)
    }

    /// Whether it is the same, or a race of the same two, of whom the other comes first.
    fn is_either_way(&self, other: &fault::Fault) -> bool {
        let fault::Fault { kind, kernel, line, other: with, .. } = &self.fault;
        let turned = (Some(line), with.as_ref()) == (other.other.as_ref(), Some(&other.line));
        self.is(other) || turned && (kind, kernel) == (&other.kind, &other.kernel)
    }
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub seen: Vec<Seen>,
    /// Which of them the present call used values in that nobody gave.
    of_values: Vec<usize>,
    /// And which of them earlier calls of the case put such values into a state by.
    into_states: BTreeSet<usize>,
    /// The case that is tried.
    case: usize,
    /// Calls in it, by operation.
    calls: BTreeMap<&'static str, usize>,
    /// What answers of it hang on beside their inputs, and how.
    pub cause: Option<(&'static str, String)>,
    /// Whether calls are such that must be refused.
    pub invalid: bool,
    /// Operations that were asked for, but in calls that must be refused.
    asked: BTreeSet<&'static str>,
    /// Operations whose results differ between two orders: in which case and call first, and how.
    unordered: BTreeMap<&'static str, (usize, String, Differing)>,
    /// Operations that do not come to their end in another order: in which case and call first, and why.
    stopped: BTreeMap<&'static str, (usize, String, String)>,
    /// Calls whose results were compared between two orders, by operation.
    reordered: BTreeMap<&'static str, usize>,
    /// The present call's operation.
    operation: &'static str,
    /// The present call in words.
    during: String,
    /// Operations whose results hang on what earlier calls left in variables: in which case and call first, and by which buffer.
    remembering: BTreeMap<&'static str, (usize, String, String)>,
    /// What kernels printed first, by kernel: in which case, in which call, and the text.
    printed: BTreeMap<String, (usize, String, String)>,
    pub instructions: u64,
    launched: bool,
    /// A launch in which more was done than could be followed: in which case first, and of which kernel.
    unfollowed: Option<(usize, String)>,
}

impl Record {
    /// A case is tried. How its calls are made again is a matter of it alone, so that it does not hang on what else a device has tried.
    pub fn begin(&mut self, case: usize) {
        self.case = case;
        self.calls.clear();
        self.cause = None;
        self.into_states.clear();
    }

    /// A call is made.
    pub fn begin_call(&mut self, operation: &'static str) {
        self.operation = operation;
        *self.calls.entry(operation).or_default() += 1;
        self.of_values.clear();
        if !self.invalid {
            self.asked.insert(operation);
        }
    }

    /// Keeps the faults that are new, and what a kernel printed first.
    pub fn note(&mut self, report: &Report, during: &str) {
        during.clone_into(&mut self.during);
        self.instructions += report.meter.instructions;
        self.launched = true;
        if !report.followed && self.unfollowed.is_none() {
            self.unfollowed = Some((self.case, report.kernel.clone()));
        }
        if !report.printed.is_empty() && !self.printed.contains_key(&report.kernel) {
            let printed = (self.case, during.to_owned(), start_of(&report.printed));
            self.printed.insert(report.kernel.clone(), printed);
        }
        self.note_faults(&report.faults, during);
    }

    /// Keeps the races of a call that is made again in another order, if they are new: which accesses meet is a matter of it.
    pub fn note_races(&mut self, report: &Report) {
        let races = report.faults.iter().filter(|fault| fault.kind.is_race());
        self.note_new(races);
    }

    /// The same of looks in the other order at what nothing orders before them, which results hang on. What is wrong in the case is put down to them.
    pub fn note_unordered(&mut self, looks: &[fault::Fault]) {
        self.note_new(looks);
        let first = &looks[0];
        self.cause = Some((first.kind.name(), format!("kernel `{}`, {first}", first.kernel)));
    }

    /// Whether it is known of the case that answers hang on such looks.
    pub fn hangs_on_looks(&self) -> bool {
        let looks = [Kind::UnseenWrite, Kind::WarpSynchronous].map(Kind::name);
        self.cause.as_ref().is_some_and(|(name, _)| looks.contains(name))
    }

    fn note_new<'f>(&mut self, faults: impl IntoIterator<Item = &'f fault::Fault>) {
        let is_new = |fault: &&fault::Fault| !self.seen.iter().any(|seen| seen.is_either_way(fault));
        let new: Vec<_> = faults.into_iter().filter(is_new).collect();
        let during = format!("{}, in another order", self.during);
        self.note_faults(new, &during);
    }

    fn note_faults<'f>(&mut self, faults: impl IntoIterator<Item = &'f fault::Fault>, during: &str) {
        for fault in faults {
            let index = match self.seen.iter().position(|seen| seen.is(fault)) {
                Some(index) => {
                    let seen = &mut self.seen[index];
                    seen.fault.count += fault.count;
                    seen.cases.insert(self.case);
                    seen.invalid &= self.invalid;
                    index
                }
                None => {
                    self.seen.push(Seen {
                        fault: fault.clone(),
                        cases: BTreeSet::from([self.case]),
                        turn: self.seen.len(),
                        during: during.to_owned(),
                        matters: None,
                        tried: 0,
                        invalid: self.invalid,
                    });
                    self.seen.len() - 1
                }
            };
            if fault.kind.is_of_a_value() {
                self.of_values.push(index);
            }
        }
    }

    /// As the how-manieth of its operation in the case the present call is made.
    fn turn(&self) -> usize {
        self.calls.get(self.operation).copied().unwrap_or(0)
    }

    /// Whether the present call is made again, where it took so many instructions.
    pub fn is_affordable(&self, took: u64) -> bool {
        took < AGAIN_MOST
    }

    /// Whether races are looked for as well where the present call, which took so many instructions, is made in another order.
    pub fn is_to_be_watched(&self, took: u64) -> bool {
        self.is_affordable(took) && self.turn() <= AGAIN_ANYHOW
    }

    /// Whether results of the present call are to be compared between two orders. Threads that do not race and tell each other nothing but at
    /// barriers compute the same in any: where `tells` says that these do no more, only the first calls of a case are, lest a race was missed.
    pub fn is_to_be_reordered(&self, tells: bool, took: u64) -> bool {
        let is_affordable = self.is_affordable(took) || self.case < FIRST_CASES && self.turn() == 1;
        let is_known = self.stopped.contains_key(self.operation);
        !self.invalid && !is_known && is_affordable && (tells || self.turn() <= AGAIN_ANYHOW)
    }

    /// Calls of an operation whose results were compared between two orders.
    fn reordered_of(&self, operation: &str) -> usize {
        self.reordered.get(operation).copied().unwrap_or(0)
    }

    /// The other order in which the present call is made: in reverse, where whole blocks and warps get ahead of others, or one in which all take turns
    /// at odd moments.
    pub fn other_order(&self) -> Schedule {
        // By the case as well: of many operations a case has one call.
        let turn = self.case + self.turn();
        if turn % 2 == 1 { Schedule::Reverse } else { Schedule::Random(turn as u64) }
    }

    /// Notes a call that was made in another order, and what is different after it, if anything is.
    pub fn compared(&mut self, operation: &'static str, differing: Option<Differing>) {
        *self.reordered.entry(operation).or_default() += 1;
        if let Some(differing) = differing {
            self.unordered.entry(operation).or_insert((self.case, self.during.clone(), differing));
        }
    }

    /// Notes a call that does not come to its end in another order.
    pub fn stopped(&mut self, operation: &'static str, why: String) {
        self.stopped.entry(operation).or_insert((self.case, self.during.clone(), why));
    }

    /// Whether the present call is to be made again with variables as they were loaded.
    pub fn is_to_be_made_anew(&self) -> bool {
        !self.invalid && self.turn() <= AGAIN_ANYHOW
    }

    /// Notes what holds something else when a call finds variables as they were loaded. What is wrong in the case is put down to it.
    pub fn remembers(&mut self, operation: &'static str, what: String) {
        let why = format!(
            "{operation} comes to another `{what}` when variables of the module hold what they did when it was loaded"
        );
        self.cause.get_or_insert((KEPT, why));
        self.remembering.entry(operation).or_insert((self.case, self.during.clone(), what));
    }

    /// Of values that nobody gave and the present call used: in how many calls it was tried already whether results hang on them, of that of which
    /// it was tried least. None where it is known that they do.
    pub fn tried(&self) -> Option<usize> {
        let seen = self.of_values.iter().map(|index| &self.seen[*index]);
        seen.filter(|seen| seen.matters != Some(true)).map(|seen| seen.tried).min()
    }

    /// Notes whether results of the present call hang on values that nobody gave, and whether it put any into a state. Where they do, these may
    /// have come from there.
    pub fn settle(&mut self, matters: bool, into_state: bool) {
        for index in &self.of_values {
            let seen = &mut self.seen[*index];
            seen.matters = Some(matters || seen.matters == Some(true));
            seen.tried += 1;
        }
        if matters {
            self.into_states.iter().for_each(|index| self.seen[*index].matters = Some(true));
        }
        if into_state {
            self.into_states.extend(&self.of_values);
        }
    }

    /// What this device and another one saw of the same kernels in other cases, as if one had seen it all.
    pub fn join(&mut self, other: Record) {
        for seen in other.seen {
            match self.seen.iter_mut().find(|known| known.is(&seen.fault)) {
                Some(known) => {
                    let count = known.fault.count + seen.fault.count;
                    let cases = &known.cases | &seen.cases;
                    let (matters, invalid) = (known.matters.max(seen.matters), known.invalid && seen.invalid);
                    if seen.order() < known.order() {
                        *known = seen;
                    }
                    (known.fault.count, known.cases) = (count, cases);
                    (known.matters, known.invalid) = (matters, invalid);
                }
                None => self.seen.push(seen),
            }
        }
        self.seen.sort_by_key(Seen::order);
        keep_first(&mut self.unordered, other.unordered);
        keep_first(&mut self.stopped, other.stopped);
        keep_first(&mut self.remembering, other.remembering);
        keep_first(&mut self.printed, other.printed);
        self.asked.extend(other.asked);
        for (operation, count) in other.reordered {
            *self.reordered.entry(operation).or_default() += count;
        }
        self.instructions += other.instructions;
        self.launched |= other.launched;
        self.unfollowed = self.unfollowed.take().into_iter().chain(other.unfollowed).min();
    }

    /// Calls whose results were compared between two orders.
    pub fn reordered(&self) -> usize {
        self.reordered.values().sum()
    }

    /// What came of running calls again in another order; none if some operation was never compared, and none is known to differ.
    pub fn repeats(&self) -> Option<Repeats> {
        let tried =
            format!("{} calls, run again with blocks, warps and lanes in another order", self.reordered());
        let differs = self.unordered.iter().next();
        let differs =
            differs.map(|(operation, (.., of))| format!("{operation} gives another `{}`", of.buffer));
        let stops =
            self.stopped.keys().next().map(|operation| format!("{operation} does not come to its end"));
        let differs = stops.or(differs);
        let is_known =
            differs.is_some() || self.asked.iter().all(|operation| self.reordered_of(operation) > 0);
        (is_known && !self.asked.is_empty()).then_some(Repeats { tried, differs })
    }

    /// What was wrong with how kernels did their work in these cases, whatever their answers were; a pass if nothing was.
    pub fn findings(&self, cases: &[Box<dyn Case>]) -> Vec<Finding> {
        let failed = |about: &str, check: &str, dimension, severity, message, suspect| {
            finding_about(about, check, dimension, Outcome::Fail, severity, message, Some(suspect))
        };
        // What was seen only while a failure was shrunk, or measured, was in none of them.
        let smallest = |seen: &mut dyn Iterator<Item = usize>| {
            seen.filter_map(|at| cases.get(at)).min_by_key(|case| case.weight()).map(|case| case.id())
        };
        // Failures are shrunk side by side, so nothing but its line orders what came up in none of the cases.
        let line_of = |seen: &&Seen| {
            let is_in_none = seen.cases.first().is_none_or(|first| *first >= cases.len());
            is_in_none.then(|| (seen.fault.line.clone(), seen.fault.kind, seen.fault.other.clone()))
        };
        let mut told: Vec<&Seen> = self.seen.iter().collect();
        told.sort_by_key(line_of);
        let mut findings = Vec::new();
        for seen in told {
            let Seen { fault, during, cases, .. } = seen;
            let (kernel, name) = (&fault.kernel, fault.kind.name());
            let line = fault.line.to_string();
            let about = format!("{SANITIZER}{kernel}/{}", line.replace(' ', "_"));
            let check = match &fault.other {
                // Two races at one line are with two others.
                Some(other) => format!("{name}_with_line_{}", other.line),
                None => name.to_owned(),
            };
            let effect = match seen.matters {
                Some(false) => "; no result hung on it, whatever was put there",
                _ if seen.invalid => "; such a call must be refused",
                _ => "",
            };
            let message = format!("kernel `{kernel}`, {fault}, first in {during}{effect}");
            let dimension = match fault.kind {
                Kind::UnseenWrite | Kind::WarpSynchronous => Dimension::Stability,
                _ => Dimension::Correctness,
            };
            findings.push(Finding {
                seen_in: smallest(&mut cases.iter().copied()),
                ..failed(&about, &check, dimension, seen.severity(), message, name)
            });
        }
        if self.seen.is_empty() && self.launched {
            let message = format!("{} instructions of warps", self.instructions);
            let (dimension, note) = (Dimension::Correctness, Severity::Note);
            findings.push(finding_about("sanitizer", "clean", dimension, Outcome::Pass, note, message, None));
        }
        if let Some((case, kernel)) = &self.unfollowed {
            let message = format!(
                "kernel `{kernel}` does more than is remembered of who has seen what: races in global memory may have gone unseen"
            );
            let (dimension, note) = (Dimension::Code, Severity::Note);
            let about = format!("{SANITIZER}{kernel}");
            findings.push(Finding {
                seen_in: smallest(&mut [*case].into_iter()),
                ..finding_about(&about, "followed", dimension, Outcome::Pass, note, message, None)
            });
        }
        for (kernel, (case, during, text)) in &self.printed {
            let message = format!("kernel `{kernel}` printed, first in {during}: {text:?}");
            // In a dimension that counts no cases: who prints gains nothing by it.
            let (dimension, note) = (Dimension::Code, Severity::Note);
            let about = format!("{SANITIZER}{kernel}");
            findings.push(Finding {
                seen_in: smallest(&mut [*case].into_iter()),
                ..finding_about(&about, "printed", dimension, Outcome::Pass, note, message, None)
            });
        }
        for (operation, (case, during, Differing { buffer, how })) in &self.unordered {
            let message = format!(
                "{operation} gives another `{buffer}` when blocks, warps and lanes run in another order, as they may on a GPU at any time, first in \
                 {during}{how}"
            );
            let about = format!("{SANITIZER}{operation}");
            let (dimension, minor) = (Dimension::Stability, Severity::Minor);
            findings.push(Finding {
                seen_in: smallest(&mut [*case].into_iter()),
                ..failed(&about, "same_in_any_order", dimension, minor, message, "order_dependent")
            });
        }
        for (operation, (case, during, why)) in &self.stopped {
            let message = format!(
                "{operation} does not come to its end when blocks, warps and lanes run in another order, as they may on a GPU at any time, \
                 first in {during}: {why}"
            );
            let about = format!("{SANITIZER}{operation}");
            let (dimension, critical) = (Dimension::Correctness, Severity::Critical);
            findings.push(Finding {
                seen_in: smallest(&mut [*case].into_iter()),
                ..failed(&about, "ends_in_any_order", dimension, critical, message, "order_dependent")
            });
        }
        for (operation, (case, during, what)) in &self.remembering {
            let message = format!(
                "{operation} comes to another `{what}` when variables of the module hold what they did when it was loaded: what is kept between \
                 calls belongs into a state; first in {during}"
            );
            let about = format!("{SANITIZER}{operation}");
            let (dimension, critical) = (Dimension::Correctness, Severity::Critical);
            findings.push(Finding {
                seen_in: smallest(&mut [*case].into_iter()),
                ..failed(&about, "same_in_a_new_module", dimension, critical, message, KEPT)
            });
        }
        findings
    }
}

/// Adds what was found by others; of what both found, the first counts.
fn keep_first<K: Ord, T: Ord>(known: &mut BTreeMap<K, T>, others: BTreeMap<K, T>) {
    for (key, found) in others {
        match known.entry(key) {
            Entry::Vacant(free) => drop(free.insert(found)),
            Entry::Occupied(mut taken) if found < *taken.get() => drop(taken.insert(found)),
            Entry::Occupied(_) => {}
        }
    }
}

/// As much of what a launch printed as a finding has room for.
fn start_of(printed: &str) -> String {
    let text = printed.trim_end();
    let mut start: String = text.chars().take(PRINTED_MOST).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

#[cfg(test)]
mod tests {
    use tribunal_simt::fault::{Line, Thread};

    use super::*;

    /// What becomes of a value that nobody gave, used in one call, if results of the next hang on another that was used there: whether the first call
    /// put it into a state, and whether the second is of the same case.
    fn first_matters(into_state: bool, same_case: bool) -> Option<bool> {
        let used = |line: u32| fault::Fault {
            kind: Kind::Uninitialised,
            kernel: "k".to_owned(),
            line: Line { file: None, line },
            other: None,
            count: 1,
            thread: Thread { block: [0; 3], thread: [0; 3] },
            detail: String::new(),
        };
        let mut record = Record::default();
        record.begin(0);
        record.begin_call("append");
        record.note_faults(&[used(1)], "");
        record.settle(false, into_state);
        if !same_case {
            record.begin(1);
        }
        record.begin_call("attend");
        record.note_faults(&[used(2)], "");
        record.settle(true, false);
        assert_eq!(record.seen[1].matters, Some(true));
        record.seen[0].matters
    }

    #[test]
    fn what_put_a_value_into_a_state_is_at_fault_with_who_uses_it() {
        assert_eq!(first_matters(true, true), Some(true));
        assert_eq!(first_matters(false, true), Some(false));
        assert_eq!(first_matters(true, false), Some(false));
    }
}
