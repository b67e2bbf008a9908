// Values of any type that go from lane to lane, who is where, who waits for whom, and parts of words.
#pragma once

namespace cub {

TRIBUNAL_DEVICE unsigned int LaneId() { return __nvvm_read_ptx_sreg_laneid(); }
TRIBUNAL_DEVICE unsigned int LaneMaskLt() { return __nvvm_read_ptx_sreg_lanemask_lt(); }
TRIBUNAL_DEVICE unsigned int LaneMaskLe() { return __nvvm_read_ptx_sreg_lanemask_le(); }
TRIBUNAL_DEVICE unsigned int LaneMaskGt() { return __nvvm_read_ptx_sreg_lanemask_gt(); }
TRIBUNAL_DEVICE unsigned int LaneMaskGe() { return __nvvm_read_ptx_sreg_lanemask_ge(); }
TRIBUNAL_DEVICE int RowMajorTid(int x, int y, int) { return (int)((threadIdx.z * y + threadIdx.y) * x + threadIdx.x); }

TRIBUNAL_DEVICE void CTA_SYNC() { __syncthreads(); }
TRIBUNAL_DEVICE int CTA_SYNC_AND(int holds) { return __syncthreads_and(holds); }
TRIBUNAL_DEVICE int CTA_SYNC_OR(int holds) { return __syncthreads_or(holds); }
TRIBUNAL_DEVICE void WARP_SYNC(unsigned int mask) { __syncwarp(mask); }
TRIBUNAL_DEVICE int WARP_ALL(int holds, unsigned int mask) { return __all_sync(mask, holds); }
TRIBUNAL_DEVICE int WARP_ANY(int holds, unsigned int mask) { return __any_sync(mask, holds); }
TRIBUNAL_DEVICE int WARP_BALLOT(int holds, unsigned int mask) { return (int)__ballot_sync(mask, holds); }

// So many bits of a word, from one on; and `x` with those of `y` there.
template <class Bits> TRIBUNAL_DEVICE unsigned int BFE(Bits source, unsigned int start, unsigned int bits) {
    return (unsigned int)((unsigned long long)source >> start & ((1ull << bits) - 1));
}
TRIBUNAL_DEVICE void BFI(unsigned int &result, unsigned int x, unsigned int y, unsigned int start, unsigned int bits) {
    unsigned int there = (unsigned int)(((1ull << bits) - 1) << start);
    result = (x & ~there) | (y << start & there);
}

// Words of 32 bits are moved one after the other. `bound` is the last lane of the part, or the first, that is taken from: whoever would take
// from beyond it keeps its own.
#define TRIBUNAL_MOVE(name, mode, lane, bound)                                                                 \
    template <int Threads, class T> TRIBUNAL_DEVICE T name(T input, int lane, int bound, unsigned int mask) {  \
        static_assert(__is_trivially_copyable(T), "only what is trivially copyable can be moved");             \
        unsigned int words[(sizeof(T) + 3) / 4] = {};                                                          \
        __builtin_memcpy(words, &input, sizeof(T));                                                            \
        _Pragma("unroll") for (unsigned int &word : words) {                                                   \
            __asm__ volatile("shfl.sync." mode ".b32 %0, %0, %1, %2, %3;"                                      \
                             : "+r"(word)                                                                      \
                             : "r"(lane), "r"((32 - Threads) << 8 | (bound)), "r"(mask));                      \
        }                                                                                                      \
        __builtin_memcpy(&input, words, sizeof(T));                                                            \
        return input;                                                                                          \
    }
TRIBUNAL_MOVE(ShuffleUp, "up", offset, first)
TRIBUNAL_MOVE(ShuffleDown, "down", offset, last)
TRIBUNAL_MOVE(tribunal_from, "idx", lane, last)
#undef TRIBUNAL_MOVE
template <int Threads, class T> TRIBUNAL_DEVICE T ShuffleIndex(T input, int lane, unsigned int mask) {
    return tribunal_from<Threads>(input, lane, Threads - 1, mask);
}

// The lanes of a warp's part of so many threads, where the whole block has so many.
template <int Threads> TRIBUNAL_DEVICE unsigned int tribunal_lanes_of(int block) {
    static_assert(Threads >= 1 && Threads <= 32 && (Threads & (Threads - 1)) == 0, "parts of a warp have 1, 2, 4, 8, 16 or 32 threads");
    int rest = block - (int)(RowMajorTid((int)blockDim.x, (int)blockDim.y, 0) / 32 * 32);
    unsigned int there = rest >= 32 ? 0xffffffffu : (1u << rest) - 1;
    unsigned int part = Threads == 32 ? 0xffffffffu : ((1u << (Threads & 31)) - 1) << (LaneId() & ~(Threads - 1u));
    return there & part;
}

// Who shares memory: a block, or a part of a warp. What one wrote before `sync` the others may read behind it.
struct tribunal_block {
    static TRIBUNAL_MEMBER void sync() { __syncthreads(); }
};
template <int Threads> struct tribunal_part {
    static TRIBUNAL_MEMBER int lane() { return (int)(LaneId() % Threads); }
    static TRIBUNAL_MEMBER void sync() {
        __syncwarp(tribunal_lanes_of<Threads>((int)(blockDim.x * blockDim.y * blockDim.z)));
    }
};

}
