use std::path::Path;

use tribunal_contract::{DType, Manifest, TensorSpec, challenges};

use super::*;
use crate::examine::{Examined, Unwatched};
use crate::trial::{hear_cases, hear_cases_on_device, hear_device};
use crate::{Court, Dimension, Effort, Outcome, Plan, Seed, Severity};

/// The bar's softmax, as it is judged, but from PTX that lies beside its source: no compiler is asked for.
fn softmax_topk(change: impl FnOnce(String) -> String, limit_bytes: u64) -> Emulated {
    softmax_topk_of(change, limit_bytes).expect("kernels")
}

fn softmax_topk_of(change: impl FnOnce(String) -> String, limit_bytes: u64) -> Result<Emulated, Fault> {
    of_the_bar("fused_softmax_topk", "softmax_topk.ptx", change, limit_bytes)
}

fn of_the_bar(
    challenge: &str,
    ptx: &str,
    change: impl FnOnce(String) -> String,
    limit_bytes: u64,
) -> Result<Emulated, Fault> {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(house.join(path)).expect("it is in the tree");
    let manifest = read(&format!("specimens/{challenge}/cuda-reference/tribunal.toml"));
    let manifest = Manifest::parse(&manifest, "tribunal.toml").expect("a manifest");
    let ptx = change(read(&format!("crates/kernels/cuda/{ptx}")));
    let challenge = challenges::find(manifest.challenge).expect("a contract");
    Emulated::load(challenge, manifest.kernels.expect("launches"), &ptx, limit_bytes)
}

fn plan() -> Plan {
    Plan {
        seed: Seed::PUBLIC,
        effort: Effort::Quick,
        capabilities: vec!["float16", "bfloat16"],
        launches: true,
    }
}

fn court() -> &'static dyn crate::Challenge {
    crate::challenges::find("fused_softmax_topk").expect("a court")
}

fn try_cases(device: &mut Emulated) -> Examined {
    hear_cases(court(), &plan(), device, &Unwatched)
}

fn failures(findings: &[Finding]) -> Vec<&str> {
    let failed = findings.iter().filter(|finding| finding.outcome != Outcome::Pass);
    failed.map(|finding| finding.id.as_str()).collect()
}

#[test]
fn the_bar_is_right_and_clean() {
    let mut device = softmax_topk(|ptx| ptx, 1 << 30);
    assert_eq!(failures(&try_cases(&mut device).findings), [""; 0]);
    let findings = device.findings(&[]);
    assert_eq!(findings.iter().map(|finding| finding.id.as_str()).collect::<Vec<_>>(), ["sanitizer:clean"]);
    assert_eq!(device.repeats().map(|repeats| repeats.differs), Some(None), "some calls, and none differs");
}

#[test]
fn of_what_cannot_be_measured_the_first_trouble_is_told() {
    let court = crate::challenges::find("layer_norm_backward").expect("a court");
    let hear = |limit_bytes| {
        let device = of_the_bar("layer_norm_backward", "layer_norm.ptx", |ptx| ptx, limit_bytes);
        hear_device(court, &plan(), device.expect("kernels"), &Unwatched)
    };
    let (measured, device) = hear(1 << 30);
    assert_eq!(failures(&measured.findings), [""; 0]);
    assert_eq!(device.findings(&[])[0].id, "sanitizer:clean", "and it was seen at work");
    let workloads = court.workloads(&plan());
    assert!(workloads.kept.len() == 1 && workloads.weighed.is_some(), "two are about memory");
    assert_eq!(failures(&hear(1 << 12).0.findings), ["memory:measured", "traffic:measured"]);
}

/// A device with a kernel `k` for softmax + top-k, of one block that is launched like this.
fn one_kernel(launch: &str, ptx: &str) -> Emulated {
    in_blocks(1, launch, ptx)
}

/// The same of so many blocks.
fn in_blocks(blocks: u32, launch: &str, ptx: &str) -> Emulated {
    let manifest = format!(
        "name = \"t\"\nchallenge = \"fused_softmax_topk\"\nlanguage = \"cuda\"\nentry = \"t.ptx\"\n\
         [[operation.softmax_topk.launch]]\nkernel = \"k\"\ngrid = [{blocks}]\n{launch}\n"
    );
    let manifest = Manifest::parse(&manifest, "tribunal.toml").expect("a manifest");
    let challenge = challenges::find(manifest.challenge).expect("a contract");
    Emulated::load(challenge, manifest.kernels.expect("launches"), ptx, 1 << 20).expect("kernels")
}

