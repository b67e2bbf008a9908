// Scans of a block: what each thread's values make with those of the threads before it. Memory that is used again needs a barrier between.
#pragma once
#include "../warp/warp_scan.cuh"

namespace cub {

// One does for all.
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0> class BlockScan {
    static constexpr int THREADS = X * Y * Z, WARPS = (THREADS + 31) / 32;

  public:
    // A total of each warp, and what comes before the block.
    struct TempStorage {
        alignas(T) unsigned char tribunal_bytes[sizeof(T) * (WARPS + 1)];
    };

  private:
    T *totals;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

    // What a thread's value makes with all before it, without it, and what all make. The first thread has nothing before it.
    template <class Operator>
    TRIBUNAL_MEMBER void scan(T value, T &inclusive, T &exclusive, Operator operation, T &aggregate) {
        int warp = linear / 32, lane = linear % 32, last = WARPS - 1 == warp ? THREADS - 1 - 32 * warp : 31;
        typename WarpScan<T>::TempStorage none;
        WarpScan<T> warps(none);
        warps.InclusiveScan(value, inclusive, operation);
        exclusive = ShuffleUp<32>(inclusive, 1, 0, tribunal_lanes_of<32>(THREADS));
        if (lane == last) __builtin_memcpy(&totals[warp], &inclusive, sizeof(T));
        __syncthreads();
        aggregate = totals[0];
        T before = aggregate;
#pragma unroll
        for (int other = 1; other < WARPS; other++) {
            if (other == warp) before = aggregate;
            aggregate = operation(aggregate, totals[other]);
        }
        if (warp > 0) {
            inclusive = operation(before, inclusive);
            exclusive = lane == 0 ? before : operation(before, exclusive);
        }
    }
    // What comes before the block, as the first warp is told.
    template <class Prefix> TRIBUNAL_MEMBER T before_all(Prefix &prefix, T aggregate) {
        if (linear < 32) {
            T before = prefix(aggregate);
            if (linear == 0) __builtin_memcpy(&totals[WARPS], &before, sizeof(T));
        }
        __syncthreads();
        return totals[WARPS];
    }
    // What comes before this thread, where the callback says what comes before the block.
    template <class Operator, class Prefix>
    TRIBUNAL_MEMBER T behind(T value, T &inclusive, Operator operation, Prefix &prefix) {
        T exclusive, aggregate;
        scan(value, inclusive, exclusive, operation, aggregate);
        T before = before_all(prefix, aggregate);
        inclusive = operation(before, inclusive);
        return linear == 0 ? before : operation(before, exclusive);
    }
    template <int Items, class Operator> static TRIBUNAL_MEMBER T together(T (&inputs)[Items], Operator operation) {
        T all = inputs[0];
#pragma unroll
        for (int item = 1; item < Items; item++) all = operation(all, inputs[item]);
        return all;
    }
    template <int Items, class Operator>
    static TRIBUNAL_MEMBER void spread(T (&inputs)[Items], T (&outputs)[Items], bool preceded, T before, bool own, Operator operation) {
#pragma unroll
        for (int item = 0; item < Items; item++) {
            T input = inputs[item], with = preceded || item > 0 ? operation(before, input) : input;
            outputs[item] = own ? with : before;
            before = with;
        }
    }

  public:
    TRIBUNAL_MEMBER explicit BlockScan(TempStorage &storage)
        : totals(reinterpret_cast<T *>(storage.tribunal_bytes)), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockScan() : BlockScan(own()) {}

    template <class Operator> TRIBUNAL_MEMBER void InclusiveScan(T input, T &output, Operator operation) {
        T exclusive, aggregate;
        scan(input, output, exclusive, operation, aggregate);
    }
    template <class Operator> TRIBUNAL_MEMBER void InclusiveScan(T input, T &output, Operator operation, T &aggregate) {
        T inclusive, exclusive;
        scan(input, inclusive, exclusive, operation, aggregate);
        output = inclusive;
    }
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void InclusiveScan(T (&inputs)[Items], T (&outputs)[Items], Operator operation, T &aggregate) {
        T inclusive, exclusive;
        scan(together(inputs, operation), inclusive, exclusive, operation, aggregate);
        spread(inputs, outputs, linear > 0, exclusive, true, operation);
    }
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void InclusiveScan(T (&inputs)[Items], T (&outputs)[Items], Operator operation) {
        T aggregate;
        InclusiveScan(inputs, outputs, operation, aggregate);
    }
    template <class Operator, class Prefix>
    TRIBUNAL_MEMBER void InclusiveScan(T input, T &output, Operator operation, Prefix &prefix) {
        T inclusive;
        behind(input, inclusive, operation, prefix);
        output = inclusive;
    }
    template <int Items, class Operator, class Prefix>
    TRIBUNAL_MEMBER void InclusiveScan(T (&inputs)[Items], T (&outputs)[Items], Operator operation, Prefix &prefix) {
        T inclusive;
        spread(inputs, outputs, true, behind(together(inputs, operation), inclusive, operation, prefix), true, operation);
    }
    // The aggregate is of the inputs alone.
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void InclusiveScan(T (&inputs)[Items], T (&outputs)[Items], T initial, Operator operation, T &aggregate) {
        T inclusive, exclusive;
        scan(together(inputs, operation), inclusive, exclusive, operation, aggregate);
        spread(inputs, outputs, true, linear == 0 ? initial : operation(initial, exclusive), true, operation);
    }
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void InclusiveScan(T (&inputs)[Items], T (&outputs)[Items], T initial, Operator operation) {
        T aggregate;
        InclusiveScan(inputs, outputs, initial, operation, aggregate);
    }
    // Without an initial value, the first output of the first thread means nothing.
    template <class Operator> TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, Operator operation, T &aggregate) {
        T inclusive;
        scan(input, inclusive, output, operation, aggregate);
    }
    template <class Operator> TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, Operator operation) {
        T aggregate;
        ExclusiveScan(input, output, operation, aggregate);
    }
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void ExclusiveScan(T (&inputs)[Items], T (&outputs)[Items], Operator operation, T &aggregate) {
        T inclusive, exclusive;
        scan(together(inputs, operation), inclusive, exclusive, operation, aggregate);
        spread(inputs, outputs, linear > 0, exclusive, false, operation);
    }
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void ExclusiveScan(T (&inputs)[Items], T (&outputs)[Items], Operator operation) {
        T aggregate;
        ExclusiveScan(inputs, outputs, operation, aggregate);
    }
    template <class Operator, class Prefix>
    TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, Operator operation, Prefix &prefix) {
        T inclusive;
        output = behind(input, inclusive, operation, prefix);
    }
    template <int Items, class Operator, class Prefix>
    TRIBUNAL_MEMBER void ExclusiveScan(T (&inputs)[Items], T (&outputs)[Items], Operator operation, Prefix &prefix) {
        T inclusive;
        spread(inputs, outputs, true, behind(together(inputs, operation), inclusive, operation, prefix), false, operation);
    }
    template <class Operator> TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, T initial, Operator operation, T &aggregate) {
        T inclusive, exclusive;
        scan(input, inclusive, exclusive, operation, aggregate);
        output = linear == 0 ? initial : operation(initial, exclusive);
    }
    template <class Operator> TRIBUNAL_MEMBER void ExclusiveScan(T input, T &output, T initial, Operator operation) {
        T aggregate;
        ExclusiveScan(input, output, initial, operation, aggregate);
    }
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void ExclusiveScan(T (&inputs)[Items], T (&outputs)[Items], T initial, Operator operation, T &aggregate) {
        T inclusive, exclusive;
        scan(together(inputs, operation), inclusive, exclusive, operation, aggregate);
        spread(inputs, outputs, true, linear == 0 ? initial : operation(initial, exclusive), false, operation);
    }
    template <int Items, class Operator>
    TRIBUNAL_MEMBER void ExclusiveScan(T (&inputs)[Items], T (&outputs)[Items], T initial, Operator operation) {
        T aggregate;
        ExclusiveScan(inputs, outputs, initial, operation, aggregate);
    }

    TRIBUNAL_MEMBER void InclusiveSum(T input, T &output) { InclusiveScan(input, output, cub::Sum()); }
    TRIBUNAL_MEMBER void InclusiveSum(T input, T &output, T &aggregate) { InclusiveScan(input, output, cub::Sum(), aggregate); }
    template <class Prefix> TRIBUNAL_MEMBER void InclusiveSum(T input, T &output, Prefix &prefix) {
        InclusiveScan(input, output, cub::Sum(), prefix);
    }
    template <int Items, class Prefix> TRIBUNAL_MEMBER void InclusiveSum(T (&inputs)[Items], T (&outputs)[Items], Prefix &prefix) {
        InclusiveScan(inputs, outputs, cub::Sum(), prefix);
    }
    template <int Items> TRIBUNAL_MEMBER void InclusiveSum(T (&inputs)[Items], T (&outputs)[Items]) {
        InclusiveScan(inputs, outputs, cub::Sum());
    }
    template <int Items> TRIBUNAL_MEMBER void InclusiveSum(T (&inputs)[Items], T (&outputs)[Items], T &aggregate) {
        InclusiveScan(inputs, outputs, cub::Sum(), aggregate);
    }
    TRIBUNAL_MEMBER void ExclusiveSum(T input, T &output) { ExclusiveScan(input, output, T(0), cub::Sum()); }
    TRIBUNAL_MEMBER void ExclusiveSum(T input, T &output, T &aggregate) {
        ExclusiveScan(input, output, T(0), cub::Sum(), aggregate);
    }
    template <class Prefix> TRIBUNAL_MEMBER void ExclusiveSum(T input, T &output, Prefix &prefix) {
        ExclusiveScan(input, output, cub::Sum(), prefix);
    }
    template <int Items, class Prefix> TRIBUNAL_MEMBER void ExclusiveSum(T (&inputs)[Items], T (&outputs)[Items], Prefix &prefix) {
        ExclusiveScan(inputs, outputs, cub::Sum(), prefix);
    }
    template <int Items> TRIBUNAL_MEMBER void ExclusiveSum(T (&inputs)[Items], T (&outputs)[Items]) {
        ExclusiveScan(inputs, outputs, T(0), cub::Sum());
    }
    template <int Items> TRIBUNAL_MEMBER void ExclusiveSum(T (&inputs)[Items], T (&outputs)[Items], T &aggregate) {
        ExclusiveScan(inputs, outputs, T(0), cub::Sum(), aggregate);
    }
};

}
