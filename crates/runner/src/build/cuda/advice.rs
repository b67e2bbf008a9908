//! What compilers' messages do not say to those who bring a file that was written for nvcc.

/// How headers begin that a source cannot have, and what to do instead.
const HEADERS: [(&[&str], &str); 15] = [
    (
        &["cuda/ptx"],
        "cuda::ptx is not there: an instruction of PTX is written as inline asm, such as `asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(lane));`.",
    ),
    (
        &["cuda/std/mdspan", "mdspan", "cuda/mdspan"],
        "mdspan is not there: an element is found by its index, such as `x[row * columns + column]`, and a row by `std::span` of `<span>`.",
    ),
    (
        &["cuda/std/chrono", "cuda/std/ctime", "chrono", "ctime", "time.h"],
        "Kernels have no clock here: they are timed from outside, and what looks at `clock64()` is not emulated.",
    ),
    (
        &["cuda/semaphore", "cuda/std/semaphore", "cuda/latch", "cuda/std/latch"],
        "Semaphores and latches are not there: threads of a block wait for one another by `__syncthreads()` or `cuda::barrier` of \
         `<cuda/barrier>`; counters are `atomicAdd` or `cuda::atomic_ref` of `<cuda/atomic>`.",
    ),
    (
        &["cuda/annotated_ptr", "cuda/access_property", "cuda/discard_memory"],
        "Where a cache keeps what is loaded has no effect on what kernels compute: take plain pointers, or `__ldg`, `__ldcs` and their kin.",
    ),
    (
        &["nvfunctional"],
        "`nvstd::function` is not there: take the function as a template's parameter, as in `template <class F> __device__ void apply(F f)`.",
    ),
    (
        &["cuda_fp16.hpp", "cuda_bf16.hpp", "cuda_fp8.hpp"],
        "Parts of a header cannot be included alone: include cuda_fp16.h, cuda_bf16.h or cuda_fp8.h.",
    ),
    (
        &["cub/"],
        "Of cub there is what warps and blocks do together, where clang compiles: reductions, scans, sorts, exchanges, loads and stores of \
         tiles (docs/cuda.md). What host code calls is not there.",
    ),
    (
        &["thrust/"],
        "thrust is host code, and a submission has none. Reductions and scans are made of `cub/block/block_reduce.cuh` and its kin, \
         `__shfl_*_sync`, `__reduce_*_sync`, or `cooperative_groups/reduce.h`.",
    ),
    (
        &["torch/", "ATen/", "c10/", "pybind11/", "Python.h"],
        "PyTorch is host code, and a submission has none: kernels take raw pointers and sizes, and the manifest says what is launched \
         (docs/cuda.md).",
    ),
    (
        &["cute/", "cutlass/", "helper_", "flash", "flashinfer/"],
        "Libraries are not there: what is used of them can lie in the submission's folder, if their licence lets it. Tensor cores are \
         reached by mma.h or inline asm.",
    ),
    (
        &["curand_"],
        "Random numbers are not there: no challenge asks for any. A generator of counters, such as Philox, can lie in the submission's folder.",
    ),
    (
        &["cublas", "cudnn", "cufft", "curand", "cusparse", "cusolver", "nccl", "nvtx", "nvToolsExt", "mpi"],
        "Libraries that host code calls have no use here: a submission has kernels alone (docs/cuda.md).",
    ),
    (
        &["cuda/", "nv/"],
        "Of cuda:: and cuda::std there are the headers listed in docs/cuda.md: what of others kernels need can be written in the \
         submission's folder.",
    ),
    (
        &[
            "atomic",
            "condition_variable",
            "deque",
            "exception",
            "expected",
            "filesystem",
            "fstream",
            "future",
            "iomanip",
            "ios",
            "iostream",
            "istream",
            "list",
            "locale",
            "map",
            "memory",
            "mutex",
            "ostream",
            "queue",
            "random",
            "regex",
            "set",
            "sstream",
            "stack",
            "stdexcept",
            "string",
            "string_view",
            "sys/",
            "system_error",
            "thread",
            "typeinfo",
            "unistd.h",
            "unordered_",
            "variant",
            "vector",
        ],
        "That header is for host code, and a submission has none: leave its #include out. In kernels there is `printf`, `<array>`, \
         `<span>`, `<tuple>`, `<optional>`, `<algorithm>`, `<numeric>` and what else docs/cuda.md lists; there is no heap.",
    ),
];

