//! What reviewers are asked: a few concrete questions for each dimension. They are the same for everybody; `docs/reviewers.md`
//! publishes them, and a test holds it to that.

use tribunal_judge::Dimension;

/// What is asked on a dimension.
#[derive(Debug)]
pub struct Topic {
    /// The dimension.
    pub dimension: Dimension,
    /// The questions.
    pub questions: &'static [&'static str],
}

/// What is asked of source code.
pub const CODE: [Topic; 7] = [
    Topic {
        dimension: Dimension::Correctness,
        questions: &[
            "Which line computes something else than the contract asks for, on ordinary inputs?",
            "Which index, bound or stride is wrong for some extent that the contract allows?",
            "Which sum or mean runs over the wrong axis, or leaves a term out?",
        ],
    },
    Topic {
        dimension: Dimension::Stability,
        questions: &[
            "Which line overflows, cancels or divides by zero on inputs that are large, equal or tiny?",
            "Which line does arithmetic in fewer bits than its inputs have?",
        ],
    },
    Topic {
        dimension: Dimension::Completeness,
        questions: &[
            "Which input that the contract allows is refused, or handled as if it were another?",
            "Which input that the contract forbids is accepted?",
        ],
    },
    Topic {
        dimension: Dimension::Memory,
        questions: &[
            "Which line keeps or makes an array that is not needed?",
            "Which memory is never given back, or shared by calls that should not share it?",
        ],
    },
    Topic {
        dimension: Dimension::Performance,
        questions: &[
            "Which line goes over the data once more than is needed?",
            "Which loop costs more than time in proportion to the data?",
        ],
    },
    Topic {
        dimension: Dimension::Tests,
        questions: &[
            "Which test would pass on a wrong implementation?",
            "Which line of the implementation does no test reach?",
        ],
    },
    Topic {
        dimension: Dimension::Code,
        questions: &[
            "Which function does two things, and where would it be parted?",
            "Which name says something else than what it stands for?",
        ],
    },
];

/// What is asked of prose: README and documentation.
pub const PROSE: Topic = Topic {
    dimension: Dimension::Analysis,
    questions: &[
        "Which sentence claims one of the listed properties of this implementation, and with which value?",
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_is_published() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reviewers.md")).unwrap();
        for topic in CODE.iter().chain([&PROSE]) {
            let line = page.lines().find(|line| line.starts_with(&format!("- {}", topic.dimension.name())));
            let line = line.unwrap_or_else(|| panic!("{} is not there", topic.dimension.name()));
            assert!(line.ends_with(&format!(": {}", topic.questions.join(" "))), "{line}");
        }
    }
}
