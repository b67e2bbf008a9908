//! Text to tokens.

use super::Error;

/// A piece of text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    /// A name, a directive, or the name of an instruction with its modifiers.
    Word(&'a str),
    /// A number as it is written.
    Number(&'a str),
    /// A string without its quotes.
    Text(&'a str),
    /// Any other sign.
    Sign(u8),
}

/// A token and its line, from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lexeme<'a> {
    pub token: Token<'a>,
    pub line: u32,
}

fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// The length of the prefix of `bytes` in which `belongs` holds.
fn span(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !belongs(byte)).unwrap_or(bytes.len())
}

/// The length of a word, in which `::` may stand but no single colon. One that begins with a point ends before the next.
fn word(bytes: &[u8]) -> usize {
    if bytes[0] == b'.' {
        return 1 + span(&bytes[1..], |byte| in_word(byte) && byte != b'.');
    }
    let mut length = span(bytes, in_word);
    while bytes[length..].starts_with(b"::") && bytes.get(length + 2).is_some_and(|&byte| in_word(byte)) {
        length += 2 + span(&bytes[length + 2..], in_word);
    }
    length
}

/// The length of a number: digits, letters of a base or a type, a point, and the sign of a decimal exponent.
fn number(bytes: &[u8]) -> usize {
    let digits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
    let mut length = span(bytes, digits);
    let coded = bytes.len() > 1
        && bytes[0] == b'0'
        && matches!(bytes[1].to_ascii_lowercase(), b'x' | b'f' | b'd' | b'b');
    if !coded
        && matches!(bytes[length - 1], b'e' | b'E')
        && matches!(bytes.get(length), Some(b'+' | b'-'))
        && bytes.get(length + 1).is_some_and(u8::is_ascii_digit)
    {
        length += 1 + span(&bytes[length + 1..], |byte| byte.is_ascii_digit());
    }
    length
}

/// All tokens of a text, without comments.
pub(super) fn tokens(text: &str) -> Result<Vec<Lexeme<'_>>, Error> {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(text.len() / 4);
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (token, length) = match rest[0] {
            b'\n' => {
                line += 1;
                at += 1;
                continue;
            }
            byte if byte.is_ascii_whitespace() || byte == 0 => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with(b"//") => {
                at += span(rest, |byte| byte != b'\n');
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                let length = rest[2..]
                    .windows(2)
                    .position(|pair| pair == b"*/")
                    .ok_or(Error::Open { line, what: "comment" })?;
                line += newlines(&rest[..length + 2]);
                at += length + 4;
                continue;
            }
            b'"' => {
                let length = quoted(rest).ok_or(Error::Open { line, what: "string" })?;
                (Token::Text(&text[at + 1..at + length - 1]), length)
            }
            byte if byte.is_ascii_digit() => {
                let length = number(rest);
                (Token::Number(&text[at..at + length]), length)
            }
            byte if in_word(byte) => {
                let length = word(rest);
                (Token::Word(&text[at..at + length]), length)
            }
            byte if byte.is_ascii_graphic() => (Token::Sign(byte), 1),
            _ => {
                let character = text[at..].chars().next().unwrap_or_default();
                return Err(Error::Character { line, character });
            }
        };
        found.push(Lexeme { token, line });
        line += newlines(&rest[..length]);
        at += length;
    }
    Ok(found)
}

/// The length of the string with which `bytes` begins.
fn quoted(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at + 1)
}

fn newlines(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let spell = |lexeme: &Lexeme<'_>| match lexeme.token {
            Token::Word(word) => word.to_owned(),
            Token::Number(number) => format!("#{number}"),
            Token::Text(text) => format!("{text:?}"),
            Token::Sign(sign) => char::from(sign).to_string(),
        };
        tokens(text).unwrap().iter().map(spell).collect()
    }

    #[test]
    fn words_keep_points_and_double_colons() {
        assert_eq!(
            words("@!%p1 ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f1, _}, [%rd1+-16];"),
            [
                "@",
                "!",
                "%p1",
                "ld.global.nc.L1::no_allocate.L2::128B.v4.f32",
                "{",
                "%f1",
                ",",
                "_",
                "}",
                ",",
                "[",
                "%rd1",
                "+",
                "-",
                "#16",
                "]",
                ";"
            ]
        );
        assert_eq!(
            words("$L__BB0_1:\nmov.u32 %r1, %tid.x;"),
            ["$L__BB0_1", ":", "mov.u32", "%r1", ",", "%tid.x", ";"]
        );
    }

    #[test]
    fn directives_need_no_space_between_them() {
        assert_eq!(
            words("{.reg.b16 hl;.align 4 .b8 x[4]"),
            ["{", ".reg", ".b16", "hl", ";", ".align", "#4", ".b8", "x", "[", "#4", "]"]
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(
            words("0f3F800000 0x1F 1.5e-3 8.0 12U 0d3FF0000000000000 0x1e-1"),
            ["#0f3F800000", "#0x1F", "#1.5e-3", "#8.0", "#12U", "#0d3FF0000000000000", "#0x1e", "-", "#1"]
        );
    }

    #[test]
    fn comments_and_strings_count_their_lines() {
        let found = tokens("/* a\n b */ x // y\n\"p;\\\"q\"\nz").unwrap();
        assert_eq!(
            found.iter().map(|lexeme| (lexeme.token, lexeme.line)).collect::<Vec<_>>(),
            [(Token::Word("x"), 2), (Token::Text("p;\\\"q"), 3), (Token::Word("z"), 4)]
        );
    }

    #[test]
    fn what_does_not_end_is_named() {
        assert_eq!(tokens("\n/* x"), Err(Error::Open { line: 2, what: "comment" }));
        assert_eq!(tokens("\"x\\\""), Err(Error::Open { line: 1, what: "string" }));
        assert_eq!(tokens("a\n\u{e9}"), Err(Error::Character { line: 2, character: '\u{e9}' }));
    }
}