/// Signs in a message, and what they come of.
const SIGNS: [(&str, &str); 8] = [
    ("cudaConfigureCall", HOST),
    ("reference to __global__ function", HOST),
    ("'main'", HOST),
    (
        "in namespace 'cub'",
        "Of cub there is what docs/cuda.md lists: reductions, scans, sorts and exchanges of warps and blocks, and what loads, stores, compares and \
         counts their items. What host code calls is not there.",
    ),
    ("'block_tile_memory'", TILES),
    ("a tile has 1, 2, 4, 8, 16 or 32 threads", TILES),
    (
        "use of undeclared identifier 'malloc'",
        "There is no heap in kernels: memory beyond inputs and outputs is asked for in the manifest, as `scratch` (docs/cuda.md).",
    ),
    (
        "initialization is not supported for __shared__ variables",
        "Nothing constructs what is in shared memory: its type must have no constructor and no initial values of members, as \
         `struct MD { float m, d; };` has none (std::pair, std::tuple and std::complex do), or it is made by placement new in \
         `alignas(T) __shared__ unsigned char room[sizeof(T)]`.",
    ),
];

const HOST: &str =
    "A submission has kernels and no host code: the manifest says what is launched (docs/cuda.md).";

const TILES: &str = "Tiles of more than a warp are not there: reduce within each warp (`tiled_partition<32>`), have a lane of each put what came \
    of it into shared memory, and after `__syncthreads()` one warp go on with that; or take `cub::BlockReduce` and `cub::BlockScan` of the block.";

/// What there is to say beyond a compiler's message.
pub(super) fn advice(message: &str) -> Option<&'static str> {
    // `cudaMalloc`, `cudaStream_t`: the runtime's names, where namespaces begin with `cuda::`.
    if message.split("'cuda").skip(1).any(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase())) {
        return Some(HOST);
    }
    if let Some((_, advice)) = SIGNS.iter().find(|(sign, _)| message.contains(sign)) {
        return Some(advice);
    }
    let header = missing(message)?;
    let known = HEADERS.iter().find(|(begins, _)| begins.iter().any(|begin| header.starts_with(begin)));
    Some(known.map_or(
        "A source can include what lies in its folder and the headers listed in docs/cuda.md, which are those of CUDA for kernels.",
        |(_, advice)| advice,
    ))
}

/// The header that a compiler did not find, as the source names it.
fn missing(message: &str) -> Option<&str> {
    let clang = message.split_once("' file not found").and_then(|(before, _)| before.rsplit_once('\''));
    let nvrtc = message.split_once("open source file \"").map(|(_, after)| after);
    match (clang, nvrtc) {
        (Some((_, header)), _) => Some(header),
        (None, Some(after)) => after.split('"').next(),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_cannot_be_had_is_told_with_what_to_use() {
        let by_clang =
            |header: &str| format!("a.cu:1:10: fatal error: '{header}' file not found\n    1 | #include");
        let by_nvrtc =
            |header: &str| format!("a.cu(1): catastrophic error: cannot open source file \"{header}\"\n");
        for (header, word) in [
            ("cub/device/device_reduce.cuh", "what warps and blocks do"),
            ("thrust/device_vector.h", "thrust is host code"),
            ("torch/extension.h", "PyTorch"),
            ("iostream", "leave its #include out"),
            ("vector", "leave its #include out"),
            ("cublas_v2.h", "kernels alone"),
            ("curand_kernel.h", "Philox"),
            ("curand.h", "kernels alone"),
            ("cuda/ptx", "inline asm"),
            ("cuda/std/mdspan", "row * columns"),
            ("mdspan", "row * columns"),
            ("cuda/std/chrono", "no clock"),
            ("chrono", "no clock"),
            ("cuda/semaphore", "cuda::barrier"),
            ("cuda/annotated_ptr", "plain pointers"),
            ("nvfunctional", "template's parameter"),
            ("cuda_fp16.hpp", "cuda_fp16.h,"),
            ("cuda/std/variant", "submission's folder"),
            ("memory", "leave its #include out"),
            ("stdexcept", "leave its #include out"),
            ("mine.cuh", "listed in docs/cuda.md"),
        ] {
            for message in [by_clang(header), by_nvrtc(header)] {
                assert!(advice(&message).is_some_and(|advice| advice.contains(word)), "{message}");
            }
        }
        assert_eq!(advice("error: use of undeclared identifier 'x'"), None);
    }
}
