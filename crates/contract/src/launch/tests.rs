use super::*;
use crate::{Argument, Call, Challenge, Manifest, StateId, Tensor, TensorSpec, challenges};

const SOFTMAX: &str = r#"
name = "a"
challenge = "fused_softmax_topk"
language = "cuda"
entry = "kernels.cu"

[operation.softmax_topk]
let = { splits = "ceil_div(V, 8192)", wide = "splits > 1" }
refuse = ["k > V"]
scratch.partial = { dtype = "float32", elements = "rows * splits * k", zeroed = true }
scratch.rows_like = { dtype = "logits", elements = "wide ? rows : 0" }

[[operation.softmax_topk.launch]]
kernel = "narrow"
when = "!wide"
grid = ["rows"]
block = [256]
shared = "256 * 8"
arguments = ["logits", "probs", "indices", "rows", "int64: rows * V", "float32: k", "float64: -1"]

[[operation.softmax_topk.launch]]
kernel = "split"
when = "wide && dtype(logits) == float32"
grid = ["splits", "rows"]
block = [32, 4, 2]
arguments = ["logits", "partial", "status"]

[[operation.softmax_topk.launch]]
kernel = "merge"
when = "wide"
grid = ["rows"]
block = [32]
arguments = ["partial", "probs", "indices", "k", "rows_like"]
"#;

const LAYER_NORM: &str = r#"
name = "a"
challenge = "layer_norm_backward"
language = "cuda"
entry = "kernels.cu"
compiler = "clang"

[operation.forward]
let.blocks = "min(rows, multiprocessors)"
keeps = ["x", "gamma"]
state.rstd = { dtype = "float32", elements = "rows" }
state.mean = { dtype = "x", elements = "rows" }
[[operation.forward.launch]]
kernel = "forward"
grid = ["rows"]
block = ["min(1024, ceil_div(D, 32) * 32)"]
arguments = ["x", "gamma", "beta", "y", "mean", "rstd", "D", "eps", "float64: eps"]

[operation.backward]
scratch.partial = { dtype = "float32", elements = "2 * blocks * D" }
[[operation.backward.launch]]
kernel = "backward"
grid = ["blocks"]
block = [256]
arguments = ["dy", "x", "gamma", "mean", "rstd", "dx", "partial", "D", "rows"]
[[operation.backward.launch]]
kernel = "reduce"
grid = ["ceil_div(D, 256)"]
block = [256]
arguments = ["partial", "dgamma", "dbeta", "blocks"]
"#;

fn kernels(text: &str) -> (&'static Challenge, Kernels) {
    let manifest = Manifest::parse(text, "tribunal.toml").unwrap();
    (challenges::find(manifest.challenge).unwrap(), manifest.kernels.unwrap())
}

fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
    let spec = TensorSpec::new(dtype, shape);
    let bytes = vec![0; spec.size_bytes()];
    Tensor::from_bytes(spec, bytes)
}

fn softmax(text: &str, rows: usize, columns: usize, k: i64) -> Result<Plan, PlanError> {
    softmax_on(132, text, rows, columns, k)
}

fn softmax_on(
    multiprocessors: i32,
    text: &str,
    rows: usize,
    columns: usize,
    k: i64,
) -> Result<Plan, PlanError> {
    let (challenge, kernels) = kernels(text);
    let logits = zeros(DType::Float32, &[1, rows, columns]);
    let shape = [1, rows, usize::try_from(k).unwrap()];
    let call = Call {
        operation: "softmax_topk",
        inputs: vec![Argument::Tensor(&logits), Argument::Integer(k)],
        outputs: vec![TensorSpec::new(DType::Float32, shape), TensorSpec::new(DType::Int64, shape)],
        makes: None,
    };
    kernels.plan(challenge, &call, None, multiprocessors)
}

fn refusal(from: &str, to: &str) -> String {
    assert!(SOFTMAX.contains(from), "{from}");
    Manifest::parse(&SOFTMAX.replacen(from, to, 1), "t.toml").expect_err(to).to_string()
}

