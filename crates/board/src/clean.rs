//! Text from a submission, made harmless for a terminal.
//!
//! A name or a message may hold anything: escape sequences that repaint the screen, characters that reverse what
//! follows, or that cannot be seen. They are not dropped, since they are evidence, but spelt out.

/// More marks than this on one letter only serve to paint over the lines around it.
const MARKS_MAX: usize = 4;

/// The text on one line, with everything that does not simply stand for itself spelt out as `\u{202e}`.
/// Line breaks and tabs become spaces.
pub fn line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut marks = 0;
    for c in text.chars() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        match c {
            '\n' | '\t' => clean.push(' '),
            '\r' if text.contains("\r\n") => {}
            c if is_hidden(c) || marks > MARKS_MAX => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

/// As [`line()`], cut to at most `max` characters.
pub fn cut(text: &str, max: usize) -> String {
    let clean = line(text);
    match clean.char_indices().nth(max) {
        Some(_) => clean.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
        None => clean,
    }
}

/// Characters that act on others, or that take up no place: controls, format characters, fillers.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e000}'..='\u{f8ff}' // private use: whatever the font says
            | '\u{110bd}' | '\u{110cd}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{10ffff}')
}

fn is_mark(c: char) -> bool {
    unicode_width::UnicodeWidthChar::width(c) == Some(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_acts_on_a_terminal(text in tribunal_hostile::text("a\u{1b}[31mb\u{202e}\u{301}\u{301}\u{e0001}\r\nc"), max in 0..40_usize) {
            let shown = line(&text);
            prop_assert!(!shown.chars().any(is_hidden), "{shown:?}");
            prop_assert_eq!(line(&shown), shown);
            prop_assert!(cut(&text, max).chars().count() <= max.max(1));
        }
    }

    #[test]
    fn what_acts_on_a_terminal_is_spelt_out() {
        for (hostile, shown) in [
            ("\u{1b}[2Jall gone", "\\u{1b}[2Jall gone"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{1b}]8;;http://evil\u{7}here", "\\u{1b}]8;;http://evil\\u{7}here"),
            ("score: \u{202e}001", "score: \\u{202e}001"),
            ("\u{2066}\u{2069}\u{200b}\u{feff}", "\\u{2066}\\u{2069}\\u{200b}\\u{feff}"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
            ("one\ntwo\r\nthree\tfour", "one two three four"),
            ("over\rwritten", "over\\u{d}written"),
            ("\u{8}\u{7f}\0", "\\u{8}\\u{7f}\\u{0}"),
        ] {
            assert_eq!(line(hostile), shown, "{hostile:?}");
        }
    }

    #[test]
    fn ordinary_writing_is_left_alone() {
        for text in ["Ünïcödé", "注意力", "e\u{301}", "∂x ≤ 3·10⁻⁴ µs", "🙂", "α_β"] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn heaps_of_marks_do_not_spill_over_other_lines() {
        let heap = format!("a{}", "\u{301}".repeat(50));
        assert!(line(&heap).starts_with("a\u{301}\u{301}\u{301}\u{301}\\u{301}"));
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("日本語日本語日", 4), "日本語…");
    }
}
