//! CUDA sources made into PTX: caged, with our headers alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tribunal_contract::{Language, challenges, emit};
use tribunal_runner::{Artefact, Ptx};

use crate::builds::{make, message};
use crate::toy::{Toy, toy_that_says, workshop};

/// A manifest that launches these kernels.
fn launching(kernels: &[&str]) -> String {
    kernels
        .iter()
        .map(|kernel| {
            format!("[[operation.forward.launch]]\nkernel = \"{kernel}\"\ngrid = [1]\nblock = [1]\narguments = []\n")
        })
        .collect()
}

fn cuda(source: &str, more: &[(&str, &str)]) -> Toy {
    let files: Vec<_> = more.iter().copied().chain([("kernels.cu", source)]).collect();
    toy_that_says("cuda", "kernels.cu", &launching(&["k"]), &files)
}

fn ptx(toy: &Toy) -> Option<(Ptx, String)> {
    match make(&workshop(), toy)? {
        Ok(Artefact::Ptx(ptx)) => {
            let text = fs::read_to_string(&ptx.path).unwrap();
            Some((ptx, text))
        }
        other => panic!("expected PTX, got {other:?}"),
    }
}

/// Sources that use everything, and their kernels.
const BROAD: [(&str, &str, &[&str]); 3] = [
    (
        "broad.cu",
        include_str!("../cuda/broad.cu"),
        &[
            "indices",
            "vectors",
            "warps",
            "atomics",
            "bits",
            "mathematics",
            "halves",
            "groups",
            "copies",
            "words",
            "library",
            "overloads",
            "lanes",
        ],
    ),
    (
        "groups.cu",
        include_str!("../cuda/groups.cu"),
        &[
            "tiles",
            "structs",
            "lanes",
            "copies",
            "stages",
            "atomics",
            "rounded",
            "pairs",
            "eights",
            "product_f16",
            "product_s8",
            "aligned",
        ],
    ),
    (
        "std.cu",
        include_str!("../cuda/std.cu"),
        &["views", "sums", "maybe", "complexes_f32", "complexes_f64", "integers"],
    ),
];

#[test]
fn a_source_that_uses_everything_compiles_and_needs_no_library() {
    for (name, source, kernels) in BROAD {
        let toy = toy_that_says("cuda", name, &launching(kernels), &[(name, source)]);
        let Some((made, text)) = ptx(&toy) else { return };
        assert!(made.compiler.is_some_and(|version| version.contains("clang")));
        assert!(made.flags.iter().any(|flag| flag == "--cuda-gpu-arch=sm_80"), "{:?}", made.flags);
        let foreign: Vec<_> = text
            .split(".extern .func")
            .skip(1)
            .map(|rest| rest.split(['\n', ';']).next().unwrap_or_default())
            .filter(|declared| !declared.contains("vprintf") && !declared.contains("__assertfail"))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        let file = text.lines().find(|line| line.trim_start().starts_with(".file")).unwrap();
        assert!(file.contains(&format!("\"./{name}\"")), "{file}");
        assert!(!text.contains(toy.folder.path().to_str().unwrap()));
    }
}

#[test]
fn a_barrier_of_the_whole_grid_is_refused_by_name() {
    let toy = cuda(
        "#include <cooperative_groups.h>\nextern \"C\" __global__ void k() { cooperative_groups::this_grid().sync(); }\n",
        &[],
    );
    let Some(said) = message(&toy) else { return };
    assert!(said.contains("end the kernel, and launch another") && said.contains("kernels.cu:2:"), "{said}");
}

#[test]
fn tiles_of_more_than_a_warp_are_refused_with_what_to_do_instead() {
    for line in [
        "__shared__ cg::block_tile_memory<128> room;",
        "cg::tiled_partition<64>(cg::this_thread_block()).sync();",
    ] {
        let source = format!(
            "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\nextern \"C\" __global__ void k() {{\n    {line}\n}}\n"
        );
        let Some(said) = message(&cuda(&source, &[])) else { return };
        assert!(said.contains("kernels.cu:4:") && said.contains("reduce within each warp"), "{said}");
    }
}

