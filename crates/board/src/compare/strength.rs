//! Strengths from wins and ties: the model of Bradley and Terry, with ties after Davidson (1970),
//! <https://doi.org/10.1080/01621459.1970.10481082>.
//!
//! With strengths `s` and an inclination to tie `t`, `P(i wins) = s_i / d`, `P(tie) = t √(s_i s_j) / d`, with
//! `d = s_i + s_j + t √(s_i s_j)`. Everybody also ties once with an imaginary contestant of strength 1, so that who has won
//! or lost everything has a finite strength, and contestants who never met have one at all.

/// What came of meetings: `wins[i][j]` of `i` over `j`, and `ties[i][j] = ties[j][i]`.
#[derive(Debug, Clone)]
pub(super) struct Meetings {
    pub(super) wins: Vec<Vec<f64>>,
    pub(super) ties: Vec<Vec<f64>>,
}

impl Meetings {
    pub(super) fn none(contestants: usize) -> Self {
        let nothing = vec![vec![0.0; contestants]; contestants];
        Self { wins: nothing.clone(), ties: nothing }
    }
}

/// Rounds of the iteration; it gains a digit in a few.
const ROUNDS: usize = 200;

/// The strengths that make the meetings most likely, as logarithms: 0 is as strong as the imaginary contestant.
pub(super) fn strengths(meetings: &Meetings) -> Vec<f64> {
    let n = meetings.wins.len();
    // The imaginary contestant is the last.
    let (mut wins, mut ties) = (meetings.wins.clone(), meetings.ties.clone());
    for i in 0..n {
        wins[i].push(0.0);
        ties[i].push(1.0);
    }
    wins.push(vec![0.0; n + 1]);
    ties.push((0..=n).map(|i| if i < n { 1.0 } else { 0.0 }).collect());
    let all_ties: f64 = pairs(n + 1).map(|(i, j)| ties[i][j]).sum();
    let (mut s, mut t) = (vec![1.0_f64; n + 1], 1.0_f64);
    // Hunter's minorise-maximise steps (2004), each of which makes the meetings more likely.
    for _ in 0..ROUNDS {
        let mut next = s.clone();
        for i in 0..n {
            let (mut won, mut load) = (0.0, 0.0);
            for j in (0..=n).filter(|&j| j != i) {
                let met = wins[i][j] + wins[j][i] + ties[i][j];
                won += wins[i][j] + ties[i][j] / 2.0;
                load += met * (1.0 + t / 2.0 * (s[j] / s[i]).sqrt()) / total(&s, t, i, j);
            }
            next[i] = won / load;
        }
        s = next;
        let load: f64 = pairs(n + 1)
            .map(|(i, j)| (wins[i][j] + wins[j][i] + ties[i][j]) * (s[i] * s[j]).sqrt() / total(&s, t, i, j))
            .sum();
        t = all_ties / load;
    }
    s[..n].iter().map(|s| s.ln()).collect()
}

fn total(s: &[f64], t: f64, i: usize, j: usize) -> f64 {
    s[i] + s[j] + t * (s[i] * s[j]).sqrt()
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likelihood(meetings: &Meetings, s: &[f64], t: f64) -> f64 {
        let n = s.len();
        let with_last = |i: usize| if i < n { s[i].exp() } else { 1.0 };
        let s: Vec<f64> = (0..=n).map(with_last).collect();
        pairs(n + 1)
            .map(|(i, j)| {
                let d = total(&s, t, i, j);
                let (wins, losses, ties) = if j < n {
                    (meetings.wins[i][j], meetings.wins[j][i], meetings.ties[i][j])
                } else {
                    (0.0, 0.0, 1.0)
                };
                wins * (s[i] / d).ln() + losses * (s[j] / d).ln() + ties * (t * (s[i] * s[j]).sqrt() / d).ln()
            })
            .sum()
    }

    #[test]
    fn no_other_strengths_make_the_meetings_more_likely() {
        let mut meetings = Meetings::none(3);
        meetings.wins[0][1] = 3.0;
        meetings.wins[1][0] = 1.0;
        meetings.wins[1][2] = 2.0;
        meetings.wins[0][2] = 1.0;
        (meetings.ties[0][2], meetings.ties[2][0]) = (1.0, 1.0);
        let s = strengths(&meetings);
        assert!(s[0] > s[1] && s[1] > s[2], "{s:?}");
        let best_with = |s: &[f64]| {
            (1..400).map(|t| likelihood(&meetings, s, f64::from(t) * 0.02)).fold(f64::MIN, f64::max)
        };
        let found = best_with(&s);
        for i in 0..3 {
            for step in [-0.05, 0.05] {
                let mut other = s.clone();
                other[i] += step;
                assert!(best_with(&other) < found, "contestant {i} by {step}");
            }
        }
    }

    #[test]
    fn who_ties_always_is_equal_and_who_never_met_has_a_strength() {
        let mut meetings = Meetings::none(3);
        (meetings.ties[0][1], meetings.ties[1][0]) = (5.0, 5.0);
        let s = strengths(&meetings);
        assert!((s[0] - s[1]).abs() < 1e-9 && s[2].abs() < 1e-9, "{s:?}");
    }
}
