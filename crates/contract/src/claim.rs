//! What a submission may claim about itself, in words that a judge can decide.

/// A claim of a challenge's vocabulary.
#[derive(Debug)]
pub struct Claim {
    /// Key under `[claims]`.
    pub name: &'static str,
    /// What is claimed.
    pub doc: &'static str,
    /// What can stand behind the key.
    pub takes: Takes,
    /// How it is decided, in words.
    pub rule: &'static str,
}

/// What values a claim takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A number that is not negative, of these.
    Number(&'static str),
    /// `true` or `false`.
    YesNo,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// What is claimed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Claimed {
    /// A finite number that is not negative.
    Number(f64),
    /// Yes or no.
    YesNo(bool),
    /// A word of the claim's list.
    Word(&'static str),
}

impl Takes {
    /// The value, if it is one of these.
    pub fn read(self, value: &toml::Value) -> Option<Claimed> {
        match self {
            Self::Number(_) => {
                let number = value.as_float().or_else(|| value.as_integer().map(|n| n as f64))?;
                (number.is_finite() && number >= 0.0).then_some(Claimed::Number(number))
            }
            Self::YesNo => value.as_bool().map(Claimed::YesNo),
            Self::Word(words) => {
                words.iter().find(|word| value.as_str() == Some(word)).map(|word| Claimed::Word(word))
            }
        }
    }

    /// What is asked for, in words.
    pub fn expected(self) -> String {
        match self {
            Self::Number(_) => "a number that is not negative".to_owned(),
            Self::YesNo => "true or false".to_owned(),
            Self::Word(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
        }
    }

    /// What is asked for, with its unit.
    pub(crate) fn short(self) -> String {
        match self {
            Self::Number(unit) => format!("number of {unit}"),
            Self::YesNo | Self::Word(_) => self.expected(),
        }
    }

    /// A value as it stands in a manifest.
    pub(crate) fn example(self) -> String {
        match self {
            Self::Number(_) => "1".to_owned(),
            Self::YesNo => "true".to_owned(),
            Self::Word(words) => format!("\"{}\"", words[0]),
        }
    }
}

impl std::fmt::Display for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::YesNo(yes) => write!(f, "{yes}"),
            Self::Word(word) => write!(f, "\"{word}\""),
        }
    }
}
