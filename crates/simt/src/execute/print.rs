//! What kernels print: `printf` as C has it.

/// Bytes of output that are kept.
const MOST: usize = 1 << 16;

/// Most columns and digits that a number takes, whatever its width and precision ask for.
const COLUMNS: usize = 1 << 10;

/// Whether nothing more is kept.
pub(super) fn is_full(out: &str) -> bool {
    out.len() > MOST
}

/// Arguments as they lie in memory, each where its size aligns it.
struct Arguments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Arguments<'_> {
    fn take(&mut self, size: usize) -> u64 {
        let begin = self.at.next_multiple_of(size);
        self.at = begin + size;
        let bytes = self.bytes.get(begin..self.at).unwrap_or(&[]);
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(value)
    }

    /// A number of `bytes` bytes, which is an `int` where it has fewer than four; its sign goes on.
    fn signed(&mut self, bytes: u32) -> i64 {
        let unused = 64 - 8 * bytes;
        ((self.take(bytes.max(4) as usize) << unused) as i64) >> unused
    }

    fn unsigned(&mut self, bytes: u32) -> u64 {
        let unused = 64 - 8 * bytes;
        (self.take(bytes.max(4) as usize) << unused) >> unused
    }
}

/// What stands between `%` and the letter.
#[derive(Debug, Default)]
struct Options {
    left: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of an integer.
    bytes: u32,
}

impl Options {
    /// Reads them off `rest`, which then begins with the letter.
    fn read(rest: &mut &str, arguments: &mut Arguments<'_>) -> Options {
        let mut options = Options { bytes: 4, ..Options::default() };
        loop {
            match rest.as_bytes().first() {
                Some(b'-') => options.left = true,
                Some(b'+') => options.plus = true,
                Some(b' ') => options.space = true,
                Some(b'#') => options.alternative = true,
                Some(b'0') => options.zeros = true,
                _ => break,
            }
            *rest = &rest[1..];
        }
        let width = number(rest, arguments).unwrap_or(0);
        options.left |= width < 0;
        options.width = (width.unsigned_abs() as usize).min(COLUMNS);
        if let Some(after) = rest.strip_prefix('.') {
            *rest = after;
            let digits = number(rest, arguments).unwrap_or(0);
            options.precision = usize::try_from(digits).ok().map(|digits| digits.min(COLUMNS));
        }
        for (word, bytes) in [("hh", 1), ("h", 2), ("ll", 8), ("l", 8), ("z", 8), ("j", 8), ("t", 8)] {
            if let Some(after) = rest.strip_prefix(word) {
                *rest = after;
                options.bytes = bytes;
                break;
            }
        }
        options
    }

    /// A number with what goes before its digits, in as many columns as asked for.
    fn put(&self, out: &mut String, before: &str, digits: &str, zeros: bool) {
        let missing = self.width.saturating_sub(before.len() + digits.chars().count());
        let (spaces, zeros) = if zeros && self.zeros && !self.left { (0, missing) } else { (missing, 0) };
        if !self.left {
            out.extend(std::iter::repeat_n(' ', spaces));
        }
        out.push_str(before);
        out.extend(std::iter::repeat_n('0', zeros));
        out.push_str(digits);
        if self.left {
            out.extend(std::iter::repeat_n(' ', spaces));
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match negative {
            true => "-",
            false if self.plus => "+",
            false if self.space => " ",
            false => "",
        }
    }

    fn integer(&self, out: &mut String, before: &str, digits: String) {
        let digits = match self.precision {
            Some(0) if digits == "0" => String::new(),
            Some(least) => format!("{digits:0>least$}"),
            None => digits,
        };
        self.put(out, before, &digits, self.precision.is_none());
    }

    fn float(&self, out: &mut String, x: f64, kind: u8) {
        let size = x.abs();
        let (before, digits) = match kind.to_ascii_lowercase() {
            _ if x.is_nan() => ("", "nan".to_owned()),
            _ if x.is_infinite() => ("", "inf".to_owned()),
            b'a' => ("0x", self.hexadecimal(size)),
            b'e' => ("", self.scientific(size, self.precision.unwrap_or(6))),
            b'f' => ("", self.fixed(size, self.precision.unwrap_or(6))),
            _ => ("", self.general(size)),
        };
        let mut before = format!("{}{before}", self.sign(x.is_sign_negative()));
        let mut digits = digits;
        if kind.is_ascii_uppercase() {
            before.make_ascii_uppercase();
            digits.make_ascii_uppercase();
        }
        self.put(out, &before, &digits, x.is_finite());
    }

    fn fixed(&self, x: f64, precision: usize) -> String {
        let point = if self.alternative && precision == 0 { "." } else { "" };
        format!("{x:.precision$}{point}")
    }

    fn scientific(&self, x: f64, precision: usize) -> String {
        let text = format!("{x:.precision$e}");
        let (digits, exponent) = text.split_once('e').expect("Rust writes an exponent");
        let exponent: i32 = exponent.parse().expect("a number");
        let point = if self.alternative && precision == 0 { "." } else { "" };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}{point}e{sign}{:02}", exponent.abs())
    }

