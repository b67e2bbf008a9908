//! Rotary position embedding: pairs of a head's values are rotated by angles that grow with the token's position.
//!
//! Pair `i` of a head of `d` values, at position `m`, becomes `(a cos t - b sin t, a sin t + b cos t)`, with
//! `t = m * base^(-2 i / d)`. Products of a query and a key that are rotated so depend on their positions only by the distance.
//!
//! # Cost
//!
//! Sines and cosines are taken once for each token and shared by its heads: `d / 2` of each. A value takes four
//! multiplications and additions and is read and written once.
//!
//! # Accuracy
//!
//! Angles, sines and cosines are f64, and so are the products; results are rounded once, to f32, so they are within half a
//! unit in the last place of the pair's length for any position that f64 holds exactly.
//!
//! # Source
//!
//! Su et al. 2021, "RoFormer", <https://arxiv.org/abs/2104.09864>, equation 34.

/// Which values of a head are a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairs {
    /// Values `2 i` and `2 i + 1`, as in the paper.
    Interleaved,
    /// Values `i` and `i + d / 2`, as in GPT-NeoX and the models that Hugging Face has converted.
    Halves,
}

/// Why a rotation was refused. No buffer has been touched.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RopeError {
    /// A head has an odd number of values, or none.
    #[error("rotate pairs of heads of {0} values: it must be even, and not zero")]
    HeadDim(
        /// How many values a head has.
        usize,
    ),
    /// The buffer does not consist of as many tokens as there are positions.
    #[error("rotate {got} values where tokens of {tokens} positions and heads of {head_dim} are expected")]
    Length {
        /// How many positions there are.
        tokens: usize,
        /// How many values a head has.
        head_dim: usize,
        /// How many values the buffer has.
        got: usize,
    },
    /// The base is not positive, infinite or NaN.
    #[error("take powers of a base of {0}: it must be finite and positive")]
    Base(
        /// The value given.
        f64,
    ),
}

