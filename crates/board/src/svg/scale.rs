//! From values to places.

use super::width;

/// Height of a label's line.
const LINE: f64 = 12.0;

/// What an axis can reach: within it every step of 1-2-5 is a double of full precision, and so many powers of ten can be counted.
const REACH: (f64, f64) = (1e-300, 1e300);

/// A logarithmic axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
}

impl Log {
    /// Around the values that have a logarithm, widened to the next step of 1-2-5; none where no value has one. Values beyond what
    /// an axis can reach stand at its end.
    pub(super) fn around(values: impl Iterator<Item = f64>, left: f64, right: f64) -> Option<Self> {
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(|value| value.clamp(REACH.0, REACH.1))
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        (low <= high).then(|| {
            let (low, mut high) = (step_below(low), step_above(high));
            if high < 2.0 * low {
                high = step_above(low * 1.5);
            }
            Self { low, high, left, right }
        })
    }

    /// Where a value stands; what lies outside stands at the end.
    pub(super) fn x(self, value: f64) -> f64 {
        // Not the logarithm of a ratio, which can be too large for a double.
        let share = (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln());
        // A NaN goes to the right, where it is seen.
        let share = if share.is_nan() { 1.0 } else { share.clamp(0.0, 1.0) };
        self.left + share * (self.right - self.left)
    }

    /// Values to mark, with labels that do not touch: steps of 1-2-5, or powers of ten where the axis is long.
    pub(super) fn ticks(self, label: &dyn Fn(f64) -> String) -> Vec<(f64, String)> {
        self.ticks_apart(label, &width)
    }

    /// The same on an axis from the bottom upwards, where a label takes the height of a line.
    pub(super) fn ticks_upwards(self, label: &dyn Fn(f64) -> String) -> Vec<(f64, String)> {
        self.ticks_apart(label, &|_| LINE)
    }

    fn ticks_apart(self, label: &dyn Fn(f64) -> String, extent: &dyn Fn(&str) -> f64) -> Vec<(f64, String)> {
        let decades: Vec<i32> = (self.low.log10().floor() as i32..=self.high.log10().ceil() as i32).collect();
        let within = |value: &f64| *value >= self.low * 0.999 && *value <= self.high * 1.001;
        let steps = |factors: &'static [f64]| {
            decades.iter().flat_map(move |&power| factors.iter().map(move |factor| factor * ten(power)))
        };
        let mut candidates = vec![steps(&[1.0, 2.0, 5.0]).collect::<Vec<_>>(), steps(&[1.0, 3.0]).collect()];
        candidates.extend((1..=decades.len() as i32).map(|stride| {
            decades.iter().filter(|&&power| power % stride == 0).map(|&power| ten(power)).collect()
        }));
        candidates
            .into_iter()
            .map(|values| values.into_iter().filter(within).map(|value| (value, label(value))).collect())
            .find(|ticks: &Vec<(f64, String)>| self.apart(ticks, extent))
            .unwrap_or_default()
    }

    fn apart(self, ticks: &[(f64, String)], extent: &dyn Fn(&str) -> f64) -> bool {
        ticks.windows(2).all(|pair| {
            let room = (extent(&pair[0].1) + extent(&pair[1].1)) / 2.0 + 6.0;
            self.x(pair[1].0) - self.x(pair[0].0) >= room
        })
    }
}

fn ten(power: i32) -> f64 {
    // Parsed, so that 0.001 is the double that is written so.
    format!("1e{power}").parse().unwrap_or(f64::NAN)
}

fn steps_of(value: f64) -> [f64; 4] {
    let power = ten(value.log10().floor() as i32);
    [power, 2.0 * power, 5.0 * power, 10.0 * power]
}

fn step_below(value: f64) -> f64 {
    let steps = steps_of(value);
    steps.into_iter().rev().find(|step| *step <= value * 1.000001).unwrap_or(steps[0])
}

