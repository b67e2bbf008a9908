//! The fault-direction test: does an error point where a change of meaning would?
//!
//! Rounding noise has no reason to line up with the derivative of the answer with respect to a semantic parameter
//! (an epsilon, the weight of a term, a scale). So the residual, in units of its budget, is projected on that
//! derivative, and the projection is compared with its own scatter.
//!
//! The scatter is taken over groups, not over elements: what rounding does to a row's mean or scale is common to the
//! row, and a thousand elements that share one rounding error are one observation. With `s` the projections of the
//! groups, `z = sum(s) / sqrt(sum(s²))`. It cannot exceed the root of the number of groups, so that a test which is to
//! be decisive needs several dozen.
//!
//! A systematic bias of rounding (outputs that are truncated, an exponential that is always low) points along a parameter
//! too. So each challenge says below which effect a parameter is not believed, however large its `z`.

use crate::report::Report;

/// |z| above which a direction is taken to be off.
pub(crate) const DECISIVE: f64 = 6.0;

/// |z| above which a direction is worth a remark.
pub(crate) const LEAD: f64 = 4.0;

/// What a projection found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Projection {
    /// How many standard errors the estimate is away from none.
    pub(crate) z: f64,
    /// By how much the parameter seems to be off.
    pub(crate) shift: f64,
    /// The share of the residual's square that the shift explains.
    pub(crate) explained: f64,
    /// The size of the shift's effect beside the size of the answer, both in budgets' units.
    pub(crate) effect: f64,
}

/// What is projected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Residual<'a> {
    /// The answer less the oracle's.
    pub(crate) error: &'a [f64],
    /// The oracle's values.
    pub(crate) values: &'a [f64],
    /// The budget of each.
    pub(crate) budget: &'a [f64],
    /// How many neighbours share their rounding errors: the length of a row.
    pub(crate) group: usize,
}

/// Projects a residual on the derivative of the answer with respect to a parameter. Elements that are not finite are
/// left out.
pub(crate) fn project(residual: Residual<'_>, derivative: &[f64]) -> Projection {
    let (mut total, mut squares, mut gradient, mut error, mut size) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let group = residual.group.max(1);
    for (start, derivative) in derivative.chunks(group).enumerate() {
        let mut score = 0.0;
        for (offset, derivative) in derivative.iter().enumerate() {
            let index = start * group + offset;
            let budget = residual.budget[index];
            let (r, g) = (residual.error[index] / budget, derivative / budget);
            let value = residual.values[index] / budget;
            if r.is_finite() && g.is_finite() && value.is_finite() {
                score += r * g;
                gradient += g * g;
                error += r * r;
                size += value * value;
            }
        }
        total += score;
        squares += score * score;
    }
    if squares == 0.0 || gradient == 0.0 {
        return Projection { z: 0.0, shift: 0.0, explained: 0.0, effect: 0.0 };
    }
    let shift: f64 = total / gradient;
    Projection {
        z: total / squares.sqrt(),
        shift,
        explained: total * total / (error * gradient),
        effect: shift.abs() * (gradient / size).sqrt(),
    }
}

/// 1 + shift, to two digits of the shift.
pub(crate) fn one_and(shift: f64) -> String {
    let places = if shift == 0.0 { 0.0 } else { 1.0 - shift.abs().log10().floor() };
    format!("{:.*}", places.clamp(1.0, 12.0) as usize, 1.0 + shift)
}

/// The projections on the derivatives of several parameters.
pub(crate) fn projections<P>(
    residual: Residual<'_>,
    derivatives: impl IntoIterator<Item = (P, Vec<f64>)>,
) -> Vec<(P, Projection)> {
    let each = derivatives.into_iter();
    each.map(|(parameter, derivative)| (parameter, project(residual, &derivative))).collect()
}

/// The parameter that explains most of a residual.
pub(crate) fn best<P>(projections: Vec<(P, Projection)>) -> Option<(P, Projection)> {
    let some = projections.into_iter().filter(|(_, found)| found.explained > 0.0);
    some.max_by(|(_, a), (_, b)| a.explained.total_cmp(&b.explained))
}

/// A parameter that a residual points along, believed and worth a remark at least.
pub(crate) struct Finding {
    suspect: Option<&'static str>,
    says: String,
    z: f64,
}

impl Finding {
    /// What was found, if its effect is more than `least`. `says` names the parameter and the value it seems to have, `groups`
    /// what shares rounding errors.
    pub(crate) fn new(
        found: Projection,
        least: f64,
        suspect: Option<&'static str>,
        says: &str,
        groups: &str,
    ) -> Option<Self> {
        let z = found.z.abs();
        let says = format!("{says}: its error points there with {z:.1} standard errors over {groups}");
        (found.effect > least && z > LEAD).then_some(Self { suspect, says, z })
    }

    /// Reports a result whose elements are within their budgets: a failure, a lead, or nothing to say.
    pub(crate) fn report(found: Option<Self>, report: &mut Report, check: &'static str, result: &str) {
        match found {
            Some(Self { suspect, says, z }) if z > DECISIVE => {
                report.fail(check, suspect, format!("{result} is within its budget, but {says}"));
            }
            Some(lead) => report.note(check, format!("a lead: {}", lead.says)),
            None => report.pass(check, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: usize = 8;

    /// Noise of at most a half, the same in every run.
    fn noise(index: usize) -> f64 {
        let bits = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((bits ^ (bits >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }

    fn projected(error: impl Fn(usize) -> f64) -> Projection {
        let error: Vec<f64> = (0..2048).map(error).collect();
        let derivative: Vec<f64> = (0..2048).map(|i| 1.0 + noise(i + 5000)).collect();
        let ones = vec![1.0; 2048];
        project(Residual { error: &error, values: &ones, budget: &ones, group: GROUP }, &derivative)
    }

    #[test]
    fn noise_points_nowhere() {
        assert!(projected(noise).z.abs() < LEAD);
    }

    #[test]
    fn noise_common_to_a_row_counts_once() {
        assert!(projected(|i| noise(i / GROUP)).z.abs() < LEAD);
    }

    #[test]
    fn a_shift_far_below_the_noise_is_found_and_measured() {
        let found = projected(|i| noise(i) + 0.1 * (1.0 + noise(i + 5000)));
        assert!(found.z > DECISIVE, "{found:?}");
        assert!((found.shift - 0.1).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn without_residual_there_is_nothing_to_find() {
        assert_eq!(projected(|_| 0.0).z, 0.0);
    }
}
