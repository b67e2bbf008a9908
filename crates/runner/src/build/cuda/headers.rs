//! Our own headers for CUDA sources, carried in the program.

use std::fs;
use std::path::Path;

use crate::MachineError;

/// Path and text of each.
pub(super) const HEADERS: &[(&str, &str)] = &[
    ("assert.h", include_str!("include/assert.h")),
    ("cassert", include_str!("include/cassert")),
    ("cfloat", include_str!("include/cfloat")),
    ("climits", include_str!("include/climits")),
    ("cmath", include_str!("include/cmath")),
    ("cooperative_groups.h", include_str!("include/cooperative_groups.h")),
    ("cooperative_groups/reduce.h", include_str!("include/cooperative_groups/reduce.h")),
    ("cstddef", include_str!("include/cstddef")),
    ("cstdint", include_str!("include/cstdint")),
    ("cstdio", include_str!("include/cstdio")),
    ("cuda.h", include_str!("include/cuda.h")),
    ("cuda_bf16.h", include_str!("include/cuda_bf16.h")),
    ("cuda_fp16.h", include_str!("include/cuda_fp16.h")),
    ("cuda_pipeline.h", include_str!("include/cuda_pipeline.h")),
    ("cuda_pipeline_primitives.h", include_str!("include/cuda_pipeline_primitives.h")),
    ("cuda_runtime.h", include_str!("include/cuda_runtime.h")),
    ("cuda_runtime_api.h", include_str!("include/cuda_runtime_api.h")),
    ("device_functions.h", include_str!("include/device_functions.h")),
    ("device_launch_parameters.h", include_str!("include/device_launch_parameters.h")),
    ("float.h", include_str!("include/float.h")),
    ("limits", include_str!("include/limits")),
    ("limits.h", include_str!("include/limits.h")),
    ("math.h", include_str!("include/math.h")),
    ("math_constants.h", include_str!("include/math_constants.h")),
    ("stdbool.h", include_str!("include/stdbool.h")),
    ("stddef.h", include_str!("include/stddef.h")),
    ("stdint.h", include_str!("include/stdint.h")),
    ("stdio.h", include_str!("include/stdio.h")),
    ("tribunal/base.h", include_str!("include/tribunal/base.h")),
    ("tribunal/bits.h", include_str!("include/tribunal/bits.h")),
    ("tribunal/math.h", include_str!("include/tribunal/math.h")),
    ("tribunal/memory.h", include_str!("include/tribunal/memory.h")),
    ("tribunal/prelude.h", include_str!("include/tribunal/prelude.h")),
    ("tribunal/print.h", include_str!("include/tribunal/print.h")),
    ("tribunal/vectors.h", include_str!("include/tribunal/vectors.h")),
    ("tribunal/warp.h", include_str!("include/tribunal/warp.h")),
    ("type_traits", include_str!("include/type_traits")),
    ("vector_types.h", include_str!("include/vector_types.h")),
];

/// What is included before every source.
pub(super) const PRELUDE: &str = "tribunal/prelude.h";

/// Lays the headers out in `folder`.
pub(super) fn lay_out(folder: &Path) -> Result<(), MachineError> {
    for (path, text) in HEADERS {
        let path = folder.join(path);
        let parent = path.parent().expect("a path inside a folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(MachineError::system("laying out the CUDA headers"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_carried_and_says_what_it_is() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/build/cuda/include");
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
        found.sort();
        assert_eq!(found, HEADERS.iter().map(|(path, _)| (*path).to_owned()).collect::<Vec<_>>());
        for (path, text) in HEADERS {
            assert!(text.starts_with("// ") && !text.contains("NVIDIA Corporation"), "{path}");
        }
    }
}
