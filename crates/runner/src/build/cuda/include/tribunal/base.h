// Words of the language: qualifiers, indices, barriers.
#pragma once

#define __CUDACC__ 1
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 800
#endif
// Sources guard what NVRTC refuses with this; no host code is compiled here either.
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 12000
#define CUDA_VERSION 12000

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
// A wish for whoever makes machine code, which clang has no way to pass on.
#define __maxnreg__(n)
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __restrict __restrict__

// What our own functions are.
#define TRIBUNAL_DEVICE static inline __attribute__((device, always_inline, nodebug))
#define TRIBUNAL_APART static inline __attribute__((device, noinline, nodebug))
#define TRIBUNAL_MEMBER inline __attribute__((device, always_inline, nodebug))
#define TRIBUNAL_BOTH inline __attribute__((host, device, always_inline, nodebug))

typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#ifndef NULL
#define NULL 0
#endif

struct uint3 {
    unsigned int x, y, z;
};

struct dim3 {
    unsigned int x, y, z;
    TRIBUNAL_BOTH constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    TRIBUNAL_BOTH constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    TRIBUNAL_BOTH constexpr operator uint3() const { return uint3{x, y, z}; }
};

// A variable whose members are special registers; it has no memory.
#define TRIBUNAL_INDEX(type, variable, registers)                                                              \
    struct type {                                                                                              \
        __declspec(property(get = get_x)) unsigned int x;                                                      \
        __declspec(property(get = get_y)) unsigned int y;                                                      \
        __declspec(property(get = get_z)) unsigned int z;                                                      \
        static TRIBUNAL_MEMBER unsigned int get_x() { return __nvvm_read_ptx_sreg_##registers##_x(); }         \
        static TRIBUNAL_MEMBER unsigned int get_y() { return __nvvm_read_ptx_sreg_##registers##_y(); }         \
        static TRIBUNAL_MEMBER unsigned int get_z() { return __nvvm_read_ptx_sreg_##registers##_z(); }         \
        TRIBUNAL_MEMBER operator dim3() const { return dim3(get_x(), get_y(), get_z()); }                      \
        TRIBUNAL_MEMBER operator uint3() const { return uint3{get_x(), get_y(), get_z()}; }                    \
    };                                                                                                         \
    extern const __attribute__((device, weak)) type variable

TRIBUNAL_INDEX(tribunal_thread_index, threadIdx, tid);
TRIBUNAL_INDEX(tribunal_block_index, blockIdx, ctaid);
TRIBUNAL_INDEX(tribunal_block_size, blockDim, ntid);
TRIBUNAL_INDEX(tribunal_grid_size, gridDim, nctaid);
#undef TRIBUNAL_INDEX

static constexpr int warpSize = 32;

// __syncthreads() is the compiler's own.
TRIBUNAL_DEVICE int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
TRIBUNAL_DEVICE int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }
TRIBUNAL_DEVICE int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
TRIBUNAL_DEVICE void __syncwarp(unsigned int mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }

TRIBUNAL_DEVICE void __barrier_sync(unsigned int barrier) { __asm__ volatile("barrier.sync %0;" ::"r"(barrier) : "memory"); }
TRIBUNAL_DEVICE void __barrier_sync_count(unsigned int barrier, unsigned int threads) {
    __asm__ volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

TRIBUNAL_DEVICE void __threadfence() { __nvvm_membar_gl(); }
TRIBUNAL_DEVICE void __threadfence_block() { __nvvm_membar_cta(); }
TRIBUNAL_DEVICE void __threadfence_system() { __nvvm_membar_sys(); }

TRIBUNAL_DEVICE void __trap() { __asm__ volatile("trap;"); }
TRIBUNAL_DEVICE void __nanosleep(unsigned int ns) { __asm__ volatile("nanosleep.u32 %0;" ::"r"(ns)); }
TRIBUNAL_DEVICE long long clock64() {
    long long ticks;
    __asm__ volatile("mov.u64 %0, %%clock64;" : "=l"(ticks));
    return ticks;
}
TRIBUNAL_DEVICE int clock() {
    int ticks;
    __asm__ volatile("mov.u32 %0, %%clock;" : "=r"(ticks));
    return ticks;
}
