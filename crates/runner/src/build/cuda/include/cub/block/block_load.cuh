// A tile of memory, so many items to a thread: one behind the other, or, striped, a block's width apart.
#pragma once
#include "../util_ptx.cuh"

namespace cub {

template <class T, int Items> TRIBUNAL_DEVICE void LoadDirectBlocked(int linear, const T *from, T (&items)[Items], int valid) {
#pragma unroll
    for (int item = 0; item < Items; item++) {
        if (linear * Items + item < valid) items[item] = from[linear * Items + item];
    }
}
template <class T, int Items> TRIBUNAL_DEVICE void LoadDirectBlocked(int linear, const T *from, T (&items)[Items]) {
    LoadDirectBlocked(linear, from, items, 0x7fffffff);
}
template <int Threads, class T, int Items>
TRIBUNAL_DEVICE void LoadDirectStriped(int linear, const T *from, T (&items)[Items], int valid) {
#pragma unroll
    for (int item = 0; item < Items; item++) {
        if (linear + item * Threads < valid) items[item] = from[linear + item * Threads];
    }
}
template <int Threads, class T, int Items> TRIBUNAL_DEVICE void LoadDirectStriped(int linear, const T *from, T (&items)[Items]) {
    LoadDirectStriped<Threads>(linear, from, items, 0x7fffffff);
}
// In as few accesses as a thread can, of 16 bytes at most; where the memory does not lie for that, one by one.
template <class T, int Items> TRIBUNAL_DEVICE void LoadDirectBlockedVectorized(int linear, const T *from, T (&items)[Items]) {
    constexpr size_t bytes = sizeof(T) * Items, part = bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
    from += linear * Items;
    if (bytes % 4 == 0 && (unsigned long long)from % part == 0) {
        __builtin_memcpy(items, __builtin_assume_aligned(from, part), bytes);
    } else {
        LoadDirectBlocked(0, from, items);
    }
}

// Items of threads that change between blocked and striped, through shared memory.
template <class T, int Items, int Threads, bool Warps> struct tribunal_exchange {
    static constexpr int WIDTH = Warps ? 32 : Threads;
    static TRIBUNAL_MEMBER void sync() {
        if constexpr (Warps) {
            __syncwarp();
        } else {
            __syncthreads();
        }
    }
    static TRIBUNAL_MEMBER void to_blocked(T *room, int linear, T (&items)[Items]) {
        room += linear / WIDTH * WIDTH * Items;
#pragma unroll
        for (int item = 0; item < Items; item++) room[linear % WIDTH + item * WIDTH] = items[item];
        sync();
#pragma unroll
        for (int item = 0; item < Items; item++) items[item] = room[linear % WIDTH * Items + item];
    }
    static TRIBUNAL_MEMBER void to_striped(T *room, int linear, T (&items)[Items]) {
        room += linear / WIDTH * WIDTH * Items;
#pragma unroll
        for (int item = 0; item < Items; item++) room[linear % WIDTH * Items + item] = items[item];
        sync();
#pragma unroll
        for (int item = 0; item < Items; item++) items[item] = room[linear % WIDTH + item * WIDTH];
    }
};

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};

template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockLoad {
    static constexpr int THREADS = X * Y * Z;
    static constexpr bool WARPS = Algorithm == BLOCK_LOAD_WARP_TRANSPOSE || Algorithm == BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED;
    static constexpr bool TRANSPOSES = WARPS || Algorithm == BLOCK_LOAD_TRANSPOSE;
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
    TRIBUNAL_MEMBER explicit BlockLoad(TempStorage &storage)
        : room(reinterpret_cast<T *>(storage.tribunal_bytes)), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockLoad() : BlockLoad(own()) {}

    // What is not `valid` is not loaded; who transposes moves what was there.
    TRIBUNAL_MEMBER void Load(const T *from, T (&items)[Items], int valid) {
        if constexpr (TRANSPOSES) {
            constexpr int width = WARPS ? 32 : THREADS;
            int first = linear / width * width * Items;
            LoadDirectStriped<width>(linear % width, from + first, items, valid - first);
            tribunal_exchange<T, Items, THREADS, WARPS>::to_blocked(room, linear, items);
        } else if constexpr (Algorithm == BLOCK_LOAD_STRIPED) {
            LoadDirectStriped<THREADS>(linear, from, items, valid);
        } else {
            LoadDirectBlocked(linear, from, items, valid);
        }
    }
    TRIBUNAL_MEMBER void Load(const T *from, T (&items)[Items]) {
        if constexpr (Algorithm == BLOCK_LOAD_VECTORIZE) {
            LoadDirectBlockedVectorized(linear, from, items);
        } else {
            Load(from, items, THREADS * Items);
        }
    }
    template <class Default> TRIBUNAL_MEMBER void Load(const T *from, T (&items)[Items], int valid, Default other) {
#pragma unroll
        for (T &item : items) item = other;
        Load(from, items, valid);
    }
};

}
