//! Semantic parameters of attention over a cache, and whether the errors of a whole case point along one.
//!
//! The weight of positions behind the query's is none of them: where there is nothing else to be seen, at the first position, a
//! weight of 1e-11 is over the budget in float32, and one of 0.003 in 8 bits.

use std::rc::Rc;

use super::config::Config;
use super::model::{Attended, Place, Token};
use crate::direction::{self, Finding, Projection, Residual};
use crate::precision::Precision;
use tribunal_contract::DType;

/// A parameter that has a right value. `out` is the mean of the values seen, each with the weight `exp(scale · s)` of its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
    /// What scores are multiplied by beside the root of the head's size, or the logarithm of the softmax's base.
    Scale,
    /// How often the query's own position counts.
    Own,
    /// How often the first position counts.
    First,
    /// What is added to the sum of weights, with the largest as 1.
    Extra,
    /// What the output is multiplied by.
    Factor,
}

impl Parameter {
    const ALL: [Self; 5] = [Self::Scale, Self::Own, Self::First, Self::Extra, Self::Factor];

    fn suspect(self, shift: f64) -> Option<&'static str> {
        match self {
            Self::Scale => Some("scale_off"),
            Self::Own => (0.7..1.3).contains(&shift).then_some("newest_token_twice"),
            Self::Extra => Some("extra_term_in_denominator"),
            Self::First | Self::Factor => None,
        }
    }

    fn says(self, shift: f64) -> String {
        let times = direction::one_and(shift);
        match self {
            Self::Scale => format!("scores seem to be multiplied by {times} beside 1 / sqrt(head_dim)"),
            Self::Own => format!("a query's own position seems to count {times} times"),
            Self::First => format!("the first position seems to count {times} times"),
            Self::Extra => format!("{shift:.1e} seems to be added to the sum of exp(s - max)"),
            Self::Factor => format!("out seems to be multiplied by {times}"),
        }
    }
}

/// Errors and derivatives of one case, those of a layer, sequence and head of keys together: they share what storage did to keys
/// and values.
pub(super) struct Directions {
    config: Config,
    groups: Vec<Group>,
}

#[derive(Clone, Default)]
struct Group {
    error: Vec<f64>,
    values: Vec<f64>,
    deviation: Vec<f64>,
    derivatives: [Vec<f64>; Parameter::ALL.len()],
    /// Of the keys and values last seen: the sums of magnitudes and of squares, each magnitude by its step.
    sizes: [f64; 2],
}

impl Directions {
    pub(super) fn new(config: Config) -> Self {
        let groups = config.layers * config.batch * config.kv_heads;
        Self { config, groups: vec![Group::default(); groups] }
    }

    /// Takes in the answer to one call. `tokens` are those of each sequence of the layer, and `q` is `[batch, heads, t, head_dim]`.
    pub(super) fn add(
        &mut self,
        layer: usize,
        tokens: &dyn Fn(usize) -> Vec<Rc<Token>>,
        (q, t): (&[f64], usize),
        right: &Attended,
        actual: &[f64],
    ) {
        let Config { batch, heads, kv_heads, head_dim, .. } = self.config;
        let held: Vec<Vec<Rc<Token>>> = (0..batch).map(tokens).collect();
        for (row, place) in right.rows.iter().enumerate() {
            let kv_head = place.head / self.config.group();
            let group = &mut self.groups[(layer * batch + place.sequence) * kv_heads + kv_head];
            let range = row * head_dim..(row + 1) * head_dim;
            let start = ((place.sequence * heads + place.head) * t + place.query) * head_dim;
            let out = &right.values[range.clone()];
            group.derive(&held[place.sequence], kv_head, place, &q[start..start + head_dim], out);
            for index in range {
                group.error.push(actual[index] - right.values[index]);
                group.values.push(right.values[index]);
                group.deviation.push(right.budget[index] + right.variance[index].sqrt());
            }
        }
    }

    /// Looks for the parameter that explains most of the errors.
    pub(super) fn strongest(&self) -> Option<Finding> {
        let (parameter, found) = direction::best(self.projections())?;
        let groups = format!("{} heads of keys", self.groups.len());
        let says = parameter.says(found.shift);
        Finding::new(found, self.believable(), parameter.suspect(found.shift), &says, &groups)
    }

    fn projections(&self) -> Vec<(Parameter, Projection)> {
        let all = |part: &dyn Fn(&Group) -> &Vec<f64>| {
            self.groups.iter().flat_map(part).copied().collect::<Vec<f64>>()
        };
        let (error, values) = (all(&|group| &group.error), all(&|group| &group.values));
        let deviation = all(&|group| &group.deviation);
        let group = self.groups.first().map_or(0, |group| group.error.len());
        let residual = Residual { error: &error, values: &values, budget: &deviation, group };
        let each = Parameter::ALL.iter().enumerate();
        let derivatives =
            each.map(|(index, &parameter)| (parameter, all(&|group| &group.derivatives[index])));
        direction::projections(residual, derivatives)
    }

