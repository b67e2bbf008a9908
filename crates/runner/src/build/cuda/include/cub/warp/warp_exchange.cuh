// Items that go from lane to lane of a warp, or of parts of it, as those of blocks do. Memory that is used again needs a barrier of the warp between.
#pragma once
#include "../block/block_exchange.cuh"

namespace cub {

enum WarpExchangeAlgorithm { WARP_EXCHANGE_SMEM, WARP_EXCHANGE_SHUFFLE };

template <class T, int Items, int Threads = 32, WarpExchangeAlgorithm Algorithm = WARP_EXCHANGE_SMEM> class WarpExchange {
    typedef tribunal_part<Threads> Part;
    typedef tribunal_exchange<T, Items, Threads, Part> Exchange;

    static constexpr bool SHUFFLES = Algorithm == WARP_EXCHANGE_SHUFFLE;
    static_assert(!SHUFFLES || Items == Threads, "shuffles exchange as many items of a thread as there are threads");

    struct Room {
        alignas(T) unsigned char tribunal_bytes[sizeof(T) * Threads * Items];
    };
    T *room = nullptr;

    // Of a square of items each thread has a row, and gets a column.
    template <class U> static TRIBUNAL_MEMBER void turn(const T (&from)[Items], U (&to)[Items]) {
        unsigned int lanes = tribunal_lanes_of<Threads>((int)(blockDim.x * blockDim.y * blockDim.z));
        T column[Items];
#pragma unroll
        for (int item = 0; item < Items; item++) {
#pragma unroll
            for (int place = 0; place < Items; place++) {
                T value = ShuffleIndex<Threads>(from[place], item, lanes);
                if (place == Part::lane()) column[item] = value;
            }
        }
#pragma unroll
        for (int item = 0; item < Items; item++) to[item] = column[item];
    }

  public:
    typedef std::conditional_t<SHUFFLES, NullType, Room> TempStorage;

    TRIBUNAL_MEMBER explicit WarpExchange([[maybe_unused]] TempStorage &storage) {
        if constexpr (!SHUFFLES) room = reinterpret_cast<T *>(storage.tribunal_bytes);
    }

    template <class U> TRIBUNAL_MEMBER void BlockedToStriped(const T (&from)[Items], U (&to)[Items]) {
        if constexpr (SHUFFLES) turn(from, to);
        else Exchange::to_striped(room, Part::lane(), from, to);
    }
    template <class U> TRIBUNAL_MEMBER void StripedToBlocked(const T (&from)[Items], U (&to)[Items]) {
        if constexpr (SHUFFLES) turn(from, to);
        else Exchange::to_blocked(room, Part::lane(), from, to);
    }
    template <class U, class Rank> TRIBUNAL_MEMBER void ScatterToStriped(const T (&from)[Items], U (&to)[Items], Rank (&ranks)[Items]) {
        static_assert(!SHUFFLES, "shuffles do not scatter");
        Exchange::scatter(room, Part::lane(), from, to, ranks, true, [](int) { return true; });
    }
    template <class Rank> TRIBUNAL_MEMBER void ScatterToStriped(T (&items)[Items], Rank (&ranks)[Items]) {
        ScatterToStriped(items, items, ranks);
    }
};

}