/// Rotates queries or keys in place.
///
/// # Shapes
/// `x`: `[n, t, head_dim]`, row-major, where `t` is the number of positions and `n`, all leading axes together, follows from
/// how long `x` is. `positions`: `[t]`, the same for each of the `n`; sequences at different positions are rotated one by one.
/// # Types
/// f32, see [the module](self) for the accuracy.
/// # Errors
/// [`RopeError`] if `head_dim` is odd or zero, `x` is not a multiple of `t * head_dim` long, or the base is not finite and
/// positive; `x` is then untouched.
pub fn rotate(
    x: &mut [f32],
    head_dim: usize,
    positions: &[usize],
    base: f64,
    pairs: Pairs,
) -> Result<(), RopeError> {
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        return Err(RopeError::HeadDim(head_dim));
    }
    let (tokens, got) = (positions.len(), x.len());
    let head = tokens.checked_mul(head_dim).filter(|&head| got == 0 || head > 0 && got.is_multiple_of(head));
    let head = head.ok_or(RopeError::Length { tokens, head_dim, got })?;
    if !(base.is_finite() && base > 0.0) {
        return Err(RopeError::Base(base));
    }
    let half = head_dim / 2;
    let rates: Vec<f64> = (0..half).map(|i| base.powf(-2.0 * i as f64 / head_dim as f64)).collect();
    let mut angles = Vec::with_capacity(half);
    for (t, &position) in positions.iter().enumerate() {
        angles.clear();
        angles.extend(rates.iter().map(|rate| (position as f64 * rate).sin_cos()));
        for row in x.chunks_exact_mut(head.max(1)) {
            let row = &mut row[t * head_dim..(t + 1) * head_dim];
            for (i, &(sin, cos)) in angles.iter().enumerate() {
                let (first, second) = match pairs {
                    Pairs::Interleaved => (2 * i, 2 * i + 1),
                    Pairs::Halves => (i, i + half),
                };
                let (a, b) = (f64::from(row[first]), f64::from(row[second]));
                row[first] = (a * cos - b * sin) as f32;
                row[second] = (a * sin + b * cos) as f32;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 37 + 11) % 101) as f32 / 25.0 - 2.0).collect()
    }

    #[test]
    fn a_pair_turns_by_its_angle() {
        // Rates are 1 and 1/100 for a base of 10 000.
        for (pairs, first, second) in [(Pairs::Interleaved, [0, 1], [2, 3]), (Pairs::Halves, [0, 2], [1, 3])]
        {
            let mut x = [0.0_f32; 4];
            x[first[0]] = 1.0;
            x[second[1]] = 2.0;
            rotate(&mut x, 4, &[3], 1e4, pairs).expect("sizes agree");
            let (sin, cos) = (3.0_f64.sin(), 3.0_f64.cos());
            assert_eq!((x[first[0]], x[first[1]]), (cos as f32, sin as f32));
            let (sin, cos) = (0.03_f64.sin(), 0.03_f64.cos());
            assert_eq!((x[second[0]], x[second[1]]), ((-2.0 * sin) as f32, (2.0 * cos) as f32));
        }
    }

    #[test]
    fn position_zero_changes_nothing() {
        for pairs in [Pairs::Interleaved, Pairs::Halves] {
            let mut x = values(3 * 2 * 6);
            rotate(&mut x, 6, &[0, 0], 1e4, pairs).expect("sizes agree");
            assert_eq!(x, values(3 * 2 * 6));
        }
    }

    /// Each factor is off by half a unit in the last place of its pair's length, so a product of rows by a unit of the
    /// product of their norms, and what that of errors adds.
    #[test]
    fn products_depend_on_the_distance_alone() {
        let (q, k) = (values(64), values(128)[64..].to_vec());
        let product = |m: usize, n: usize, pairs| {
            let (mut q, mut k) = (q.clone(), k.clone());
            rotate(&mut q, 64, &[m], 1e4, pairs).expect("sizes agree");
            rotate(&mut k, 64, &[n], 1e4, pairs).expect("sizes agree");
            q.iter().zip(&k).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum::<f64>()
        };
        let norm = |x: &[f32]| x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        for pairs in [Pairs::Interleaved, Pairs::Halves] {
            let near = product(7, 3, pairs);
            for shift in [1, 100, 131_072] {
                let off = (product(7 + shift, 3 + shift, pairs) - near).abs();
                assert!(off <= 2.1 * f64::from(f32::EPSILON) * norm(&q) * norm(&k), "{shift}: {off:e}");
            }
            assert!((product(8, 3, pairs) - near).abs() > 1e-3);
        }
    }

    #[test]
    fn tokens_of_all_heads_are_rotated_alike() {
        let mut x = values(3 * 2 * 8);
        rotate(&mut x, 8, &[5, 900], 500.0, Pairs::Halves).expect("sizes agree");
        for (row, &position) in (0..6).zip([5, 900].iter().cycle()) {
            let mut alone = values(3 * 2 * 8)[row * 8..(row + 1) * 8].to_vec();
            rotate(&mut alone, 8, &[position], 500.0, Pairs::Halves).expect("sizes agree");
            assert_eq!(x[row * 8..(row + 1) * 8], alone);
        }
    }

    #[test]
    fn errors_name_what_is_wrong_and_touch_nothing() {
        let mut x = values(12);
        let pairs = Pairs::Halves;
        assert_eq!(rotate(&mut x, 3, &[1], 1e4, pairs), Err(RopeError::HeadDim(3)));
        assert_eq!(rotate(&mut x, 0, &[1], 1e4, pairs), Err(RopeError::HeadDim(0)));
        let length = |tokens, head_dim| Err(RopeError::Length { tokens, head_dim, got: 12 });
        assert_eq!(rotate(&mut x, 4, &[1, 2], 1e4, pairs), length(2, 4));
        assert_eq!(rotate(&mut x, 4, &[], 1e4, pairs), length(0, 4));
        for base in [0.0, -1.0, f64::INFINITY] {
            assert_eq!(rotate(&mut x, 4, &[1], base, pairs), Err(RopeError::Base(base)));
        }
        assert_eq!(x, values(12));
        assert_eq!(rotate(&mut [], 4, &[], 1e4, pairs), Ok(()));
    }
}
