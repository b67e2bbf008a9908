//! What must hold, and the calls that show whether it does.

use std::rc::Rc;

use tribunal_contract::{DType, Fault, StateId, Tensor};
use tribunal_runner::MachineError;

use super::blocks::Room;
use super::calls;
use super::cases::CacheCase;
use super::config::Config;
use super::directions::Directions;
use super::known::Known;
use super::model::{Attended, Flaw, Model, Place, Tokens};
use super::recipes::{Contents, Drawn};
use super::script::{Plot, Step};
use super::spread::{DEVIATIONS, Spread};
use crate::direction::Finding;
use crate::lead::{Lead, budgets, digits};
use crate::report::{Report, Step as Outcome, Stop};
use crate::{Court, Observation};

/// Parts of what a step appends are drawn as if they were steps so much later.
const PARTS: usize = 3000;

const FITS: &str = "refuses_what_does_not_fit";

/// Caches of more elements than this are not held against every flaw.
const FLAWS_MOST: usize = 1 << 16;

/// Whether a cache is held against every flaw.
pub(super) fn is_held_against_flaws(config: &Config) -> bool {
    let Config { layers, batch, kv_heads, head_dim, max_len, .. } = *config;
    layers * batch * kv_heads * head_dim * max_len <= FLAWS_MOST
}

