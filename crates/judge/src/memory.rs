//! What cases ask of every subject alike, worked out once.

use std::any::Any;
use std::cell::RefCell;

/// Questions and what came of them, for a case that many subjects come before.
#[derive(Default)]
pub struct Memory(RefCell<Vec<Box<dyn Any>>>);

impl Memory {
    /// The answer that was remembered for an equal question, or this one, which is from now on.
    pub(crate) fn recall<Q, A>(&self, question: &Q, answer: impl FnOnce() -> A) -> A
    where
        Q: PartialEq + Clone + 'static,
        A: Clone + 'static,
    {
        let of_kind = |one: &Box<dyn Any>| match one.downcast_ref::<(Q, A)>() {
            Some((asked, answer)) if asked == question => Some(answer.clone()),
            _ => None,
        };
        let known = self.0.borrow().iter().find_map(of_kind);
        known.unwrap_or_else(|| {
            let answer = answer();
            self.0.borrow_mut().push(Box::new((question.clone(), answer.clone())));
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once_and_kinds_are_kept_apart() {
        let memory = Memory::default();
        assert_eq!(memory.recall(&1, || "one"), "one");
        assert_eq!(memory.recall(&1, || "another"), "one");
        assert_eq!(memory.recall(&2, || "two"), "two");
        assert_eq!(memory.recall(&1, || 1.0), 1.0);
        assert_eq!(memory.recall(&1u8, || "a byte"), "a byte");
    }
}
