// Reductions of a block: only the first thread has the result. Memory that is used again needs a barrier between, as cub's does.
#pragma once
#include "../warp/warp_reduce.cuh"

namespace cub {

// One does for all.
enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS,
};

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0>
class BlockReduce {
    static constexpr int THREADS = X * Y * Z, WARPS = (THREADS + 31) / 32;

  public:
    struct TempStorage {
        alignas(T) unsigned char tribunal_bytes[sizeof(T) * WARPS];
    };

  private:
    T *totals;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

  public:
    TRIBUNAL_MEMBER explicit BlockReduce(TempStorage &storage)
        : totals(reinterpret_cast<T *>(storage.tribunal_bytes)), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockReduce() : BlockReduce(own()) {}

    // Of the first `valid` threads.
    template <class Operator> TRIBUNAL_MEMBER T Reduce(T input, Operator operation, int valid) {
        int warp = linear / 32, in_warp = valid - 32 * warp;
        typename WarpReduce<T>::TempStorage none;
        input = WarpReduce<T>(none).Reduce(input, operation, in_warp < 32 ? in_warp : 32);
        if (linear % 32 == 0) __builtin_memcpy(&totals[warp], &input, sizeof(T));
        __syncthreads();
        if (linear == 0) {
#pragma unroll
            for (int other = 1; other < WARPS; other++) {
                if (32 * other < valid) input = operation(input, totals[other]);
            }
        }
        return input;
    }
    template <class Operator> TRIBUNAL_MEMBER T Reduce(T input, Operator operation) {
        return Reduce(input, operation, THREADS);
    }
    template <int Items, class Operator> TRIBUNAL_MEMBER T Reduce(T (&inputs)[Items], Operator operation) {
        T all = inputs[0];
#pragma unroll
        for (int item = 1; item < Items; item++) all = operation(all, inputs[item]);
        return Reduce(all, operation);
    }
    TRIBUNAL_MEMBER T Sum(T input) { return Reduce(input, cub::Sum()); }
    TRIBUNAL_MEMBER T Sum(T input, int valid) { return Reduce(input, cub::Sum(), valid); }
    template <int Items> TRIBUNAL_MEMBER T Sum(T (&inputs)[Items]) { return Reduce(inputs, cub::Sum()); }
};

}
