//! What attention gives after what was done to a cache, worked out once for all who come before the same case.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::model::{Attended, Flaw};

/// Something that is done to a cache: all that its answers hang on. What was drawn is told by where it lies, where the memory of the case keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    Append { layer: usize, k: *const f64, t: usize, counts: Vec<usize> },
    Attend { layer: usize, q: *const f64, t: usize, counts: Vec<usize> },
    Clear(usize),
    Fork(usize, usize),
}

/// A cache after some deeds. The default is one that is new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Past(usize);

/// Attention as the newest deed of a past, of caches with that flaw.
type Asked = (Past, Option<Flaw>);

/// What is known of a case's caches.
#[derive(Debug, Default)]
pub(super) struct Known {
    pasts: RefCell<HashMap<(Past, Deed), Past>>,
    attended: RefCell<HashMap<Asked, Rc<Attended>>>,
}

impl Known {
    /// A past, and this deed after it.
    pub(super) fn after(&self, past: Past, deed: Deed) -> Past {
        let mut pasts = self.pasts.borrow_mut();
        let next = Past(pasts.len() + 1);
        *pasts.entry((past, deed)).or_insert(next)
    }

    /// What that gives.
    pub(super) fn attended(&self, asked: Asked, attend: impl FnOnce() -> Attended) -> Rc<Attended> {
        let known = self.attended.borrow().get(&asked).map(Rc::clone);
        known.unwrap_or_else(|| {
            let attended = Rc::new(attend());
            self.attended.borrow_mut().insert(asked, Rc::clone(&attended));
            attended
        })
    }
}

#[test]
fn the_same_deeds_lead_to_the_same_past_and_others_to_another() {
    let (known, new) = (Known::default(), Past::default());
    let after = |deeds: &[&Deed]| deeds.iter().fold(new, |past, &deed| known.after(past, deed.clone()));
    let (clear, fork) = (&Deed::Clear(0), &Deed::Fork(0, 1));
    let both = after(&[clear, fork]);
    assert_eq!(after(&[clear, fork]), both);
    for other in [&[][..], &[clear], &[fork, clear], &[clear, fork, fork]] {
        assert_ne!(after(other), both);
    }
    let gives = |past, flaw, value| {
        known.attended((past, flaw), || Attended { values: vec![value], ..Attended::default() })
    };
    for (past, flaw, value, due) in [
        (both, None, 1.0, 1.0),
        (both, None, 2.0, 1.0),
        (both, Some(Flaw::NoMask), 3.0, 3.0),
        (new, None, 4.0, 4.0),
    ] {
        assert_eq!(gives(past, flaw, value).values, [due]);
    }
}
