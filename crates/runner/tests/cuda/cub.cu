// Kernels of cub's names that the tests compile, emulate, and hold against Rust; groups.cu has the first of them.
#include <cub/block/block_shuffle.cuh>
#include <cub/cub.cuh>

struct Plus {
    __device__ int operator()(int a, int b) const { return a + b; }
};
// What does not commute: of numbers, and texts that are put together.
struct Tail {
    __device__ int operator()(int a, int b) const { return 31 * a + b; }
};
struct Text {
    unsigned int hash, power;
};
struct Append {
    __device__ Text operator()(const Text &a, const Text &b) const { return Text{a.hash * b.power + b.hash, a.power * b.power}; }
};
__device__ Text letter(int value) { return Text{(unsigned int)value, 31}; }

// What tiles before this one make, which begin with something.
template <class T, class Operator> struct Running {
    T total;
    __device__ T operator()(T aggregate) {
        T before = total;
        total = Operator()(total, aggregate);
        return before;
    }
};
typedef Running<Text, Append> Texts;
typedef Running<int, Plus> Sums;

// 25 numbers for each of 80 threads, which have 3 each; all that runs is in the second tile, which is the same as the first.
extern "C" __global__ void scans(const int *in, int *out) {
    typedef cub::BlockScan<Text, 80, cub::BLOCK_SCAN_WARP_SCANS> Scan;
    typedef cub::BlockScan<int, 80> Sum;
    __shared__ typename Scan::TempStorage room;
    __shared__ typename Sum::TempStorage sums;
    int i = threadIdx.x, numbers[3], *mine = out + 25 * i, added;
    Text letters[3], made[3], one, aggregate;
    for (int k = 0; k < 3; k++) letters[k] = letter(numbers[k] = in[3 * i + k]);
    Texts a{letter(1)}, b{letter(2)}, c{letter(3)}, d{letter(4)};
    Sums e{5}, f{6};
    Append append;
    for (int tile = 0; tile < 2; tile++) {
        Scan(room).InclusiveScan(letters[0], one, append, a);
        mine[0] = (int)one.hash;
        __syncthreads();
        Scan(room).ExclusiveScan(letters[0], one, append, b);
        mine[1] = (int)one.hash;
        __syncthreads();
        Scan(room).InclusiveScan(letters, made, append, c);
        for (int k = 0; k < 3; k++) mine[2 + k] = (int)made[k].hash;
        __syncthreads();
        for (int k = 0; k < 3; k++) made[k] = letters[k];
        Scan(room).ExclusiveScan(made, made, append, d);
        for (int k = 0; k < 3; k++) mine[5 + k] = (int)made[k].hash;
        __syncthreads();
        int totals[3];
        Sum(sums).InclusiveSum(numbers, totals, e);
        for (int k = 0; k < 3; k++) mine[8 + k] = totals[k];
        __syncthreads();
        Sum(sums).ExclusiveSum(numbers, totals, f);
        for (int k = 0; k < 3; k++) mine[11 + k] = totals[k];
        __syncthreads();
    }
    Scan(room).InclusiveScan(letters, made, letter(7), append, aggregate);
    for (int k = 0; k < 3; k++) mine[14 + k] = (int)made[k].hash;
    mine[17] = (int)aggregate.hash;
    __syncthreads();
    Scan(room).ExclusiveScan(letters, made, append, aggregate);
    for (int k = 0; k < 3; k++) mine[18 + k] = i + k > 0 ? (int)made[k].hash : 0;
    mine[21] = (int)aggregate.hash;
    __syncthreads();
    Scan(room).ExclusiveScan(letters[0], one, append, aggregate);
    mine[22] = i > 0 ? (int)one.hash : 0;
    mine[23] = (int)aggregate.hash;
    Sum(sums).ExclusiveScan(numbers[0], added, Plus());
    mine[24] = i > 0 ? added : 0;
}