#[test]
fn conditions_choose_among_launches() {
    let plan = softmax(SOFTMAX, 3, 100, 5).unwrap();
    let [launch] = &plan.launches[..] else { panic!("{:?}", plan.launches) };
    assert_eq!((launch.kernel.as_str(), launch.grid, launch.block), ("narrow", [3, 1, 1], [256, 1, 1]));
    assert_eq!(launch.shared_bytes, 2048);
    assert_eq!(
        launch.arguments,
        [
            Value::Pointer(0),
            Value::Pointer(1),
            Value::Pointer(2),
            Value::Scalar(3i32.to_le_bytes().into()),
            Value::Scalar(300i64.to_le_bytes().into()),
            Value::Scalar(5f32.to_le_bytes().into()),
            Value::Scalar((-1f64).to_le_bytes().into()),
        ]
    );
    let plan = softmax(SOFTMAX, 3, 20_000, 5).unwrap();
    assert_eq!(plan.launches.iter().map(|launch| &launch.kernel[..]).collect::<Vec<_>>(), ["split", "merge"]);
    assert_eq!((plan.launches[0].grid, plan.launches[0].block), ([3, 3, 1], [32, 4, 2]));
    let buffers: Vec<_> = plan
        .buffers
        .iter()
        .map(|buffer| (&buffer.name[..], buffer.role, buffer.element_bytes, buffer.elements))
        .collect();
    assert_eq!(
        buffers,
        [
            ("logits", Role::Input(0), 4, 60_000),
            ("probs", Role::Output(0), 4, 15),
            ("indices", Role::Output(1), 8, 15),
            ("partial", Role::Scratch, 4, 45),
            ("rows_like", Role::Scratch, 4, 3),
            ("status", Role::Status, 4, 1),
        ]
    );
    assert!(plan.buffers[3].zeroed && !plan.buffers[4].zeroed && plan.buffers[5].zeroed);
    assert_eq!(kernels(SOFTMAX).1.names(), ["merge", "narrow", "split"]);
}

#[test]
fn a_state_carries_its_buffers_and_numbers() {
    let (challenge, kernels) = kernels(LAYER_NORM);
    let [x, gamma] = [zeros(DType::Float64, &[2, 50, 7]), zeros(DType::Float64, &[7])];
    let full = x.spec().clone();
    let forward = Call {
        operation: "forward",
        inputs: vec![
            Argument::Tensor(&x),
            Argument::Tensor(&gamma),
            Argument::Tensor(&gamma),
            Argument::Real(0.5),
        ],
        outputs: vec![full.clone()],
        makes: Some(StateId(1)),
    };
    let plan = kernels.plan(challenge, &forward, None, 40).unwrap();
    assert_eq!((plan.launches[0].grid, plan.launches[0].block), ([100, 1, 1], [32, 1, 1]));
    assert_eq!(plan.launches[0].arguments[7], Value::Scalar(0.5f32.to_le_bytes().into()));
    assert_eq!(plan.launches[0].arguments[8], Value::Scalar(0.5f64.to_le_bytes().into()));
    let state = plan.makes.unwrap();
    assert_eq!(state.kept, [None, None, Some(0), Some(1)]);
    assert_eq!(state.size_bytes(), 100 * 4 + 100 * 8 + 700 * 8 + 7 * 8);
    assert_eq!(plan.buffers[4].role, Role::State(0));

    let backward = Call {
        operation: "backward",
        inputs: vec![Argument::Tensor(&x), Argument::State(StateId(1))],
        outputs: vec![full, gamma.spec().clone(), gamma.spec().clone()],
        makes: None,
    };
    let plan = kernels.plan(challenge, &backward, Some(&state), 40).unwrap();
    assert_eq!(plan.launches[0].grid, [40, 1, 1], "a number that forward declares");
    let pointed: Vec<_> = plan.launches[0]
        .arguments
        .iter()
        .filter_map(|argument| match argument {
            Value::Pointer(index) => Some((&plan.buffers[*index].name[..], plan.buffers[*index].role)),
            Value::Scalar(_) => None,
        })
        .collect();
    assert_eq!(
        pointed,
        [
            ("dy", Role::Input(0)),
            ("x", Role::State(2)),
            ("gamma", Role::State(3)),
            ("mean", Role::State(1)),
            ("rstd", Role::State(0)),
            ("dx", Role::Output(0)),
            ("partial", Role::Scratch),
        ]
    );
    assert_eq!(plan.makes, None);
}

