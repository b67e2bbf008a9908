//! Honest submissions get their tensors whole and give them back whole.

use std::process::Command;

use tribunal_contract::{Argument, Call, DType, StateId, Tensor, TensorSpec, emit};
use tribunal_runner::cage::{Cage, Layer};
use tribunal_runner::{MachineError, Session, Trouble};

use crate::toy::{
    Example, HONEST_C, HONEST_PYTHON, Toy, c, c_source, cage, check_honest, forward, limits, python,
    python_module, skip, start, toy, try_start, workshop,
};

fn check_sizes(toy: &Toy) {
    let Some(mut session) = start(toy) else { return };
    assert!(session.applied().has(Layer::Seccomp));
    assert_eq!(session.operations(), ["forward", "backward"]);
    for (state, (rows, cols)) in [(1, 1), (2, 3), (7, 65), (128, 512)].into_iter().enumerate() {
        check_honest(&mut session, rows, cols, StateId(state as u32));
    }
    session.stop();
}

#[test]
fn python_computes() {
    check_sizes(&python_module(HONEST_PYTHON));
}

#[test]
fn c_computes() {
    check_sizes(&c_source(HONEST_C));
}

#[test]
fn cpp_computes() {
    let source = r#"
        #include "tribunal.h"
        #include <vector>
        extern "C" int32_t tribunal_forward(tribunal_forward_args *args) {
            std::vector<float> twice;
            for (int i = 0; i < 6; i++) twice.push_back(2 * ((const float *)args->x->data)[i]);
            for (int i = 0; i < 6; i++) ((float *)args->y->data)[i] = twice[i];
            return 0;
        }
    "#;
    let header = emit::c_header(&tribunal_contract::challenges::LAYER_NORM_BACKWARD);
    let Some(mut session) = start(&toy("c", "k.cpp", &[("k.cpp", source), ("tribunal.h", &header)])) else {
        return;
    };
    assert_eq!(session.operations(), ["forward"]);
    let example = Example::new(2, 3);
    let answer = forward(&mut session, &example, StateId(0)).unwrap();
    let twice: Vec<f64> = example.x.to_f64().iter().map(|x| 2.0 * x).collect();
    assert_eq!(answer.outputs[0].to_f64(), twice);
}

#[test]
fn rust_computes() {
    let challenge = &tribunal_contract::challenges::LAYER_NORM_BACKWARD;
    let contract = emit::rust_contract(challenge);
    let manifest = "[package]\nname = \"toy\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
                    [profile.release]\npanic = \"abort\"\n[workspace]\n";
    let source = r#"
        mod contract;
        use contract::*;
        #[no_mangle]
        pub unsafe extern "C" fn tribunal_forward(args: *mut ForwardArgs) -> i32 {
            let args = &mut *args;
            if !(*args.x).is_float::<f32>() {
                return refuse(args.message, "only float32");
            }
            let x = (*args.x).elements::<f32>();
            for (y, x) in (*args.y).elements_mut::<f32>().iter_mut().zip(x) {
                *y = 2.0 * x;
            }
            args.cache = Box::into_raw(Box::new(x.to_vec())).cast();
            0
        }
        #[no_mangle]
        pub unsafe extern "C" fn tribunal_release(state: *mut std::ffi::c_void) {
            drop(Box::from_raw(state.cast::<Vec<f32>>()));
        }
    "#;
    let files = [("Cargo.toml", manifest), ("src/contract.rs", &contract), ("src/lib.rs", source)];
    let Some(mut session) = start(&toy("rust", "Cargo.toml", &files)) else { return };
    let example = Example::new(2, 3);
    let answer = forward(&mut session, &example, StateId(0)).unwrap();
    let twice: Vec<f64> = example.x.to_f64().iter().map(|x| 2.0 * x).collect();
    assert_eq!(answer.outputs[0].to_f64(), twice);
    session.release(StateId(0)).unwrap();
}

