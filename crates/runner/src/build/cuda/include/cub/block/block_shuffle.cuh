// Items of a block that move on by some threads, or by one item. Memory that is used again needs a barrier between.
#pragma once
#include "../util_ptx.cuh"

namespace cub {

template <class T, int X, int Y = 1, int Z = 1, int = 0> class BlockShuffle {
    static constexpr int THREADS = X * Y * Z;

  public:
    struct TempStorage {
        alignas(T) unsigned char tribunal_bytes[sizeof(T) * THREADS];
    };

  private:
    T *room;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }
    TRIBUNAL_MEMBER void show(const T &item) {
        room[linear] = item;
        __syncthreads();
    }

  public:
    TRIBUNAL_MEMBER explicit BlockShuffle(TempStorage &storage)
        : room(reinterpret_cast<T *>(storage.tribunal_bytes)), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockShuffle() : BlockShuffle(own()) {}

    // Who would take from beyond the block keeps its output as it was.
    TRIBUNAL_MEMBER void Offset(T input, T &output, int distance = 1) {
        show(input);
        int from = linear + distance;
        if (from >= 0 && from < THREADS) output = room[from];
    }
    TRIBUNAL_MEMBER void Rotate(T input, T &output, unsigned int distance = 1) {
        show(input);
        unsigned int from = (unsigned int)linear + distance;
        output = room[from < THREADS ? from : from - THREADS];
    }
    // Each item takes the place of the one behind it, or before it; the one at the end is kept.
    template <int Items> TRIBUNAL_MEMBER void Up(T (&input)[Items], T (&moved)[Items]) {
        show(input[Items - 1]);
#pragma unroll
        for (int item = Items - 1; item > 0; item--) moved[item] = input[item - 1];
        if (linear > 0) moved[0] = room[linear - 1];
    }
    template <int Items> TRIBUNAL_MEMBER void Up(T (&input)[Items], T (&moved)[Items], T &last) {
        Up(input, moved);
        last = room[THREADS - 1];
    }
    template <int Items> TRIBUNAL_MEMBER void Down(T (&input)[Items], T (&moved)[Items]) {
        show(input[0]);
#pragma unroll
        for (int item = 0; item + 1 < Items; item++) moved[item] = input[item + 1];
        if (linear < THREADS - 1) moved[Items - 1] = room[linear + 1];
    }
    template <int Items> TRIBUNAL_MEMBER void Down(T (&input)[Items], T (&moved)[Items], T &first) {
        Down(input, moved);
        first = room[0];
    }
};

}
