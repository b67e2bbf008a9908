//! Runs of tokens that occur again.
//!
//! Windows are compared with their names replaced by the distance to the name's last occurrence in the window, so a
//! copy whose variables were renamed is a copy, and two loops that merely look alike are not.

use std::collections::HashMap;

use super::facts::{Scan, TokenKind};

/// Tokens compared at once. Three nested loop headers in C are 42, and every kernel has them.
const WINDOW: usize = 50;

/// Tokens in a repeat under other names: shorter ones are idioms of the language as often as copies.
const RENAMED_TOKENS_MIN: usize = 2 * WINDOW;

/// Whole lines in a repeat, unless it has twice the tokens it needs.
const LINES_MIN: usize = 5;

/// A window with fewer kinds of token is a table or a list of fields.
const KINDS_MIN: usize = 6;

/// Earlier places tried for the longest repeat.
const CANDIDATES_MAX: usize = 8;

/// One run of tokens that repeats another. Lines are from 0 and inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) file: usize,
    pub(super) lines: (usize, usize),
    pub(super) of_file: usize,
    pub(super) of_lines: (usize, usize),
}

#[derive(Clone, Copy)]
struct Place {
    file: usize,
    line: usize,
    kind: TokenKind,
    /// Where the same name stood before.
    before: Option<usize>,
}

/// The repeats, and which lines of each file are wholly part of one.
pub(super) fn find(scans: &[Scan]) -> (Vec<Repeat>, Vec<Vec<bool>>) {
    let places = places(scans);
    let windows = windows(&places);
    let mut repeated = vec![false; places.len()];
    let mut repeats = Vec::new();
    let mut latest: HashMap<u64, usize> = HashMap::new();
    let mut earlier: Vec<Option<usize>> = vec![None; windows.len()];
    let mut covered = 0;
    for i in 0..windows.len() {
        let Some(hash) = windows[i] else { continue };
        earlier[i] = latest.insert(hash, i);
        if i < covered || earlier[i].is_some_and(|before| i - before < WINDOW) {
            // The second case is a list: its items are alike because they are items.
            continue;
        }
        let mut best: Option<(usize, usize)> = None;
        let mut candidate = earlier[i];
        for _ in 0..CANDIDATES_MAX {
            let Some(from) = candidate else { break };
            let length = shared_length(&windows, from, i);
            if best.is_none_or(|(_, longest)| length >= longest) {
                best = Some((from, length));
            }
            candidate = earlier[from];
        }
        let Some((from, length)) = best else { continue };
        if is_repeat(&places, from, i, length) {
            repeated[i..i + length].fill(true);
            covered = i + length;
            repeats.push(Repeat {
                file: places[i].file,
                lines: (places[i].line, places[i + length - 1].line),
                of_file: places[from].file,
                of_lines: (places[from].line, places[from + length - 1].line),
            });
        }
    }
    (repeats, lines(scans, &places, &repeated))
}

fn places(scans: &[Scan]) -> Vec<Place> {
    let mut last_seen = HashMap::new();
    let mut places = Vec::new();
    for (file, scan) in scans.iter().enumerate() {
        for token in &scan.tokens {
            let before = match token.kind {
                TokenKind::Name(name) => last_seen.insert(name, places.len()),
                _ => None,
            };
            places.push(Place { file, line: token.line as usize, kind: token.kind, before });
        }
        places.push(Place { file, line: 0, kind: TokenKind::Break, before: None });
    }
    places
}

/// A hash for each window; None where it cannot be a repeat.
fn windows(places: &[Place]) -> Vec<Option<u64>> {
    let count = (places.len() + 1).saturating_sub(WINDOW);
    let mut kinds: HashMap<u32, usize> = HashMap::new();
    let mut breaks = 0;
    let mut tally = |place: &Place, enters: bool| {
        if place.kind == TokenKind::Break {
            if enters { breaks += 1 } else { breaks -= 1 }
        }
        let kind = kind_number(place.kind);
        let seen = kinds.entry(kind).or_default();
        if enters {
            *seen += 1
        } else {
            *seen -= 1
        }
        if *seen == 0 {
            kinds.remove(&kind);
        }
        breaks == 0 && kinds.len() >= KINDS_MIN
    };
    for place in places.iter().take(WINDOW.saturating_sub(1)) {
        tally(place, true);
    }
    (0..count)
        .map(|start| {
            let counts = tally(&places[start + WINDOW - 1], true);
            let hash = counts.then(|| hash(places, start));
            tally(&places[start], false);
            hash
        })
        .collect()
}

fn kind_number(kind: TokenKind) -> u32 {
    match kind {
        TokenKind::Name(_) => 0,
        TokenKind::Literal => 1,
        TokenKind::Break => 2,
        TokenKind::Sign(sign) => sign.saturating_add(3),
    }
}

fn hash(places: &[Place], start: usize) -> u64 {
    let mut hash: u64 = 0;
    for (offset, place) in places[start..start + WINDOW].iter().enumerate() {
        let distance = match place.before {
            Some(before) if before >= start => start + offset - before,
            _ => 0,
        };
        let word = (u64::from(kind_number(place.kind)) << 8) | distance as u64;
        // The mixing step of splitmix64.
        hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash
}

/// Tokens from which on the two are alike, without the one reaching into the other.
fn shared_length(windows: &[Option<u64>], from: usize, to: usize) -> usize {
    let most = to - from;
    let mut steps = 0;
    while steps + WINDOW < most
        && to + steps + 1 < windows.len()
        && windows[to + steps + 1].is_some()
        && windows[to + steps + 1] == windows[from + steps + 1]
    {
        steps += 1;
    }
    steps + WINDOW
}

fn is_repeat(places: &[Place], from: usize, to: usize, length: usize) -> bool {
    let same_names = (0..length).all(|i| places[from + i].kind == places[to + i].kind);
    let tokens_min = if same_names { WINDOW } else { RENAMED_TOKENS_MIN };
    length >= tokens_min && (length >= 2 * tokens_min || whole_lines(places, to, length) >= LINES_MIN)
}

fn whole_lines(places: &[Place], start: usize, length: usize) -> usize {
    let run = &places[start..start + length];
    let (first, last) = (run[0].line, run[length - 1].line);
    let mut lines = 1 + run.windows(2).filter(|pair| pair[0].line != pair[1].line).count();
    let same = |place: Option<&Place>, line| {
        place.is_some_and(|place| place.kind != TokenKind::Break && place.line == line)
    };
    if start > 0 && same(places.get(start - 1), first) {
        lines -= 1;
    }
    if same(places.get(start + length), last) {
        lines = lines.saturating_sub(1);
    }
    lines
}

/// A line is a repeat if all tokens that begin on it are; one on which none begins is as the line before.
fn lines(scans: &[Scan], places: &[Place], repeated: &[bool]) -> Vec<Vec<bool>> {
    let mut all: Vec<Vec<Option<bool>>> = scans.iter().map(|scan| vec![None; scan.code.len()]).collect();
    for (place, &repeated) in places.iter().zip(repeated).filter(|(p, _)| p.kind != TokenKind::Break) {
        if let Some(line) = all[place.file].get_mut(place.line) {
            *line = Some(line.unwrap_or(true) && repeated);
        }
    }
    all.into_iter()
        .zip(scans)
        .map(|(lines, scan)| {
            let mut last = false;
            lines
                .into_iter()
                .zip(&scan.code)
                .map(|(line, &code)| {
                    last = line.unwrap_or(last);
                    last && code
                })
                .collect()
        })
        .collect()
}
