//! Exit codes, and how failures of the program itself are told.

use std::process::ExitCode;

use tribunal_judge::Ruling;

/// What a run ended with. The order is that of gravity: of several, the gravest is the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Judged, accepted.
    Accepted,
    /// Judged, not accepted.
    Rejected,
    /// Integrity: disqualified.
    Disqualified,
    /// The machine or the infrastructure.
    Infrastructure,
    /// Our bug.
    Bug,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Rejected => 1,
            Self::Infrastructure => 3,
            Self::Disqualified => 4,
            Self::Bug => 70,
        }
    }
}

impl From<Ruling> for Exit {
    fn from(ruling: Ruling) -> Self {
        match ruling {
            Ruling::Accepted => Self::Accepted,
            Ruling::Rejected => Self::Rejected,
            Ruling::Disqualified => Self::Disqualified,
            Ruling::Infrastructure => Self::Infrastructure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was asked makes no sense: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The machine could not: exit code 3.
    #[error("{0}")]
    Machine(String),
    /// Our bug: exit code 70.
    #[error("{0}")]
    Bug(String),
    /// The reader of our output went away; not an error.
    #[error("output closed")]
    BrokenPipe,
}

impl Failure {
    /// The process's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Machine(_) => 3,
            Self::Bug(_) => 70,
            Self::BrokenPipe => 0,
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Machine(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_documented_table() {
        let table = [
            (Exit::Accepted, 0),
            (Exit::Rejected, 1),
            (Exit::Infrastructure, 3),
            (Exit::Disqualified, 4),
            (Exit::Bug, 70),
        ];
        for (exit, code) in table {
            assert_eq!(exit.code(), code);
        }
    }

    #[test]
    fn of_several_the_worst_counts_in_the_order_70_3_4_1_0() {
        let mut all = [Exit::Rejected, Exit::Bug, Exit::Accepted, Exit::Infrastructure, Exit::Disqualified];
        all.sort_by(|a, b| b.cmp(a));
        assert_eq!(all.map(Exit::code), [70, 3, 4, 1, 0]);
    }
}