#[test]
fn a_library_that_came_built_is_taken_as_it_is() {
    let source = c_source(HONEST_C);
    let folder = source.folder.path();
    let built = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&folder.join("k.so"), &folder.join("submission.c")])
        .arg("-lm")
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return skip(&"no C compiler to build a library with");
    }
    let toml = std::fs::read_to_string(folder.join("tribunal.toml")).unwrap();
    std::fs::write(folder.join("tribunal.toml"), toml.replace("submission.c", "k.so")).unwrap();
    check_sizes(&source);
}

#[test]
fn every_dtype_and_rank_arrives_as_it_was_sent() {
    // One element of each input is copied to y, so each must be where and what the contract says.
    let body = r#"
        const DLTensor *x = args->x;
        int64_t n = 1;
        for (int a = x->ndim - 1; a >= 0; a--) { if (n && x->strides[a] != n) return 7; n *= x->shape[a]; }
        if (x->byte_offset || (uintptr_t)x->data % 256 || x->device.device_type != 1) return 8;
        memcpy(args->y->data, x->data, n * x->dtype.bits / 8);
    "#;
    let Some(mut session) = start(&c(body)) else { return };
    let small = Tensor::from_f64(DType::Float32, [1], &[1.0]);
    for dtype in DType::ALL {
        for shape in [vec![], vec![0], vec![5], vec![2, 0, 3], vec![2, 3, 4, 5]] {
            let spec = TensorSpec::new(dtype, shape);
            let bytes = (0..spec.size_bytes()).map(|i| (i * 37 + 11) as u8).collect();
            let x = Tensor::from_bytes(spec.clone(), bytes);
            let inputs = vec![
                Argument::Tensor(&x),
                Argument::Tensor(&small),
                Argument::Tensor(&small),
                Argument::Real(0.5),
            ];
            let call =
                Call { operation: "forward", inputs, outputs: vec![spec.clone()], makes: Some(StateId(0)) };
            let answer = session.call(&call).unwrap_or_else(|trouble| panic!("{spec}: {trouble}"));
            assert_eq!(answer.outputs, [x], "{spec}");
            session.release(StateId(0)).unwrap();
        }
    }
}

#[test]
fn numpy_accepts_every_dtype_it_has_and_reals_to_the_last_bit() {
    let body = "assert (str(eps), x.flags.c_contiguous, x.flags.writeable) == (str(float(gamma)), True, True)\n\
                return np.array(x, order='F'), None";
    let Some(mut session) = start(&python(body)) else { return };
    for dtype in [DType::Float16, DType::Float32, DType::Float64, DType::Int32, DType::Int64] {
        for (shape, eps) in
            [(vec![], 0.1), (vec![3, 0], f64::INFINITY), (vec![2, 3, 4], f64::NAN), (vec![7], -0.0)]
        {
            let spec = TensorSpec::new(dtype, shape);
            let bytes = (0..spec.size_bytes()).map(|i| (i * 37 + 11) as u8).collect();
            let x = Tensor::from_bytes(spec.clone(), bytes);
            let gamma = Tensor::from_f64(DType::Float64, [], &[eps]);
            let inputs = vec![
                Argument::Tensor(&x),
                Argument::Tensor(&gamma),
                Argument::Tensor(&gamma),
                Argument::Real(eps),
            ];
            let call =
                Call { operation: "forward", inputs, outputs: vec![spec.clone()], makes: Some(StateId(0)) };
            let answer = session.call(&call).unwrap_or_else(|trouble| panic!("{spec}: {trouble}"));
            assert_eq!(answer.outputs, [x], "{spec}");
            session.release(StateId(0)).unwrap();
        }
    }
}

#[test]
fn results_need_not_be_numpy_arrays() {
    let body = r#"
class Foreign:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **options): return self.array.__dlpack__(**options)
    def __dlpack_device__(self): return self.array.__dlpack_device__()
class Convertible:
    def __init__(self, array): self.array = array
    def __array__(self, dtype=None, copy=None): return self.array
return [Foreign, Convertible, lambda array: array[::-1, ::-1][::-1, ::-1]][int(eps)](2 * x), None"#;
    let Some(mut session) = start(&python(body)) else { return };
    let example = Example::new(4, 5);
    let twice: Vec<f64> = example.x.to_f64().iter().map(|x| 2.0 * x).collect();
    for kind in 0..3 {
        let mut call = example.call(StateId(kind));
        call.inputs[3] = Argument::Real(f64::from(kind));
        assert_eq!(session.call(&call).unwrap().outputs[0].to_f64(), twice);
    }
}

