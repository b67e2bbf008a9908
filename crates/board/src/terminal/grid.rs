//! Cells in columns: each column as wide as what is in it where all fit side by side, else words are broken into lines.
//!
//! Of our own, because comfy-table 8 takes 0.24 to 0.33 s for a board of 10,000 where this takes 0.09 to 0.16, and all of it may take 0.5.

use std::borrow::Cow;

use rayon::prelude::*;
use unicode_width::UnicodeWidthStr;

/// Rows that are laid out together.
const ROWS_AT_ONCE: usize = 256;

/// Words have room in a column of this width.
const ROOM_FOR_WORDS: usize = 12;

/// So much is not worth the narrowing of a column.
const SLACK: usize = 3;

/// A table under its head.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// A letter a column: `w` for words, which may be broken; `n` for numbers, which stand at the right end; `t` for other short things.
    pub(crate) columns: String,
    /// Whether the head of a column of numbers stands at the right end too.
    pub(crate) heads_follow: bool,
    /// Spaces after each column.
    pub(crate) gap: usize,
}

impl Grid {
    /// Whether words have room, with every number on one line.
    pub(crate) fn fits(&self, width: usize) -> bool {
        let least = |(width, kind)| if kind == b'w' { ROOM_FOR_WORDS.min(width) } else { width };
        let least: usize = self.widest().into_iter().zip(self.columns.bytes()).map(least).sum();
        least <= self.room(width)
    }

    /// The lines. Numbers are broken only where words would have no room.
    pub(crate) fn lay(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut lines = String::new();
        self.row(&mut lines, &self.head, &widths, self.heads_follow);
        lines += &"─".repeat(1 + widths.iter().map(|width| width + self.gap).sum::<usize>());
        lines.push('\n');
        let laid = self.rows.par_chunks(ROWS_AT_ONCE).map(|rows| {
            let mut lines = String::new();
            for row in rows {
                self.row(&mut lines, row, &widths, true);
            }
            lines
        });
        lines + &laid.collect::<Vec<String>>().concat()
    }

    fn room(&self, width: usize) -> usize {
        width.saturating_sub(1 + self.gap * self.columns.len())
    }

    /// The width of each column, unbroken.
    fn widest(&self) -> Vec<usize> {
        let of = |row: &Vec<String>| row.iter().map(|cell| cell.width()).collect::<Vec<_>>();
        let wider = |a: Vec<usize>, b: Vec<usize>| a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect();
        let head = of(&self.head);
        self.rows.par_iter().with_min_len(ROWS_AT_ONCE).map(of).reduce(|| head.clone(), wider)
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths = self.widest();
        let may_break = !self.fits(width);
        let mut open: Vec<usize> = (0..widths.len())
            .filter(|&column| may_break || self.columns.as_bytes()[column] == b'w')
            .collect();
        let closed: usize =
            (0..widths.len()).filter(|column| !open.contains(column)).map(|column| widths[column]).sum();
        let mut left = self.room(width).saturating_sub(closed);
        let whole = widths.clone();
        // Who needs less than an equal share leaves the rest to the others: whole, and then broken.
        for breaks in [false, true] {
            let needed = |column: usize, share: usize| {
                if !breaks {
                    return Some(whole[column]).filter(|whole| *whole <= share);
                }
                Some(self.longest_line(column, share)).filter(|longest| longest + SLACK <= share)
            };
            while let Some((at, needed)) = (open.iter().enumerate())
                .find_map(|(at, &column)| Some((at, needed(column, left / open.len())?)))
            {
                widths[open.remove(at)] = needed;
                left = left.saturating_sub(needed);
            }
        }
        for (index, &column) in open.iter().enumerate() {
            widths[column] = (left / open.len() + usize::from(index < left % open.len())).max(1);
        }
        widths
    }

    fn longest_line(&self, column: usize, width: usize) -> usize {
        let longest = |row: &Vec<String>| {
            broken(&row[column], width).iter().map(|line| line.width()).max().unwrap_or(0)
        };
        let longest_below = self.rows.par_iter().with_min_len(ROWS_AT_ONCE).map(longest).max();
        longest(&self.head).max(longest_below.unwrap_or(0))
    }

    fn row(&self, lines: &mut String, row: &[String], widths: &[usize], right: bool) {
        let cells: Vec<Vec<Cow<'_, str>>> =
            row.iter().zip(widths).map(|(cell, &width)| broken(cell, width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let begins = lines.len();
            for ((cell, &width), kind) in cells.iter().zip(widths).zip(self.columns.bytes()) {
                let text = cell.get(line).map_or("", |text| text);
                let blank = width.saturating_sub(text.width());
                let (before, after) = if right && kind == b'n' { (blank, 0) } else { (0, blank) };
                let gap = if lines.len() == begins { 1 } else { self.gap };
                lines.extend(std::iter::repeat_n(' ', gap + before));
                *lines += text;
                lines.extend(std::iter::repeat_n(' ', after));
            }
            lines.truncate(lines.trim_end().len().max(begins));
            lines.push('\n');
        }
    }
}

/// A cell in lines, between words where there are any.
fn broken(cell: &str, width: usize) -> Vec<Cow<'_, str>> {
    if cell.width() <= width {
        return vec![Cow::Borrowed(cell)];
    }
    let options = textwrap::Options::new(width.max(1)).word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(cell, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(rows: &[[&str; 3]]) -> Grid {
        let of = |row: &[&str; 3]| row.iter().map(|&cell| cell.to_owned()).collect();
        Grid {
            head: of(&["name", "score", "why"]),
            rows: rows.iter().map(of).collect(),
            columns: "wnw".to_owned(),
            heads_follow: true,
            gap: 2,
        }
    }

    #[test]
    fn what_fits_stands_side_by_side() {
        let laid = grid(&[["a", "9.5", ""], ["bob", "100.0", "rows mixed"]]).lay(40);
        let expected = [" name  score  why", &"─".repeat(26), " a       9.5", " bob   100.0  rows mixed"];
        assert_eq!(laid.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn words_are_broken_and_numbers_are_not() {
        let grid = grid(&[["a-name-without-any-space", "100.0", "words that have to be broken"]]);
        let laid = grid.lay(40);
        assert!(laid.lines().all(|line| line.width() <= 40), "{laid}");
        assert!(laid.contains(" 100.0 ") && laid.contains(" words that"), "{laid}");
        let text = |c: char| !c.is_whitespace();
        let cells = laid.lines().skip(2).collect::<String>();
        assert_eq!(cells.matches(text).count(), 24 + 5 + "wordsthathavetobebroken".len(), "nothing is lost");
    }

    #[test]
    fn numbers_are_broken_before_words_have_no_room() {
        let grid = grid(&[["time of all", "1.20 ms (×1.00 [0.939, 1.06])", "tie: alice, bob"]]);
        assert!(!grid.fits(40) && grid.fits(60));
        let laid = grid.lay(40);
        assert!(laid.lines().all(|line| line.width() <= 40), "{laid}");
        assert!(laid.contains(" time of all ") && laid.contains(" 1.20 ms"), "{laid}");
    }
}