// 13 numbers for each of 64 threads: segments, which begin at large numbers or end there, and scans of eighths of a warp.
extern "C" __global__ void warps(const int *in, int *out) {
    typedef cub::WarpReduce<int> Sum;
    typedef cub::WarpReduce<Text, 8> Reduce;
    typedef cub::WarpScan<Text, 8> Scan;
    __shared__ typename Sum::TempStorage sums[2];
    __shared__ typename Reduce::TempStorage reduces[8];
    __shared__ typename Scan::TempStorage rooms[8];
    int i = threadIdx.x, value = in[i], flag = value > 7, *mine = out + 13 * i, pair[2] = {value, 3 * i};
    Scan scan(rooms[i / 8]);
    int before = i % 32 > 0 && in[i - 1] > 7, before_8 = i % 8 > 0 && in[i - 1] > 7;
    int headed = Sum(sums[i / 32]).HeadSegmentedSum(value, flag);
    mine[0] = i % 32 == 0 || flag ? headed : 0;
    __syncwarp();
    int tailed = Sum(sums[i / 32]).TailSegmentedSum(value, (char)flag);
    mine[1] = i % 32 == 0 || before ? tailed : 0;
    Text text = Reduce(reduces[i / 8]).HeadSegmentedReduce(letter(value), flag, Append());
    mine[2] = i % 8 == 0 || flag ? (int)text.hash : 0;
    __syncwarp();
    text = Reduce(reduces[i / 8]).TailSegmentedReduce(letter(value), flag, Append());
    mine[3] = i % 8 == 0 || before_8 ? (int)text.hash : 0;
    Text inclusive, exclusive, aggregate;
    scan.Scan(letter(value), inclusive, exclusive, Append());
    mine[4] = (int)inclusive.hash;
    mine[5] = i % 8 > 0 ? (int)exclusive.hash : 0;
    __syncwarp();
    scan.Scan(letter(value), inclusive, exclusive, letter(7), Append());
    mine[6] = (int)inclusive.hash;
    mine[7] = (int)exclusive.hash;
    __syncwarp();
    scan.InclusiveScan(letter(value), inclusive, letter(7), Append(), aggregate);
    mine[8] = (int)inclusive.hash;
    mine[9] = (int)aggregate.hash;
    __syncwarp();
    scan.ExclusiveScan(letter(value), exclusive, Append(), aggregate);
    mine[10] = i % 8 > 0 ? (int)exclusive.hash : 0;
    mine[11] = (int)aggregate.hash + (int)scan.Broadcast(letter(value), 3).hash;
    __syncwarp();
    int both = Sum(sums[i / 32]).Sum(pair);
    mine[12] = i % 32 == 0 ? both : 0;
}

