// Scans of a warp, or of parts of it: what each lane's value makes with those of the lanes before it. The last lane has the aggregate, and must be
// there.
#pragma once
#include "../thread/thread_operators.cuh"
#include "../util_ptx.cuh"

namespace cub {

template <class T, int Threads = 32, int = 0> class WarpScan {
    unsigned int lanes;

    static TRIBUNAL_MEMBER int lane() { return (int)(LaneId() % Threads); }
    TRIBUNAL_MEMBER T last(T scanned) const { return ShuffleIndex<Threads>(scanned, Threads - 1, lanes); }

  public:
    struct TempStorage {};
    TRIBUNAL_MEMBER explicit WarpScan(TempStorage &)
        : lanes(tribunal_lanes_of<Threads>((int)(blockDim.x * blockDim.y * blockDim.z))) {}

    template <class Operator> TRIBUNAL_MEMBER void InclusiveScan(T input, T &output, Operator operation) {
#pragma unroll
        for (int offset = 1; offset < Threads; offset *= 2) {
            T other = ShuffleUp<Threads>(input, offset, 0, lanes);
            if (lane() >= offset) input = operation(other, input);
        }
        output = input;
    }
    template <class Operator> TRIBUNAL_MEMBER void InclusiveScan(T input, T &output, Operator operation, T &aggregate) {
        InclusiveScan(input, output, operation);
        aggregate = last(output);
    }
    template <class Operator> TRIBUNAL_MEMBER void InclusiveScan(T input, T &output, T initial, Operator operation) {
        InclusiveScan(input, output, operation);
        output = operation(initial, output);
    }
    // The aggregate is of the inputs alone.
    template <class Operator>
    TRIBUNAL_MEMBER void InclusiveScan(T input, T &output, T initial, Operator operation, T &aggregate) {
        InclusiveScan(input, output, operation, aggregate);
        output = operation(initial, output);
    }
    // Both at once. Of the first lane what comes before it means nothing, if there is no initial value.
    template <class Operator> TRIBUNAL_MEMBER void Scan(T input, T &inclusive, T &exclusive, Operator operation) {
        InclusiveScan(input, inclusive, operation);
        exclusive = ShuffleUp<Threads>(inclusive, 1, 0, lanes);
    }
    template <class Operator>
    TRIBUNAL_MEMBER void Scan(T input, T &inclusive, T &exclusive, T initial, Operator operation) {
        Scan(input, inclusive, exclusive, operation);
        inclusive = operation(initial, inclusive);
        exclusive = lane() == 0 ? initial : operation(initial, exclusive);
    }
    template <class Operator> TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, Operator operation) {
        T inclusive;
        Scan(input, inclusive, output, operation);
    }
    template <class Operator> TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, Operator operation, T &aggregate) {
        T inclusive;
        Scan(input, inclusive, output, operation);
        aggregate = last(inclusive);
    }
    template <class Operator> TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, T initial, Operator operation) {
        T inclusive;
        Scan(input, inclusive, output, initial, operation);
    }
    template <class Operator>
    TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, T initial, Operator operation, T &aggregate) {
        ExclusiveScan(input, output, operation, aggregate);
        output = lane() == 0 ? initial : operation(initial, output);
    }
    TRIBUNAL_MEMBER void InclusiveSum(T input, T &output) { InclusiveScan(input, output, cub::Sum()); }
    TRIBUNAL_MEMBER void InclusiveSum(T input, T &output, T &aggregate) {
        InclusiveScan(input, output, cub::Sum(), aggregate);
    }
    TRIBUNAL_MEMBER void ExclusiveSum(T input, T &output) { ExclusiveScan(input, output, T(0), cub::Sum()); }
    TRIBUNAL_MEMBER void ExclusiveSum(T input, T &output, T &aggregate) {
        ExclusiveScan(input, output, T(0), cub::Sum(), aggregate);
    }
    TRIBUNAL_MEMBER T Broadcast(T input, unsigned int lane) { return ShuffleIndex<Threads>(input, (int)lane, lanes); }
};

}
