// Cooperative groups: the block, tiles of a warp, lanes that came to one place or have a label in common, and who is where in the grid.
#pragma once

namespace cooperative_groups {

// Any group of threads: lanes of a warp, or the whole block if there are none.
class thread_group {
  protected:
    static TRIBUNAL_MEMBER unsigned int rank_in_block() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }

  public:
    unsigned int tribunal_lanes;
    TRIBUNAL_MEMBER explicit thread_group(unsigned int lanes) : tribunal_lanes(lanes) {}
    TRIBUNAL_MEMBER void sync() const {
        if (tribunal_lanes == 0) {
            __syncthreads();
        } else {
            __syncwarp(tribunal_lanes);
        }
    }
    TRIBUNAL_MEMBER unsigned int thread_rank() const {
        if (tribunal_lanes == 0) return rank_in_block();
        unsigned int below;
        __asm__("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
        return (unsigned int)__popc(tribunal_lanes & below);
    }
    TRIBUNAL_MEMBER unsigned int num_threads() const {
        return tribunal_lanes == 0 ? blockDim.x * blockDim.y * blockDim.z : (unsigned int)__popc(tribunal_lanes);
    }
    TRIBUNAL_MEMBER unsigned int size() const { return num_threads(); }
    // Of how many threads it holds; all of them ask.
    TRIBUNAL_MEMBER unsigned int tribunal_count(bool holds) const {
        if (tribunal_lanes == 0) return (unsigned int)__syncthreads_count(holds);
        return (unsigned int)__popc(__ballot_sync(tribunal_lanes, holds));
    }
};

class thread_block : public thread_group {
  public:
    struct arrival_token {};
    TRIBUNAL_MEMBER thread_block() : thread_group(0) {}
    static TRIBUNAL_MEMBER void sync() { __syncthreads(); }
    // All of the waiting is done at the end: no thread is let past before all have come there.
    static TRIBUNAL_MEMBER arrival_token barrier_arrive() { return arrival_token(); }
    static TRIBUNAL_MEMBER void barrier_wait(arrival_token &&) { __syncthreads(); }
    static TRIBUNAL_MEMBER unsigned int thread_rank() { return rank_in_block(); }
    static TRIBUNAL_MEMBER unsigned int num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static TRIBUNAL_MEMBER unsigned int size() { return num_threads(); }
    static TRIBUNAL_MEMBER dim3 group_index() { return blockIdx; }
    static TRIBUNAL_MEMBER dim3 thread_index() { return threadIdx; }
    static TRIBUNAL_MEMBER dim3 dim_threads() { return blockDim; }
    static TRIBUNAL_MEMBER dim3 group_dim() { return blockDim; }
};
TRIBUNAL_DEVICE thread_block this_thread_block() { return thread_block(); }
TRIBUNAL_DEVICE thread_group this_thread() { return thread_group(1u << __nvvm_read_ptx_sreg_laneid()); }

class grid_group {
  public:
    static TRIBUNAL_MEMBER unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static TRIBUNAL_MEMBER unsigned long long block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    static TRIBUNAL_MEMBER unsigned long long thread_rank() {
        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
    }
    // Its blocks cannot wait for one another.
    static constexpr TRIBUNAL_MEMBER bool is_valid() { return false; }
    static TRIBUNAL_MEMBER unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
    static TRIBUNAL_MEMBER unsigned long long size() { return num_threads(); }
    static TRIBUNAL_MEMBER dim3 group_dim() { return gridDim; }
    static TRIBUNAL_MEMBER dim3 dim_blocks() { return gridDim; }
    static TRIBUNAL_MEMBER dim3 block_index() { return blockIdx; }
    template <class Late = void> static TRIBUNAL_MEMBER void sync() {
        static_assert(!__is_void(Late), "blocks of a grid cannot wait for one another here: end the kernel, and launch another");
    }
};
TRIBUNAL_DEVICE grid_group this_grid() { return grid_group(); }

// What a value of any type is moved by: words of 32 bits, one after the other.
#define TRIBUNAL_SHUFFLE(name, move, number, source, lane, width)                                              \
    template <class T> TRIBUNAL_MEMBER T name(T value, number source) const {                                  \
        static_assert(__is_trivially_copyable(T), "only what is trivially copyable can be moved");             \
        unsigned int words[(sizeof(T) + 3) / 4] = {};                                                          \
        __builtin_memcpy(words, &value, sizeof(T));                                                            \
        _Pragma("unroll") for (unsigned int &word : words) word = move(tribunal_lanes, word, lane, width);     \
        __builtin_memcpy(&value, words, sizeof(T));                                                            \
        return value;                                                                                          \
    }
// Votes and matches of lanes, told by rank, as packed() makes it of lanes.
#define TRIBUNAL_VOTES                                                                                         \
    TRIBUNAL_MEMBER int any(int predicate) const { return __any_sync(tribunal_lanes, predicate); }             \
    TRIBUNAL_MEMBER int all(int predicate) const { return __all_sync(tribunal_lanes, predicate); }             \
    TRIBUNAL_MEMBER unsigned int ballot(int predicate) const { return packed(__ballot_sync(tribunal_lanes, predicate)); } \
    template <class T> TRIBUNAL_MEMBER unsigned int match_any(T value) const {                                 \
        return packed(__match_any_sync(tribunal_lanes, tribunal_bits(value)));                                 \
    }                                                                                                          \
    template <class T> TRIBUNAL_MEMBER unsigned int match_all(T value, int &same) const {                      \
        return packed(__match_all_sync(tribunal_lanes, tribunal_bits(value), &same));                          \
    }                                                                                                          \
    TRIBUNAL_MEMBER unsigned int meta_group_rank() const { return meta_rank; }                                 \
    TRIBUNAL_MEMBER unsigned int meta_group_size() const { return meta_size; }

template <class T> TRIBUNAL_DEVICE auto tribunal_bits(T value) {
    static_assert(sizeof(T) <= 8, "only what has 8 bytes at most can be matched");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    if constexpr (sizeof(T) <= 4) {
        return (unsigned int)bits;
    } else {
        return bits;
    }
}

// `Size` neighbouring lanes of a warp, a power of two; of which group they are a part is told by their rank among its tiles.
template <unsigned int Size, class Parent = void> class thread_block_tile;
template <unsigned int Size> class thread_block_tile<Size, void> : public thread_group {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
    unsigned int meta_rank, meta_size;

    static TRIBUNAL_MEMBER unsigned int first() { return __nvvm_read_ptx_sreg_laneid() & ~(Size - 1); }
    TRIBUNAL_MEMBER unsigned int packed(unsigned int found) const { return (found & tribunal_lanes) >> first(); }

  protected:
    TRIBUNAL_MEMBER thread_block_tile(unsigned int rank, unsigned int count)
        : thread_group(Size == 32 ? 0xffffffffu : ((1u << (Size & 31)) - 1) << first()), meta_rank(rank), meta_size(count) {}

  public:
    TRIBUNAL_MEMBER void sync() const { __syncwarp(tribunal_lanes); }
    static TRIBUNAL_MEMBER unsigned int thread_rank() { return __nvvm_read_ptx_sreg_laneid() & (Size - 1); }
    static constexpr TRIBUNAL_MEMBER unsigned int num_threads() { return Size; }
    static constexpr TRIBUNAL_MEMBER unsigned int size() { return Size; }
    TRIBUNAL_SHUFFLE(shfl, __shfl_sync, int, rank, rank, Size)
    TRIBUNAL_SHUFFLE(shfl_up, __shfl_up_sync, unsigned int, delta, delta, Size)
    TRIBUNAL_SHUFFLE(shfl_down, __shfl_down_sync, unsigned int, delta, delta, Size)
    TRIBUNAL_SHUFFLE(shfl_xor, __shfl_xor_sync, unsigned int, mask, (int)mask, Size)
    TRIBUNAL_VOTES
};
template <unsigned int Size, class Parent> class thread_block_tile : public thread_block_tile<Size, void> {
  public:
    TRIBUNAL_MEMBER explicit thread_block_tile(const Parent &parent)
        : thread_block_tile<Size, void>(parent.thread_rank() / Size, (parent.size() + Size - 1) / Size) {}
};

template <unsigned int Size, class Parent>
TRIBUNAL_DEVICE thread_block_tile<Size, Parent> tiled_partition(const Parent &parent) {
    return thread_block_tile<Size, Parent>(parent);
}

// Any lanes of a warp, ranked by their numbers.
class coalesced_group : public thread_group {
    unsigned int meta_rank, meta_size;

