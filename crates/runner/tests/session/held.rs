//! Results that a submission returns in memory of its own are its caller's from then on.

use tribunal_contract::{DType, Fault, StateId, Tensor};
use tribunal_runner::{Session, SessionLimits, Trouble};

use crate::toy::{
    Example, HONEST_PYTHON, Toy, backward, check_honest, forward, limits, python, python_module, try_start,
};

/// Starts a submission whose results are held.
fn start_held(toy: &Toy) -> Option<Session> {
    let held = SessionLimits { holds_results: true, ..limits() };
    Some(try_start(toy, held)?.unwrap_or_else(|trouble| panic!("{trouble}")))
}

/// What a forward pass of so many rows and columns disturbs.
fn disturbed_by_forward(session: &mut Session, rows: usize, cols: usize, state: u32) -> Vec<String> {
    forward(session, &Example::new(rows, cols), StateId(state)).unwrap().disturbed
}

#[test]
fn results_that_lie_in_one_array_by_turns_are_seen() {
    let toy = python(
        "y = sys.modules.setdefault(f'kept of {x.shape}', np.zeros_like(x))\n\
         y[...] = x\n\
         return y, None",
    );
    let Some(mut session) = start_held(&toy) else { return };
    assert!(disturbed_by_forward(&mut session, 2, 3, 0).is_empty());
    assert!(disturbed_by_forward(&mut session, 5, 4, 1).is_empty(), "of another shape");
    // The same bytes again change nothing; others do, and each result is told of once.
    assert!(disturbed_by_forward(&mut session, 2, 3, 2).is_empty());
    let other = Tensor::from_f64(DType::Float32, [2, 3], &[9.0; 6]);
    let other = Example { x: other, ..Example::new(2, 3) };
    let answer = forward(&mut session, &other, StateId(3)).unwrap();
    assert_eq!(answer.disturbed, ["y of forward"]);
    assert_eq!(answer.outputs[0].to_f64(), [9.0; 6]);
    assert!(forward(&mut session, &other, StateId(4)).unwrap().disturbed.is_empty());
    // What nobody holds any more may be changed.
    session.let_go_of_results();
    assert!(disturbed_by_forward(&mut session, 2, 3, 5).is_empty());
    assert_eq!(forward(&mut session, &other, StateId(6)).unwrap().disturbed, ["y of forward"]);
}

#[test]
fn results_that_are_views_of_a_state_are_seen_when_it_changes() {
    let toy = python_module(
        "import numpy as np\n\n\
         def forward(x, gamma, beta, eps):\n    kept = np.zeros((2,) + x.shape, x.dtype)\n    return kept[0], kept\n\n\
         def backward(dy, cache):\n    cache += 1\n    return np.zeros_like(dy), dy.sum(0), dy.sum(0)\n",
    );
    let Some(mut session) = start_held(&toy) else { return };
    assert!(disturbed_by_forward(&mut session, 2, 3, 0).is_empty());
    let dy = Tensor::from_f64(DType::Float32, [2, 3], &[1.0; 6]);
    let answer = backward(&mut session, &dy, StateId(0)).unwrap();
    assert_eq!(answer.disturbed, ["y of forward"]);
}

#[test]
fn nothing_is_said_of_fresh_results_and_of_inputs_handed_back() {
    if let Some(mut session) = start_held(&python_module(HONEST_PYTHON)) {
        for state in 0..100 {
            check_honest(&mut session, 2 + state as usize % 3, 4, StateId(state));
        }
    }
    if let Some(mut session) = start_held(&python("return x, None")) {
        for state in 0..5 {
            assert!(disturbed_by_forward(&mut session, 2 + state as usize, 3, state).is_empty());
        }
    }
}

#[test]
fn results_are_held_where_that_is_asked_for() {
    let toy = python("y = sys.modules.setdefault('kept', np.zeros_like(x))\ny += 1\nreturn y, None");
    let Some(started) = try_start(&toy, limits()) else { return };
    let mut session = started.unwrap();
    for state in 0..3 {
        assert!(disturbed_by_forward(&mut session, 2, 3, state).is_empty());
    }
}

#[test]
fn results_that_can_be_looked_at_but_once_are_no_fault() {
    let toy = python_module(
        "import numpy as np\n\n\
         class Once:\n    def __init__(self, y):\n        self.y = y\n\
         \x20   def __array__(self, *given, **more):\n        y, self.y = self.y, None\n        return y.view()\n\n\
         def forward(x, gamma, beta, eps):\n    return Once(x + 1), None\n",
    );
    let Some(mut session) = start_held(&toy) else { return };
    for state in 0..3 {
        assert!(disturbed_by_forward(&mut session, 2, 3, state).is_empty());
    }
}

#[test]
fn results_that_no_contract_has_are_words_out_of_turn() {
    let toy = python(
        "lie = [{'operation': 'forward', 'result': '<b>'}]\n\
         sys.modules['__main__'].Held.disturbed = lambda self: lie",
    );
    let Some(mut session) = start_held(&toy) else { return };
    match forward(&mut session, &Example::new(2, 3), StateId(0)) {
        Err(Trouble::Fault(Fault::Protocol { message })) => {
            assert!(message.contains("expected an account of the call"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