    /// The shorter of the two, without zeros at its end.
    fn general(&self, x: f64) -> String {
        let digits = self.precision.unwrap_or(6).max(1);
        let scientific = self.scientific(x, digits - 1);
        let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
        let power: i32 = exponent.parse().expect("a number");
        let shorter = |text: &str| match text.contains('.') && !self.alternative {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        if power < -4 || power >= digits as i32 {
            return format!("{}e{exponent}", shorter(mantissa));
        }
        shorter(&self.fixed(x, (digits as i32 - 1 - power) as usize))
    }

    /// What follows 0x.
    fn hexadecimal(&self, x: f64) -> String {
        let (fraction, biased) = (x.to_bits() & ((1 << 52) - 1), (x.to_bits() >> 52) as i32);
        let exponent = match biased {
            0 if fraction == 0 => 0,
            0 => -1022,
            _ => biased - 1023,
        };
        let mut whole = fraction | u64::from(biased != 0) << 52;
        let mut digits = 13;
        if let Some(precision) = self.precision.filter(|precision| *precision < 13) {
            let cut = 4 * (13 - precision as u32);
            let (rest, half) = (whole & ((1 << cut) - 1), 1 << (cut - 1));
            whole >>= cut;
            whole += u64::from(rest > half || (rest == half && whole & 1 == 1));
            digits = precision;
        }
        let (first, fraction) = (whole >> (4 * digits), whole & ((1 << (4 * digits)) - 1));
        let mut fraction = if digits == 0 { String::new() } else { format!("{fraction:0digits$x}") };
        match self.precision {
            None => fraction.truncate(fraction.trim_end_matches('0').len()),
            Some(precision) => fraction.extend(std::iter::repeat_n('0', precision.saturating_sub(13))),
        }
        let point = if fraction.is_empty() && !self.alternative { "" } else { "." };
        format!("{first:x}{point}{fraction}p{exponent:+}")
    }
}

/// A number in the format, or of the arguments where a star stands for it.
fn number(rest: &mut &str, arguments: &mut Arguments<'_>) -> Option<i32> {
    if let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        return Some(arguments.signed(4) as i32);
    }
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(i32::MAX))
}

