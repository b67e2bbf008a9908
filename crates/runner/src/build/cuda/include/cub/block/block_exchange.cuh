// Items that go from thread to thread of a block, through shared memory: between blocked (a thread's items are neighbours) and striped (they lie a
// block's or a warp's width apart), or to where ranks say. Memory that is used again needs a barrier between.
#pragma once
#include "../util_ptx.cuh"

namespace cub {

// The same for any group of so many threads.
template <class T, int Items, int Width, class Group> struct tribunal_exchange {
    static TRIBUNAL_MEMBER int blocked(int thread, int item) { return thread * Items + item; }
    static TRIBUNAL_MEMBER int striped(int thread, int item) { return thread + item * Width; }

    template <class U> static TRIBUNAL_MEMBER void to_blocked(T *room, int thread, const T (&from)[Items], U (&to)[Items]) {
#pragma unroll
        for (int item = 0; item < Items; item++) room[striped(thread, item)] = from[item];
        Group::sync();
#pragma unroll
        for (int item = 0; item < Items; item++) to[item] = room[blocked(thread, item)];
    }
    template <class U> static TRIBUNAL_MEMBER void to_striped(T *room, int thread, const T (&from)[Items], U (&to)[Items]) {
#pragma unroll
        for (int item = 0; item < Items; item++) room[blocked(thread, item)] = from[item];
        Group::sync();
#pragma unroll
        for (int item = 0; item < Items; item++) to[item] = room[striped(thread, item)];
    }
    // Only what `goes` says has a place.
    template <class U, class Rank, class Goes>
    static TRIBUNAL_MEMBER void scatter(T *room, int thread, const T (&from)[Items], U (&to)[Items], Rank (&ranks)[Items], bool strided, Goes goes) {
#pragma unroll
        for (int item = 0; item < Items; item++) {
            if (goes(item)) room[ranks[item]] = from[item];
        }
        Group::sync();
#pragma unroll
        for (int item = 0; item < Items; item++) to[item] = room[strided ? striped(thread, item) : blocked(thread, item)];
    }
};

// Who goes slice by slice needs less memory on a device, and waits before the first slice; here all goes at once behind that.
template <class T, int X, int Items, bool Slices = false, int Y = 1, int Z = 1, int = 0> class BlockExchange {
    static constexpr int THREADS = X * Y * Z;
    typedef tribunal_exchange<T, Items, THREADS, tribunal_block> Block;
    typedef tribunal_exchange<T, Items, 32, tribunal_part<32>> Warp;

  public:
    struct TempStorage {
        alignas(T) unsigned char tribunal_bytes[sizeof(T) * THREADS * Items];
    };

  private:
    T *room;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }
    static TRIBUNAL_MEMBER void begin() {
        if constexpr (Slices) __syncthreads();
    }
    TRIBUNAL_MEMBER T *of_warp() const {
        static_assert(THREADS % 32 == 0, "who goes by warps has whole warps");
        return room + linear / 32 * 32 * Items;
    }

  public:
    TRIBUNAL_MEMBER explicit BlockExchange(TempStorage &storage)
        : room(reinterpret_cast<T *>(storage.tribunal_bytes)), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockExchange() : BlockExchange(own()) {}

    template <class U> TRIBUNAL_MEMBER void StripedToBlocked(const T (&from)[Items], U (&to)[Items]) {
        begin();
        Block::to_blocked(room, linear, from, to);
    }
    template <class U> TRIBUNAL_MEMBER void BlockedToStriped(const T (&from)[Items], U (&to)[Items]) {
        begin();
        Block::to_striped(room, linear, from, to);
    }
    template <class U> TRIBUNAL_MEMBER void WarpStripedToBlocked(const T (&from)[Items], U (&to)[Items]) {
        begin();
        Warp::to_blocked(of_warp(), linear % 32, from, to);
    }
    template <class U> TRIBUNAL_MEMBER void BlockedToWarpStriped(const T (&from)[Items], U (&to)[Items]) {
        Warp::to_striped(of_warp(), linear % 32, from, to);
    }
    template <class U, class Rank> TRIBUNAL_MEMBER void ScatterToBlocked(const T (&from)[Items], U (&to)[Items], Rank (&ranks)[Items]) {
        begin();
        Block::scatter(room, linear, from, to, ranks, false, [](int) { return true; });
    }
    template <class U, class Rank> TRIBUNAL_MEMBER void ScatterToStriped(const T (&from)[Items], U (&to)[Items], Rank (&ranks)[Items]) {
        begin();
        Block::scatter(room, linear, from, to, ranks, true, [](int) { return true; });
    }
    // What has no place, by a negative rank or a flag, goes nowhere; a place that nothing went to means nothing.
    template <class U, class Rank>
    TRIBUNAL_MEMBER void ScatterToStripedGuarded(const T (&from)[Items], U (&to)[Items], Rank (&ranks)[Items]) {
        Block::scatter(room, linear, from, to, ranks, true, [&](int item) { return ranks[item] >= 0; });
    }
    template <class U, class Rank, class Flag>
    TRIBUNAL_MEMBER void ScatterToStripedFlagged(const T (&from)[Items], U (&to)[Items], Rank (&ranks)[Items], Flag (&valid)[Items]) {
        Block::scatter(room, linear, from, to, ranks, true, [&](int item) { return (bool)valid[item]; });
    }

    TRIBUNAL_MEMBER void StripedToBlocked(T (&items)[Items]) { StripedToBlocked(items, items); }
    TRIBUNAL_MEMBER void BlockedToStriped(T (&items)[Items]) { BlockedToStriped(items, items); }
    TRIBUNAL_MEMBER void WarpStripedToBlocked(T (&items)[Items]) { WarpStripedToBlocked(items, items); }
    TRIBUNAL_MEMBER void BlockedToWarpStriped(T (&items)[Items]) { BlockedToWarpStriped(items, items); }
    template <class Rank> TRIBUNAL_MEMBER void ScatterToBlocked(T (&items)[Items], Rank (&ranks)[Items]) {
        ScatterToBlocked(items, items, ranks);
    }
    template <class Rank> TRIBUNAL_MEMBER void ScatterToStriped(T (&items)[Items], Rank (&ranks)[Items]) {
        ScatterToStriped(items, items, ranks);
    }
    template <class Rank> TRIBUNAL_MEMBER void ScatterToStripedGuarded(T (&items)[Items], Rank (&ranks)[Items]) {
        ScatterToStripedGuarded(items, items, ranks);
    }
    template <class Rank, class Flag>
    TRIBUNAL_MEMBER void ScatterToStripedFlagged(T (&items)[Items], Rank (&ranks)[Items], Flag (&valid)[Items]) {
        ScatterToStripedFlagged(items, items, ranks, valid);
    }
};

}
