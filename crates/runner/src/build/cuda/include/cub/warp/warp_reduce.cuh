// Reductions of a warp, or of parts of it, of which all lanes are there: only the first has the result.
#pragma once
#include "../thread/thread_operators.cuh"
#include "../util_ptx.cuh"

namespace cub {

template <class T, int Threads = 32, int = 0> class WarpReduce {
    unsigned int lanes;

  public:
    struct TempStorage {};
    TRIBUNAL_MEMBER explicit WarpReduce(TempStorage &)
        : lanes(tribunal_lanes_of<Threads>((int)(blockDim.x * blockDim.y * blockDim.z))) {}

    // A lane holds what it and those behind it make together, as far as `valid` ones go.
    template <class Operator> TRIBUNAL_MEMBER T Reduce(T input, Operator operation, int valid) {
        int lane = (int)(LaneId() % Threads);
#pragma unroll
        for (int offset = 1; offset < Threads; offset *= 2) {
            T other = ShuffleDown<Threads>(input, offset, valid > 0 ? valid - 1 : 0, lanes);
            if (lane + offset < valid) input = operation(input, other);
        }
        return input;
    }
    template <class Operator> TRIBUNAL_MEMBER T Reduce(T input, Operator operation) {
        return Reduce(input, operation, Threads);
    }
    TRIBUNAL_MEMBER T Sum(T input) { return Reduce(input, cub::Sum()); }
    TRIBUNAL_MEMBER T Sum(T input, int valid) { return Reduce(input, cub::Sum(), valid); }
    TRIBUNAL_MEMBER T Max(T input) { return Reduce(input, cub::Max()); }
    TRIBUNAL_MEMBER T Max(T input, int valid) { return Reduce(input, cub::Max(), valid); }
    TRIBUNAL_MEMBER T Min(T input) { return Reduce(input, cub::Min()); }
    TRIBUNAL_MEMBER T Min(T input, int valid) { return Reduce(input, cub::Min(), valid); }
};

}