    TRIBUNAL_MEMBER unsigned int packed(unsigned int found) const {
        unsigned int ranks = 0, rank = 1;
        for (unsigned int rest = tribunal_lanes; rest != 0; rest &= rest - 1, rank *= 2) {
            if (found & rest & -rest) ranks |= rank;
        }
        return ranks;
    }
    // The lane of a rank.
    TRIBUNAL_MEMBER int lane(unsigned int rank) const {
        int lane = 0;
#pragma unroll
        for (int width = 16; width > 0; width /= 2) {
            unsigned int below = (unsigned int)__popc(tribunal_lanes >> lane & ((1u << width) - 1));
            if (rank >= below) {
                rank -= below;
                lane += width;
            }
        }
        return lane;
    }

  public:
    TRIBUNAL_MEMBER explicit coalesced_group(unsigned int lanes, unsigned int rank = 0, unsigned int count = 1)
        : thread_group(lanes), meta_rank(rank), meta_size(count) {}
    TRIBUNAL_MEMBER void sync() const { __syncwarp(tribunal_lanes); }
    TRIBUNAL_MEMBER unsigned int num_threads() const { return (unsigned int)__popc(tribunal_lanes); }
    TRIBUNAL_MEMBER unsigned int size() const { return num_threads(); }
    TRIBUNAL_SHUFFLE(shfl, __shfl_sync, unsigned int, rank, lane(rank), 32)
    TRIBUNAL_SHUFFLE(shfl_up, __shfl_sync, unsigned int, delta, lane(thread_rank() - (delta <= thread_rank() ? delta : 0)), 32)
    TRIBUNAL_SHUFFLE(shfl_down, __shfl_sync, unsigned int, delta, lane(thread_rank() + (delta < size() - thread_rank() ? delta : 0)), 32)
    TRIBUNAL_VOTES
};
#undef TRIBUNAL_SHUFFLE
#undef TRIBUNAL_VOTES

TRIBUNAL_DEVICE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

// Parts of a group, each of `size` threads that follow one another by rank.
TRIBUNAL_DEVICE unsigned int tribunal_part(unsigned int lanes, unsigned int rank, unsigned int size) {
    unsigned int found = 0, other = 0;
    for (unsigned int rest = lanes; rest != 0; rest &= rest - 1, other++) {
        if (other / size == rank / size) found |= rest & -rest;
    }
    return found;
}
TRIBUNAL_DEVICE thread_group tiled_partition(const thread_group &parent, unsigned int size) {
    bool block = parent.tribunal_lanes == 0;
    unsigned int rank = block ? __nvvm_read_ptx_sreg_laneid() : parent.thread_rank();
    return thread_group(tribunal_part(block ? 0xffffffffu : parent.tribunal_lanes, rank, size));
}
TRIBUNAL_DEVICE coalesced_group tiled_partition(const coalesced_group &parent, unsigned int size) {
    unsigned int rank = parent.thread_rank();
    return coalesced_group(
        tribunal_part(parent.tribunal_lanes, rank, size), rank / size, (parent.size() + size - 1) / size);
}

// The threads of a group with the same label; groups are ranked by their first lanes.
template <class Group, class Label> TRIBUNAL_DEVICE coalesced_group labeled_partition(const Group &group, Label label) {
    unsigned int same = __match_any_sync(group.tribunal_lanes, tribunal_bits(label)), first = same & -same;
    unsigned int all_first = __ballot_sync(group.tribunal_lanes, thread_group(same).thread_rank() == 0);
    return coalesced_group(same, (unsigned int)__popc(all_first & (first - 1)), (unsigned int)__popc(all_first));
}
template <class Group> TRIBUNAL_DEVICE coalesced_group binary_partition(const Group &group, bool predicate) {
    unsigned int yes = __ballot_sync(group.tribunal_lanes, predicate), no = group.tribunal_lanes & ~yes;
    bool two = yes != 0 && no != 0;
    return coalesced_group(predicate ? yes : no, two && predicate, two + 1);
}

// One thread calls a function, with whatever it is given.
template <class Group, class Function, class... Arguments>
TRIBUNAL_DEVICE void invoke_one(const Group &group, Function &&function, Arguments &&...arguments) {
    if (group.thread_rank() == 0) function(arguments...);
}
template <class Group, class Function, class... Arguments>
TRIBUNAL_DEVICE auto invoke_one_broadcast(const Group &group, Function &&function, Arguments &&...arguments) {
    decltype(function(arguments...)) result{};
    if (group.thread_rank() == 0) result = function(arguments...);
    return group.shfl(result, 0);
}

template <class Group> TRIBUNAL_DEVICE void sync(const Group &group) { group.sync(); }
template <class Group> TRIBUNAL_DEVICE auto thread_rank(const Group &group) { return group.thread_rank(); }
template <class Group> TRIBUNAL_DEVICE auto group_size(const Group &group) { return group.size(); }

}