    /// The largest effect that biased arithmetic and biased storage may have, beside the size of the output, and no parameter be
    /// accused.
    ///
    /// Arithmetic: a quotient that is always 2 ulp low (4u). An inverse root that is 2 ulp off, times a rounded log2(e), moves the
    /// scores by 6u, and the output by a fifth of that; exponentials that are all 2 ulp low move it by less, as the sum has the
    /// same error.
    ///
    /// Storage: rounding to the nearest has no bias along any parameter, and no honest cache was seen to have one. But a code that is
    /// truncated is half a step nearer to zero on average, which makes scores and outputs smaller by `Σ |x| step / 2 / Σ x²`. The
    /// elementwise checks admit that much, so it is no finding here.
    fn believable(&self) -> f64 {
        let [magnitudes, squares] =
            self.groups.iter().fold([0.0, 0.0], |[a, b], group| [a + group.sizes[0], b + group.sizes[1]]);
        let storage = if self.config.bits == 32 { 0.0 } else { 0.5 * magnitudes / squares };
        4.0 * Precision::of(DType::Float32).u + storage
    }
}

#[cfg(test)]
impl Directions {
    /// For people: z, effect and shift of every parameter, and what is believed.
    pub(super) fn figures(&self) -> String {
        let u = Precision::of(DType::Float32).u;
        let words = self.projections().into_iter().map(|(parameter, Projection { z, shift, effect, .. })| {
            format!("{parameter:?} z {z:.1} effect {effect:.1e} shift {shift:.1e}")
        });
        format!(
            "{} | believable {:.1e} ({:.1}u)",
            words.collect::<Vec<_>>().join("; "),
            self.believable(),
            self.believable() / u
        )
    }
}

impl Group {
    /// Adds the derivatives of the output of one query.
    fn derive(&mut self, held: &[Rc<Token>], kv_head: usize, place: &Place, q: &[f64], out: &[f64]) {
        let root = (q.len() as f64).sqrt();
        let score = |token: &Rc<Token>| {
            q.iter().zip(&token.k[kv_head].values).map(|(q, k)| q * k).sum::<f64>() / root
        };
        let scores: Vec<f64> = held.iter().map(score).collect();
        let seen = &scores[..=place.position];
        let max = seen.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = seen.iter().map(|score| (score - max).exp()).sum();
        let weight = |score: f64| (score - max).exp() / total;
        let mean: f64 = seen.iter().map(|&score| weight(score) * score).sum();
        for (i, out) in out.iter().enumerate() {
            let apart = |j: usize| held[j].v[kv_head].values[i] - out;
            let moved = |j: usize| weight(scores[j]) * apart(j);
            let of = |parameter| match parameter {
                Parameter::Scale => (0..seen.len()).map(|j| (scores[j] - mean) * moved(j)).sum(),
                Parameter::Own => moved(place.position),
                Parameter::First => moved(0),
                Parameter::Extra => -out / total,
                Parameter::Factor => *out,
            };
            for (derivative, parameter) in self.derivatives.iter_mut().zip(Parameter::ALL) {
                derivative.push(of(parameter));
            }
        }
        self.sizes = [0.0, 0.0];
        for stored in held.iter().flat_map(|token| [&token.k[kv_head], &token.v[kv_head]]) {
            for (i, value) in stored.values.iter().enumerate() {
                self.sizes[0] += value.abs() * stored.step(i);
                self.sizes[1] += value * value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{cases, variants};
    use crate::variant::Variant;
    use crate::{Case, Court, Observation, Outcome, Seed};

    fn observed(variant: &Variant, bits: usize, seed: u64) -> Vec<Observation> {
        let case =
            cases::parse(&format!("adversarial/directions/1x32x8x4x16x16/b{bits}/all")).expect("a case");
        let mut subject = variant.stand();
        case.examine(&mut Court::new(subject.as_mut(), Seed(Seed::PUBLIC.0 + seed)))
            .expect("no machine is involved")
    }

    #[test]
    fn honest_caches_point_nowhere() {
        for variant in variants::all().honest {
            for (bits, seed) in [(32, 1), (16, 2), (8, 3), (4, 4), (32, 5)] {
                for seen in observed(&variant, bits, seed) {
                    let Observation { outcome, message, .. } = seen;
                    assert_eq!(
                        (outcome, message.as_str()),
                        (Outcome::Pass, ""),
                        "{}, {bits} bits",
                        variant.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_shift_within_every_tolerance_is_found_and_told() {
        for (name, bits, says) in [
            ("scores_times_1.0000015", 32, "scores seem to be multiplied by 1.000001"),
            ("scores_times_1.0012_in_16_bits", 16, "scores seem to be multiplied by 1.0012"),
            ("scores_times_1.02_in_8_bits", 8, "scores seem to be multiplied by 1.0"),
            ("scores_times_1.3_in_4_bits", 4, "scores seem to be multiplied by 1."),
            ("newest_counts_1.0000027_times", 32, "a query's own position seems to count 1.000002"),
            ("first_counts_1.0000027_times", 32, "the first position seems to count 1.000002"),
            ("5e-7_added_to_the_sum", 32, "seems to be added to the sum of exp(s - max)"),
            ("out_times_1.0000005", 32, "out seems to be multiplied by 1.000000"),
        ] {
            let mutants = variants::all().mutants;
            let mutant = mutants.iter().find(|mutant| mutant.variant.name == name).expect("a mutant");
            for seed in 0..4 {
                let seen = observed(&mutant.variant, bits, seed);
                let failed: Vec<_> = seen.iter().filter(|seen| seen.outcome != Outcome::Pass).collect();
                let [only] = failed[..] else { panic!("{name}: {seen:?}") };
                assert_eq!(
                    (only.check, only.suspect),
                    ("out_error_without_direction", mutant.suspect),
                    "{name}: {only:?}"
                );
                assert!(only.message.contains(says), "{}", only.message);
            }
        }
    }
}