#[test]
fn big_tensors_arrive_intact_and_small_sessions_stay_small() {
    let toys =
        [python("return x.copy(), None"), c("memcpy(args->y->data, args->x->data, 4 * args->x->shape[0]);")];
    for toy in toys {
        let Some(mut session) = start(&toy) else { continue };
        forward(&mut session, &Example::new(1, 1), StateId(0)).unwrap();
        let small = session.memory().unwrap().anonymous_bytes;
        assert!(small < 64 << 20, "{small}");
        let bytes: Vec<u8> = (0..64_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let x = Tensor::from_bytes(TensorSpec::new(DType::Float32, [16 << 20]), bytes);
        let one = Tensor::from_f64(DType::Float32, [1], &[1.0]);
        let inputs =
            vec![Argument::Tensor(&x), Argument::Tensor(&one), Argument::Tensor(&one), Argument::Real(0.0)];
        let outputs = vec![x.spec().clone()];
        let call = Call { operation: "forward", inputs, outputs, makes: Some(StateId(1)) };
        let answer = session.call(&call).unwrap();
        assert!(answer.outputs[0] == x);
        assert!(!answer.changed_late && !answer.wrote_outside && answer.inputs_changed.is_empty());
    }
}

#[test]
fn modules_beside_the_entry_are_found_and_nothing_is_written() {
    let files =
        [("deep/submission.py", "from helper import forward, backward\n"), ("deep/helper.py", HONEST_PYTHON)];
    let toy = toy("python", "deep/submission.py", &files);
    let Some(mut session) = start(&toy) else { return };
    check_honest(&mut session, 2, 3, StateId(0));
    session.restart().unwrap();
    check_honest(&mut session, 3, 2, StateId(0));
    assert!(!toy.folder.path().join("deep/__pycache__").exists());
}

#[test]
fn a_submission_prints_and_the_judge_keeps_it_clean() {
    let toy = python("print('hello\\x1b[2J'); print('oops', file=sys.stderr)");
    let Some(mut session) = start(&toy) else { return };
    forward(&mut session, &Example::new(2, 3), StateId(0)).unwrap();
    // The pipe is read by another thread.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while session.output().stderr.is_empty() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = session.output();
    assert_eq!((output.stdout.trim(), output.stderr.trim()), ("hello[2J", "oops"));
}

#[test]
fn preparing_several_and_going_in_pairs_works() {
    let toy = python_module(HONEST_PYTHON);
    let (Some(mut left), Some(right)) = (start(&toy), try_start(&toy, limits())) else { return };
    let mut right = right.unwrap();
    let example = Example::new(3, 4);
    for round in 0..3 {
        let call = example.call(StateId(round));
        left.prepare(&call).unwrap();
        right.prepare(&call).unwrap();
        let (one, other) = (left.go(&call).unwrap(), right.go(&call).unwrap());
        assert_eq!(one.outputs, other.outputs);
    }
    assert_eq!(left.applied().tier, right.applied().tier);
}

/// As in a container that refuses namespaces.
#[test]
fn sessions_do_without_namespaces() {
    for toy in [python_module(HONEST_PYTHON), c_source(HONEST_C)] {
        let submission = tribunal_runner::Submission::open(toy.folder.path()).unwrap();
        let bare = Cage { without: vec![Layer::Namespaces, Layer::Procfs], ..cage() };
        let session = workshop()
            .make(&submission, &|_| {})
            .and_then(|artefact| Session::start(&bare, &submission, &artefact, limits()));
        match session {
            Ok(mut session) => {
                assert!(!session.applied().has(Layer::Namespaces));
                check_honest(&mut session, 2, 3, StateId(0));
            }
            Err(Trouble::Machine(missing @ (MachineError::Missing { .. } | MachineError::NoCage { .. }))) => {
                skip(&missing)
            }
            Err(trouble) => panic!("{trouble}"),
        }
    }
}
