//! States live as long as the judge keeps them, and are nobody else's.

use tribunal_contract::{DType, Fault, StateId, Tensor};
use tribunal_runner::{Session, Trouble};

use crate::toy::{
    Example, HONEST_C, HONEST_PYTHON, assert_close, backward, c_source, definition, forward, python,
    python_module, start,
};

#[test]
fn states_are_kept_apart_used_again_and_released() {
    for toy in [python_module(HONEST_PYTHON), c_source(HONEST_C)] {
        let Some(mut session) = start(&toy) else { continue };
        let examples: Vec<_> = [(2, 3), (5, 4), (2, 3)].map(|(rows, cols)| Example::new(rows, cols)).into();
        for (state, example) in examples.iter().enumerate() {
            forward(&mut session, example, StateId(state as u32)).unwrap();
        }
        for round in 0..2 {
            for state in [1, 0, 2] {
                let example = &examples[state];
                let dy = Tensor::from_f64(
                    DType::Float32,
                    example.x.shape(),
                    &vec![0.5 + state as f64; example.x.len()],
                );
                let answer = backward(&mut session, &dy, StateId(state as u32)).unwrap();
                let [_, dx, ..] = definition(example, &dy.to_f64());
                assert_close(&answer.outputs[0], &dx, &format!("dx of state {state}, round {round}"));
            }
        }
        for state in [2, 0, 1] {
            session.release(StateId(state)).unwrap();
        }
        // A name may be given again.
        forward(&mut session, &examples[1], StateId(0)).unwrap();
    }
}

#[test]
fn a_released_state_gives_its_memory_back() {
    for toy in [python_module(HONEST_PYTHON), c_source(HONEST_C)] {
        let Some(mut session) = start(&toy) else { continue };
        forward(&mut session, &Example::new(1, 1), StateId(0)).unwrap();
        let own_bytes = |session: &mut Session| {
            let memory = session.memory().unwrap();
            memory.anonymous_bytes + memory.shared_bytes
        };
        let example = Example::new(1024, 2048); // 8 MiB
        // Memory for its outputs is shared from the first call on that has so many.
        forward(&mut session, &example, StateId(2)).unwrap();
        session.release(StateId(2)).unwrap();
        let before = own_bytes(&mut session);
        forward(&mut session, &example, StateId(1)).unwrap();
        let kept = own_bytes(&mut session);
        assert!(kept >= before + (8 << 20), "{before} {kept}");
        session.release(StateId(1)).unwrap();
        let after = own_bytes(&mut session);
        assert!(after < before + (4 << 20), "{before} {kept} {after}");
    }
}

#[test]
fn a_state_that_holds_on_to_one_input_keeps_no_other_alive() {
    let Some(mut session) = start(&python("return np.zeros_like(x), gamma")) else { return };
    let example = Example::new(1024, 2048); // 8 MiB, and 8 KiB of gamma
    let mut own_bytes = Vec::new();
    for state in 0..3 {
        forward(&mut session, &example, StateId(state)).unwrap();
        let memory = session.memory().unwrap();
        own_bytes.push(memory.anonymous_bytes + memory.shared_bytes);
    }
    assert!(own_bytes[2] < own_bytes[1] + (1 << 20), "{own_bytes:?}");
}

/// A cache in Python may be made of the very arrays that it was given, call after call.
#[test]
fn what_a_state_is_given_stays_as_it_was() {
    let keeps = "def forward(x, gamma, beta, eps): return np.zeros_like(x), [x]\n\
                 def backward(dy, cache):\n    cache.append(dy)\n    return cache[-2], dy.sum(0), dy.sum(0)\n";
    let Some(mut session) = start(&python_module(&format!("import numpy as np\n{keeps}"))) else { return };
    let example = Example::new(2, 3);
    forward(&mut session, &example, StateId(0)).unwrap();
    let mut before = example.x.to_f64();
    for round in 0..4 {
        let dy = Tensor::from_f64(DType::Float32, example.x.shape(), &[f64::from(round); 6]);
        let answer = backward(&mut session, &dy, StateId(0)).unwrap();
        assert_eq!(answer.outputs[0].to_f64(), before, "round {round}");
        before = dy.to_f64();
    }
}

/// Large inputs lie where others lay before, once nobody can hold on to those.
#[test]
fn what_a_state_is_given_stays_as_it_was_whatever_others_are_released() {
    let keeps = "def forward(x, gamma, beta, eps): return np.zeros_like(x), x\n\
                 def backward(dy, cache): return cache, dy.sum(0), dy.sum(0)\n";
    let Some(mut session) = start(&python_module(&format!("import numpy as np\n{keeps}"))) else { return };
    let examples: Vec<Example> = (0..3)
        .map(|seed| {
            let values: Vec<f64> = (0..512 * 1024).map(|i| f64::from(i) + 0.25 * f64::from(seed)).collect();
            Example { x: Tensor::from_f64(DType::Float32, [512, 1024], &values), ..Example::new(1, 1024) }
        })
        .collect();
    let check = |session: &mut Session, state: u32, example: &Example| {
        let answer = backward(session, &examples[1].x, StateId(state)).unwrap();
        assert!(answer.outputs[0].bytes() == example.x.bytes(), "state {state}");
    };
    for round in 0..3 {
        for state in [0, 1] {
            forward(&mut session, &examples[state as usize], StateId(state)).unwrap();
        }
        session.release(StateId(1)).unwrap();
        forward(&mut session, &examples[2], StateId(2)).unwrap();
        check(&mut session, 0, &examples[0]);
        check(&mut session, 2, &examples[2]);
        for state in [0, 2] {
            session.release(StateId(state)).unwrap();
        }
        assert!(session.dead().is_none(), "round {round}");
    }
}

#[test]
fn an_input_kept_without_leave_ends_in_a_crash_that_says_so() {
    let toy = c_source(&HONEST_C.replace("args->keeps_inputs = 1;", ""));
    let Some(mut session) = start(&toy) else { return };
    forward(&mut session, &Example::new(2, 3), StateId(0)).unwrap();
    let dy = Tensor::from_f64(DType::Float32, [2, 3], &[1.0; 6]);
    let fault = backward(&mut session, &dy, StateId(0)).unwrap_err();
    let expected = Fault::Crashed { signal: "SIGSEGV".into(), at_input: true, said: String::new() };
    assert_eq!(fault, Trouble::Fault(expected.clone()));
    // The session is dead and says why, until it is started again.
    assert_eq!(forward(&mut session, &Example::new(2, 3), StateId(1)).unwrap_err(), Trouble::Fault(expected));
    session.restart().unwrap();
    forward(&mut session, &Example::new(2, 3), StateId(0)).unwrap();
}
