//! Our own headers for CUDA sources, carried in the program. They contain no text of NVIDIA's.

use std::fs;
use std::path::Path;

use crate::MachineError;

/// Headers of one compiler: folder in our source, path and text of each.
pub(super) struct Headers(&'static [(&'static str, &'static str)]);

/// All that a source can include that clang compiles.
pub(super) const OURS: Headers = Headers(&[
    ("algorithm", include_str!("include/algorithm")),
    ("array", include_str!("include/array")),
    ("assert.h", include_str!("include/assert.h")),
    ("bit", include_str!("include/bit")),
    ("builtin_types.h", include_str!("include/builtin_types.h")),
    ("cassert", include_str!("include/cassert")),
    ("cfloat", include_str!("include/cfloat")),
    ("channel_descriptor.h", include_str!("include/channel_descriptor.h")),
    ("cinttypes", include_str!("include/cinttypes")),
    ("climits", include_str!("include/climits")),
    ("cmath", include_str!("include/cmath")),
    ("complex", include_str!("include/complex")),
    ("concepts", include_str!("include/concepts")),
    ("cooperative_groups.h", include_str!("include/cooperative_groups.h")),
    ("cooperative_groups/memcpy_async.h", include_str!("include/cooperative_groups/memcpy_async.h")),
    ("cooperative_groups/reduce.h", include_str!("include/cooperative_groups/reduce.h")),
    ("cooperative_groups/scan.h", include_str!("include/cooperative_groups/scan.h")),
    ("cstddef", include_str!("include/cstddef")),
    ("cstdint", include_str!("include/cstdint")),
    ("cstdio", include_str!("include/cstdio")),
    ("cstdlib", include_str!("include/cstdlib")),
    ("cstring", include_str!("include/cstring")),
    ("cuComplex.h", include_str!("include/cuComplex.h")),
    (
        "cub/block/block_adjacent_difference.cuh",
        include_str!("include/cub/block/block_adjacent_difference.cuh"),
    ),
    ("cub/block/block_discontinuity.cuh", include_str!("include/cub/block/block_discontinuity.cuh")),
    ("cub/block/block_exchange.cuh", include_str!("include/cub/block/block_exchange.cuh")),
    ("cub/block/block_histogram.cuh", include_str!("include/cub/block/block_histogram.cuh")),
    ("cub/block/block_load.cuh", include_str!("include/cub/block/block_load.cuh")),
    ("cub/block/block_merge_sort.cuh", include_str!("include/cub/block/block_merge_sort.cuh")),
    ("cub/block/block_radix_sort.cuh", include_str!("include/cub/block/block_radix_sort.cuh")),
    ("cub/block/block_reduce.cuh", include_str!("include/cub/block/block_reduce.cuh")),
    ("cub/block/block_scan.cuh", include_str!("include/cub/block/block_scan.cuh")),
    ("cub/block/block_shuffle.cuh", include_str!("include/cub/block/block_shuffle.cuh")),
    ("cub/block/block_store.cuh", include_str!("include/cub/block/block_store.cuh")),
    ("cub/cub.cuh", include_str!("include/cub/cub.cuh")),
    (
        "cub/iterator/cache_modified_input_iterator.cuh",
        include_str!("include/cub/iterator/cache_modified_input_iterator.cuh"),
    ),
    (
        "cub/iterator/counting_input_iterator.cuh",
        include_str!("include/cub/iterator/counting_input_iterator.cuh"),
    ),
    (
        "cub/iterator/transform_input_iterator.cuh",
        include_str!("include/cub/iterator/transform_input_iterator.cuh"),
    ),
    ("cub/thread/thread_load.cuh", include_str!("include/cub/thread/thread_load.cuh")),
    ("cub/thread/thread_operators.cuh", include_str!("include/cub/thread/thread_operators.cuh")),
    ("cub/thread/thread_reduce.cuh", include_str!("include/cub/thread/thread_reduce.cuh")),
    ("cub/thread/thread_store.cuh", include_str!("include/cub/thread/thread_store.cuh")),
    ("cub/util_math.cuh", include_str!("include/cub/util_math.cuh")),
    ("cub/util_ptx.cuh", include_str!("include/cub/util_ptx.cuh")),
    ("cub/util_type.cuh", include_str!("include/cub/util_type.cuh")),
    ("cub/warp/warp_exchange.cuh", include_str!("include/cub/warp/warp_exchange.cuh")),
    ("cub/warp/warp_load.cuh", include_str!("include/cub/warp/warp_load.cuh")),
    ("cub/warp/warp_merge_sort.cuh", include_str!("include/cub/warp/warp_merge_sort.cuh")),
    ("cub/warp/warp_reduce.cuh", include_str!("include/cub/warp/warp_reduce.cuh")),
    ("cub/warp/warp_scan.cuh", include_str!("include/cub/warp/warp_scan.cuh")),
    ("cub/warp/warp_store.cuh", include_str!("include/cub/warp/warp_store.cuh")),
    ("cuda.h", include_str!("include/cuda.h")),
    ("cuda/atomic", include_str!("include/cuda/atomic")),
    ("cuda/barrier", include_str!("include/cuda/barrier")),
    ("cuda/cmath", include_str!("include/cuda/cmath")),
    ("cuda/functional", include_str!("include/cuda/functional")),
    ("cuda/pipeline", include_str!("include/cuda/pipeline")),
    ("cuda/std/algorithm", include_str!("include/cuda/std/algorithm")),
    ("cuda/std/array", include_str!("include/cuda/std/array")),
    ("cuda/std/atomic", include_str!("include/cuda/std/atomic")),
    ("cuda/std/barrier", include_str!("include/cuda/std/barrier")),
    ("cuda/std/bit", include_str!("include/cuda/std/bit")),
    ("cuda/std/cassert", include_str!("include/cuda/std/cassert")),
    ("cuda/std/cfloat", include_str!("include/cuda/std/cfloat")),
    ("cuda/std/climits", include_str!("include/cuda/std/climits")),
    ("cuda/std/cmath", include_str!("include/cuda/std/cmath")),
    ("cuda/std/complex", include_str!("include/cuda/std/complex")),
    ("cuda/std/concepts", include_str!("include/cuda/std/concepts")),
    ("cuda/std/cstddef", include_str!("include/cuda/std/cstddef")),
    ("cuda/std/cstdint", include_str!("include/cuda/std/cstdint")),
    ("cuda/std/cstdlib", include_str!("include/cuda/std/cstdlib")),
    ("cuda/std/cstring", include_str!("include/cuda/std/cstring")),
    ("cuda/std/functional", include_str!("include/cuda/std/functional")),
    ("cuda/std/initializer_list", include_str!("include/cuda/std/initializer_list")),
    ("cuda/std/iterator", include_str!("include/cuda/std/iterator")),
    ("cuda/std/limits", include_str!("include/cuda/std/limits")),
    ("cuda/std/numeric", include_str!("include/cuda/std/numeric")),
    ("cuda/std/optional", include_str!("include/cuda/std/optional")),
    ("cuda/std/span", include_str!("include/cuda/std/span")),
    ("cuda/std/tuple", include_str!("include/cuda/std/tuple")),
    ("cuda/std/type_traits", include_str!("include/cuda/std/type_traits")),
    ("cuda/std/utility", include_str!("include/cuda/std/utility")),
    ("cuda_awbarrier.h", include_str!("include/cuda_awbarrier.h")),
    ("cuda_awbarrier_primitives.h", include_str!("include/cuda_awbarrier_primitives.h")),
    ("cuda_bf16.h", include_str!("include/cuda_bf16.h")),
    ("cuda_fp16.h", include_str!("include/cuda_fp16.h")),
    ("cuda_fp8.h", include_str!("include/cuda_fp8.h")),
    ("cuda_pipeline.h", include_str!("include/cuda_pipeline.h")),
    ("cuda_pipeline_primitives.h", include_str!("include/cuda_pipeline_primitives.h")),
    ("cuda_profiler_api.h", include_str!("include/cuda_profiler_api.h")),
    ("cuda_runtime.h", include_str!("include/cuda_runtime.h")),
    ("cuda_runtime_api.h", include_str!("include/cuda_runtime_api.h")),
    ("device_atomic_functions.h", include_str!("include/device_atomic_functions.h")),
    ("device_functions.h", include_str!("include/device_functions.h")),
    ("device_launch_parameters.h", include_str!("include/device_launch_parameters.h")),
    ("device_types.h", include_str!("include/device_types.h")),
    ("driver_types.h", include_str!("include/driver_types.h")),
    ("float.h", include_str!("include/float.h")),
    ("functional", include_str!("include/functional")),
    ("host_defines.h", include_str!("include/host_defines.h")),
    ("initializer_list", include_str!("include/initializer_list")),
    ("inttypes.h", include_str!("include/inttypes.h")),
    ("iterator", include_str!("include/iterator")),
    ("library_types.h", include_str!("include/library_types.h")),
    ("limits", include_str!("include/limits")),
    ("limits.h", include_str!("include/limits.h")),
    ("math.h", include_str!("include/math.h")),
    ("math_constants.h", include_str!("include/math_constants.h")),
    ("math_functions.h", include_str!("include/math_functions.h")),
    ("mma.h", include_str!("include/mma.h")),
    ("new", include_str!("include/new")),
    ("numeric", include_str!("include/numeric")),
    ("optional", include_str!("include/optional")),
    ("sm_20_intrinsics.h", include_str!("include/sm_20_intrinsics.h")),
    ("sm_30_intrinsics.h", include_str!("include/sm_30_intrinsics.h")),
    ("sm_32_intrinsics.h", include_str!("include/sm_32_intrinsics.h")),
    ("sm_35_intrinsics.h", include_str!("include/sm_35_intrinsics.h")),
    ("sm_60_atomic_functions.h", include_str!("include/sm_60_atomic_functions.h")),
    ("sm_61_intrinsics.h", include_str!("include/sm_61_intrinsics.h")),
    ("span", include_str!("include/span")),
    ("stdbool.h", include_str!("include/stdbool.h")),
    ("stddef.h", include_str!("include/stddef.h")),
    ("stdint.h", include_str!("include/stdint.h")),
    ("stdio.h", include_str!("include/stdio.h")),
    ("stdlib.h", include_str!("include/stdlib.h")),
    ("string.h", include_str!("include/string.h")),
    ("tribunal/base.h", include_str!("include/tribunal/base.h")),
    ("tribunal/bits.h", include_str!("include/tribunal/bits.h")),
    ("tribunal/bytes.h", include_str!("include/tribunal/bytes.h")),
    ("tribunal/copies.h", include_str!("include/tribunal/copies.h")),
    ("tribunal/cuda_std.h", include_str!("include/tribunal/cuda_std.h")),
    ("tribunal/double.h", include_str!("include/tribunal/double.h")),
    ("tribunal/halves.h", include_str!("include/tribunal/halves.h")),
    ("tribunal/lanes.h", include_str!("include/tribunal/lanes.h")),
    ("tribunal/math.h", include_str!("include/tribunal/math.h")),
    ("tribunal/memory.h", include_str!("include/tribunal/memory.h")),
    ("tribunal/overloads.h", include_str!("include/tribunal/overloads.h")),
    ("tribunal/prelude.h", include_str!("include/tribunal/prelude.h")),
    ("tribunal/print.h", include_str!("include/tribunal/print.h")),
    ("tribunal/scopes.h", include_str!("include/tribunal/scopes.h")),
    ("tribunal/single.h", include_str!("include/tribunal/single.h")),
    ("tribunal/special.h", include_str!("include/tribunal/special.h")),
    ("tribunal/vectors.h", include_str!("include/tribunal/vectors.h")),
    ("tribunal/warp.h", include_str!("include/tribunal/warp.h")),
    ("tuple", include_str!("include/tuple")),
    ("type_traits", include_str!("include/type_traits")),
    ("utility", include_str!("include/utility")),
    ("vector_functions.h", include_str!("include/vector_functions.h")),
    ("vector_types.h", include_str!("include/vector_types.h")),
]);

/// What NVRTC's own headers lack.
pub(super) const SHIMS: Headers = Headers(&[
    ("algorithm", include_str!("shims/algorithm")),
    ("array", include_str!("shims/array")),
    ("assert.h", include_str!("shims/assert.h")),
    ("bit", include_str!("shims/bit")),
    ("builtin_types.h", include_str!("shims/builtin_types.h")),
    ("cassert", include_str!("shims/cassert")),
    ("cfloat", include_str!("shims/cfloat")),
    ("channel_descriptor.h", include_str!("shims/channel_descriptor.h")),
    ("cinttypes", include_str!("include/cinttypes")),
    ("climits", include_str!("shims/climits")),
    ("cmath", include_str!("shims/cmath")),
    ("complex", include_str!("shims/complex")),
    ("concepts", include_str!("shims/concepts")),
    ("cstddef", include_str!("shims/cstddef")),
    ("cstdint", include_str!("shims/cstdint")),
    ("cstdio", include_str!("shims/cstdio")),
    ("cstdlib", include_str!("shims/cstdlib")),
    ("cstring", include_str!("shims/cstring")),
    ("cuda.h", include_str!("shims/cuda.h")),
    ("cuda_runtime.h", include_str!("shims/cuda_runtime.h")),
    ("cuda_runtime_api.h", include_str!("shims/cuda_runtime_api.h")),
    ("device_atomic_functions.h", include_str!("shims/device_atomic_functions.h")),
    ("device_functions.h", include_str!("shims/device_functions.h")),
    ("device_launch_parameters.h", include_str!("shims/device_launch_parameters.h")),
    ("driver_types.h", include_str!("shims/driver_types.h")),
    ("float.h", include_str!("shims/float.h")),
    ("functional", include_str!("shims/functional")),
    ("host_defines.h", include_str!("shims/host_defines.h")),
    ("initializer_list", include_str!("shims/initializer_list")),
    ("inttypes.h", include_str!("include/inttypes.h")),
    ("iterator", include_str!("shims/iterator")),
    ("limits", include_str!("shims/limits")),
    ("limits.h", include_str!("shims/limits.h")),
    ("math.h", include_str!("shims/math.h")),
    ("math_functions.h", include_str!("shims/math_functions.h")),
    ("new", include_str!("shims/new")),
    ("numeric", include_str!("shims/numeric")),
    ("optional", include_str!("shims/optional")),
    ("sm_20_intrinsics.h", include_str!("shims/sm_20_intrinsics.h")),
    ("sm_30_intrinsics.h", include_str!("shims/sm_30_intrinsics.h")),
    ("sm_32_intrinsics.h", include_str!("shims/sm_32_intrinsics.h")),
    ("sm_35_intrinsics.h", include_str!("shims/sm_35_intrinsics.h")),
    ("sm_60_atomic_functions.h", include_str!("shims/sm_60_atomic_functions.h")),
    ("sm_61_intrinsics.h", include_str!("shims/sm_61_intrinsics.h")),
    ("span", include_str!("shims/span")),
    ("stdbool.h", include_str!("shims/stdbool.h")),
    ("stddef.h", include_str!("shims/stddef.h")),
    ("stdint.h", include_str!("shims/stdint.h")),
    ("stdio.h", include_str!("shims/stdio.h")),
    ("stdlib.h", include_str!("shims/stdlib.h")),
    ("string.h", include_str!("shims/string.h")),
    ("tribunal_prelude.h", include_str!("shims/tribunal_prelude.h")),
    ("tuple", include_str!("shims/tuple")),
    ("type_traits", include_str!("shims/type_traits")),
    ("utility", include_str!("shims/utility")),
    ("vector_functions.h", include_str!("shims/vector_functions.h")),
]);

impl Headers {
    /// Lays them out in `folder`.
    pub(super) fn lay_out(&self, folder: &Path) -> Result<(), MachineError> {
        for (path, text) in self.0 {
            let path = folder.join(path);
            let parent = path.parent().expect("a path inside a folder");
            fs::create_dir_all(parent)
                .and_then(|()| fs::write(&path, text))
                .map_err(MachineError::system("laying out the CUDA headers"))?;
        }
        Ok(())
    }

    /// All of them, for a name of exactly this compilation.
    pub(super) fn text(&self) -> String {
        self.0.iter().flat_map(|(path, text)| [*path, *text]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_carried_and_says_what_it_is() {
        for (name, headers) in [("include", OURS), ("shims", SHIMS)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/build/cuda").join(name);
            let mut todo = vec![folder.clone()];
            let mut found = Vec::new();
            while let Some(next) = todo.pop() {
                for entry in fs::read_dir(next).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        todo.push(path);
                    } else {
                        found.push(path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned());
                    }
                }
            }
            for path in found {
                let file = fs::read_to_string(folder.join(&path)).unwrap();
                assert!(headers.0.contains(&(&path, &file)), "{name}/{path} is not carried");
            }
            assert!(
                headers.0.is_sorted_by(|a, b| a.0 < b.0),
                "a header of {name} stands twice or out of its place"
            );
            for (path, text) in headers.0 {
                assert!(text.starts_with("// "), "{path}");
            }
        }
    }
}
