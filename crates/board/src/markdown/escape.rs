//! Text that is not ours, made harmless for Markdown: inside a paragraph, a list item or a table's cell.
//!
//! Renderers differ, and GitHub adds mentions, references and links of its own to the rendered text. So nothing is
//! left to act: what is hidden is spelt out, every sign that Markdown or HTML may read is escaped, and a word that
//! would become a link, a mention or a reference is shown as code, where none of that happens.

use crate::clean;

/// Longest text shown.
const CHARS_MAX: usize = 600;

/// The text, to be read as prose.
pub fn text(hostile: &str) -> String {
    let clean = clean::cut(hostile, CHARS_MAX);
    let words: Vec<String> = clean
        .split(' ')
        .filter(|word| !word.is_empty())
        .enumerate()
        .map(|(index, word)| if becomes_a_link(word) { code(word) } else { prose(word, index == 0) })
        .collect();
    words.join(" ")
}

/// The text, to be read as code.
pub fn code(hostile: &str) -> String {
    let clean = clean::cut(hostile, CHARS_MAX);
    if clean.trim().is_empty() {
        return "—".to_owned();
    }
    let longest = clean.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A space inside is stripped in pairs, and keeps the fence apart from a backtick of the text.
    let pad = if clean.starts_with(['`', ' ']) || clean.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{clean}{pad}{fence}")
}

/// What [`text`] and [`code`] made, to stand in a table. A row is split before code is recognised; there, and only there, `\|` is
/// read as `|`. Prose has none: it spells the sign as an entity.
pub fn cell(markdown: &str) -> String {
    markdown.replace('|', "\\|")
}

fn becomes_a_link(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.contains("://")
        || lower.contains("www.")
        || lower.contains("mailto:")
        || lower.contains("xmpp:")
        || word.contains('@')
        || word.contains("GH-")
        || word.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn prose(word: &str, first: bool) -> String {
    let mut escaped = String::with_capacity(word.len() + 8);
    for (index, c) in word.chars().enumerate() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '|' => escaped += "&#124;", // an entity, since `\|` after a backslash is read in several ways
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '~' | '$' | '^' | '!' => {
                escaped.extend(['\\', c])
            }
            // `:smile:` is a picture to some, and `- `, `1.` and `==` mean something at the beginning only.
            ':' if index == 0 => escaped += "&#58;",
            '-' | '+' | '=' if first && index == 0 => escaped.extend(['\\', c]),
            '.' | ')' if first && is_list_number(word) => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

fn is_list_number(word: &str) -> bool {
    let number = word.strip_suffix(['.', ')']).unwrap_or("");
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_hostile_stays_active_in_prose() {
        for (hostile, shown) in [
            ("a | b", "a &#124; b"),
            ("`rm -rf`", "\\`rm -rf\\`"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("[here](javascript:x)", "\\[here\\](javascript:x)"),
            ("![x](a.png)", "\\!\\[x\\](a.png)"),
            ("**bold** _it_ ~~no~~", "\\*\\*bold\\*\\* \\_it\\_ \\~\\~no\\~\\~"),
            ("# title", "\\# title"),
            ("- item", "\\- item"),
            ("1. item", "1\\. item"),
            ("12) item", "12\\) item"),
            ("1.5 times", "1.5 times"),
            ("=== under", "\\=== under"),
            ("two\n\n# lines", "two \\# lines"),
            ("    indented", "indented"),
            ("&lt;b&gt;", "&amp;lt;b&amp;gt;"),
            ("\\| \\", "\\\\&#124; \\\\"),
            ("$\\alpha$", "\\$\\\\alpha\\$"),
            (":tada:", "&#58;tada:"),
            ("\u{202e}evil", "\\\\u\\{202e\\}evil"),
        ] {
            assert_eq!(text(hostile), shown, "{hostile:?}");
        }
    }

    #[test]
    fn what_would_become_a_link_is_shown_as_code() {
        for (hostile, shown) in [
            ("see https://evil.example/x", "see `https://evil.example/x`"),
            ("WWW.evil.example", "`WWW.evil.example`"),
            ("ping @everyone", "ping `@everyone`"),
            ("a@b.example", "`a@b.example`"),
            ("a @`b", "a ``@`b``"),
            ("a @` b", "a `` @` `` b"),
            ("fixes #12 owner/repo#3 GH-4", "fixes `#12` `owner/repo#3` `GH-4`"),
            ("<https://evil.example>", "`<https://evil.example>`"),
        ] {
            assert_eq!(text(hostile), shown, "{hostile:?}");
        }
    }

    #[test]
    fn code_cannot_be_left_from_inside() {
        for (hostile, shown) in [
            ("plain", "`plain`"),
            ("a`b", "``a`b``"),
            ("``", "``` `` ```"),
            ("`", "`` ` ``"),
            ("a|b", "`a|b`"),
            ("", "—"),
            (" ", "—"),
            ("\n\n# x", "`   # x `"),
        ] {
            assert_eq!(code(hostile), shown, "{hostile:?}");
        }
    }

    #[test]
    fn a_backslash_stands_before_a_bar_in_tables_alone() {
        for (hostile, outside, inside) in [("a|b", "`a|b`", "`a\\|b`"), ("||", "`||`", "`\\|\\|`")] {
            assert_eq!([code(hostile), cell(&code(hostile))], [outside, inside]);
        }
        assert_eq!(text("see http://a|b"), "see `http://a|b`");
        assert_eq!(cell(&text("a | http://a|b")), "a &#124; `http://a\\|b`");
    }

    proptest! {
        // Without the signs of a link: no word is shown as code.
        #[test]
        fn prose_has_no_active_sign_left(hostile in "[^@#:wWG]{0,40}") {
            let escaped = text(&hostile);
            prop_assert!(!escaped.chars().any(char::is_control));
            prop_assert!(!escaped.contains(['<', '>', '|']));
            let mut before = ' ';
            for c in escaped.chars() {
                prop_assert!(!"`*_[]".contains(c) || before == '\\', "{escaped}");
                before = if before == '\\' && c == '\\' { ' ' } else { c };
            }
        }

        #[test]
        fn a_cell_of_code_keeps_its_row_whole(hostile in "[`|\\\\ a]{0,12}") {
            let escaped = cell(&code(&hostile));
            let mut before = ' ';
            for c in escaped.chars() {
                prop_assert!(c != '|' || before == '\\');
                before = c;
            }
            prop_assert!(!escaped.contains(&"`".repeat(hostile.len() + 2)));
        }
    }
}
