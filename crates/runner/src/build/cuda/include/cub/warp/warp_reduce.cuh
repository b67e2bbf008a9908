// Reductions of a warp, or of parts of it, of which all lanes are there: only the first has the result, or the first of each segment.
#pragma once
#include "../thread/thread_operators.cuh"
#include "../util_ptx.cuh"

namespace cub {

template <class T, int Threads = 32, int = 0> class WarpReduce {
    unsigned int lanes;

    // A lane holds what it and those behind it make together, as far as `last`.
    template <class Operator> TRIBUNAL_MEMBER T upto(T input, Operator operation, int last) {
        int lane = (int)(LaneId() % Threads);
#pragma unroll
        for (int offset = 1; offset < Threads; offset *= 2) {
            T other = ShuffleDown<Threads>(input, offset, last > 0 ? last : 0, lanes);
            if (lane + offset <= last) input = operation(input, other);
        }
        return input;
    }
    // The last lane of this one's segment: that before the next head, or the next tail.
    TRIBUNAL_MEMBER int last_of(bool flag, bool head) {
        int lane = (int)(LaneId() % Threads);
        unsigned int flags = __ballot_sync(lanes, flag) >> (LaneId() - (unsigned int)lane);
        unsigned int part = 0xffffffffu >> (32 - Threads), next = flags & part & (0xffffffffu << lane);
        if (head) next = (next & ~(1u << lane)) >> 1;
        return next ? __ffs((int)next) - 1 : Threads - 1;
    }
    template <int Items, class Operator> static TRIBUNAL_MEMBER T together(const T (&inputs)[Items], Operator operation) {
        T all = inputs[0];
#pragma unroll
        for (int item = 1; item < Items; item++) all = operation(all, inputs[item]);
        return all;
    }

  public:
    struct TempStorage {};
    TRIBUNAL_MEMBER explicit WarpReduce(TempStorage &)
        : lanes(tribunal_lanes_of<Threads>((int)(blockDim.x * blockDim.y * blockDim.z))) {}

    template <class Operator> TRIBUNAL_MEMBER T Reduce(T input, Operator operation, int valid) {
        return upto(input, operation, valid - 1);
    }
    template <class Operator> TRIBUNAL_MEMBER T Reduce(T input, Operator operation) {
        return Reduce(input, operation, Threads);
    }
    template <int Items, class Operator> TRIBUNAL_MEMBER T Reduce(const T (&inputs)[Items], Operator operation) {
        return Reduce(together(inputs, operation), operation);
    }
    template <class Flag, class Operator> TRIBUNAL_MEMBER T HeadSegmentedReduce(T input, Flag flag, Operator operation) {
        return upto(input, operation, last_of((bool)flag, true));
    }
    template <class Flag, class Operator> TRIBUNAL_MEMBER T TailSegmentedReduce(T input, Flag flag, Operator operation) {
        return upto(input, operation, last_of((bool)flag, false));
    }
    template <class Flag> TRIBUNAL_MEMBER T HeadSegmentedSum(T input, Flag flag) {
        return HeadSegmentedReduce(input, flag, cub::Sum());
    }
    template <class Flag> TRIBUNAL_MEMBER T TailSegmentedSum(T input, Flag flag) {
        return TailSegmentedReduce(input, flag, cub::Sum());
    }
    template <int Items> TRIBUNAL_MEMBER T Sum(const T (&inputs)[Items]) { return Reduce(inputs, cub::Sum()); }
    template <int Items> TRIBUNAL_MEMBER T Max(const T (&inputs)[Items]) { return Reduce(inputs, cub::Max()); }
    template <int Items> TRIBUNAL_MEMBER T Min(const T (&inputs)[Items]) { return Reduce(inputs, cub::Min()); }
    TRIBUNAL_MEMBER T Sum(T input) { return Reduce(input, cub::Sum()); }
    TRIBUNAL_MEMBER T Sum(T input, int valid) { return Reduce(input, cub::Sum(), valid); }
    TRIBUNAL_MEMBER T Max(T input) { return Reduce(input, cub::Max()); }
    TRIBUNAL_MEMBER T Max(T input, int valid) { return Reduce(input, cub::Max(), valid); }
    TRIBUNAL_MEMBER T Min(T input) { return Reduce(input, cub::Min()); }
    TRIBUNAL_MEMBER T Min(T input, int valid) { return Reduce(input, cub::Min(), valid); }
};

}