#[test]
fn memory_of_its_own_may_be_of_types_that_no_tensor_has() {
    let text = |dtype: &str| {
        format!(
            "name = \"a\"\nchallenge = \"kv_cache\"\nlanguage = \"cuda\"\nentry = \"kernels.cu\"\n[operation.create]\n\
             state.keys = {{ dtype = \"{dtype}\", elements = \"3 * batch\" }}\n"
        )
    };
    let create = Call {
        operation: "create",
        inputs: [2, 5, 4, 2, 8, 64, 32, 0, 0].map(Argument::Integer).to_vec(),
        outputs: vec![],
        makes: Some(StateId(1)),
    };
    for (dtype, bytes) in
        [("bool", 1), ("int8", 1), ("uint8", 1), ("int16", 2), ("bfloat16", 2), ("uint32", 4), ("uint64", 8)]
    {
        let (challenge, kernels) = kernels(&text(dtype));
        let state = kernels.plan(challenge, &create, None, 132).unwrap().makes.unwrap();
        assert_eq!((state.buffers[0].elements, state.buffers[0].size_bytes()), (15, 15 * bytes), "{dtype}");
    }
    // No tensor is named where there is none.
    let refused = Manifest::parse(&text("int4"), "t.toml").unwrap_err().to_string();
    assert!(refused.ends_with("`uint32`, `uint64`"), "{refused}");
}

#[test]
fn a_cache_of_several_operations_can_be_told() {
    let text = r#"
name = "a"
challenge = "kv_cache"
language = "cuda"
entry = "kernels.cu"
[operation.create]
refuse = ["heads % kv_heads != 0", "bits != 32", "block_size > 0"]
state.keys = { dtype = "float32", elements = "layers * batch * kv_heads * max_len * head_dim" }
state.held = { dtype = "int64", elements = "layers * batch", zeroed = true }
[[operation.append.launch]]
kernel = "check"
grid = [1]
block = ["min(1024, batch)"]
arguments = ["held", "lengths", "status", "layer", "max_len"]
[[operation.append.launch]]
kernel = "store"
grid = ["t", "kv_heads", "batch"]
block = ["head_dim"]
arguments = ["keys", "held", "k", "lengths", "status", "layer"]
[[operation.clear.launch]]
kernel = "clear"
grid = [1]
block = ["layers"]
arguments = ["held", "sequence", "batch"]
"#;
    let (challenge, kernels) = kernels(text);
    let create = |heads| Call {
        operation: "create",
        inputs: [2, 3, heads, 2, 8, 64, 32, 0, 0].map(Argument::Integer).to_vec(),
        outputs: vec![],
        makes: Some(StateId(1)),
    };
    let refused = kernels.plan(challenge, &create(5), None, 132).unwrap_err();
    assert_eq!(refused.to_string(), "the manifest refuses: heads % kv_heads != 0");
    let plan = kernels.plan(challenge, &create(4), None, 132).unwrap();
    assert_eq!(plan.launches, []);
    let state = plan.makes.unwrap();
    assert_eq!((state.buffers[1].elements, state.buffers[1].zeroed), (6, true));

    let [keys, lengths] = [zeros(DType::Float32, &[3, 2, 5, 8]), zeros(DType::Int64, &[3])];
    let append = Call {
        operation: "append",
        inputs: vec![
            Argument::State(StateId(1)),
            Argument::Integer(1),
            Argument::Tensor(&keys),
            Argument::Tensor(&keys),
            Argument::Tensor(&lengths),
        ],
        outputs: vec![],
        makes: None,
    };
    let plan = kernels.plan(challenge, &append, Some(&state), 132).unwrap();
    assert_eq!(plan.launches[1].grid, [5, 2, 3]);
    assert_eq!(plan.launches[0].arguments[4], Value::Scalar(64i32.to_le_bytes().into()));
    assert!(!plan.buffers.iter().any(|buffer| matches!(buffer.role, Role::State(_)) && buffer.zeroed));

    let fork = Call {
        operation: "fork",
        inputs: vec![Argument::State(StateId(1)), Argument::Integer(0), Argument::Integer(1)],
        outputs: vec![],
        makes: None,
    };
    assert_eq!(
        kernels.plan(challenge, &fork, Some(&state), 132),
        Err(PlanError::Missing { operation: "fork" })
    );
}

