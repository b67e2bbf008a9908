// Included before every CUDA source that clang compiles: what the CUDA language has without any #include.
//
// Written for Tribunal from the public programming guide and the PTX manual; it contains no text of NVIDIA's. Functions are built of
// PTX instructions only, so that what is compiled needs no device library and loads on a GPU as it is. `nodebug` gives the
// lines of these functions to their callers.
#pragma once

#include "base.h"
#include "vectors.h"
#include "bits.h"
#include "lanes.h"
#include "warp.h"
#include "memory.h"
#include "bytes.h"
#include "math.h"
#include "double.h"
#include "special.h"
#include "single.h"
#include "overloads.h"
#include "print.h"
// What nvcc's own prelude brings of the library.
#include "../algorithm"
#include "../assert.h"
#include "../cstdint"
#include "../cstdlib"
#include "../cstring"
#include "../limits"
#include "../new"

// nvcc takes `alignas` behind `__shared__` as well; clang takes only attributes in GNU's form there, which name no type.
#define alignas(...)                                     \
    __attribute__((__aligned__([] {                      \
        struct alignas(__VA_ARGS__) tribunal_aligned {}; \
        return alignof(tribunal_aligned);                \
    }())))
