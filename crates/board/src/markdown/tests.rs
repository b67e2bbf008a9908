use super::*;
use crate::samples;

#[test]
fn a_bad_verdict() {
    insta::assert_snapshot!(verdict(&samples::rejected()));
}

#[test]
fn a_hostile_submission() {
    insta::assert_snapshot!(verdict(&samples::hostile()));
}

fn all() -> [Verdict; 5] {
    [
        samples::accepted(),
        samples::rejected(),
        samples::disqualified(),
        samples::infrastructure(),
        samples::hostile(),
    ]
}

#[test]
fn a_board() {
    insta::assert_snapshot!(board(&samples::summaries(&all())));
}

/// Cells of a table's row; a pipe after a backslash is text.
fn cells(row: &str) -> Vec<String> {
    let row = row.replace("\\|", "\u{0}");
    let cells = row.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

#[test]
fn a_hostile_name_adds_no_cell_and_no_line() {
    let page = board(&samples::summaries(&all()));
    let table: Vec<_> = page.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    assert_eq!(table.len(), 2 + 4);
    assert!(table.iter().all(|row| row.len() == table[0].len()), "{page}");
}

#[test]
fn scores_can_be_recomputed_from_what_is_shown() {
    let page = board(&samples::summaries(&all()));
    let weights: Vec<f64> = page
        .lines()
        .find(|line| line.starts_with("score ="))
        .expect("a legend")
        .split('×')
        .skip(1)
        .map(|rest| {
            let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            number.trim_end_matches('.').parse().unwrap()
        })
        .collect();
    let rows = page.lines().filter(|line| line.starts_with('|')).skip(2);
    let mut recomputed = 0;
    for row in rows.map(cells) {
        let parts = row[6..6 + weights.len()].iter().zip(&weights);
        let parts: Vec<(f64, f64)> =
            parts.filter_map(|(cell, &weight)| Some((cell.parse().ok()?, weight))).collect();
        let sum: f64 = parts.iter().map(|(_, weight)| weight).sum();
        let mean: f64 = parts.iter().map(|(score, weight)| score * weight).sum::<f64>() / sum;
        let expected = match row[4].as_str() {
            "disqualified" => 0.0,
            _ if row[5].ends_with("\\*") => mean.min(50.0),
            _ => mean,
        };
        let shown: f64 = row[5].trim_end_matches("\\*").parse().unwrap();
        assert!((shown - expected).abs() <= 0.1001, "{row:?}: {expected}");
        recomputed += 1;
    }
    assert_eq!(recomputed, 4);
}
