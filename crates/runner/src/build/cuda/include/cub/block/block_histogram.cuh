// How many of a block's items there are of each kind. Who reads the counts waits for all threads first, and memory that is used again needs a barrier.
#pragma once
#include "block_radix_sort.cuh"

namespace cub {

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <class T, int X, int Items, int Bins, BlockHistogramAlgorithm Algorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int = 0>
class BlockHistogram {
    static constexpr int THREADS = X * Y * Z, COUNT = THREADS * Items;
    static constexpr bool SORTS = Algorithm == BLOCK_HISTO_SORT;
    typedef BlockRadixSort<T, X, Items, NullType, 4, true, BLOCK_SCAN_WARP_SCANS, 0, Y, Z> Sort;

    struct Nothing {};
    union Sorts {
        typename Sort::TempStorage sort;
        alignas(T) unsigned char sorted[sizeof(T) * COUNT];
    };

  public:
    struct TempStorage {
        std::conditional_t<SORTS, Sorts, Nothing> tribunal_room;
    };

  private:
    TempStorage &storage;
    int linear;

    static TRIBUNAL_MEMBER TempStorage &own() {
        __shared__ TempStorage storage;
        return storage;
    }

  public:
    TRIBUNAL_MEMBER explicit BlockHistogram(TempStorage &storage) : storage(storage), linear(RowMajorTid(X, Y, Z)) {}
    TRIBUNAL_MEMBER BlockHistogram() : BlockHistogram(own()) {}

    template <class Counter> TRIBUNAL_MEMBER void InitHistogram(Counter *histogram) {
        for (int bin = linear; bin < Bins; bin += THREADS) histogram[bin] = 0;
    }
    // Who sorts leaves the items sorted, and has the first of each kind add how many there are.
    template <class Counter> TRIBUNAL_MEMBER void Composite(T (&items)[Items], Counter *histogram) {
        if constexpr (SORTS) {
            T *sorted = reinterpret_cast<T *>(storage.tribunal_room.sorted);
            Sort(storage.tribunal_room.sort).Sort(items);
            __syncthreads();
#pragma unroll
            for (int item = 0; item < Items; item++) sorted[linear * Items + item] = items[item];
            __syncthreads();
#pragma unroll
            for (int item = 0; item < Items; item++) {
                int place = linear * Items + item, end = place + 1, most = COUNT;
                if (place > 0 && sorted[place - 1] == items[item]) continue;
                while (end < most) {
                    int middle = (end + most) / 2;
                    if (sorted[middle] == items[item]) {
                        end = middle + 1;
                    } else {
                        most = middle;
                    }
                }
                histogram[items[item]] += (Counter)(end - place);
            }
        } else {
#pragma unroll
            for (int item = 0; item < Items; item++) atomicAdd(histogram + items[item], (Counter)1);
        }
    }
    template <class Counter> TRIBUNAL_MEMBER void Histogram(T (&items)[Items], Counter *histogram) {
        InitHistogram(histogram);
        __syncthreads();
        Composite(items, histogram);
    }
};

}
