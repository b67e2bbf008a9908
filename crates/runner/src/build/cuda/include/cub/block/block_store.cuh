// A tile of memory that a block writes, so many items of each thread: one behind the other, or, striped, a block's width apart.
#pragma once
#include "block_load.cuh"

namespace cub {

template <class T, int Items> TRIBUNAL_DEVICE void StoreDirectBlocked(int linear, T *to, T (&items)[Items], int valid) {
#pragma unroll
    for (int item = 0; item < Items; item++) {
        if (linear * Items + item < valid) to[linear * Items + item] = items[item];
    }
}
template <class T, int Items> TRIBUNAL_DEVICE void StoreDirectBlocked(int linear, T *to, T (&items)[Items]) {
    StoreDirectBlocked(linear, to, items, 0x7fffffff);
}
template <int Threads, class T, int Items>
TRIBUNAL_DEVICE void StoreDirectStriped(int linear, T *to, T (&items)[Items], int valid) {
#pragma unroll
    for (int item = 0; item < Items; item++) {
        if (linear + item * Threads < valid) to[linear + item * Threads] = items[item];
    }
}
template <int Threads, class T, int Items> TRIBUNAL_DEVICE void StoreDirectStriped(int linear, T *to, T (&items)[Items]) {
    StoreDirectStriped<Threads>(linear, to, items, 0x7fffffff);
}
template <class T, int Items> TRIBUNAL_DEVICE void StoreDirectBlockedVectorized(int linear, T *to, T (&items)[Items]) {
    constexpr size_t bytes = sizeof(T) * Items, part = bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
    to += linear * Items;
    if (bytes % 4 == 0 && (unsigned long long)to % part == 0) {
        __builtin_memcpy(__builtin_assume_aligned(to, part), items, bytes);
    } else {
        StoreDirectBlocked(0, to, items);
    }
}

enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockStore {
    static constexpr int THREADS = X * Y * Z;
    static constexpr bool WARPS = Algorithm == BLOCK_STORE_WARP_TRANSPOSE || Algorithm == BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED;
    static constexpr bool TRANSPOSES = WARPS || Algorithm == BLOCK_STORE_TRANSPOSE;
    static_assert(!WARPS || THREADS % 32 == 0, "who goes by warps has whole warps");

  public:
    struct TempStorage {
        alignas(T) unsigned char tribunal_bytes[TRANSPOSES ? sizeof(T) * THREADS * Items : 1];
    };

  private:
    T *room;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

  public:
    TRIBUNAL_MEMBER explicit BlockStore(TempStorage &storage)
        : room(reinterpret_cast<T *>(storage.tribunal_bytes)), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockStore() : BlockStore(own()) {}

    TRIBUNAL_MEMBER void Store(T *to, T (&items)[Items], int valid) {
        if constexpr (TRANSPOSES) {
            constexpr int width = WARPS ? 32 : THREADS;
            int first = linear / width * width * Items;
            tribunal_exchange<T, Items, THREADS, WARPS>::to_striped(room, linear, items);
            StoreDirectStriped<width>(linear % width, to + first, items, valid - first);
        } else if constexpr (Algorithm == BLOCK_STORE_STRIPED) {
            StoreDirectStriped<THREADS>(linear, to, items, valid);
        } else {
            StoreDirectBlocked(linear, to, items, valid);
        }
    }
    TRIBUNAL_MEMBER void Store(T *to, T (&items)[Items]) {
        if constexpr (Algorithm == BLOCK_STORE_VECTORIZE) {
            StoreDirectBlockedVectorized(linear, to, items);
        } else {
            Store(to, items, THREADS * Items);
        }
    }
};

}