// Tiles of 96 threads of 4 numbers, with all, with some, and with something in the place of the others: what each thread has, and what is written.
template <class Load, class Store> __device__ void tile(int way, const int *in, int *own, int *back, Load load, Store store) {
    int items[4], i = 4 * threadIdx.x, valid = 329;
    own += 3 * 384 * way;
    back += 2 * 384 * way;
    load(in, items);
    for (int k = 0; k < 4; k++) own[i + k] = items[k];
    __syncthreads();
    store(back, items);
    for (int k = 0; k < 4; k++) items[k] = -7;
    __syncthreads();
    load(in, items, valid);
    for (int k = 0; k < 4; k++) own[384 + i + k] = items[k];
    __syncthreads();
    load(in, items, valid, (short)-1);
    for (int k = 0; k < 4; k++) own[768 + i + k] = items[k];
    __syncthreads();
    store(back + 384, items, valid);
}
// Each 16 threads for themselves.
template <cub::WarpLoadAlgorithm Load, cub::WarpStoreAlgorithm Store> __device__ void parts(int way, const int *in, int *own, int *back) {
    typedef cub::WarpLoad<int, 4, Load, 16> Loads;
    typedef cub::WarpStore<int, 4, Store, 16> Stores;
    __shared__ typename Loads::TempStorage loads[6];
    __shared__ typename Stores::TempStorage stores[6];
    int part = threadIdx.x / 16;
    Loads from(loads[part]);
    Stores to(stores[part]);
    tile(
        way, in, own, back,
        [&](const int *in, auto &items, auto... more) {
            if constexpr (sizeof...(more) == 0) {
                from.Load(in + 64 * part, items);
            } else {
                auto load = [&](int valid, auto... other) { from.Load(in + 64 * part, items, valid - 64 * part, other...); };
                load(more...);
            }
        },
        [&](int *out, auto &items, auto... valid) { to.Store(out + 64 * part, items, (valid - 64 * part)...); });
}
typedef cub::CacheModifiedInputIterator<cub::LOAD_LDG, int> Cached;
extern "C" __global__ void tiles(const int *in, int *own, int *back) {
    int i = threadIdx.x;
#define TILE(way, Load, Store)                                                                                 \
    tile(                                                                                                      \
        way, in, own, back, [&](const int *from, auto &to, auto... more) { Load(i, Cached(from), to, more...); }, \
        [&](int *to, auto &from, auto... more) { Store(i, to, from, more...); });
    TILE(0, cub::LoadDirectBlocked, cub::StoreDirectBlocked)
    TILE(1, cub::LoadDirectStriped<96>, cub::StoreDirectStriped<96>)
    TILE(2, cub::LoadDirectWarpStriped, cub::StoreDirectWarpStriped)
#undef TILE
    parts<cub::WARP_LOAD_DIRECT, cub::WARP_STORE_DIRECT>(3, in, own, back);
    parts<cub::WARP_LOAD_STRIPED, cub::WARP_STORE_STRIPED>(4, in, own, back);
    parts<cub::WARP_LOAD_VECTORIZE, cub::WARP_STORE_VECTORIZE>(5, in, own, back);
    parts<cub::WARP_LOAD_TRANSPOSE, cub::WARP_STORE_TRANSPOSE>(6, in, own, back);
    // By way of a block, from what is no pointer.
    typedef cub::BlockLoad<int, 96, 4, cub::BLOCK_LOAD_VECTORIZE> Loads;
    typedef cub::BlockStore<int, 96, 4, cub::BLOCK_STORE_WARP_TRANSPOSE> Stores;
    __shared__ typename Loads::TempStorage loads;
    __shared__ typename Stores::TempStorage stores;
    tile(
        7, in, own, back, [&](const int *in, auto &items, auto... more) { Loads(loads).Load(Cached(in), items, more...); },
        [&](int *out, auto &items, auto... valid) { Stores(stores).Store(out, items, valid...); });
}

