// A tile of memory that a block writes, so many items of each thread: one behind the other, or, striped, a block's or a warp's width apart.
#pragma once
#include "../../type_traits"
#include "../thread/thread_store.cuh"
#include "block_exchange.cuh"

namespace cub {

// Each way of the items of a thread: where its first one lies, and how far they are apart.
#define TRIBUNAL_STORE_DIRECT(name, more, first, apart)                                                        \
    template <more class T, int Items, class To> TRIBUNAL_DEVICE void name(int linear, To to, T (&items)[Items]) { \
        _Pragma("unroll") for (int item = 0; item < Items; item++) to[(first) + item * (apart)] = items[item]; \
    }                                                                                                          \
    template <more class T, int Items, class To>                                                               \
    TRIBUNAL_DEVICE void name(int linear, To to, T (&items)[Items], int valid) {                               \
        _Pragma("unroll") for (int item = 0; item < Items; item++) {                                           \
            if ((first) + item * (apart) < valid) to[(first) + item * (apart)] = items[item];                  \
        }                                                                                                      \
    }
#define TRIBUNAL_THREADS int Threads,
TRIBUNAL_STORE_DIRECT(StoreDirectBlocked, , linear * Items, 1)
TRIBUNAL_STORE_DIRECT(StoreDirectStriped, TRIBUNAL_THREADS, linear, Threads)
TRIBUNAL_STORE_DIRECT(StoreDirectWarpStriped, , linear / 32 * 32 * Items + linear % 32, 32)
#undef TRIBUNAL_THREADS
#undef TRIBUNAL_STORE_DIRECT
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
    typedef BlockExchange<T, X, Items, false, Y, Z> Exchange;

    struct Nothing {};

  public:
    struct TempStorage {
        std::conditional_t<TRANSPOSES, typename Exchange::TempStorage, Nothing> tribunal_room;
    };

  private:
    TempStorage &storage;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

    // Who transposes leaves the items as they are then, as cub does.
    template <class To, class... Valid> TRIBUNAL_MEMBER void store(To to, T (&items)[Items], Valid... valid) {
        if constexpr (WARPS) {
            Exchange(storage.tribunal_room).BlockedToWarpStriped(items);
            StoreDirectWarpStriped(linear, to, items, valid...);
        } else if constexpr (TRANSPOSES) {
            Exchange(storage.tribunal_room).BlockedToStriped(items);
            StoreDirectStriped<THREADS>(linear, to, items, valid...);
        } else if constexpr (Algorithm == BLOCK_STORE_STRIPED) {
            StoreDirectStriped<THREADS>(linear, to, items, valid...);
        } else if constexpr (Algorithm == BLOCK_STORE_VECTORIZE && sizeof...(Valid) == 0 && std::is_same<To, T *>::value) {
            StoreDirectBlockedVectorized(linear, to, items);
        } else {
            StoreDirectBlocked(linear, to, items, valid...);
        }
    }

  public:
    TRIBUNAL_MEMBER explicit BlockStore(TempStorage &storage) : storage(storage), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockStore() : BlockStore(own()) {}

    template <class To> TRIBUNAL_MEMBER void Store(To to, T (&items)[Items]) { store(to, items); }
    template <class To> TRIBUNAL_MEMBER void Store(To to, T (&items)[Items], int valid) { store(to, items, valid); }
};

}