#[test]
fn grids_follow_the_multiprocessors_of_the_device() {
    let text = SOFTMAX.replacen("[\"rows\"]", "[\"min(rows, 2 * multiprocessors)\"]", 1).replacen(
        "\"float64: -1\"",
        "\"multiprocessors\"",
        1,
    );
    for (multiprocessors, rows, blocks) in [(132, 1000, 264), (78, 1000, 156), (78, 100, 100), (1, 3, 2)] {
        let plan = softmax_on(multiprocessors, &text, rows, 100, 5).unwrap();
        let [launch] = &plan.launches[..] else { panic!("{:?}", plan.launches) };
        assert_eq!(launch.grid, [blocks, 1, 1], "{rows} rows on {multiprocessors}");
        assert_eq!(launch.arguments[6], Value::Scalar(multiprocessors.to_le_bytes().into()));
    }
}

#[test]
fn no_challenge_has_a_name_that_is_the_devices() {
    for operation in challenges::ALL.iter().flat_map(|challenge| challenge.operations) {
        let Names { numbers, reals, tensors } = Names::of(operation);
        let mut taken = numbers.iter().chain(&reals).chain(&tensors);
        assert!(!taken.any(|name| name == "multiprocessors"), "{}", operation.name);
    }
}

#[test]
fn what_no_device_can_launch_is_refused_by_name() {
    let complaint = |from: &str, to: &str, rows| {
        assert!(SOFTMAX.contains(from), "{from}");
        softmax(&SOFTMAX.replacen(from, to, 1), rows, 100, 5).unwrap_err().to_string()
    };
    let place = "tribunal.toml, [operation.softmax_topk] launch 1 (`narrow`): ";
    for (from, to, rows, expected) in [
        ("[\"rows\"]", "[\"rows\"]", 0, "`grid` is 0 along x, expected 1 to 2147483647: rows"),
        (
            "[\"rows\"]",
            "[1, \"70000 * rows\"]",
            1,
            "`grid` is 70000 along y, expected 1 to 65535: 70000 * rows",
        ),
        ("[256]", "[2048]", 1, "`block` is 2048 along x, expected 1 to 1024: 2048"),
        ("[256]", "[64, 64]", 1, "`block` has 4096 threads, more than 1024"),
        ("[256]", "[\"256 / (k - 5)\"]", 1, "`block`: `256 / (k - 5)`, character 5: division by zero"),
        ("\"256 * 8\"", "-1", 1, "`shared` is -1 bytes, expected 0 to 232448: -1"),
        ("\"256 * 8\"", "\"V * 10000\"", 1, "`shared` is 1000000 bytes, expected 0 to 232448: V * 10000"),
        (
            "\"rows\", \"int64",
            "\"rows * 3000000000\", \"int64",
            1,
            "`arguments`: 3000000000 does not fit int32, pass it as `int64: rows * 3000000000`",
        ),
    ] {
        assert_eq!(complaint(from, to, rows), format!("{place}{expected}"));
    }
    assert_eq!(
        complaint("rows * splits * k", "k - 6", 1),
        "tribunal.toml, [operation.softmax_topk] `partial` has -1 elements: k - 6"
    );
}

#[test]
fn a_call_can_be_refused_before_anything_is_launched() {
    let refused = softmax(SOFTMAX, 1, 4, 5).unwrap_err();
    assert_eq!(refused, PlanError::Refused { condition: "k > V".into() });
}

#[test]
fn memory_beyond_any_device_is_refused() {
    let text = SOFTMAX.replacen("rows * splits * k", "9000000000000000000", 1);
    assert!(softmax(&text, 1, 100, 5).unwrap_err().to_string().contains("`partial` has 9000000000000000000"));
    let text = SOFTMAX.replacen("rows * splits * k", "60000000000", 1);
    let refused = softmax(&text, 1, 100, 5).unwrap_err().to_string();
    assert!(refused.contains("its buffers take 240000000000 bytes, more than 68719476736"), "{refused}");
}