// What all threads have of some items each, of which `ranks` says where each goes.
template <class T, int Items> __device__ void keep(int *&out, T (&items)[Items], int threads) {
    for (int k = 0; k < Items; k++) out[Items * threadIdx.x + k] = (int)items[k];
    out += Items * threads;
}
template <int Threads, bool Slices> __device__ int *exchange(const int *in, const int *ranks, int *out) {
    typedef cub::BlockExchange<int, Threads, 3, Slices> Exchange;
    __shared__ typename Exchange::TempStorage room;
    int items[3], places[3];
    float made[3];
    cub::LoadDirectBlocked(threadIdx.x, in, items);
    cub::LoadDirectBlocked(threadIdx.x, ranks, places);
    Exchange(room).StripedToBlocked(items, made);
    keep(out, made, Threads);
    __syncthreads();
    Exchange(room).BlockedToStriped(items, made);
    keep(out, made, Threads);
    __syncthreads();
    Exchange(room).ScatterToBlocked(items, made, places);
    keep(out, made, Threads);
    __syncthreads();
    Exchange(room).ScatterToStriped(items, places);
    keep(out, items, Threads);
    return out;
}
extern "C" __global__ void exchanges(const int *in, const int *ranks, int *out) {
    out = exchange<80, false>(in, ranks, out);
    __syncthreads();
    out = exchange<80, true>(in, ranks, out);
    // Every second one has no place.
    typedef cub::BlockExchange<int, 80, 3> Exchange;
    __shared__ typename Exchange::TempStorage room;
    int items[3], places[3], flags[3];
    cub::LoadDirectBlocked(threadIdx.x, in, items);
    cub::LoadDirectBlocked(threadIdx.x, ranks, places);
    for (int k = 0; k < 3; k++) {
        flags[k] = places[k] % 2 == 0;
        places[k] = flags[k] ? places[k] / 2 : -1;
    }
    Exchange(room).BlockedToStriped(items);
    __syncthreads();
    Exchange(room).StripedToBlocked(items);
    __syncthreads();
    for (int k = 0; k < 3; k++) places[k] = flags[k] ? places[k] : 120 + (3 * threadIdx.x + k) / 2;
    int moved[3];
    Exchange(room).ScatterToStripedFlagged(items, moved, places, flags);
    for (int k = 0; k < 3; k++)
        if (threadIdx.x + 80 * k < 120) out[threadIdx.x + 80 * k] = moved[k];
    __syncthreads();
    for (int k = 0; k < 3; k++) places[k] = flags[k] ? places[k] : -1;
    Exchange(room).ScatterToStripedGuarded(items, places);
    for (int k = 0; k < 3; k++)
        if (threadIdx.x + 80 * k < 120) out[120 + threadIdx.x + 80 * k] = items[k];
}
template <bool Slices> __device__ int *strips(const int *in, int *out) {
    typedef cub::BlockExchange<int, 64, 5, Slices> Exchange;
    __shared__ typename Exchange::TempStorage room;
    int items[5];
    cub::LoadDirectBlocked(threadIdx.x, in, items);
    Exchange(room).WarpStripedToBlocked(items);
    keep(out, items, 64);
    __syncthreads();
    cub::LoadDirectBlocked(threadIdx.x, in, items);
    Exchange(room).BlockedToWarpStriped(items);
    keep(out, items, 64);
    return out;
}
extern "C" __global__ void warp_exchanges(const int *in, const int *ranks, int *out) {
    out = strips<false>(in, out);
    __syncthreads();
    out = strips<true>(in, out);
    typedef cub::WarpExchange<int, 5, 8> Exchange;
    __shared__ typename Exchange::TempStorage rooms[8];
    Exchange exchange(rooms[threadIdx.x / 8]);
    int items[5], made[5], places[5];
    cub::LoadDirectBlocked(threadIdx.x, in, items);
    cub::LoadDirectBlocked(threadIdx.x % 8, ranks, places);
    exchange.StripedToBlocked(items, made);
    keep(out, made, 64);
    __syncwarp();
    exchange.BlockedToStriped(items, made);
    keep(out, made, 64);
    __syncwarp();
    exchange.ScatterToStriped(items, places);
    keep(out, items, 64);
    // Shuffles have no memory to wait for.
    typedef cub::WarpExchange<int, 8, 8, cub::WARP_EXCHANGE_SHUFFLE> Shuffle;
    __shared__ typename Shuffle::TempStorage shuffles[8];
    int eight[8];
    for (int k = 0; k < 8; k++) eight[k] = 8 * threadIdx.x + k;
    Shuffle(shuffles[threadIdx.x / 8]).BlockedToStriped(eight, eight);
    keep(out, eight, 64);
    Shuffle(shuffles[threadIdx.x / 8]).StripedToBlocked(eight, eight);
    keep(out, eight, 64);
}

// By what is left of a division alone, so that whether it is stable shows.
struct Remainder {
    __device__ bool operator()(int a, int b) const { return (a + 20) % 7 > (b + 20) % 7; }
};
struct Less {
    template <class T> __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};
// Keys and their places: of all 64 threads, of halves of warps, and the first 100 of all.
extern "C" __global__ void merges(const int *in, int *out) {
    typedef cub::BlockMergeSort<int, 64, 5, unsigned char> Block;
    typedef cub::BlockMergeSort<double, 64, 2> Keys;
    typedef cub::WarpMergeSort<int, 3, 16, double> Warp;
    typedef cub::WarpMergeSort<int, 1> Ones;
    __shared__ typename Block::TempStorage block;
    __shared__ typename Keys::TempStorage keys;
    __shared__ typename Warp::TempStorage warps[4];
    __shared__ typename Ones::TempStorage ones[2];
    int i = threadIdx.x, five[5], three[3], one[1] = {in[i]};
    unsigned char places[5];
    double two[2], homes[3];
    cub::LoadDirectBlocked(i, in, five);
    for (int k = 0; k < 5; k++) places[k] = (unsigned char)(5 * i + k);
    Block(block).StableSort(five, places, Remainder());
    keep(out, five, 64);
    keep(out, places, 64);
    // It waits before it begins.
    cub::LoadDirectBlocked(i, in, five);
    for (int k = 0; k < 5; k++) places[k] = (unsigned char)(5 * i + k);
    Block(block).Sort(five, places, Remainder(), 100, 1);
    for (int k = 0; k < 5; k++)
        if (5 * i + k < 100) out[5 * i + k] = five[k], out[100 + 5 * i + k] = places[k];
    out += 200;
    cub::LoadDirectBlocked(i, in, two);
    Keys(keys).Sort(two, Less());
    keep(out, two, 64);
    cub::LoadDirectBlocked(i, in, three);
    for (int k = 0; k < 3; k++) homes[k] = 3 * i + k;
    Warp(warps[i / 16]).StableSort(three, homes, Remainder());
    keep(out, three, 64);
    keep(out, homes, 64);
    Ones(ones[i / 32]).Sort(one, Less(), 19, 1000);
    out[i] = i % 32 < 19 ? one[0] : 0;
}

