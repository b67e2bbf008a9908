// A tile of memory, so many items to a thread: one behind the other, or, striped, a block's or a warp's width apart.
#pragma once
#include "../../type_traits"
#include "../thread/thread_load.cuh"
#include "block_exchange.cuh"

namespace cub {

// Each way of the items of a thread: where its first one lies, and how far they are apart.
#define TRIBUNAL_LOAD_DIRECT(name, more, first, apart)                                                         \
    template <more class T, int Items, class From>                                                             \
    TRIBUNAL_DEVICE void name(int linear, From from, T (&items)[Items]) {                                      \
        _Pragma("unroll") for (int item = 0; item < Items; item++) items[item] = from[(first) + item * (apart)]; \
    }                                                                                                          \
    template <more class T, int Items, class From>                                                             \
    TRIBUNAL_DEVICE void name(int linear, From from, T (&items)[Items], int valid) {                           \
        _Pragma("unroll") for (int item = 0; item < Items; item++) {                                           \
            if ((first) + item * (apart) < valid) items[item] = from[(first) + item * (apart)];                \
        }                                                                                                      \
    }                                                                                                          \
    template <more class T, class Default, int Items, class From>                                              \
    TRIBUNAL_DEVICE void name(int linear, From from, T (&items)[Items], int valid, Default other) {            \
        _Pragma("unroll") for (int item = 0; item < Items; item++) {                                           \
            if ((first) + item * (apart) < valid) {                                                            \
                items[item] = from[(first) + item * (apart)];                                                  \
            } else {                                                                                           \
                items[item] = other;                                                                           \
            }                                                                                                  \
        }                                                                                                      \
    }
#define TRIBUNAL_THREADS int Threads,
TRIBUNAL_LOAD_DIRECT(LoadDirectBlocked, , linear * Items, 1)
TRIBUNAL_LOAD_DIRECT(LoadDirectStriped, TRIBUNAL_THREADS, linear, Threads)
TRIBUNAL_LOAD_DIRECT(LoadDirectWarpStriped, , linear / 32 * 32 * Items + linear % 32, 32)
#undef TRIBUNAL_THREADS
#undef TRIBUNAL_LOAD_DIRECT
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
// Only of memory of the items' own type can several be read at once.
template <class T, class From>
inline constexpr bool tribunal_reads = std::is_same<From, T *>::value || std::is_same<From, const T *>::value;

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

    // What is not `valid` is not loaded; who transposes moves what was there.
    template <class From, class... Valid> TRIBUNAL_MEMBER void load(From from, T (&items)[Items], Valid... valid) {
        if constexpr (WARPS) {
            LoadDirectWarpStriped(linear, from, items, valid...);
            Exchange(storage.tribunal_room).WarpStripedToBlocked(items);
        } else if constexpr (TRANSPOSES) {
            LoadDirectStriped<THREADS>(linear, from, items, valid...);
            Exchange(storage.tribunal_room).StripedToBlocked(items);
        } else if constexpr (Algorithm == BLOCK_LOAD_STRIPED) {
            LoadDirectStriped<THREADS>(linear, from, items, valid...);
        } else if constexpr (Algorithm == BLOCK_LOAD_VECTORIZE && sizeof...(Valid) == 0 && tribunal_reads<T, From>) {
            LoadDirectBlockedVectorized(linear, from, items);
        } else {
            LoadDirectBlocked(linear, from, items, valid...);
        }
    }

  public:
    TRIBUNAL_MEMBER explicit BlockLoad(TempStorage &storage) : storage(storage), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockLoad() : BlockLoad(own()) {}

    template <class From> TRIBUNAL_MEMBER void Load(From from, T (&items)[Items]) { load(from, items); }
    template <class From> TRIBUNAL_MEMBER void Load(From from, T (&items)[Items], int valid) { load(from, items, valid); }
    template <class From, class Default> TRIBUNAL_MEMBER void Load(From from, T (&items)[Items], int valid, Default other) {
        load(from, items, valid, other);
    }
};

}
