//! What kernels print.

/// Bytes of output that are kept.
const MOST: usize = 1 << 16;

/// Whether nothing more is kept.
pub(super) fn is_full(out: &str) -> bool {
    out.len() >= MOST
}

/// Appends what `printf` makes of a format and its arguments, as they lie in memory.
pub(super) fn print(out: &mut String, format: &str, arguments: &[u8]) {
    if is_full(out) {
        return;
    }
    let mut at = 0;
    let mut take = |size: usize| {
        at = usize::next_multiple_of(at, size);
        let bytes = arguments.get(at..at + size).unwrap_or(&[]);
        at += size;
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(value)
    };
    let mut rest = format;
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        let end = rest.find(|c: char| c.is_ascii_alphabetic() && !"hlzjt".contains(c) || c == '%');
        let Some(end) = end else { break };
        let (options, kind) = (&rest[..end], rest.as_bytes()[end]);
        let long = options.contains(['l', 'z', 'j', 't']);
        let precision = options.split_once('.').and_then(|(_, digits)| {
            digits.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().ok()
        });
        let precision = precision.map(|digits| digits.min(64));
        match kind {
            b'%' => out.push('%'),
            b'd' | b'i' if long => out.push_str(&(take(8) as i64).to_string()),
            b'd' | b'i' => out.push_str(&(take(4) as i32).to_string()),
            b'u' => out.push_str(&take(if long { 8 } else { 4 }).to_string()),
            b'x' | b'X' => out.push_str(&format!("{:x}", take(if long { 8 } else { 4 }))),
            b'p' => out.push_str(&format!("{:#x}", take(8))),
            b'c' => out.push(char::from(take(4) as u8)),
            b'e' | b'E' => out.push_str(&format!("{:e}", f64::from_bits(take(8)))),
            b'f' | b'F' => out.push_str(&format!("{:.*}", precision.unwrap_or(6), f64::from_bits(take(8)))),
            b'g' | b'G' | b'a' => out.push_str(&f64::from_bits(take(8)).to_string()),
            _ => {
                take(8);
                out.push('?');
            }
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    if out.len() > MOST {
        let end = (0..=MOST).rev().find(|&end| out.is_char_boundary(end)).unwrap_or(0);
        out.truncate(end);
        out.push_str("\n… and more");
    }
}

#[cfg(test)]
mod tests {
    use super::print;

    #[test]
    fn numbers_of_all_kinds() {
        let mut arguments = Vec::new();
        arguments.extend_from_slice(&(-3i32).to_le_bytes());
        arguments.extend_from_slice(&[0; 4]);
        arguments.extend_from_slice(&1.5f64.to_le_bytes());
        arguments.extend_from_slice(&7u64.to_le_bytes());
        let mut out = String::new();
        print(&mut out, "i = %d, x = %.2f, n = %llu, 100 %%\n", &arguments);
        assert_eq!(out, "i = -3, x = 1.50, n = 7, 100 %\n");
    }

    #[test]
    fn formats_that_end_early() {
        let mut out = String::new();
        print(&mut out, "50%", &[]);
        print(&mut out, "%d", &[]);
        assert_eq!(out, "500");
    }
}