struct Differ {
    __device__ bool operator()(int a, int b) const { return a != b; }
};
// Of pairs that begin at even places alone.
struct Even {
    __device__ bool operator()(int a, int b, int place) const { return a != b && place % 2 == 0; }
};
// 16 rows of what each of 80 threads has of 3 items.
extern "C" __global__ void neighbours(const int *in, int *out) {
    typedef cub::BlockDiscontinuity<int, 80> Flags;
    typedef cub::BlockAdjacentDifference<int, 80> Difference;
    typedef cub::BlockShuffle<int, 80> Shuffle;
    __shared__ typename Flags::TempStorage room;
    __shared__ typename Difference::TempStorage difference;
    __shared__ typename Shuffle::TempStorage shuffle;
    int i = threadIdx.x, items[3], heads[3], tails[3], moved[3] = {-1, -2, -3}, end;
    cub::LoadDirectBlocked(i, in, items);
    auto keep = [&](int (&items)[3]) {
        for (int k = 0; k < 3; k++) out[3 * i + k] = items[k];
        out += 240;
    };
    // Heads and tails lie apart.
    Flags(room).FlagHeads(heads, items, Differ());
    keep(heads);
    Flags(room).FlagTails(tails, items, Even());
    keep(tails);
    __syncthreads();
    Flags(room).FlagHeads(heads, items, moved, Even(), 0);
    keep(heads);
    keep(moved);
    Flags(room).FlagTails(tails, items, Differ(), 0);
    keep(tails);
    __syncthreads();
    Flags(room).FlagHeadsAndTails(heads, tails, items, Differ());
    for (int k = 0; k < 3; k++) heads[k] = 10 * heads[k] + tails[k];
    keep(heads);
    __syncthreads();
    Flags(room).FlagHeadsAndTails(heads, 0, tails, 0, items, Differ());
    for (int k = 0; k < 3; k++) heads[k] = 10 * heads[k] + tails[k];
    keep(heads);
    __syncthreads();
    Flags(room).FlagHeadsAndTails(heads, tails, 0, items, Even());
    for (int k = 0; k < 3; k++) heads[k] = 10 * heads[k] + tails[k];
    keep(heads);
    __syncthreads();
    Flags(room).FlagHeadsAndTails(heads, 0, tails, items, Differ());
    for (int k = 0; k < 3; k++) heads[k] = 10 * heads[k] + tails[k];
    keep(heads);
    for (int k = 0; k < 3; k++) moved[k] = -1;
    Shuffle(shuffle).Up(items, moved, end);
    moved[1] += 1000 * end;
    keep(moved);
    __syncthreads();
    for (int k = 0; k < 3; k++) moved[k] = -1;
    Shuffle(shuffle).Down(items, moved, end);
    moved[0] += 1000 * end;
    keep(moved);
    __syncthreads();
    for (int k = 0; k < 3; k++) moved[k] = -1;
    Shuffle(shuffle).Offset(items[0], moved[0], -33);
    __syncthreads();
    Shuffle(shuffle).Offset(items[0], moved[1]);
    __syncthreads();
    Shuffle(shuffle).Rotate(items[0], moved[2], 50);
    keep(moved);
    // The whole tile between other numbers, and parts of it.
    Difference(difference).SubtractLeft(items, heads, Tail(), 3);
    keep(heads);
    Difference(difference).SubtractRight(items, tails, Tail(), 4);
    keep(tails);
    __syncthreads();
    for (int k = 0; k < 3; k++) moved[k] = items[k];
    Difference(difference).SubtractLeftPartialTile(moved, moved, Tail(), 134);
    keep(moved);
    Difference(difference).SubtractRightPartialTile(items, items, Tail(), 134);
    keep(items);
}

