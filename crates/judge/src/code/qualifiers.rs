//! C and CUDA without what no grammar of C and C++ knows: the words of CUDA, and macros that stand for nothing but such words and
//! attributes. They are blanked, byte for byte, so that lines and columns stay.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tribunal_contract::Language;

use super::definition::KEPT_IN_C;
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

/// Words of C that a macro may stand for beside those, and no grammar wants twice.
const STORAGE: [&str; 5] = ["static", "inline", "__inline__", "__inline", "extern"];

/// Longer arguments are none: nobody is to make every beginning of them be read to the file's end.
const ARGUMENTS_BYTES_MAX: usize = 1024;

/// What is blanked in the files of a submission.
pub(super) struct Qualifiers {
    language: Language,
    /// Macros of the submission's own.
    macros: BTreeSet<String>,
}

impl Qualifiers {
    /// Looks for macros in all of the files.
    pub(super) fn of(files: &[SourceFile], language: Language) -> Self {
        let macros = match language {
            Language::C | Language::Cuda => files.iter().flat_map(|file| macros(&file.text)).collect(),
            Language::Python | Language::Rust => BTreeSet::new(),
        };
        Self { language, macros }
    }

    /// The text without them.
    pub(super) fn blank<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let text = if self.language == Language::Cuda {
            Cow::Owned(without_cuda(text))
        } else {
            Cow::Borrowed(text)
        };
        if self.macros.is_empty() { text } else { Cow::Owned(self.without_macros(&text)) }
    }

    fn without_macros(&self, text: &str) -> String {
        let mut directive = false;
        let lines = text.split_inclusive('\n').map(|line| {
            let goes_on = directive && line.ends_with("\\\n");
            let is_directive = directive || line.trim_start().starts_with('#');
            directive = goes_on || (is_directive && line.trim_end().ends_with('\\'));
            if is_directive { Cow::Borrowed(line) } else { Cow::Owned(self.without_macros_in(line)) }
        });
        lines.collect()
    }

    fn without_macros_in(&self, line: &str) -> String {
        let mut bytes = line.as_bytes().to_vec();
        for (start, word) in words(line) {
            if self.macros.contains(word) {
                bytes[start..start + word.len()].fill(b' ');
            }
        }
        String::from_utf8(bytes).expect("whole characters were replaced by spaces")
    }
}

/// The names of macros without arguments that stand for words without a form, and say nothing of who calls a function.
fn macros(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let (_, name) = words(rest).next().filter(|(start, _)| *start == 0)?;
        let body = rest[name.len()..].strip_prefix([' ', '\t'])?;
        let mut body = without_call(&without_cuda(body), "__attribute__");
        for word in STORAGE {
            body = without_word(&body, word);
        }
        let speaks = words(rest).any(|(_, word)| KEPT_IN_C.contains(&word));
        let is_blank = !speaks && body.trim().is_empty() && !rest[name.len()..].trim().is_empty();
        is_blank.then(|| name.to_owned())
    })
}

/// The text without the words of CUDA.
fn without_cuda(text: &str) -> String {
    let plain = QUALIFIERS.iter().fold(text.to_owned(), |text, word| without_word(&text, word));
    WITH_ARGUMENTS.iter().fold(plain, |text, word| without_call(&text, word))
}

fn without_word(text: &str, word: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (at, _) in text.match_indices(word).filter(|(at, _)| is_word(text.as_bytes(), *at, word.len())) {
        bytes[at..at + word.len()].fill(b' ');
    }
    String::from_utf8(bytes).expect("whole characters were replaced by spaces")
}

/// Without a word and the arguments behind it.
fn without_call(text: &str, word: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (at, _) in text.match_indices(word).filter(|(at, _)| is_word(text.as_bytes(), *at, word.len())) {
        if let Some(length) = closed(&text.as_bytes()[at + word.len()..]) {
            // Lines keep their number.
            let call = bytes[at..at + word.len() + length].iter_mut().filter(|byte| **byte != b'\n');
            call.for_each(|byte| *byte = b' ');
        }
    }
    String::from_utf8(bytes).expect("whole characters were replaced by spaces")
}

/// Whether a word is one of CUDA's that take no arguments.
pub(super) fn is_qualifier(word: &str) -> bool {
    QUALIFIERS.contains(&word)
}

/// Names, and where they start.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(in_name)?;
        let length = text[start..].find(|c| !in_name(c)).unwrap_or(text.len() - start);
        at = start + length;
        Some((start, &text[start..at]))
    })
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

    fn plain(text: &str, language: Language) -> String {
        let file = SourceFile { path: "kernel.cu".to_owned(), text: text.to_owned() };
        Qualifiers::of(&[file], language).blank(text).into_owned()
    }

    fn words_of(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn qualifiers_are_blank_and_lines_stay() {
        let text = "extern \"C\" __global__ void __launch_bounds__(\n (32 * 4)) k() { int my__device__x; }\n__device__ Entry nothing();";
        let cpp = plain(text, Language::Cuda);
        assert_eq!(cpp.len(), text.len());
        assert_eq!(words_of(&cpp), "extern \"C\" void k() { int my__device__x; } Entry nothing();");
        assert_eq!(cpp.lines().count(), 3);

        let aligned = "struct __align__(8) Pair { int my__align__(int); };\nextern __shared__ __align__ (sizeof(int)) float s[];";
        let words = words_of(&plain(aligned, Language::Cuda));
        assert_eq!(words, "struct Pair { int my__align__(int); }; extern float s[];");
    }

    #[test]
    fn macros_of_qualifiers_alone_are_blank_where_they_are_used() {
        let text = "#define AVX __attribute__((target(\"avx2\")))\n#define LOCAL static inline\n#ifdef AVX\n#define N 4\n#endif\nAVX LOCAL int f(void) { return N; }\n";
        let c = plain(text, Language::C);
        assert_eq!(c.len(), text.len());
        assert_eq!(&c[..c.rfind("#endif").unwrap()], &text[..text.rfind("#endif").unwrap()]);
        assert_eq!(words_of(c.lines().last().unwrap()), "int f(void) { return N; }");

        let text = "#define HD __host__ __device__ __forceinline__\n#define TWICE(x) \\\n  HD x x\n#define GUARD_H\nHD int f(GUARD_H);\n";
        let cpp = plain(text, Language::Cuda);
        assert!(cpp.contains("  HD x x\n"), "{cpp}");
        assert_eq!(words_of(cpp.lines().last().unwrap()), "int f(GUARD_H);");
        assert_eq!(plain(text, Language::Python), text);

        let loads = "#define FIRST __attribute__((constructor))\nFIRST void f(void) {}\n";
        assert_eq!(plain(loads, Language::C), loads);
    }

    #[test]
    fn what_never_closes_stays() {
        let text = "__launch_bounds__((é";
        assert_eq!(plain(text, Language::Cuda), text);
    }
}