fn ask(device: &mut Emulated, logits: &[f64], k: usize) -> Result<Answer, Trouble> {
    let logits = Tensor::from_f64(DType::Float32, [1, 1, logits.len()], logits);
    let outputs = [DType::Float32, DType::Int64].map(|dtype| TensorSpec::new(dtype, [1, 1, k]));
    device.call(&Call {
        operation: "softmax_topk",
        inputs: vec![Argument::Tensor(&logits), Argument::Integer(k as i64)],
        outputs: outputs.to_vec(),
        makes: None,
    })
}

/// What a kernel of one thread is found to do whose body this is: `%rd0` are the logits, and `%rd1` the probabilities.
fn seen(body: &str, invalid: bool) -> Vec<(String, Severity, String)> {
    let ptx = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .u32 kept;\n.visible .entry k(.param .u64 p0, .param .u64 p1) {{\n\
         .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .pred %p<4>; .shared .align 4 .b8 s[64];\n\
         ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x; mov.u64 %rd2, s;\n{body}\nret;\n}}\n"
    );
    let mut device = one_kernel("block = [32]\narguments = [\"logits\", \"probs\"]", &ptx);
    device.doubt(invalid);
    ask(&mut device, &[0.0; 4], 2).expect("an answer");
    device.doubt(false);
    let findings = device.findings(&[]).into_iter().filter(|finding| finding.outcome == Outcome::Fail);
    findings
        .map(|finding| (finding.suspect.expect("a name").clone(), finding.severity, finding.message))
        .collect()
}

#[test]
fn launches_are_planned_for_132_multiprocessors_unless_a_case_runs_on_few() {
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .f32 p1) {\n\
         .reg .b32 %r0; .reg .f32 %f<2>; .reg .b64 %rd0;\n\
         ld.param.u64 %rd0, [p0]; ld.param.f32 %f0, [p1]; mov.u32 %r0, %nsmid; cvt.rn.f32.u32 %f1, %r0;\n\
         st.global.f32 [%rd0], %f0; st.global.f32 [%rd0+4], %f1;\nret;\n}\n";
    let mut device = one_kernel("block = [1]\narguments = [\"probs\", \"float32: multiprocessors\"]", ptx);
    let told = |device: &mut Emulated| ask(device, &[0.0; 2], 2).expect("an answer").outputs[0].to_f64();
    assert_eq!((told(&mut device), device.unusual_device()), (vec![132.0; 2], None));
    let mut court = Court::new(&mut device, Seed::PUBLIC);
    court.run_on_few_multiprocessors();
    assert_eq!(
        (told(&mut device), device.unusual_device()),
        (vec![2.0; 2], Some("on 2 multiprocessors".to_owned()))
    );
    Court::new(&mut device, Seed::PUBLIC);
    assert_eq!((told(&mut device), device.unusual_device()), (vec![132.0; 2], None), "in the next case");
}

