// A tile of memory that a warp writes, or each part of one, as blocks store theirs.
#pragma once
#include "../block/block_store.cuh"
#include "warp_exchange.cuh"

namespace cub {

enum WarpStoreAlgorithm { WARP_STORE_DIRECT, WARP_STORE_STRIPED, WARP_STORE_VECTORIZE, WARP_STORE_TRANSPOSE };

template <class T, int Items, WarpStoreAlgorithm Algorithm = WARP_STORE_DIRECT, int Threads = 32, int = 0> class WarpStore {
    typedef WarpExchange<T, Items, Threads> Exchange;

    struct Nothing {};

  public:
    struct TempStorage {
        std::conditional_t<Algorithm == WARP_STORE_TRANSPOSE, typename Exchange::TempStorage, Nothing> tribunal_room;
    };

  private:
    TempStorage &storage;
    int lane;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

    template <class To, class... Valid> TRIBUNAL_MEMBER void store(To to, T (&items)[Items], Valid... valid) {
        if constexpr (Algorithm == WARP_STORE_TRANSPOSE) {
            Exchange(storage.tribunal_room).BlockedToStriped(items, items);
            StoreDirectStriped<Threads>(lane, to, items, valid...);
        } else if constexpr (Algorithm == WARP_STORE_STRIPED) {
            StoreDirectStriped<Threads>(lane, to, items, valid...);
        } else if constexpr (Algorithm == WARP_STORE_VECTORIZE && sizeof...(Valid) == 0 && std::is_same<To, T *>::value) {
            StoreDirectBlockedVectorized(lane, to, items);
        } else {
            StoreDirectBlocked(lane, to, items, valid...);
        }
    }

  public:
    TRIBUNAL_MEMBER explicit WarpStore(TempStorage &storage) : storage(storage), lane(tribunal_part<Threads>::lane()) {}
    TRIBUNAL_MEMBER WarpStore() : WarpStore(own()) {}

    template <class To> TRIBUNAL_MEMBER void Store(To to, T (&items)[Items]) { store(to, items); }
    template <class To> TRIBUNAL_MEMBER void Store(To to, T (&items)[Items], int valid) { store(to, items, valid); }
};

}