fn step_above(value: f64) -> f64 {
    let steps = steps_of(value);
    steps.into_iter().find(|step| *step >= value * 0.999999).unwrap_or(steps[3])
}

/// A power of ten as people write it: `0.01`, `100`, `10⁶`.
pub(super) fn power(value: f64) -> String {
    let exponent = value.log10().round() as i32;
    if (-3..=3).contains(&exponent) {
        return value.to_string();
    }
    let digits = exponent.to_string();
    let raised = digits.chars().map(|c| match c {
        '-' => '⁻',
        c => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][c.to_digit(10).unwrap_or(0) as usize],
    });
    ['1', '0'].into_iter().chain(raised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(low: f64, high: f64) -> Vec<f64> {
        let log = Log::around([low, high].into_iter(), 0.0, 300.0).unwrap();
        log.ticks(&|value| format!("{value}")).into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn an_axis_begins_and_ends_at_a_step() {
        let log = Log::around([0.013, 4.2].into_iter(), 10.0, 110.0).unwrap();
        assert_eq!((log.low, log.high), (0.01, 5.0));
        assert!((log.x(0.01) - 10.0).abs() < 1e-9 && (log.x(5.0) - 110.0).abs() < 1e-9);
        assert!((log.x(0.01 * 500f64.sqrt()) - 60.0).abs() < 1e-9, "the middle of a ratio is the middle");
        assert_eq!([log.x(0.0), log.x(1e9), log.x(f64::NAN)], [10.0, 110.0, 110.0]);
        assert!(Log::around([f64::NAN, 0.0, -1.0].into_iter(), 0.0, 1.0).is_none());
    }

    #[test]
    fn ticks_are_as_fine_as_labels_allow() {
        assert_eq!(ticks(1.0, 10.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(1e-3, 10.0), [0.001, 0.01, 0.1, 1.0, 10.0]);
        let long = ticks(1e-3, 1e15);
        assert!(long.len() >= 3 && long.len() <= 6, "{long:?}");
        // One value only still gives an axis.
        assert_eq!(ticks(3.0, 3.0), [2.0, 5.0]);
    }

    #[test]
    fn labels_never_touch() {
        for span in 0..40 {
            let log = Log::around([1e-3, 1e-3 * 3f64.powi(span)].into_iter(), 80.0, 300.0).unwrap();
            let ticks = log.ticks(&power);
            assert!(log.apart(&ticks, &width) && !ticks.is_empty(), "{span}: {ticks:?}");
        }
    }

    #[test]
    fn the_ends_of_a_double_have_an_axis() {
        let values = [5e-324, 1e-310, 1.0, 1e308, f64::MAX];
        let pairs =
            values.iter().enumerate().flat_map(|(at, low)| values[at..].iter().map(|high| (*low, *high)));
        for (low, high) in pairs {
            let log = Log::around([low, high].into_iter(), 80.0, 300.0).unwrap();
            let ticks = log.ticks(&power);
            assert!(log.apart(&ticks, &width) && !ticks.is_empty(), "{low:e} {high:e}: {ticks:?}");
            assert!(log.x(low) <= log.x(high), "{low:e} {high:e}: {log:?}");
        }
        let log = Log::around([5e-324, f64::MAX].into_iter(), 0.0, 100.0).unwrap();
        assert!((log.x(1.0) - 50.0).abs() < 0.1, "{}", log.x(1.0));
    }

    #[test]
    fn labels_above_each_other_may_be_nearer_than_beside_each_other() {
        let log = Log::around([2e-3, 0.5].into_iter(), 0.0, 200.0).unwrap();
        let label = |value: f64| format!("{value} seconds");
        assert_eq!(log.ticks_upwards(&label).len(), 8);
        assert!(log.ticks(&label).len() < 4);
    }

    #[test]
    fn powers_are_written_short() {
        assert_eq!(
            [1e-3, 1.0, 1e3, 1e4, 1e15, 1e-7].map(power),
            ["0.001", "1", "1000", "10⁴", "10¹⁵", "10⁻⁷"]
        );
    }
}