// How many there are of each number from 0 to 40, counted in two ways, in shared memory and twice in global memory.
extern "C" __global__ void counts(const int *in, int *out) {
    typedef cub::BlockHistogram<unsigned char, 80, 3, 41> Sorts;
    typedef cub::BlockHistogram<int, 80, 3, 41, cub::BLOCK_HISTO_ATOMIC> Atomics;
    __shared__ typename Sorts::TempStorage sorts;
    __shared__ typename Atomics::TempStorage atomics;
    __shared__ unsigned short by_sort[41];
    __shared__ unsigned int by_atomics[41];
    int i = threadIdx.x, items[3];
    unsigned char small[3];
    for (int k = 0; k < 3; k++) small[k] = (unsigned char)(items[k] = in[3 * i + k] + 20);
    Sorts(sorts).Histogram(small, by_sort);
    Atomics(atomics).Histogram(items, by_atomics);
    __syncthreads();
    if (i < 41) out[i] = by_sort[i], out[41 + i] = (int)by_atomics[i];
    Sorts(sorts).InitHistogram(out + 82);
    for (int twice = 0; twice < 2; twice++) {
        __syncthreads();
        Sorts(sorts).Composite(small, out + 82);
    }
}

struct Wide {
    double number;
    int key, rest;
};
struct Narrow {
    short a, b, c;
};
struct Doubled {
    __device__ float operator()(int value) const { return 2.0f * (float)value; }
};
// 10 numbers for each of 32 threads: what a thread does alone.
extern "C" __global__ void alone(const int *in, int *out, Wide *wide, Narrow *narrow, float4 *vectors) {
    int i = threadIdx.x, all[4], *mine = out + 10 * i;
    cub::LoadDirectBlocked(i, in, all);
    // A view of so many is as large as a pointer.
    std::span<int, 4> view(all);
    mine[0] = i % 2 ? cub::ThreadReduce(view, Plus()) : cub::ThreadReduce(all, Plus());
    mine[1] = (int)cub::ThreadReduce(all, Tail(), 7);
    mine[2] = cub::ThreadLoad<cub::LOAD_CG>(in + i);
    mine[3] = cub::ThreadLoad<cub::LOAD_VOLATILE>(in + i) + cub::ThreadLoad<cub::LOAD_DEFAULT>(in + i);
    cub::ThreadStore<cub::STORE_CG>(wide + i, Wide{0.5 * i, i, all[0]});
    mine[4] = cub::ThreadLoad<cub::LOAD_CV>(wide + i).rest + (int)cub::ThreadLoad<cub::LOAD_VOLATILE>(wide + i).number;
    cub::ThreadStore<cub::STORE_VOLATILE>(narrow + i, Narrow{(short)i, (short)all[1], (short)all[2]});
    cub::ThreadStore<cub::STORE_WT>(vectors + i, make_float4(1, 2, 3, (float)i));
    mine[5] = cub::ThreadLoad<cub::LOAD_CA>(narrow + i).c + (int)cub::ThreadLoad<cub::LOAD_CS>(vectors + i).w;
    cub::ThreadStore<cub::STORE_DEFAULT>(mine + 6, (int)sizeof(cub::Uninitialized<Wide>));
    cub::CacheModifiedInputIterator<cub::LOAD_LDG, int> cached(in);
    cached += i;
    mine[7] = *cached + 100 * cached[3] + 10000 * (int)(cached + 5 - cached);
    cub::CountingInputIterator<int> counting(5);
    cub::TransformInputIterator<float, Doubled, cub::CountingInputIterator<int>> doubled(counting + i, Doubled());
    mine[8] = (int)doubled[2];
    mine[9] = cub::DivideAndRoundUp(i, 5);
}