#[test]
fn what_shared_memory_holds_is_not_constructed() {
    let source = "struct MD { float m = -1.f, d = 0.f; };\nextern \"C\" __global__ void k() {\n    __shared__ MD s[4];\n    s[0].m = 1;\n}\n";
    let Some(said) = message(&cuda(source, &[])) else { return };
    assert!(
        said.contains("kernels.cu:3:") && said.contains("Nothing constructs what is in shared memory"),
        "{said}"
    );
}

#[test]
fn the_other_compiler_takes_the_same_source_where_it_is() {
    for (name, source, kernels) in BROAD {
        let says = format!("compiler = \"nvrtc\"\n{}", launching(kernels));
        let Some((made, text)) = ptx(&toy_that_says("cuda", name, &says, &[(name, source)])) else {
            return;
        };
        assert!(made.compiler.is_some_and(|version| version.starts_with("NVRTC release ")));
        let first = format!(".entry {}", kernels[0]);
        assert!(text.contains(&first) && text.contains(&format!("\"./{name}\"")));
    }

    let says = format!("compiler = \"nvrtc\"\n{}", launching(&["k"]));
    let by_nvrtc = |source: &str, more: &[(&str, &str)]| {
        let files: Vec<_> = more.iter().copied().chain([("kernels.cu", source)]).collect();
        toy_that_says("cuda", "kernels.cu", &says, &files)
    };
    ptx(&by_nvrtc(PARTS[0].1, &PARTS[1..])).unwrap();
    let said =
        message(&by_nvrtc("extern \"C\" __global__ void k(float *x) {\n    x[0] = expf(y);\n}\n", &[]))
            .unwrap();
    assert!(said.starts_with("kernels.cu(2): error: identifier \"y\" is undefined"), "{said}");
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = outside.path().join("secret.h");
    fs::write(&secret, "THE-SECRET is no C\n").unwrap();
    for path in [secret.to_str().unwrap(), "/etc/passwd"] {
        let source = format!("#include \"{path}\"\nextern \"C\" __global__ void k() {{}}\n");
        let said = message(&by_nvrtc(&source, &[])).unwrap();
        assert!(
            said.starts_with("kernels.cu(1): ") && !said.contains("THE-SECRET") && !said.contains("root:"),
            "{said}"
        );
    }
}

const PARTS: [(&str, &str); 4] = [
    (
        "kernels.cu",
        "#include \"parts/twice.cuh\"\n#include \"more.cuh\"\nextern \"C\" __global__ void k(float *x) { x[0] = twice(x[1]) + more; }\n",
    ),
    ("parts/twice.cuh", "#include \"two.cuh\"\n__device__ float twice(float x) { return two * x; }\n"),
    ("parts/two.cuh", "constexpr float two = 2.0f;\n"),
    ("more.cuh", "constexpr float more = 1.0f;\n"),
];

#[test]
fn a_source_may_be_in_parts() {
    let toy = cuda(PARTS[0].1, &PARTS[1..]);
    let Some((_, text)) = ptx(&toy) else { return };
    assert!(text.contains(".entry k"));
}

#[test]
fn what_does_not_compile_names_the_line_as_the_contestant_knows_it() {
    let toy = cuda("extern \"C\" __global__ void k(float *x) {\n    x[0] = expf(y);\n}\n", &[]);
    let Some(said) = message(&toy) else { return };
    assert!(said.starts_with("kernels.cu:2:17: error: use of undeclared identifier 'y'"), "{said}");
    let toy =
        cuda("#include <cuda_fp16.h>\nextern \"C\" __global__ void k(float4 *x) { __half h(x[0]); }\n", &[]);
    let said = message(&toy).unwrap();
    assert!(said.contains("kernels.cu:2:") && said.contains("\ncuda_fp16.h:"), "{said}");
    assert!(!said.contains("/include/"), "{said}");
}

