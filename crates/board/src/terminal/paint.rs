//! Colours and line breaks.

use anstyle::{AnsiColor, Style};

/// What a colour underlines; never the only sign of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// So so.
    Fair,
    /// Wrong.
    Bad,
}

/// Colours text, where that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    color: bool,
}

impl Paint {
    pub(crate) fn new(color: bool) -> Self {
        Self { color }
    }

    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let color = match tone {
            Tone::Good => AnsiColor::Green,
            Tone::Fair => AnsiColor::Yellow,
            Tone::Bad => AnsiColor::Red,
        };
        self.with(color.on_default(), text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    /// Line by line, so that a pager that cuts lines does not spill the colour.
    pub(crate) fn dim_lines(self, text: &str) -> String {
        text.lines().map(|line| self.dim(line) + "\n").collect()
    }

    /// Colours the first occurrence of `part` in a text that is already laid out.
    pub(crate) fn first(self, tone: Tone, part: &str, text: &str) -> String {
        text.replacen(part, &self.tone(tone, part), 1)
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Breaks a text into lines, the first after `first` and the others after `rest`.
pub(crate) fn wrap(text: &str, width: usize, first: &str, rest: &str) -> String {
    let options = textwrap::Options::new(width)
        .initial_indent(first)
        .subsequent_indent(rest)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(|line| line.into_owned() + "\n").collect()
}