// The bits of numbers in the order of the numbers, and the numbers again: of four kinds, for 64 threads.
template <class T> __device__ void twiddled(T number, int *ordered, int *again) {
    typedef cub::Traits<T> Traits;
    typename Traits::UnsignedBits bits;
    __builtin_memcpy(&bits, &number, sizeof(T));
    *ordered = (int)(Traits::TwiddleIn(bits) - Traits::TwiddleIn(Traits::LOWEST_KEY));
    *again = Traits::TwiddleOut(Traits::TwiddleIn(bits)) == bits;
}
extern "C" __global__ void bits(const int *in, int *out) {
    int i = threadIdx.x, number = in[i], *mine = out + 24 * i;
    float real = i == 5 ? -0.0f : i == 4 ? 0.0f : number * 1.5f;
    twiddled(real, mine, mine + 1);
    twiddled(__float2half(real), mine + 2, mine + 3);
    twiddled(number, mine + 4, mine + 5);
    twiddled((unsigned char)number, mine + 6, mine + 7);
    typedef cub::Traits<__nv_bfloat16> Brain;
    mine[8] = (int)cub::Traits<float>::MAX_KEY, mine[9] = (int)cub::Traits<float>::LOWEST_KEY;
    mine[10] = (int)cub::Traits<const int>::MAX_KEY, mine[11] = (int)cub::Traits<int>::LOWEST_KEY;
    mine[12] = (int)cub::Traits<__half>::Max(), mine[13] = __bfloat16_as_short(Brain::Lowest());
    mine[14] = cub::Traits<short>::Max(), mine[15] = cub::Traits<unsigned char>::Lowest();
    mine[16] = (int)cub::BFE((unsigned int)number, 3, 7);
    unsigned int field;
    cub::BFI(field, 0xffffffff, (unsigned int)number, 4, 5);
    mine[17] = (int)field;
    mine[18] = __popc(cub::LaneMaskLt()) + 100 * __popc(cub::LaneMaskGe());
    mine[19] = __popc(cub::LaneMaskLe()) + 100 * __popc(cub::LaneMaskGt());
    mine[20] = cub::WARP_BALLOT(number > 0, 0xffffffff);
    mine[21] = cub::WARP_ANY(number > 19, 0xffffffff) + 2 * cub::WARP_ALL(number < 20, 0xffffffff);
    mine[22] = (cub::CTA_SYNC_OR(number == 20) != 0) + 2 * (cub::CTA_SYNC_AND(number < 21) != 0);
    __shared__ int handed[64];
    handed[i] = number;
    cub::WARP_SYNC(0xffffffff);
    mine[23] = handed[i ^ 1];
    cub::CTA_SYNC();
    mine[23] += handed[63 - i];
}

// Who uses storage again, and does not wait.
extern "C" __global__ void hasty_exchange(int *out) {
    typedef cub::BlockExchange<int, 64, 2> Exchange;
    __shared__ typename Exchange::TempStorage room;
    int items[2] = {(int)threadIdx.x, 2};
    Exchange(room).StripedToBlocked(items);
    Exchange(room).StripedToBlocked(items);
    out[threadIdx.x] = items[0];
}
extern "C" __global__ void hasty_warp(int *out) {
    typedef cub::WarpExchange<int, 2> Exchange;
    __shared__ typename Exchange::TempStorage rooms[2];
    int items[2] = {(int)threadIdx.x, 2};
    Exchange(rooms[threadIdx.x / 32]).StripedToBlocked(items, items);
    Exchange(rooms[threadIdx.x / 32]).StripedToBlocked(items, items);
    out[threadIdx.x] = items[0];
}
extern "C" __global__ void hasty_flags(int *out) {
    typedef cub::BlockDiscontinuity<int, 64> Flags;
    __shared__ typename Flags::TempStorage room;
    int items[2] = {1, (int)threadIdx.x}, heads[2];
    Flags(room).FlagHeads(heads, items, Differ());
    items[1] = heads[0];
    Flags(room).FlagHeads(heads, items, Differ());
    out[threadIdx.x] = heads[0];
}
