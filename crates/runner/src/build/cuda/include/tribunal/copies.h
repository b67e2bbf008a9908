// Copies from global to shared memory by the threads of a group together, which nobody waits for here.
#pragma once
#include "../cuda_pipeline_primitives.h"

namespace cuda {
// A number of bytes that is a multiple of `Alignment`, as both addresses are.
template <size_t Alignment> struct aligned_size_t {
    static constexpr size_t align = Alignment;
    size_t value;
    TRIBUNAL_MEMBER explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
    TRIBUNAL_MEMBER constexpr operator size_t() const { return value; }
};
template <class Bytes> inline constexpr size_t tribunal_alignment = 1;
template <size_t Alignment> inline constexpr size_t tribunal_alignment<aligned_size_t<Alignment>> = Alignment;
}

template <unsigned int Unit>
TRIBUNAL_DEVICE void tribunal_copy_by(unsigned int rank, unsigned int threads, char *to, const char *from, size_t bytes) {
    for (size_t i = (size_t)rank * Unit; i < bytes; i += (size_t)threads * Unit) {
        if constexpr (Unit == 1) {
            to[i] = from[i];
        } else {
            __pipeline_memcpy_async(to + i, from + i, Unit);
        }
    }
}
// By as many bytes at once as the alignment of all allows. Only copies from global to shared memory go on by themselves.
template <size_t Alignment>
TRIBUNAL_DEVICE void tribunal_copy(unsigned int rank, unsigned int threads, void *to, const void *from, size_t bytes) {
    char *d = (char *)to;
    const char *s = (const char *)from;
    size_t all = (size_t)d | (size_t)s | bytes;
    if (!__isShared(to) || !__isGlobal(from)) {
        tribunal_copy_by<1>(rank, threads, d, s, bytes);
    } else if (Alignment % 16 == 0 || all % 16 == 0) {
        tribunal_copy_by<16>(rank, threads, d, s, bytes);
    } else if (Alignment % 8 == 0 || all % 8 == 0) {
        tribunal_copy_by<8>(rank, threads, d, s, bytes);
    } else if (Alignment % 4 == 0 || all % 4 == 0) {
        tribunal_copy_by<4>(rank, threads, d, s, bytes);
    } else {
        tribunal_copy_by<1>(rank, threads, d, s, bytes);
    }
}
