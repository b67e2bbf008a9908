//! Whether cases try what kernels choose code of their own by, each choice with each other: a defect is mostly where two of them meet.

/// A choice, and the parts that it falls into.
pub(crate) type Choice = (&'static str, &'static [&'static str]);

/// The place of a number among parts that end with these; the last has no end.
pub(crate) fn part(number: usize, ends: &[usize]) -> usize {
    ends.iter().take_while(|&&end| number > end).count()
}

/// Pairs of parts of two choices in none of the cases, each of which is told by the part of each choice that it falls into.
pub(crate) fn missing<const N: usize>(choices: &[Choice; N], cases: &[[usize; N]]) -> Vec<String> {
    let pairs = (0..N).flat_map(|a| (0..a).map(move |b| (a, b)));
    let all = pairs.flat_map(|(a, b)| {
        let parts = (0..choices[a].1.len()).flat_map(move |i| (0..choices[b].1.len()).map(move |j| (i, j)));
        parts.map(move |(i, j)| (a, i, b, j))
    });
    let is_missing =
        |&(a, i, b, j): &(usize, usize, usize, usize)| !cases.iter().any(|case| (case[a], case[b]) == (i, j));
    let named = |(a, i, b, j): (usize, usize, usize, usize)| {
        let [(a, parts), (b, others)] = [choices[a], choices[b]];
        format!("{b} {}, {a} {}", others[j], parts[i])
    };
    all.filter(is_missing).map(named).collect()
}

#[test]
fn a_pair_in_no_case_is_named() {
    let choices = [("length", &["short", "long"][..]), ("width", &["narrow", "wide"])];
    assert_eq!(missing(&choices, &[[0, 0], [0, 1], [1, 1]]), ["length long, width narrow"]);
    assert_eq!([0, 1, 32, 33].map(|number| part(number, &[0, 32])), [0, 1, 1, 2]);
}