#[test]
fn faults_of_the_manifest_name_place_key_and_what_is_there() {
    for (from, to, expected) in [
        (
            "[operation.softmax_topk]",
            "[operation.softmax]",
            "t.toml:7:12: unknown operation `softmax`, expected `softmax_topk`",
        ),
        (
            "\"rows * splits * k\"",
            "\"rows * slits\"",
            "t.toml:10:51: `elements`: `rows * slits`, character 8: unknown number `slits`, expected `B`, `T`, `V`, \
             `k`, `multiprocessors`, `rows`, `splits`, `wide`",
        ),
        (
            "dtype = \"logits\"",
            "dtype = \"half\"",
            "t.toml:11:31: unknown `dtype` `half`, expected `float16`, `bfloat16`, `float32`, `float64`, `int32`, \
             `int64`, `bool`, `int8`, `uint8`, `int16`, `uint16`, `uint32`, `uint64`, or that of a tensor: `indices`, \
             `logits`, `probs`",
        ),
        ("[256]", "[]", "t.toml:17:9: `block` has 0 sizes: expected x, or x and y, or x, y and z"),
        ("[256]", "[1.5]", "t.toml:17:10: `block` must be an integer or an expression in quotes, got 1.5"),
        (
            "\"int64: rows * V\"",
            "\"half: k\"",
            "t.toml:19:52: `arguments`: a scalar cannot be passed as `half`, expected `int32`, `int64`, `float32`, \
             `float64`",
        ),
        (
            "\"int64: rows * V\"",
            "\"int64: probs\"",
            "t.toml:19:52: `arguments`: `probs` is a buffer, and is passed as a pointer, without a type",
        ),
        (
            "\"int64: rows * V\"",
            "\"prob\"",
            "t.toml:19:52: `arguments`: unknown name `prob`, expected a buffer (`indices`, `logits`, `partial`, \
             `probs`, `rows_like`, `status`) or a scalar (`B`, `T`, `V`, `k`, `multiprocessors`, `rows`, `splits`, `wide`)",
        ),
        ("wide = ", "k = ", "t.toml:8:39: `k` is already a number of `softmax_topk`"),
        (
            "wide = ",
            "multiprocessors = ",
            "t.toml:8:39: `multiprocessors` is already a number of `softmax_topk`",
        ),
        ("scratch.partial", "scratch.probs", "t.toml:10:9: `probs` is already a tensor of `softmax_topk`"),
        ("scratch.partial", "state.partial", "t.toml:10:7: `partial`: `softmax_topk` makes no state"),
        (
            "scratch.partial",
            "keeps = [\"logits\"]\nscratch.partial",
            "t.toml:10:10: `logits`: `softmax_topk` makes no state",
        ),
        (
            "\"narrow\"",
            "\"a b\"",
            "t.toml:14:10: `kernel` is `a b`: expected the name of an extern \"C\" function",
        ),
        (
            "zeroed",
            "zero",
            "t.toml:10:72: unknown field `zero`, expected one of `dtype`, `elements`, `zeroed`",
        ),
        (
            "language = \"cuda\"",
            "language = \"c\"",
            "t.toml:7:12: `operation` is only for `language` \"cuda\"",
        ),
    ] {
        assert_eq!(refusal(from, to), expected);
    }
    let bare = &SOFTMAX[..SOFTMAX.find("[operation").unwrap()];
    assert_eq!(
        Manifest::parse(bare, "t.toml").unwrap_err().to_string(),
        "t.toml:4:12: a CUDA submission says what it launches: expected [operation.softmax_topk] with \
         [[operation.softmax_topk.launch]]"
    );
    let of_state = LAYER_NORM.replace("scratch.partial", "scratch.mean");
    assert!(
        Manifest::parse(&of_state, "t.toml")
            .unwrap_err()
            .to_string()
            .ends_with("`mean` is already a buffer of the state of `backward`")
    );
    let shadowed = LAYER_NORM.replace("rstd", "dy");
    assert!(
        Manifest::parse(&shadowed, "t.toml")
            .unwrap_err()
            .to_string()
            .ends_with("`dy` is already a tensor of `backward`: call it something else")
    );
    let kept = LAYER_NORM.replace("\"x\", \"gamma\"]\nstate", "\"y\"]\nstate");
    assert!(
        Manifest::parse(&kept, "t.toml")
            .unwrap_err()
            .to_string()
            .ends_with("`keeps`: unknown input `y`, expected `x`, `gamma`, `beta`")
    );
}

#[test]
fn the_manifests_of_the_documentation_are_read() {
    let page = include_str!("../../../../docs/cuda.md");
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [whole, operations] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    assert_eq!(kernels(whole).1.names(), ["merge", "scan"]);
    let head = &LAYER_NORM[..LAYER_NORM.find("[operation").unwrap()];
    assert_eq!(kernels(&format!("{head}{operations}")).1.names(), ["layer_norm", "layer_norm_backward"]);
}
