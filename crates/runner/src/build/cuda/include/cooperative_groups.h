// Cooperative groups: the block, tiles of a warp, and the lanes that are active. There is no group of the whole grid.
#pragma once

namespace cooperative_groups {

class thread_block {
  public:
    static TRIBUNAL_MEMBER void sync() { __syncthreads(); }
    static TRIBUNAL_MEMBER unsigned int thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static TRIBUNAL_MEMBER unsigned int num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static TRIBUNAL_MEMBER unsigned int size() { return num_threads(); }
    static TRIBUNAL_MEMBER dim3 group_index() { return blockIdx; }
    static TRIBUNAL_MEMBER dim3 thread_index() { return threadIdx; }
    static TRIBUNAL_MEMBER dim3 dim_threads() { return blockDim; }
    static TRIBUNAL_MEMBER dim3 group_dim() { return blockDim; }
};

TRIBUNAL_DEVICE thread_block this_thread_block() { return thread_block(); }
template <class Group> TRIBUNAL_DEVICE void sync(const Group &group) { group.sync(); }

// `Size` neighbouring lanes of a warp, a power of two.
template <unsigned int Size, class Parent = void> class thread_block_tile {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

    static TRIBUNAL_MEMBER unsigned int lane() { return thread_block::thread_rank() & 31; }
    static TRIBUNAL_MEMBER unsigned int mask() {
        return Size == 32 ? 0xffffffffu : ((1u << (Size & 31)) - 1) << (lane() & ~(Size - 1));
    }
    static TRIBUNAL_MEMBER unsigned int within(unsigned int lanes) { return (lanes & mask()) >> (lane() & ~(Size - 1)); }

  public:
    static TRIBUNAL_MEMBER void sync() { __syncwarp(mask()); }
    static TRIBUNAL_MEMBER unsigned int thread_rank() { return lane() & (Size - 1); }
    static constexpr TRIBUNAL_MEMBER unsigned int num_threads() { return Size; }
    static constexpr TRIBUNAL_MEMBER unsigned int size() { return Size; }
    static TRIBUNAL_MEMBER unsigned int meta_group_rank() { return thread_block::thread_rank() / Size; }
    static TRIBUNAL_MEMBER unsigned int meta_group_size() { return (thread_block::num_threads() + Size - 1) / Size; }
    template <class T> TRIBUNAL_MEMBER T shfl(T value, int rank) const { return __shfl_sync(mask(), value, rank, Size); }
    template <class T> TRIBUNAL_MEMBER T shfl_up(T value, unsigned int delta) const {
        return __shfl_up_sync(mask(), value, delta, Size);
    }
    template <class T> TRIBUNAL_MEMBER T shfl_down(T value, unsigned int delta) const {
        return __shfl_down_sync(mask(), value, delta, Size);
    }
    template <class T> TRIBUNAL_MEMBER T shfl_xor(T value, unsigned int lanes) const {
        return __shfl_xor_sync(mask(), value, (int)lanes, Size);
    }
    TRIBUNAL_MEMBER int any(int predicate) const { return within(__ballot_sync(mask(), predicate)) != 0; }
    TRIBUNAL_MEMBER int all(int predicate) const { return within(__ballot_sync(mask(), !predicate)) == 0; }
    TRIBUNAL_MEMBER unsigned int ballot(int predicate) const { return within(__ballot_sync(mask(), predicate)); }
    template <class T> TRIBUNAL_MEMBER unsigned int match_any(T value) const {
        return within(__match_any_sync(mask(), value));
    }
};

template <unsigned int Size, class Parent>
TRIBUNAL_DEVICE thread_block_tile<Size, Parent> tiled_partition(const Parent &) {
    return thread_block_tile<Size, Parent>();
}

// The lanes that were active where it was made.
class coalesced_group {
    unsigned int mask;

  public:
    TRIBUNAL_MEMBER explicit coalesced_group(unsigned int mask) : mask(mask) {}
    TRIBUNAL_MEMBER void sync() const { __syncwarp(mask); }
    TRIBUNAL_MEMBER unsigned int size() const { return (unsigned int)__popc(mask); }
    TRIBUNAL_MEMBER unsigned int num_threads() const { return size(); }
    TRIBUNAL_MEMBER unsigned int thread_rank() const {
        unsigned int below;
        __asm__("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
        return (unsigned int)__popc(mask & below);
    }
    TRIBUNAL_MEMBER int any(int predicate) const { return __any_sync(mask, predicate); }
    TRIBUNAL_MEMBER int all(int predicate) const { return __all_sync(mask, predicate); }
};

TRIBUNAL_DEVICE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <class T> struct plus {
    TRIBUNAL_MEMBER T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
    TRIBUNAL_MEMBER T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    TRIBUNAL_MEMBER T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
    TRIBUNAL_MEMBER T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
    TRIBUNAL_MEMBER T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
    TRIBUNAL_MEMBER T operator()(T a, T b) const { return a ^ b; }
};

// A butterfly: every thread of the tile gets the result.
template <unsigned int Size, class Parent, class T, class Operation>
TRIBUNAL_DEVICE T reduce(const thread_block_tile<Size, Parent> &tile, T value, Operation operation) {
#pragma unroll
    for (unsigned int lanes = Size / 2; lanes > 0; lanes /= 2) value = operation(value, tile.shfl_xor(value, lanes));
    return value;
}

}
