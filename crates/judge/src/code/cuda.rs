//! CUDA as C++: what CUDA adds to it is blanked, byte for byte, so that lines and columns stay.

use crate::SourceFile;

/// Words that say where a function or a variable lives, and nothing of its form.
const QUALIFIERS: [&str; 10] = [
    "__device__",
    "__global__",
    "__host__",
    "__shared__",
    "__constant__",
    "__managed__",
    "__forceinline__",
    "__noinline__",
    "__restrict__",
    "__grid_constant__",
];

/// Those with arguments.
const WITH_ARGUMENTS: [&str; 4] = ["__launch_bounds__", "__align__", "__maxnreg__", "__cluster_dims__"];

/// Longer arguments are none: nobody is to make every beginning of them be read to the file's end.
const ARGUMENTS_BYTES_MAX: usize = 1024;

/// The file without CUDA's qualifiers.
pub(super) fn as_cpp(file: &SourceFile) -> SourceFile {
    let mut text = file.text.clone().into_bytes();
    for word in QUALIFIERS {
        for (at, _) in file.text.match_indices(word) {
            if is_word(&text, at, word.len()) {
                text[at..at + word.len()].fill(b' ');
            }
        }
    }
    for word in WITH_ARGUMENTS {
        for (at, _) in
            file.text.match_indices(word).filter(|(at, _)| is_word(file.text.as_bytes(), *at, word.len()))
        {
            if let Some(length) = closed(&file.text.as_bytes()[at + word.len()..]) {
                // Lines keep their number.
                let blank = text[at..at + word.len() + length].iter_mut().filter(|byte| **byte != b'\n');
                blank.for_each(|byte| *byte = b' ');
            }
        }
    }
    let text = String::from_utf8(text).expect("whole characters were replaced by spaces");
    SourceFile { text, ..file.clone() }
}

/// Whether a word is one of CUDA's that take no arguments.
pub(super) fn is_qualifier(word: &str) -> bool {
    QUALIFIERS.contains(&word)
}

fn is_word(text: &[u8], at: usize, length: usize) -> bool {
    let in_name = |byte: Option<&u8>| byte.is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    !in_name(at.checked_sub(1).and_then(|before| text.get(before))) && !in_name(text.get(at + length))
}

/// Where the first parentheses end, if they come at once and do.
fn closed(text: &[u8]) -> Option<usize> {
    let text = &text[..text.len().min(ARGUMENTS_BYTES_MAX)];
    let open = text.iter().position(|byte| !byte.is_ascii_whitespace()).filter(|&at| text[at] == b'(')?;
    let mut depth = 0usize;
    for (at, byte) in text.iter().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at + 1),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualifiers_are_blank_and_lines_stay() {
        let text = "extern \"C\" __global__ void __launch_bounds__(\n (32 * 4)) k() { int my__device__x; }\n__device__ Entry nothing();";
        let file = SourceFile { path: "kernel.cu".to_owned(), text: text.to_owned() };
        let plain = as_cpp(&file).text;
        assert_eq!(plain.len(), text.len());
        let words: Vec<&str> = plain.split_whitespace().collect();
        assert_eq!(words.join(" "), "extern \"C\" void k() { int my__device__x; } Entry nothing();");
        assert_eq!(plain.lines().count(), 3);

        let aligned = "struct __align__(8) Pair { int my__align__(int); };\nextern __shared__ __align__ (sizeof(int)) float s[];";
        let words = as_cpp(&SourceFile { text: aligned.to_owned(), ..file }).text;
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words.join(" "), "struct Pair { int my__align__(int); }; extern float s[];");
    }

    #[test]
    fn what_never_closes_stays() {
        let file = SourceFile { path: "kernel.cu".to_owned(), text: "__launch_bounds__((é".to_owned() };
        assert_eq!(as_cpp(&file).text, file.text);
    }
}
