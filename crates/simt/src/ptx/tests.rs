use super::*;

/// PTX that clang 19 made of the sources beside it:
/// `clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx80 -nocudainc -nocudalib -O3 -gline-tables-only
/// -fdebug-compilation-dir=. -S vadd.cu -o vadd.ptx`
const FIXTURES: [(&str, &str); 7] = [
    ("language", include_str!("../../tests/fixtures/language.ptx")),
    ("layer_norm", include_str!("../../tests/fixtures/layer_norm.ptx")),
    ("paged_decode", include_str!("../../tests/fixtures/paged_decode.ptx")),
    ("reduce", include_str!("../../tests/fixtures/reduce.ptx")),
    ("softmax_topk", include_str!("../../tests/fixtures/softmax_topk.ptx")),
    ("tensor", include_str!("../../tests/fixtures/tensor.ptx")),
    ("vadd", include_str!("../../tests/fixtures/vadd.ptx")),
];

#[test]
fn fixtures_become_kernels() {
    for (file, text) in FIXTURES {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for name in module.kernels() {
            let kernel = module.kernel(name).unwrap_or_else(|error| panic!("{file}: {name}: {error}"));
            println!(
                "{name}: {} instructions, {} + {} + {} registers",
                kernel.code.len(),
                kernel.regs32,
                kernel.regs64,
                kernel.preds
            );
        }
    }
}
