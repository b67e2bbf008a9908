//! Names the instruction sets that kernels are built for, and finds out which of them this CPU has.

use std::fmt;
use std::str::FromStr;

use crate::simd::Token;

/// An instruction set that kernels are built for.
///
/// Every variant exists on every target, so that names can be parsed and reported anywhere; only those for which
/// [`is_available`](Isa::is_available) holds can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// x86-64 with AVX-512 F, BW, DQ and VL: 16 lanes of f32.
    Avx512,
    /// x86-64 with AVX2 and FMA: 8 lanes of f32.
    Avx2,
    /// AArch64 with NEON: 4 lanes of f32.
    Neon,
    /// Plain Rust on arrays of 8, for any CPU.
    Portable,
}

impl Isa {
    /// All instruction sets, widest first within an architecture, portable code last.
    pub const ALL: [Isa; 4] = [Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Portable];

    /// Whether this CPU can run it. The answer does not change while the process lives.
    pub fn is_available(self) -> bool {
        Token::new(self).is_some()
    }

    /// The instruction sets that this CPU can run, best first; never empty.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// The instruction set used when none is asked for.
    pub fn best() -> Isa {
        Isa::available().next().unwrap_or(Isa::Portable)
    }

    /// The name, as reports show it and [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Neon => "neon",
            Isa::Portable => "portable",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of [`Isa::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no instruction set is called {0:?} (there are avx512, avx2, neon and portable)")]
pub struct UnknownIsa(
    /// The name that was asked for.
    pub String,
);

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(name: &str) -> Result<Isa, UnknownIsa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name).ok_or_else(|| UnknownIsa(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        assert_eq!("sse9".parse::<Isa>(), Err(UnknownIsa("sse9".to_owned())));
    }

    #[test]
    fn portable_code_is_always_available_and_last() {
        assert_eq!(Isa::available().last(), Some(Isa::Portable));
    }
}
