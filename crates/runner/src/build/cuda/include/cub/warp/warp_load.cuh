// A tile of memory for a warp, or for each part of one, as blocks load theirs.
#pragma once
#include "../block/block_load.cuh"
#include "warp_exchange.cuh"

namespace cub {

enum WarpLoadAlgorithm { WARP_LOAD_DIRECT, WARP_LOAD_STRIPED, WARP_LOAD_VECTORIZE, WARP_LOAD_TRANSPOSE };

template <class T, int Items, WarpLoadAlgorithm Algorithm = WARP_LOAD_DIRECT, int Threads = 32, int = 0> class WarpLoad {
    typedef WarpExchange<T, Items, Threads> Exchange;

    struct Nothing {};

  public:
    struct TempStorage {
        std::conditional_t<Algorithm == WARP_LOAD_TRANSPOSE, typename Exchange::TempStorage, Nothing> tribunal_room;
    };

  private:
    TempStorage &storage;
    int lane;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

    template <class From, class... Valid> TRIBUNAL_MEMBER void load(From from, T (&items)[Items], Valid... valid) {
        if constexpr (Algorithm == WARP_LOAD_TRANSPOSE) {
            LoadDirectStriped<Threads>(lane, from, items, valid...);
            Exchange(storage.tribunal_room).StripedToBlocked(items, items);
        } else if constexpr (Algorithm == WARP_LOAD_STRIPED) {
            LoadDirectStriped<Threads>(lane, from, items, valid...);
        } else if constexpr (Algorithm == WARP_LOAD_VECTORIZE && sizeof...(Valid) == 0 && tribunal_reads<T, From>) {
            LoadDirectBlockedVectorized(lane, from, items);
        } else {
            LoadDirectBlocked(lane, from, items, valid...);
        }
    }

  public:
    TRIBUNAL_MEMBER explicit WarpLoad(TempStorage &storage) : storage(storage), lane(tribunal_part<Threads>::lane()) {}
    TRIBUNAL_MEMBER WarpLoad() : WarpLoad(own()) {}

    template <class From> TRIBUNAL_MEMBER void Load(From from, T (&items)[Items]) { load(from, items); }
    template <class From> TRIBUNAL_MEMBER void Load(From from, T (&items)[Items], int valid) { load(from, items, valid); }
    template <class From, class Default> TRIBUNAL_MEMBER void Load(From from, T (&items)[Items], int valid, Default other) {
        load(from, items, valid, other);
    }
};

}