/// Appends what `printf` makes of a format and its arguments, as they lie in memory. `bytes_at` are the bytes from an address on, if there are
/// any.
pub(super) fn print<'m>(
    out: &mut String,
    format: &str,
    arguments: &[u8],
    bytes_at: &dyn Fn(u64) -> Option<&'m [u8]>,
) {
    if is_full(out) {
        return;
    }
    let mut arguments = Arguments { bytes: arguments, at: 0 };
    let mut rest = format;
    while let Some(percent) = rest.find('%').filter(|_| !is_full(out)) {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        let options = Options::read(&mut rest, &mut arguments);
        let Some(kind) = rest.chars().next() else { break };
        rest = &rest[kind.len_utf8()..];
        match kind {
            '%' => out.push('%'),
            'd' | 'i' => {
                let value = arguments.signed(options.bytes);
                options.integer(out, options.sign(value < 0), value.unsigned_abs().to_string());
            }
            'u' => {
                let value = arguments.unsigned(options.bytes);
                options.integer(out, "", value.to_string());
            }
            'o' => {
                let digits = format!("{:o}", arguments.unsigned(options.bytes));
                let zero = options.alternative && !digits.starts_with('0');
                options.integer(out, "", if zero { format!("0{digits}") } else { digits });
            }
            'x' | 'X' => {
                let value = arguments.unsigned(options.bytes);
                let before = if options.alternative && value != 0 { "0x" } else { "" };
                let digits = format!("{value:x}");
                match kind {
                    'x' => options.integer(out, before, digits),
                    _ => options.integer(out, &before.to_uppercase(), digits.to_uppercase()),
                }
            }
            'p' => options.put(out, "", &format!("{:#x}", arguments.take(8)), false),
            'c' => {
                let letter = char::from(arguments.take(4) as u8);
                options.put(out, "", letter.encode_utf8(&mut [0; 4]), false);
            }
            's' => {
                let text = match bytes_at(arguments.take(8)) {
                    None => "(null)".into(),
                    Some(bytes) => {
                        let bytes = &bytes[..bytes.len().min(MOST)];
                        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                        String::from_utf8_lossy(&bytes[..end.min(options.precision.unwrap_or(end))])
                    }
                };
                options.put(out, "", &text, false);
            }
            'a' | 'A' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                options.float(out, f64::from_bits(arguments.take(8)), kind as u8);
            }
            _ => {
                arguments.take(8);
                out.push('?');
            }
        }
    }
    out.push_str(rest);
    if is_full(out) {
        let end = (0..=MOST).rev().find(|&end| out.is_char_boundary(end)).unwrap_or(0);
        out.truncate(end);
        out.push_str("\n… and more");
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, print};

    /// An argument as it lies in memory.
    #[derive(Clone, Copy)]
    enum Value {
        I(i32),
        L(i64),
        F(f64),
        /// The address of a text.
        S,
    }
    use Value::{F, I, L, S};

    fn printed(format: &str, values: &[Value]) -> String {
        let mut bytes = Vec::new();
        for value in values {
            let (size, bits) = match *value {
                I(value) => (4, u64::from(value as u32)),
                L(value) => (8, value as u64),
                F(value) => (8, value.to_bits()),
                S => (8, 7),
            };
            bytes.resize(usize::next_multiple_of(bytes.len(), size), 0);
            bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
        }
        let mut out = String::new();
        print(&mut out, format, &bytes, &|address| (address == 7).then_some(&b"text\0and more"[..]));
        out
    }

    #[test]
    fn no_more_is_made_than_is_kept() {
        let (mut out, long) = (String::new(), vec![b'a'; MOST]);
        print(&mut out, &"%s".repeat(1000), &[], &|_| Some(&long));
        assert!(out.ends_with("a\n… and more") && out.len() < MOST + 16);
        assert!(out.capacity() <= 4 * MOST, "{}", out.capacity());
    }

    #[test]
    fn integers() {
        for (format, values, expected) in [
            ("i = %d, n = %llu, 100 %%\n", &[I(-3), L(7)][..], "i = -3, n = 7, 100 %\n"),
            ("%5d|%-5d|%05d|%+d|% d", &[I(5); 5], "    5|5    |00005|+5| 5"),
            ("%.3d|%6.3d|%-6.3d|%06.3d|%.0d", &[I(-5), I(5), I(5), I(5), I(0)], "-005|   005|005   |   005|"),
            ("%u %x %X %o", &[I(-1), I(255), I(255), I(8)], "4294967295 ff FF 10"),
            ("%#x %#X %#o %#x", &[I(255), I(255), I(8), I(0)], "0xff 0XFF 010 0"),
            ("%08x|%#08x|%-8x|", &[I(255), I(255), I(255)], "000000ff|0x0000ff|ff      |"),
            (
                "%ld %lld %lu %zu %llx",
                &[L(-6), L(i64::MIN), L(-1), L(9), L(255)],
                "-6 -9223372036854775808 18446744073709551615 9 ff",
            ),
            ("%hhd %hd %hhu %hx", &[I(300), I(65537), I(-1), I(-1)], "44 1 255 ffff"),
            ("%*d|%-*d|%*d|%.*d", &[I(4), I(3), I(4), I(3), I(-4), I(3), I(2), I(1)], "   3|3   |3   |01"),
            ("%c%3c%-3c|", &[I(65), I(66), I(67)], "A  BC  |"),
            ("%p %12p", &[L(16), L(16)], "0x10         0x10"),
        ] {
            assert_eq!(printed(format, values), expected, "{format}");
        }
    }

    #[test]
    fn floats() {
        for (format, x, expected) in [
            ("%f", 1.5, "1.500000"),
            ("%F", f64::INFINITY, "INF"),
            ("%.3f", -1.2345, "-1.234"),
            ("%8.2f|", 1.5, "    1.50|"),
            ("%-8.2f|", 1.5, "1.50    |"),
            ("%08.2f", -1.5, "-0001.50"),
            ("%+f", 0.0, "+0.000000"),
            ("%.0f", 2.5, "2"),
            ("%#.0f", 2.5, "2."),
            ("%5f", f64::NAN, "  nan"),
            ("%05f", f64::NEG_INFINITY, " -inf"),
            ("%e", 3.5, "3.500000e+00"),
            ("%.2E", 1.0e-100, "1.00E-100"),
            ("%.0e", 0.0, "0e+00"),
            ("%g", 1e-7, "1e-07"),
            ("%g", 1e8, "1e+08"),
            ("%g", 0.0001, "0.0001"),
            ("%g", 100_000.0, "100000"),
            ("%g", 1e6, "1e+06"),
            ("%g", 999_999.5, "1e+06"),
            ("%.3g", 2.71428, "2.71"),
            ("%#g", 1.0, "1.00000"),
            ("%G", 1e-10, "1E-10"),
            ("%g", 0.0, "0"),
            ("%a", 1.0, "0x1p+0"),
            ("%a", -0.1, "-0x1.999999999999ap-4"),
            ("%.2a", 1.999, "0x2.00p+0"),
            ("%A", 255.5, "0X1.FFP+7"),
            ("%a", 5e-324, "0x0.0000000000001p-1022"),
            ("%a", 0.0, "0x0p+0"),
            ("%lf", 2.5, "2.500000"),
        ] {
            assert_eq!(printed(format, &[F(x)]), expected, "{format}");
        }
        assert_eq!(printed("%.*f %d", &[I(2), F(1.234), I(7)]), "1.23 7");
        assert_eq!(printed("%*.*f|%d", &[I(8), I(1), F(1.26), I(7)]), "     1.3|7");
    }

    #[test]
    fn texts() {
        assert_eq!(printed("%s %d", &[S, I(7)]), "text 7");
        assert_eq!(printed("%6s|%-6s|%.2s|%.9s", &[S; 4]), "  text|text  |te|text");
        assert_eq!(printed("%s", &[L(0)]), "(null)");
    }

    #[test]
    fn formats_that_end_early() {
        assert_eq!(printed("50%", &[]), "50");
        assert_eq!(printed("%d", &[]), "0");
        assert_eq!(printed("%-", &[]), "");
        assert_eq!(printed("%é", &[]), "?");
        assert_eq!(printed("%999999999999d", &[I(1)]).len(), 1024);
    }
}
