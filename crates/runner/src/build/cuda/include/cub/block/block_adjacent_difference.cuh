// What a function makes of each item of a block and the one before it, or the one behind. Memory that is used again needs a barrier between.
#pragma once
#include "../util_ptx.cuh"

namespace cub {

template <class T, int X, int Y = 1, int Z = 1, int = 0> class BlockAdjacentDifference {
    static constexpr int THREADS = X * Y * Z;

  public:
    // The first item of each thread, and the last.
    struct TempStorage {
        alignas(T) unsigned char tribunal_firsts[sizeof(T) * THREADS];
        alignas(T) unsigned char tribunal_lasts[sizeof(T) * THREADS];
    };

  private:
    T *firsts, *lasts;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

    // What has nothing beside it stays as it is, and so does what is not valid. `given` is beside the block, if it is there.
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void left(T (&input)[Items], Output (&output)[Items], Operator operation, int valid, const T *given) {
        lasts[linear] = input[Items - 1];
        __syncthreads();
#pragma unroll
        for (int item = Items - 1; item > 0; item--) {
            if (linear * Items + item < valid) {
                output[item] = operation(input[item], input[item - 1]);
            } else {
                output[item] = input[item];
            }
        }
        if (linear * Items >= valid || (linear == 0 && !given)) {
            output[0] = input[0];
        } else {
            output[0] = operation(input[0], linear == 0 ? *given : lasts[linear - 1]);
        }
    }
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void right(T (&input)[Items], Output (&output)[Items], Operator operation, int valid, const T *given) {
        firsts[linear] = input[0];
        __syncthreads();
#pragma unroll
        for (int item = 0; item < Items; item++) {
            int place = linear * Items + item;
            if (place + 1 < valid) {
                output[item] = operation(input[item], item + 1 < Items ? input[(item + 1) % Items] : firsts[linear + 1]);
            } else if (given && place + 1 == valid) {
                output[item] = operation(input[item], *given);
            } else {
                output[item] = input[item];
            }
        }
    }

  public:
    TRIBUNAL_MEMBER explicit BlockAdjacentDifference(TempStorage &storage)
        : firsts(reinterpret_cast<T *>(storage.tribunal_firsts)), lasts(reinterpret_cast<T *>(storage.tribunal_lasts)),
          linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockAdjacentDifference() : BlockAdjacentDifference(own()) {}

    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void SubtractLeft(T (&input)[Items], Output (&output)[Items], Operator operation) {
        left(input, output, operation, THREADS * Items, nullptr);
    }
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void SubtractLeft(T (&input)[Items], Output (&output)[Items], Operator operation, T given) {
        left(input, output, operation, THREADS * Items, &given);
    }
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void SubtractLeftPartialTile(T (&input)[Items], Output (&output)[Items], Operator operation, int valid) {
        left(input, output, operation, valid, nullptr);
    }
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void SubtractLeftPartialTile(T (&input)[Items], Output (&output)[Items], Operator operation, int valid, T given) {
        left(input, output, operation, valid, &given);
    }
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void SubtractRight(T (&input)[Items], Output (&output)[Items], Operator operation) {
        right(input, output, operation, THREADS * Items, nullptr);
    }
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void SubtractRight(T (&input)[Items], Output (&output)[Items], Operator operation, T given) {
        right(input, output, operation, THREADS * Items, &given);
    }
    template <int Items, class Output, class Operator>
    TRIBUNAL_MEMBER void SubtractRightPartialTile(T (&input)[Items], Output (&output)[Items], Operator operation, int valid) {
        right(input, output, operation, valid, nullptr);
    }
};

}