#[test]
fn what_lies_outside_is_neither_included_nor_quoted() {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = outside.path().join("secret.h");
    fs::write(&secret, "THE-SECRET is no C\n").unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    for path in
        [secret.to_str().unwrap(), &format!("../{name}/secret.h"), "/etc/passwd", "/usr/include/stdlib.h"]
    {
        for directive in ["#include", "#embed"] {
            let toy = cuda(&format!("{directive} \"{path}\"\nextern \"C\" __global__ void k() {{}}\n"), &[]);
            let Some(said) = message(&toy) else { return };
            assert!(
                said.contains("kernels.cu:1:") && !said.contains("THE-SECRET") && !said.contains("root:"),
                "{said}"
            );
        }
    }
    let said = message(&cuda("#include <vector>\nextern \"C\" __global__ void k() {}\n", &[])).unwrap();
    assert!(said.contains("'vector' file not found") && said.contains("leave its #include out"), "{said}");
    let said = message(&cuda("#include <regex>\nextern \"C\" __global__ void k() {}\n", &[])).unwrap();
    assert!(said.starts_with("kernels.cu:1:10: fatal error: 'regex' file not found"), "{said}");
    let said = message(&cuda("#include <cuda/ptx>\nextern \"C\" __global__ void k() {}\n", &[])).unwrap();
    assert!(said.contains("'cuda/ptx' file not found") && said.contains("written as inline asm"), "{said}");
    let host = "void prepare() { cudaStream_t stream; }\nextern \"C\" __global__ void k() {}\n";
    assert!(message(&cuda(host, &[])).unwrap().contains("kernels and no host code"));
    let runs = "#include <cub/cub.cuh>\nextern \"C\" __global__ void k() { cub::BlockRunLengthDecode<int, 32, 1, 1> runs; }\n";
    assert!(message(&cuda(runs, &[])).unwrap().contains("Of cub there is what docs/cuda.md lists"));
    let heap = "extern \"C\" __global__ void k(void **p) { *p = malloc(4); }\n";
    assert!(message(&cuda(heap, &[])).unwrap().contains("asked for in the manifest, as `scratch`"));
}

#[test]
fn a_kernel_that_is_launched_must_be_there() {
    let toy = cuda("__global__ void k() {}\nextern \"C\" __global__ void other() {}\n", &[]);
    let Some(said) = message(&toy) else { return };
    assert!(
        said.starts_with("there is no kernel `k`, which the manifest launches; there are: `_Z1kv`, `other`"),
        "{said}"
    );
}

#[test]
fn ptx_is_taken_as_it_is() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";
    let toy = toy_that_says("cuda", "k.ptx", &launching(&["k"]), &[("k.ptx", text)]);
    let (made, read) = ptx(&toy).expect("no tool is needed");
    assert_eq!((made.compiler, made.flags, read.as_str()), (None, vec![], text));
    let toy = toy_that_says("cuda", "k.ptx", &launching(&["k"]), &[("k.ptx", "nothing")]);
    assert!(message(&toy).unwrap().contains("there are: none at all"));
    let toy = toy_that_says("cuda", "k.cubin", &launching(&["k"]), &[("k.cubin", "")]);
    assert_eq!(message(&toy).unwrap(), "`entry` is k.cubin: expected a .cu source or .ptx");
}

#[test]
fn the_starters_compile_as_they_are_laid_out() {
    for challenge in challenges::ALL {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (path, text) in emit::starter(challenge, Language::Cuda, "alice") {
            fs::write(folder.path().join(path), text).unwrap();
        }
        let Some((_, text)) = ptx(&Toy { folder }) else { return };
        for operation in challenge.operations {
            assert!(
                text.contains(&format!(".entry {}", operation.name)),
                "{} {}",
                challenge.id,
                operation.name
            );
        }
    }
}