#[test]
fn variables_are_those_of_the_device() {
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .f32 kept = 0f00000000;\n.visible .entry k(.param .u64 p0) {\n\
         .reg .f32 %f0; .reg .b64 %rd<2>;\n\
         ld.param.u64 %rd0, [p0]; mov.u64 %rd1, kept; ld.global.f32 %f0, [%rd1]; st.global.f32 [%rd0], %f0;\n\
         add.f32 %f0, %f0, 0f3F800000; st.global.f32 [%rd1], %f0;\nret;\n}\n";
    let mut device = one_kernel("block = [1]\narguments = [\"probs\"]", ptx);
    let told = |multiprocessors| {
        device.run_on(multiprocessors);
        ask(&mut device, &[0.0], 1).expect("an answer").outputs[0].to_f64()[0]
    };
    assert_eq!([132, 132, 2, 2, 132].map(told), [0.0, 1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn what_calls_ask_of_memory_is_counted_where_it_is_asked_for() {
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .b8 kept[100];\n\
         .visible .entry k(.param .u64 p0, .param .u64 p1) {\n.reg .f32 %f0; .reg .b64 %rd<3>;\n\
         ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u64 %rd2, kept; cvta.global.u64 %rd2, %rd2;\n\
         ld.global.f32 %f0, [%rd0]; st.global.f32 [%rd1], %f0; st.global.f32 [%rd2+32], %f0;\nret;\n}\n";
    let mut device = one_kernel("block = [1]\narguments = [\"logits\", \"probs\"]", ptx);
    ask(&mut device, &[0.5; 4], 2).expect("an answer");
    assert_eq!(device.take_traffic(), None);
    device.clear();
    device.count();
    ask(&mut device, &[0.5; 4], 2).expect("an answer");
    assert_eq!(device.own_bytes().expect("a number"), 32, "a sector of a variable");
    let traffic = device.take_traffic().expect("it is counted");
    assert_eq!((traffic.bytes(), traffic.given), (12.0, 4.0 * 4.0 + 2.0 * 4.0 + 2.0 * 8.0));
    assert_eq!(device.take_traffic(), Some(Traffic::default()), "since this was asked last");
}

/// Goes round as often as the first logit says, and for ever below 0.
fn goes_round() -> Emulated {
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0) {\n\
         .reg .f32 %f<2>; .reg .b64 %rd0; .reg .pred %p0;\n\
         ld.param.u64 %rd0, [p0]; ld.global.f32 %f0, [%rd0]; mov.f32 %f1, 0f00000000;\n\
         again: setp.eq.f32 %p0, %f0, %f1; @%p0 ret; add.f32 %f1, %f1, 0f3F800000; bra again;\n}\n";
    one_kernel("block = [32]\narguments = [\"logits\"]", ptx)
}

/// A busy machine accuses nobody: that is for the instructions to do.
#[test]
fn who_is_too_slow_for_the_machine_is_not_accused() {
    let mut device = goes_round();
    *lock(&device.patience) = Duration::ZERO;
    let Err(Trouble::Machine(error)) = ask(&mut device, &[5e5], 1) else { panic!("it is nobody's fault") };
    assert!(error.to_string().contains("kernel `k` was given up after 0 s"), "{error}");
    assert!(device.findings(&[]).iter().all(|finding| finding.outcome == Outcome::Pass));
    *lock(&device.patience) = PATIENCE;
    assert!(ask(&mut device, &[5e5], 1).is_ok());
}

/// Sixteen devices that wait as long each would keep everybody for hours.
#[test]
fn who_is_too_slow_on_one_device_is_waited_for_less_on_those_that_are_alike() {
    let mut device = goes_round();
    let alike = device.clone();
    *lock(&device.patience) = Duration::from_millis(20);
    assert!(matches!(ask(&mut device, &[2e6], 1), Err(Trouble::Machine(_))));
    assert_eq!(*lock(&alike.patience), Duration::from_millis(5));
}

#[test]
fn who_hangs_once_is_waited_for_less() {
    let mut device = goes_round();
    let mut took = |rounds: f64| {
        let ended = ask(&mut device, &[rounds], 1).is_ok();
        (ended, device.record.instructions)
    };
    let (ended, before) = took(1e4);
    assert!(ended && before > 40_000, "{before}");
    let (ended, first) = took(-1.0);
    assert!(!ended && first - before > *CALL_MOST.start(), "{}", first - before);
    let (ended, second) = took(-1.0);
    assert!(!ended, "it is told each time");
    assert!(second - first < *CALL_MOST.start() / 2, "{}", second - first);
    let (ended, third) = took(5e5);
    assert!(ended && third - second > 2_000_000, "who takes fifty times what others took is not accused");
    let findings = device.findings(&[]);
    assert_eq!(
        findings.iter().map(|one| one.suspect.clone().expect("a name")).collect::<Vec<_>>(),
        ["endless"]
    );
}

#[test]
fn a_value_that_nobody_gave_is_a_fault_where_results_hang_on_it() {
    let one = |body: &str| {
        let seen = seen(body, false);
        let [(suspect, severity, message)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(message.ends_with("whatever was put there"), *severity == Severity::Note, "{message}");
        (suspect.clone(), *severity)
    };
    let uninitialised = |severity| ("uninitialised".to_owned(), severity);
    let load = "ld.shared.f32 %f0, [%rd2];";
    assert_eq!(one(load), uninitialised(Severity::Note), "it is thrown away");
    assert_eq!(one(&format!("{load} st.global.f32 [%rd1], %f0;")), uninitialised(Severity::Critical));
    let kept = "ld.shared.u32 %r1, [%rd2]; st.global.u32 [kept], %r1;";
    assert_eq!(one(kept), uninitialised(Severity::Critical), "it is there for the next call");
    // A branch on it, and a product with zero, which is none where a NaN is.
    let branch = "ld.shared.u32 %r1, [%rd2]; setp.ne.u32 %p0, %r1, 0;\n@%p0 st.global.u32 [%rd1], 1;";
    assert_eq!(one(branch), uninitialised(Severity::Critical));
    let product = "mul.f32 %f1, %f0, 0f00000000; mul.f32 %f1, %f1, %f1; st.global.f32 [%rd1], %f1;";
    assert_eq!(one(&format!("{load} {product}")), uninitialised(Severity::Critical));
    // The second stage of a sum over a block: lane 0 is right, and what the others get is of no use.
    let sum = "setp.gt.u32 %p0, %r0, 3;\n@%p0 ret;\nmov.u32 %r2, %r0;\n\
        shfl.sync.down.b32 %r3, %r2, 2, 31, 15; add.u32 %r2, %r2, %r3; shfl.sync.down.b32 %r3, %r2, 1, 31, 15; add.u32 %r2, %r2, %r3;\n";
    let inactive = |severity| ("inactive_lane".to_owned(), severity);
    let first = "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.global.u32 [%rd1], %r2;";
    assert_eq!(one(&format!("{sum}{first}")), inactive(Severity::Note));
    let last = "setp.eq.u32 %p1, %r0, 3;\n@%p1 st.global.u32 [%rd1], %r2;";
    assert_eq!(one(&format!("{sum}{last}")), inactive(Severity::Critical));
}

#[test]
fn what_goes_wrong_in_a_call_that_must_be_refused_weighs_little() {
    let overrun = "ld.global.f32 %f0, [%rd0+16];";
    let told = |invalid| seen(overrun, invalid).pop().expect("a fault");
    let (suspect, severity, _) = told(false);
    assert_eq!((suspect.as_str(), severity), ("out_of_bounds", Severity::Critical));
    let (suspect, severity, message) = told(true);
    assert_eq!((suspect.as_str(), severity), ("out_of_bounds", Severity::Minor));
    assert!(message.ends_with("; such a call must be refused"), "{message}");
    let device = softmax_topk_of(|ptx| ptx, 1 << 30).expect("the bar's kernels");
    let refusal = device.refusal("softmax_topk", "k > V").expect("a manifest says what is refused");
    assert_eq!(refusal, "`refuse = [\"k > V\"]` under `[operation.softmax_topk]` does that");
}

/// What is not emulated is told with the line of the source that it was made from.
#[test]
fn what_is_not_emulated_is_told_with_its_line() {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source =
        std::fs::read_to_string(house.join("crates/kernels/cuda/softmax_topk.cu")).expect("it is there");
    let message = |from: &str, to: &str| {
        let changed = softmax_topk_of(|ptx| ptx.replace(from, to), 1 << 30);
        match changed {
            Err(Fault::Load { message }) => message,
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    let refused = message("bar.sync", "barrier.cluster.wait");
    let (place, rest) = refused.split_once(", in its PTX line ").expect("a place and a line");
    let (file, line) = place.split_once(':').expect("a file and a line");
    assert_eq!(file, "softmax_topk.cu");
    let line: usize = line.parse().expect("a number");
    assert!(source.lines().nth(line - 1).is_some_and(|text| text.contains("sync")), "{refused}");
    assert!(rest.contains("barrier.cluster.wait"), "{refused}");
}

#[test]
fn an_integer_where_the_kernel_has_a_float_is_told() {
    let loaded = softmax_topk_of(|ptx| ptx.replace(".param .u32 ", ".param .f32 "), 1 << 30);
    let told = loaded.expect_err("no kernel has such parameters").to_string();
    assert!(
        told.contains(", an integer, as argument ") && told.contains("has a floating-point number"),
        "{told}"
    );
}

/// One call, of one row of logits in no order.
fn call(device: &mut Emulated, vocab: usize, k: usize) -> Result<Answer, Trouble> {
    let values: Vec<f64> = (0..vocab).map(|i| (i * 7919 % 1009) as f64 / 100.0).collect();
    ask(device, &values, k)
}

/// PTX without one barrier of a kernel; none where it has no more.
fn without_barrier(ptx: &str, kernel: &str, index: usize) -> Option<String> {
    let begin = ptx.find(&format!(".entry {kernel}(")).expect("it has the kernel");
    let end = ptx[begin + 1..].find(".entry").map_or(ptx.len(), |at| begin + 1 + at);
    let (at, _) = ptx[begin..end].match_indices("bar.sync").nth(index)?;
    Some([&ptx[..begin + at], "// ", &ptx[begin + at..]].concat())
}

#[test]
fn a_barrier_that_is_left_out_is_told_as_races_with_their_lines() {
    // Not every barrier is one that this call comes to, or that nothing else stands in for.
    let mut told = 0;
    for index in 0.. {
        let mut left = true;
        let without = |ptx: String| {
            without_barrier(&ptx, "softmax_topk_f32", index).unwrap_or_else(|| {
                left = false;
                ptx
            })
        };
        let mut device = softmax_topk(without, 1 << 30);
        if !left {
            break;
        }
        // What comes of it, if anything does, is not the question.
        drop(call(&mut device, 2000, 8));
        let findings = device.findings(&[]);
        let races: Vec<&Finding> =
            findings.iter().filter(|finding| finding.suspect.as_deref() == Some("shared_race")).collect();
        told += usize::from(!races.is_empty());
        assert!(races.iter().all(|race| race.severity == Severity::Critical));
        assert!(
            races.iter().all(|race| race.message.contains("softmax_topk.cu:")),
            "{:?}",
            races.first().map(|race| &race.message)
        );
    }
    assert!(told >= 5, "{told}");
}

#[test]
fn what_a_kernel_prints_is_noted_and_costs_nothing() {
    let prints = |ptx: String| {
        let declared = ".address_size 64
            .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
            .global .b8 said[5] = {104, 105, 27, 10, 0};";
        let ptx = ptx.replacen(".address_size 64", declared, 1);
        let entry = ptx.find(".entry softmax_topk_f32(").expect("it has the kernel");
        let body = entry + ptx[entry..].find("\n{").expect("it has a body") + 2;
        let call = "{ .reg .b64 %says<4>; .reg .b32 %said; .local .align 8 .b8 room[8]; .param .b64 format; .param .b64 values;
            .param .b32 printed; mov.u64 %says0, said; cvta.global.u64 %says1, %says0; st.param.b64 [format], %says1;
            mov.u64 %says2, room; cvta.local.u64 %says3, %says2; st.param.b64 [values], %says3;
            call.uni (printed), vprintf, (format, values); ld.param.b32 %said, [printed]; }";
        [&ptx[..body], call, &ptx[body..]].concat()
    };
    let mut device = softmax_topk(prints, 1 << 30);
    call(&mut device, 2000, 8).unwrap();
    let findings = device.findings(&[]);
    assert!(findings.iter().all(|finding| finding.outcome == Outcome::Pass), "{findings:?}");
    let printed = findings.iter().find(|finding| finding.id.ends_with("printed")).expect("a note");
    assert_eq!((printed.severity, printed.dimension), (Severity::Note, Dimension::Code));
    assert!(
        printed.message.starts_with("kernel `softmax_topk_f32` printed, first in "),
        "{}",
        printed.message
    );
    // As much as there is room for, with nothing that a terminal would obey.
    assert!(printed.message.contains("\"hi\\u{1b}\\nhi"), "{}", printed.message);
    assert!(
        printed.message.ends_with("…\"") && printed.message.len() < 8 * record::PRINTED_MOST,
        "{}",
        printed.message
    );
}

#[test]
fn calls_are_made_in_another_order_where_that_may_matter_and_else_sometimes() {
    let reordered = |body: &str| {
        let ptx = format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0) {{\n\
             .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .pred %p<1>;\nld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0;\n{body}\nret;\n}}\n"
        );
        let mut device = one_kernel("block = [32]\narguments = [\"probs\"]", &ptx);
        for case in 0..3 {
            device.begin(case);
            for _ in 0..5 {
                ask(&mut device, &[0.0; 2], 1).expect("an answer");
            }
        }
        device.record.reordered()
    };
    assert_eq!(reordered("setp.ne.u32 %p0, %r0, 0; @!%p0 st.global.u32 [%rd0], %r1;"), 6);
    assert_eq!(reordered("red.global.add.u32 [%rd0], %r1;"), 15);
}

/// A device with a kernel of two warps whose body this is. `%rd0` are the probabilities, `%rd1` is a scratch of 4 bytes, `kept` a variable that is 0
/// at first. In `%r0` is the warp, `%p0` holds for its first lane.
fn two_warps(body: &str) -> Emulated {
    let ptx = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .u32 kept = 0;\n.visible .entry k(.param .u64 p0, .param .u64 p1) {{\n\
         .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n\
         ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r1, %tid.x; shr.u32 %r0, %r1, 5; and.b32 %r1, %r1, 31;\n\
         setp.eq.u32 %p0, %r1, 0; cvt.rn.f32.u32 %f0, %r0; mov.u64 %rd2, kept;\n@!%p0 bra E;\n{body}\nE: ret;\n}}\n"
    );
    let launch = "block = [64]\narguments = [\"probs\", \"memo\"]\n\
                  [operation.softmax_topk]\nscratch.memo = { dtype = \"int32\", elements = \"1\" }";
    one_kernel(launch, &ptx)
}

/// What such a kernel answers in a second call, and what it is found to do.
fn second_answer(body: &str) -> (Result<f64, Trouble>, Vec<(String, Severity)>) {
    let mut device = two_warps(body);
    device.begin(0);
    drop(ask(&mut device, &[0.0; 2], 1));
    device.begin(2);
    let answer = ask(&mut device, &[0.0; 2], 1).map(|answer| answer.outputs[0].to_f64()[0]);
    let failed = device.findings(&[]).into_iter().filter(|finding| finding.outcome == Outcome::Fail);
    (answer, failed.map(|finding| (finding.id, finding.severity)).collect())
}

#[test]
fn what_hangs_on_order_is_answered_as_another_order_has_it() {
    // The first to come answers. Nobody races.
    let first =
        "atom.global.inc.u32 %r2, [%rd2], 1; setp.eq.u32 %p1, %r2, 0; @%p1 st.global.f32 [%rd0], %f0;";
    let differs = vec![("sanitizer/softmax_topk:same_in_any_order".to_owned(), Severity::Minor)];
    let (answer, found) = second_answer(first);
    assert_eq!((answer.unwrap(), &found), (1.0, &differs));
    // Who takes long is not left alone for it.
    let slow = "mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 1000000; @%p2 bra L;";
    let (answer, found) = second_answer(&format!("{slow} {first}"));
    assert_eq!((answer.unwrap(), &found), (1.0, &differs));
    // Being late is no barrier.
    let late = "setp.eq.u32 %p1, %r0, 0; @%p1 st.volatile.global.f32 [%rd2], 1.0; @%p1 bra E; mov.u32 %r3, 0;
        L: nanosleep.u32 1000; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 6000; @%p2 bra L;
        ld.volatile.global.f32 %f1, [%rd2]; st.global.f32 [%rd0], %f1;";
    assert!(second_answer(late).1.contains(&differs[0]));
}

#[test]
fn a_write_that_no_fence_makes_visible_is_named_where_results_hang_on_it() {
    // The first block leaves 7 and a flag; the second waits for the flag, and answers what it finds.
    let answer = |fence: &str, ticket: &str| {
        let ptx = format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1) {{\n\
             .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n\
             ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 0;\n{ticket}\n@%p0 bra LEAVE;\n\
             WAIT: ld.volatile.global.u32 %r1, [%rd1+4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;\n\
             ld.volatile.global.f32 %f0, [%rd1];\nst.global.f32 [%rd0], %f0; ret;\n\
             LEAVE: st.volatile.global.f32 [%rd1], 0f40E00000;\n{fence} st.volatile.global.u32 [%rd1+4], 1; ret;\n}}\n"
        );
        let launch = "block = [1]\narguments = [\"probs\", \"memo\"]\n\
                      [operation.softmax_topk]\nscratch.memo = { dtype = \"int32\", elements = \"4\", zeroed = true }";
        let mut device = in_blocks(2, launch, &ptx);
        device.begin(0);
        let answer = ask(&mut device, &[0.0; 2], 2).expect("an answer").outputs[0].to_f64()[0];
        let failed = device.findings(&[]).into_iter().filter(|finding| finding.outcome == Outcome::Fail);
        (
            answer,
            failed.map(|finding| (finding.suspect.expect("a name"), finding.severity)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(answer("membar.gl;", ""), (7.0, vec![]));
    // The oracle is given what comes of it: it may be a matter of rounding.
    assert_eq!(answer("", ""), (0.0, vec![("unseen_write".to_owned(), Severity::Minor)]));
    // Where results hang on the order in any case, the answer is what that order and what is seen in it make of them.
    let ticket =
        "atom.global.inc.u32 %r2, [%rd1+8], 9; cvt.rn.f32.u32 %f1, %r2; @%p0 st.global.f32 [%rd0+4], %f1;";
    assert_eq!(answer("", ticket), (0.0, vec![("order_dependent".to_owned(), Severity::Minor)]));
}

#[test]
fn who_counts_on_lanes_that_go_together_is_named_where_results_hang_on_it() {
    // Each lane adds what the next one has just written to what it wrote itself.
    let answer = |lane: usize, between: &str, case: usize| {
        let ptx = format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0) {{\n.shared .align 4 .b8 s[128];\n\
             .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n\
             ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.u32 %r1, %r1, %r2;\n\
             cvt.rn.f32.u32 %f0, %r0; setp.eq.u32 %p0, %r0, 31; setp.eq.u32 %p1, %r0, {lane};\n\
             mov.u32 %r3, 0; st.shared.u32 [%r1], %r3; bar.warp.sync -1;\nst.volatile.shared.f32 [%r1], %f0;\n{between}\n\
             mov.f32 %f1, 0f00000000; @!%p0 ld.volatile.shared.f32 %f1, [%r1+4]; add.f32 %f0, %f0, %f1;\n\
             @%p1 st.global.f32 [%rd0], %f0;\nret;\n}}\n"
        );
        let mut device = one_kernel("block = [32]\narguments = [\"probs\"]", &ptx);
        device.begin(case);
        let answer = ask(&mut device, &[0.0; 2], 1).expect("an answer").outputs[0].to_f64()[0];
        let cause = device.take_cause().map(|(suspect, _)| suspect);
        let failed = device.findings(&[]).into_iter().filter(|finding| finding.outcome == Outcome::Fail);
        let failed: Vec<_> =
            failed.map(|finding| (finding.suspect.expect("a name"), finding.severity)).collect();
        (answer, cause, failed)
    };
    // In reverse, then at odd moments, where lanes that are together stay so.
    let named = vec![("warp_synchronous".to_owned(), Severity::Minor)];
    assert_eq!(answer(1, "", 0), (1.0, Some("warp_synchronous"), named));
    assert_eq!(answer(1, "", 1), (3.0, None, vec![]));
    for case in 0..2 {
        assert_eq!(answer(1, "bar.warp.sync -1;", case), (3.0, None, vec![]));
    }
    // Who comes later finds what it counts on.
    assert_eq!(answer(0, "", 0), (1.0, None, vec![]));
}

#[test]
fn who_does_not_come_to_the_end_in_another_order_fails() {
    for end in ["trap;", "S: bra S;"] {
        let (answer, found) = second_answer(&format!(
            "atom.global.inc.u32 %r2, [%rd2], 1; setp.eq.u32 %p1, %r2, %r0; @%p1 st.global.f32 [%rd0], 2.0; @%p1 bra E; {end}"
        ));
        assert_eq!(answer.unwrap(), 2.0);
        let stops = ("sanitizer/softmax_topk:ends_in_any_order".to_owned(), Severity::Critical);
        assert_eq!(found, [stops], "{end}");
    }
}

#[test]
fn results_may_not_hang_on_what_calls_leave_behind() {
    let keeps = "setp.ne.u32 %p1, %r0, 0; @%p1 bra E; ld.global.u32 %r2, [%rd2]; cvt.rn.f32.u32 %f1, %r2; st.global.f32 [%rd0], %f1;
        add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2;";
    let (answer, found) = second_answer(keeps);
    assert_eq!(answer.unwrap(), 1.0);
    assert_eq!(found, [("sanitizer/softmax_topk:same_in_a_new_module".to_owned(), Severity::Critical)]);
    let mut device = two_warps(keeps);
    let causes = [0, 1].map(|case| {
        device.begin(case);
        ask(&mut device, &[0.0; 2], 1).expect("an answer");
        device.take_cause().map(|(suspect, _)| suspect)
    });
    assert_eq!(causes, [None, Some("kept_in_variables")], "what is wrong in the case is put down to it");
    // What is not asked for is nobody's business.
    let counts = keeps.replace("cvt.rn.f32.u32 %f1, %r2;", "mov.f32 %f1, 0f3F800000;");
    assert_eq!(second_answer(&counts).1, []);

    // Left in scratch, it is not there in a call that finds something else.
    let memo = "setp.ne.u32 %p1, %r0, 0; @%p1 bra E; ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 24589; @%p2 bra E;
        st.global.f32 [%rd0], 1.0; st.global.u32 [%rd1], 24589;";
    let found = second_answer(memo).1;
    assert_eq!(
        found.iter().map(|(_, severity)| *severity).collect::<Vec<_>>(),
        [Severity::Critical],
        "{found:?}"
    );
}

#[test]
fn what_an_operation_does_is_told_with_its_first_call_and_device() {
    let first = "atom.global.inc.u32 %r2, [%rd2], 1; setp.eq.u32 %p1, %r2,";
    let differs = format!("{first} 0; @%p1 st.global.f32 [%rd0], %f0;");
    let stops = format!("{first} %r0; @%p1 st.global.f32 [%rd0], 2.0; @%p1 bra E; trap;");
    let remembers = "setp.ne.u32 %p1, %r0, 0; @%p1 bra E; ld.global.u32 %r2, [%rd2]; cvt.rn.f32.u32 %f1, %r2;
        st.global.f32 [%rd0], %f1; add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2;";
    for (body, check) in [
        (differs.as_str(), "same_in_any_order"),
        (&stops, "ends_in_any_order"),
        (remembers, "same_in_a_new_module"),
    ] {
        let mut device = two_warps(body);
        device.run_on(2);
        for case in [0, 2] {
            device.begin(case);
            drop(ask(&mut device, &[0.0; 2], 1));
        }
        let findings = device.findings(&[]);
        let finding = findings.iter().find(|finding| finding.check == check);
        let message = &finding.unwrap_or_else(|| panic!("no {check} in {findings:#?}")).message;
        let call = "first in softmax_topk of float32(1, 1, 2), 1, on 2 multiprocessors";
        assert!(message.contains(call), "{message}");
    }
}

#[test]
fn two_devices_see_what_one_does() {
    let racing = |index| {
        let without = |ptx: String| without_barrier(&ptx, "softmax_topk_f32", index).expect("a barrier");
        let mut device = softmax_topk(without, 1 << 30);
        drop(call(&mut device, 2000, 8));
        let seen = !device.record.seen.is_empty();
        device.record.seen.clear();
        seen.then_some(device)
    };
    let device = (0..).find_map(racing).expect("some barrier is needed");
    // How often a fault was seen depends on how much was shrunk; where, and in which case first, does not.
    let told = |findings: Vec<Finding>| -> Vec<(String, String, Option<String>)> {
        let first = |message: &str| message.split(", first in ").nth(1).unwrap_or_default().to_owned();
        let of = |finding: Finding| (finding.id, first(&finding.message), finding.seen_in);
        findings.into_iter().map(of).collect()
    };
    let ruled = |examined: &Examined| -> Vec<(String, Outcome)> {
        examined.findings.iter().map(|finding| (finding.id.clone(), finding.outcome)).collect()
    };
    let mut alone = device.clone();
    let examined = try_cases(&mut alone);
    let (shared, joined) = hear_cases_on_device(court(), &plan(), device, &Unwatched);
    assert_eq!(ruled(&shared), ruled(&examined));
    assert_eq!(told(joined.findings(&court().cases(&plan()))), told(alone.findings(&court().cases(&plan()))));
    assert!(joined.record.seen.len() > 1, "{:?}", joined.record.seen);
    let differs = |device: &Emulated| device.repeats().map(|repeats| repeats.differs);
    assert_eq!(differs(&joined), differs(&alone));
}

#[test]
fn a_call_that_wants_too_much_memory_gets_none() {
    let mut device = softmax_topk(|ptx| ptx, 1000);
    let Err(Trouble::Fault(fault)) = call(&mut device, 512, 1) else {
        panic!("2 KiB of logits in 1000 bytes")
    };
    assert_eq!(fault, Fault::Memory { limit_bytes: 1000 });
}
