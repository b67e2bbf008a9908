// Reductions of a tile or of coalesced threads: every thread gets the result.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

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

template <unsigned int Size, class Parent, class T, class Operation>
TRIBUNAL_DEVICE T reduce(const thread_block_tile<Size, Parent> &tile, T value, Operation operation) {
#pragma unroll
    for (unsigned int lanes = Size / 2; lanes > 0; lanes /= 2) value = operation(value, tile.shfl_xor(value, lanes));
    return value;
}
// A tree that rank 0 is the root of.
template <class T, class Operation>
TRIBUNAL_DEVICE T reduce(const coalesced_group &group, T value, Operation operation) {
    unsigned int rank = group.thread_rank(), size = group.size();
#pragma unroll
    for (unsigned int distance = 16; distance > 0; distance /= 2) {
        T other = group.shfl_down(value, distance);
        if (rank < distance && rank + distance < size) value = operation(value, other);
    }
    return group.shfl(value, 0);
}

}