/// Puts the subject to a case.
pub(super) fn examine(case: &CacheCase, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError> {
    let steps = case.steps(court.seed);
    let mut report = hear(case, court, &steps)?;
    let turns = steps.iter().any(|(_, step)| *step == Step::Turn);
    if turns && report.has_failed() && are_right_alone(case, court, &steps)? {
        report.blame("cache_shared", "each of two caches is right alone, and not while the other is in use");
    }
    Ok(report.finish())
}

/// Takes those steps.
fn hear(case: &CacheCase, court: &mut Court<'_>, steps: &[(usize, Step)]) -> Result<Report, MachineError> {
    let mut trial = Trial::new(case, court);
    match trial.run(steps) {
        Err(Stop::Machine(error)) => return Err(error),
        Err(Stop::Fault { call, fault }) => trial.fault(call, &fault),
        Ok(()) => {}
    }
    trial.conclude();
    Ok(trial.report)
}

/// Whether each of two caches is right when the steps of the other are left out.
fn are_right_alone(
    case: &CacheCase,
    court: &mut Court<'_>,
    steps: &[(usize, Step)],
) -> Result<bool, MachineError> {
    let mut of = [Vec::new(), Vec::new()];
    let mut which = 0;
    for step in steps {
        match step.1 {
            Step::Turn => which = 1 - which,
            _ => of[which].push(step.clone()),
        }
    }
    for steps in of {
        if hear(case, court, &steps)?.has_failed() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Something that was done to the cache and what came of it, kept until something is wrong.
enum Event {
    Append {
        layer: usize,
        drawn: Rc<Drawn>,
        t: usize,
        counts: Vec<usize>,
    },
    Attend {
        layer: usize,
        drawn: Rc<Drawn>,
        t: usize,
        counts: Vec<usize>,
        right: Rc<Attended>,
        actual: Vec<f64>,
        wrong: bool,
    },
    Clear(usize),
    Fork(usize, usize),
    Lengths {
        actual: Vec<usize>,
        right: Vec<usize>,
    },
    /// So many new tokens for a layer: refused or not, as they should be or not.
    Tried {
        layer: usize,
        counts: Vec<usize>,
        refused: bool,
        right: bool,
    },
}

/// The worst that was seen of the output.
struct Worst {
    used: f64,
    message: String,
}

/// A cache, what it should be, and what was done to it.
struct Held {
    cache: StateId,
    right: Model,
    events: Vec<Event>,
}

struct Trial<'c, 's, 'k> {
    court: &'c mut Court<'s>,
    case: &'k CacheCase,
    config: Config,
    /// What those who come before the case work out, where anybody remembers.
    known: Option<Rc<Known>>,
    report: Report,
    held: Held,
    /// The other of two caches.
    other: Option<Held>,
    spread: Spread,
    /// The first output that is wrong.
    worst: Option<Worst>,
    lengths_wrong: Option<String>,
    /// A refusal after which the cache was another.
    spoiled: Option<String>,
    /// What is being done, for messages.
    now: String,
}

impl Held {
    fn new(config: Config, known: &Option<Rc<Known>>, court: &mut Court<'_>) -> Self {
        let right = Model::new(config, None).knowing(known);
        Self { cache: court.new_state(), right, events: Vec::new() }
    }
}

impl<'c, 's, 'k> Trial<'c, 's, 'k> {
    fn new(case: &'k CacheCase, court: &'c mut Court<'s>) -> Self {
        let config = case.config;
        let known: Option<Rc<Known>> = court.remembers().then(|| court.recall(&(), Rc::default));
        let held = Held::new(config, &known, court);
        Self {
            court,
            case,
            config,
            known,
            report: Report::new(case.severity()),
            held,
            other: None,
            spread: Spread::default(),
            worst: None,
            lengths_wrong: None,
            spoiled: None,
            now: String::new(),
        }
    }

    fn run(&mut self, steps: &[(usize, Step)]) -> Outcome<()> {
        self.create()?;
        for (taken, (index, step)) in steps.iter().enumerate() {
            self.now = format!("step {} of {}, {}", taken + 1, steps.len(), words(step));
            match step {
                Step::Feed(counts) | Step::Append(counts) => {
                    // Where layers are not equally long, some may have room and others not.
                    let layers = self.config.layers;
                    let mut turn = (0..layers).map(|layer| (index + layer) % layers);
                    match turn.find(|&layer| self.held.right.room(layer, counts) == Room::Lacks) {
                        None if matches!(step, Step::Append(_)) => self.append_to_all(*index, counts)?,
                        None => self.feed(*index, counts)?,
                        Some(layer) => {
                            if !self.overflow(layer, *index, counts)? {
                                return Ok(());
                            }
                        }
                    }
                }
                Step::FeedLayer(layer, counts) => {
                    if self.held.right.room(*layer, counts) != Room::Lacks {
                        let drawn = self.draw(*index, *layer, counts);
                        let t = width(*index, counts);
                        if self.append(*layer, &drawn, t, counts)? {
                            self.attend(*layer, &drawn, t, counts)?;
                        }
                    } else if !self.overflow(*layer, *index, counts)? {
                        return Ok(());
                    }
                }
                Step::Clear(sequence) => {
                    self.call("clear", &[*sequence])?;
                    self.held.right.clear(*sequence);
                    self.held.events.push(Event::Clear(*sequence));
                }
                Step::Fork { source, target } => {
                    if !self.held.right.can_fork(*source, *target) {
                        continue;
                    }
                    self.call("fork", &[*source, *target])?;
                    self.held.right.fork(*source, *target);
                    self.held.events.push(Event::Fork(*source, *target));
                }
                Step::Misconfigure(config) => {
                    if !self.misconfigure(config)? {
                        return Ok(());
                    }
                }
                Step::Turn => match self.other.take() {
                    Some(other) => self.other = Some(std::mem::replace(&mut self.held, other)),
                    None => {
                        let other = Held::new(self.config, &self.known, self.court);
                        self.other = Some(std::mem::replace(&mut self.held, other));
                        self.create()?;
                    }
                },
            }
            self.lengths()?;
        }
        self.bytes()?;
        for held in [&self.held].into_iter().chain(&self.other) {
            self.court.release(held.cache)?;
        }
        Ok(())
    }

    fn create(&mut self) -> Outcome<()> {
        self.court.call(&calls::create(&self.config, self.held.cache)).map_err(Stop::at("create"))?;
        self.lengths()
    }

    /// Tokens for each layer, in one of four orders: each layer in turn, from the first or from the last; every layer appended to
    /// before one is attended; and in two parts, which are attended together.
    fn feed(&mut self, index: usize, counts: &[usize]) -> Outcome<()> {
        let layers: Vec<usize> = (0..self.config.layers).collect();
        let drawn: Vec<Rc<Drawn>> = layers.iter().map(|&layer| self.draw(index, layer, counts)).collect();
        let t = width(index, counts);
        match index % 4 {
            0 => self.each_in_turn(layers.into_iter(), &drawn, t, counts),
            2 => self.each_in_turn(layers.into_iter().rev(), &drawn, t, counts),
            1 => {
                let mut appended = Vec::new();
                for (layer, drawn) in drawn.iter().enumerate() {
                    appended.push(self.append(layer, drawn, t, counts)?);
                    if layer == 0 {
                        self.lengths()?;
                    }
                }
                for (layer, drawn) in drawn.iter().enumerate().filter(|(layer, _)| appended[*layer]) {
                    self.attend(layer, drawn, t, counts)?;
                }
                Ok(())
            }
            _ => {
                for (layer, drawn) in drawn.iter().enumerate() {
                    let appended = self.append_in_parts(layer, index, counts)?;
                    self.attend(layer, drawn, t, &appended)?;
                }
                Ok(())
            }
        }
    }

    /// Tokens for each layer, which nobody attends: queries are not even drawn.
    fn append_to_all(&mut self, index: usize, counts: &[usize]) -> Outcome<()> {
        let without_queries = Config { heads: 0, ..self.config };
        for layer in 0..self.config.layers {
            let drawn = self.draw_for(&without_queries, index, layer, counts);
            self.append(layer, &drawn, width(index, counts), counts)?;
        }
        Ok(())
    }

    fn each_in_turn(
        &mut self,
        layers: impl Iterator<Item = usize>,
        drawn: &[Rc<Drawn>],
        t: usize,
        counts: &[usize],
    ) -> Outcome<()> {
        for layer in layers {
            if self.append(layer, &drawn[layer], t, counts)? {
                self.attend(layer, &drawn[layer], t, counts)?;
            }
        }
        Ok(())
    }

    /// The first half of so many tokens, and the others. How many were not refused.
    fn append_in_parts(&mut self, layer: usize, index: usize, counts: &[usize]) -> Outcome<Vec<usize>> {
        let second: Vec<usize> = counts.iter().map(|count| count / 2).collect();
        let first: Vec<usize> = counts.iter().zip(&second).map(|(count, second)| count - second).collect();
        let mut appended = vec![0; counts.len()];
        for (part, counts) in
            [first, second].iter().enumerate().filter(|(_, part)| part.iter().any(|&n| n > 0))
        {
            let index = index + PARTS * (part + 1);
            let drawn = self.draw(index, layer, counts);
            if !self.append(layer, &drawn, width(index, counts), counts)? {
                break;
            }
            appended.iter_mut().zip(counts).for_each(|(appended, count)| *appended += count);
        }
        Ok(appended)
    }

    fn draw(&self, index: usize, layer: usize, counts: &[usize]) -> Rc<Drawn> {
        self.draw_for(&self.config, index, layer, counts)
    }

    fn draw_for(&self, config: &Config, index: usize, layer: usize, counts: &[usize]) -> Rc<Drawn> {
        let purpose = format!("{}#{index}.{layer}", self.case.stem());
        let (t, held) = (width(index, counts), self.held.right.lengths_of(layer));
        let draw = || {
            let rng = self.court.seed.rng(&purpose);
            Rc::new(self.case.kind.contents.draw(rng, config, t, counts, &held))
        };
        self.court.recall(&(purpose.clone(), *config, counts.to_vec(), held.clone()), draw)
    }

    /// Appends tokens that fit. Whether they were: a cache may refuse them where it depends on what it shares.
    fn append(&mut self, layer: usize, drawn: &Rc<Drawn>, t: usize, counts: &[usize]) -> Outcome<bool> {
        let may_refuse = self.held.right.room(layer, counts) == Room::Depends;
        let outcome = self.try_append(layer, drawn, t, counts);
        let refused = matches!(&outcome, Err(Stop::Fault { fault, .. }) if fault.refuses());
        let right = !refused || may_refuse;
        self.held.events.push(Event::Tried { layer, counts: counts.to_vec(), refused, right });
        if refused && may_refuse {
            return Ok(false);
        }
        outcome?;
        self.held.right.append(layer, &Tokens { k: &drawn.k, v: &drawn.v, t }, counts);
        self.held.events.push(Event::Append { layer, drawn: Rc::clone(drawn), t, counts: counts.to_vec() });
        Ok(true)
    }

    fn try_append(&mut self, layer: usize, drawn: &Drawn, t: usize, counts: &[usize]) -> Outcome<()> {
        let Config { batch, kv_heads, head_dim, .. } = self.config;
        let tensor =
            |values: &[f64]| Tensor::from_f64(DType::Float32, [batch, kv_heads, t, head_dim], values);
        let (k, v, lengths) = (tensor(&drawn.k), tensor(&drawn.v), calls::lengths(counts));
        let call = calls::append(self.held.cache, layer, [&k, &v], &lengths);
        let answer = self.court.call(&call).map_err(Stop::at("append"))?;
        self.report.conduct("append", &["cache", "layer", "k", "v", "lengths"], &answer);
        Ok(())
    }

    fn attend(&mut self, layer: usize, drawn: &Rc<Drawn>, t: usize, counts: &[usize]) -> Outcome<()> {
        let Config { batch, heads, head_dim, .. } = self.config;
        if counts.iter().all(|&count| count == 0) {
            return Ok(());
        }
        let shape = [batch, heads, t, head_dim];
        let (q, lengths) = (Tensor::from_f64(DType::Float32, shape, &drawn.q), calls::lengths(counts));
        let call = calls::attend(self.held.cache, layer, &q, &lengths);
        let answer = self.court.call(&call).map_err(Stop::at("attend"))?;
        self.report.conduct("attend", &["cache", "layer", "q", "lengths"], &answer);
        let right = self.held.right.attend(layer, &drawn.q, t, counts);
        self.exhibit(&right, t);
        let actual = self.rows_of(&answer.outputs[0], &right, t);
        let wrong = self.compare(&right, &actual, layer);
        let counts = counts.to_vec();
        self.held.events.push(Event::Attend {
            layer,
            drawn: Rc::clone(drawn),
            t,
            counts,
            right,
            actual,
            wrong,
        });
        Ok(())
    }

    /// Holds an output against what it should be. Whether it is wrong.
    fn compare(&mut self, right: &Attended, actual: &[f64], layer: usize) -> bool {
        let used = self.used(right, actual);
        if self.config.bits != 32 {
            self.spread.add(&Spread::of(right, actual));
        }
        let wrong = !(used.0 <= 1.0);
        if wrong
            && self.worst.as_ref().is_none_or(|worst| worst.used.is_finite() && used.0 > 100.0 * worst.used)
        {
            let message = self.describe(right, actual, used, layer);
            self.worst = Some(Worst { used: used.0, message });
        } else if !wrong && self.worst.is_none() {
            self.report.pass("out_within_budget", Some(used.0));
        }
        wrong
    }

    /// Whether everything that was seen is what caches with that flaw do, and something of it is wrong.
    fn explains(&self, flaw: Flaw) -> bool {
        let mut all = Spread::default();
        let mut explains = false;
        for held in [&self.held].into_iter().chain(&self.other) {
            match self.explains_one(flaw, held, &mut all) {
                None => return false,
                Some(wrong) => explains |= wrong,
            }
        }
        // What honest storage does is well within what it may do.
        explains && all.used() <= 0.6
    }

    /// The same of one cache: whether something is wrong, if it is all explained.
    fn explains_one(&self, flaw: Flaw, held: &Held, all: &mut Spread) -> Option<bool> {
        let mut model = Model::new(self.config, Some(flaw)).knowing(&self.known);
        let mut explains = false;
        for event in &held.events {
            match event {
                Event::Append { layer, drawn, t, counts } => {
                    model.append(*layer, &Tokens { k: &drawn.k, v: &drawn.v, t: *t }, counts);
                }
                Event::Clear(sequence) => model.clear(*sequence),
                Event::Fork(source, target) => model.fork(*source, *target),
                Event::Tried { layer, counts, refused, right } => match model.room(*layer, counts) {
                    Room::Suffices if *refused => return None,
                    Room::Lacks if !*refused => return None,
                    Room::Depends => {}
                    _ => explains |= !right,
                },
                Event::Lengths { actual, right } => {
                    // Lengths may be counted apart from what is kept, and be right; but a sequence that is not empty is not cleared.
                    let apart = right == actual && flaw != Flaw::ClearForgotten;
                    if model.lengths() != *actual && !apart {
                        return None;
                    }
                    explains |= right != actual;
                }
                Event::Attend { layer, drawn, t, counts, right, actual, wrong } => {
                    // Single tokens and prompts may be other code.
                    if !*wrong && matches!(flaw, Flaw::NotRescaled { .. } | Flaw::ContextCut { .. }) {
                        continue;
                    }
                    let flawed = model.attend(*layer, &drawn.q, *t, counts);
                    let fits = if self.config.bits == 32 {
                        error_in_budgets(&flawed, actual).0 <= 1.0
                    } else {
                        let spread = Spread::of(&flawed, actual);
                        all.add(&spread);
                        // One call has few numbers: it may be off by more than the case.
                        spread.used() <= 1.5
                    };
                    if !fits {
                        return None;
                    }
                    explains |= *wrong && differs(&flawed, right);
                }
            }
        }
        Some(explains)
    }

    /// The largest error in budgets, and where. With fewer bits than 32, errors are taken together, over the call.
    fn used(&self, right: &Attended, actual: &[f64]) -> (f64, usize) {
        match self.config.bits {
            32 => error_in_budgets(right, actual),
            _ => (Spread::of_call(right, actual), Spread::worst(right, actual)),
        }
    }

    fn describe(
        &self,
        right: &Attended,
        actual: &[f64],
        (used, worst): (f64, usize),
        layer: usize,
    ) -> String {
        let dim = self.config.head_dim;
        let wrong: Vec<Place> = right
            .rows
            .iter()
            .enumerate()
            .filter(|(row, _)| {
                (row * dim..(row + 1) * dim)
                    .any(|i| !((actual[i] - right.values[i]).abs() <= right.budget[i]))
            })
            .map(|(_, place)| *place)
            .collect();
        let Place { sequence, head, position, .. } = right.rows[worst / dim];
        let also = if self.config.bits == 32 {
            format!(
                "; {} of {} queries of the call are wrong{}",
                wrong.len(),
                right.rows.len(),
                self.whose(&wrong, right)
            )
        } else {
            ", more than storage explains".to_owned()
        };
        format!(
            "{}: out of layer {layer} is wrong, worst for sequence {sequence}, head {head}, position {position}: got {}, should be \
             {}, {} off{also}",
            self.now,
            digits(actual[worst]),
            digits(right.values[worst]),
            budgets(used)
        )
    }

    /// What the wrong queries have in common.
    fn whose(&self, wrong: &[Place], right: &Attended) -> String {
        let only = |part: fn(&Place) -> usize, what: &str| {
            let mut all: Vec<usize> = right.rows.iter().map(part).collect();
            let mut of: Vec<usize> = wrong.iter().map(part).collect();
            for list in [&mut all, &mut of] {
                list.sort_unstable();
                list.dedup();
            }
            (of.len() < all.len()).then(|| {
                let list: Vec<String> = of.iter().take(6).map(ToString::to_string).collect();
                let more = if of.len() > 6 { " …" } else { "" };
                format!("{what} {}{more}", list.join(", "))
            })
        };
        let parts: Vec<String> = [
            only(|place| place.sequence, "only of sequence"),
            only(|place| place.head, "only of head"),
            only(|place| place.position, "only at position"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) }
    }

    /// The rows of an output that are looked at.
    fn rows_of(&self, out: &Tensor, right: &Attended, t: usize) -> Vec<f64> {
        let Config { heads, head_dim, .. } = self.config;
        let all = out.to_f64();
        let start = |place: &Place| ((place.sequence * heads + place.head) * t + place.query) * head_dim;
        right.rows.iter().flat_map(|place| &all[start(place)..start(place) + head_dim]).copied().collect()
    }

    fn exhibit(&mut self, right: &Attended, t: usize) {
        let Config { batch, heads, head_dim, .. } = self.config;
        let whole = |parts: &[f64]| {
            let mut all = vec![0.0; batch * heads * t * head_dim];
            for (place, part) in right.rows.iter().zip(parts.chunks(head_dim)) {
                let start = ((place.sequence * heads + place.head) * t + place.query) * head_dim;
                all[start..start + head_dim].copy_from_slice(part);
            }
            Tensor::from_f64(DType::Float64, [batch, heads, t, head_dim], &all)
        };
        self.court.exhibit("attend", "expected", "out", || whole(&right.values));
        self.court.exhibit("attend", "budget", "out", || whole(&right.budget));
    }

    /// Tokens that do not fit must be refused, and nothing must have changed: neither lengths nor what attention sees. Whether
    /// the case can go on: what a cache holds that has accepted them is anybody's guess.
    fn overflow(&mut self, layer: usize, index: usize, counts: &[usize]) -> Outcome<bool> {
        self.look(layer, index + 1000)?;
        let was_right = self.worst.is_none() && self.lengths_wrong.is_none();
        let drawn = self.draw(index, layer, counts);
        self.court.doubt(true);
        let outcome = self.try_append(layer, &drawn, width(index, counts), counts);
        self.court.doubt(false);
        let refused = outcome.is_err();
        self.held.events.push(Event::Tried { layer, counts: counts.to_vec(), refused, right: refused });
        match outcome {
            Err(Stop::Fault { fault, .. }) if fault.refuses() => {}
            Err(stop) => return Err(stop),
            Ok(()) => {
                let why = if self.config.paged.is_some() { "blocks or max_len do" } else { "max_len does" };
                let message = format!("{}: accepted, though {why} not suffice", self.now);
                // What became of them tells whether there was room in its books, or no look at them.
                let counts = counts.to_vec();
                let t = width(index, &counts);
                self.held.events.push(Event::Append { layer, drawn, t, counts });
                let before = self.lengths_wrong.clone();
                self.lengths()?;
                self.lengths_wrong = before;
                if let Some(Event::Lengths { right, .. }) = self.held.events.last_mut() {
                    // No length is right now: a flaw must give the one that is there.
                    right.clear();
                }
                let suspect = match self.leads_now().as_slice() {
                    [] if was_right => Some("written_past_the_end"),
                    [only] => Some(only.suspect),
                    _ => None,
                };
                self.report.fail(FITS, suspect, message);
                return Ok(false);
            }
        }
        self.report.pass(FITS, None);
        self.look(layer, index + 2000)?;
        self.lengths()?;
        if was_right && (self.worst.is_some() || self.lengths_wrong.is_some()) {
            self.spoiled = Some(format!("{}: refused, and the cache is not what it was before", self.now));
        }
        Ok(true)
    }

    /// A configuration that cannot be served must be refused. Whether the case can go on: what crashes takes its caches along.
    fn misconfigure(&mut self, config: &Config) -> Outcome<bool> {
        let cache = self.court.new_state();
        self.court.doubt(true);
        let outcome = self.court.call(&calls::create(config, cache)).map_err(Stop::at("create"));
        self.court.doubt(false);
        let lives = match &outcome {
            Ok(_) => true,
            Err(Stop::Fault { fault, .. }) => fault.refuses(),
            Err(_) => false,
        };
        if outcome.is_ok() {
            self.court.release(cache)?;
        }
        let (what, condition) = misconfigured(config);
        let refusal = self.court.refusal("create", condition);
        self.report.must_be_refused(outcome.map(drop), &what, refusal)?;
        Ok(lives)
    }

    /// The newest token of every sequence, asked about once more.
    fn look(&mut self, layer: usize, index: usize) -> Outcome<()> {
        let newest: Vec<usize> =
            self.held.right.lengths_of(layer).iter().map(|&length| length.min(1)).collect();
        let again = self.draw(index, layer, &newest);
        self.attend(layer, &again, width(index, &newest), &newest)
    }

    fn call(&mut self, operation: &'static str, numbers: &[usize]) -> Outcome<()> {
        let call = calls::of_cache(operation, self.held.cache, numbers, None);
        self.court.call(&call).map_err(Stop::at(operation)).map(drop)
    }

    /// What the cache says of its lengths.
    fn lengths(&mut self) -> Outcome<()> {
        let Config { layers, batch, .. } = self.config;
        let call = calls::of_cache("lengths", self.held.cache, &[], Some(&[layers, batch]));
        let answer = self.court.call(&call).map_err(Stop::at("lengths"))?;
        let length = |number: f64| if number < 0.0 { usize::MAX } else { number as usize };
        let actual: Vec<usize> = answer.outputs[0].to_f64().into_iter().map(length).collect();
        let right = self.held.right.lengths();
        self.held.events.push(Event::Lengths { actual: actual.clone(), right: right.clone() });
        if right == actual {
            if self.lengths_wrong.is_none() {
                self.report.pass("lengths_right", None);
            }
        } else if self.lengths_wrong.is_none() {
            let table = |lengths: &[usize]| {
                let rows: Vec<String> = lengths.chunks(batch).map(|row| format!("{row:?}")).collect();
                rows.join(" ")
            };
            self.lengths_wrong = Some(format!(
                "{}: lengths by layer are {}, should be {}",
                self.now,
                table(&actual),
                table(&right)
            ));
        }
        Ok(())
    }

    /// What the cache says of its size: not less than the numbers it holds.
    fn bytes(&mut self) -> Outcome<()> {
        let answer = self
            .court
            .call(&calls::of_cache("nbytes", self.held.cache, &[], Some(&[])))
            .map_err(Stop::at("nbytes"))?;
        let said = answer.outputs[0].get(0);
        let Config { kv_heads, head_dim, bits, .. } = self.config;
        // Forks may share everything but what they appended.
        let tokens = if self.case.kind.plot.forks() { 0 } else { self.held.right.lengths().iter().sum() };
        let least = (2 * tokens * kv_heads * head_dim * bits) as f64 / 8.0;
        if said >= least {
            self.report.pass("nbytes_covers_what_is_held", None);
        } else {
            let message =
                format!("nbytes says {said}, and the numbers held take {least} bytes at {bits} bits each");
            self.report.fail_lightly("nbytes_covers_what_is_held", Some("nbytes_understated"), message);
        }
        Ok(())
    }

    fn fault(&mut self, call: &'static str, fault: &Fault) {
        let refused = call == "append" && fault.refuses();
        // What was wrong before has its consequences.
        if refused && (self.worst.is_some() || self.lengths_wrong.is_some()) {
            return;
        }
        let of = if self.now.is_empty() { call.to_owned() } else { format!("{call} ({})", self.now) };
        self.report.fault(&of, &[DType::Float32, DType::Int64], fault);
        if refused && let [only] = self.leads_now().as_slice() {
            self.report.blame(only.suspect, &only.says);
        }
    }

    /// The errors of all calls, and where they might point.
    fn directions(&self) -> Directions {
        let (mut model, mut directions) = (Model::new(self.config, None), Directions::new(self.config));
        for event in &self.held.events {
            match event {
                Event::Append { layer, drawn, t, counts } => {
                    model.append(*layer, &Tokens { k: &drawn.k, v: &drawn.v, t: *t }, counts);
                }
                Event::Attend { layer, drawn, t, right, actual, .. } => {
                    let tokens = |sequence| model.tokens(*layer, sequence);
                    directions.add(*layer, &tokens, (&drawn.q, *t), right, actual);
                }
                _ => {}
            }
        }
        directions
    }

    /// The flaws that explain everything that was seen, if something was wrong.
    fn leads(&self) -> Vec<Lead> {
        if self.worst.is_none() && self.lengths_wrong.is_none() { Vec::new() } else { self.leads_now() }
    }

    fn leads_now(&self) -> Vec<Lead> {
        let mut leads: Vec<Lead> = Vec::new();
        if !is_held_against_flaws(&self.config) {
            return leads;
        }
        // A maximum that begins too high gives the same there, and few bits leave scores so open that what is not brought to a larger one may be anything.
        let low = self.case.kind.contents == Contents::Low;
        let is_blurred = |flaw: &Flaw| matches!(flaw, Flaw::NoMaximum | Flaw::NotRescaled { .. });
        let apply = |flaw: &Flaw| flaw.applies(&self.config) && !(low && is_blurred(flaw));
        for flaw in Flaw::ALL.into_iter().filter(apply) {
            let suspect = flaw.suspect();
            if leads.iter().all(|lead| lead.suspect != suspect) && self.explains(flaw) {
                leads.push(Lead { suspect, says: format!("it behaves as if {}", flaw.says()) });
            }
        }
        leads
    }

    /// Names what is wrong, where one flaw explains everything that was seen.
    fn conclude(&mut self) {
        let used = self.spread.used();
        if self.config.bits != 32 && self.worst.is_none() {
            if used <= 1.0 {
                self.report.pass("out_within_budget", Some(used));
            } else {
                let message = format!(
                    "over all calls out is off by {:.1} standard deviations of what {} bits explain",
                    used * DEVIATIONS,
                    self.config.bits
                );
                self.worst = Some(Worst { used, message });
            }
        }
        if self.case.kind.plot == Plot::Directions && self.worst.is_none() && !self.report.has_failed() {
            let found = self.directions().strongest();
            Finding::report(found, &mut self.report, "out_error_without_direction", "out");
        }
        let leads = self.leads();
        if let Some(Worst { used, message }) = self.worst.take() {
            self.report.wrong("out_within_budget", message, Some(used), leads.clone(), true);
        }
        if let Some(message) = self.lengths_wrong.take() {
            self.report.wrong("lengths_right", message, None, leads.clone(), true);
        }
        if let Some(message) = self.spoiled.take().filter(|_| leads.is_empty()) {
            self.report.blame("refusal_changes_cache", &message);
        }
    }
}

/// How many tokens wide the tensors of a step are: now and then wider than the longest.
fn width(index: usize, counts: &[usize]) -> usize {
    counts.iter().max().copied().unwrap_or(0).max(1) + index % 2
}

/// The largest error in units of its budget, and where.
fn error_in_budgets(right: &Attended, actual: &[f64]) -> (f64, usize) {
    let mut worst = (0.0, 0);
    for (index, actual) in actual.iter().enumerate() {
        let error = (actual - right.values[index]).abs();
        // Only a flaw has a NaN to be agreed with.
        let error = if right.values[index].is_nan() && actual.is_nan() { 0.0 } else { error };
        let used = if error == 0.0 { 0.0 } else { error / right.budget[index] };
        if !(used <= worst.0) {
            worst = (if used.is_nan() { f64::INFINITY } else { used }, index);
        }
    }
    worst
}

/// Whether a flaw makes a difference that can be told from rounding.
fn differs(flawed: &Attended, right: &Attended) -> bool {
    let apart = |index: usize| {
        let least = right.budget[index] + flawed.budget[index];
        !((flawed.values[index] - right.values[index]).abs() <= 2.0 * least)
    };
    (0..right.values.len()).any(apart)
}

/// A step for people.
fn words(step: &Step) -> String {
    match step {
        Step::Feed(counts) => format!("{counts:?} new tokens"),
        Step::Append(counts) => format!("{counts:?} new tokens, not attended"),
        Step::FeedLayer(layer, counts) => format!("{counts:?} new tokens in layer {layer}"),
        Step::Clear(sequence) => format!("clear of sequence {sequence}"),
        Step::Fork { source, target } => format!("fork of sequence {source} to {target}"),
        Step::Misconfigure(config) => misconfigured(config).0,
        Step::Turn => "the other of two caches".to_owned(),
    }
}

/// What is wrong with a configuration, and the condition for that in a manifest.
fn misconfigured(config: &Config) -> (String, &'static str) {
    let Config { heads, kv_heads, bits, .. } = config;
    if heads.is_multiple_of(*kv_heads) {
        let what = format!("a cache of {bits} bits, which nobody can claim,");
        (what, "bits != 32 && bits != 16 && bits != 8 && bits != 4")
    } else {
        (format!("a cache of {heads} heads for {kv_heads} heads of keys"), "heads % kv_heads != 0")
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;
    use crate::{Case, Seed, Subject};
    use tribunal_contract::{Answer, Call};
    use tribunal_runner::Trouble;

    /// Refuses everything, and says nothing.
    struct Silent;

    impl Subject for Silent {
        fn call(&mut self, _: &Call<'_>) -> Result<Answer, Trouble> {
            Err(Fault::Refused { message: String::new() }.into())
        }
        fn release(&mut self, _: StateId) -> Result<(), Trouble> {
            Ok(())
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            Ok(())
        }
    }

    #[test]
    #[ignore = "prints what docs/directions.md states"]
    fn figures() {
        let all = super::super::variants::all();
        for bits in [32, 16, 8, 4] {
            let id = format!("adversarial/directions/1x32x8x4x16x16/b{bits}/all");
            let case = cases::parse(&id).unwrap();
            for variant in all.honest.iter().chain(all.mutants.iter().map(|mutant| &mutant.variant)) {
                let shifted = ["_times", "_added_to"].iter().any(|part| variant.name.contains(part));
                if !shifted && !all.honest.iter().any(|honest| honest.name == variant.name) {
                    continue;
                }
                for seed in 0..8 {
                    let mut subject = variant.stand();
                    let mut court = Court::new(subject.as_mut(), Seed(Seed::PUBLIC.0 + seed));
                    let steps = case.steps(court.seed);
                    let mut trial = Trial::new(&case, &mut court);
                    assert!(trial.run(&steps).is_ok());
                    let used = trial.worst.as_ref().map(|worst| worst.used);
                    println!(
                        "b{bits} {} {seed}: {} wrong {used:?}",
                        variant.name,
                        trial.directions().figures()
                    );
                }
            }
        }
    }

    #[test]
    fn refusing_without_a_word_is_a_failure() {
        let case = cases::parse("edge/to_the_end/2x3x4x2x16x12/b32/all").unwrap();
        let observations = case.examine(&mut Court::new(&mut Silent, Seed::PUBLIC)).unwrap();
        assert_eq!(observations.len(), 1);
        assert_eq!(observations[0].suspect, Some("refuses_valid_input"));
    }

    #[test]
    fn a_long_context_that_does_not_fit_is_refused_by_right() {
        let case = cases::parse("scale/decode/2x2x2x1x8x600p16x20/b8/all").unwrap();
        let mut subject = super::super::variants::all().honest[0].stand();
        let observations = case.examine(&mut Court::new(subject.as_mut(), Seed::PUBLIC)).unwrap();
        assert!(observations.iter().any(|seen| seen.check == FITS));
        assert!(observations.iter().all(|seen| seen.outcome == crate::Outcome::Pass), "{observations:?}");
    }
}
