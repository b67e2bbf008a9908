// Items that go from lane to lane of a warp, or of parts of it, as those of blocks do. Memory that is used again needs a barrier of the warp between.
#pragma once
#include "../block/block_exchange.cuh"

namespace cub {

// Both go through memory here; shuffles have none to wait for, so that who asked for them may use it again at once.
enum WarpExchangeAlgorithm { WARP_EXCHANGE_SMEM, WARP_EXCHANGE_SHUFFLE };

template <class T, int Items, int Threads = 32, WarpExchangeAlgorithm Algorithm = WARP_EXCHANGE_SMEM> class WarpExchange {
    typedef tribunal_part<Threads> Part;
    typedef tribunal_exchange<T, Items, Threads, Part> Exchange;

  public:
    struct TempStorage {
        alignas(T) unsigned char tribunal_bytes[sizeof(T) * Threads * Items];
    };

  private:
    T *room;

    static TRIBUNAL_MEMBER void begin() {
        if constexpr (Algorithm == WARP_EXCHANGE_SHUFFLE) Part::sync();
    }

  public:
    TRIBUNAL_MEMBER explicit WarpExchange(TempStorage &storage) : room(reinterpret_cast<T *>(storage.tribunal_bytes)) {}

    template <class U> TRIBUNAL_MEMBER void BlockedToStriped(const T (&from)[Items], U (&to)[Items]) {
        begin();
        Exchange::to_striped(room, Part::lane(), from, to);
    }
    template <class U> TRIBUNAL_MEMBER void StripedToBlocked(const T (&from)[Items], U (&to)[Items]) {
        begin();
        Exchange::to_blocked(room, Part::lane(), from, to);
    }
    template <class U, class Rank> TRIBUNAL_MEMBER void ScatterToStriped(const T (&from)[Items], U (&to)[Items], Rank (&ranks)[Items]) {
        begin();
        Exchange::scatter(room, Part::lane(), from, to, ranks, true, [](int) { return true; });
    }
    template <class Rank> TRIBUNAL_MEMBER void ScatterToStriped(T (&items)[Items], Rank (&ranks)[Items]) {
        ScatterToStriped(items, items, ranks);
    }
};

}
